"""MAVLink GPS_INPUT: ArduPilot takes the localizer for a GPS receiver."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import Any

from x2localizer.errors import optional
from x2localizer.sinks.live.address import SinkAddress
from x2localizer.sinks.live.base import live_sinks
from x2localizer.sinks.live.nmea_sentences import least_satellites
from x2localizer.sinks.live.receiver import ReceiverSink
from x2localizer.sinks.live.reckon import Epoch, axes_of

GPS_EPOCH = datetime(1980, 1, 6, tzinfo=UTC)
LEAP_S = 18
"""Seconds that GPS time is ahead of UTC since 2017."""
WEEK_MS = 7 * 24 * 3600 * 1000
NO_FIX, FIX_2D, FIX_3D = 1, 2, 3
NO_ALTITUDE, NO_HDOP, NO_VDOP, NO_VELOCITY, NO_CLIMB, NO_SPEED_SD, NO_HEIGHT_SD = 1, 2, 4, 8, 16, 32, 128
"""Flags for what we do not know."""


@live_sinks.register
class MavLink(ReceiverSink):
    """``mavlink+udp://127.0.0.1:14550``, ``mavlink+tcp://127.0.0.1:5790`` (a server), ``mavlink+serial:///dev/ttyS0``.

    rate: messages per second, 1 to 10; 5 by default.
    altitude: height above the sea in metres; with it a position is a 3D fix, which most autopilots ask for.
    satellites: a number to state, as autopilots refuse fixes with few; 3 by default, 4 with an altitude.
    gps, system, component: number of the receiver, and where the messages say that they come from.
    baud: of a serial line; 38400 by default.
    """

    name = "mavlink"
    schemes = ("mavlink+udp", "mavlink+tcp", "mavlink+serial")
    known = ("altitude", "satellites", "gps", "system", "component")
    default_rate_hz = 5.0
    default_port = 14550  # where ground stations listen
    epoch_bytes = 100

    def __init__(self, address: SinkAddress) -> None:
        super().__init__(address)
        self.altitude_m = address.optional("altitude", -500, 10_000)
        self.satellites = address.whole("satellites", least_satellites(self.altitude_m), 0, 99)
        self.gps = address.whole("gps", 0, 0, 3)
        self._dialect: Any = optional("pymavlink.dialects.v20.common", "pymavlink", "MAVLink")
        self._link: Any = self._dialect.MAVLink(
            None, srcSystem=address.whole("system", 1, 1, 255), srcComponent=address.whole("component", 220, 1, 255)
        )
        self._heartbeat_s = -math.inf

    def message(self, epoch: Epoch) -> bytes:
        """GPS_INPUT, once a second after a HEARTBEAT, by which routers learn of us."""
        data = b""
        if time.monotonic() - self._heartbeat_s >= 1.0:
            self._heartbeat_s = time.monotonic()
            d = self._dialect
            beat = self._link.heartbeat_encode(d.MAV_TYPE_GPS, d.MAV_AUTOPILOT_INVALID, 0, 0, d.MAV_STATE_ACTIVE)
            data = self._packed(beat)
        return data + self._packed(self._link.gps_input_encode(**self._fields(epoch)))

    def _packed(self, message: Any) -> bytes:
        data = bytes(message.pack(self._link))
        self._link.seq = (self._link.seq + 1) % 256
        return data

    def _fields(self, epoch: Epoch) -> dict[str, Any]:
        utc = datetime.now(UTC) if epoch.time_s is None else self.utc(epoch.time_s)
        since_ms = int((utc - GPS_EPOCH).total_seconds() * 1000) + LEAP_S * 1000
        fields: dict[str, Any] = {
            "time_usec": int(utc.timestamp() * 1e6), "gps_id": self.gps, "time_week": since_ms // WEEK_MS,
            "time_week_ms": since_ms % WEEK_MS, "satellites_visible": 0, "fix_type": NO_FIX, "lat": 0, "lon": 0,
            "alt": 0.0, "hdop": 0.0, "vdop": 0.0, "vn": 0.0, "ve": 0.0, "vd": 0.0, "speed_accuracy": 0.0,
            "horiz_accuracy": 0.0, "vert_accuracy": 0.0, "yaw": 0,
        }  # fmt: skip
        ignored = NO_HDOP | NO_VDOP | NO_CLIMB | NO_HEIGHT_SD
        if epoch.position is None:
            return fields | {"ignore_flags": ignored | NO_ALTITUDE | NO_VELOCITY | NO_SPEED_SD}
        fields |= {
            "fix_type": FIX_2D if self.altitude_m is None else FIX_3D, "satellites_visible": self.satellites,
            "lat": round(epoch.position.lat_deg * 1e7), "lon": round(epoch.position.lon_deg * 1e7),
            "horiz_accuracy": axes_of(epoch.covariance_m2)[0], "alt": self.altitude_m or 0.0,
        }  # fmt: skip
        ignored |= NO_ALTITUDE if self.altitude_m is None else 0
        if epoch.heading_deg is not None:
            fields["yaw"] = round(epoch.heading_deg * 100) % 36_000 or 36_000  # 0 means unknown
        if epoch.speed_m_s is None or epoch.heading_deg is None:
            return fields | {"ignore_flags": ignored | NO_VELOCITY | NO_SPEED_SD}
        heading = math.radians(epoch.heading_deg)
        fields |= {"vn": epoch.speed_m_s * math.cos(heading), "ve": epoch.speed_m_s * math.sin(heading)}
        ignored |= NO_SPEED_SD if epoch.speed_sd_m_s is None else 0
        return fields | {"speed_accuracy": epoch.speed_sd_m_s or 0.0, "ignore_flags": ignored}
