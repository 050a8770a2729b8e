"""One belief over the whole map: many poses with weights, and the probability of not being on the map.

A pose is a place, a heading, the scale of the odometry and the bias of its yaw rate. Odometry moves all poses, terms of
evidence weigh them, and when few of them carry most of the weight they are drawn again: many where the camera may be,
none where it cannot. Memory and time are bounded whatever the length of the drive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from x2localizer.config import TrackSettings
from x2localizer.localize.track.fields import RoadField
from x2localizer.localize.track.kernels import (
    AROUND,
    BIAS,
    COSINE,
    EAST,
    EAST_EAST,
    EAST_SOUTH,
    HALVES,
    HEADING,
    MASS,
    MEAN_SCALE,
    NEAR_ROADS,
    POSE,
    SCALE,
    SINE,
    SOUTH,
    SOUTH_SOUTH,
    TRUST,
    WEIGHT,
    Int32,
    X,
    Y,
    draw_again,
    gather,
    mean_around,
    move,
)
from x2localizer.localize.track.movements import straightened
from x2localizer.localize.track.patches import METRES_AROUND, Patches, best_cell
from x2localizer.localize.track.starts import Starts
from x2localizer.localize.track.terms import Moment, RoadTerm, Term
from x2localizer.types import Bools, Codes, Floats, Ints, Movement

AROUND_M = 60.0
"""The best place is the middle of the poses within this distance."""
ELSEWHERE_M = 100.0
"""What is further from the best place, to the east or to the south, is another place."""
ON_TILES = 300_000
"""Poses on a map without roads, if that many are allowed."""
ENOUGH = 0.4
"""Share of the poses that must carry weight; with fewer they are drawn again."""
START_SD_M, START_SD_DEG = 2.5, 4.0
"""How far poses lie beside the road at the start, and how far they point off it."""
CLEAR = 0.9
"""Share of the belief around the best place from which a few poses are enough to follow it."""
ANYWHERE_SHARE = 0.5
"""After a gap: share of the poses that start anywhere on the map; the others are where the camera may have come to."""
DISTANCE_SD = 0.02
"""Error of a step of odometry, as a share of its distance, beside what the odometry says itself."""
TURN_SD, TURN_SD_DEG = 0.05, 0.05
"""The same of its turn, and what comes on top."""
UNKNOWN_SPEED_M_S, UNKNOWN_YAW_DEG_S = 6.0, 12.0
"""Standard deviations where the odometry knows no distance or no turn."""
STILL_M_S = 0.2


@dataclass(frozen=True, slots=True)
class PoseEstimate:
    """Where the camera is, as far as the belief knows.

    x, y: column and row, in tiles.
    heading_rad: clockwise from north.
    scale: metres per metre of odometry.
    share: of all belief, what lies within 60 m.
    rival: of all belief, what lies in the half tile that holds the most of it elsewhere.
    on_map: probability that the camera is on the map.
    covariance_m2: of the place, around it: east-east, east-north, north-north.
    poses: how many there are.
    trusts_tiles: share of the belief that trusts the tiles.
    """

    x: float
    y: float
    heading_rad: float
    scale: float
    share: float
    rival: float
    on_map: float
    covariance_m2: tuple[float, float, float]
    poses: int
    trusts_tiles: float


class PoseBelief:
    """Poses, their weights, and the weight of not being on the map."""

    def __init__(
        self, patches: Patches, roads: RoadField | None, starts: Starts, terms: Sequence[Term],
        settings: TrackSettings, *, scale_sd: float = 0.05, bias_sd_deg_s: float = 0.1,
    ) -> None:  # fmt: skip
        self.patches, self.terms, self.settings = patches, tuple(terms), settings
        self.scale_sd, self.bias_sd = max(scale_sd, 0.01), math.radians(bias_sd_deg_s)
        self._roads, self._starts = roads, starts
        self._rng = np.random.default_rng(settings.seed)
        self._step = settings.seed
        self._tile_equator_m = METRES_AROUND / patches.world
        self._cell_offsets = patches.offsets(HALVES)
        self.null = 0.0
        self.log_evidence = 0.0
        """Logarithm of how probable everything was that this belief has taken in, against "not on this map"."""
        self.poses: Floats = np.zeros((POSE, 0))
        self.patch: Int32 = np.zeros(0, np.int32)
        self.restart()

    # Start -----------------------------------------------------------------------------------------------------------

    def restart(self, off_map: float | None = None) -> None:
        """Believe nothing: the camera may be anywhere on the map, or off it."""
        self.poses, self.patch = self._anywhere(self._at_start())
        self._share_out(self.settings.off_map if off_map is None else off_map)
        for term in self.terms:
            term.reset()

    def _most(self) -> int:
        s = self.settings
        wanted = len(self._starts) * 2 * 2.0 / s.pose_spacing_m if self._roads is not None else ON_TILES
        return int(np.clip(wanted, s.start_poses, s.most_poses))

    def _at_start(self) -> int:
        """How many poses to start with: more where the first frames must choose among all places and directions."""
        return self._most() if self._roads is not None else round(self.settings.more_on_tiles * self._most())

    def _share_out(self, off_map: float) -> None:
        self.poses[WEIGHT] = math.log1p(-off_map) - math.log(self.poses.shape[1])
        self.null = math.log(off_map)

    def _anywhere(self, count: int) -> tuple[Floats, Int32]:
        """Poses on all roads in both directions; without roads on all tiles, in any direction.

        Evenly spaced, so that no street is without poses by chance.
        """
        rng, starts = self._rng, self._starts
        which, direction = starts.evenly(count, rng)
        x, y, heading = starts.x[which], starts.y[which], starts.headings[which]
        poses = np.zeros((POSE, count))
        tile_m = self.patches.tile_m(y)
        if self._roads is not None:
            heading = heading + np.pi * direction + rng.normal(0, math.radians(START_SD_DEG), count)
            spread_m = START_SD_M
        else:
            heading = rng.uniform(0, 2 * np.pi, count)
            spread_m = 0.25 * float(tile_m.mean())
        poses[X] = (x + rng.normal(0, spread_m, count) / tile_m) % self.patches.world
        poses[Y] = y + rng.normal(0, spread_m, count) / tile_m
        poses[HEADING] = heading
        poses[SCALE] = np.exp(rng.normal(0, self.scale_sd, count))
        poses[BIAS] = rng.normal(0, self.bias_sd, count)
        trusting = self.settings.trust_tiles * np.arange(1, count + 1)
        poses[TRUST] = np.floor(trusting) > np.floor(trusting - self.settings.trust_tiles)
        return poses, starts.patch[which].astype(np.int32)

    def bridge(self, seconds: float) -> None:
        """Some seconds without odometry: the camera is where it can have come to by road, or anywhere."""
        count = self._at_start()
        poses, patch = self._anywhere(count)
        weight = np.exp(self.poses[WEIGHT] - self.poses[WEIGHT].max())
        parents = self._rng.choice(len(weight), count, p=weight / weight.sum())
        reach_m = self.settings.motion.cruise_m_s * seconds + 20.0
        near = self._reached(parents, reach_m)
        local = np.flatnonzero(self._rng.uniform(size=count) > ANYWHERE_SHARE)
        local = local[near[0][local]]
        poses[X, local], poses[Y, local], poses[HEADING, local] = (values[local] for values in near[1:4])
        poses[SCALE, local] = self.poses[SCALE, parents[local]]
        patch[local] = self.patch[parents[local]]
        self.poses, self.patch = poses, patch
        off_map = min(max(math.exp(self.null), self.settings.off_map), 0.9)
        self._share_out(off_map)
        for term in self.terms:
            term.reset()

    def _reached(self, parents: Ints, reach_m: float) -> tuple[Bools, Floats, Floats, Floats]:
        """For poses: whether a road was found within reach, and a place and heading on it at random."""
        rng, count, field = self._rng, len(parents), self._roads
        x0, y0 = self.poses[X, parents], self.poses[Y, parents]
        tile_m = self.patches.tile_m(y0)
        found = np.zeros(count, np.bool_)
        x, y, heading = x0.copy(), y0.copy(), rng.uniform(0, 2 * np.pi, count)
        for _ in range(12):
            away, angle = reach_m * np.sqrt(rng.uniform(size=count)), rng.uniform(0, 2 * np.pi, count)
            at_x, at_y = x0 + away * np.sin(angle) / tile_m, y0 - away * np.cos(angle) / tile_m
            if field is None:
                return np.ones(count, np.bool_), at_x, at_y, heading
            cell = _road_cells(field, at_x, at_y, self.patch[parents])
            good = ~found & (cell >= 0) & (field.cells[cell, 0] * 0.25 < 6.0)
            x[good], y[good] = at_x[good], at_y[good]
            along = field.cells[cell[good], 1] * (np.pi / 256.0)
            heading[good] = along + np.pi * rng.integers(0, 2, int(good.sum())) + rng.normal(0, 0.05, int(good.sum()))
            found |= good
        return found, x, y, heading

    # Moving and weighing ---------------------------------------------------------------------------------------------

    def update(self, movements: Sequence[Movement], code: Codes | None = None) -> None:
        """Move all poses, and weigh them by the way they came and by the frame that was taken at its end."""
        movements = straightened(movements)
        for number, movement in enumerate(movements):
            self._move(movement)
            last = number == len(movements) - 1
            self._weigh(Moment(movement.distance_m, math.radians(movement.turn_deg), code if last else None))
        if not movements:
            self._weigh(Moment(0.0, 0.0, code))
        self._normalise()

    def _move(self, movement: Movement) -> None:
        signed_s = movement.end_s - movement.start_s  # negative on a pass backward in time
        seconds = max(abs(signed_s), 1e-6)
        still = abs(movement.distance_m) < STILL_M_S * seconds
        distance_sd = movement.distance_sd_m + DISTANCE_SD * abs(movement.distance_m)
        if not math.isfinite(distance_sd):
            distance_sd = UNKNOWN_SPEED_M_S * seconds
        turn_sd = movement.turn_sd_deg + (0.0 if still else TURN_SD_DEG) + TURN_SD * abs(movement.turn_deg)
        if not math.isfinite(turn_sd):
            turn_sd = UNKNOWN_YAW_DEG_S * seconds
        self._step += 1
        move(
            self.poses, movement.distance_m, math.radians(movement.turn_deg), signed_s, distance_sd,
            math.radians(turn_sd), self._tile_equator_m, self.patches.world, self._step,
        )  # fmt: skip

    def _weigh(self, moment: Moment) -> None:
        for term in self.terms:
            term.weigh(self.poses, self.patch, moment)

    def _normalise(self) -> None:
        top = max(float(self.poses[WEIGHT].max()), self.null)
        total = top + math.log(float(np.exp(self.poses[WEIGHT] - top).sum()) + math.exp(self.null - top))
        self.poses[WEIGHT] -= total
        self.log_evidence += total
        self.null = min(max(self.null - total, math.log(1e-6)), math.log1p(-1e-6))

    @property
    def on_map(self) -> float:
        """Probability that the camera is on the map."""
        return 1.0 - math.exp(self.null)

    @property
    def margins(self) -> dict[str, float]:
        """How much better each term finds the belief than "not on this map"."""
        return {term.name: term.margin for term in self.terms}

    @property
    def fit(self) -> float:
        """How well the belief fits the roads, in the last step; 0 without roads."""
        return max((term.fit for term in self.terms if isinstance(term, RoadTerm)), default=0.0)

    @property
    def trusts_tiles(self) -> float:
        """Share of the belief that trusts the tiles."""
        weight = np.exp(self.poses[WEIGHT] - self.poses[WEIGHT].max())
        return float(weight @ self.poses[TRUST] / weight.sum())

    # Answers ---------------------------------------------------------------------------------------------------------

    def estimate(self) -> PoseEstimate:
        """The best place; then the poses are drawn again if few of them carry the weight."""
        relative = np.exp(self.poses[WEIGHT] - self.poses[WEIGHT].max())
        relative /= relative.sum()
        cells = np.zeros(int(self._cell_offsets[-1]))
        corners = self.patches.corners
        off = gather(self.poses, self.patch, relative, corners, self._cell_offsets, self.patches.world, cells)
        found = self._around_best(relative, cells, off)
        if 1.0 / float((relative**2).sum()) < ENOUGH * len(relative):
            self._draw_again(relative, int((cells > 1e-5).sum()), found.share)
        return found

    def _around_best(self, relative: Floats, cells: Floats, off: float) -> PoseEstimate:
        patch, row, column = best_cell(cells, self._cell_offsets, self.patches.corners)
        x0, y0, _, _ = (int(value) for value in self.patches.corners[patch])
        east, south = (column + 0.5) / HALVES, (row + 0.5) / HALVES  # tiles from the patch's corner
        tile_m = float(self.patches.tile_m(np.array([y0 + south]))[0])
        out = np.zeros(AROUND)
        for _ in range(3):
            mean_around(
                self.poses, self.patch, relative, patch, x0, y0, east, south, AROUND_M / tile_m, self.patches.world, out
            )
            east, south = float(out[EAST]), float(out[SOUTH])
        covariance = tuple(float(v) * tile_m**2 for v in (out[EAST_EAST], -out[EAST_SOUTH], out[SOUTH_SOUTH]))
        here = 1.0 - math.exp(self.null)
        rival = self._elsewhere(cells, patch, east, south, ELSEWHERE_M / tile_m)
        return PoseEstimate(
            (x0 + east) % self.patches.world, y0 + south, math.atan2(float(out[SINE]), float(out[COSINE])),
            float(out[MEAN_SCALE]), float(out[MASS]) * here, rival * here, here * (1.0 - off),
            (covariance[0], covariance[1], covariance[2]), len(relative),
            float(relative @ (self.poses[TRUST] > 0.5)),
        )  # fmt: skip

    def _elsewhere(self, cells: Floats, patch: int, east: float, south: float, radius: float) -> float:
        """The largest weight of a cell that is not around a place, given in tiles from the corner of its patch."""
        first, end = int(self._cell_offsets[patch]), int(self._cell_offsets[patch + 1])
        width, height = (int(value) for value in self.patches.corners[patch][2:])
        near = cells[first:end].reshape(height * HALVES, width * HALVES).copy()
        rows, columns = (
            slice(max(0, int((at - radius) * HALVES)), int((at + radius) * HALVES) + 1) for at in (south, east)
        )
        near[rows, columns] = 0.0
        return max(float(part.max(initial=0.0)) for part in (cells[:first], near, cells[end:]))

    def _draw_again(self, relative: Floats, cells: int, share: float) -> None:
        s = self.settings
        least = s.least_poses if share > CLEAR else s.unclear_poses
        count = int(np.clip(max(s.poses_per_cell * cells, least), s.least_poses, self._most()))
        angles = math.radians(s.scatter_deg), math.radians(s.scatter_bias_deg_s)
        spread = np.array([s.scatter_m, angles[0], s.scatter_scale, angles[1], s.change_trust])
        poses, patch = np.zeros((POSE, count)), np.zeros(count, np.int32)
        self._step += 1
        draw_again(
            self.poses, self.patch, np.cumsum(relative), spread, poses, patch, self._tile_equator_m,
            self.patches.world, self._step,
        )  # fmt: skip
        self.poses, self.patch = poses, patch
        self._share_out(math.exp(self.null))


def _road_cells(field: RoadField, x: Floats, y: Floats, patch: Int32) -> Ints:
    """The cells of places in the field of roads, (n,); -1 off their patch."""
    corners = field.patches.corners[patch]
    column = (((x - corners[:, 0]) % field.patches.world) * NEAR_ROADS).astype(np.int64)
    row = np.floor((y - corners[:, 1]) * NEAR_ROADS).astype(np.int64)
    columns, rows = corners[:, 2] * NEAR_ROADS, corners[:, 3] * NEAR_ROADS
    inside = (column < columns) & (row >= 0) & (row < rows)
    return np.where(inside, field.offsets[patch] + row * columns + column, -1)
