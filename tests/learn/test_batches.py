"""Batches for training: the same for the same step, of the right sizes, augmented as the stage allows."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.small_model import MODEL, SETTINGS, SHORT
from x2localizer import geo
from x2localizer.config import (
    DatasetSettings,
    SplitSettings,
    TownSettings,
    validate,
)
from x2localizer.datasets.dataset import open_dataset
from x2localizer.datasets.tiles import cut_tiles
from x2localizer.datasets.town import make_dataset
from x2localizer.errors import ConfigError, DatasetError
from x2localizer.learn import stages
from x2localizer.learn.batches import Videos, rng_for
from x2localizer.learn.frozen import Frozen
from x2localizer.learn.gather import allowed_columns
from x2localizer.learn.loader import ahead


def test_pictures_are_brought_to_the_size_of_the_model(tiny_dataset: Path) -> None:
    data = open_dataset(tiny_dataset)
    larger = Videos(data, "train", MODEL.model_copy(update={"frame_height": 48, "frame_width": 80, "tile_px": 16}))
    batch = larger.region_batch(rng_for(1, "full", 0), SHORT)
    assert batch.frames.shape[2:] == (3, 48, 80)
    assert batch.tiles.shape[2:] == (3, 16, 16)
    pairs = larger.pair_batch(rng_for(1, "image", 0), SHORT)
    assert (pairs.frames.shape[1:], pairs.tiles.shape[1:]) == ((3, 48, 80), (3, 16, 16))
    row = data.frames(data.videos("train")[0].video_id)[0]
    whole, small = data.picture(row.image), data.picture(row.image, (8, 16))
    blocks = whole.reshape(8, 4, 16, 4, 3).mean((1, 3))
    assert np.abs(blocks - small).mean() < 12


def test_several_processes_make_the_same_batches_in_order() -> None:
    alone, together = (list(ahead(lambda step: step * step, 3, 20, workers)) for workers in (0, 2))
    assert alone == together == [(step, step * step) for step in range(3, 20)]


@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be forked there")
def test_a_loader_that_dies_is_a_clear_error() -> None:
    with pytest.raises(DatasetError, match="Batch 3 was not loaded"):
        for step, _ in ahead(lambda step: step if step < 3 else os._exit(1), 3, 9):
            assert step < 3


def test_batches_repeat_and_overlapping_regions_are_no_negatives(tiny_dataset: Path) -> None:
    videos = Videos(open_dataset(tiny_dataset), "train", MODEL)
    a, b = (videos.region_batch(rng_for(1, "full", 5), SHORT) for _ in range(2))
    assert torch.equal(a.frames, b.frames)
    assert torch.equal(a.tiles, b.tiles)
    assert a.tiles.shape == (4, 49, 3, 32, 32)
    everything = range(len(videos.videos))
    allowed = allowed_columns(torch.from_numpy(videos.corner[videos.region_of, :2]), MODEL.region_tiles)
    for i in everything:
        for j in everything:
            p, q = videos.region_rows[videos.region_of[i]].region, videos.region_rows[videos.region_of[j]].region
            overlap = abs(p.x - q.x) < p.n and abs(p.y - q.y) < p.n
            assert bool(allowed[i, j]) == (i == j or not overlap)


def test_a_batch_can_take_several_frames_of_each_clip(tiny_dataset: Path) -> None:
    videos = Videos(open_dataset(tiny_dataset), "train", MODEL)
    settings = SHORT.model_copy(update={"batch": 6, "frames_per_clip": 3, "augment": False})
    pairs = videos.pair_batch(rng_for(1, "image", 0), settings)
    assert len(pairs.frames) == 6
    lat, lon, zoom = videos.every.lat, videos.every.lon, videos.region_rows[0].zoom
    clip_of = {}
    for video, rows in enumerate(videos.every.with_tile):
        for x, y in zip(*geo.tile_coordinates(lat[rows], lon[rows], zoom), strict=True):
            clip_of[round(float(x), 9), round(float(y), 9)] = video
    clips = [clip_of[round(x, 9), round(y, 9)] for x, y in pairs.places.tolist()]
    assert sorted(clips.count(clip) for clip in set(clips)) == [3, 3]
    assert len({tuple(place) for place in pairs.places.tolist()}) == 6


def test_a_stage_can_leave_out_areas_and_nights(tiny_dataset: Path) -> None:
    videos = Videos(open_dataset(tiny_dataset), "train", MODEL)
    first, *others = videos.areas
    assert others
    one = SHORT.model_copy(update={"areas": 1, "towns_per_batch": 4})
    assert set(videos.draw(rng_for(1, "image", 0), one, 99)) == set(videos.areas[first])
    videos.night[videos.areas[first][1:]] = True
    by_day = one.model_copy(update={"nights": False})
    assert list(videos.draw(rng_for(1, "image", 0), by_day, 99)) == [videos.areas[first][0]]
    videos.night[:] = True
    with pytest.raises(DatasetError, match="at night alone"):
        videos.draw(rng_for(1, "image", 0), by_day, 99)


def test_stage_3_augments_the_light_of_frames_and_nothing_else(tiny_dataset: Path) -> None:
    settings = SETTINGS.model_copy(update={"progressive": SHORT})
    videos = Videos(open_dataset(tiny_dataset), "train", MODEL)
    codes = torch.zeros(9, 16), torch.zeros(9, 49, 16), torch.zeros(len(videos.videos), 16)
    frozen = Frozen(*codes, torch.device("cpu"))
    lit, plain = (
        stages.progressive_stage(chosen, videos, videos, frozen).draw(rng_for(1, "progressive", 0)).frames
        for chosen in (settings, SETTINGS)
    )
    assert lit.shape == plain.shape == (4, 8, 3, 32, 64)
    for ours, theirs in zip(lit, plain, strict=True):
        assert float((ours - theirs).abs().mean()) > 0.02, "another light"
        for channel in range(3):
            a, b, mirrored = ours[:, channel], theirs[:, channel], theirs[:, channel].flip(-1)
            same, turned = (torch.corrcoef(torch.stack([a.flatten(), x.flatten()]))[0, 1] for x in (b, mirrored))
            assert same > 0.98
            assert same > turned


def test_tiles_with_a_margin_are_cut_off_the_centre_in_training(tmp_path: Path) -> None:
    settings = DatasetSettings(
        town=TownSettings(tiles=16, pixels_per_tile=64), frame_height=32, frame_width=64, tile_px=32, tile_margin_px=8,
        train=SplitSettings(towns=1, grid=False, videos_per_town=4), val=SplitSettings(towns=0),
        test=SplitSettings(towns=0),
    )  # fmt: skip
    data = open_dataset(make_dataset(settings, tmp_path / "d", "made by a test", workers=1))
    key = data.keyframes(data.videos("train")[0].video_id)[0]
    wide = data.picture(key.tile)
    assert wide.shape == (48, 48, 3)
    np.testing.assert_array_equal(data.tile(key.tile), wide[8:40, 8:40])
    np.testing.assert_array_equal(data.tile(key.tile, 8, -8), wide[0:32, 16:48])
    with pytest.raises(ValueError, match="margin"):
        data.tile(key.tile, 9)
    videos = Videos(data, "train", MODEL)
    plain = SHORT.model_copy(update={"augment": False})
    assert videos.pair_batch(rng_for(1, "image", 0), SHORT).tiles.shape == (4, 3, 32, 32)
    a, b = (videos.pair_batch(rng_for(1, "image", 0), plain) for _ in range(2))
    assert torch.equal(a.tiles, b.tiles)
    still = videos.pair_batch(rng_for(1, "image", 0), SHORT.model_copy(update={"shift_tiles": False}))
    assert not torch.equal(still.tiles, videos.pair_batch(rng_for(1, "image", 0), SHORT).tiles)
    with pytest.raises(ConfigError, match="at most twice tile_px"):
        validate(DatasetSettings, {"tile_px": 32, "tile_margin_px": 65, "town": {"pixels_per_tile": 64}})


def test_tiles_are_cut_row_by_row() -> None:
    picture = np.zeros((6, 6, 3), np.uint8)
    picture[0:2, 4:6] = 9
    tiles = cut_tiles(picture, 3)
    assert tiles.shape == (9, 2, 2, 3)
    assert (tiles[2] == 9).all()
    assert tiles[[0, 1, 3, 4, 5, 6, 7, 8]].sum() == 0
