"""NMEA 0183 sentences of an epoch: GGA, RMC, GST and VTG.

Without a position GGA has quality 0, RMC status V, VTG mode N, and all fields of position, course and precision are
empty. The height is unknown, unless a user states it: programs then take a position as a 2D fix.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import reduce

from x2localizer.sinks.live.reckon import Epoch, axes_of

KINDS = ("RMC", "GGA", "GST", "VTG")
"""In the order of sending: programs that read in cycles take the first sentence with a new time as the start of one."""
LONGEST = 82
"""Characters of a sentence with its line end, by the standard."""
KNOT_M_S = 1852 / 3600


def sentences(
    epoch: Epoch, utc: datetime | None, kinds: Sequence[str] = KINDS, *, talker: str = "GN",
    altitude_m: float | None = None, satellites: int | None = None,
) -> bytes:  # fmt: skip
    """The sentences of an epoch, ready to be sent; fields of time are empty without a time."""
    time = "" if utc is None else f"{utc:%H%M%S}.{utc.microsecond // 10_000:02d}"
    date = "" if utc is None else f"{utc:%d%m%y}"
    fields = {
        "GGA": [time, *_place(epoch), *_quality(epoch, altitude_m, satellites)],
        "RMC": _rmc(epoch, time, date),
        "GST": [time, *_precision(epoch)],
        "VTG": _vtg(epoch),
    }
    return b"".join(sentence(f"{talker}{kind}", fields[kind]) for kind in kinds)


def sentence(name: str, fields: Sequence[str]) -> bytes:
    """One sentence with its checksum: the exclusive or of all characters between $ and *."""
    body = ",".join([name, *fields])
    checksum = reduce(lambda total, character: total ^ ord(character), body, 0)
    return f"${body}*{checksum:02X}\r\n".encode("ascii")


def _place(epoch: Epoch) -> list[str]:
    if epoch.position is None:
        return ["", "", "", ""]
    lat, lon = epoch.position.lat_deg, epoch.position.lon_deg
    return [_minutes(lat, 2), "N" if lat >= 0 else "S", _minutes(lon, 3), "E" if lon >= 0 else "W"]


def _minutes(degrees: float, digits: int) -> str:
    """Degrees and minutes without a sign, such as 4807.03812345; 1e-5 minutes are 2 cm."""
    whole, rest = divmod(round(abs(degrees) * 60 * 100_000), 60 * 100_000)
    return f"{whole:0{digits}d}{rest / 100_000:08.5f}"


def _quality(epoch: Epoch, altitude_m: float | None, satellites: int | None) -> list[str]:
    """Quality, satellites, HDOP, height, height of the geoid, and what belongs to differential corrections."""
    if epoch.position is None:
        return ["0", "00", "", "", "M", "", "M", "", ""]
    height = "" if altitude_m is None else f"{altitude_m:.1f}"
    count = least_satellites(altitude_m) if satellites is None else satellites
    return ["6" if epoch.estimated else "1", f"{count:02d}", "", height, "M", "", "M", "", ""]


def least_satellites(altitude_m: float | None) -> int:
    """How many satellites a 2D or 3D fix needs at least; there are none, but gpsd takes no fix that states fewer."""
    return 3 if altitude_m is None else 4


def _mode(epoch: Epoch) -> str:
    """Autonomous, estimated (by odometry), or not valid."""
    if epoch.position is None:
        return "N"
    return "E" if epoch.estimated else "A"


def _motion(epoch: Epoch) -> tuple[float | None, float | None]:
    """Speed over ground and course in degrees; backward, the course is behind the camera."""
    if epoch.position is None:
        return None, None
    speed, heading = epoch.speed_m_s, epoch.heading_deg
    if speed is not None and speed < 0 and heading is not None:
        return -speed, (heading + 180.0) % 360.0
    return speed, heading


def _rmc(epoch: Epoch, time: str, date: str) -> list[str]:
    speed, course = _motion(epoch)
    status = "V" if epoch.position is None else "A"
    knots = _number(None if speed is None else speed / KNOT_M_S, 2)
    return [time, status, *_place(epoch), knots, _course(course), date, "", "", _mode(epoch)]


def _vtg(epoch: Epoch) -> list[str]:
    speed, course = _motion(epoch)
    knots = _number(None if speed is None else speed / KNOT_M_S, 2)
    km_h = _number(None if speed is None else speed * 3.6, 2)
    return [_course(course), "T", "", "M", knots, "N", km_h, "K", _mode(epoch)]


def _precision(epoch: Epoch) -> list[str]:
    """Axes and direction of the standard ellipse, standard deviations of latitude and longitude; not of the height."""
    if epoch.position is None:
        return ["", "", "", "", "", "", ""]
    major, minor, angle = axes_of(epoch.covariance_m2)
    east, north = epoch.sd_m
    return ["", f"{major:.2f}", f"{minor:.2f}", f"{angle:.1f}", f"{north:.2f}", f"{east:.2f}", ""]


def _course(degrees: float | None) -> str:
    return _number(None if degrees is None else round(degrees, 1) % 360.0, 1)


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
