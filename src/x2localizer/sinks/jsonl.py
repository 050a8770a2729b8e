"""JSON lines: every fix as it comes, with the candidates of every search; smoothed fixes replace them at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TextIO

from x2localizer.files import write_text
from x2localizer.sinks.base import Sink, sinks, to_row
from x2localizer.types import Fix


@sinks.register
class JsonLines(Sink):
    """One object per fix, on disk before the next one is asked for."""

    name = "jsonl"
    file = "fixes.jsonl"
    _lines: TextIO | None = None

    def open(self) -> None:
        """Start the file."""
        self._lines = self.path.open("w", encoding="utf-8", buffering=1)

    def write(self, fix: Fix) -> None:
        """Append a line."""
        assert self._lines is not None
        self._lines.write(_line(fix))

    def finish(self, fixes: Sequence[Fix]) -> None:
        """Write the fixes again if they know more now."""
        if self.context.smoothed:
            write_text(self.path, "".join(_line(fix) for fix in fixes))

    def close(self) -> None:
        """Close the file."""
        if self._lines is not None:
            self._lines.close()


def _line(fix: Fix) -> str:
    row = to_row(fix)
    if fix.refreshed:
        row["candidates"] = [[str(c.region), round(c.similarity, 4)] for c in fix.candidates]
    return json.dumps(row) + "\n"
