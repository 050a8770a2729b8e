"""A second pass over a finished drive: from its end back to its start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from x2localizer.localize.track.tracker import Tracker
from x2localizer.types import Fix, Movement


def second_pass(tracker: Tracker, fixes: Sequence[Fix]) -> list[Fix]:
    """Fixes that know the whole drive: a second pass goes back from the end, and at each time the surer one counts.

    The tracker must have made these fixes, with ``keeps_steps``. It goes on at the start of the drive.
    """
    if not tracker.keeps_steps:
        raise ValueError("a second pass needs a tracker that keeps its steps")
    steps, tracker.steps, tracker.keeps_steps = tracker.steps, [], False
    back: dict[int, Fix] = {}
    pending: tuple[Movement, ...] = ()
    tracker.turn_back()
    for step in reversed(steps):
        fix = tracker.advance(step.index, step.time_s, pending, step.code)
        back[step.index] = fix
        pending = tuple(_reversed(movement) for movement in reversed(step.movements))
    return [_surer(fix, back.get(fix.index)) for fix in fixes]


def _reversed(m: Movement) -> Movement:
    """A movement backward in time."""
    return Movement(m.end_s, m.start_s, -m.distance_m, -m.turn_deg, m.distance_sd_m, m.turn_sd_deg)


def _surer(fix: Fix, other: Fix | None) -> Fix:
    if other is None or other.confidence <= fix.confidence:
        return fix
    return replace(other, view=fix.view, region=fix.region, similarity=fix.similarity)
