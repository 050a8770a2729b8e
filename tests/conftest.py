"""What several test files share: one small town, one small data set."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from helpers.small_world import SMALL, TINY
from x2localizer.config import BackboneSettings, ModelSettings, TrainSettings
from x2localizer.datasets.town import make_dataset
from x2localizer.encoders import Bundle
from x2localizer.town.town import Town, build_town, paint_town
from x2localizer.types import Image

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def town() -> Town:
    """A town of 2 x 2 regions."""
    return build_town(5, SMALL)


@pytest.fixture(scope="session")
def aerial(town: Town) -> Image:
    """Its picture from above."""
    return paint_town(town)


@pytest.fixture(scope="session")
def tiny_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of four towns; tests that change it copy it first."""
    return make_dataset(TINY, tmp_path_factory.mktemp("data") / "tiny", "made by a test", workers=1)


@pytest.fixture(scope="session")
def tiny_bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle of small untrained towers, for tiles of 32 and frames of 32 x 64 pixels."""
    import torch

    from x2localizer.learn.checkpoint import load_checkpoint, save_checkpoint
    from x2localizer.learn.export import export_bundle
    from x2localizer.learn.model import Model

    folder = tmp_path_factory.mktemp("untrained")
    model = ModelSettings(
        backbone=BackboneSettings(width=24, depth=2, heads=2, patch=16), frame_height=32, frame_width=64, tile_px=32,
        dim=16, adapter_ratio=0.5,
    )  # fmt: skip
    torch.manual_seed(0)
    save_checkpoint(folder / "c.safetensors", Model(model), TrainSettings(model=model), {"stage": "image"})
    return export_bundle(load_checkpoint(folder / "c.safetensors"), folder / "bundle")[0]
