"""Patches by layers that learned on photos: where weights come from, and that towers train and export with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch

from helpers.small_model import MODEL, SHORT
from x2localizer.config import BackboneSettings, TrainSettings
from x2localizer.errors import CheckpointError, ConfigError
from x2localizer.learn.backbone import build_backbone
from x2localizer.learn.checkpoint import load_checkpoint, load_start
from x2localizer.learn.export import export_bundle
from x2localizer.learn.loop import train
from x2localizer.learn.model import Model
from x2localizer.learn.stems import LiteStem, PlainStem

SMALL = {"width": 24, "depth": 2, "heads": 2}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of the whole network under other names, as a publisher has them."""
    torch.manual_seed(5)
    network = timm.create_model("tf_efficientnet_lite0", pretrained=False)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.running_mean, -0.1, 0.1)  # type: ignore[arg-type]
    path = tmp_path_factory.mktemp("weights") / "lite0.pth"
    torch.save({f"_other{i}.{name}": tensor for i, (name, tensor) in enumerate(network.state_dict().items())}, path)
    torch.save(network.state_dict(), path.with_name("network.pth"))
    return path


@torch.no_grad()
def test_weights_of_a_publisher_are_put_in_layer_by_layer(published: Path) -> None:
    settings = BackboneSettings(**SMALL, stem="efficientnet_lite0", stem_weights=str(published))
    stem = build_backbone(settings, (64, 96), 16).eval().patch_embed
    assert isinstance(stem, LiteStem)
    network: Any = timm.create_model("tf_efficientnet_lite0", pretrained=False).eval()
    network.load_state_dict(torch.load(published.with_name("network.pth"), weights_only=True))
    images = torch.randn(2, 3, 70, 100, generator=torch.Generator().manual_seed(1))
    features = network.blocks[:4](network.bn1(network.conv_stem(images[:, :, :64, :96])))
    assert features.shape == (2, 80, 4, 6)
    torch.testing.assert_close(stem.proj[:-1](images[:, :, :64, :96]), features)
    assert stem(images).shape == (2, 24, 24)
    stem.train()
    assert not any(module.training for module in stem.modules() if isinstance(module, torch.nn.BatchNorm2d))


def test_what_cannot_be_is_refused(published: Path, tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(3)}, tmp_path / "other.pth")
    lite = BackboneSettings(**SMALL, stem="efficientnet_lite0", stem_weights=str(tmp_path / "other.pth"))
    with pytest.raises(CheckpointError, match="does not hold"):
        build_backbone(lite, (64, 64), 16)
    with pytest.raises(ConfigError, match="weights of its own"):
        build_backbone(BackboneSettings(**SMALL, stem_weights=str(published)), (64, 64), 16)
    with pytest.raises(ConfigError, match="16 pixels"):
        build_backbone(lite.model_copy(update={"patch": 8}), (64, 64), 16)


def test_rows_and_columns_that_fill_no_patch_are_dropped() -> None:
    stem = PlainStem((36, 50), 16, 3, 8)
    images = torch.randn(1, 3, 36, 50)
    torch.testing.assert_close(stem(images), stem(images[:, :, :32, :48]))


def test_a_run_takes_over_what_comes_after_the_stem(
    published: Path, tiny_dataset: Path, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    backbone = MODEL.backbone.model_copy(update={"stem": "efficientnet_lite0", "stem_weights": str(published)})
    model = MODEL.model_copy(
        update={"family": "headings", "adapters": False, "options": {"ahead": 0}, "backbone": backbone}
    )
    settings = TrainSettings(model=model, image=SHORT.model_copy(update={"lr": 1e-9}), threads=1)
    begun = train(
        settings.model_copy(update={"model": model.model_copy(update={"backbone": MODEL.backbone})}),
        tiny_dataset, tmp_path / "before", ("image",), start=tiny_checkpoint,
    )  # fmt: skip
    best = load_checkpoint(train(settings, tiny_dataset, tmp_path / "run", ("image",), start=begun))
    name = "ground.backbone.blocks.0.attn.qkv.weight"
    torch.testing.assert_close(best.tensors[name], load_checkpoint(begun).tensors[name], atol=1e-5, rtol=0)
    first = next(iter(torch.load(published, weights_only=True).values()))
    torch.testing.assert_close(best.tensors["aerial.backbone.patch_embed.proj.0.weight"], first, atol=1e-5, rtol=0)
    bundle, differences = export_bundle(best, tmp_path / "bundle")
    assert max(differences.values()) < 1e-3
    frames = np.random.default_rng(0).integers(0, 256, (2, 32, 64, 3), dtype=np.uint8)
    assert bundle.encode_frames(frames).shape == (2, MODEL.dim)


def test_towers_of_another_family_keep_their_own_stem(tiny_checkpoint: Path) -> None:
    backbone = MODEL.backbone.model_copy(update={"stem": "efficientnet_lite0"})
    model = Model(MODEL.model_copy(update={"family": "headings", "adapters": False, "backbone": backbone}))
    stem = "aerial.backbone.patch_embed.proj.0.weight"
    own = model.state_dict()[stem].clone()
    start = load_checkpoint(tiny_checkpoint)
    load_start(model, start)
    torch.testing.assert_close(model.state_dict()[stem], own)
    name = "ground.backbone.blocks.0.attn.qkv.weight"
    torch.testing.assert_close(model.state_dict()[name], start.tensors[name])
