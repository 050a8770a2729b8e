"""A drive for live sinks: fixes once a second and ten movements in between, in the order in which sinks get them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from x2localizer import geo
from x2localizer.localize.track.ellipse import ELLIPSE_95
from x2localizer.sinks.live import LiveSink, LiveSinks
from x2localizer.types import ErrorEllipse, Fix, Movement, Position

START = Position(48.1, 11.5)
SPEED_M_S = 10.0
ELLIPSE = ErrorEllipse(major_m=ELLIPSE_95 * 4.0, minor_m=ELLIPSE_95 * 2.0, angle_deg=90.0)
"""Standard deviations of 4 m eastward and 2 m northward."""


def place_at(time_s: float) -> Position:
    """Where the car is: it drives to the east."""
    lat, lon = geo.LocalMetres(START).to_degrees(SPEED_M_S * time_s, 0.0)
    return Position(float(lat), float(lon))


def fix_at(time_s: float, *, sure: bool = True) -> Fix:
    """A fix at a time; one that is not sure has a guess far away."""
    return Fix(
        round(time_s), time_s, "tracking" if sure else "lost", place_at(time_s) if sure else Position(10.0, 20.0),
        0.99 if sure else 0.1, heading_deg=90.0, speed_m_s=SPEED_M_S, ellipse=ELLIPSE, on_map=0.9,
    )  # fmt: skip


def movement_to(time_s: float, seconds: float = 0.1) -> Movement:
    """The movement that ends at a time."""
    return Movement(time_s - seconds, time_s, SPEED_M_S * seconds, 0.0, 0.1, 0.1)


@dataclass(frozen=True, slots=True)
class Drive:
    """seconds: how long. lost: times of fixes that are not sure. odometry: whether movements come in between."""

    seconds: int
    lost: range = range(0)
    odometry: bool = True

    def events(self) -> Iterator[Fix | Movement]:
        """What sinks get, in order."""
        yield fix_at(0.0, sure=0 not in self.lost)
        for second in range(1, self.seconds + 1):
            for tenth in range(1, 10) if self.odometry else ():
                yield movement_to(second - 1 + tenth / 10)
            yield fix_at(float(second), sure=second not in self.lost)
            if self.odometry:
                yield movement_to(float(second))

    def feed(self, sink: LiveSink | LiveSinks) -> None:
        """Give it to a sink."""
        for event in self.events():
            if isinstance(event, Fix):
                sink.fix(event)
            else:
                sink.motion(event)


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port that the system says is free."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until something is so; fails after too long."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
