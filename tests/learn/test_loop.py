"""Training on a tiny dataset: all stages, exact resume, clear failures, baselines and ablations."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.small_model import MODEL, SETTINGS, SHORT
from x2localizer.config import (
    STAGES,
    StageSettings,
    TrainSettings,
    load_config,
)
from x2localizer.datasets.dataset import open_dataset
from x2localizer.errors import CheckpointError, ConfigError, UserError
from x2localizer.files import only_writer
from x2localizer.learn import stages
from x2localizer.learn.batches import Videos
from x2localizer.learn.checkpoint import load_checkpoint, load_weights, restore
from x2localizer.learn.loop import learning_rate, train
from x2localizer.learn.model import Model
from x2localizer.learn.objective import Losses, keep_loss
from x2localizer.learn.stages import image_codes, taught_codes

ABLATIONS = {
    "global only": ["objective.lambda_f={1=0, 2=0, 4=0, 8=0}"],
    "fine only": ["objective.lambda_g={1=0, 2=0, 4=0, 8=0}"],
    "symmetric": ["objective.lambda_f={1=1, 2=1, 4=1, 8=1}"],
    "no self-distillation": ["objective.eta_self=0"],
    "no teacher": ["objective.eta_teacher=0"],
}


def test_tokens_cannot_be_held_to_towers_that_train() -> None:
    with pytest.raises(ConfigError, match="eta_keep needs"):
        load_config(TrainSettings, "train", "town-deit", ["objective.eta_keep=1"])


def test_all_stages_run_and_leave_their_logs(run: Path) -> None:
    for stage in STAGES:
        with (run / stage / "log.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert [row["step"] for row in rows] == ["3", "6"]
        done = json.loads((run / stage / "done.json").read_text())
        assert done["stage"] == stage
        assert done["best"] >= 0


def test_each_stage_trains_what_it_should(run: Path) -> None:
    image, full, progressive = (load_checkpoint(run / s / "best.safetensors").tensors for s in STAGES)
    last_full = load_checkpoint(run / "full" / "last.safetensors").tensors
    moved = {name for name in image if not torch.equal(image[name], last_full[name])}
    assert moved
    assert all(".adapters." in name or "instance_embedding" in name for name in moved)
    last = load_checkpoint(run / "progressive" / "last.safetensors").tensors
    moved = {name for name in full if not torch.equal(full[name], last[name])}
    assert moved
    assert all(name.startswith("ground.") and ("adapters" in name or "instance" in name) for name in moved)
    assert progressive.keys() == image.keys()


def test_a_resumed_run_has_the_same_losses(run: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def stop_at_four(stage: str, step: int, steps: int, values: dict[str, float]) -> None:
        if stage == "full" and step == 4:
            raise StopError

    with pytest.raises(StopError):
        train(SETTINGS, tiny_dataset, tmp_path, report=stop_at_four)
    train(SETTINGS, tiny_dataset, tmp_path)
    for stage in STAGES:
        name = f"{stage}/last.safetensors"
        assert load_checkpoint(tmp_path / name).fingerprint == load_checkpoint(run / name).fingerprint
        whole, resumed = ((root / stage / "log.csv").read_text().splitlines() for root in (run, tmp_path))
        for a, b in zip(whole[1:], resumed[1:], strict=True):
            assert a.split(",")[2:] == b.split(",")[2:]  # all but the clock


def test_another_config_does_not_go_on_with_a_run(run: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "progressive" / "done.json").unlink()
    other = SETTINGS.model_copy(update={"seed": 7})
    with pytest.raises(CheckpointError, match="another config"):
        train(other, tiny_dataset, tmp_path / "run")


def test_two_processes_cannot_train_into_one_folder(tiny_dataset: Path, tmp_path: Path) -> None:
    with only_writer(tmp_path), pytest.raises(UserError, match="Another process is writing"):
        train(SETTINGS, tiny_dataset, tmp_path)


def test_a_run_may_go_on_longer(run: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "image", tmp_path / "image")
    (tmp_path / "image" / "done.json").unlink()
    longer = SETTINGS.model_copy(update={"image": SHORT.model_copy(update={"steps": 9})})
    train(longer, tiny_dataset, tmp_path, ("image",))
    assert load_checkpoint(tmp_path / "image" / "last.safetensors").state["step"] == 9


def test_a_loss_that_is_no_number_stops_and_names_it(
    run: Path, tiny_dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def broken(*_: object, **__: object) -> Losses:
        nonlocal calls
        calls += 1
        value = torch.tensor(float("nan") if calls > 3 else 1.0, requires_grad=True)
        return Losses(value, {"teacher": value})

    shutil.copytree(run / "image", tmp_path / "image")
    shutil.copytree(run / "full", tmp_path / "full")
    monkeypatch.setattr(stages, "total_loss", broken)
    with pytest.raises(UserError, match=r"'teacher' is nan in batch 3"):
        train(SETTINGS, tiny_dataset, tmp_path)
    assert load_checkpoint(tmp_path / "progressive" / "last.safetensors").state["step"] == 3


def test_a_full_disk_stops_a_run_and_keeps_what_was_good(run: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(run / "image", out / "image")
    (out / "image" / "done.json").unlink()
    before = (out / "image" / "best.safetensors").read_bytes()
    settings = tmp_path / "settings.json"
    longer = SETTINGS.image.model_copy(update={"evaluate_every": 1})
    settings.write_text(SETTINGS.model_copy(update={"full": longer}).model_dump_json())
    code = f"""
import resource, signal, sys
from pathlib import Path
from typing import Any
from x2localizer.config import TrainSettings
from x2localizer.learn.loop import train
settings = TrainSettings.model_validate_json(Path({str(settings)!r}).read_text())
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

def fill_up(*_):  # a limit on file sizes stands in for the full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

sys.argv = ["x2l"]
from x2localizer import cli
cli.app = lambda **_: train(settings, Path({str(tiny_dataset)!r}), Path({str(out)!r}), ("full",), fill_up,
                            Path({str(run / "image" / "best.safetensors")!r}))
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "Cannot write" in done.stderr
    assert "Free some space" in done.stderr
    assert "Traceback" not in done.stderr
    assert (out / "image" / "best.safetensors").read_bytes() == before
    assert not list((out / "full").glob("*.safetensors"))
    assert not list((out / "full").glob(".*"))


def test_a_run_starts_from_another_runs_stage(run: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    start = run / "full" / "best.safetensors"
    best = train(SETTINGS, tiny_dataset, tmp_path / "same", ("progressive",), start=start)
    same = load_checkpoint(run / "progressive" / "last.safetensors")
    assert load_checkpoint(tmp_path / "same" / "progressive" / "last.safetensors").fingerprint == same.fingerprint
    assert best == tmp_path / "same" / "progressive" / "best.safetensors"
    assert not (tmp_path / "same" / "full").exists()
    assert len(list((run / "full").glob("frozen-*.safetensors"))) == 1, "what is frozen is computed once"


def test_stage_1_learns_the_codes_of_a_teacher(run: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    steps = SHORT.model_copy(update={"steps": 60, "evaluate_every": 60, "augment": False})
    small = MODEL.model_copy(update={"tile_px": 16, "frame_height": 16, "frame_width": 32})
    teacher = restore(load_checkpoint(run / "image" / "best.safetensors"))
    videos = Videos(open_dataset(tiny_dataset), "val", small)
    frames, tiles = (torch.rand(6, 3, *size) for size in ((16, 32), (16, 16)))
    wanted = taught_codes(teacher, frames, tiles)
    assert wanted[0].shape == (6, MODEL.dim)
    away = []
    for named in ("", str(run / "image" / "best.safetensors")):
        settings = SETTINGS.model_copy(update={"model": small, "image": steps, "image_teacher": named, "seed": 5})
        out = tmp_path / ("taught" if named else "alone")
        student = restore(load_checkpoint(train(settings, tiny_dataset, out, ("image",))))
        batch = videos.pair_batch(np.random.default_rng(0), steps)
        codes, taught = student.pairs(batch.frames, batch.tiles), taught_codes(teacher, batch.frames, batch.tiles)
        away.append(sum(float(1 - (a * b).sum(-1).mean().detach()) for a, b in zip(codes, taught, strict=True)))
    assert away[1] < 0.5 * away[0]


def test_a_teacher_with_other_codes_is_refused(run: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    other = SETTINGS.model_copy(
        update={
            "model": MODEL.model_copy(update={"dim": MODEL.dim * 2}),
            "image_teacher": str(run / "image" / "best.safetensors"),
        }
    )
    with pytest.raises(ConfigError, match=rf"another shape.*model\.dim={MODEL.dim}"):
        train(other, tiny_dataset, tmp_path / "run", ("image",))


def test_the_baselines_without_adapters_go_through_the_stages(run: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    deit = SETTINGS.model_copy(update={"model": MODEL.model_copy(update={"adapters": False})})
    train(deit, tiny_dataset, tmp_path, ("full", "progressive"), start=run / "image" / "best.safetensors")
    image, full, last = (
        load_checkpoint(path).tensors
        for path in (
            run / "image" / "best.safetensors", tmp_path / "full" / "best.safetensors",
            tmp_path / "progressive" / "last.safetensors",
        )
    )  # fmt: skip
    assert all(not torch.equal(image[name], full[name]) for name in full if name.endswith("mlp.fc1.weight"))
    moved = {name.split(".")[0] for name in full if not torch.equal(full[name], last[name])}
    assert moved == {"ground"}
    with pytest.raises(CheckpointError, match="unknown"):
        train(deit, tiny_dataset, tmp_path / "no", ("full",), start=run / "full" / "best.safetensors")


@pytest.mark.parametrize("name", ABLATIONS)
def test_every_ablation_is_a_config(name: str, run: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    values = SETTINGS.model_dump(mode="json")
    (tmp_path / "base.toml").write_text(
        "\n".join(f"{section}.{key} = {json.dumps(value)}" for section in ("image", "full", "progressive")
                  for key, value in values[section].items() if value is not None)
    )  # fmt: skip
    whole = load_config(TrainSettings, "train", tmp_path / "base.toml", ABLATIONS[name])
    changed = SETTINGS.model_copy(update={"objective": whole.objective})
    assert changed != SETTINGS
    train(changed, tiny_dataset, tmp_path / "run", ("progressive",), start=run / "full" / "best.safetensors")
    ours = load_checkpoint(run / "progressive" / "last.safetensors").fingerprint
    assert load_checkpoint(tmp_path / "run" / "progressive" / "last.safetensors").fingerprint != ours


def test_the_learning_rate_rises_and_falls() -> None:
    stage = StageSettings(steps=100, warmup=10, lr=1.0)
    rates = [learning_rate(stage, step) for step in range(100)]
    assert max(rates) == pytest.approx(1.0)
    assert int(np.argmax(rates)) in (9, 10)
    assert rates[0] == pytest.approx(0.1)
    assert rates[-1] < 0.02


def test_objectives_beyond_the_paper_train(run: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    everywhere = dict.fromkeys((1, 2, 4, 8), 1.0)
    changed = SETTINGS.objective.model_copy(update={"fine": "s_best", "lambda_f": everywhere, "eta_keep": 5.0})
    settings = SETTINGS.model_copy(update={"objective": changed})
    train(settings, tiny_dataset, tmp_path, ("full", "progressive"), start=run / "image" / "best.safetensors")
    turned = []
    for folder in (tmp_path, run):
        model = Model(MODEL).eval()
        load_weights(model, load_checkpoint(folder / "full" / "last.safetensors").tensors)
        size = (2, MODEL.region_tiles**2, 3, MODEL.tile_px, MODEL.tile_px)
        tiles = torch.rand(size, generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            turned.append(float(keep_loss(model.regions(tiles).tokens, image_codes(model.aerial, tiles))))
    assert turned[0] < turned[1], "tokens that are held turn less"
