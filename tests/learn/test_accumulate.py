"""Gradients of a batch in parts, in two processes, or with blocks computed again: all those of the full batch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import start_processes

from helpers.small_model import SETTINGS
from x2localizer.config import ModelSettings, TrainSettings
from x2localizer.datasets.dataset import open_dataset
from x2localizer.learn.accumulate import backward, parts_of
from x2localizer.learn.batches import Videos
from x2localizer.learn.frozen import freeze
from x2localizer.learn.gather import average_gradients
from x2localizer.learn.model import Model
from x2localizer.learn.stages import Stage, full_stage, heading_stage, image_stage, progressive_stage

STAGES = ("image", "heading", "full", "keep", "progressive")
BATCH = 4


def _settings(name: str) -> TrainSettings:
    settings = SETTINGS
    if name == "heading":
        kept: dict[str, Any] = settings.model.model_dump() | {
            "family": "headings",
            "options": {"ahead": 0},
            "adapters": False,
        }
        settings = settings.model_copy(update={"model": ModelSettings.model_validate(kept)})
    if name in ("keep", "progressive"):
        objective = settings.objective.model_copy(update={"eta_keep": 0.5})
        settings = settings.model_copy(update={"objective": objective})
    small = {
        stage: getattr(settings, stage).model_copy(update={"batch": BATCH})
        for stage in ("image", "full", "progressive")
    }
    return settings.model_copy(update=small)


def _stage(name: str, data: Path, folder: Path) -> tuple[Stage[Any], Model]:
    settings = _settings(name)
    torch.manual_seed(0)
    model = Model(settings.model)
    for parameter in model.parameters():  # weights that start at zero have no gradient to compare
        parameter.data.add_(0.05 * torch.randn(parameter.shape))
    videos = Videos(open_dataset(data), "train", settings.model)
    makers: dict[str, Callable[[], Stage[Any]]] = {
        "image": lambda: image_stage(settings, videos, videos),
        "heading": lambda: heading_stage(settings, videos, videos),
        "full": lambda: full_stage(settings, videos, videos),
        "keep": lambda: full_stage(settings, videos, videos),
        "progressive": lambda: progressive_stage(settings, videos, videos, freeze(model, videos, folder)),
    }
    stage = makers[name]()
    model.set_trainable(stage.trains)
    return stage, model


def _gradients(stage: Stage[Any], model: Model, batch: Any, parts: int = 1) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad(set_to_none=True)
    losses = backward(stage, model, batch, parts, lambda total: total.backward(), nullcontext)  # type: ignore[no-untyped-call]
    return losses.total.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def _assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert len(expected) > 4
    for name, gradient in expected.items():
        apart, size = float((found[name] - gradient).abs().max()), float(gradient.abs().max())
        assert apart <= 2e-3 * size + 1e-7, name  # sums in another order


@pytest.mark.parametrize("name", STAGES)
def test_parts_and_blocks_computed_again_give_the_gradient_of_the_full_batch(
    name: str, tiny_dataset: Path, tmp_path: Path
) -> None:
    stage, model = _stage(name, tiny_dataset, tmp_path)
    batch = stage.draw(np.random.default_rng(3))
    loss, expected = _gradients(stage, model, batch)
    for parts in (2, 3, 99):
        found_loss, found = _gradients(stage, model, batch, parts)
        torch.testing.assert_close(found_loss, loss)
        _assert_same(found, expected)
    model.set_checkpointing(True)
    _assert_same(_gradients(stage, model, batch)[1], expected)
    _assert_same(_gradients(stage, model, batch, 2)[1], expected)
    halves = [_gradients(stage, model, part)[1] for part in parts_of(batch, 2)]
    naive = {key: (halves[0][key] + halves[1][key]) / 2 for key in expected}
    with pytest.raises(AssertionError):  # the mean over parts is another loss: it lacks negatives
        _assert_same(naive, expected)


def _work(rank: int, data: str, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    for name in STAGES:
        stage, model = _stage(name, Path(data), Path(folder) / name)
        batch = list(parts_of(stage.draw(np.random.default_rng(3)), 2))[rank]
        for parts in (1, 2):
            loss, gradients = _gradients(stage, model, batch, parts)
            dist.all_reduce(loss)
            average_gradients(gradients.values())
            torch.save([loss / 2, gradients], Path(folder) / f"{name}-{rank}-{parts}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.skipif(not dist.is_gloo_available(), reason="needs gloo")
def test_two_processes_equal_one_in_every_stage(tiny_dataset: Path, tmp_path: Path) -> None:
    start_processes(_work, (str(tiny_dataset), str(tmp_path)), nprocs=2, start_method="spawn")  # type: ignore[no-untyped-call]
    for name in STAGES:
        stage, model = _stage(name, tiny_dataset, tmp_path / name)
        loss, expected = _gradients(stage, model, stage.draw(np.random.default_rng(3)))
        for rank in range(2):
            for parts in (1, 2):
                found = torch.load(tmp_path / f"{name}-{rank}-{parts}.pt", weights_only=True)
                torch.testing.assert_close(found[0], loss)
                _assert_same(found[1], expected)
    assert len(list((tmp_path / "progressive").glob("frozen-*"))) == 1  # computed once
