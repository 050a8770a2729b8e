"""Terms of evidence: what speaks for one pose and against another.

All have the same shape, and each can be left out. A term also says how much a camera that is nowhere on the map would
score, so that it can speak for "not on this map".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from x2localizer.config import TrackSettings
from x2localizer.localize.track.fields import RoadField, TileField
from x2localizer.localize.track.kernels import WEIGHT, Float32, Int32, road_values, weigh_roads, weigh_tiles
from x2localizer.types import Bools, Codes, Floats, Region

FADING = 0.9
"""Weight of what was before against what has come, for running means."""
FIT_FADING = 0.8
"""The same for how well the belief fits the roads: after a turn it must be clear soon."""


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """What has just happened.

    distance_m, turn_rad: how the camera has moved.
    code: image code of the frame that has come, (d,); None if there was none that shows anything.
    """

    distance_m: float
    turn_rad: float
    code: Codes | None = None


class Term(ABC):
    """Weighs poses.

    margin: running mean of how much better the belief explains what was seen than "not on this map" does.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self.margin = 0.0

    @abstractmethod
    def weigh(self, poses: Floats, patch: Int32, moment: Moment) -> None:
        """Add to the log-weights of poses, so that "not on this map" counts 0."""

    def reset(self) -> None:
        """Forget what was before: the camera may be anywhere."""
        self.margin = 0.0

    def _note(self, gain: float) -> None:
        """Keep the mean gain of the poses."""
        self.margin = FADING * self.margin + (1.0 - FADING) * gain


class RoadTerm(Term):
    """A car is on a road and drives along it; elsewhere it is seldom.

    Going straight fits every straight road, so it says little; turning where the map has a turn says much. What counts
    as "not on this map" therefore falls in turns.
    """

    name = "roads"

    def __init__(self, field: RoadField, settings: TrackSettings) -> None:
        super().__init__()
        self.field, self.settings = field, settings
        self._values = road_values(
            settings.road_sd_m, np.radians(settings.road_sd_deg), settings.junction_share, settings.off_road_share
        )
        self._lately: deque[tuple[float, float]] = deque(maxlen=40)
        self._log_fit = 0.0

    def reset(self) -> None:
        """Forget what was before."""
        super().reset()
        self._lately.clear()
        self._log_fit = 0.0

    @property
    def fit(self) -> float:
        """How well the belief has fitted the roads over the last steps: 1 on a road and along it, near 0 beside it."""
        return math.exp(min(self._log_fit, 0.0))

    def weigh(self, poses: Floats, patch: Int32, moment: Moment) -> None:
        """Weigh poses by the roads, in proportion to the distance driven."""
        s, f = self.settings, self.field
        power = s.road_weight * abs(moment.distance_m) / 10.0
        self._lately.append((abs(moment.distance_m), abs(moment.turn_rad)))
        if power <= 0.0:
            return
        level = self._level()
        gain = weigh_roads(
            poses, patch, f.patches.corners, f.offsets, f.cells, f.patches.world, self._values, level, power,
            float(poses[WEIGHT].max()),
        )  # fmt: skip
        self._note(gain)
        self._log_fit = FIT_FADING * self._log_fit + (1.0 - FIT_FADING) * (gain + level)

    def _level(self) -> float:
        """The logarithm of what a place off the map counts as: less in a turn."""
        driven = turned = 0.0
        for distance, turn in reversed(self._lately):
            driven, turned = driven + distance, turned + turn
            if driven > 30.0:
                break
        bend = min(1.0, turned / math.radians(60.0))
        return self.settings.road_level + self.settings.road_level_in_turns * bend


class TileOdds:
    """What the tiles say of the last frame; shared by the terms of several beliefs about one camera.

    Similarities become odds against a tile at random by a softmax. Its temperature follows from how well the best
    tiles have fitted lately: at night, in fog or with a foreign camera none fits well, and the odds become even.

    best: similarity of the frame with the tile that is most like it.
    similarities: with all tiles, (t, headings).
    values: log-odds by cell of the field, (cells, headings).
    """

    def __init__(self, field: TileField, settings: TrackSettings) -> None:
        self.field, self.settings = field, settings
        self.best = 0.0
        self.similarities: Codes = np.zeros((len(field.cells), field.headings), np.float32)
        self.values: Float32 = np.zeros((int(field.offsets[-1]), field.headings), np.float32)
        self._lately: float | None = None
        self._code: Codes | None = None

    @property
    def temperature(self) -> float:
        """Of the softmax, from how well the best tiles have fitted lately."""
        s = self.settings
        lacking = s.good_similarity - (self._lately if self._lately is not None else s.good_similarity)
        return float(np.clip(s.temperature + s.temperature_slope * lacking, s.temperature, s.temperature_most))

    def take(self, code: Codes) -> None:
        """Compare a frame with all tiles; the same frame again costs nothing."""
        if code is self._code:
            return
        self._code = code
        s, f = self.settings, self.field
        self.similarities = f.compared(code)
        self.best = float(self.similarities.max())
        self._lately = self.best if self._lately is None else 0.8 * self._lately + 0.2 * self.best
        values, information = log_odds(self.similarities, self.temperature, s.tile_error_share)
        self.values.fill(np.log(s.tile_error_share))
        self.values[f.cells] = values
        self.values -= np.float32(s.tile_level * information)

    def around(self, region: Region) -> tuple[Codes, Bools]:
        """Similarities of the last frame with the tiles of a region at half stride, and which of these there are."""
        tiles = self.field.in_region(region)
        valid = tiles >= 0
        return np.where(valid, self.similarities[tiles].max(-1), np.float32(0.0)), valid


class TileTerm(Term):
    """The frame looks like the tile that the camera is on."""

    name = "tiles"

    def __init__(self, odds: TileOdds, settings: TrackSettings) -> None:
        super().__init__()
        self.odds, self.settings = odds, settings
        self._driven = np.inf

    def reset(self) -> None:
        """Forget what was before."""
        super().reset()
        self._driven = np.inf

    def weigh(self, poses: Floats, patch: Int32, moment: Moment) -> None:
        """Weigh poses by the tiles; a camera that has hardly moved has hardly seen anything new."""
        self._driven += abs(moment.distance_m)
        if moment.code is None:
            return
        s, odds = self.settings, self.odds
        odds.take(moment.code)
        power = s.tile_weight * s.temperature / odds.temperature * min(1.0, self._driven / s.tile_apart_m)
        if power < 0.01:
            return
        self._driven = 0.0
        f, top = odds.field, float(poses[WEIGHT].max())
        self._note(weigh_tiles(poses, patch, f.patches.corners, f.offsets, odds.values, f.patches.world, power, top))


def log_odds(similarities: Codes, temperature: float, error_share: float) -> tuple[Codes, float]:
    """How much more probable each tile is than one at random, as logarithms; and their mean by probability.

    similarities: with all tiles, (t,), or with all tiles in all headings, (t, headings).

    The second is what the frame tells about the place, in nats, if the softmax is right.
    """
    scaled = similarities / np.float32(temperature)
    probability = np.exp(scaled - scaled.max())
    probability /= probability.sum()
    values = np.log((1.0 - error_share) * probability.size * probability + error_share).astype(np.float32)
    return values, float((probability * values).sum())
