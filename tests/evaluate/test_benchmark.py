"""The benchmark's plan and page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from x2localizer.cli import app
from x2localizer.config import STAGES, TrainSettings, load_config
from x2localizer.encoders import Bundle
from x2localizer.errors import UserError
from x2localizer.evaluate.benchmark import measure_candidates, qualitative, take_stage_1, train_missing
from x2localizer.evaluate.completed import completed, kept_text
from x2localizer.evaluate.page import page_of
from x2localizer.evaluate.plan import (
    PLAN,
    SEEDS,
    STAGE_1,
    VARIANT_ORDER,
    VARIANTS,
    Planned,
    missing,
    planned_as,
    table_of,
)
from x2localizer.evaluate.seeds import STAGE_OF, Hits, checkpoint_of, measure_seeds, seed_claims, seed_rows
from x2localizer.metrics import bootstrap_interval, nested_interval
from x2localizer.show.plots import save_heatmaps
from x2localizer.types import Floats


def test_every_planned_run_has_a_valid_config_and_a_folder_of_its_own() -> None:
    assert len({planned.name for planned in PLAN}) == len(PLAN)
    settings = [load_config(TrainSettings, "train", planned.preset, list(planned.overrides)) for planned in PLAN]
    objectives = [one.objective.model_dump_json() for one in settings[-len(VARIANTS) :]]
    assert len(set(objectives)) == len(VARIANTS)
    made = {f"{planned.name}/{stage}/best.safetensors" for planned in PLAN for stage in planned.stages}
    assert all(planned.start is None or planned.start in made for planned in PLAN)


def test_what_is_trained_is_not_missing(tmp_path: Path) -> None:
    assert missing(tmp_path) == list(PLAN)
    (tmp_path / PLAN[0].last).parent.mkdir(parents=True)
    (tmp_path / PLAN[0].last).write_text("{}")
    assert missing(tmp_path) == list(PLAN[1:])
    run = CliRunner().invoke(app, ["benchmark", "town", "--dry", "--runs", str(tmp_path)])
    assert len(run.output.strip().splitlines()) == len(PLAN) - 1
    assert "--stages progressive" in run.output
    assert "--set objective.eta_self=0" in run.output
    assert "--set 'objective.lambda_f={1=0, 2=0, 4=0, 8=0}'" in run.output


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A preset that trains in no time."""
    path = tmp_path / "small.toml"
    stage = "steps = 2\nbatch = 4\nwarmup = 1\nevaluate_every = 2\ntowns_per_batch = 2\n"
    path.write_text(
        "threads = 1\n[model]\nframe_height = 32\nframe_width = 64\ntile_px = 32\ndim = 16\nadapter_ratio = 0.5\n"
        "[model.backbone]\nwidth = 24\ndepth = 2\nheads = 2\n"
        f"[image]\n{stage}[full]\n{stage}[progressive]\naugment = false\n{stage}"
    )
    return path


@pytest.mark.torch
def test_the_command_measures_what_is_missing_and_writes_the_page(
    tiny_dataset: Path, small: Path, tmp_path: Path
) -> None:
    runs, results = tmp_path / "runs", tmp_path / "docs" / "results"
    stage_2 = "town/full/best.safetensors"
    other = Planned("town-symmetric", str(small), ("progressive",), stage_2, ("objective.tau_c=0.1",))
    plan = (
        Planned("town", str(small), STAGES), other,
        Planned("town-reference", str(small), ("progressive",), stage_2),
    )  # fmt: skip
    train_missing(tiny_dataset, runs, plan)
    (results / "long-range").mkdir(parents=True)
    long_range = {"machine": "m", "date": "d", "rows": [], "gains": {}, "curves": {}, "reliability": []}
    (results / "long-range" / "results.json").write_text(json.dumps(long_range))
    (results / "tracking").mkdir()
    tracking = {"machine": "m", "date": "d", "rides": 0, "foreign_rides": 0, "rows": []}
    (results / "tracking" / "results.json").write_text(json.dumps(tracking))
    words = ["benchmark", "town", "--no-train", "--data", str(tiny_dataset), "--runs", str(runs)]
    words += ["--out", str(tmp_path / "docs"), "--work", str(tmp_path / "work")]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, (run.output, run.exception)
    assert "long-range: measured already" in run.output
    made = {path.parent.name for path in results.glob("*/results.json")}
    assert made == {
        "coarse", "fine", "random-start", "ablations", "candidates", "heatmaps", "long-range", "long-range-dataset",
        "tracking", "seeds",
    }  # fmt: skip
    rows = json.loads((results / "ablations" / "results.json").read_text())["rows"]
    assert {row["run"] for row in rows} == {"the paper's objective", "without it: stage 2 alone", "symmetric"}
    assert {row["run"] for row in rows if row["gained"] is None} == {"the paper's objective"}
    assert all(low <= mean <= high for mean, low, high in (row["gained"] for row in rows if row["gained"]))
    page = (tmp_path / "docs" / "benchmark.md").read_text()
    assert page == page_of(results)
    assert "| symmetric |" in page
    again = CliRunner().invoke(app, [*words, "--again", "heatmaps"])
    assert again.output.count("measured already") == 9
    seeds = json.loads((results / "seeds" / "results.json").read_text())
    assert {row["model"] for row in seeds["rows"]} == {"X²Localizer"}
    assert "DeiT* with seed 44" in seeds["untrained"]
    # Another seed, measured on another day without the first: both count.
    (runs / "town").rename(runs / "town-seed-43")
    later = measure_seeds(tiny_dataset, "test", runs, tmp_path / "work", lambda what, done, total: None, seeds)
    assert later is not None
    assert {tuple(row["seeds"]) for row in later["rows"]} == {(42, 43)}
    assert later["rows"][0]["mean"] == seeds["rows"][0]["mean"], "the same weights"
    elsewhere = {**seeds, "clips": "others"}
    alone = measure_seeds(tiny_dataset, "test", runs, tmp_path / "work", lambda what, done, total: None, elsewhere)
    assert alone is not None
    assert {tuple(row["seeds"]) for row in alone["rows"]} == {(43,)}
    (runs / "town-seed-43").rename(runs / "town")
    assert "Not trained: X²Localizer with seed 43" in page
    assert "Not trained: global only" in page
    wrong = CliRunner().invoke(app, [*words, "--again", "everything"])
    assert "no table everything" in str(wrong.exception)


@pytest.mark.torch
def test_missing_runs_are_trained_and_go_on_from_each_other(tiny_dataset: Path, small: Path, tmp_path: Path) -> None:
    plan = (
        Planned("a", str(small), ("image", "full")),
        Planned("b", str(small), ("progressive",), "a/full/best.safetensors", ("objective.eta_self=0",)),
        Planned("c", str(small), ("image",), teacher="a/image/best.safetensors"),
    )
    assert plan[2].command("data", "runs").endswith("--set image_teacher=runs/a/image/best.safetensors")
    assert plan[0].command("data", "runs", ["seed=7"]).endswith("--set seed=7")
    with pytest.raises(UserError, match=r"c starts from .*--only a"):
        train_missing(tiny_dataset, tmp_path, plan[2:])
    said: list[str] = []
    train_missing(tiny_dataset, tmp_path, plan, said.append)
    assert missing(tmp_path, plan) == []
    assert any(line.startswith("b: progressive 2 of 2") for line in said)
    train_missing(tiny_dataset, tmp_path, plan, lambda _: pytest.fail("it was trained already"))
    (tmp_path / plan[0].last).unlink()
    (left,) = missing(tmp_path, plan)
    assert (left.stages, left.start) == (("full",), "a/image/best.safetensors")
    train_missing(tiny_dataset, tmp_path, plan)
    assert missing(tmp_path, plan) == []


@pytest.mark.torch
def test_stage_1_is_taken_from_a_bundle(tmp_path: Path) -> None:
    from x2localizer.learn.bundle_weights import load_origin
    from x2localizer.learn.checkpoint import load_checkpoint

    words = ["benchmark", "town", "--dry", "--from-bundle", "--runs", str(tmp_path)]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, run.exception
    assert "town-centred" not in run.output, "the first part of stage 1 is not needed either"
    first = run.output.splitlines()[0]
    assert f"--stages full,progressive --start {tmp_path / STAGE_1}" in first
    assert "image." not in first.replace(STAGE_1, ""), "settings of a stage that is there"
    assert not any(tmp_path.iterdir()), "a dry run writes nothing"
    take_stage_1("town", tmp_path)
    assert CliRunner().invoke(app, [word for word in words if word != "--from-bundle"]).output == run.output
    taken, bundle = load_checkpoint(tmp_path / STAGE_1), load_origin(Path("town"))
    assert taken.state["stage"] == "image"
    towers = [name for name in bundle.tensors if ".backbone." in name]
    assert all(taken.tensors[name].equal(bundle.tensors[name]) for name in towers)
    adapter = "ground.adapters.0.D_fc2.weight"
    assert not taken.tensors[adapter].any() and bundle.tensors[adapter].any(), "adapters start as if never trained"
    (tmp_path / STAGE_1).unlink()
    take_stage_1("town", tmp_path)
    assert not (tmp_path / STAGE_1).exists(), "what is done is not done again"


def test_rows_that_were_measured_before_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    head = {"split": "test", "clips": "a", "date": "2026-01-01", "machine": "m"}

    def row(run: str, model: str, r1: float) -> dict[str, object]:
        return {"run": run, "model": model, "r1": r1}

    old = {**head, "rows": [row("x", "X", 1.0), row("y", "Y", 2.0)], "claims": ["older"]}
    path.write_text(json.dumps(old))
    new = {**head, "date": "2026-02-02", "rows": [row("z", "Z", 3.0), row("x", "X", 4.0)], "claims": []}
    values = completed(new, path, ["x", "y", "z"])
    assert [(r["run"], r["r1"]) for r in values["rows"]] == [("x", 4.0), ("y", 2.0), ("z", 3.0)]
    assert values["claims"] == ["older"]
    assert values["measured"] == {"Y of y": ["2026-01-01", "m"]}
    assert "Y of y on 2026-01-01 (m)" in kept_text(values)
    path.write_text(json.dumps(values))
    later = completed({**head, "date": "2026-03-03", "rows": [row("x", "X", 5.0)]}, path, ["x", "y", "z"])
    assert later["measured"] == {"Y of y": ["2026-01-01", "m"], "Z of z": ["2026-02-02", "m"]}, "with their own days"
    for other in ({**new, "clips": "b"}, {**new, "split": "val"}, {**new, "clips": None}):
        assert completed(other, path, []) == other, "another question"
    assert completed(new, tmp_path / "none.json", []) == new
    assert kept_text(new) == ""


@pytest.mark.torch
def test_one_run_at_a_time(tiny_dataset: Path, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, results = tmp_path / "runs", tmp_path / "docs" / "results"
    stage_2 = "town/full/best.safetensors"

    def own(planned: Planned) -> tuple[str, ...]:
        return tuple(item for item in planned.overrides if item.startswith("objective."))

    short = {
        name: Planned(planned.name, str(small), ("progressive",), stage_2, own(planned))
        for name, planned in VARIANTS.items()
    }
    monkeypatch.setattr("x2localizer.evaluate.plan.VARIANTS", short)
    words = ["benchmark", "town", "--data", str(tiny_dataset), "--runs", str(runs), "--out", str(tmp_path / "docs")]
    words += ["--work", str(tmp_path / "work"), "--only", "tau_f 0.005"]
    early = CliRunner().invoke(app, words)
    assert "starts from" in str(early.exception)
    assert "--only town" in str(early.exception.remedy)  # type: ignore[union-attr]
    train_missing(tiny_dataset, runs, (Planned("town", str(small), STAGES), short["the paper's objective"]))
    assert "minutes" in CliRunner().invoke(app, [*words, "--dry"]).output
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, (run.output, run.exception)
    assert "town-tau-f-0.005: trained in 0." in run.output
    assert {path.parent.name for path in results.glob("*/results.json")} == {"sensitivity"}
    assert "| tau_f 0.005 |" in (tmp_path / "docs" / "benchmark.md").read_text()
    again = CliRunner().invoke(app, [*words, "--dry"])
    assert again.output == ""  # it is done
    wrong = CliRunner().invoke(app, ["benchmark", "town", "--only", "tau_f 0.05"])
    assert "no run 'tau_f 0.05'" in str(wrong.exception)


def test_every_run_belongs_to_a_table() -> None:
    tables = {table_of(planned) for planned in PLAN}
    assert tables == {"coarse", "fine", "seeds", "ablations", "sensitivity", "beyond"}
    assert table_of(planned_as("town-garet-seed-44")) == "seeds"
    assert table_of(planned_as("tau_d 0.10")) == "sensitivity"
    for model, (run, _) in STAGE_OF.items():  # each model has a run of every seed
        made = {f"{planned.name}/{stage}" for planned in PLAN for stage in planned.stages}
        for seed in SEEDS:
            assert str(checkpoint_of(Path(), model, seed).parent) in made, run


def test_the_objective_comes_first_in_tables_of_variants() -> None:
    assert VARIANT_ORDER[:3] == ["the paper's objective", "without it: stage 2 alone", "global only"]
    assert len(VARIANT_ORDER) == len(set(VARIANT_ORDER)) == len(VARIANTS) + 1


def test_claims_stand_against_seeds_and_videos() -> None:
    rng = np.random.default_rng(0)
    base: dict[int, Floats] = {seed: np.where(rng.random(400) < 0.4, 100.0, 0.0) for seed in SEEDS}
    better: dict[int, Floats] = {
        seed: np.asarray(np.maximum(found, 100.0 * (rng.random(400) < 0.3)), np.float64) for seed, found in base.items()
    }
    once = {**better, 44: np.minimum(base[44], 100.0 * (rng.random(400) < 0.8))}  # worse with one of the seeds
    for ours, holds in ((better, True), (once, False)):
        hits: Hits = {("X²Localizer", "s_mix", 1): ours, ("X²Localizer", "s_g", 1): base}
        (claim,) = seed_claims(hits)
        assert (claim.claim, claim.seeds, claim.holds) == ("s_mix beats s_g", [42, 43, 44], holds)
        assert claim.low < claim.difference < claim.high
        assert claim.difference == pytest.approx(np.mean(claim.by_seed))
    row, _ = seed_rows({("a", "s_g", 1): base, ("b", "s_g", 1): {42: base[42]}})
    assert row.least <= row.mean <= row.most
    assert nested_interval(base[42][None]) == bootstrap_interval(base[42])
    apart = np.stack([np.zeros(50), np.full(50, 100.0)])  # videos agree, seeds do not: only seeds give a spread
    assert nested_interval(apart) == (0.0, 100.0)


@pytest.mark.slow
def test_the_page_holds_the_results_and_says_what_is_missing(
    tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    results, work = tmp_path / "results", tmp_path / "work"
    for protocol in ("coarse", "fine", "random-start", "long-range"):
        words = ["evaluate", str(tiny_bundle.root), "--protocol", protocol, "--data", str(tiny_dataset)]
        run = CliRunner().invoke(app, [*words, "--out", str(results / protocol), "--work", str(work)])
        assert run.exit_code == 0, run.output
    found = measure_candidates(str(tiny_bundle.root), tiny_dataset, "test", work, lambda what, done, total: None)
    (results / "candidates").mkdir()
    (results / "candidates" / "results.json").write_text(json.dumps({"machine": "m", "date": "d", **found}))
    seen = qualitative(str(tiny_bundle.root), tiny_dataset, "test", work, lambda what, done, total: None, 2)
    assert all(row.similarities.shape == (len(row.keyframes), 13, 13) for row in seen)
    assert all(((row.path >= 0) & (row.path <= 1)).all() for row in seen), "a path lies in its region"
    save_heatmaps(results / "heatmaps" / "heatmaps.png", seen)
    assert (results / "heatmaps" / "heatmaps.png").read_bytes().startswith(b"\x89PNG")
    (results / "heatmaps" / "results.json").write_text(json.dumps({"machine": "m", "date": "d"}))
    (results / "notes.md").write_text("## What we think\n\nIt holds.\n")
    page = page_of(results)
    # The objective, sensitivity, beyond the paper, the dataset's regions, tracking, seeds.
    assert page.count("Not run yet.") == 6
    for protocol in ("coarse", "fine"):
        for row in json.loads((results / protocol / "results.json").read_text())["rows"]:
            if row["similarity"] != "s_f":
                assert f"{row['r1']:.1f} ({row['r1_low']:.1f} to {row['r1_high']:.1f})" in page
    assert "## What we think" in page
    run = CliRunner().invoke(app, ["benchmark", "town", "--page-only", "--out", str(tmp_path)])
    assert run.exit_code == 0
    assert (tmp_path / "benchmark.md").read_text() == page
