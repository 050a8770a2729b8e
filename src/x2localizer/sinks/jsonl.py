"""JSON lines: every fix as it comes, with the candidates of every search."""

from __future__ import annotations

import json
from typing import TextIO

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
        row = to_row(fix)
        if fix.refreshed:
            row["candidates"] = [[str(c.region), round(c.similarity, 4)] for c in fix.candidates]
        self._lines.write(json.dumps(row) + "\n")

    def close(self) -> None:
        """Close the file."""
        if self._lines is not None:
            self._lines.close()
