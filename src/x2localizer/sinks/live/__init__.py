"""Fixes for other programs while the camera drives: one file per protocol, chosen by address, one registry.

with open_sinks(["nmea://127.0.0.1:10110", "mqtt://127.0.0.1/car/1"]) as live:
    live.start(start_time)
    for fix in fixes:
        live.fix(fix)
"""

from x2localizer.sinks.live.address import SinkAddress
from x2localizer.sinks.live.base import LiveSink, live_sinks
from x2localizer.sinks.live.reckon import Epoch, Reckoner
from x2localizer.sinks.live.several import LiveSinks, open_sinks

__all__ = ["Epoch", "LiveSink", "LiveSinks", "Reckoner", "SinkAddress", "live_sinks", "open_sinks"]
