"""Checkpoints: strict, safe, and named after what they compute."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from helpers.small_model import MODEL, SETTINGS
from x2localizer.config import (
    TrainSettings,
    load_config,
    preset_names,
)
from x2localizer.encoders.protocol import PARTS
from x2localizer.errors import CheckpointError
from x2localizer.learn.bench_families import BASELINES
from x2localizer.learn.checkpoint import FORMAT, load_checkpoint, load_weights, save_checkpoint
from x2localizer.learn.encoder import CheckpointEncoder
from x2localizer.learn.model import Model


def test_every_preset_is_valid() -> None:
    baselines = [f"{size}-{name}" for size in ("gama", "town") for name in BASELINES]
    assert preset_names("train") == sorted(["eye", "gama", "town", "town-deit", "town-quick", *baselines])
    for name in preset_names("train"):
        load_config(TrainSettings, "train", name)


def test_a_checkpoint_is_strict_and_safe(run: Path, tmp_path: Path) -> None:
    found = load_checkpoint(run / "image" / "best.safetensors")
    assert found.settings == SETTINGS
    model = Model(MODEL)
    tensors = dict(found.tensors)
    tensors["ground.extra"] = tensors.pop("ground.backbone.norm.bias")
    with pytest.raises(CheckpointError, match=r"missing ground\.backbone\.norm\.bias; unknown ground\.extra"):
        load_weights(model, tensors)
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, model, SETTINGS, {})
    data = bytearray(path.read_bytes())
    data[-5] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(CheckpointError, match="fingerprint"):
        load_checkpoint(path)
    headers: tuple[dict[str, str], ...] = ({}, {"fingerprint": "0", "config": "{", "state": "{}"})
    for header in headers:
        save_file({"model.a": torch.zeros(1)}, path, {"format": FORMAT, **header})
        with pytest.raises(CheckpointError, match="header"):
            load_checkpoint(path)
    path.write_bytes(b"no")
    with pytest.raises(CheckpointError, match="damaged"):
        load_checkpoint(path)


def test_models_that_share_a_tower_share_the_name_of_its_embeddings(run: Path) -> None:
    image, full, last = (
        CheckpointEncoder(load_checkpoint(run / stage / "best.safetensors"), adapt=stage != "image")
        for stage in ("image", "full", "progressive")
    )
    for part in PARTS[:2]:
        assert image.weights_of(part) == full.weights_of(part) == last.weights_of(part)
    assert full.weights_of("region") == last.weights_of("region"), "stage 3 leaves the aerial tower alone"
    assert full.weights_of("prefix") != last.weights_of("prefix")
    assert image.weights_of("region") != full.weights_of("region")
    assert len({last.weights_of(part) for part in PARTS}) == 4
