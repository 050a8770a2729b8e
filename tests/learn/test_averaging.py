"""Averages of weights while training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from helpers.small_model import SETTINGS, SHORT
from x2localizer.learn.averaging import add_to_averages, averaged
from x2localizer.learn.checkpoint import load_checkpoint
from x2localizer.learn.loop import train


@pytest.mark.parametrize("decay", [0.0, 0.6, 0.999])
def test_averages_equal_a_loop_over_all_weights(decay: float) -> None:
    torch.manual_seed(3)
    layer, seen = nn.Linear(3, 2), []
    optimizer = torch.optim.AdamW(layer.parameters(), 0.1)
    for step in range(8):
        optimizer.zero_grad()
        layer(torch.randn(5, 3)).square().sum().backward()
        optimizer.step()
        add_to_averages(optimizer, decay, step)
        seen.append(layer.weight.detach().clone())
    expected = seen[0]
    for count, weight in enumerate(seen[1:], 2):
        share = max(1 - decay, 1 / count)
        expected = (1 - share) * expected + share * weight
    if decay == 0.999:  # too few steps to forget any
        torch.testing.assert_close(expected, torch.stack(seen).mean(0))
    with averaged(optimizer):
        torch.testing.assert_close(layer.weight.detach(), expected)
    assert torch.equal(layer.weight.detach(), seen[-1])


def test_without_averages_a_model_stays_as_it_is() -> None:
    layer = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(layer.parameters(), 0.1)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    before = layer.weight.detach().clone()
    with averaged(optimizer):
        assert torch.equal(layer.weight.detach(), before)


def test_weights_without_a_gradient_have_no_average() -> None:
    layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    optimizer = torch.optim.AdamW(layers.parameters(), 0.1)
    layers[0](torch.ones(1, 2)).sum().backward()
    optimizer.step()
    add_to_averages(optimizer, 0.5, 0)
    assert {id(p) for p in optimizer.state} == {id(p) for p in layers[0].parameters()}


def test_a_stage_keeps_its_averages_and_resumes_with_them(run: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def stop_at_four(stage: str, step: int, steps: int, values: dict[str, float]) -> None:
        if step == 4:
            raise StopError

    settings = SETTINGS.model_copy(update={"image": SHORT.model_copy(update={"average": 0.9})})
    train(settings, tiny_dataset, tmp_path / "whole", ("image",))
    with pytest.raises(StopError):
        train(settings, tiny_dataset, tmp_path / "resumed", ("image",), stop_at_four)
    train(settings, tiny_dataset, tmp_path / "resumed", ("image",))
    plain = load_checkpoint(run / "image" / "last.safetensors")
    best, last = (load_checkpoint(tmp_path / "whole" / "image" / f"{name}.safetensors") for name in ("best", "last"))
    assert last.fingerprint == plain.fingerprint  # averages do not change what is trained
    assert best.fingerprint != last.fingerprint
    for name, own in (("best", best), ("last", last)):
        resumed = load_checkpoint(tmp_path / "resumed" / "image" / f"{name}.safetensors")
        assert resumed.fingerprint == own.fingerprint
