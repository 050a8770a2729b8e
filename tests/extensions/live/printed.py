"""A toy live sink: positions on the screen. One file is all it takes."""

from __future__ import annotations

from x2localizer.sinks.live.base import LiveSink, live_sinks
from x2localizer.types import Fix


@live_sinks.register
class Printed(LiveSink):
    """``print:`` prints positions."""

    name = "print"
    schemes = ("print",)

    def fix(self, fix: Fix) -> None:
        """Print a fix."""
        print(self.utc(fix.time_s), fix.position)
