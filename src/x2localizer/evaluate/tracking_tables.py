"""The figures of tracked drives: how many frames are right, how sure the tracker is, and where it is wrongly sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from x2localizer.evaluate.long_range_table import Curve, curve, median_first_s
from x2localizer.evaluate.rides import Ride
from x2localizer.evaluate.tables import markdown
from x2localizer.evaluate.tracked import Tracked
from x2localizer.evaluate.tracking import Results
from x2localizer.localize.confidence import reliability
from x2localizer.metrics import bootstrap_interval
from x2localizer.types import Bools, Floats

SETTLED_S = 60.0
"""Seconds after a start or a gap from which a tracker should know where it is."""
EARLY_S = 10.0
"""Seconds from the start of a drive in which it is the eye that counts: odometry and roads tell little yet."""
TOLD_APART_S = 20.0
"""Seconds after which drives on the map are told from those off it."""
GAP_S = 3.0
"""Seconds between two frames of a ride that are a gap."""
LIGHTS = ("day", "night")


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over rides in percent, with its 95% interval by bootstrap."""

    mean: float
    low: float
    high: float

    @staticmethod
    def over(shares: Sequence[float]) -> Interval | None:
        """Of the percentages of rides, which count alike; None without any."""
        values = np.array(shares)
        return Interval(float(values.mean()), *bootstrap_interval(values)) if len(values) else None

    def __str__(self) -> str:
        return f"{self.mean:.1f}% ({self.low:.1f} to {self.high:.1f})"


@dataclass(frozen=True, slots=True)
class Figures:
    """One arm on some rides, in percent; None for what cannot be said.

    within: frames within 80 m, starts and gaps included.
    settled, settled_median_m: frames within 80 m and the median error, from 60 s after a start or a gap on.
    sure, sure_right: frames with a position, and of these the ones within 80 m.
    first_sure_s: median seconds to the first position within 80 m; None if most rides have none.
    off_map, off_map_frames: frames of drives off the map with a position, and how many frames there are.
    early: frames of the first 10 s of a drive within 80 m.
    told_apart: area under the curve, times 100: how often a drive on the map has a higher probability of being on it,
        20 s after its start, than one off the map.
    """

    rides: int
    frames: int
    within: Interval | None
    settled: Interval | None
    settled_median_m: float | None
    sure: float | None
    sure_right: float | None
    first_sure_s: float | None
    off_map: float | None
    off_map_frames: int
    early: Interval | None = None
    told_apart: Interval | None = None


@dataclass(frozen=True, slots=True)
class TrackRow:
    """One arm.

    every, day, night: its figures on all rides, and on those by day and at night.
    ms_per_step: processor time for one second of driving, without encoding.
    poses: in the belief, the median over rides.
    searches_per_min: of the whole map, by minute of driving.
    reliability: mean confidence, share within 80 m, and frames, in each tenth of the scale.
    curves: share of frames within 80 m over time, by day and at night.
    """

    arm: str
    every: Figures
    day: Figures
    night: Figures
    ms_per_step: float
    poses: float
    searches_per_min: float
    reliability: list[tuple[float, float, int]]
    curves: dict[str, Curve]


def since_start_s(times_s: Floats) -> Floats:
    """Seconds since the start of a ride or the end of its last gap, for each frame, (f,)."""
    begins = np.concatenate([[True], np.diff(times_s) > GAP_S])
    starts = np.maximum.accumulate(np.where(begins, np.arange(len(times_s)), 0))
    return np.asarray(times_s - times_s[starts])


def figures(rides: Sequence[Ride], found: Sequence[Tracked], foreign: Sequence[Tracked] = ()) -> Figures:
    """The figures of an arm on some rides, and on some that are off the map."""
    followed = [tracked.followed for tracked in found]
    right = [one.right for one in followed]
    settled = [since_start_s(ride.times_s) >= SETTLED_S for ride in rides]
    errors = _joined([one.errors_m[late] for one, late in zip(followed, settled, strict=True)])
    sure = [one.sure for one in followed]
    every, stated, wrong = _flags(right), _flags(sure), _flags([tracked.followed.sure for tracked in foreign])
    good = [a & b for a, b in zip(right, sure, strict=True)]
    return Figures(
        len(rides), len(every), Interval.over([100.0 * float(one.mean()) for one in right]),
        Interval.over([
            100.0 * float(one[late].mean()) for one, late in zip(right, settled, strict=True) if late.any()
        ]),
        _median(errors),
        _percent(stated), _percent(every[stated]), median_first_s(list(rides), good) if rides else None,
        _percent(wrong), len(wrong),
        Interval.over([
            100.0 * float(one[ride.times_s - ride.times_s[0] < EARLY_S].mean())
            for one, ride in zip(right, rides, strict=True)
        ]),
        told_apart(_on_map(found), _on_map(foreign)),
    )  # fmt: skip


def _on_map(found: Sequence[Tracked]) -> Floats:
    """The probability of being on the map that each drive had after some seconds; there is a frame each second."""
    rows = [tracked.on_map[: int(TOLD_APART_S)] for tracked in found]
    return np.array([row[-1] for row in rows if len(row)])


def told_apart(on: Floats, off: Floats) -> Interval | None:
    """The area under the curve, times 100: the share of pairs in which ``on`` is higher, ties by half."""
    if not len(on) or not len(off):
        return None
    wins = (on[:, None] > off) + 0.5 * (on[:, None] == off)
    rng = np.random.default_rng(42)
    drawn = [
        wins[np.ix_(rng.integers(0, len(on), len(on)), rng.integers(0, len(off), len(off)))].mean() for _ in range(2000)
    ]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Interval(100.0 * float(wins.mean()), 100.0 * float(low), 100.0 * float(high))


def track_rows(results: Results) -> list[TrackRow]:
    """The figures of all arms."""
    rows = []
    for arm, found in results.found.items():
        foreign = results.foreign[arm]
        by_light = {}
        for light in LIGHTS:
            own = [number for number, night in enumerate(results.night) if night == (light == "night")]
            others = [number for number, night in enumerate(results.foreign_night) if night == (light == "night")]
            by_light[light] = (
                [results.rides[n] for n in own],
                [found[n] for n in own],
                [foreign[n] for n in others if foreign],
            )
        confidence = _joined([tracked.followed.confidence for tracked in found])
        rows.append(
            TrackRow(
                arm, figures(results.rides, found, foreign), figures(*by_light["day"]), figures(*by_light["night"]),
                float(np.mean([tracked.ms_per_step for tracked in found])),
                float(np.median([tracked.poses for tracked in found])),
                60.0 * sum(tracked.searches for tracked in found) / sum(len(ride.times_s) for ride in results.rides),
                reliability(confidence, _flags([tracked.followed.right for tracked in found])),
                {
                    light: curve(rides, [tracked.followed for tracked in own])
                    for light, (rides, own, _) in by_light.items()
                    if rides
                },
            )
        )  # fmt: skip
    return rows


def panels(rows: Sequence[TrackRow]) -> dict[str, dict[str, Curve]]:
    """The curves for a plot: by day beside at night."""
    titles = {"day": "by day", "night": "at night"}
    return {
        title: {row.arm: row.curves[light] for row in rows if light in row.curves}
        for light, title in titles.items()
        if any(light in row.curves for row in rows)
    }


def to_values(rows: Sequence[TrackRow]) -> list[dict[str, Any]]:
    """For the results file."""
    return [asdict(row) for row in rows]


def from_values(values: Sequence[dict[str, Any]]) -> list[TrackRow]:
    """Rows of a results file."""

    def read(part: dict[str, Any]) -> Figures:
        names = ("within", "settled", "early", "told_apart")
        parts = {name: Interval(**part[name]) if part.get(name) else None for name in names}
        return Figures(**{**part, **parts})

    return [TrackRow(**{**row, **{name: read(row[name]) for name in ("every", *LIGHTS)}}) for row in values]


def table_text(rows: Sequence[TrackRow]) -> str:
    """As Markdown tables."""
    where = markdown(
        ["arm", "within 80 m, all frames (95%)", "by day from 60 s (95%)", "median error", "at night from 60 s (95%)",
         "median error"],
        ((row.arm, _text(row.every.within), _text(row.day.settled), _metres(row.day.settled_median_m),
          _text(row.night.settled), _metres(row.night.settled_median_m)) for row in rows),
    )  # fmt: skip
    early = markdown(
        ["arm", "within 80 m in the first 10 s by day (95%)", "at night (95%)",
         "on the map told from off it after 20 s, area under the curve (95%)"],
        ((row.arm, _text(row.day.early), _text(row.night.early), _text(row.every.told_apart).replace("%", "", 1))
         for row in rows),
    )  # fmt: skip
    certain = markdown(
        ["arm", "sure", "of these right", "by day", "right", "at night", "right", "first sure and right",
         "sure off the map by day", "at night"],
        ((row.arm, *(_share(value) for part in (row.every, row.day, row.night) for value in (part.sure,
          part.sure_right)), _seconds(row.every.first_sure_s), _share(row.day.off_map, 2),
          _share(row.night.off_map, 2)) for row in rows),
    )  # fmt: skip
    cost = markdown(
        ["arm", "processor time per second of driving", "poses", "searches of the map per minute"],
        ((row.arm, f"{row.ms_per_step:.0f} ms", f"{row.poses:,.0f}", f"{row.searches_per_min:.2f}") for row in rows),
    )
    bins = [
        markdown(
            [f"confidence ({row.arm})", "within 80 m", "frames"],
            ((f"{p:.2f}", f"{share:.2f}", f"{count:,}") for p, share, count in row.reliability),
        )
        for row in rows[:1]
    ]
    notes = (
        "A position is right within 80 m. From 60 s: frames at least 60 s after the start of the drive or the end of "
        "its gap. Sure: the tracker states a position. Off the map: frames of drives that are not in the gallery."
    )
    return "\n\n".join([where, early, certain, notes, cost, *bins])


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.zeros(0)


def _flags(parts: Sequence[Bools]) -> Bools:
    return np.concatenate(parts) if parts else np.zeros(0, np.bool_)


def _median(errors_m: Floats) -> float | None:
    """The median error; None if most frames have no guess."""
    middle = float(np.median(np.nan_to_num(errors_m, nan=np.inf))) if len(errors_m) else np.inf
    return middle if np.isfinite(middle) else None


def _percent(flags: Bools) -> float | None:
    return 100.0 * float(flags.mean()) if len(flags) else None


def _text(value: Interval | None) -> str:
    return "-" if value is None else str(value)


def _share(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}%"


def _metres(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} m"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} s"
