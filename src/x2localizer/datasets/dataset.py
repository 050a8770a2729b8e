"""A dataset on disk, opened for reading.

dataset.json      the manifest: format, kind, counts, and the command, seeds and config that made it
regions.parquet   videos.parquet   frames.parquet
regions/  frames/  tiles/  imagery/     media that the tables refer to
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from x2localizer.datasets.media import read_picture
from x2localizer.datasets.tables import FORMAT, SCHEMAS, SPLITS, FrameRow, Media, RegionRow, VideoRow
from x2localizer.errors import DatasetError
from x2localizer.files import read_json
from x2localizer.types import Image

MANIFEST = "dataset.json"


@dataclass(frozen=True)
class Dataset:
    """Typed tables and their media. Tables are read whole (about 100 bytes per frame), media on demand."""

    root: Path
    manifest: dict[str, Any]

    @cached_property
    def region_table(self) -> pa.Table:
        """All regions."""
        return _read_table(self.root, "regions")

    @cached_property
    def video_table(self) -> pa.Table:
        """All videos."""
        return _read_table(self.root, "videos")

    @cached_property
    def frame_table(self) -> pa.Table:
        """All frames; those of a video are consecutive and in order."""
        return _read_table(self.root, "frames")

    @cached_property
    def contents(self) -> str:
        """A short name for exactly these tables, to keep what is computed from them under: a dataset that was made
        again in another way has another one, whatever its manifest says."""
        digest = hashlib.sha256(str(self.manifest.get("fingerprint", "")).encode())
        for name in ("regions", "videos", "frames"):
            with (self.root / f"{name}.parquet").open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()[:16]

    def clips_name(self, split: str) -> str:
        """A short name for the clips and regions of a split, whatever else the dataset has: the same question asked."""
        digest = hashlib.sha256()
        for region in self.regions(split):
            digest.update(f"{region.region_id} {region.zoom} {region.x} {region.y} {region.n}\n".encode())
        for video in self.videos(split):
            digest.update(f"{video.video_id} {video.region_id}\n".encode())
            for frame in self.frames(video.video_id):
                digest.update(f"{frame.lat_deg:.6f} {frame.lon_deg:.6f} {frame.keyframe}\n".encode())
        return digest.hexdigest()[:16]

    def regions(self, split: str) -> list[RegionRow]:
        """The regions of a split, in the order of the table."""
        return [RegionRow(**row) for row in _of_split(self.region_table, split).to_pylist()]

    def videos(self, split: str, role: str = "clip") -> list[VideoRow]:
        """The videos of a split with a role: clips, or long drives."""
        table = _of_split(self.video_table, split)
        return [VideoRow(**row) for row in table.filter(pc.equal(table["role"], role)).to_pylist()]

    def frames(self, video_id: str) -> list[FrameRow]:
        """The frames of a video, in order."""
        start, stop = self.frame_range(video_id)
        return [FrameRow(**row) for row in self.frame_table.slice(start, stop - start).to_pylist()]

    def frame_range(self, video_id: str) -> tuple[int, int]:
        """The first row of a video's frames in the table, and the row after the last."""
        start, stop = self._ranges.get(video_id, (0, 0))
        if start == stop:
            raise DatasetError(f"The dataset has no frames of video '{video_id}'.", "Run `x2l check` on it.")
        return start, stop

    def keyframes(self, video_id: str) -> list[FrameRow]:
        """The keyframes of a video, in order."""
        return [row for row in self.frames(video_id) if row.keyframe >= 0]

    def picture(self, media: Media, size: tuple[int, int] | None = None) -> Image:
        """The picture of a row, shape (height, width, 3), resized if a size (height, width) is given."""
        return read_picture(self.root, media, size)

    @cached_property
    def tile_margin_px(self) -> int:
        """Width of the margin around each tile in its picture, in pixels."""
        return int(self.manifest.get("config", {}).get("tile_margin_px", 0))

    def margin_at(self, tile_px: int) -> int:
        """The same for tiles that are read in another size."""
        margin = self.tile_margin_px
        return round(margin * tile_px / int(self.manifest["config"]["tile_px"])) if margin else 0

    def tile(self, media: Media, right_px: int = 0, down_px: int = 0, size: int | None = None) -> Image:
        """The tile around a frame, shape (size, size, 3), shifted by pixels to the right and down within its margin."""
        picture, margin = self.tile_with_margin(media, size)
        if max(abs(right_px), abs(down_px)) > margin:
            raise ValueError(f"a tile cannot be shifted by more than its margin of {margin} pixels")
        side = picture.shape[0] - 2 * margin
        return picture[margin + down_px :, margin + right_px :][:side, :side]

    def tile_with_margin(self, media: Media, size: int | None = None) -> tuple[Image, int]:
        """The tile around a frame with its margin, and the width of that in pixels."""
        margin = self.tile_margin_px if size is None else self.margin_at(size)
        return self.picture(media, None if size is None else (size + 2 * margin,) * 2), margin

    @cached_property
    def _ranges(self) -> dict[str, tuple[int, int]]:
        """The range of each video's frames in the table."""
        return {video: (start, stop) for video, start, stop in video_blocks(self.frame_table)}


def video_blocks(frames: pa.Table) -> list[tuple[str, int, int]]:
    """Runs of rows that belong to one video: its id, the first row, and the row after the last."""
    ids = frames["video_id"].combine_chunks().dictionary_encode()
    codes = ids.indices.to_numpy(zero_copy_only=False)
    if not len(codes):
        return []
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]])
    names = ids.dictionary.to_pylist()
    return [(str(names[codes[a]]), int(a), int(b)) for a, b in pairwise(cuts)]


def open_dataset(root: Path) -> Dataset:
    """Open a dataset; raises :class:`DatasetError` if it is missing, damaged or of another format."""
    path = root / MANIFEST
    if not path.is_file():
        raise DatasetError(
            f"{root} is not a dataset: it has no {MANIFEST}.",
            "Make one with `x2l town dataset --preset quick --out DIR`; finish an interrupted one by running its "
            "command again.",
        )
    try:
        manifest = read_json(path)
        version = manifest["format"]
        config = manifest.get("config", {})
        if not isinstance(config, dict) or not all(isinstance(config.get(split, {}), dict) for split in SPLITS):
            raise ValueError("its config is no table")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        raise DatasetError(f"{path} is damaged.", "Make the dataset again.") from problem
    if version != FORMAT:
        raise DatasetError(
            f"{root} has format {version}, but this version reads {FORMAT}.",
            "Make it again, or install a version that reads it.",
        )
    return Dataset(root, manifest)


def _read_table(root: Path, name: str) -> pa.Table:
    path = root / f"{name}.parquet"
    try:
        table = pq.read_table(path)
        table.validate(full=True)  # text may hold bytes that are none
    except (OSError, pa.ArrowException) as problem:
        raise DatasetError(
            f"Cannot read {path}: it is missing or damaged.", "Run `x2l check` on the dataset."
        ) from problem
    wanted = SCHEMAS[name]
    for field in wanted:
        if field.name not in table.column_names or table.schema.field(field.name).type != field.type:
            raise DatasetError(f"{path} has no column '{field.name}' of type {field.type}.", "Make the dataset again.")
    return table.select(wanted.names)


def _of_split(table: pa.Table, split: str) -> pa.Table:
    return table.filter(pc.equal(table["split"], split))
