"""Every reader of the package: what makes its sound files, and what reads a broken one as a user's command would."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from fuzz import seeds, toys
from x2localizer.types import Region, TileId

MOST_FRAMES = 30
"""Frames read of each video."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One reader.

    make: writes its seeds into a folder; each file or folder in it is one.
    read: reads one.
    torch: needs the extra [train].
    after: done to an input after it was broken.
    beside: files of the seeds that lie beside every input, unbroken.
    """

    name: str
    make: seeds.Make
    read: Callable[[Path], object]
    torch: bool = False
    after: Callable[[Path], None] | None = None
    beside: tuple[str, ...] = ()


def _video(path: Path) -> None:
    from x2localizer.sources.video import open_video

    with open_video(path, size=(48, 64)) as source:
        for _ in islice(source, MOST_FRAMES):
            pass


def _imagery(path: Path) -> None:
    from x2localizer.sources.imagery import glance, open_imagery

    with open_imagery(path) as imagery:
        glance(imagery, 64)
        z = min(max(imagery.info.zoom, 0), 19)
        for tile in islice(imagery.tiles(z), 3):
            imagery.tile(tile, 64)
        imagery.tile(TileId(12, 1000, 700), 64)
        imagery.region(Region(12, 1000, 700, 2), 32)


def _track(path: Path) -> None:
    from x2localizer.sources.tracks import read_track

    track = read_track(path)
    track.positions(np.linspace(-1.0, min(track.duration_s, 1e6), 7))
    assert track.length_m >= 0


def _motion(path: Path) -> None:
    from x2localizer.localize.track.movements import movements_between
    from x2localizer.sources.motion import read_motion

    record = read_motion(path)
    first = float(record.times_s[0])
    for _ in islice(movements_between(record, first, first + 5.0, 0.5), 20):
        pass


def _oxts(path: Path) -> None:
    from x2localizer.errors import UserError

    try:
        _track(path)
    except UserError:
        _motion(path)


def _ros_bag(path: Path) -> None:
    from x2localizer.errors import UserError

    try:
        _video(path)
    except UserError:
        _motion(path)


def _roads(path: Path) -> None:
    from x2localizer.sources.roads import read_roads

    roads = read_roads(path / "roads.shp" if path.is_dir() else path)
    roads.lengths_by_kind_m()


def _bundle(path: Path) -> None:
    from x2localizer.encoders import open_bundle

    bundle = open_bundle(path, threads=1)
    height, width = bundle.spec.frame_size
    if height * width > 1_000_000:
        return
    bundle.encode_frames(np.zeros((1, height, width, 3), np.uint8))
    bundle.encode_tiles(np.zeros((1, bundle.spec.tile_px, bundle.spec.tile_px, 3), np.uint8))


def _checkpoint(path: Path) -> None:
    from x2localizer.learn.checkpoint import load_checkpoint, restore
    from x2localizer.learn.tensor_files import read_tensors

    if path.suffix == ".pth":
        read_tensors(path)
    else:
        restore(load_checkpoint(path))


@cache
def _tiny() -> Any:
    from helpers.tiny_bundle import TINY_BUNDLE
    from x2localizer.encoders import open_bundle

    return open_bundle(TINY_BUNDLE, threads=1)


def _gallery(path: Path) -> None:
    from x2localizer.gallery import open_gallery
    from x2localizer.gallery.describe import describe
    from x2localizer.localize.track.track_map import TrackMap
    from x2localizer.search import Searcher

    describe(str(path))
    gallery = open_gallery(path, _tiny())
    gallery.pictures(gallery.corners()[:2])
    TrackMap.of(gallery)
    Searcher.over(gallery, "s_mix", threads=1, temperature=0.01)


def _gallery_file(path: Path) -> None:
    _gallery(path / "city.x2g")


def _dataset(path: Path) -> None:
    from x2localizer.datasets.check import check_dataset
    from x2localizer.datasets.dataset import open_dataset

    data = open_dataset(path)
    check_dataset(path)
    for split in ("train", "test"):
        data.regions(split)
        for video in data.videos(split)[:2]:
            for frame in data.keyframes(video.video_id)[:2]:
                data.picture(frame.image)


def _config(path: Path) -> None:
    from x2localizer.config import DatasetSettings, TownSettings, TrainSettings, load_config
    from x2localizer.errors import ConfigError

    family = path.name.split("-")[0]
    trees: dict[str, Any] = {"train": TrainSettings, "dataset": DatasetSettings, "town": TownSettings}
    load_config(trees[family], family, path)
    with suppress(ConfigError):
        load_config(trees[family], family, path, [path.read_text("utf-8", "replace")[:40]])


def _rankings(path: Path) -> None:
    from x2localizer.evaluate.rankings import ranks_of_file

    items = [f"r{i}" for i in range(6)]
    ranks_of_file(path, [f"v{q}" for q in range(4)], items, np.array([0, 1, 2, 5]), keep_first=True)


def _frame_message(path: Path) -> None:
    from x2localizer.serve.pictures import decode_jpeg
    from x2localizer.serve.wire import unpack_frame

    _, jpeg = unpack_frame(path.read_bytes())
    decode_jpeg(jpeg, 4_000_000)


def _service_json(path: Path) -> None:
    from x2localizer.serve.samples import SampleBuffer
    from x2localizer.serve.settings import SessionOptions
    from x2localizer.serve.wire import unpack_odometry

    text = path.read_text("utf-8", "replace")
    if path.name.startswith("session"):
        from pydantic import ValidationError

        try:
            SessionOptions.model_validate_json(text)
        except ValidationError:  # FastAPI makes a refusal of it
            return
        return
    buffer = SampleBuffer()
    buffer.add([row.sample for row in unpack_odometry(text).samples])
    if buffer.first_s < buffer.last_s < buffer.first_s + 1000.0:
        buffer.movements(buffer.first_s, buffer.last_s, 0.5)


def _confidence(path: Path) -> None:
    from x2localizer.config import TrackSettings
    from x2localizer.localize.confidence import Confidence
    from x2localizer.localize.track.confidence import track_confidence

    track_confidence(path, TrackSettings())
    Confidence.load(path)


def _town(path: Path) -> None:
    from x2localizer.config import TownSettings, validate
    from x2localizer.town import folder

    with patch.object(folder, "build_town", lambda seed, settings: validate(TownSettings, settings.model_dump())):
        folder.load_town(path)


def _resealed(path: Path) -> None:
    seeds.reseal(path)


READERS = (
    Reader("video", seeds.video, _video),
    Reader("image folder", seeds.image_folder, _video),
    Reader("GeoTIFF", seeds.geotiff, _imagery),
    Reader("VRT", seeds.vrt, _imagery, beside=("a.tif",)),
    Reader("MBTiles", seeds.mbtiles, _imagery),
    Reader("XYZ", seeds.xyz, _imagery),
    Reader("GPX", seeds.gpx, _track),
    Reader("CSV track", seeds.track_csv, _track),
    Reader("telemetry", seeds.telemetry, _track),
    Reader("odometry", seeds.motion, _motion),
    Reader("oxts", seeds.oxts, _oxts),
    Reader("ROS bag", seeds.ros_bag, _ros_bag),
    Reader("roads", seeds.roads, _roads),
    Reader("bundle", seeds.bundle, _bundle),
    Reader("bundle, resealed", seeds.bundle, _bundle, after=_resealed),
    Reader("checkpoint", seeds.checkpoint, _checkpoint, torch=True),
    Reader("gallery", seeds.gallery, _gallery),
    Reader("gallery file", seeds.gallery_file, _gallery_file, after=seeds.pack),
    Reader("dataset", seeds.dataset, _dataset),
    Reader("config", seeds.config, _config),
    Reader("rankings", seeds.rankings, _rankings),
    Reader("frame message", seeds.frame_message, _frame_message),
    Reader("service JSON", seeds.service_json, _service_json),
    Reader("confidence", seeds.confidence, _confidence),
    Reader("town", seeds.town, _town),
)
TOYS = tuple(Reader(f"toy that {what}", seeds.toy, read) for what, read in toys.TOYS.items())
"""Readers that fail on purpose, for the tests of the machine itself."""
BY_NAME = {reader.name: reader for reader in (*READERS, *TOYS)}


def as_json(value: object) -> str:
    """One line of JSON."""
    return json.dumps(value, separators=(",", ":"))
