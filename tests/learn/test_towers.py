"""The towers against a plain, masked version of the paper's equations."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
import torch
from safetensors.torch import save_file

from x2localizer.config import BackboneSettings, ModelSettings, Settings
from x2localizer.errors import CheckpointError
from x2localizer.learn.backbone import build_backbone, load_pretrained, resample_positions
from x2localizer.learn.families.deit import DeitTower
from x2localizer.learn.geoadapter import Adapter
from x2localizer.learn.model import Model
from x2localizer.learn.naive import naive_set
from x2localizer.learn.towers import TowerPlan

SMALL = ModelSettings(
    backbone=BackboneSettings(width=24, depth=3, heads=3, patch=8), frame_height=16, frame_width=32, tile_px=16, dim=10,
    region_tiles=3,
)  # fmt: skip


def _tower(*, grid: bool, skip: bool = False, trained: bool = True) -> DeitTower:
    torch.manual_seed(3)
    settings = SMALL.model_copy(update={"adapter_skip": skip})
    size, instances = ((16, 16), 9) if grid else ((16, 32), 8)
    tower = DeitTower(TowerPlan(settings, size, instances, grid), Settings()).double().eval()
    if trained:
        for parameter in [*tower.adapters.parameters(), tower.instance_embedding]:
            torch.nn.init.normal_(parameter, std=0.3)
    return tower


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize(("grid", "sizes"), [(False, (1, 2, 3, 8)), (True, (1, 4, 9))])
def test_sets_equal_the_plain_version(grid: bool, sizes: tuple[int, ...], skip: bool) -> None:
    tower = _tower(grid=grid, skip=skip)
    for s in sizes:
        images = torch.randn(2, s, 3, *tower.size, dtype=torch.float64)
        even = tower.embed_sets(images)
        for b in range(2):
            whole, tokens = naive_set(tower, images[b])
            torch.testing.assert_close(even.whole[b], whole, atol=1e-10, rtol=0)
            torch.testing.assert_close(even.tokens[b], tokens, atol=1e-10, rtol=0)


def test_prefixes_of_different_lengths_do_not_see_each_other() -> None:
    tower = _tower(grid=False)
    lengths = [3, 1, 8, 1, 2, 3]
    images = torch.randn(sum(lengths), 3, 16, 32, dtype=torch.float64)
    mixed = tower.embed_mixed(images, lengths)
    start = 0
    for i, length in enumerate(lengths):
        whole, tokens = naive_set(tower, images[start : start + length])
        torch.testing.assert_close(mixed.whole[i], whole, atol=1e-10, rtol=0)
        torch.testing.assert_close(mixed.tokens[start : start + length], tokens, atol=1e-10, rtol=0)
        start += length


def test_prefixes_that_share_their_frames_equal_those_that_do_not() -> None:
    tower = _tower(grid=False)
    frames = torch.randn(2, 8, 3, 16, 32, dtype=torch.float64)
    members, lengths, copies = [], [], []
    for budget in (4, 1, 8):
        for video in range(2):
            members += [8 * video + k for k in range(budget)]
            lengths.append(budget)
            copies.append(frames[video, :budget])
    for adapt in (True, False):
        shared = tower.embed_mixed(frames.flatten(0, 1), lengths, torch.tensor(members), adapt=adapt)
        plain = tower.embed_mixed(torch.cat(copies), lengths, adapt=adapt)
        torch.testing.assert_close(shared.whole, plain.whole, atol=1e-12, rtol=0)
        torch.testing.assert_close(shared.tokens, plain.tokens, atol=1e-12, rtol=0)


def test_a_model_without_adapters_is_the_mean_of_its_images_and_trains_its_towers() -> None:
    model = Model(SMALL.model_copy(update={"adapters": False}))
    videos, tiles = torch.randn(2, 8, 3, 16, 32), torch.randn(2, 9, 3, 16, 16)
    raw = model.ground.embed_images(videos[1, :4]).mean(0)
    torch.testing.assert_close(model.prefixes(videos, [4, 8])[4].whole[1], raw / raw.norm())
    torch.testing.assert_close(model.regions(tiles).tokens[0, 3], model.aerial(tiles[0, 3:4])[0])
    assert not any("adapter" in name or "instance" in name for name, _ in model.named_parameters())
    for what, towers in (("adapters", {"ground", "aerial"}), ("ground adapters", {"ground"})):
        model.set_trainable(what)  # type: ignore[arg-type]
        assert {name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad} == towers


@pytest.mark.parametrize("grid", [False, True])
def test_an_untrained_adapter_changes_nothing(grid: bool) -> None:
    tower = _tower(grid=grid, trained=False)
    images = torch.randn(4, 3, *tower.size, dtype=torch.float64)
    torch.testing.assert_close(tower.embed_sets(images[None]).tokens[0], tower(images), atol=1e-12, rtol=0)


def test_a_trained_adapter_does_and_order_matters() -> None:
    tower = _tower(grid=False)
    images = torch.randn(1, 4, 3, 16, 32, dtype=torch.float64)
    forward, backward = tower.embed_sets(images).whole, tower.embed_sets(images.flip(1)).whole
    assert not torch.allclose(forward, backward, atol=1e-7)
    assert not torch.allclose(tower.embed_sets(images).tokens[0], tower(images[0]), atol=1e-3)


@pytest.mark.parametrize("lengths", [[9], [0, 2], [2, 2]])
def test_lengths_that_do_not_fit_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        _tower(grid=False).embed_mixed(torch.zeros(2, 3, 16, 32, dtype=torch.float64), lengths)


@pytest.mark.parametrize(
    ("what", "moved"),
    [("everything", {"backbone"}), ("adapters", {"adapters", "instance_embedding"}), ("ground adapters", {"ground"})],
)
def test_gradients_reach_what_trains_and_nothing_else(what: str, moved: set[str]) -> None:
    torch.manual_seed(0)
    model = Model(SMALL)
    for tower in (model.ground, model.aerial):
        for adapter in cast(DeitTower, tower).adapters:
            torch.nn.init.normal_(cast(Adapter, adapter).D_fc2.weight, std=0.1)
    model.set_trainable(what)  # type: ignore[arg-type]
    videos, tiles = torch.randn(2, 8, 3, 16, 32), torch.randn(2, 9, 3, 16, 16)
    score = model.prefixes(videos, [1, 8])[8].whole @ model.regions(tiles).whole.t()
    if what == "everything":
        frames, squares = model.pairs(videos[:, 0], tiles[:, 0])
        score = frames @ squares.t()
    score.sin().sum().backward()  # type: ignore[no-untyped-call]
    got = {name for name, p in model.named_parameters() if p.grad is not None and bool((p.grad != 0).any())}
    wanted = {name for name, p in model.named_parameters() if p.requires_grad}
    assert got == wanted
    for name in got:
        assert any(word in name for word in moved)


def test_the_paper_has_45_and_47_million_parameters() -> None:
    settings = ModelSettings(
        backbone=BackboneSettings(name="deit_small_distilled_patch16_224"), frame_height=216, frame_width=384,
        tile_px=256, dim=1000,
    )  # fmt: skip
    model = Model(settings)
    ground, aerial = cast(DeitTower, model.ground), cast(DeitTower, model.aerial)
    image = sum(p.numel() for tower in (ground, aerial) for p in tower.backbone.parameters()) / 1e6
    video = sum(p.numel() for p in model.parameters()) / 1e6
    assert round(image) == 45
    assert round(video) == 47
    assert sum(p.numel() for p in ground.adapters.parameters()) / 1e6 == pytest.approx(0.9, abs=0.05)
    assert ground.backbone.pos_embed.shape[1] == 13 * 24 + 2
    assert aerial.backbone.pos_embed.shape[1] == 16 * 16 + 2


def test_positions_are_resampled_and_their_first_two_kept() -> None:
    positions = torch.randn(1, 2 + 14 * 14, 6)
    out = resample_positions(positions, (13, 24))
    assert out.shape == (1, 2 + 13 * 24, 6)
    torch.testing.assert_close(out[:, :2], positions[:, :2])
    torch.testing.assert_close(resample_positions(positions, (14, 14)), positions)


def test_pretrained_weights_come_from_a_local_file(tmp_path: Path) -> None:
    torch.manual_seed(1)
    settings = BackboneSettings(width=24, depth=2, heads=3, patch=8)
    donor = build_backbone(settings, (32, 32), 10)
    save_file(donor.state_dict(), tmp_path / "w.safetensors")
    torch.save(donor.state_dict(), tmp_path / "w.pth")
    for name in ("w.safetensors", "w.pth"):
        own = build_backbone(settings.model_copy(update={"weights": str(tmp_path / name)}), (16, 32), 10)
        torch.testing.assert_close(own.blocks[1].mlp.fc1.weight, donor.blocks[1].mlp.fc1.weight)  # type: ignore[union-attr]
        torch.testing.assert_close(own.head.weight, donor.head.weight)
        assert own.state_dict()["pos_embed"].shape[1] == 2 + 2 * 4


def test_a_wrong_key_is_named() -> None:
    model = build_backbone(BackboneSettings(width=24, depth=1, heads=3, patch=8), (16, 16), 10)
    tensors = dict(model.state_dict())
    tensors["blocks.7.norm1.weight"] = torch.zeros(24)
    del tensors["norm.bias"]
    with pytest.raises(CheckpointError, match=r"norm\.bias.*blocks\.7\.norm1\.weight"):
        load_pretrained(model, tensors)


def test_a_backbone_without_a_distillation_token_is_refused() -> None:
    with pytest.raises(CheckpointError, match="no distillation token"):
        build_backbone(BackboneSettings(name="vit_tiny_patch16_224"), (32, 32), 10)
