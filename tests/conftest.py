"""What several test files share: a small town, a small dataset, a small bundle; and which tests need torch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from helpers.small_world import SMALL, TINY
from helpers.tiny_bundle import TINY_BUNDLE, save_tiny_checkpoint
from x2localizer.datasets.town import make_dataset
from x2localizer.encoders import Bundle, open_bundle
from x2localizer.town.town import Town, build_town, paint_town
from x2localizer.types import Image

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
os.environ["COLUMNS"] = "200"  # tables of the command line do not wrap, however long the paths of temporary files are

LEARN = Path(__file__).parent / "learn"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave tests/learn out of runs without torch: its modules import torch, which may not be installed."""
    return True if collection_path == LEARN and "not torch" in config.option.markexpr else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in tests/learn with ``torch``."""
    for item in items:
        if item.path.is_relative_to(LEARN):
            item.add_marker(pytest.mark.torch)


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
    """A dataset of four towns; tests that change it copy it first."""
    return make_dataset(TINY, tmp_path_factory.mktemp("data") / "tiny", "made by a test", workers=1)


@pytest.fixture(scope="session")
def tiny_bundle() -> Bundle:
    """The bundle of tests/data: small untrained towers, for tiles of 32 and frames of 32 x 64 pixels."""
    return open_bundle(TINY_BUNDLE)


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint that ``tiny_bundle`` was exported from; only for tests marked ``torch``."""
    return save_tiny_checkpoint(tmp_path_factory.mktemp("untrained") / "tiny.safetensors")
