"""A finished run of all stages on the tiny dataset, and the bundle made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.small_model import SETTINGS
from x2localizer.encoders import Bundle
from x2localizer.learn.checkpoint import load_checkpoint
from x2localizer.learn.export import export_bundle
from x2localizer.learn.loop import train


@pytest.fixture(scope="session")
def run(tiny_dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of all stages."""
    out = tmp_path_factory.mktemp("run")
    train(SETTINGS, tiny_dataset, out)
    return out


@pytest.fixture(scope="session")
def bundle(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    out = tmp_path_factory.mktemp("bundle") / "tiny"
    return export_bundle(load_checkpoint(run / "progressive" / "best.safetensors"), out)[0]
