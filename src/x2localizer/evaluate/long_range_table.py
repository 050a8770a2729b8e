"""Long drives as curves and tables: how many frames are right, when, and how sure the localizer was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from x2localizer.evaluate.long_range import AS_IN, OURS, RIVAL, WINDOWS
from x2localizer.evaluate.rides import Followed, Ride
from x2localizer.evaluate.tables import markdown
from x2localizer.localize.confidence import reliability
from x2localizer.metrics import bootstrap_interval, paired_difference
from x2localizer.types import Bools, Floats

Curve = list[tuple[float, float, int]]
"""Steps of time: the middle of each, percent of frames within 80 m, and how many frames there are."""
BIN_S = 10.0
"""Width of a step of the curves."""


@dataclass(frozen=True, slots=True)
class ArmRow:
    """One arm over all rides.

    within, before, after: percent of frames within 80 m, in all, before and after the first region is left; low and
        high are 95% intervals over rides.
    median_m: median error in metres.
    sure, sure_within: percent of frames with a position, and of these the percent within 80 m.
    first_right_s, first_sure_s: median seconds to the first guess within 80 m, and to the first position within 80 m;
        None if most rides have none.
    """

    arm: str
    rides: int
    frames: int
    within: float
    within_low: float
    within_high: float
    before: float
    after: float
    after_low: float
    after_high: float
    median_m: float
    sure: float
    sure_within: float | None
    first_right_s: float | None = None
    first_sure_s: float | None = None


@dataclass(frozen=True, slots=True)
class LongRange:
    """All results of a run.

    gains: after the first region is left, with their intervals, by pair of arms: SWRL over once, and ours over GAReT's
        objective with the same refresh and matching.
    curves: share of frames within 80 m over time, by arm.
    reliability: of the first arm: mean confidence, share within 80 m, frames.
    """

    rows: tuple[ArmRow, ...]
    gains: dict[str, tuple[float, float, float]]
    curves: dict[str, list[tuple[float, float, int]]]
    reliability: list[tuple[float, float, int]]


def summarize(rides: list[Ride], found: dict[str, list[Followed]]) -> LongRange:
    """Figures, gains and curves of all arms."""
    rows = tuple(arm_row(arm, rides, followed) for arm, followed in found.items())
    pairs = [(arm, once_of(arm)) for arm in found] + [(ours_of(arm, found), arm) for arm in found]
    gains = {
        f"{better} over {other}": swrl_gain(rides, found[better], found[other])
        for better, other in pairs
        if better != other and better in found and other in found
    }
    curves = {arm: curve(rides, followed) for arm, followed in found.items()}
    first = next(iter(found.values()))
    sure_of = reliability(
        np.concatenate([one.confidence for one in first]), np.concatenate([one.right for one in first])
    )
    return LongRange(rows, gains, curves, sure_of)


def arm_row(arm: str, rides: list[Ride], followed: list[Followed]) -> ArmRow:
    """The figures of an arm; intervals are over rides, which count alike."""
    right = [found.right for found in followed]
    shares = np.array([100.0 * found.mean() for found in right])
    after = after_shares(rides, followed)
    errors = np.concatenate([found.errors_m for found in followed])
    sure, every = np.concatenate([found.sure for found in followed]), np.concatenate(right)
    left = np.concatenate([ride.left for ride in rides])
    return ArmRow(
        arm, len(rides), len(every), float(shares.mean()), *bootstrap_interval(shares),
        100.0 * float(every[~left].mean()), float(after.mean()), *bootstrap_interval(after),
        float(np.nanmedian(errors)), 100.0 * float(sure.mean()),
        100.0 * float(every[sure].mean()) if sure.any() else None,
        median_first_s(rides, right), median_first_s(rides, [found.right & found.sure for found in followed]),
    )  # fmt: skip


def median_first_s(rides: list[Ride], right: list[Bools]) -> float | None:
    """Seconds to the first right frame, the median over rides; one that has none takes longer than any that has."""
    firsts = [
        float(ride.times_s[good][0] - ride.times_s[0]) if good.any() else np.inf
        for ride, good in zip(rides, right, strict=True)
    ]
    middle = float(np.percentile(firsts, 50, method="higher"))
    return middle if np.isfinite(middle) else None


def after_shares(rides: list[Ride], followed: list[Followed]) -> Floats:
    """Percent of frames within 80 m after the first region was left, for each ride that leaves it."""
    return np.array([
        100.0 * found.right[ride.left].mean() for ride, found in zip(rides, followed, strict=True) if ride.left.any()
    ])  # fmt: skip


def swrl_gain(rides: list[Ride], better: list[Followed], other: list[Followed]) -> tuple[float, float, float]:
    """One arm over another after the first region is left, in points: the mean over rides and its paired interval."""
    return paired_difference(after_shares(rides, better), after_shares(rides, other))


def curve(rides: list[Ride], followed: list[Followed]) -> Curve:
    """Over time in steps of 10 s: the step's middle, percent of frames within 80 m, and how many frames there are."""
    times = np.concatenate([ride.times_s for ride in rides])
    right = np.concatenate([found.right for found in followed])
    steps = (times / BIN_S).astype(int)
    return [
        (BIN_S * (step + 0.5), 100.0 * float(right[steps == step].mean()), int((steps == step).sum()))
        for step in range(int(steps.max()) + 1)
        if (steps == step).any()
    ]


def ours_of(arm: str, arms: Iterable[str]) -> str:
    """The arm of our objective that one of GAReT's is compared with; any other arm itself."""
    options = (arm.replace(f", {RIVAL}", ""), arm.replace(RIVAL, OURS))
    return next((name for name in options if RIVAL in arm and name in arms), arm)


def once_of(arm: str) -> str:
    """The arm that searches once with the same model and matching."""
    model = next((part for part in arm.removesuffix(AS_IN).split(", ")[1:] if part not in WINDOWS), None)
    return "once" + (f", {model}" if model else "") + (AS_IN if AS_IN in arm else "")


def panels(result: LongRange) -> dict[str, dict[str, list[tuple[float, float, int]]]]:
    """The curves for a plot: our matching beside the paper's."""
    ours = {arm: points for arm, points in result.curves.items() if AS_IN not in arm}
    paper = {arm.replace(AS_IN, ""): points for arm, points in result.curves.items() if AS_IN in arm}
    both = {"regions by s_path, frames along the path": ours, "regions by s_mix, each frame by itself": paper}
    return {title: curves for title, curves in both.items() if curves}


def panels_by_model(result: LongRange, names: Sequence[str]) -> dict[str, dict[str, Curve]]:
    """The curves of each model, whose arms end with its name, in a panel of its own: arms have one colour in all."""
    if len(names) == 1:
        return {"each frame by itself": result.curves}
    ends = {name: f", {name}" for name in names}
    return {
        f"{name}, each frame by itself": {
            arm.removesuffix(end): curve for arm, curve in result.curves.items() if arm.endswith(end)
        }
        for name, end in ends.items()
    }


def table_text(result: LongRange) -> str:
    """As Markdown tables."""
    rows = (
        (row.arm, _percent(row.within, row.within_low, row.within_high), f"{row.before:.1f}%",
         _percent(row.after, row.after_low, row.after_high), f"{row.median_m:.0f} m", _seconds(row.first_right_s),
         f"{row.sure:.1f}%", "-" if row.sure_within is None else f"{row.sure_within:.1f}%", _seconds(row.first_sure_s))
        for row in result.rows
    )  # fmt: skip
    arms = markdown(
        ["arm", "within 80 m (95%)", "before leaving", "after leaving (95%)", "median error", "first right", "sure",
         "of these right", "first sure and right"],
        rows,
    )  # fmt: skip
    gains = markdown(
        ["after the first region is left", "gain in points (95%)"],
        ((what, f"{mean:+.1f} ({low:+.1f} to {high:+.1f})") for what, (mean, low, high) in result.gains.items()),
    )
    sure = markdown(
        ["confidence", "within 80 m", "frames"],
        ((f"{p:.2f}", f"{share:.2f}", f"{count:,}") for p, share, count in result.reliability),
    )
    return "\n\n".join([arms, gains, sure])


def _percent(mean: float, low: float, high: float) -> str:
    return f"{mean:.1f}% ({low:.1f} to {high:.1f})"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} s"
