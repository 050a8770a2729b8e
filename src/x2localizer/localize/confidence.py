"""How sure is a fix? A calibrated probability that it is within 80 m of the truth.

A logistic regression on what the localizer knows itself, fitted on drives through validation towns and kept in the
bundle as ``confidence.json``, together with the settings it was fitted with.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from x2localizer.config import LocalizeSettings, validate
from x2localizer.errors import BundleError, UserError
from x2localizer.files import read_json, write_text
from x2localizer.localize.belief import Match
from x2localizer.search import RankedRegions
from x2localizer.types import Bools, Evidence, Floats

FILE = "confidence.json"


def evidence_for(match: Match, ranked: RankedRegions, frames: int) -> Evidence:
    """The evidence at one frame; candidates are in the order of the ranked regions."""
    scores = ranked.scores
    lead = float(scores[0] - scores[1:].mean()) if len(scores) > 1 else 0.0
    behind = float(scores[0] - scores[match.candidate])
    return Evidence(match.share, match.recent, lead, float(scores[0]), behind, frames)


FEATURES = 7
LARGEST_WEIGHT = 1e4


def features_of(evidence: Evidence) -> Floats:
    """Evidence as the regression takes it, (7,)."""
    share = min(max(evidence.share, 1e-4), 1 - 1e-4)
    odds = math.log(share / (1 - share))
    frames = math.log1p(min(evidence.frames, 60))
    return np.array(
        [1.0, odds, 5.0 * evidence.recent, 10.0 * evidence.lead, evidence.region, 10.0 * evidence.behind, frames]
    )


def plausible(numbers: Iterable[float]) -> bool:
    """Whether these can be weights of a regression: the largest that was ever fitted is below 100."""
    return all(abs(number) <= LARGEST_WEIGHT for number in numbers)  # also refuses NaN


def logistic(weights: Sequence[float], features: Floats) -> float:
    """The probability that a regression gives to features."""
    log_odds = float(np.dot(weights, features))
    return 1.0 / (1.0 + math.exp(-min(max(log_odds, -500.0), 500.0)))


@dataclass(frozen=True, slots=True)
class Confidence:
    """A fitted regression.

    weights: of the features, (7,); empty if nothing was fitted.
    threshold: the probability from which a fix counts as tracking.
    least_frames: until this many frames came in, a fix that is not sure is locating, not lost.
    fitted_on: which drives.
    least_recent: a fix whose recent frames fit worse than nearly all that were ever right has no chance.
    settings: of the localizer that it was fitted with. The figures of another mean something else.
    grid: zoom and stride of the galleries that it was fitted with.
    """

    weights: tuple[float, ...] = ()
    threshold: float = 0.5
    least_frames: int = 10
    fitted_on: str = ""
    least_recent: float = -1.0
    settings: LocalizeSettings = field(default_factory=LocalizeSettings)
    grid: tuple[int, int] = (19, 3)

    @staticmethod
    def load(folder: Path, settings: LocalizeSettings | None = None, grid: tuple[int, int] | None = None) -> Confidence:
        """What a bundle's folder holds; never sure if that is nothing, or was fitted for another localizer."""
        path = folder / FILE
        if not path.is_file():
            return NEVER_SURE
        try:
            values: dict[str, Any] = read_json(path)
            weights = tuple(float(value) for value in values["weights"])
            numbers = (*weights, float(values["threshold"]), float(values["least_recent"]))
            if len(weights) != FEATURES or not plausible(numbers) or not 0.0 <= float(values["threshold"]) <= 1.0:
                raise ValueError(f"{len(weights)} weights instead of {FEATURES}, or some that cannot be")
            confidence = Confidence(
                weights, float(values["threshold"]), int(values["least_frames"]), str(values["fitted_on"]),
                float(values["least_recent"]), validate(LocalizeSettings, values["settings"]),
                (int(values["grid"][0]), int(values["grid"][1])),
            )  # fmt: skip
        except (
            OSError, ValueError, OverflowError, LookupError, TypeError, AttributeError, RecursionError, UserError,
        ) as problem:  # fmt: skip
            raise BundleError(f"{path} is damaged.", "Calibrate the bundle again: x2l calibrate BUNDLE") from problem
        fits = confidence.settings == (settings or LocalizeSettings()) and confidence.grid == (grid or confidence.grid)
        return confidence if fits else NEVER_SURE

    @property
    def calibrated(self) -> bool:
        """Whether it was fitted."""
        return bool(self.weights)

    def probability(self, evidence: Evidence) -> float:
        """The probability that a fix with this evidence is within 80 m."""
        if not self.weights or evidence.recent < self.least_recent:
            return 0.0
        return logistic(self.weights, features_of(evidence))

    def save(self, folder: Path) -> None:
        """Write it into the folder of a bundle."""
        values = {**asdict(self), "settings": self.settings.model_dump(mode="json")}
        write_text(folder / FILE, json.dumps(values, indent=2) + "\n")


NEVER_SURE = Confidence(threshold=math.inf)
"""For encoders and settings that nobody calibrated: it does not claim what nobody measured."""


def fit(features: Floats, right: Bools, ridge: float = 1.0, counts: Floats | None = None) -> tuple[float, ...]:
    """Logistic regression by Newton's method: (q, f) and (q,) -> (f,). ``counts``: how much each row counts, (q,)."""
    weights = np.zeros(features.shape[1])
    share = np.ones(len(features)) if counts is None else counts
    target = right.astype(np.float64)
    penalty = ridge * np.eye(len(weights))
    penalty[0, 0] = 1e-6
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-np.clip(features @ weights, -30, 30)))
        gradient = features.T @ (share * (p - target)) + penalty @ weights
        curvature = (features * (share * p * (1 - p))[:, None]).T @ features + penalty
        step = np.linalg.solve(curvature, gradient)
        weights = weights - step
        if float(np.abs(step).max()) < 1e-9:
            break
    return tuple(float(value) for value in weights)


def reliability(probability: Floats, right: Bools, bins: int = 10) -> list[tuple[float, float, int]]:
    """The reliability curve: mean probability, share that was right, and count, in each tenth of the scale."""
    which = np.minimum((probability * bins).astype(int), bins - 1)
    return [
        (float(probability[which == b].mean()), float(right[which == b].mean()), int((which == b).sum()))
        for b in range(bins)
        if (which == b).any()
    ]


def choose_threshold(probability: Floats, right: Bools, precision: float = 0.8) -> float:
    """The lowest probability from which at least that share of fixes is right; 1 if there is none."""
    order = np.argsort(-probability)
    share = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    good = np.flatnonzero(share >= precision)
    return float(probability[order[good[-1]]]) if len(good) else 1.0
