"""A new family is one file: found, configured, trained, exported and run without touching anything else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from x2localizer.config import ModelSettings, StageSettings, TrainSettings, load_config, validate
from x2localizer.datasets.dataset import open_dataset
from x2localizer.encoders import open_bundle
from x2localizer.encoders.protocol import PARTS
from x2localizer.errors import BundleError, CheckpointError, ConfigError
from x2localizer.learn import families
from x2localizer.learn.batches import Videos
from x2localizer.learn.bench_families import BASELINES
from x2localizer.learn.checkpoint import load_checkpoint, save_checkpoint
from x2localizer.learn.encoder import CheckpointEncoder
from x2localizer.learn.export import export_bundle
from x2localizer.learn.loop import train
from x2localizer.learn.model import Model

SIZES = {"frame_height": 32, "frame_width": 64, "tile_px": 32, "dim": 16}
SHORT = StageSettings(steps=4, batch=4, lr=1e-3, warmup=1, evaluate_every=2, towns_per_batch=2)
NO_TOKENS = {"lambda_f": dict.fromkeys((2, 4, 8), 0.0)}


@pytest.fixture(autouse=True)
def more_families(monkeypatch: pytest.MonkeyPatch) -> None:
    """Families from a folder of ours, as an installed package might add some."""
    folder = Path(__file__).parents[1] / "extensions" / "families"
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(folder)])


def _settings(family: str, **changes: object) -> TrainSettings:
    values: dict[str, object] = {
        "model": {"family": family, **SIZES}, "image": SHORT, "full": SHORT, "progressive": SHORT, "threads": 1,
    }  # fmt: skip
    return validate(TrainSettings, values | changes)


def test_families_are_found_by_their_files() -> None:
    assert families.families.names() == sorted(["deit", "headings", "toy-clip", "toy-cnn", *BASELINES])
    with pytest.raises(ConfigError, match="Did you mean 'toy-cnn'"):
        families.family_of(ModelSettings(family="toy-cmm"))


def test_options_are_checked_by_the_family() -> None:
    model = {"family": "toy-cnn", **SIZES}
    wide = validate(ModelSettings, {**model, "options": {"channels": 12}})
    assert sum(p.numel() for p in Model(wide).parameters()) > sum(
        p.numel() for p in Model(validate(ModelSettings, model)).parameters()
    )
    with pytest.raises(ConfigError, match=r"'toy-cnn'.*'chanels'.*Did you mean 'channels'"):
        Model(validate(ModelSettings, {**model, "options": {"chanels": 12}}))
    with pytest.raises(ConfigError, match="channels"):
        Model(validate(ModelSettings, {**model, "options": {"channels": 7}}))
    with pytest.raises(ConfigError, match=r"'deit'.*'width'"):
        Model(validate(ModelSettings, {"options": {"width": 7}}))
    with pytest.raises(ConfigError, match=r"model\.options\.channels"):
        validate(TrainSettings, {"model": {**model, "options": {"channels": [1]}}})


def test_configs_from_before_families_are_deit() -> None:
    old = ModelSettings().model_dump()
    del old["family"], old["options"]
    assert validate(ModelSettings, old) == ModelSettings()
    assert load_config(TrainSettings, "train", "gama").model.family == "deit"


def test_a_family_without_adapters_goes_through_all_stages_and_into_a_bundle(
    tiny_dataset: Path, tmp_path: Path
) -> None:
    best = train(_settings("toy-cnn"), tiny_dataset, tmp_path / "run")
    image, full, last = (
        load_checkpoint(tmp_path / "run" / f"{name}.safetensors").tensors
        for name in ("image/best", "full/best", "progressive/last")
    )
    assert all(not torch.equal(image[name], full[name]) for name in image), "without adapters the towers train"
    assert {name.split(".")[0] for name in full if not torch.equal(full[name], last[name])} == {"ground"}
    bundle, differences = export_bundle(load_checkpoint(best), tmp_path / "bundle")
    assert set(differences) == set(PARTS)
    videos = Videos(open_dataset(tiny_dataset), "test", bundle.model)
    frames, tiles = videos.frames(0, 8), videos.tiles(0)
    opened = open_bundle(tmp_path / "bundle")
    assert opened.spec == CheckpointEncoder(load_checkpoint(best)).spec
    codes, prefix = opened.encode_frames(frames), opened.encode_prefixes(frames[None, :3])
    assert codes.shape == (8, 16)
    np.testing.assert_allclose(prefix.tokens[0], codes[:3], atol=1e-5)
    region = opened.encode_regions(tiles[None])
    assert region.whole.shape == (1, 16)
    np.testing.assert_allclose(region.tokens[0], opened.encode_tiles(tiles), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(region.whole, axis=1), 1.0, atol=1e-5)


def test_a_video_network_trains_the_stages_it_can_and_says_what_it_cannot(tiny_dataset: Path, tmp_path: Path) -> None:
    settings = _settings("toy-clip", objective=NO_TOKENS, budgets=(2, 4, 8))
    best = train(settings, tiny_dataset, tmp_path / "run", ("full", "progressive"))
    found = load_checkpoint(best)
    assert set(found.state["metrics"]) == {"s_g@2", "s_g@4", "s_g@8"}
    bundle, differences = export_bundle(found, tmp_path / "bundle")
    assert set(differences) == {"prefix", "region"}
    assert not (bundle.root / "frame.onnx").exists()
    spec = open_bundle(bundle.root).spec
    assert (spec.parts, spec.tokens, spec.shortest_prefix) == (("prefix", "region"), False, 2)
    videos = Videos(open_dataset(tiny_dataset), "test", bundle.model)
    frames = videos.frames(0, 8)[None]
    assert bundle.encode_prefixes(frames).tokens.shape == (1, 0, 16)
    assert CheckpointEncoder(found).encode_prefixes(frames).tokens.shape == (1, 0, 16)
    assert bundle.encode_regions(videos.tiles(0)[None]).whole.shape == (1, 16)
    with pytest.raises(ValueError, match="2 to 8 frames, not 1"):
        bundle.encode_prefixes(frames[:, :1])
    with pytest.raises(BundleError, match="no graph 'frame'"):
        bundle.encode_frames(frames[0])


@pytest.mark.parametrize(
    ("changes", "stages", "told"),
    [
        ({}, ("image",), "has no image codes, so stage 'image'.*--stages full,progressive"),
        ({"objective": NO_TOKENS}, ("full", "progressive"), r"2 to 8 frames, but budgets has 1.*budgets=\[2, 4, 8\]"),
        ({"budgets": (2, 8)}, ("progressive",), r"no tokens.*objective\.lambda_f=\{2=0, 8=0\}"),
        ({"objective": {**NO_TOKENS, "eta_keep": 1}, "budgets": (2, 8)}, ("full",), "eta_keep"),
        ({"budgets": (2, 3)}, ("progressive",), r"objective\.gamma has no weight"),
        ({"model": {"family": "toy-clip", **SIZES, "frames": 1}}, ("full",), "at least 2 frames"),
    ],
)
def test_what_does_not_fit_a_family_is_refused_before_training(
    changes: dict[str, object], stages: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=told):
        train(_settings("toy-clip", **changes), tmp_path / "no-dataset", tmp_path / "run", stages)
    assert not (tmp_path / "run").exists()


def test_muon_needs_matrices_that_the_family_names(tiny_dataset: Path, tmp_path: Path) -> None:
    muon = SHORT.model_copy(update={"optimizer": "muon"})
    with pytest.raises(ConfigError, match="Muon"):
        train(_settings("toy-cnn", image=muon), tiny_dataset, tmp_path, ("image",))


def test_a_run_does_not_start_from_another_family(tiny_dataset: Path, tmp_path: Path) -> None:
    settings = _settings("toy-cnn")
    save_checkpoint(tmp_path / "c.safetensors", Model(settings.model), settings, {"stage": "image"})
    with pytest.raises(CheckpointError, match="family 'toy-cnn', not 'deit'"):
        train(_settings("deit"), tiny_dataset, tmp_path / "run", ("full",), start=tmp_path / "c.safetensors")


def test_a_network_that_fixes_its_batch_is_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _settings("toy-cnn")
    save_checkpoint(tmp_path / "c.safetensors", Model(settings.model), settings, {"stage": "image"})
    tower = families.family_of(settings.model)
    plain = tower.embed_images
    monkeypatch.setattr(tower, "embed_images", lambda self, images: plain(self, images).reshape(len(images), -1))
    with pytest.raises(CheckpointError, match=r"images\.shape\[0\]"):
        export_bundle(load_checkpoint(tmp_path / "c.safetensors"), tmp_path / "bundle")


def test_prefixes_of_a_set_network_are_encoded_length_by_length() -> None:
    model = Model(validate(ModelSettings, {"family": "toy-clip", **SIZES})).eval()
    videos = torch.randn(2, 8, 3, 32, 64)
    for length, found in model.prefixes(videos, [2, 8]).items():
        torch.testing.assert_close(found.whole, model.ground.embed_sets(videos[:, :length]).whole)


def test_prefixes_of_an_image_network_are_the_means_of_their_images() -> None:
    model = Model(validate(ModelSettings, {"family": "toy-cnn", **SIZES})).eval()
    videos = torch.randn(2, 8, 3, 32, 64)
    for length, found in model.prefixes(videos, [1, 3, 8]).items():
        alone = model.ground.embed_sets(videos[:, :length])
        torch.testing.assert_close(found.whole, alone.whole)
        torch.testing.assert_close(found.tokens, alone.tokens)


def test_codes_of_the_same_weights_at_another_size_have_another_name(tmp_path: Path) -> None:
    names = set()
    for height in (32, 48):
        settings = _settings("toy-cnn", model={"family": "toy-cnn", **SIZES, "frame_height": height})
        torch.manual_seed(0)
        save_checkpoint(tmp_path / f"{height}.safetensors", Model(settings.model), settings, {"stage": "image"})
        names.add(CheckpointEncoder(load_checkpoint(tmp_path / f"{height}.safetensors")).weights_of("frame"))
    assert len(names) == 2
