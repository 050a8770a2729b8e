"""The paper's other rows as families: sizes, gradients, prefixes of any length, weights from files, bundles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from helpers.command_line import x2l
from x2localizer.config import ModelSettings, StageSettings, TrainSettings, load_config, validate
from x2localizer.datasets.dataset import open_dataset
from x2localizer.encoders import open_bundle
from x2localizer.errors import BundleError, CheckpointError, ConfigError, UserError
from x2localizer.learn.batches import Videos
from x2localizer.learn.bench_families import BASELINES, bench_families, bench_family
from x2localizer.learn.checkpoint import load_checkpoint, restore, save_checkpoint
from x2localizer.learn.encoder import CheckpointEncoder
from x2localizer.learn.export import export_bundle
from x2localizer.learn.families.timesformer import resample_positions
from x2localizer.learn.model import Model
from x2localizer.learn.objective import soft_margin_loss
from x2localizer.learn.optimizer import build_optimizer
from x2localizer.learn.pictures import region_picture, stretch
from x2localizer.learn.score import best_heading_similarity

SIZES = {"frame_height": 32, "frame_width": 64, "tile_px": 16, "dim": 16, "adapters": False}
TINY: dict[str, dict[str, Any]] = {
    "timesformer": {"width": 24, "depth": 2, "heads": 2},
    "videoswin": {"patch": 8, "window": 2, "width": 12, "depths": "1,1", "heads": "1,2"},
    "cvlnet": {"width": 8, "channels": 4, "cells": 16, "cell_m": 25.0},
    "screening": {"width": 16, "norm": "group"},
    "seqgeo": {"width": 8, "masks": 2, "layers": 1, "heads": 2},
    "gamanet": {"width": 16, "clip": 2, "norm": "group"},
    "dsm": {"width": 8, "channels": 2},
    "l2ltr": {"polar_height": 32, "polar_width": 64, "stages": "1,1", "stem": 32, "width": 24, "depth": 2, "heads": 2},
}
SETS = ("timesformer", "videoswin", "cvlnet", "screening", "seqgeo")
PAPER_M = {"timesformer": 243, "videoswin": 175, "cvlnet": 17, "screening": 23, "gamanet": 49, "dsm": 18, "l2ltr": 196}
"""Millions of parameters in the paper's tables 1 and 2."""


def settings_of(family: str, **changes: Any) -> ModelSettings:
    sizes = {**SIZES, **({"dim": 64} if family == "dsm" else {})}
    return validate(ModelSettings, {"family": family, **sizes, "options": TINY[family], **changes})


def model_of(family: str) -> Model:
    torch.manual_seed(0)
    return Model(settings_of(family))


def videos_of(b: int = 2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Frames, tiles, and the poses of cars that drive ahead in a bend."""
    step = torch.arange(8.0)
    poses = torch.stack([step**2, 30 * step, 0.1 * step], -1).repeat(b, 1, 1)
    return torch.randn(b, 8, 3, 32, 64), torch.randn(b, 49, 3, 16, 16), poses


@pytest.mark.parametrize("family", PAPER_M)
def test_presets_have_the_size_of_the_paper(family: str) -> None:
    assert abs(_millions(family) / PAPER_M[family] - 1) < 0.05


def test_gama_with_screening_has_the_size_of_the_paper() -> None:
    assert abs((_millions("screening") + _millions("gamanet")) / 72 - 1) < 0.05


@pytest.mark.parametrize("family", ["screening", "gamanet", "dsm", "cvlnet"])
def test_weights_that_lie_channels_last_compute_and_are_stored_as_before(family: str, tmp_path: Path) -> None:
    plain, arranged = model_of(family), model_of(family)
    arranged.arrange()
    moved = [p for p in arranged.parameters() if p.ndim >= 4 and not p.is_contiguous()]
    assert moved, "a network of convolutions has weights to move"
    frames, tiles, _ = videos_of()
    codes = []
    for model in (plain, arranged):
        out = model.pairs(frames[:, 0], tiles[:, 0])
        sum(code.square().sum() for code in out).backward()  # type: ignore[union-attr]
        codes.append([code.detach() for code in out])
    torch.testing.assert_close(codes[0], codes[1], atol=1e-5, rtol=1e-4)
    for ours, theirs in zip(plain.parameters(), arranged.parameters(), strict=True):
        if ours.grad is not None:
            torch.testing.assert_close(theirs.grad, ours.grad, atol=1e-4, rtol=1e-3)
    settings = TrainSettings(model=arranged.settings)
    stored = [save_checkpoint(tmp_path / f"{i}.safetensors", m, settings, {}) for i, m in enumerate((plain, arranged))]
    assert stored[0] == stored[1]


def test_muon_trains_convolutions_in_time_too() -> None:
    optimizer = build_optimizer(model_of("gamanet"), StageSettings(optimizer="muon"))
    by_muon = [p.ndim for group in optimizer.param_groups if group["muon"] for p in group["params"]]
    others = [
        p.shape[1] for group in optimizer.param_groups if not group["muon"] for p in group["params"] if p.ndim > 2
    ]
    assert {4, 5} <= set(by_muon)
    assert others and set(others) == {3}, "only the first layers, which see colours, are left to AdamW"


def _millions(family: str) -> float:
    with torch.device("meta"):
        model = Model(load_config(TrainSettings, "train", f"gama-{family}").model, pretrained=False)
    return sum(parameter.numel() for parameter in model.parameters()) / 1e6


@pytest.mark.parametrize("family", SETS)
def test_prefixes_of_any_length_and_regions_have_codes(family: str) -> None:
    model = model_of(family)
    frames, tiles, poses = videos_of()
    with torch.no_grad():
        for length, found in model.prefixes(frames, [1, 2, 4, 8], poses=poses).items():
            assert found.whole.shape == (2, 16), length
            assert found.tokens.shape == (2, 0, 16)
            torch.testing.assert_close(found.whole.norm(dim=-1), torch.ones(2))
        whole = model.regions(tiles).whole
    assert whole.shape == (2, 16)
    assert torch.isfinite(whole).all()
    assert not torch.allclose(whole[0], whole[1])


@pytest.mark.parametrize("family", [name for name in BASELINES if name not in SETS])
def test_frames_and_tiles_have_codes(family: str) -> None:
    model = model_of(family)
    frames, tiles, _ = videos_of()
    d, headings = model.settings.dim, model.capabilities.headings
    with torch.no_grad():
        seen, places = model.pairs(frames[:, 0], tiles[:, 0])
    assert seen.shape == (2, d)
    assert places.shape == ((2, headings, d) if headings > 1 else (2, d))
    torch.testing.assert_close(places.norm(dim=-1), torch.ones(places.shape[:-1]))
    assert best_heading_similarity(seen, places).shape == (2, 2)


@pytest.mark.parametrize("family", SETS)
def test_networks_for_regions_can_start_from_frame_tile_pairs(family: str) -> None:
    model = model_of(family)
    frames, tiles, _ = videos_of(3)
    seen, places = model.pairs(frames[:, 0], tiles[:, 0])
    assert seen.shape == places.shape
    torch.testing.assert_close(seen.norm(dim=-1), torch.ones(3))
    soft_margin_loss(seen @ places.t(), 0.05).backward()  # type: ignore[no-untyped-call]
    reached = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert all(name in reached for name, _ in model.named_parameters() if "backbone" in name or ".net." in name)


@pytest.mark.parametrize("family", BASELINES)
def test_gradients_reach_every_weight(family: str) -> None:
    model = model_of(family)
    frames, tiles, poses = videos_of(3)
    if family in SETS:
        scores = model.prefixes(frames, [8], poses=poses)[8].whole @ model.regions(tiles).whole.t()
    else:
        scores = best_heading_similarity(*model.pairs(frames[:, 0], tiles[:, 0]))
    soft_margin_loss(scores, 0.05).backward()  # type: ignore[no-untyped-call]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().max() > 0, name


def test_our_timesformer_equals_that_of_the_library() -> None:
    model: Any = Model(settings_of("timesformer", frame_width=32)).ground
    torch.nn.init.normal_(model.net.embeddings.time_embeddings, std=0.5)
    torch.nn.init.normal_(model.net.embeddings.position_embeddings, std=0.5)
    for layer in model.net.encoder.layer:
        torch.nn.init.normal_(layer.temporal_dense.weight, std=0.2)
    model.net.config.image_size = 32  # the library's own pass knows squares only
    frames = torch.randn(2, 8, 3, 32, 32)
    with torch.no_grad():
        theirs = model.head(model.net.eval()(frames).last_hidden_state[:, 0])
        ours = model.embed_sets(frames).whole
    torch.testing.assert_close(ours, F.normalize(theirs, dim=-1), atol=1e-5, rtol=1e-4)


def test_the_order_of_frames_counts_for_video_networks() -> None:
    frames, _, _ = videos_of()
    for family in ("videoswin", "seqgeo"):
        model = model_of(family).eval()
        with torch.no_grad():
            forth, back = model.prefixes(frames, [8])[8].whole, model.prefixes(frames.flip(1), [8])[8].whole
        assert not torch.allclose(forth, back, atol=1e-4), family


def test_a_region_is_put_together_from_its_tiles() -> None:
    tiles = torch.randn(2, 9, 3, 4, 4)
    picture = region_picture(tiles)
    for number in range(9):
        row, column = divmod(number, 3)
        part = picture[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
        assert torch.equal(part, tiles[:, number])


def test_a_short_prefix_is_stretched_in_its_order() -> None:
    frames = torch.arange(3.0).reshape(1, 3)
    assert stretch(frames, 8)[0].tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert torch.equal(stretch(frames, 3), frames)


def test_batch_norms_keep_their_statistics() -> None:
    model = Model(settings_of("screening", options={"width": 16, "norm": "batch"})).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.prefixes(videos_of()[0], [8])
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert any(name.endswith("running_mean") for name in before)


def test_backbones_start_from_files(tmp_path: Path) -> None:
    donor: Any = Model(settings_of("screening"))
    tensors = {name: 2 * tensor.contiguous() for name, tensor in donor.ground.backbone.state_dict().items()}
    save_file({**tensors, "fc.weight": torch.zeros(3, 3)}, tmp_path / "resnet.safetensors")
    options = {**TINY["screening"], "ground_weights": str(tmp_path / "resnet.safetensors")}
    model: Any = Model(settings_of("screening", options=options))
    for name, tensor in model.ground.backbone.state_dict().items():
        assert torch.equal(tensor, tensors[name]), name
    del tensors["conv1.weight"]
    save_file(tensors, tmp_path / "resnet.safetensors")
    with pytest.raises(CheckpointError, match=r"missing \['conv1.weight'\]"):
        Model(settings_of("screening", options=options))
    Model(settings_of("screening", options=options), pretrained=False)


def test_timesformer_fits_published_weights_to_other_sizes(tmp_path: Path) -> None:
    donor: Any = Model(settings_of("timesformer", frame_height=64)).ground  # 4 x 4 patches
    tensors = {f"timesformer.{name}": tensor.contiguous() for name, tensor in donor.net.state_dict().items()}
    save_file(tensors, tmp_path / "video.safetensors")
    weights = {
        "ground_weights": str(tmp_path / "video.safetensors"),
        "aerial_weights": str(tmp_path / "video.safetensors"),
    }
    model: Any = Model(settings_of("timesformer", frames=4, options={**TINY["timesformer"], **weights}))
    assert torch.equal(model.aerial.net.encoder.layer[0].attention.attention.qkv.weight,
                       donor.net.encoder.layer[0].attention.attention.qkv.weight)  # fmt: skip
    positions = donor.net.embeddings.position_embeddings
    torch.testing.assert_close(resample_positions(positions, (4, 4)), positions, atol=1e-5, rtol=1e-5)
    assert model.ground.net.embeddings.position_embeddings.shape[1] == 1 + 2 * 4


def test_dsm_says_how_long_its_codes_are() -> None:
    with pytest.raises(ConfigError, match=r"model\.dim=64"):
        Model(settings_of("dsm", dim=16))
    with pytest.raises(ConfigError, match=r"model\.frame_height to 32 times"):
        Model(settings_of("dsm", frame_height=48))


def test_dsm_finds_the_heading_of_a_view_cut_from_its_own_tile() -> None:
    model = model_of("dsm").eval()
    _, tiles, _ = videos_of()
    with torch.no_grad():
        codes = model.aerial(tiles[:, 0])  # (2, 8, d)
        turned = model.aerial(torch.rot90(tiles[:, 0], 1, (2, 3)))  # a quarter to the left
    shifted = torch.roll(turned, 2, 1)  # what was east is north
    inner = (codes * shifted).sum(-1)
    assert (inner > 0.9).all()


def test_cvlnet_needs_poses_and_uses_them() -> None:
    model = model_of("cvlnet").eval()
    frames, _, poses = videos_of()
    with pytest.raises(UserError, match="how the camera moved"):
        model.prefixes(frames, [8])
    with torch.no_grad():
        bend = model.prefixes(frames, [8], poses=poses)[8].whole
        straight = model.prefixes(frames, [8], poses=poses * torch.tensor([0.0, 1.0, 0.0]))[8].whole
    assert not torch.allclose(bend, straight, atol=1e-4)


@pytest.mark.parametrize("family", BASELINES)
def test_checkpoints_come_back_as_they_were(family: str, tmp_path: Path) -> None:
    model = model_of(family).eval()
    settings = TrainSettings(model=model.settings)
    save_checkpoint(tmp_path / "c.safetensors", model, settings, {"stage": "full" if family in SETS else "image"})
    found = load_checkpoint(tmp_path / "c.safetensors")
    for name, tensor in restore(found).state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name])
    spec = CheckpointEncoder(found).spec
    assert (spec.parts, spec.whole_regions) == (model.capabilities.parts, model.capabilities.whole_regions)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["cvlnet", "dsm"])
def test_bundles_equal_torch(family: str, tmp_path: Path) -> None:
    model = model_of(family).eval()
    save_checkpoint(tmp_path / "c.safetensors", model, TrainSettings(model=model.settings), {"stage": "full"})
    bundle, differences = export_bundle(load_checkpoint(tmp_path / "c.safetensors"), tmp_path / "bundle")
    assert set(differences) == set(model.capabilities.parts)
    assert open_bundle(tmp_path / "bundle").spec == bundle.spec
    if family != "cvlnet":
        return
    frames = np.zeros((1, 5, 32, 64, 3), np.uint8)
    assert bundle.encode_posed_prefixes(frames, np.zeros((1, 5, 3))).whole.shape == (1, 16)
    with pytest.raises(BundleError, match="how the camera moved"):
        bundle.encode_prefixes(frames)
    with pytest.raises(ValueError, match="has 49 tiles, not 48"):
        bundle.encode_regions(np.zeros((1, 48, 16, 16, 3), np.uint8))


def _preset(path: Path, family: str, *stages: str) -> Path:
    """A preset of a tiny baseline, as a file."""
    m = settings_of(family)
    options = "\n".join(f"{key} = {json.dumps(value)}" for key, value in TINY[family].items())
    path.write_text(
        f'threads = 1\n[model]\nfamily = "{family}"\nframe_height = {m.frame_height}\nframe_width = {m.frame_width}\n'
        f"tile_px = {m.tile_px}\ndim = {m.dim}\nadapters = false\n[model.options]\n{options}\n"
        + "".join(f"[{s}]\nsteps = 3\nbatch = 4\nwarmup = 1\nevaluate_every = 3\ntowns_per_batch = 2\n" for s in stages)
    )
    return path


def test_two_baselines_train_and_are_measured_from_the_command_line(tiny_dataset: Path, tmp_path: Path) -> None:
    data, work, runs = str(tiny_dataset), str(tmp_path / "work"), {}
    for family, *stages in (("cvlnet", "image", "full"), ("dsm", "image")):
        preset, runs[family] = str(_preset(tmp_path / f"{family}.toml", family, *stages)), str(tmp_path / family)
        for stage in stages:  # as one run that was stopped between them
            x2l("train", "--preset", preset, "--data", data, "--out", runs[family], "--stages", stage)
    pairs, full = (load_checkpoint(tmp_path / "cvlnet" / s / "best.safetensors").tensors for s in ("image", "full"))
    moved = max(float((full[name] - pairs[name]).abs().max()) for name in pairs if "backbone" in name)
    assert 0 < moved < 0.05, "the second stage starts from the first"
    text = x2l("evaluate", runs["cvlnet"], "--data", data, "--out", str(tmp_path / "coarse"), "--work", work)
    assert "CVLNet" in text
    rows = json.loads((tmp_path / "coarse" / "results.json").read_text())["rows"]
    assert {(row["similarity"], row["budget"]) for row in rows} == {("s_g", budget) for budget in (1, 2, 4, 8)}
    both = f"{runs['cvlnet']}+{runs['dsm']}"
    fine = ["--protocol", "fine", "--data", data, "--out", str(tmp_path / "fine"), "--work", work]
    assert "Shi et al. (DSM)" in x2l("evaluate", runs["dsm"], both, *fine)
    rows = json.loads((tmp_path / "fine" / "results.json").read_text())["rows"]
    alone = [row for row in rows if row["refresh"] == "all regions"]
    assert len(alone) == 1
    assert alone[0]["gate"] == 100.0
    assert {row["model"] for row in rows} == {"Shi et al. (DSM)", "CVLNet + Shi et al. (DSM)"}
    sizes = {row["model"]: row["params_m"] for row in rows}
    assert sizes["CVLNet + Shi et al. (DSM)"] > sizes["Shi et al. (DSM)"] > 0


def test_poses_of_a_dataset_follow_its_drives(tiny_dataset: Path) -> None:
    videos = Videos(open_dataset(tiny_dataset), "train", ModelSettings())
    poses = videos.poses(0, 8)
    assert poses[0].tolist() == [0.0, 0.0, 0.0]
    assert np.linalg.norm(np.diff(poses[:, :2], axis=0), axis=1).max() < 5 * 45.0


def test_the_bench_measures_a_step_and_resumes(tmp_path: Path) -> None:
    row = bench_family("town-cvlnet")
    assert row["stage"] == "full"
    assert np.isfinite(row["loss"])
    assert row["encode_ms"] > 0
    counts = bench_families(["town-cvlnet"], counted=True)["town-cvlnet"]
    assert counts == {name: row[name] for name in counts}
    assert counts["gflops_preset_step"] == pytest.approx(12 * counts["gflops_step"])
    (tmp_path / "done.json").write_text(json.dumps({"rows": {"town-cvlnet": row}}))
    assert bench_families(["town-cvlnet"], out=tmp_path / "done.json") == {"town-cvlnet": row}
    with pytest.raises(ConfigError, match="Did you mean 'town-cvlnet'"):
        bench_families(["town-cvlnte"])
    own = bench_families(["town-cvlnet"], batch=0, counted=True)["town-cvlnet"]
    assert own["batch"] == 24
    assert own["gflops_step"] == counts["gflops_preset_step"]
