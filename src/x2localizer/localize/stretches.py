"""The parts of a track that were driven in one go."""

from __future__ import annotations

from collections.abc import Sequence

from x2localizer import geo
from x2localizer.types import Fix

FASTEST_M_S, JUMP_M = 60.0, 40.0
"""Positions further apart than a camera moves at this speed, and this many metres more, are a jump."""


def stretches(fixes: Sequence[Fix]) -> list[list[Fix]]:
    """Runs of consecutive fixes that have a position; a jump ends a run."""
    out: list[list[Fix]] = [[]]
    before: Fix | None = None
    for fix in fixes:
        if fix.position is None or (before is not None and not _follows(before, fix)):
            out.append([])
        if fix.position is not None:
            out[-1].append(fix)
        before = fix
    return [stretch for stretch in out if stretch]


def _follows(before: Fix, fix: Fix) -> bool:
    a, b = before.position, fix.position
    if fix.index != before.index + 1 or a is None or b is None:
        return False
    moved_m = float(geo.distance_m(a.lat_deg, a.lon_deg, b.lat_deg, b.lon_deg))
    return moved_m <= FASTEST_M_S * abs(fix.time_s - before.time_s) + JUMP_M
