"""Files of roads that GDAL reads in a second process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from x2localizer.errors import RoadError
from x2localizer.sources.guard import Answer, GuardProcess
from x2localizer.sources.roads.roads import Roads

BATCH_S = 120.0
BYTES_PER_S = 500_000.0
"""Seconds until the next roads have to be there, and bytes of the file for each second more: of an OpenStreetMap file
GDAL reads all points before the first road."""


def guarded_batches(path: Path, file: Path, layer: str | None, lines_at_once: int) -> Iterator[Roads]:
    """The roads of a file, some at a time; ``file`` is what is read, and ``path`` its name in errors."""
    limit_s = BATCH_S + file.stat().st_size / BYTES_PER_S
    guard = GuardProcess("roads", str(path), RoadError)
    try:
        guard.send(path=str(path), file=str(file), layer=layer, lines_at_once=lines_at_once, limit_s=limit_s)
        while True:
            answer = guard.answer(limit_s)
            if answer.values["roads"] is None:
                return
            guard.send(limit_s=limit_s)  # read on while these are used
            yield _roads(answer)
    finally:
        guard.close()


def _roads(answer: Answer) -> Roads:
    """Roads from the bytes of their arrays, checked once more."""
    try:
        roads, points = int(answer.values["roads"]), int(answer.values["points"])
        ends = np.cumsum([16 * points, 8 * (roads + 1), roads, roads])
        if len(answer.data) != ends[-1]:
            raise ValueError("the arrays have other lengths")
        parts = [answer.data[start:end] for start, end in zip((0, *ends[:-1]), ends, strict=True)]
        return Roads(
            np.frombuffer(parts[0], np.float64).reshape(-1, 2), np.frombuffer(parts[1], np.int64),
            np.frombuffer(parts[2], np.int8), np.frombuffer(parts[3], np.bool_), int(answer.values["dropped"]),
        )  # fmt: skip
    except ValueError as problem:
        raise RoadError("The process that reads roads gave none.", "Run the same command again.") from problem
