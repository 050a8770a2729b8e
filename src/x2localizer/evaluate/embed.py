"""Codes of a split: computed once for each model and kept on disk, read as they are needed.

    regions   set codes of every region                       frames   image codes of every frame, or of keyframes
    prefixes  set codes of the first keyframes from a start   tiles    image codes of the tile around every frame
    grid      image codes of the tiles of every region at half stride

Files are named after the weights that made them and the dataset, so that nothing old is taken for new, and models that
share a tower share its codes. They are memory-mapped: a benchmark of any size needs little memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from x2localizer import geo
from x2localizer.datasets.dataset import Dataset
from x2localizer.datasets.poses import relative_poses
from x2localizer.datasets.tables import FrameRow, RegionRow, VideoRow
from x2localizer.datasets.tiles import cut_tiles
from x2localizer.encoders import Encoder, Part, SetCodes
from x2localizer.encoders.protocol import encode_prefixes
from x2localizer.errors import DatasetError
from x2localizer.files import atomic_path
from x2localizer.types import Codes, Floats, Image, Images, Ints, Progress


@dataclass(frozen=True, slots=True, eq=False)
class Prefixes:
    """Set codes of one prefix of each video.

    whole: (v, d).
    tokens: one for each frame, (v, budget, d); (v, 0, d) if the encoder has none.
    lengths: how many frames each prefix has, (v,); a video with fewer keyframes than the budget is taken whole.
    """

    whole: Codes
    tokens: Codes
    lengths: Ints


class Embeddings:
    """A split as a model encodes it.

    ``videos`` are those of the split's clips unless others are given; ``regions`` are always those of the split.
    """

    def __init__(
        self,
        data: Dataset,
        split: str,
        encoder: Encoder,
        work: Path,
        report: Progress = lambda what, done, total: None,
        *,
        videos: Sequence[VideoRow] | None = None,
    ) -> None:
        self.data, self.split, self.encoder, self.work, self.report = data, split, encoder, work, report
        self.regions: list[RegionRow] = data.regions(split)
        row_of = {row.region_id: i for i, row in enumerate(self.regions)}
        every = data.videos(split) if videos is None else videos
        self.videos: list[VideoRow] = [row for row in every if row.keyframes > 0]
        self._name = split if videos is None else f"{split}-{_digest(row.video_id for row in self.videos)}"
        if not self.videos or not self.regions:
            raise DatasetError(f"The dataset has no {split} videos with regions.", "Run `x2l check` on it.")
        missing = [row.video_id for row in self.videos if row.region_id not in row_of]
        if missing:
            raise DatasetError(f"The region of {missing[0]} is not in the dataset.", "Run `x2l check` on it.")
        n = encoder.spec.region_tiles
        other = next((row.n for row in self.regions if row.n != n), n)
        if other != n:
            raise DatasetError(
                f"Regions have {other} x {other} tiles, the model wants {n} x {n}.", "Use another model."
            )
        self.region_of: Ints = np.array([row_of[row.region_id] for row in self.videos], np.int64)

    # Truth -----------------------------------------------------------------------------------------------------------

    @cached_property
    def frames(self) -> list[list[FrameRow]]:
        """The frames of each video."""
        return [self.data.frames(video.video_id) for video in self.videos]

    @cached_property
    def keyframes(self) -> list[list[int]]:
        """Which of a video's frames are its keyframes."""
        return [[i for i, row in enumerate(rows) if row.keyframe >= 0] for rows in self.frames]

    @cached_property
    def keyframe_spacing_s(self) -> float:
        """The median time between two keyframes of a video; 5 s if no video has two."""
        steps = [
            rows[b].time_s - rows[a].time_s
            for rows, keys in zip(self.frames, self.keyframes, strict=True)
            for a, b in pairwise(keys)
        ]
        return float(np.median(steps)) if steps else 5.0

    @cached_property
    def first_frame(self) -> Ints:
        """Where each video's frames begin in ``frame_codes`` and ``tile_codes``, and the end: (v + 1,)."""
        return np.concatenate([[0], np.cumsum([len(rows) for rows in self.frames])]).astype(np.int64)

    @cached_property
    def places(self) -> Floats:
        """Latitude and longitude of every frame, (f, 2)."""
        return np.array([(row.lat_deg, row.lon_deg) for rows in self.frames for row in rows])

    def frame_image(self, frame: int) -> Image:
        """The picture of a frame, by its row in ``frame_codes``."""
        video = int(np.searchsorted(self.first_frame, frame, side="right")) - 1
        return self._frame(self.frames[video][frame - int(self.first_frame[video])])

    # Codes -----------------------------------------------------------------------------------------------------------

    @cached_property
    def region_codes(self) -> SetCodes:
        """Set codes of the regions: (r, d), tokens (r, n n, d)."""
        n, px, d = self.encoder.spec.region_tiles, self.encoder.spec.tile_px, self.encoder.spec.dim

        def chunks() -> Iterator[list[Codes]]:
            for part in _parts(len(self.regions), self.encoder.spec.tiles_at_once(n * n)):
                found = self.encoder.encode_regions(np.stack([self._region_tiles(i, n, px) for i in part]))
                yield [found.whole, found.tokens]

        count, some = len(self.regions), n * n if self.encoder.spec.tokens else 0
        shapes: list[tuple[int, ...]] = [(count, d), (count, some, d)]
        whole, tokens = self._kept("region", "regions", shapes, chunks, of=self.split)
        return SetCodes(whole, tokens)

    def prefixes(self, budget: int, starts: Ints | None = None) -> Prefixes:
        """Set codes of ``budget`` keyframes of each video, from its first keyframe or another one on."""
        begin = np.zeros(len(self.videos), np.int64) if starts is None else starts
        name = f"prefixes-{budget}"
        if begin.any():
            name += "-from-" + hashlib.sha256(begin.tobytes()).hexdigest()[:12]
        chosen = [keys[b : b + budget] for keys, b in zip(self.keyframes, begin, strict=True)]
        if any(not keys for keys in chosen):
            raise DatasetError("A prefix starts after the last keyframe of its video.", "Draw the starts again.")
        lengths = np.array([len(keys) for keys in chosen], np.int64)
        d, count, some = self.encoder.spec.dim, len(self.videos), budget if self.encoder.spec.tokens else 0

        def chunks() -> Iterator[list[Codes]]:
            for part in _parts(count, self.encoder.spec.frames_at_once(budget)):
                whole, tokens = np.zeros((len(part), d), np.float32), np.zeros((len(part), some, d), np.float32)
                for length in sorted(set(lengths[part].tolist())):  # one set per call has one length
                    rows = [k for k, v in enumerate(part) if lengths[v] == length]
                    cameras = [[self.frames[part[k]][i] for i in chosen[part[k]]] for k in rows]
                    images = np.stack([np.stack([self._frame(row) for row in taken]) for taken in cameras])
                    found = encode_prefixes(self.encoder, images, partial(_poses, cameras))
                    whole[rows], tokens[rows, :length] = found.whole, found.tokens
                yield [whole, tokens]

        whole, tokens = self._kept("prefix", name, [(count, d), (count, some, d)], chunks)
        return Prefixes(whole, tokens, lengths)

    @cached_property
    def frame_codes(self) -> Codes:
        """Image codes of every frame, (f, d)."""
        rows = [row for found in self.frames for row in found]
        return self._pictures("frame", rows, self._frame, self.encoder.encode_frames)

    @cached_property
    def keyframe_rows(self) -> Ints:
        """The row of every frame in ``keyframe_codes``, (f,); -1 for frames between keyframes."""
        key = np.array([row.keyframe >= 0 for found in self.frames for row in found], np.bool_)
        return np.where(key, np.cumsum(key) - 1, -1)

    @cached_property
    def keyframe_codes(self) -> Codes:
        """Image codes of the keyframes, (k, d): all that ranking regions needs, and far fewer than all frames."""
        if self._paths("frame", "frames", 1)[0].is_file():
            return np.asarray(self.frame_codes[self.keyframe_rows >= 0])
        rows = [row for found in self.frames for row in found if row.keyframe >= 0]
        return self._pictures("frame", rows, self._frame, self.encoder.encode_frames, name="keyframes")

    @cached_property
    def tile_codes(self) -> Codes:
        """Image codes of the tile around every frame, (f, headings, d); NaN where a frame has none."""
        rows = [row for found in self.frames for row in found]
        headings = self.encoder.spec.headings

        def encode(tiles: Images) -> Codes:
            return self.encoder.encode_tiles(tiles).reshape(len(tiles), -1)

        codes = self._pictures("tile", rows, self._tile, encode, headings)
        return codes.reshape(len(rows), headings, -1)

    @cached_property
    def grid_codes(self) -> Codes:
        """Image codes of the tiles of every region at half stride, (r, m, m, headings, d) with m = 2 n - 1."""
        spec = self.encoder.spec
        n, m = spec.region_tiles, 2 * spec.region_tiles - 1

        def chunks() -> Iterator[list[Codes]]:
            for region in range(len(self.regions)):
                yield [self.encoder.encode_area(self._region(region, n * spec.tile_px))[None]]

        shape = (len(self.regions), m, m, spec.headings, spec.dim)
        (codes,) = self._kept("tile", "half-stride", [shape], chunks, of=self.split)
        return codes

    def _pictures(
        self, part: Part, rows: list[FrameRow], read: Callable[[FrameRow], Image | None],
        encode: Callable[[Images], Codes], headings: int = 1, name: str = "",
    ) -> Codes:  # fmt: skip
        d = self.encoder.spec.dim * headings

        def chunks() -> Iterator[list[Codes]]:
            for chosen in _parts(len(rows), self.encoder.spec.frames_at_once()):
                images = [read(rows[i]) for i in chosen]
                out = np.full((len(chosen), d), np.nan, np.float32)
                there = [k for k, image in enumerate(images) if image is not None]
                if there:
                    out[there] = encode(np.stack([image for image in images if image is not None]))
                yield [out]

        (codes,) = self._kept(part, name or f"{part}s", [(len(rows), d)], chunks)
        return codes

    def _frame(self, row: FrameRow) -> Image:
        model = self.encoder.spec
        return self.data.picture(row.image, (model.frame_height, model.frame_width))

    def _tile(self, row: FrameRow) -> Image | None:
        px = self.encoder.spec.tile_px
        return self.data.tile(row.tile, size=px) if row.tile_path else None

    def _region(self, region: int, side: int) -> Image:
        return self.data.picture(self.regions[region].image, (side, side))

    def _region_tiles(self, region: int, n: int, px: int) -> Image:
        return cut_tiles(self._region(region, n * px), n)

    def _kept(
        self, part: Part, name: str, shapes: list[tuple[int, ...]], chunks: Callable[[], Iterator[list[Codes]]],
        of: str | None = None,
    ) -> list[Codes]:  # fmt: skip
        """Arrays from disk, or made a chunk at a time and put there; ``of`` a split, whatever videos are looked at."""
        paths = self._paths(part, name, len(shapes), of)
        if not all(path.is_file() for path in paths):
            self.work.mkdir(parents=True, exist_ok=True)
            with ExitStack() as whole:
                self._fill(name, [whole.enter_context(atomic_path(path)) for path in paths], shapes, chunks)
        return [np.load(path, mmap_mode="r") for path in paths]

    def _paths(self, part: Part, name: str, count: int, of: str | None = None) -> list[Path]:
        stem = f"{self.encoder.weights_of(part)}-{self.data.contents}-{of or self._name}-{name}"
        return [self.work / f"{stem}-{k}.npy" for k in range(count)]

    def _fill(
        self, name: str, paths: list[Path], shapes: list[tuple[int, ...]], chunks: Callable[[], Iterator[list[Codes]]]
    ) -> None:
        arrays = [
            np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
            for path, shape in zip(paths, shapes, strict=True)
        ]
        done, total = 0, shapes[0][0]
        for found in chunks():
            for array, part in zip(arrays, found, strict=True):
                array[done : done + len(part)] = part
            done += len(found[0])
            self.report(name, done, total)
        for array in arrays:
            array.flush()


def _poses(cameras: Sequence[Sequence[FrameRow]]) -> Floats:
    """Relative poses of the frames of each prefix, (b, s, 3)."""
    return np.stack([relative_poses(taken) for taken in cameras])


def _digest(names: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]


def grid_places(region: RegionRow) -> Floats:
    """Middles of a region's tiles at half stride: latitude and longitude, (m, m, 2)."""
    steps = np.arange(2 * region.n - 1) / 2 + 0.5
    x, y = np.meshgrid(region.x + steps, region.y + steps)
    lat, lon = geo.from_tile_coordinates(x, y, region.zoom)
    return np.stack([lat, geo.wrap_longitude(lon)], -1)


def _parts(count: int, size: int) -> Iterator[list[int]]:
    for start in range(0, count, size):
        yield list(range(start, min(start + size, count)))
