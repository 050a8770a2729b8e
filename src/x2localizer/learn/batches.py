"""Batches for training, each a pure function of the seed and the step: a run that resumes sees the same ones.

Pictures are decoded when a batch is made; the dataset is never held in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from x2localizer import geo
from x2localizer.config import ModelSettings, StageSettings
from x2localizer.datasets.dataset import Dataset
from x2localizer.datasets.poses import relative_poses
from x2localizer.datasets.tables import FrameRow, Media, RegionRow, VideoRow
from x2localizer.datasets.tiles import cut_tiles
from x2localizer.encoders.area import steps_ahead
from x2localizer.encoders.protocol import Capabilities
from x2localizer.errors import DatasetError
from x2localizer.learn.augment import augmented, shaken
from x2localizer.types import Floats


@dataclass(frozen=True, slots=True)
class PairBatch:
    """Single frames with the tiles around them, for stage 1.

    frames: (b, 3, h, w).
    tiles: (b, 3, t, t).
    places: where each frame was taken, as column and row of the tile grid with fractions, (b, 2).
    headings: which way each camera looks in its tile, radians clockwise from up, to about 22 degrees, (b,).
    further: tiles that lie further ahead, (b, k, 3, t, t), where k is 0 or 1.
    """

    frames: Tensor
    tiles: Tensor
    places: Tensor
    headings: Tensor
    further: Tensor

    def to(self, device: torch.device) -> PairBatch:
        """The same on a device."""
        return PairBatch(*(getattr(self, name).to(device) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class RegionBatch:
    """Full videos with their regions, for stage 2.

    frames: keyframes of each video, (b, 8, 3, h, w).
    tiles: tiles of its region, row by row, (b, 49, 3, t, t).
    places: the north-west tile of its region, column and row, (b, 2).
    poses: of its cameras as the first one sees them, (b, 8, 3): metres right, metres ahead, turn in radians.
    """

    frames: Tensor
    tiles: Tensor
    places: Tensor
    poses: Tensor

    def to(self, device: torch.device) -> RegionBatch:
        """The same on a device."""
        return RegionBatch(*(getattr(self, name).to(device) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class VideoBatch:
    """Full videos whose regions are encoded already, for stage 3.

    frames: keyframes of each video, (b, 8, 3, h, w).
    videos: its row in the split, (b,).
    places: the north-west tile of its region, column and row, (b, 2).
    poses: of its cameras as the first one sees them, (b, 8, 3).
    """

    frames: Tensor
    videos: Tensor
    places: Tensor
    poses: Tensor

    def to(self, device: torch.device) -> VideoBatch:
        """The same on a device."""
        return VideoBatch(*(getattr(self, name).to(device) for name in self.__slots__))


def rng_for(seed: int, stage: str, step: int, rank: int = 0) -> np.random.Generator:
    """The random stream of one step in one process."""
    return np.random.default_rng([seed, *stage.encode(), step, rank])


class Videos:
    """The clips of a split that have enough keyframes, with their regions."""

    def __init__(self, data: Dataset, split: str, model: ModelSettings) -> None:
        self.data, self.model = data, model
        rows = data.videos(split)
        regions = {row.region_id: row for row in data.regions(split)}
        self.region_rows: list[RegionRow] = list(regions.values())
        place = {row.region_id: i for i, row in enumerate(self.region_rows)}
        self.videos: list[VideoRow] = [row for row in rows if row.keyframes >= model.frames]
        self.keyframes: list[list[FrameRow]] = [data.keyframes(row.video_id)[: model.frames] for row in self.videos]
        self.region_of = np.array([place[row.region_id] for row in self.videos], np.int64)
        if not self.videos:
            raise DatasetError(
                f"The split '{split}' of {data.root} has no clip with {model.frames} keyframes.",
                f"See what it has: x2l check {data.root}",
            )
        self.areas: dict[str, npt.NDArray[np.int64]] = {}
        names = np.array([row.area for row in self.videos])
        for area in sorted(set(names.tolist())):
            self.areas[area] = np.flatnonzero(names == area)
        self.night = np.array([row.daytime == "night" for row in self.videos], np.bool_)
        self.corner = np.array([(row.x, row.y, row.n) for row in self.region_rows], np.int64)
        self.every = _FrameColumns(data, [row.video_id for row in self.videos])

    def frames(self, video: int, count: int) -> npt.NDArray[np.uint8]:
        """The first ``count`` keyframes of a video, (count, h, w, 3)."""
        return self.pictures([row.image for row in self.keyframes[video][:count]])

    def poses(self, video: int, count: int) -> Floats:
        """Poses of the first ``count`` keyframes of a video as the first camera sees them, (count, 3)."""
        return relative_poses(self.keyframes[video][:count])

    def _poses(self, videos: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.stack([self.poses(int(v), self.model.frames) for v in videos])).float()

    def tiles(self, region: int) -> npt.NDArray[np.uint8]:
        """The tiles of a region, row by row, (n n, t, t, 3)."""
        return cut_tiles(self.region_picture(region), self.model.region_tiles)

    def region_picture(self, region: int) -> npt.NDArray[np.uint8]:
        """A region as one picture, (n t, n t, 3)."""
        side = self.model.region_tiles * self.model.tile_px
        return self.data.picture(self.region_rows[region].image, (side, side))

    def pictures(self, media: list[Media]) -> npt.NDArray[np.uint8]:
        """Street frames, (n, h, w, 3)."""
        size = (self.model.frame_height, self.model.frame_width)
        return np.stack([self.data.picture(item, size) for item in media])

    def draw(self, rng: np.random.Generator, stage: StageSettings, count: int) -> npt.NDArray[np.int64]:
        """Rows of ``count`` videos for a batch. They come from few areas, so that negatives are hard."""
        names = list(self.areas)[: stage.areas]
        chosen = rng.choice(len(names), min(stage.towns_per_batch, len(names)), replace=False)
        pool = np.concatenate([self.areas[names[i]] for i in chosen])
        if not stage.nights:
            pool = pool[~self.night[pool]]
        if not len(pool):
            raise DatasetError(
                f"Some areas of {self.data.root} have clips at night alone.", "Leave out nights=false of the stage."
            )
        return np.asarray(rng.choice(pool, min(count, len(pool)), replace=False), np.int64)

    def video_batch(self, rng: np.random.Generator, stage: StageSettings) -> VideoBatch:
        """Full videos. Augmented: in other light; their regions are encoded once, so nothing is turned or mirrored."""
        videos, frames, places = self._videos(rng, stage)
        return VideoBatch(augmented(rng, frames, stage), torch.from_numpy(videos), places, self._poses(videos))

    def region_batch(self, rng: np.random.Generator, stage: StageSettings) -> RegionBatch:
        """Full videos with their regions.

        Augmented: the region turned by quarter turns, video and region mirrored together, both in other light.
        """
        videos, frames, places = self._videos(rng, stage)
        regions, poses = [self.region_picture(int(self.region_of[v])) for v in videos], self._poses(videos)
        if stage.augment:
            regions = [np.rot90(region, int(rng.integers(4))) for region in regions]
            for i in np.flatnonzero(rng.uniform(size=len(videos)) < 0.5):
                frames[i], regions[i] = frames[i, :, :, ::-1], regions[i][:, ::-1]
                poses[i, :, ::2] *= -1.0  # right is left, and the other way round
        tiles = np.stack([cut_tiles(region, self.model.region_tiles) for region in regions])
        return RegionBatch(augmented(rng, frames, stage), augmented(rng, tiles, stage), places, poses)

    def _videos(
        self, rng: np.random.Generator, stage: StageSettings
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], Tensor]:
        """The rows of drawn videos, their keyframes, and the north-west tiles of their regions."""
        videos = self.draw(rng, stage, stage.batch)
        frames = np.stack([self.frames(int(v), self.model.frames) for v in videos])
        return videos, frames, torch.from_numpy(self.corner[self.region_of[videos], :2])

    def pair_batch(
        self, rng: np.random.Generator, stage: StageSettings, looks: Capabilities | None = None
    ) -> PairBatch:
        """Single frames with the tiles around them, each from another video, or a few from each.

        looks: of towers that know headings; says how far ahead of the camera its tiles lie.

        Augmented: the tile off the camera, turned by quarter turns, mirrored together with the frame, both in other
        light.
        """
        each = stage.frames_per_clip
        clips = [self.every.with_tile[int(v)] for v in self.draw(rng, stage, max(1, stage.batch // each))]
        rows = np.concatenate([rng.choice(clip, min(each, len(clip)), replace=False) for clip in clips])
        frames = self.pictures([self.every.media("image", row) for row in rows])
        distances = [0] if looks is None else [looks.ahead, *([looks.further] if looks.further else [])]
        shift = self._shift_px(max(distances))
        if not (stage.augment and stage.shift_tiles):
            shift = 0
        off = rng.integers(-shift, shift + 1, (len(rows), 2)) if shift else np.zeros((len(rows), 2), int)
        headings = np.radians(self.every.heading_deg[rows])
        if looks is not None:
            headings = headings + rng.uniform(-np.pi / 8, np.pi / 8, len(rows))  # a map has every 45 degrees
        half = self.model.tile_px / 2
        moved = np.stack(
            [off + np.rint(np.stack(steps_ahead(headings, ahead * half), 1)).astype(int) for ahead in distances], 1
        )  # (b, k, 2)
        tiles = np.stack([self._tiles_around(int(row), places) for row, places in zip(rows, moved, strict=True)])
        if stage.augment:
            quarters = [int(rng.integers(4)) for _ in tiles]
            tiles = np.stack([np.rot90(some, quarter, (1, 2)) for some, quarter in zip(tiles, quarters, strict=True)])
            headings = headings - np.pi / 2 * np.array(quarters)  # rot90 turns to the left
            flip = rng.uniform(size=len(rows)) < 0.5
            frames[flip], tiles[flip] = frames[flip][:, :, ::-1], tiles[flip][:, :, :, ::-1]
            headings[flip] *= -1.0
        zoom = self.region_rows[0].zoom
        x, y = geo.tile_coordinates(self.every.lat[rows], self.every.lon[rows], zoom)
        frames_lit, tiles_lit = augmented(rng, frames, stage), augmented(rng, tiles, stage)
        if stage.augment and stage.vary:
            frames_lit = shaken(rng, frames_lit, stage.vary)
        return PairBatch(
            frames_lit, tiles_lit[:, 0], torch.from_numpy(np.stack([x, y], 1)), torch.from_numpy(headings).float(),
            tiles_lit[:, 1:],
        )  # fmt: skip

    def _tiles_around(self, row: int, moved: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        """The tiles that lie some pixels to the right and down of that around a frame: (k, 2) -> (k, t, t, 3)."""
        t = self.model.tile_px
        around, margin = self.data.tile_with_margin(self.every.media("tile", row), t)
        return np.stack([around[margin + down :, margin + right :][:t, :t] for right, down in moved.tolist()])

    def _shift_px(self, ahead: int) -> int:
        """How far tiles are moved off their place: a quarter, as on a map at half stride, if the margin allows it."""
        t = self.model.tile_px
        margin, reach = self.data.margin_at(t), ahead * t // 2
        if reach > margin:
            raise DatasetError(
                f"The tiles of {self.data.root} have a margin of {margin} pixels; to look ahead takes {reach}.",
                f"Make it again with --set tile_margin_px={reach + t // 4}, or set model.options.ahead=0.",
            )
        return min(margin - reach, t // 4)


class _FrameColumns:
    """The table of frames as columns, to draw single frames quickly."""

    def __init__(self, data: Dataset, videos: list[str]) -> None:
        table = data.frame_table
        self.lat = table["lat_deg"].to_numpy()
        self.lon = table["lon_deg"].to_numpy()
        self.heading_deg = table["heading_deg"].to_numpy()
        self.columns = {
            kind: [
                table[f"{kind}_path"].combine_chunks().dictionary_encode(),
                table[f"{kind}_offset"].to_numpy(),
                table[f"{kind}_length"].to_numpy(),
            ]
            for kind in ("image", "tile")
        }
        has_tile = np.asarray(table["tile_path"].to_numpy(zero_copy_only=False) != "", np.bool_)
        ranges = [data.frame_range(video) for video in videos]
        self.with_tile = [start + np.flatnonzero(has_tile[start:stop]) for start, stop in ranges]
        for video, rows in zip(videos, self.with_tile, strict=True):
            if not len(rows):
                raise DatasetError(f"No frame of the video '{video}' has a tile.", "Remove the video from the dataset.")

    def media(self, kind: str, row: int) -> Media:
        """The picture or the tile of a row."""
        paths, offsets, lengths = self.columns[kind]
        return Media(paths[int(row)].as_py(), int(offsets[row]), int(lengths[row]))
