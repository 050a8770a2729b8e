"""NMEA 0183: gpsd, QGIS, OpenCPN and many others take the localizer for a GPS receiver."""

from __future__ import annotations

from x2localizer.errors import SinkError, nearest
from x2localizer.sinks.live.address import SinkAddress
from x2localizer.sinks.live.base import live_sinks
from x2localizer.sinks.live.nmea_sentences import KINDS, LONGEST, least_satellites, sentences
from x2localizer.sinks.live.receiver import ReceiverSink
from x2localizer.sinks.live.reckon import Epoch


@live_sinks.register
class Nmea(ReceiverSink):
    """``nmea://127.0.0.1:10110`` is a TCP server; also ``nmea+udp://HOST:PORT`` and ``nmea+serial:///dev/ttyUSB0``.

    rate: epochs per second, 1 to 10.
    sentences: which, by comma; RMC,GGA,GST,VTG by default.
    altitude: height above the sea in metres, if it is known; without it positions are 2D fixes.
    satellites: a number to state, as programs refuse fixes with few; 3 by default, 4 with an altitude.
    talker: two letters; GN by default.
    baud: of a serial line; 38400 by default.
    """

    name = "nmea"
    schemes = ("nmea", "nmea+tcp", "nmea+udp", "nmea+serial")
    known = ("sentences", "altitude", "satellites", "talker")
    default_port = 10110  # registered for NMEA 0183

    def __init__(self, address: SinkAddress) -> None:
        super().__init__(address)
        wanted = [kind.strip().upper() for kind in address.word("sentences", ",".join(KINDS)).split(",")]
        for kind in wanted:
            if kind not in KINDS:
                raise SinkError(f"{address.text} asks for the sentence '{kind}'.", nearest(kind, KINDS))
        self.kinds = tuple(kind for kind in KINDS if kind in wanted)
        self.altitude_m = address.optional("altitude", -500, 10_000)
        self.satellites = address.whole("satellites", least_satellites(self.altitude_m), 0, 99)
        self.talker = address.word("talker", "GN").upper()
        if len(self.talker) != 2 or not (self.talker.isascii() and self.talker.isalpha()):
            raise SinkError(f"{address.text} has the talker '{self.talker}'.", "Use two letters, such as GP or GN.")
        self.epoch_bytes = LONGEST * len(self.kinds)

    def message(self, epoch: Epoch) -> bytes:
        """The sentences of an epoch."""
        utc = None if epoch.time_s is None else self.utc(epoch.time_s)
        return sentences(
            epoch, utc, self.kinds, talker=self.talker, altitude_m=self.altitude_m, satellites=self.satellites
        )
