"""How sure is a fix? A calibrated probability that it is within 80 m of the truth.

A logistic regression on what the localizer sees itself, fitted on drives through validation towns and kept in the
bundle as ``confidence.json``. A bundle without one is never sure: it does not claim what nobody measured.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from x2localizer.config import LocalizeSettings
from x2localizer.encoders import Bundle
from x2localizer.errors import BundleError
from x2localizer.files import write_text
from x2localizer.localize.belief import Match
from x2localizer.search import Hits

FILE = "confidence.json"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a fix: the share of belief around it, the similarity of the last frames, how far the best region
    is ahead of the others, its similarity, how far the region of the fix is behind it, and how many frames were taken
    in."""

    share: float
    recent: float
    lead: float
    region: float
    behind: float
    frames: int

    @staticmethod
    def of(match: Match, hits: Hits, frames: int) -> Evidence:
        """The evidence at one frame; candidates are in the order of the hits."""
        lead = float(hits.score[0] - hits.score[1:].mean()) if len(hits.score) > 1 else 0.0
        behind = float(hits.score[0] - hits.score[match.candidate])
        return Evidence(match.share, match.recent, lead, float(hits.score[0]), behind, frames)

    def features(self) -> npt.NDArray[np.float64]:
        """As the regression takes it, (7,)."""
        share = min(max(self.share, 1e-4), 1 - 1e-4)
        odds = math.log(share / (1 - share))
        seen = math.log1p(min(self.frames, 60))
        return np.array([1.0, odds, 5.0 * self.recent, 10.0 * self.lead, self.region, 10.0 * self.behind, seen])


FEATURES = 7


def is_calibrated(settings: LocalizeSettings) -> bool:
    """Whether a localizer is of the kind that confidences are fitted on; the figures of another mean something else."""
    usual = LocalizeSettings()
    kinds = ("similarity", "matching", "policy")
    return all(getattr(settings, name) == getattr(usual, name) for name in kinds)


@dataclass(frozen=True, slots=True)
class Confidence:
    """A fitted regression, the probability from which a fix counts as tracking, and where it was fitted."""

    weights: tuple[float, ...] = ()
    threshold: float = 0.5
    least_frames: int = 10
    """Before so many frames a fix that is not sure is still locating, not lost."""
    fitted_on: str = ""
    least_recent: float = -1.0
    """Frames that fit worse than nearly all that were ever right: such a fix has no chance, whatever else speaks."""

    @staticmethod
    def of(bundle: Bundle, settings: LocalizeSettings | None = None) -> Confidence:
        """What a bundle holds; never sure if it holds none, or for another kind of localizer than it was fitted on."""
        path = bundle.root / FILE
        if not path.is_file() or not is_calibrated(settings or LocalizeSettings()):
            return Confidence(threshold=math.inf)
        try:
            told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            weights = tuple(float(value) for value in told["weights"])
            if len(weights) != FEATURES:
                raise ValueError(f"{len(weights)} weights instead of {FEATURES}")
            return Confidence(
                weights, float(told["threshold"]), int(told["least_frames"]), str(told["fitted_on"]),
                float(told["least_recent"]),
            )  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise BundleError(f"{path} is damaged.", "Calibrate the bundle again: x2l calibrate") from problem

    @property
    def calibrated(self) -> bool:
        """Whether there is something to go by."""
        return bool(self.weights)

    def probability(self, evidence: Evidence) -> float:
        """The probability that a fix with this evidence is within 80 m."""
        if not self.weights or evidence.recent < self.least_recent:
            return 0.0
        return float(1.0 / (1.0 + math.exp(-float(np.dot(self.weights, evidence.features())))))

    def save(self, folder: Path) -> None:
        """Put it into a bundle."""
        write_text(folder / FILE, json.dumps(asdict(self), indent=2) + "\n")


def fit(features: npt.NDArray[np.float64], right: npt.NDArray[np.bool_], ridge: float = 1.0) -> tuple[float, ...]:
    """Logistic regression by Newton's method: (q, f) and (q,) -> (f,)."""
    weights = np.zeros(features.shape[1])
    target = right.astype(np.float64)
    penalty = ridge * np.eye(len(weights))
    penalty[0, 0] = 1e-6
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-np.clip(features @ weights, -30, 30)))
        gradient = features.T @ (p - target) + penalty @ weights
        curvature = (features * (p * (1 - p))[:, None]).T @ features + penalty
        step = np.linalg.solve(curvature, gradient)
        weights = weights - step
        if float(np.abs(step).max()) < 1e-9:
            break
    return tuple(float(value) for value in weights)


def reliability(
    probability: npt.NDArray[np.float64], right: npt.NDArray[np.bool_], bins: int = 10
) -> list[tuple[float, float, int]]:
    """The reliability curve: mean probability, share that was right, and count, in each tenth of the scale."""
    which = np.minimum((probability * bins).astype(int), bins - 1)
    return [
        (float(probability[which == b].mean()), float(right[which == b].mean()), int((which == b).sum()))
        for b in range(bins)
        if (which == b).any()
    ]


def choose_threshold(
    probability: npt.NDArray[np.float64], right: npt.NDArray[np.bool_], precision: float = 0.8
) -> float:
    """The lowest probability from which at least that share of fixes is right; 1 if there is none."""
    order = np.argsort(-probability)
    share = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    good = np.flatnonzero(share >= precision)
    return float(probability[order[good[-1]]]) if len(good) else 1.0
