"""Training on a tiny data set: all stages, exact resume, clear failures, and the bundle at the end."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from x2localizer.config import (
    STAGES,
    BackboneSettings,
    DatasetSettings,
    ModelSettings,
    SplitSettings,
    StageSettings,
    TownSettings,
    TrainSettings,
    load_config,
    preset_names,
    validate,
)
from x2localizer.datasets.dataset import open_dataset
from x2localizer.datasets.tiles import cut_tiles
from x2localizer.datasets.town import make_dataset
from x2localizer.encoders import Bundle, open_bundle
from x2localizer.encoders.protocol import PARTS
from x2localizer.errors import BundleError, CheckpointError, ConfigError, DatasetError, UserError
from x2localizer.files import only_writer
from x2localizer.learn import frozen as frozen_codes
from x2localizer.learn import loop, score, stages
from x2localizer.learn.batches import Videos, ahead, rng_for
from x2localizer.learn.checkpoint import load_checkpoint, load_weights, restore, save_checkpoint
from x2localizer.learn.encoder import CheckpointEncoder
from x2localizer.learn.export import check_bundle, export_bundle
from x2localizer.learn.frozen import Frozen, freeze
from x2localizer.learn.gather import allowed_columns
from x2localizer.learn.loop import learning_rate, train
from x2localizer.learn.model import Model
from x2localizer.learn.objective import Losses, keep_loss
from x2localizer.learn.stages import image_codes

MODEL = ModelSettings(
    backbone=BackboneSettings(width=24, depth=2, heads=2, patch=16), frame_height=32, frame_width=64, tile_px=32,
    dim=16, adapter_ratio=0.5,
)  # fmt: skip
SHORT = StageSettings(steps=6, batch=4, lr=1e-3, warmup=2, evaluate_every=3, towns_per_batch=2)
SETTINGS = TrainSettings(
    model=MODEL, image=SHORT, full=SHORT, progressive=SHORT.model_copy(update={"augment": False}), threads=1
)


ABLATIONS = {
    "global only": ["objective.lambda_f={1=0, 2=0, 4=0, 8=0}"],
    "fine only": ["objective.lambda_g={1=0, 2=0, 4=0, 8=0}"],
    "symmetric": ["objective.lambda_f={1=1, 2=1, 4=1, 8=1}"],
    "no self-distillation": ["objective.eta_self=0"],
    "no teacher": ["objective.eta_teacher=0"],
}


@pytest.fixture(scope="module")
def run(tiny_dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of all stages."""
    out = tmp_path_factory.mktemp("run")
    train(SETTINGS, tiny_dataset, out)
    return out


@pytest.fixture(scope="module")
def bundle(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    out = tmp_path_factory.mktemp("bundle") / "tiny"
    return export_bundle(load_checkpoint(run / "progressive" / "best.safetensors"), out)[0]


def test_every_preset_is_valid() -> None:
    assert preset_names("train") == ["gama", "town", "town-deit", "town-quick"]
    for name in preset_names("train"):
        load_config(TrainSettings, "train", name)


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


def test_pictures_are_brought_to_the_size_of_the_model(tiny_dataset: Path) -> None:
    data = open_dataset(tiny_dataset)
    larger = Videos(data, "train", MODEL.model_copy(update={"frame_height": 48, "frame_width": 80, "tile_px": 16}))
    batch = larger.region_batch(rng_for(1, "full", 0), SHORT)
    assert batch.frames.shape[2:] == (3, 48, 80)
    assert batch.tiles.shape[2:] == (3, 16, 16)
    pairs = larger.pair_batch(rng_for(1, "image", 0), SHORT)
    assert (pairs.frames.shape[1:], pairs.tiles.shape[1:]) == ((3, 48, 80), (3, 16, 16))
    row = data.frames(data.videos("train")[0].video_id)[0]
    whole, small = data.picture(row.image), data.picture(row.image, (8, 16))
    blocks = whole.reshape(8, 4, 16, 4, 3).mean((1, 3))
    assert np.abs(blocks - small).mean() < 12


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


def test_only_the_first_process_computes_what_is_frozen(
    run: Path, tiny_dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = restore(load_checkpoint(run / "full" / "best.safetensors"))
    videos = Videos(open_dataset(tiny_dataset), "train", MODEL)
    rank, computed = 1, []

    def embed_regions(*arguments: Any) -> Any:
        computed.append(rank)
        return score.embed_regions(*arguments)

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


def test_tokens_of_regions_stay_on_the_cpu_until_a_batch_needs_them() -> None:
    frozen = Frozen(torch.zeros(9, 16, device="meta"), torch.zeros(9, 49, 16), torch.zeros(3, 16, device="meta"))
    batch = frozen.tokens_of(torch.tensor([4, 4, 1]))
    assert (batch.device.type, batch.shape) == ("meta", (3, 49, 16))


@pytest.mark.parametrize("name", ABLATIONS)
def test_every_ablation_is_a_config(name: str, run: Path, tiny_dataset: Path, tmp_path: Path) -> None:
    values = SETTINGS.model_dump(mode="json")
    (tmp_path / "base.toml").write_text(
        "\n".join(f"{section}.{key} = {json.dumps(value)}" for section in ("image", "full", "progressive")
                  for key, value in values[section].items())
    )  # fmt: skip
    whole = load_config(TrainSettings, "train", tmp_path / "base.toml", ABLATIONS[name])
    changed = SETTINGS.model_copy(update={"objective": whole.objective})
    assert changed != SETTINGS
    train(changed, tiny_dataset, tmp_path / "run", ("progressive",), start=run / "full" / "best.safetensors")
    ours = load_checkpoint(run / "progressive" / "last.safetensors").fingerprint
    assert load_checkpoint(tmp_path / "run" / "progressive" / "last.safetensors").fingerprint != ours


def test_several_processes_make_the_same_batches_in_order() -> None:
    alone, together = (list(ahead(lambda step: step * step, 3, 20, workers)) for workers in (0, 2))
    assert alone == together == [(step, step * step) for step in range(3, 20)]


@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be forked there")
def test_a_loader_that_dies_is_a_clear_error() -> None:
    with pytest.raises(DatasetError, match="No batch 3 came"):
        for step, _ in ahead(lambda step: step if step < 3 else os._exit(1), 3, 9):
            assert step < 3


def test_batches_repeat_and_overlapping_regions_are_no_negatives(tiny_dataset: Path) -> None:
    videos = Videos(open_dataset(tiny_dataset), "train", MODEL)
    a, b = (videos.region_batch(rng_for(1, "full", 5), SHORT) for _ in range(2))
    assert torch.equal(a.frames, b.frames)
    assert torch.equal(a.tiles, b.tiles)
    assert a.tiles.shape == (4, 49, 3, 32, 32)
    everything = range(len(videos.videos))
    allowed = allowed_columns(torch.from_numpy(videos.corner[videos.region_of, :2]), MODEL.region_tiles)
    for i in everything:
        for j in everything:
            p, q = videos.region_rows[videos.region_of[i]].region, videos.region_rows[videos.region_of[j]].region
            overlap = abs(p.x - q.x) < p.n and abs(p.y - q.y) < p.n
            assert bool(allowed[i, j]) == (i == j or not overlap)


def _with_keyframes(source: Path, target: Path, split: str, keyframes: int | None) -> Path:
    """A copy of a dataset whose clips of one split have other counts of keyframes, or are gone."""
    shutil.copytree(source, target)
    table = pq.read_table(target / "videos.parquet")
    rows = table.to_pylist()
    if keyframes is None:
        rows = [row for row in rows if row["split"] != split]
    for row in rows:
        if row["split"] == split and keyframes is not None:
            row["keyframes"] = keyframes
    pq.write_table(pa.Table.from_pylist(rows, table.schema), target / "videos.parquet")
    return target


@pytest.mark.parametrize(
    ("split", "keyframes", "told"),
    [
        ("val", None, r"has train: 6 of 6 clips, val: no clips\..*--val"),
        ("val", 5, r"val: 0 of 4 clips, the longest with 5 keyframes"),
        ("train", 7, r"train: 0 of 6 clips, the longest with 7 keyframes, val: 4 of 4 clips"),
    ],
)
def test_a_dataset_without_clips_to_judge_by_is_refused_at_once(
    split: str, keyframes: int | None, told: str, tiny_dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def heavy(*_: object) -> None:
        raise AssertionError("something heavy was started")

    monkeypatch.setattr(loop, "_launch", heavy)
    monkeypatch.setattr(loop, "Videos", heavy)
    data = _with_keyframes(tiny_dataset, tmp_path / "data", split, keyframes)
    with pytest.raises(DatasetError, match=told):
        train(SETTINGS, data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_validation_split_without_tiles_cannot_judge_stage_1(tiny_dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_dataset, tmp_path / "data")
    table = pq.read_table(tmp_path / "data" / "frames.parquet")
    rows = [{**row, "tile_path": "" if row["keyframe"] >= 0 else row["tile_path"]} for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), tmp_path / "data" / "frames.parquet")
    with pytest.raises(DatasetError, match=r"No keyframe in the split val.*--stages full,progressive"):
        train(SETTINGS, tmp_path / "data", tmp_path / "run")


def test_stage_3_augments_the_light_of_frames_and_nothing_else(tiny_dataset: Path) -> None:
    settings = SETTINGS.model_copy(update={"progressive": SHORT})
    videos = Videos(open_dataset(tiny_dataset), "train", MODEL)
    frozen = Frozen(torch.zeros(9, 16), torch.zeros(9, 49, 16), torch.zeros(len(videos.videos), 16))
    lit, plain = (
        stages.progressive_stage(chosen, videos, videos, frozen).draw(rng_for(1, "progressive", 0)).frames
        for chosen in (settings, SETTINGS)
    )
    assert lit.shape == plain.shape == (4, 8, 3, 32, 64)
    for ours, theirs in zip(lit, plain, strict=True):
        assert float((ours - theirs).abs().mean()) > 0.02, "another light"
        for channel in range(3):
            a, b, mirrored = ours[:, channel], theirs[:, channel], theirs[:, channel].flip(-1)
            same, turned = (torch.corrcoef(torch.stack([a.flatten(), x.flatten()]))[0, 1] for x in (b, mirrored))
            assert same > 0.98
            assert same > turned


def test_tiles_with_a_margin_are_cut_off_the_centre_in_training(tmp_path: Path) -> None:
    settings = DatasetSettings(
        town=TownSettings(tiles=16, pixels_per_tile=64), frame_height=32, frame_width=64, tile_px=32, tile_margin_px=8,
        train=SplitSettings(towns=1, grid=False, videos_per_town=4), val=SplitSettings(towns=0),
        test=SplitSettings(towns=0),
    )  # fmt: skip
    data = open_dataset(make_dataset(settings, tmp_path / "d", "made by a test", workers=1))
    key = data.keyframes(data.videos("train")[0].video_id)[0]
    wide = data.picture(key.tile)
    assert wide.shape == (48, 48, 3)
    np.testing.assert_array_equal(data.tile(key.tile), wide[8:40, 8:40])
    np.testing.assert_array_equal(data.tile(key.tile, 8, -8), wide[0:32, 16:48])
    with pytest.raises(ValueError, match="margin"):
        data.tile(key.tile, 9)
    videos = Videos(data, "train", MODEL)
    plain = SHORT.model_copy(update={"augment": False})
    assert videos.pair_batch(rng_for(1, "image", 0), SHORT).tiles.shape == (4, 3, 32, 32)
    a, b = (videos.pair_batch(rng_for(1, "image", 0), plain) for _ in range(2))
    assert torch.equal(a.tiles, b.tiles)
    still = videos.pair_batch(rng_for(1, "image", 0), SHORT.model_copy(update={"shift_tiles": False}))
    assert not torch.equal(still.tiles, videos.pair_batch(rng_for(1, "image", 0), SHORT).tiles)
    with pytest.raises(ConfigError, match="half of tile_px"):
        validate(DatasetSettings, {"tile_px": 32, "tile_margin_px": 20, "town": {"pixels_per_tile": 64}})


def test_tiles_are_cut_row_by_row() -> None:
    picture = np.zeros((6, 6, 3), np.uint8)
    picture[0:2, 4:6] = 9
    tiles = cut_tiles(picture, 3)
    assert tiles.shape == (9, 2, 2, 3)
    assert (tiles[2] == 9).all()
    assert tiles[[0, 1, 3, 4, 5, 6, 7, 8]].sum() == 0


def test_the_learning_rate_rises_and_falls() -> None:
    stage = StageSettings(steps=100, warmup=10, lr=1.0)
    rates = [learning_rate(stage, step) for step in range(100)]
    assert max(rates) == pytest.approx(1.0)
    assert int(np.argmax(rates)) in (9, 10)
    assert rates[0] == pytest.approx(0.1)
    assert rates[-1] < 0.02


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
    path.write_bytes(b"no")
    with pytest.raises(CheckpointError, match="damaged"):
        load_checkpoint(path)


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
