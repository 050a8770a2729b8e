"""Weights that others published: their names and shapes, and their forward pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.published import published_codes, published_shapes, random_weights
from x2localizer.config import BackboneSettings, ModelSettings, TrainSettings, load_config
from x2localizer.errors import CheckpointError
from x2localizer.learn import backbone
from x2localizer.learn.checkpoint import load_checkpoint
from x2localizer.learn.encoder import CheckpointEncoder
from x2localizer.learn.model import Model
from x2localizer.learn.published import import_file, import_published

SMALL = ModelSettings(
    backbone=BackboneSettings(stem="plain", width=48, depth=2, heads=6, patch=16), frame_height=40, frame_width=64,
    tile_px=32, dim=20,
)  # fmt: skip
"""A frame has 2 x 4 patches, its last 8 rows are dropped; a tile has 2 x 2."""
MAIN = "from x2localizer.cli import main; main()"


def _small(layout: str, *, module: bool = False) -> dict[str, Tensor]:
    """Weights of a small model under published names."""
    shapes = published_shapes(layout, depth=2, width=48, dim=20, patches=(8, 4))
    weights = random_weights(shapes)
    return {("module." + name if module else name): tensor for name, tensor in weights.items()}


def _settings(layout: str) -> ModelSettings:
    return SMALL.model_copy(update={"adapter_skip": layout == "GAReT"})


@pytest.mark.parametrize("layout", ["GAReT", "authors"])
def test_imported_weights_compute_what_the_published_code_computes(layout: str) -> None:
    weights = _small(layout)
    model = Model(_settings(layout)).eval()
    assert import_published(model, weights) == layout
    generator = torch.Generator().manual_seed(1)
    videos, regions = (torch.randn(s, generator=generator) for s in ((2, 8, 3, 40, 64), (1, 49, 3, 32, 32)))
    with torch.no_grad():
        for budget, found in model.prefixes(videos, [1, 2, 4, 8]).items():
            for video in range(2):
                whole, tokens = published_codes(weights, layout, videos[video, :budget], aerial=False)
                torch.testing.assert_close(found.whole[video], whole, atol=1e-6, rtol=0)
                torch.testing.assert_close(found.tokens[video], tokens, atol=1e-6, rtol=0)
        region = model.regions(regions)
        whole, tokens = published_codes(weights, layout, regions[0], aerial=True)
    torch.testing.assert_close(region.whole[0], whole, atol=1e-6, rtol=0)
    torch.testing.assert_close(region.tokens[0], tokens, atol=1e-6, rtol=0)


def test_a_file_of_real_size_is_imported_without_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_hub(*_: object) -> dict[str, Tensor]:
        raise AssertionError("the hub was asked for weights")

    monkeypatch.setattr(backbone, "_read_weights", no_hub)
    weights = random_weights(published_shapes("GAReT"))
    file = {"epoch": 40, "arch": "deit", "state_dict": weights, "best_acc1": np.float64(41.5), "optimizer": {}}
    torch.save(file, tmp_path / "garet.pth")
    settings = load_config(TrainSettings, "train", "gama", ["model.adapter_skip=true"])
    assert settings.model.backbone.weights == "hub"
    layout, fingerprint = import_file(settings, tmp_path / "garet.pth", tmp_path / "full" / "best.safetensors")
    assert layout == "GAReT"
    encoder = CheckpointEncoder(load_checkpoint(tmp_path / "full" / "best.safetensors"))
    assert encoder.fingerprint == fingerprint
    images = np.random.default_rng(0).integers(0, 256, (1, 1, 216, 384, 3), np.uint8)
    scaled = torch.from_numpy(images[0]).movedim(-1, 1) / 255 - _column(0.485, 0.456, 0.406)
    scaled = scaled / _column(0.229, 0.224, 0.225)
    whole, tokens = published_codes(weights, "GAReT", scaled, aerial=False)
    found = encoder.encode_prefixes(images)
    np.testing.assert_allclose(found.whole[0], whole.numpy(), atol=2e-6)
    np.testing.assert_allclose(found.tokens[0], tokens.numpy(), atol=2e-6)


def _column(*values: float) -> Tensor:
    return torch.tensor(values).reshape(3, 1, 1)


@pytest.mark.parametrize("module", [False, True])
@pytest.mark.parametrize("layout", ["GAReT", "authors"])
def test_image_level_weights_leave_the_adapters_untrained(layout: str, module: bool) -> None:
    image_level = {
        name: tensor for name, tensor in _small(layout, module=module).items()
        if "T_Adapter" not in name and "temporal_embedding" not in name
    }  # fmt: skip
    model = Model(SMALL)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert import_published(model, image_level) == layout
    kept = {name for name, tensor in model.state_dict().items() if torch.equal(tensor, before[name])}
    assert kept == {name for name in before if ".adapters." in name or name.endswith("instance_embedding")}


def test_the_authors_names_without_the_inner_model_are_known_too() -> None:
    weights = {name.replace(".model.", "."): tensor for name, tensor in _small("authors").items()}
    assert import_published(Model(SMALL), weights) == "authors"


def test_published_weights_become_a_checkpoint_by_command(tmp_path: Path) -> None:
    torch.save({"state_dict": _small("authors")}, tmp_path / "w.pth")
    preset = tmp_path / "m.toml"
    preset.write_text(
        "[model]\nframe_height=40\nframe_width=64\ntile_px=32\ndim=20\n"
        "[model.backbone]\nstem='plain'\nwidth=48\ndepth=2\nheads=6\n"
    )
    out = tmp_path / "full" / "best.safetensors"
    command: list[str | Path] = [sys.executable, "-c", MAIN, "import", tmp_path / "w.pth"]
    command += ["--preset", preset, "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "layout of authors" in done.stdout, done.stderr
    found = load_checkpoint(out)
    assert found.state["stage"] == "full"
    model = Model(SMALL)
    import_published(model, _small("authors"))
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, found.tensors[name])
    command[4] = tmp_path / "missing.pth"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "There is no weights file" in done.stderr


def test_published_weights_that_do_not_fit_are_named() -> None:
    model = Model(SMALL)
    good = _small("authors")
    with pytest.raises(CheckpointError, match=r"encoder_a\.surprise"):
        import_published(model, {**good, "encoder_a.surprise": torch.zeros(1)})
    with pytest.raises(CheckpointError, match="missing"):
        import_published(model, {k: v for k, v in good.items() if not k.endswith(".norm.bias")})
    with pytest.raises(CheckpointError, match="unknown layout"):
        import_published(model, {"net.weight": torch.zeros(1)})
    with pytest.raises(CheckpointError, match="adapter_skip"):
        import_published(model, _small("GAReT"))


def test_our_own_checkpoints_keep_their_names_and_shapes() -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in Model(SMALL).state_dict().items()}
    adapter = {
        name.rsplit("0.", 1)[1]: shape for name, shape in shapes.items() if name.startswith("ground.adapters.0.")
    }
    assert adapter == {
        "D_fc1.weight": (12, 48), "D_fc1.bias": (12,), "D_fc2.weight": (48, 12), "D_fc2.bias": (48,),
        "D_inv_fcb1": (12,), "D_inv_fcb2": (48,),
    }  # fmt: skip
    assert shapes["ground.instance_embedding"] == (8, 48)
    assert shapes["aerial.instance_embedding"] == (49, 48)
    assert {name.split(".")[1] for name in shapes} == {"backbone", "adapters", "instance_embedding"}
