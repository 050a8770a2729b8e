"""The family that knows headings: what it starts from, what its codes depend on, its batches, its training."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.small_model import MODEL, SHORT
from helpers.small_world import TINY
from x2localizer.config import TrainSettings
from x2localizer.datasets.dataset import open_dataset
from x2localizer.datasets.town import make_dataset
from x2localizer.encoders.area import steps_ahead
from x2localizer.encoders.protocol import Capabilities
from x2localizer.errors import ConfigError, DatasetError
from x2localizer.learn.batches import Videos, rng_for
from x2localizer.learn.checkpoint import load_checkpoint, load_start, save_checkpoint
from x2localizer.learn.encoder import CheckpointEncoder
from x2localizer.learn.export import export_bundle
from x2localizer.learn.families.headings import HEADINGS, HeadingTower
from x2localizer.learn.loop import train
from x2localizer.learn.model import Model

TURNING = MODEL.model_copy(update={"family": "headings", "adapters": False})
AROUND = TURNING.model_copy(update={"options": {"ahead": 0}})
SETTINGS = TrainSettings(model=TURNING, image=SHORT.model_copy(update={"optimizer": "muon"}), threads=1)


@pytest.fixture(scope="module")
def model(tiny_checkpoint: Path) -> Model:
    """Towers that start from those of the family deit."""
    made = Model(TURNING)
    load_start(made, load_checkpoint(tiny_checkpoint))
    return made.eval()


def looking(ahead: int, further: int = 0) -> Capabilities:
    return Capabilities(headings=HEADINGS, ahead=ahead, further=further)


def _tiles(n: int) -> torch.Tensor:
    return torch.randn(n, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def _aerial(model: Model) -> HeadingTower:
    assert isinstance(model.aerial, HeadingTower)
    return model.aerial


@torch.no_grad()
def test_it_starts_with_the_codes_of_deit_in_all_headings(model: Model, tiny_checkpoint: Path) -> None:
    from x2localizer.learn.checkpoint import restore

    deit = restore(load_checkpoint(tiny_checkpoint))
    codes = model.aerial(_tiles(3))
    assert codes.shape == (3, HEADINGS, MODEL.dim)
    torch.testing.assert_close(codes, deit.aerial(_tiles(3))[:, None].expand_as(codes), atol=1e-5, rtol=0)
    frames = torch.randn(2, 3, 32, 64, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(model.ground(frames), deit.ground(frames), atol=1e-5, rtol=0)


@torch.no_grad()
def test_headings_are_apart_once_they_are_learned_and_full_turns_are_the_same(model: Model) -> None:
    turned = Model(TURNING).eval()
    turned.load_state_dict(model.state_dict())
    for turn in _aerial(turned).turns:
        torch.nn.init.normal_(turn.weight, generator=torch.Generator().manual_seed(3))  # type: ignore[arg-type]
    ways = torch.tensor([[0.3, 0.3 + math.pi, 0.3 + 2 * math.pi, 0.3]]).expand(2, -1)
    codes = _aerial(turned).embed_headings(_tiles(2), ways)
    assert (codes[:, 0] - codes[:, 1]).abs().max() > 0.05
    torch.testing.assert_close(codes[:, 0], codes[:, 2], atol=1e-4, rtol=0)
    alone = _aerial(turned).embed_headings(_tiles(2), ways[:, :1])
    torch.testing.assert_close(codes[:, :1], alone, atol=1e-5, rtol=0)  # headings do not see each other


@pytest.fixture(scope="module")
def wide_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiles with a margin, to look ahead in."""
    wide = TINY.model_copy(update={"tile_margin_px": 24, "test": TINY.test.model_copy(update={"towns": 0})})
    return make_dataset(wide, tmp_path_factory.mktemp("data") / "wide", "made by a test", workers=1)


def test_a_dataset_without_a_margin_is_refused_with_advice(tiny_dataset: Path) -> None:
    videos = Videos(open_dataset(tiny_dataset), "train", MODEL)
    with pytest.raises(DatasetError, match="look ahead") as problem:
        videos.pair_batch(rng_for(1, "image", 0), SHORT, looking(1))
    assert "tile_margin_px=24" in problem.value.remedy


def test_a_tile_lies_half_a_tile_ahead(wide_dataset: Path) -> None:
    videos = Videos(open_dataset(wide_dataset), "train", MODEL)
    plain = SHORT.model_copy(update={"augment": False})
    for step in range(4):
        around = videos.pair_batch(rng_for(1, "image", step), plain, looking(0))
        ahead = videos.pair_batch(rng_for(1, "image", step), plain, looking(1))
        torch.testing.assert_close(around.headings, ahead.headings)
        right, down = steps_ahead(around.headings.numpy(), MODEL.tile_px / 2)
        for i, (dx, dy) in enumerate(zip(np.rint(right).astype(int), np.rint(down).astype(int), strict=True)):
            x, y = slice(max(0, dx), 32 + min(0, dx)), slice(max(0, dy), 32 + min(0, dy))
            back_x, back_y = slice(max(0, -dx), 32 + min(0, -dx)), slice(max(0, -dy), 32 + min(0, -dy))
            torch.testing.assert_close(around.tiles[i][:, y, x], ahead.tiles[i][:, back_y, back_x])


def test_a_second_tile_lies_further_ahead(wide_dataset: Path) -> None:
    videos = Videos(open_dataset(wide_dataset), "train", MODEL)
    near, far = (videos.pair_batch(rng_for(1, "image", 0), SHORT, looking(ahead)) for ahead in (0, 1))
    both = videos.pair_batch(rng_for(1, "image", 0), SHORT, looking(0, 1))
    torch.testing.assert_close(both.tiles, near.tiles)
    torch.testing.assert_close(both.further[:, 0], far.tiles)
    assert near.further.shape[1] == 0


@torch.no_grad()
def test_half_of_a_code_is_of_the_tile_further_ahead(wide_dataset: Path, tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"model": TURNING.model_copy(update={"options": {"further": 1, "ahead": 0}})})
    with torch.enable_grad():
        best = train(settings, wide_dataset, tmp_path / "run", ("image",))
    bundle, _ = export_bundle(load_checkpoint(best), tmp_path / "bundle")
    area = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    codes, half = bundle.encode_area(area), MODEL.dim // 2
    here, east = (bundle.encode_tiles(area[None, 32:64, x : x + 32])[0, 2] for x in (32, 48))
    np.testing.assert_allclose(codes[2, 2, 2], np.concatenate([here[:half], east[half:]]), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(here[:half]), math.sqrt(0.5), rtol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(codes[0, 0, 0]), math.sqrt(0.5), rtol=1e-4)  # looks out of the area
    with pytest.raises(ConfigError, match="no halves"):
        Model(settings.model.model_copy(update={"dim": 15}))


def test_tiles_move_by_a_quarter_whatever_the_margin(wide_dataset: Path) -> None:
    videos = Videos(open_dataset(wide_dataset), "train", MODEL)
    assert [videos._shift_px(ahead) for ahead in (0, 1)] == [8, 8]


def test_the_heading_turns_with_the_tile(tiny_dataset: Path) -> None:
    videos = Videos(open_dataset(tiny_dataset), "train", MODEL)
    plain = SHORT.model_copy(update={"augment": False})
    for step in range(4):
        as_filmed = videos.pair_batch(rng_for(1, "image", step), plain, looking(0))
        turned = videos.pair_batch(
            rng_for(1, "image", step), SHORT.model_copy(update={"shift_tiles": False}), looking(0)
        )
        for i in range(len(as_filmed.tiles)):
            assert _is_turned(as_filmed.tiles[i], turned.tiles[i], float(turned.headings[i] - as_filmed.headings[i]),
                              float(turned.headings[i] + as_filmed.headings[i]))  # fmt: skip


def _is_turned(before: torch.Tensor, after: torch.Tensor, difference: float, total: float) -> bool:
    """Whether a tile is turned, or mirrored and turned, as its heading is; both are off by up to 45 degrees."""

    def alike(picture: torch.Tensor) -> float:
        a, b = picture - picture.mean((1, 2), keepdim=True), after - after.mean((1, 2), keepdim=True)
        return float((a * b).sum() / (a.norm() * b.norm()))

    scores = {}
    for quarter in range(4):
        turned = torch.rot90(before, quarter, (1, 2))
        scores[f"turned {quarter}"], scores[f"mirrored {quarter}"] = alike(turned), alike(turned.flip(2))
    best = max(scores, key=lambda name: scores[name])
    kind, quarter = best.split()[0], int(best.split()[1])
    # A turn to the left takes its angle off the heading; mirroring changes the sign of what is left.
    off = difference + quarter * math.pi / 2 if kind == "turned" else total - quarter * math.pi / 2
    return abs((off + math.pi) % (2 * math.pi) - math.pi) < math.pi / 4 + 1e-3


def test_training_export_and_encoding(wide_dataset: Path, tiny_checkpoint: Path, tmp_path: Path) -> None:
    best = train(SETTINGS, wide_dataset, tmp_path / "run", ("image",), start=tiny_checkpoint)
    state = load_checkpoint(best).state
    assert set(state["metrics"]) >= {"day@1", "day@8"}
    bundle, differences = export_bundle(load_checkpoint(best), tmp_path / "bundle")
    assert set(differences) == {"frame", "tile"}
    assert bundle.spec.headings == HEADINGS
    area = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    codes = bundle.encode_area(area)
    assert codes.shape == (3, 5, HEADINGS, MODEL.dim)
    torch_codes = CheckpointEncoder(load_checkpoint(best), adapt=False).encode_area(area)
    np.testing.assert_allclose(codes, torch_codes, atol=1e-5)
    tile = bundle.encode_tiles(area[None, 32:64, 48:80])[0]
    np.testing.assert_allclose(codes[2, 2, 2], tile[2], atol=1e-6)  # a camera half a tile to the west looks east
    around = CheckpointEncoder(dataclasses.replace(load_checkpoint(best), settings=SETTINGS.model_copy(
        update={"model": AROUND})), adapt=False)  # fmt: skip
    np.testing.assert_allclose(around.encode_area(area)[2, 3], tile, atol=1e-5)
    start = load_checkpoint(tiny_checkpoint).tensors["ground.backbone.blocks.0.attn.qkv.weight"]
    assert not torch.equal(load_checkpoint(best).tensors["ground.backbone.blocks.0.attn.qkv.weight"], start)


@torch.no_grad()
def test_a_frame_that_says_little_has_a_short_code(model: Model, tmp_path: Path) -> None:
    quiet = Model(TURNING).eval()
    quiet.load_state_dict(model.state_dict())
    torch.nn.init.constant_(quiet.ground.says.bias, -1.0)  # type: ignore[union-attr,arg-type]
    save_checkpoint(tmp_path / "quiet.safetensors", quiet, SETTINGS, {"stage": "image"})
    encoder = CheckpointEncoder(load_checkpoint(tmp_path / "quiet.safetensors"))
    frames = np.random.default_rng(0).integers(0, 256, (3, 32, 64, 3), dtype=np.uint8)
    np.testing.assert_allclose(np.linalg.norm(encoder.encode_frames(frames), axis=1), math.exp(-1.0), rtol=1e-5)
