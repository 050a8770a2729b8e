"""The quick road from nothing to retrieval, by the commands of the docs: data, all stages, export, and a bundle that
finds unseen places far better than chance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from x2localizer.config import DatasetSettings, TrainSettings, load_config
from x2localizer.datasets.dataset import open_dataset
from x2localizer.datasets.town import make_dataset
from x2localizer.encoders import open_bundle
from x2localizer.learn.batches import Videos
from x2localizer.learn.checkpoint import load_checkpoint
from x2localizer.learn.export import export_bundle, pictures_for
from x2localizer.learn.loop import train
from x2localizer.metrics import ranks_of, recall_at


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = load_config(DatasetSettings, "dataset", "small")
    return make_dataset(settings, tmp_path_factory.mktemp("data") / "small", "made by a test", workers=1)


def test_town_quick_learns_to_find_unseen_places(small: Path, tmp_path: Path) -> None:
    settings = load_config(TrainSettings, "train", "town-quick", ["threads=1"])
    best = load_checkpoint(train(settings, small, tmp_path))
    bundle, differences = export_bundle(best, tmp_path / "bundle", pictures_for(settings.model, small))
    assert max(differences.values()) <= 1e-4

    videos = Videos(open_dataset(small), "test", settings.model)
    bundle = open_bundle(tmp_path / "bundle")
    regions = bundle.encode_regions(np.stack([videos.tiles(i) for i in range(len(videos.region_rows))]))
    frames = np.stack([videos.frames(i, 8) for i in range(len(videos.videos))])
    assert len(regions.whole) == 16
    assert len(frames) >= 90
    recall, rank = {}, {}
    for budget in (1, 8):
        ranks = ranks_of(bundle.encode_prefixes(frames[:, :budget]).whole @ regions.whole.T, videos.region_of)
        recall[budget], rank[budget] = recall_at(ranks, 1), float(ranks.mean())
    # By chance 6.3% come first, with a spread of 2.5 over 96 videos, and the mean rank is 8.5, with a spread of 0.5.
    assert recall[8] > 16.0, (recall, rank)
    assert rank[8] < 6.5, (recall, rank)
    assert rank[1] < 7.2, (recall, rank)
