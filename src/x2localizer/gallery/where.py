"""Which rows of a gallery's table to read: as SQL for LanceDB, or as a mask over rows that were read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from x2localizer.sources.roads.roads import Bounds


@dataclass(frozen=True, slots=True)
class Where:
    """Conditions that all must hold; without any, all rows.

    ids: the places; see :func:`x2localizer.gallery.blocks.place_id`.
    between: the first and the last of the places, both included.
    sources: the numbers of the imagery or roads that rows came from.
    within: rows of roads whose box touches an area, in degrees, also across the antimeridian.
    """

    ids: tuple[int, ...] | None = None
    between: tuple[int, int] | None = None
    sources: tuple[int, ...] | None = None
    within: Bounds | None = None

    def __post_init__(self) -> None:
        if self.within is not None and (not np.isfinite(self.within).all() or self.within[1] > self.within[3]):
            raise ValueError("bounds are west, south, east, north in degrees")

    @staticmethod
    def at(ids: Iterable[int]) -> Where:
        """Rows at some places."""
        return Where(ids=tuple(int(i) for i in ids))

    def sql(self) -> str | None:
        """The conditions as LanceDB takes them; None for all rows."""
        parts = []
        if self.ids is not None:
            parts.append(f"id IN ({', '.join(map(str, self.ids))})")
        if self.between is not None:
            parts.append(f"id >= {self.between[0]} AND id <= {self.between[1]}")
        if self.sources is not None:
            parts.append(f"source IN ({', '.join(map(str, self.sources))})")
        if self.within is not None:
            west, south, east, north = _unwrapped(self.within)
            turns = (-360.0, 0.0, 360.0)
            around = " OR ".join(f"(west <= {east + turn!r} AND east >= {west + turn!r})" for turn in turns)
            parts.append(f"south <= {north!r} AND north >= {south!r} AND ({around})")
        return " AND ".join(parts) or None

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows for which the conditions hold."""
        held = np.ones(rows.num_rows, np.bool_)
        if self.ids is not None:
            held &= _among(rows["id"], self.ids)
        if self.between is not None:
            ids = rows["id"].to_numpy()
            held &= (ids >= self.between[0]) & (ids <= self.between[1])
        if self.sources is not None:
            held &= _among(rows["source"], self.sources)
        if self.within is not None:
            west, south, east, north = _unwrapped(self.within)
            left, bottom, right, top = (rows[name].to_numpy() for name in ("west", "south", "east", "north"))
            turns = (-360.0, 0.0, 360.0)
            around = np.any([(left <= east + turn) & (right >= west + turn) for turn in turns], axis=0)
            held &= (bottom <= north) & (top >= south) & around
        return rows if held.all() else rows.filter(pa.array(held))


ALL = Where()


def _among(column: pa.Array, values: tuple[int, ...]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = pc.is_in(
        column, value_set=pa.array(values, column.type)
    ).to_numpy(zero_copy_only=False)
    return found


def _unwrapped(bounds: Bounds) -> Bounds:
    """West, south, east, north with the east beyond the west."""
    west, south, east, north = (float(degrees) for degrees in bounds)
    return west, south, east + (360.0 if east < west else 0.0), north
