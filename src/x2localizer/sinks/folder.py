"""A folder with a track in several formats: what ``x2l localize`` writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from x2localizer.files import cannot_write
from x2localizer.localize.summary import summarize
from x2localizer.sinks.base import Sink, TrackContext, sinks
from x2localizer.types import Fix

MOST_VIEWS = 24
"""Frames that a report shows; of a long drive every second search or fix, every fourth, ..."""


class TrackFolder:
    """Hands fixes to some sinks; a context manager.

    What is written as it comes (``fixes.jsonl``) is on disk before the next fix; the rest is written when the block
    ends, also after Ctrl-C.
    """

    def __init__(self, context: TrackContext, formats: Sequence[str] | None = None) -> None:
        names = sinks.names() if formats is None else formats
        self.context = context
        self._sinks: list[Sink] = [sinks.get(name)(context) for name in names]
        self._searches, self._every = 0, 1

    @property
    def files(self) -> list[Path]:
        """What is written."""
        return [sink.path for sink in self._sinks]

    def __enter__(self) -> Self:
        try:
            self.context.folder.mkdir(parents=True, exist_ok=True)
            for sink in self._sinks:
                sink.open()
        except OSError as problem:
            raise cannot_write(self.context.folder, problem) from problem
        return self

    def write(self, fix: Fix) -> None:
        """Take in a fix."""
        for sink in self._sinks:
            try:
                sink.write(fix)
            except OSError as problem:
                raise cannot_write(sink.path, problem) from problem
        self._keep_view(fix)
        self.context.fixes.append(replace(fix, view=None))  # pictures of a long drive would fill the memory

    def smooth(self, fixes: Sequence[Fix]) -> None:
        """Replace all fixes by ones that know the whole drive."""
        self.context.fixes[:] = fixes
        self.context.smoothed = True

    def _keep_view(self, fix: Fix) -> None:
        """Keep the views of some searches, or of a tracker's fixes, spread evenly over a track of any length."""
        if fix.view is None or (fix.candidates and not fix.refreshed):
            return
        if self._searches % self._every == 0:
            self.context.views.append(fix.view)
            if len(self.context.views) > MOST_VIEWS:
                self.context.views[:] = self.context.views[::2]
                self._every *= 2
        self._searches += 1

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sink in self._sinks:
            sink.close()
        if kind is None or issubclass(kind, KeyboardInterrupt):
            c = self.context
            c.summary = summarize(c.fixes, c.truth, odometry=c.odometry, smoothed=c.smoothed)
            for sink in self._sinks:
                sink.finish(c.fixes)
