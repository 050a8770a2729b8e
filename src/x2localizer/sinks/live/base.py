"""What a live sink is, and the registry of all of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import ClassVar

from x2localizer.errors import ConfigError, SinkError, nearest
from x2localizer.registry import Registry
from x2localizer.sinks.live.address import SinkAddress
from x2localizer.types import Fix, Movement


class LiveSink:
    """Hands fixes on to another program as they come.

    name: of the protocol.
    schemes: of the addresses that it takes.
    known: options that such an address may have.

    ``open`` is called once; what a user can cause (a port that is taken, a missing library) is raised there or before.
    ``start`` says when time 0 was. Then come movements and fixes, in the order of time, but a fix comes **before** the
    movement that ends at its time, so that a program gets what the fix says of that time. ``close`` is called at the
    end, also after a failure.

    ``fix`` and ``motion`` never wait for the other program and raise nothing: what cannot be delivered is dropped and
    counted, and ``problem`` says why. Only a fix that has a ``position`` (status "tracking") may be handed on as one.
    """

    name: ClassVar[str]
    schemes: ClassVar[tuple[str, ...]]
    known: ClassVar[tuple[str, ...]] = ()

    def __init__(self, address: SinkAddress) -> None:
        address.refuse_unknown(self.options_of(address))
        self.address = address
        self.start_time: datetime | None = None
        self.dropped = 0
        """Messages that could not be delivered."""
        self.problem: str | None = None
        """Why the last one could not."""

    def options_of(self, address: SinkAddress) -> tuple[str, ...]:
        """The options that an address may have."""
        return self.known

    def open(self) -> None:
        """Connect, bind, or create files."""

    def start(self, start_time: datetime | None) -> None:
        """Say when time 0 of the drive was; without it, time 0 is now."""
        self.start_time = start_time or datetime.now(UTC)

    def fix(self, fix: Fix) -> None:
        """Hand on a fix."""

    def motion(self, movement: Movement) -> None:
        """Take in how the camera moved; most sinks need not know."""

    def close(self) -> None:
        """Let go of sockets, files and threads; closing twice does nothing."""

    def utc(self, time_s: float) -> datetime:
        """The UTC time of a time of the drive."""
        if self.start_time is None:
            self.start(None)
        assert self.start_time is not None
        return self.start_time.astimezone(UTC) + timedelta(seconds=time_s)

    @property
    def target(self) -> str:
        """Where fixes go, for people."""
        return self.address.text


live_sinks: Registry[LiveSink] = Registry("sink", "x2localizer.sinks.live")


def sink_for(text: str) -> LiveSink:
    """The sink for an address, not opened yet."""
    address = SinkAddress.parse(text)
    classes = [live_sinks.get(name) for name in live_sinks.names()]
    by_scheme = {scheme: sink for sink in classes for scheme in sink.schemes}
    if address.scheme not in by_scheme:
        raise ConfigError(f"There is no sink '{address.scheme}:'.", nearest(address.scheme, by_scheme))
    return by_scheme[address.scheme](address)


def cannot_open(address: SinkAddress, problem: OSError | str, remedy: str) -> SinkError:
    """The error for a place that cannot be reached or bound."""
    why = problem if isinstance(problem, str) else problem.strerror or str(problem)
    return SinkError(f"Cannot open {address.text}: {why}.", remedy)
