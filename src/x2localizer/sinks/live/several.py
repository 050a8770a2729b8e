"""Several live sinks as one: what goes in goes to each, and the failure of one is no failure of the others."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Self

from x2localizer.sinks.live.base import LiveSink, sink_for
from x2localizer.types import Fix, Movement

log = logging.getLogger(__name__)


def open_sinks(addresses: Sequence[str], *, realtime: bool = False) -> LiveSinks:
    """Open a sink for each address; if one cannot be opened, none is.

    realtime: hand on a recording at the pace at which it was made, instead of as fast as it is localized.
    """
    sinks = [sink_for(address) for address in addresses]
    opened = LiveSinks(sinks, realtime=realtime)
    try:
        for sink in sinks:
            sink.open()
    except BaseException:
        opened.close()
        raise
    return opened


class LiveSinks:
    """Some open sinks; a context manager that closes them."""

    def __init__(
        self, sinks: Sequence[LiveSink] = (), *, realtime: bool = False, clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self.sinks = list(sinks)
        self._realtime, self._clock, self._sleep = realtime, clock, sleep
        self._zero_s: float | None = None
        self.time_s: float | None = None
        """The time of the last fix."""

    def __bool__(self) -> bool:
        return bool(self.sinks)

    def start(self, start_time: datetime | None) -> None:
        """Say when time 0 of the drive was, if it is known."""
        for sink in self.sinks:
            sink.start(start_time)

    def fix(self, fix: Fix) -> None:
        """Hand on a fix, before the movement that ends at its time."""
        self.time_s = fix.time_s
        self._wait_until(fix.time_s)
        self._each(lambda sink: sink.fix(fix))

    def motion(self, movement: Movement) -> None:
        """Hand on a movement."""
        self._wait_until(movement.end_s)
        self._each(lambda sink: sink.motion(movement))

    def close(self) -> None:
        """Close all sinks."""
        for sink in self.sinks:
            with suppress(Exception):  # those that follow must be closed, too
                sink.close()

    def notes(self) -> list[str]:
        """What could not be delivered, in words."""
        return [
            f"{sink.target}: {sink.dropped:,} messages were not delivered ({sink.problem or 'too slow'})"
            for sink in self.sinks
            if sink.dropped
        ]

    def _each(self, hand_on: Callable[[LiveSink], None]) -> None:
        for sink in self.sinks:
            try:
                hand_on(sink)
            except Exception as problem:  # a broken sink must not stop the localizer
                sink.dropped += 1
                if sink.problem is None:
                    log.warning("%s failed: %s", sink.target, problem)
                sink.problem = f"{type(problem).__name__}: {problem}"

    def _wait_until(self, time_s: float) -> None:
        if not self._realtime:
            return
        now = self._clock()
        if self._zero_s is None:
            self._zero_s = now - time_s
        ahead_s = self._zero_s + time_s - now
        if ahead_s > 0:
            self._sleep(ahead_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
