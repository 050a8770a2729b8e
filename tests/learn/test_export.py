"""The bundle at the end of training: equal to torch, small, and clear about what is wrong with it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.small_model import MODEL, SHORT
from x2localizer.config import TrainSettings
from x2localizer.datasets.dataset import open_dataset
from x2localizer.encoders import Bundle, open_bundle
from x2localizer.errors import BundleError, CheckpointError
from x2localizer.learn.batches import Videos
from x2localizer.learn.bundle_weights import load_origin
from x2localizer.learn.checkpoint import load_checkpoint, load_weights
from x2localizer.learn.encoder import CheckpointEncoder
from x2localizer.learn.export import check_bundle
from x2localizer.learn.loop import train
from x2localizer.learn.model import Model


def test_the_bundle_equals_torch_on_real_frames(run: Path, bundle: Bundle, tiny_dataset: Path) -> None:
    model = Model(MODEL)
    load_weights(model, load_checkpoint(run / "progressive" / "best.safetensors").tensors)
    videos = Videos(open_dataset(tiny_dataset), "test", MODEL)
    frames = np.stack([videos.frames(i, 8) for i in range(3)])
    regions = np.stack([videos.tiles(i) for i in range(2)])
    images = {"frame": frames[0], "tile": regions[0], "prefix": frames, "region": regions}
    differences = check_bundle(bundle, model.eval(), images)
    assert set(differences) == {"frame", "tile", "prefix", "region"}
    for length in (1, 2, 5):
        code = bundle.encode_prefixes(frames[:, :length])
        assert code.tokens.shape == (3, length, 16)
        np.testing.assert_allclose(np.linalg.norm(code.whole, axis=1), 1.0, atol=1e-5)


def test_the_bundle_tells_the_number_of_its_parameters(run: Path, bundle: Bundle) -> None:
    encoder = CheckpointEncoder(load_checkpoint(run / "progressive" / "best.safetensors"))
    assert bundle.parameters == encoder.parameters == sum(p.numel() for p in Model(MODEL).parameters())


def test_the_bundle_holds_shared_numbers_once(bundle: Bundle) -> None:
    graphs = sum((bundle.root / f"{name}.onnx").stat().st_size for name in ("frame", "tile", "prefix", "region"))
    weights = (bundle.root / "weights.bin").stat().st_size
    parameters = sum(p.numel() for p in Model(MODEL).parameters())
    assert weights < 1.3 * 4 * parameters
    assert graphs < 2_000_000


def test_a_bundle_gives_back_the_weights_it_was_made_of(run: Path, bundle: Bundle) -> None:
    made_of = load_checkpoint(run / "progressive" / "best.safetensors")
    found = load_origin(bundle.root)
    assert found.fingerprint == made_of.fingerprint
    assert found.settings == made_of.settings
    for name, tensor in made_of.tensors.items():
        assert torch.equal(found.tensors[name], tensor), name


def test_training_starts_from_a_bundle(bundle: Bundle, tiny_dataset: Path, tmp_path: Path) -> None:
    settings = TrainSettings(model=MODEL, image=SHORT.model_copy(update={"steps": 1}), threads=1)
    best = train(settings, tiny_dataset, tmp_path / "run", ("image",), start=bundle.root)
    assert load_checkpoint(best).state["stage"] == "image"


def test_a_bundle_that_does_not_place_its_weights_is_no_start(bundle: Bundle, tmp_path: Path) -> None:
    shutil.copytree(bundle.root, tmp_path / "old")
    manifest = json.loads((tmp_path / "old" / "bundle.json").read_text())
    places = manifest.pop("weights")
    (tmp_path / "old" / "bundle.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="older version"):
        load_origin(tmp_path / "old")
    first, second, *_ = (name for name in places if name.endswith("attn.qkv.weight"))
    places[first], places[second] = places[second], places[first]
    (tmp_path / "old" / "bundle.json").write_text(json.dumps(manifest | {"weights": places}))
    with pytest.raises(CheckpointError, match="not those it names"):
        load_origin(tmp_path / "old")


def test_pictures_that_do_not_fit_a_bundle_are_refused(bundle: Bundle) -> None:
    for images in (np.zeros((1, 30, 64, 3), np.uint8), np.zeros((1, 32, 64, 3), np.float32)):
        with pytest.raises(ValueError, match="32 x 64"):
            bundle.encode_frames(images)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="1 to 8 frames"):
        bundle.encode_prefixes(np.zeros((1, 9, 32, 64, 3), np.uint8))


def test_a_damaged_bundle_is_a_clear_error(bundle: Bundle, tmp_path: Path) -> None:
    def copy(name: str) -> Path:
        shutil.copytree(bundle.root, tmp_path / name)
        return tmp_path / name

    with pytest.raises(BundleError, match="no bundle"):
        open_bundle(tmp_path)
    root = copy("a")
    (root / "weights.bin").write_bytes(b"x")
    with pytest.raises(BundleError, match="fingerprint"):
        open_bundle(root)
    root = copy("b")
    (root / "tile.onnx").unlink()
    with pytest.raises(BundleError, match=r"tile\.onnx"):
        open_bundle(root)
    root = copy("c")
    (root / "bundle.json").write_text("{}")
    with pytest.raises(BundleError, match="damaged"):
        open_bundle(root)


def test_encoding_needs_no_torch(bundle: Bundle) -> None:
    code = f"""
import sys
sys.modules["torch"] = None
import numpy as np
from x2localizer.encoders import open_bundle
bundle = open_bundle({str(bundle.root)!r})
print(bundle.encode_frames(np.zeros((2, 32, 64, 3), np.uint8)).shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(2, 16)"
