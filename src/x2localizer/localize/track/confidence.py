"""How sure is a tracker? A calibrated probability that its guess is within 80 m of the truth.

A logistic regression on :class:`x2localizer.types.TrackEvidence`, fitted on drives through validation towns: on the map
and off it, by day and at night, with and without roads and tiles. It is kept in a bundle as ``track.json``, together
with the settings it was fitted with; the one for roads alone comes with the package.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from x2localizer.config import TrackSettings, validate
from x2localizer.errors import BundleError, UserError
from x2localizer.files import write_text
from x2localizer.types import Floats, TrackEvidence

FILE = "track.json"
FEATURES = 11


def track_features(evidence: TrackEvidence) -> Floats:
    """Evidence as the regression takes it, (11,).

    A large share of the belief says much once it has held for a while, and little before; so their product is a
    feature. Distance and turns since the start are none: few drives cannot tell them from how far a drive has come.
    """
    e = evidence
    share, held = _log_odds(e.share), math.log1p(e.held_s)
    return np.array([
        1.0, share, _log_odds(e.on_map), math.log(e.spread_m + 3.0), held, max(share, 0.0) * held,
        _bounded(e.tile_margin), _bounded(e.road_margin), float(e.has_tiles), float(e.has_roads),
        float(e.has_tiles and e.has_roads),
    ])  # fmt: skip


def _log_odds(share: float) -> float:
    kept = min(max(share, 1e-3), 1 - 1e-3)
    return math.log(kept / (1 - kept))


def _bounded(margin: float) -> float:
    return min(max(margin, -3.0), 3.0)


@dataclass(frozen=True, slots=True)
class TrackConfidence:
    """A fitted regression.

    weights: of the features, (11,); empty if nothing was fitted.
    threshold: the probability from which a position is stated.
    fitted_on: which drives.
    settings: of the tracker that it was fitted with.
    """

    weights: tuple[float, ...] = ()
    threshold: float = math.inf
    fitted_on: str = ""
    settings: TrackSettings = field(default_factory=TrackSettings)

    @property
    def calibrated(self) -> bool:
        """Whether it was fitted."""
        return bool(self.weights)

    def probability(self, evidence: TrackEvidence) -> float:
        """The probability that a guess with this evidence is within 80 m."""
        if not self.weights:
            return 0.0
        log_odds = float(np.dot(self.weights, track_features(evidence)))
        return 1.0 / (1.0 + math.exp(-min(max(log_odds, -500.0), 500.0)))

    def save(self, path: Path) -> None:
        """Write it to a file."""
        values = {**asdict(self), "settings": self.settings.model_dump(mode="json")}
        write_text(path, json.dumps(values, indent=2) + "\n")


UNFITTED = TrackConfidence()
"""For bundles and settings that nobody calibrated: never sure."""


def track_confidence(folder: Path | None, settings: TrackSettings) -> TrackConfidence:
    """The confidence of a bundle's folder, or without one that of roads alone; unfitted if settings differ."""
    if folder is None:
        path = Path(str(resources.files("x2localizer") / "localize" / "track" / "roads.json"))
    else:
        path = folder / FILE
    if not path.is_file():
        return UNFITTED
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        weights = tuple(float(value) for value in values["weights"])
        threshold = float(values["threshold"])
        if len(weights) != FEATURES or not all(math.isfinite(number) for number in (*weights, threshold)):
            raise ValueError(f"{len(weights)} weights instead of {FEATURES}, or some that are not numbers")
        fitted = TrackConfidence(
            weights, threshold, str(values["fitted_on"]), validate(TrackSettings, values["settings"])
        )
    except (OSError, ValueError, KeyError, TypeError, UserError) as problem:
        raise BundleError(f"{path} is damaged.", "Calibrate the bundle again: x2l calibrate BUNDLE") from problem
    return fitted if _same(fitted.settings, settings) else UNFITTED


def _same(fitted: TrackSettings, asked: TrackSettings) -> bool:
    """Whether settings agree in all that matters: leaving out a term, or another seed, is covered by the fit."""
    free = {"seed": 0, "use_tiles": True, "use_roads": True}
    return fitted.model_copy(update=free) == asked.model_copy(update=free)
