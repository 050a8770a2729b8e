"""The values that travel between rooms.

Frozen, small, and with their units in the name. Time is seconds, positions are WGS84 degrees, distances are
metres, images are RGB ``uint8`` arrays of shape (height, width, 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
"""RGB pixels, shape (height, width, 3)."""

Images = npt.NDArray[np.uint8]
"""A stack of RGB pictures, shape (..., height, width, 3)."""

Mask = npt.NDArray[np.bool_]
"""Per-pixel truth, shape (height, width)."""

Codes = npt.NDArray[np.float32]
"""Codes of pictures, or similarities between them."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Position:
    """A place on the WGS84 globe."""

    lat_deg: float
    lon_deg: float


@dataclass(frozen=True, slots=True)
class TimedPosition:
    """Where something was at a time; ``time_s`` counts from the start of its track."""

    time_s: float
    lat_deg: float
    lon_deg: float

    @property
    def position(self) -> Position:
        """The place without the time."""
        return Position(self.lat_deg, self.lon_deg)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One picture of a video with its true time.

    ``time_s`` is the presentation time in seconds from the first frame of the source, ``index`` counts the
    frames handed out, from 0.
    """

    index: int
    time_s: float
    image: Image


@dataclass(frozen=True, slots=True)
class Movement:
    """How a camera moved between two times, as odometry tells it.

    start_s, end_s: the times.
    distance_m: along its path; forward is positive.
    turn_deg: change of its heading; clockwise is positive.
    distance_sd_m, turn_sd_deg: standard deviations of both, without an error that all distances of a drive share.
    """

    start_s: float
    end_s: float
    distance_m: float
    turn_deg: float
    distance_sd_m: float
    turn_sd_deg: float

    def then(self, other: Movement) -> Movement:
        """This movement and the one that follows it, as one."""
        return Movement(
            self.start_s, other.end_s, self.distance_m + other.distance_m, self.turn_deg + other.turn_deg,
            math.hypot(self.distance_sd_m, other.distance_sd_m), math.hypot(self.turn_sd_deg, other.turn_sd_deg),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class TileId:
    """A Web-Mercator tile: zoom, column from the antimeridian eastward, row from the north."""

    z: int
    x: int
    y: int

    def __str__(self) -> str:
        return f"{self.z}/{self.x}/{self.y}"


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """A square of aerial imagery, north up.

    ``valid`` is False where the imagery has no data; those pixels are black and mean nothing.
    ``centre`` is the place at the middle of the picture, ``size_m`` the length of a side on the ground.
    """

    image: Image
    valid: Mask
    centre: Position
    size_m: float
    id: TileId | None = None

    @property
    def coverage(self) -> float:
        """The share of the tile that holds data, 0 to 1."""
        return float(self.valid.mean())


@dataclass(frozen=True, slots=True, order=True)
class Region:
    """``n`` x ``n`` Web-Mercator tiles; (x, y) is the north-west tile. A region may cross the antimeridian."""

    z: int
    x: int
    y: int
    n: int = 7

    def tiles(self) -> tuple[TileId, ...]:
        """The tiles row by row from the north-west; columns wrap at the antimeridian."""
        world = 1 << self.z
        return tuple(
            TileId(self.z, (self.x + column) % world, self.y + row) for row in range(self.n) for column in range(self.n)
        )

    def __str__(self) -> str:
        return f"{self.z}/{self.x}/{self.y}x{self.n}"


Progress = Callable[[str, int, int], None]
"""Called now and then by long work: what is being done, how much of it is done, and how much there is."""

Status = Literal["locating", "tracking", "lost"]
"""locating: too few frames yet. tracking: sure enough to state a position. lost: enough frames, and not sure."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A region that a search found, and how similar it is."""

    region: Region
    similarity: float


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A frame beside the region it was matched with.

    similarities: the frame with the region's tiles at half stride, (m, m).
    valid: which of these tiles hold data, (m, m).
    """

    frame: Frame
    region: Region
    similarities: Codes
    valid: Bools


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a localizer knows about the quality of its own guess; the confidence is fitted on it.

    share: of all belief, what lies within 80 m of the guess.
    recent: mean similarity of the last frames with their best tiles, the latest counting most.
    lead: similarity of the best region above the mean of the other candidates.
    region: similarity of the best region.
    behind: how far the region of the guess is behind the best one.
    frames: how many frames were taken in since the start or the last interruption.
    """

    share: float
    recent: float
    lead: float
    region: float
    behind: float
    frames: int


@dataclass(frozen=True, slots=True)
class TrackEvidence:
    """What a tracker knows about the quality of its own guess; the confidence is fitted on it.

    share: of all belief, what lies within 60 m of the guess.
    rival: of all belief, what lies in the half tile that holds the most of it elsewhere.
    on_map: probability of being on the map.
    spread_m: standard deviation of the belief around the guess.
    along_m: standard deviation along the road that turns and tiles allow, and the distance driven since.
    held_s: seconds since the guess last jumped, instead of moving as the odometry says.
    held_m, held_deg: distance driven and turns made since then.
    driven_m, turned_deg: distance and turns since the start, or since the last restart.
    tile_margin, road_margin: how much better tiles and roads fit the guess than "not on this map"; 0 without them.
    has_tiles, has_roads: which of the two there are.
    doubtful: pictures, odometry and map have lately contradicted each other, as they do when a sensor has failed.
    """

    share: float
    rival: float
    on_map: float
    spread_m: float
    along_m: float
    held_s: float
    held_m: float
    held_deg: float
    driven_m: float
    turned_deg: float
    tile_margin: float
    road_margin: float
    has_tiles: bool
    has_roads: bool
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class ErrorEllipse:
    """Where the camera is with 95% probability, if the guess is right at all.

    major_m, minor_m: half of the ellipse's axes.
    angle_deg: direction of the longer axis, clockwise from north, 0 to 180.
    """

    major_m: float
    minor_m: float
    angle_deg: float


@dataclass(frozen=True, slots=True, eq=False)
class Fix:
    """What a localizer says at one frame.

    index, time_s: of the frame.
    guess: the best guess, however unsure; None if nothing could be matched.
    confidence: the probability that the guess is within 80 m of the truth.
    similarity: of the frame with the tile of the guess.
    region: the candidate that holds the guess.
    candidates: the regions whose tiles the frame was matched with, best first.
    refreshed: whether the candidates were searched again at this frame.
    evidence: what the confidence was worked out from.
    view: what the frame was matched with, for drawing.
    heading_deg: where the camera looks, clockwise from north.
    speed_m_s: how fast it moves.
    ellipse: how precise the guess is.
    on_map: probability of being on the map.
    """

    index: int
    time_s: float
    status: Status
    guess: Position | None = None
    confidence: float = 0.0
    similarity: float = 0.0
    region: Region | None = None
    candidates: tuple[Candidate, ...] = ()
    refreshed: bool = False
    evidence: Evidence | TrackEvidence | None = None
    view: View | None = None
    heading_deg: float | None = None
    speed_m_s: float | None = None
    ellipse: ErrorEllipse | None = None
    on_map: float | None = None

    @property
    def position(self) -> Position | None:
        """The place, stated only when tracking."""
        return self.guess if self.status == "tracking" else None
