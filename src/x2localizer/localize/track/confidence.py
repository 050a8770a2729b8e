"""How sure is a tracker? A calibrated probability that its guess is within 80 m of the truth.

A logistic regression on :class:`x2localizer.types.TrackEvidence`, fitted on drives through validation towns: on the map
and off it, by day and at night, with and without roads and tiles. It is kept in a bundle as ``track.json``, together
with the settings it was fitted with; the one for roads alone comes with the package.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from x2localizer import geo
from x2localizer.config import TrackSettings, validate
from x2localizer.errors import BundleError, UserError
from x2localizer.files import read_json, write_text
from x2localizer.localize.confidence import logistic, plausible
from x2localizer.types import Floats, TrackEvidence

FILE = "track.json"
FIRST_FEATURES = (
    "constant", "share", "on_map", "spread", "held", "share_held", "tile_margin", "road_margin", "tiles", "roads",
    "tiles_and_roads",
)  # fmt: skip
"""Those of files that do not name theirs."""
FEATURES = (*FIRST_FEATURES, "rival", "held_turn", "share_held_turn")
MAP_GROWTH = 1.5
"""How a threshold grows with the map, its log-odds over the log of the size: a larger map has more places that fit by
chance. Drives off a map of 18 validation towns needed 0.988 where those off one of six needed 0.94."""
MAP_FEATURES = ("constant", "share", "on_map", "tile_margin", "roads", "rival")
"""Of these, the ones that tell whether the camera is on the map at all."""


def track_features(evidence: TrackEvidence) -> Floats:
    """Evidence as the regression takes it, in the order of FEATURES.

    A large share of the belief says much once it has held for a while, and more once it has held through turns; so
    their products are features. Distance and turns since the start are none: few drives cannot tell them from how far a
    drive has come.
    """
    e = evidence
    share, held, held_turn = _log_odds(e.share), math.log1p(e.held_s), math.log1p(e.held_deg / 30.0)
    return np.array([
        1.0, share, _log_odds(e.on_map), math.log(e.spread_m + 3.0), held, max(share, 0.0) * held,
        _bounded(e.tile_margin), _bounded(e.road_margin), float(e.has_tiles), float(e.has_roads),
        float(e.has_tiles and e.has_roads), math.log((e.share + 1e-3) / (e.rival + 1e-3)), held_turn,
        max(share, 0.0) * held_turn,
    ])  # fmt: skip


def map_features(evidence: TrackEvidence) -> Floats:
    """Evidence of being on the map at all, in the order of MAP_FEATURES."""
    return track_features(evidence)[[FEATURES.index(name) for name in MAP_FEATURES]]


def _log_odds(share: float) -> float:
    kept = min(max(share, 1e-3), 1 - 1e-3)
    return math.log(kept / (1 - kept))


def _with_odds(probability: float, factor: float) -> float:
    """A probability whose odds are so many times as high; one above 1 stays as it is."""
    return probability if probability >= 1.0 else factor * probability / (1.0 + (factor - 1.0) * probability)


def _bounded(margin: float) -> float:
    return min(max(margin, -3.0), 3.0)


def reach_probability(evidence: TrackEvidence) -> float:
    """The probability that a guess on the right road is within 80 m along it.

    A factor, and not a feature of the regression: drives through towns, on which that is fitted, turn too often to show
    what a motorway does.
    """
    return math.erf(geo.RIGHT_WITHIN_M / (math.sqrt(2.0) * max(evidence.along_m, 1e-6)))


def supported(evidence: TrackEvidence) -> bool:
    """Whether the last seconds speak for the guess: some term finds it better than "not on this map".

    Odometry that lies and roads of another city can lead a belief to one place; then nothing fits it for long. A rule,
    and not a feature: the drives that the regression is fitted on neither lie nor are on a wrong map. And nothing
    speaks for a guess while a sensor seems to have failed.
    """
    if evidence.doubtful:
        return False
    tiles = evidence.has_tiles and evidence.tile_margin > 0.0
    return tiles or (evidence.has_roads and evidence.road_margin > 0.0)


@dataclass(frozen=True, slots=True)
class TrackConfidence:
    """A fitted regression.

    weights: of the features, in the order of FEATURES; empty if nothing was fitted.
    threshold: the probability from which a position is stated, on maps with roads.
    threshold_without_roads: the same on maps without.
    fitted_on: which drives.
    settings: of the tracker that it was fitted with.
    map_weights: of MAP_FEATURES, for being on the map at all; empty if nothing was fitted.
    map_km2: the size of the map that the thresholds are for, in square kilometres; 0 if nobody knows.
    """

    weights: tuple[float, ...] = ()
    threshold: float = math.inf
    threshold_without_roads: float = math.inf
    fitted_on: str = ""
    settings: TrackSettings = field(default_factory=TrackSettings)
    map_weights: tuple[float, ...] = ()
    map_km2: float = 0.0

    @property
    def calibrated(self) -> bool:
        """Whether it was fitted."""
        return bool(self.weights)

    def probability(self, evidence: TrackEvidence) -> float:
        """The probability that a guess with this evidence is within 80 m."""
        if not self.weights or not supported(evidence):
            return 0.0
        return reach_probability(evidence) * logistic(self.weights, track_features(evidence))

    def on_map(self, evidence: TrackEvidence, probability: float) -> float:
        """The probability of being on the map, for a guess that is right with some probability.

        That of the belief alone counts how well some place fits; some always does on a large map. Whether one place
        stands out says more.
        """
        if not self.map_weights:
            return evidence.on_map
        return max(logistic(self.map_weights, map_features(evidence)), probability)

    def for_map(self, km2: float) -> TrackConfidence:
        """The same for a map of another size: with higher thresholds if that is larger."""
        if not 0.0 < self.map_km2 < km2 or math.isinf(self.threshold):
            return self
        growth = (km2 / self.map_km2) ** MAP_GROWTH
        with_roads, without = (_with_odds(p, growth) for p in (self.threshold, self.threshold_without_roads))
        return replace(self, threshold=with_roads, threshold_without_roads=without, map_km2=km2)

    def is_sure(self, evidence: TrackEvidence, probability: float) -> bool:
        """Whether a position is stated that is right with this probability."""
        return probability >= (self.threshold if evidence.has_roads else self.threshold_without_roads)

    def save(self, path: Path) -> None:
        """Write it to a file."""
        names = {"features": FEATURES, "map_features": MAP_FEATURES}
        values = {**asdict(self), **names, "settings": self.settings.model_dump(mode="json")}
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
        values: dict[str, Any] = read_json(path)
        weights, threshold = _in_order(values), float(values["threshold"])
        without_roads = float(values.get("threshold_without_roads", threshold))  # older files have one for both
        if not plausible(weights) or not (0.0 <= threshold <= 1.0 and 0.0 <= without_roads <= 1.0):
            raise ValueError("some weights or thresholds cannot be")
        settings_then = validate(TrackSettings, values["settings"])
        map_weights = tuple(float(weight) for weight in values.get("map_weights", ()))
        if map_weights and (tuple(values["map_features"]) != MAP_FEATURES or len(map_weights) != len(MAP_FEATURES)):
            raise ValueError("weights of being on the map are of unknown features")
        map_km2 = float(values.get("map_km2", 0.0))  # older files do not tell
        if not plausible(map_weights) or not 0.0 <= map_km2 < math.inf:
            raise ValueError("some weights of being on the map, or the size of that, cannot be")
        fitted = TrackConfidence(
            weights, threshold, without_roads, str(values["fitted_on"]), settings_then, map_weights, map_km2
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, UserError) as problem:
        raise BundleError(f"{path} is damaged.", "Calibrate the bundle again: x2l calibrate BUNDLE") from problem
    return fitted if _same(fitted.settings, settings, tiles=folder is not None) else UNFITTED


def _in_order(values: dict[str, Any]) -> tuple[float, ...]:
    """The weights of a file in the order of FEATURES; features that it was fitted without count nothing."""
    named = dict(zip(values.get("features", FIRST_FEATURES), values["weights"], strict=True))
    if not named.keys() <= set(FEATURES):
        raise ValueError("there are weights of unknown features")
    return tuple(float(named.get(name, 0.0)) for name in FEATURES)


OF_TILES = (
    "tile_weight", "tile_apart_m", "tile_error_share", "tile_level", "temperature", "temperature_most",
    "temperature_slope", "good_similarity",
)  # fmt: skip
"""Settings that do not matter where there are no tiles."""


def _same(fitted: TrackSettings, asked: TrackSettings, *, tiles: bool) -> bool:
    """Whether settings agree in all that matters: leaving out a term, or another seed, is covered by the fit.

    More poses than it was fitted with show the same belief in more detail; fewer may miss where the camera is.
    """
    if asked.most_poses < fitted.most_poses or asked.pose_spacing_m > fitted.pose_spacing_m:
        return False
    free: dict[str, object] = {"seed": 0, "use_tiles": True, "use_roads": True, "most_poses": 1000, "pose_spacing_m": 1}
    if not tiles:
        free |= {name: getattr(asked, name) for name in OF_TILES}
    return fitted.model_copy(update=free) == asked.model_copy(update=free)
