"""The paper's tables on the embedded towns: which runs they need, and the page that is made of their results.

``PLAN`` is every training run. Results are JSON files, one folder each; the page is made of them and of nothing else.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from x2localizer.config import STAGES, TrainSettings, load_config
from x2localizer.datasets.dataset import open_dataset
from x2localizer.evaluate import protocols, tables
from x2localizer.evaluate.coarse import BY_PHI
from x2localizer.evaluate.embed import Report
from x2localizer.evaluate.entrants import Entrant, entrants
from x2localizer.files import write_text

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Planned:
    """A training run: preset, stages, the checkpoint it starts from (below the folder of runs), overrides."""

    name: str
    preset: str
    stages: tuple[str, ...]
    start: str | None = None
    overrides: tuple[str, ...] = ()

    @property
    def last(self) -> str:
        """Where its last stage tells that it is done."""
        return f"{self.name}/{self.stages[-1]}/done.json"

    def command(self, data: str, runs: str) -> str:
        """As a user would type it."""
        words = ["x2l", "train", "--preset", self.preset, "--data", data, "--out", f"{runs}/{self.name}"]
        if self.stages != STAGES:
            words += ["--stages", ",".join(self.stages)]
        if self.start:
            words += ["--start", f"{runs}/{self.start}"]
        for item in self.overrides:
            words += ["--set", item]
        return shlex.join(words)


STAGE_2 = "town/full/best.safetensors"
MAIN = (
    Planned("town-centred", "town", ("image",), None, ("image.shift_tiles=false",)),
    Planned("town", "town", STAGES, "town-centred/image/best.safetensors", ("image.steps=7000", "image.lr=1e-3")),
    Planned("town-garet", "town", ("full",), STAGE_2, ("seed=43", "full.steps=300", "full.lr=1e-3")),
    Planned("town-deit", "town-deit", ("full", "progressive"), "town/image/best.safetensors"),
)
# Variants of stage 3 are trained half as long as the released model, the paper's objective among them.
VARIANT_STEPS = "progressive.steps=200"
REFERENCE = "the paper's objective"
EVERYWHERE = "objective.lambda_f={1=1, 2=1, 4=1, 8=1}"
# Table 4a of the paper: what is left out of the objective.
ABLATIONS = {
    "global only": ("objective.lambda_f={1=0, 2=0, 4=0, 8=0}",),
    "fine only": ("objective.lambda_g={1=0, 2=0, 4=0, 8=0}", EVERYWHERE),
    "symmetric": (EVERYWHERE,),
    "without self-distillation": ("objective.eta_self=0",),
    "without teacher": ("objective.eta_teacher=0",),
}
SENSITIVITY = {
    "lambda_f (1, 0.5, 0.25)": ("objective.lambda_f={1=1.0, 2=0.5, 4=0.25, 8=0}",),
    "lambda_f (1, 1, 1)": ("objective.lambda_f={1=1, 2=1, 4=1, 8=0}",),
    "lambda_f (4, 2, 1)": ("objective.lambda_f={1=4, 2=2, 4=1, 8=0}",),
    "tau_f 0.005": ("objective.tau_f=0.005",),
    "tau_f 0.02": ("objective.tau_f=0.02",),
    "tau_c 0.05": ("objective.tau_c=0.05",),
    "tau_c 0.10": ("objective.tau_c=0.1",),
    "eta_self 0.1": ("objective.eta_self=0.1",),
    "eta_self 0.4": ("objective.eta_self=0.4",),
    "eta_teacher 0.5": ("objective.eta_teacher=0.5",),
    "eta_teacher 1.5": ("objective.eta_teacher=1.5",),
    "tau_d 0.05": ("objective.tau_d=0.05",),
    "tau_d 0.10": ("objective.tau_d=0.1",),
}

# Beyond the paper: every frame counts while training too, and tokens are held to the embeddings of stage 1.
BY_FRAMES = ("objective.fine=s_best", EVERYWHERE)
KEPT = Planned(
    "town-kept", "town", ("full", "progressive"), "town/image/best.safetensors",
    (*BY_FRAMES, "objective.eta_keep=1", VARIANT_STEPS),
)  # fmt: skip
KEPT_NAME = "L_f by s_best, tokens kept"
BEYOND = {"L_f by s_best": BY_FRAMES}


def variant(name: str, overrides: tuple[str, ...]) -> Planned:
    """Stage 3 once more, with another objective."""
    slug = "".join(c if c.isalnum() or c == "." else "-" for c in name).replace("--", "-").strip("-")
    return Planned(f"town-{slug}", "town", ("progressive",), STAGE_2, (*overrides, VARIANT_STEPS))


VARIANTS = {REFERENCE: Planned("town-reference", "town", ("progressive",), STAGE_2, (VARIANT_STEPS,))}
VARIANTS |= {name: variant(name, overrides) for name, overrides in (ABLATIONS | BEYOND | SENSITIVITY).items()}
VARIANTS |= {KEPT_NAME: KEPT}
PLAN = (*MAIN, *VARIANTS.values())


def missing(runs: Path, plan: Sequence[Planned] = PLAN) -> list[Planned]:
    """What is still to be trained."""
    return [planned for planned in plan if not (runs / planned.last).is_file()]


def train_missing(
    data: Path, runs: Path, plan: Sequence[Planned] = PLAN, report: Callable[[str], None] = lambda _: None
) -> None:
    """Train what is missing, one run after the other; an interrupted one goes on."""
    from x2localizer.learn.loop import train  # noqa: PLC0415 - torch is heavy

    for planned in missing(runs, plan):
        settings = load_config(TrainSettings, "train", planned.preset, list(planned.overrides))
        start = None if planned.start is None else runs / planned.start
        train(
            settings, data, runs / planned.name, planned.stages,
            lambda stage, step, steps, values, name=planned.name: report(  # type: ignore[misc]
                f"{name}: {stage} {step} of {steps}"
            ),
            start,
        )  # fmt: skip


def progressive(runs: Path, name: str, similarities: tuple[str, ...] = ("s_mix",)) -> Entrant | None:
    """The model of a variant, by some similarities; None if it was not trained."""
    path = runs / VARIANTS[name].name / "progressive" / "best.safetensors"
    if not path.is_file():
        return None
    (found,) = entrants(str(path))
    return replace(found, run=name, similarities=similarities)


def measure_variants(
    names: Sequence[str], similarities: tuple[str, ...], data: Path, split: str, runs: Path, work: Path, report: Report
) -> Values | None:
    """Prefix retrieval of those variants that were trained, beside the paper's objective; None if none was."""
    models = [found for name in (REFERENCE, *names) if (found := progressive(runs, name, similarities)) is not None]
    if len(models) < 2:
        return None
    rows, gallery = protocols.prefix_rows(models, open_dataset(data), split, work, report)
    cells = tables.prefix_cells(rows, gallery)
    videos = len(next(iter(rows[0].ranks.values())))
    return {"videos": videos, "gallery": gallery, "rows": tables.to_values(cells)}


def measure_candidates(model: str, data: Path, split: str, work: Path, report: Report) -> Values:
    """The table of SWRL: 5 and 10 candidates, found by s_g and by s_mix."""
    source = open_dataset(data)
    rows = []
    for similarity in ("s_g", "s_mix"):
        for count in (5, 10):
            found = protocols.fine_rows(
                [entrants(model)[-1]], source, split, work, report, budgets=(1, 2, 4), galleries=("gps",),
                candidates=count, similarity=similarity,
            )  # fmt: skip
            rows += [{"candidates": count, **cell} for cell in tables.to_values(tables.fine_cells(found))]
    return {"rows": rows}


# The page ------------------------------------------------------------------------------------------------------------


def load_results(folder: Path) -> dict[str, Values]:
    """All results below a folder, by name."""
    return {
        path.parent.name: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*/results.json"))
    }  # fmt: skip


def by_budget(rows: Sequence[Values], label: str = "run") -> str:
    """R@1 at each budget and their mean, a line for each row."""
    budgets = sorted({row["budget"] for row in rows})
    found = []
    for name in dict.fromkeys(row[label] for row in rows):
        values = {row["budget"]: row["r1"] for row in rows if row[label] == name}
        mean = sum(values.values()) / len(values)
        found.append([name, *(f"{values[b]:.1f}" for b in budgets), f"{mean:.1f}"])
    return tables.markdown(["", *(f"tau = {budget}" for budget in budgets), "mean"], found)


def candidates_text(rows: Sequence[Values]) -> str:
    """The table of SWRL."""
    order = sorted(rows, key=lambda row: (-row["budget"], row["candidates"], row["similarity"], row["refresh"]))
    return tables.markdown(
        ["tau", "candidates", "similarity", "refresh", "Gate@K", "R@1 (95%)", "R@5", "R@10"],
        ((row["budget"], row["candidates"], row["similarity"], row["refresh"], f"{row['gate']:.1f}",
          tables.spread(row["r1"], row["r1_low"], row["r1_high"]), f"{row['r5']:.1f}", f"{row['r10']:.1f}")
         for row in order),
    )  # fmt: skip


def write_page(results: Path, page: Path) -> None:
    """Write the page from the results that are there, with our comments on them (``notes.md``) at the end."""
    write_text(page, page_of(results))


def page_of(results: Path) -> str:
    """The page as it should be."""
    notes = results / "notes.md"
    return page_text(load_results(results), notes.read_text(encoding="utf-8") if notes.is_file() else "")


def page_text(found: dict[str, Values], notes: str = "") -> str:
    """The benchmark page; a section whose results are missing says so."""
    from x2localizer.evaluate.long_range import ArmRow, LongRange, table_text  # noqa: PLC0415

    def cells(name: str, key: str = "rows") -> list[tables.Cell]:
        return [tables.Cell(**row) for row in found[name][key]]

    def fine_cells(name: str, key: str = "rows", **wanted: str) -> list[tables.FineCell]:
        rows = [tables.FineCell(**row) for row in found[name][key]]
        return [row for row in rows if all(getattr(row, field) == value for field, value in wanted.items())]

    sections: list[tuple[str, str, Callable[[], str]]] = [
        ("Prefix retrieval (table 1)", "coarse", lambda: "\n\n".join([
            "Which region holds the video? The untouched stage-1 towers are ranked by s_f and by s_best, the mean over "
            "frames of the best tile, which is not in the paper.",
            tables.prefix_text([cell for cell in cells("coarse") if not _beyond(cell)]),
            "The claims, by paired bootstrap on the same videos:",
            tables.claims_text([tables.Claim(**row) for row in found["coarse"]["claims"]]),
        ])),
        ("Frame localization (table 2)", "fine", lambda: "\n\n".join([
            "Candidates found once, and refreshed by SWRL. Tiles centred on the cameras' places, as in the paper:",
            tables.fine_text(fine_cells("fine", gallery="gps")),
            "Tiles of the map's grid at half stride, as in a deployment:",
            tables.fine_text(fine_cells("fine", gallery="grid")),
        ])),
        ("Random start (table 3)", "random-start", lambda: "\n\n".join([
            "From a random keyframe on, seed 42; the starts are in the results file.",
            tables.prefix_text(cells("random-start")), tables.fine_text(fine_cells("random-start", "fine")),
        ])),
        ("The objective (table 4a)", "ablations", lambda: "R@1 with s_mix; each is stage 3 once more.\n\n"
         + by_budget(found["ablations"]["rows"])),
        ("Candidates and SWRL (table 4b)", "candidates", lambda: candidates_text(found["candidates"]["rows"])),
        ("Sensitivity", "sensitivity", lambda: "R@1 with s_mix; each is stage 3 once more.\n\n"
         + by_budget(found["sensitivity"]["rows"])),
        ("Beyond the paper: every frame counts", "coarse", lambda: "\n\n".join([
            "s_f is nearly a maximum over all pairs of frames and tiles: one lucky pair decides. s_best, the "
            "mean over frames of the best tile, asks every frame for evidence. s_half is s_best by phi alone, with "
            "tiles at half stride: the localizer's own, which no adapter has touched.",
            by_budget([_labelled(row) for row in found["coarse"]["rows"] if _is_beyond(row)], "label"),
        ])),
        ("Long range", "long-range", lambda: "The localizer over one gallery of all test towns.\n\n"
         "![share of frames within 80 m over time](results/long-range/curves.png)\n\n" + table_text(LongRange(
             tuple(ArmRow(**row) for row in found["long-range"]["rows"]), found["long-range"]["gains"],
             found["long-range"]["curves"], found["long-range"]["reliability"]))),
    ]  # fmt: skip
    lines = [
        "# The benchmark on the embedded towns", "",
        "Made by `x2l benchmark town` from the files in [results](results); none of its figures is typed by hand.", "",
    ]  # fmt: skip
    for title, name, text in sections:
        lines += [f"## {title}", ""]
        if name not in found:
            lines += ["Not run yet.", ""]
            continue
        values = found[name]
        told = [
            f"{values[key]:,} {word}" for key, word in (("videos", "videos"), ("gallery", "regions")) if key in values
        ]
        lines += [", ".join([*told, values["machine"], values["date"]]) + ".", "", text(), ""]
    return "\n".join(lines + ([notes.strip(), ""] if notes else []))


def _beyond(cell: tables.Cell) -> bool:
    """Rows that the paper does not have, but for the baseline of the stage-1 towers."""
    return cell.similarity in BY_PHI or (cell.similarity == "s_best" and cell.model != "stage-1 towers")


def _is_beyond(row: Values) -> bool:
    ours = row["run"] == "town" and row["model"] in ("stage-1 towers", "X²Localizer")
    return bool(ours and row["similarity"] in ("s_mix", "s_best", *BY_PHI))


def _labelled(row: Values) -> Values:
    return {**row, "label": f"{row['model']}, {row['similarity']}"}
