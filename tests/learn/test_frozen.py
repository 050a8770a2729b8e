"""What stage 3 freezes: computed by one process, and kept off the GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.small_model import MODEL
from x2localizer.datasets.dataset import open_dataset
from x2localizer.learn import frozen as frozen_codes
from x2localizer.learn import score
from x2localizer.learn.batches import Videos
from x2localizer.learn.checkpoint import load_checkpoint, restore
from x2localizer.learn.frozen import Frozen, freeze


def test_only_the_first_process_computes_what_is_frozen(
    run: Path, tiny_dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = restore(load_checkpoint(run / "full" / "best.safetensors"))
    videos = Videos(open_dataset(tiny_dataset), "train", MODEL)
    rank, computed = 1, []

    def embed_regions(*arguments: Any, **options: Any) -> Any:
        computed.append(rank)
        return score.embed_regions(*arguments, **options)

    def wait_for_all() -> None:
        nonlocal rank
        if rank == 1:  # what the first process does meanwhile
            rank = 0
            freeze(model, videos, tmp_path)
            rank = 1

    monkeypatch.setattr(frozen_codes, "embed_regions", embed_regions)
    monkeypatch.setattr(frozen_codes, "wait_for_all", wait_for_all)
    monkeypatch.setattr(frozen_codes, "rank_and_world", lambda: (rank, 2))
    found = freeze(model, videos, tmp_path)
    assert computed == [0]
    assert len(found.tokens) == len(found.whole) == len(videos.region_rows)
    rows = torch.tensor([2, 0])
    torch.testing.assert_close(found.tokens_of(rows), found.tokens[rows])


def test_progress_is_told_while_codes_are_computed(run: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    model = restore(load_checkpoint(run / "full" / "best.safetensors"))
    videos = Videos(open_dataset(tiny_dataset), "train", MODEL)
    told: list[tuple[str, int, int]] = []
    for _ in range(2):  # the second time they are there
        freeze(model, videos, tmp_path, lambda what, done, total, values: told.append((what, done, total)))
    regions, clips = len(videos.region_rows), len(videos.videos)
    assert told.count(("regions", regions, regions)) == 1
    assert told.count(("videos", clips, clips)) == 1


def test_codes_stay_in_the_file_until_a_batch_needs_them(run: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    model = restore(load_checkpoint(run / "full" / "best.safetensors"))
    frozen = freeze(model, Videos(open_dataset(tiny_dataset), "train", MODEL), tmp_path)
    (file,) = tmp_path.glob("frozen-*.safetensors")
    assert file.name in Path("/proc/self/maps").read_text()  # mapped, so that processes share its pages
    away = Frozen(frozen.whole, frozen.tokens, frozen.teacher, torch.device("meta"))
    rows = torch.tensor([1, 1, 0])
    for kept, batch in (
        (frozen.whole, away.whole_of(rows)),
        (frozen.tokens, away.tokens_of(rows)),
        (frozen.teacher, away.teacher_of(rows)),
    ):
        assert kept.device.type == "cpu"
        assert (batch.device.type, batch.shape) == ("meta", (3, *kept.shape[1:]))
