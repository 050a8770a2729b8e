"""Towers that start from others with larger patches, or with fewer blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.small_model import MODEL
from x2localizer.config import ModelSettings, TrainSettings
from x2localizer.learn.backbone import with_other_patches
from x2localizer.learn.checkpoint import load_checkpoint, load_start, save_checkpoint
from x2localizer.learn.model import Model

TURNING = MODEL.model_copy(update={"family": "headings", "adapters": False})


def _finer(settings: ModelSettings, **sizes: int) -> ModelSettings:
    return settings.model_copy(update={"backbone": settings.backbone.model_copy(update=sizes)})


@pytest.mark.parametrize("stem", ["conv", "plain"])
@torch.no_grad()
def test_a_patch_of_one_colour_keeps_its_token(stem: str) -> None:
    settings = _finer(TURNING)
    settings = settings.model_copy(update={"backbone": settings.backbone.model_copy(update={"stem": stem})})
    half = settings.backbone.patch // 2
    torch.manual_seed(0)
    large, small = Model(settings), Model(_finer(settings, frame_patch=half))
    small.load_state_dict(with_other_patches(large.state_dict(), settings, small.settings))
    colour = torch.tensor([0.3, -0.8, 1.1]).reshape(1, 3, 1, 1)
    frame = colour.expand(1, 3, settings.frame_height, settings.frame_width)
    towers: list[Any] = [large.ground, small.ground]
    tokens, finer = (tower.backbone.patch_embed(frame) for tower in towers)
    assert finer.shape[1] == 4 * tokens.shape[1]
    inside = finer.reshape(settings.frame_height // half, -1, finer.shape[-1])[-1, -1]
    torch.testing.assert_close(inside, tokens[0, -1], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(*(tower.backbone.pos_embed[:, :2] for tower in towers))  # of cls and dist


@torch.no_grad()
def test_only_the_tower_of_frames_changes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    large = Model(TURNING)
    save_checkpoint(tmp_path / "large.safetensors", large, TrainSettings(model=TURNING), {"stage": "image"})
    small = Model(_finer(TURNING, frame_patch=TURNING.backbone.patch // 2))
    load_start(small, load_checkpoint(tmp_path / "large.safetensors"))
    tiles = torch.randn(2, 3, TURNING.tile_px, TURNING.tile_px)
    torch.testing.assert_close(small.eval().aerial(tiles), large.eval().aerial(tiles))
    frames = torch.randn(2, 3, TURNING.frame_height, TURNING.frame_width)
    codes = small.ground(frames)
    assert codes.shape == large.ground(frames).shape
    assert torch.isfinite(codes).all()
    assert not torch.allclose(codes, large.ground(frames), atol=1e-4)


def test_a_deeper_tower_starts_with_the_same_codes_and_can_leave_them(tmp_path: Path) -> None:
    torch.manual_seed(0)
    shallow, deep = Model(TURNING), Model(_finer(TURNING, frame_depth=TURNING.backbone.depth + 2))
    save_checkpoint(tmp_path / "shallow.safetensors", shallow, TrainSettings(model=TURNING), {"stage": "image"})
    load_start(deep, load_checkpoint(tmp_path / "shallow.safetensors"))
    towers: list[Any] = [shallow.ground, deep.ground, deep.aerial]
    assert [len(tower.backbone.blocks) for tower in towers] == [
        TURNING.backbone.depth, TURNING.backbone.depth + 2, TURNING.backbone.depth
    ]  # fmt: skip
    frames = torch.randn(2, 3, TURNING.frame_height, TURNING.frame_width)
    with torch.no_grad():
        torch.testing.assert_close(deep.eval().ground(frames), shallow.eval().ground(frames))
    deep.ground(frames).sum().backward()
    added = towers[1].backbone.blocks[-1]
    assert added.mlp.fc2.weight.grad.abs().max() > 0
    assert added.attn.proj.weight.grad.abs().max() > 0
