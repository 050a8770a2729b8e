"""A folder with a track in several formats: what ``x2l localize`` writes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from x2localizer.files import cannot_write, only_writer
from x2localizer.localize.summary import summarize
from x2localizer.sinks.base import Sink, TrackContext, sinks
from x2localizer.types import Fix

MOST_VIEWS = 24
"""Frames that a report shows; of a long drive every second search or fix, every fourth, ..."""


class TrackFolder:
    """Hands fixes to some sinks; a context manager.

    What is written as it comes (``fixes.jsonl``) is on disk before the next fix; the rest is written when the block
    ends, also after Ctrl-C. A second process cannot write into the same folder at the same time.
    """

    def __init__(self, context: TrackContext, formats: Sequence[str] | None = None) -> None:
        names = sinks.names() if formats is None else formats
        self.context = context
        self._sinks: list[Sink] = [sinks.get(name)(context) for name in names]
        self._searches, self._every = 0, 1
        self._lock = ExitStack()

    @property
    def files(self) -> list[Path]:
        """What is written."""
        return [sink.path for sink in self._sinks]

    def __enter__(self) -> Self:
        self._lock.enter_context(only_writer(self.context.folder))
        try:
            for sink in self._sinks:
                sink.open()
        except OSError as problem:
            self._lock.close()
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
        with self._lock:
            for sink in self._sinks:
                self._close(sink, failed=kind is not None)
            if kind is None or issubclass(kind, KeyboardInterrupt):
                c = self.context
                c.summary = summarize(c.fixes, c.truth, odometry=c.odometry, smoothed=c.smoothed)
                for sink in self._sinks:
                    sink.finish(c.fixes)

    @staticmethod
    def _close(sink: Sink, *, failed: bool) -> None:
        try:
            sink.close()
        except OSError as problem:  # a full disk, once more; after a failure that is known already
            if not failed:
                raise cannot_write(sink.path, problem) from problem
