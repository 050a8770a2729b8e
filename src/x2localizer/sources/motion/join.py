"""Several records of one drive as one, such as a gyroscope's turns and a wheel's distance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from x2localizer.errors import MotionError
from x2localizer.sources.motion.record import MAX_GAP_S, MotionRecord
from x2localizer.types import Bools, Floats

UNKNOWN_DISTANCE_VAR = 30.0**2
"""Square metres per second where some records measure distance, but none does at that time."""
UNKNOWN_TURN_VAR = 90.0**2
"""Square degrees per second, likewise."""


def join_motion(records: Sequence[MotionRecord]) -> MotionRecord:
    """One record from several of the same drive with the same time 0; each measurement counts by its inverse variance.

    The result covers every time that one of them covers. Where none measures distance (or turn), its variance grows as
    fast as a car can move.
    """
    if not records:
        raise ValueError("there are no records to join")
    if len(records) == 1:
        return records[0]
    latest, earliest = max(r.times_s[0] for r in records), min(r.times_s[-1] for r in records)
    if latest - earliest > MAX_GAP_S:
        raise MotionError(
            f"The records do not belong together: one ends {latest - earliest:.0f} s before another begins.",
            "Give them the same time 0, by an offset.",
        )
    times = np.unique(np.concatenate([record.times_s for record in records]))
    covered = [_covers(record, times) for record in records]
    distances, distance_vars, scale_sd = _merged(
        times, [(r.distances_m, r.distance_vars, r.scale_sd) if r.has_distance else None for r in records],
        records, covered, UNKNOWN_DISTANCE_VAR,
    )  # fmt: skip
    headings, heading_vars, bias_sd = _merged(
        times, [(r.headings_deg, r.heading_vars, r.bias_sd_deg_s) if r.has_turn else None for r in records],
        records, covered, UNKNOWN_TURN_VAR,
    )  # fmt: skip
    start = next((record.start_time for record in records if record.start_time is not None), None)
    return MotionRecord(
        times, distances, headings, distance_vars, heading_vars, scale_sd, bias_sd, start,
        any(record.has_distance for record in records), any(record.has_turn for record in records),
    )  # fmt: skip


def _covers(record: MotionRecord, times: Floats) -> Bools:
    """Which of the steps between times a record covers: inside it, and not in one of its gaps."""
    own = record.times_s
    middle = 0.5 * (times[1:] + times[:-1])
    step = np.clip(np.searchsorted(own, middle) - 1, 0, len(own) - 2)
    covers: Bools = (middle > own[0]) & (middle < own[-1]) & (np.diff(own)[step] <= MAX_GAP_S)
    return covers


def _merged(
    times: Floats, parts: list[tuple[Floats, Floats, float] | None], records: Sequence[MotionRecord],
    covered: list[Bools], unknown_var: float,
) -> tuple[Floats, Floats, float]:  # fmt: skip
    """Totals, their variances, and the shared error of a weighted mean."""
    gaps = np.diff(times)
    weights, changes, shared = [], [], []
    for part, record, covers in zip(parts, records, covered, strict=True):
        if part is not None:
            values, variances, error = part
            variance = np.maximum(np.diff(np.interp(times, record.times_s, variances)), 1e-9 * gaps)
            weights.append(np.where(covers, 1.0 / variance, 0.0))
            changes.append(np.diff(np.interp(times, record.times_s, values)))
            shared.append(error)
    if not weights:
        return np.zeros(len(times)), np.zeros(len(times)), 0.0
    weight, change = np.stack(weights), np.stack(changes)
    total = weight.sum(0)
    known = total > 0
    sure = np.where(known, total, 1.0)
    step = (weight * change).sum(0) / sure
    variance = np.where(known, 1.0 / sure, unknown_var * gaps)
    share = (weight / sure)[:, known].mean(1) if known.any() else np.zeros(len(shared))
    return _sums(step), _sums(variance), float(np.sqrt(np.sum((share * np.array(shared)) ** 2)))


def _sums(steps: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(steps)])
