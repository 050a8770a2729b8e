"""Coarse prefix retrieval of trained runs, side by side in one run: the table of the docs, and the paper's claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from x2localizer.datasets.dataset import Dataset, open_dataset
from x2localizer.errors import UserError
from x2localizer.learn.batches import Videos
from x2localizer.learn.checkpoint import Checkpoint, load_checkpoint, load_weights
from x2localizer.learn.model import Model
from x2localizer.learn.score import embed_prefixes, embed_regions, similarities
from x2localizer.learn.stages import STAGES
from x2localizer.metrics import bootstrap_interval, one_percent, paired_difference, ranks_of, recall_at

Ranks = npt.NDArray[np.int64]

# What the best checkpoint of a stage is called, with adapters and without, and which similarities it is ranked by.
NAMES = {
    ("image", True): "stage-1 towers", ("full", True): "GAReT's objective", ("progressive", True): "X²Localizer",
    ("image", False): "stage-1 towers", ("full", False): "DeiT", ("progressive", False): "DeiT*",
}  # fmt: skip
SIMILARITIES = {"image": ("s_f", "s_best"), "full": ("s_g", "s_mix"), "progressive": ("s_g", "s_mix")}


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One model with one similarity: the rank of each video's true region, by budget."""

    run: str
    model: str
    similarity: str
    ranks: dict[int, Ranks]


@dataclass(frozen=True, slots=True)
class Cell:
    """Recalls in percent at one budget, with the 95% bootstrap interval of Recall@1."""

    run: str
    model: str
    similarity: str
    budget: int
    r1: float
    r1_low: float
    r1_high: float
    r5: float
    r10: float
    r1pc: float


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the paper at one budget: a difference of Recall@1 in points, with its paired 95% interval."""

    claim: str
    budget: int
    difference: float
    low: float
    high: float
    holds: bool


def coarse_rows(
    runs: list[Path], data: Path, split: str, budgets: list[int], report: Callable[[str], None] = lambda _: None
) -> tuple[list[Row], int]:
    """Every stage of every run on the same videos and regions, and the size of the gallery."""
    source = open_dataset(data)
    rows: list[Row] = []
    gallery_size = 0
    for run in runs:
        found = [stage for stage in STAGES if (run / stage / "best.safetensors").is_file()]
        if not found:
            raise UserError(f"{run} holds no checkpoint.", "Train one: x2l train --data DATA --out RUN")
        for stage in found:
            report(f"{run.name} {stage}")
            checkpoint = load_checkpoint(run / stage / "best.safetensors")
            new, gallery_size = _stage_rows(run.name, stage, checkpoint, source, split, budgets)
            rows += new
    return rows, gallery_size


def _stage_rows(
    run: str, stage: str, found: Checkpoint, source: Dataset, split: str, budgets: list[int]
) -> tuple[list[Row], int]:
    """One checkpoint, ranked by each of its similarities."""
    model = Model(found.settings.model)
    load_weights(model, found.tensors)
    videos = Videos(source, split, found.settings.model)
    gallery = embed_regions(model, videos, adapt=stage != "image")
    ranks: dict[str, dict[int, Ranks]] = {kind: {} for kind in SIMILARITIES[stage]}
    for budget, query in embed_prefixes(model, videos, budgets, adapt=stage != "image").items():
        scores = similarities(query, gallery, found.settings.objective)
        for kind, by_budget in ranks.items():
            by_budget[budget] = ranks_of(scores[kind].numpy(), videos.region_of)
    name = NAMES[stage, found.settings.model.adapters]
    return [Row(run, name, kind, by_budget) for kind, by_budget in ranks.items()], len(gallery.whole)


def coarse_table(rows: list[Row], gallery: int) -> list[Cell]:
    """One cell for each row and budget."""
    cells = []
    for row in rows:
        for budget, found in row.ranks.items():
            low, high = bootstrap_interval(_hits(found))
            cells.append(
                Cell(row.run, row.model, row.similarity, budget, recall_at(found, 1), low, high,
                     recall_at(found, 5), recall_at(found, 10), recall_at(found, one_percent(gallery)))
            )  # fmt: skip
    return cells


def check_claims(rows: list[Row]) -> list[Claim]:
    """The paper's claims about the first run, against the last run of GAReT's objective (the longest trained).

    A gain holds if its whole interval is above zero; what is kept holds unless the whole interval is below it.
    """
    ours = {row.similarity: row for row in rows if (row.run, row.model) == (rows[0].run, "X²Localizer")}
    theirs = {row.similarity: row for row in rows if row.model == "GAReT's objective"}
    if not ours or not theirs:
        return []
    mix, g = ours["s_mix"], ours["s_g"]
    full = max(mix.ranks)
    claims = []
    for budget in mix.ranks:
        for kind, base in theirs.items():
            versus = f"s_mix over GAReT's objective with {kind} ({base.run})"
            what = f"the full video is kept: {versus}" if budget == full else f"short prefixes gain: {versus}"
            claims.append(_claim(what, budget, mix, base, kept=budget == full))
    claims += [_claim("s_mix beats s_g", budget, mix, g, kept=False) for budget in mix.ranks]
    return claims


def _claim(what: str, budget: int, a: Row, b: Row, *, kept: bool) -> Claim:
    difference, low, high = paired_difference(_hits(a.ranks[budget]), _hits(b.ranks[budget]))
    return Claim(what, budget, difference, low, high, high >= 0 if kept else low > 0)


def _hits(ranks: Ranks) -> npt.NDArray[np.float64]:
    return (ranks <= 1).astype(np.float64) * 100.0


def table_text(cells: list[Cell]) -> str:
    """The table for the docs: a line per row and budget."""
    lines = ["| run | model | similarity | tau | R@1 (95%) | R@5 | R@10 | R@1% |", "|---|---|---|---|---|---|---|---|"]
    lines += [
        f"| {c.run} | {c.model} | {c.similarity} | {c.budget} | {c.r1:.1f} ({c.r1_low:.1f} to {c.r1_high:.1f}) "
        f"| {c.r5:.1f} | {c.r10:.1f} | {c.r1pc:.1f} |"
        for c in cells
    ]
    return "\n".join(lines)


def claims_text(claims: list[Claim]) -> str:
    """The claims for the docs, a line each."""
    lines = ["| claim | tau | difference of R@1 (95%) | holds |", "|---|---|---|---|"]
    lines += [
        f"| {c.claim} | {c.budget} | {c.difference:+.1f} ({c.low:+.1f} to {c.high:+.1f}) "
        f"| {'yes' if c.holds else 'no'} |"
        for c in claims
    ]
    return "\n".join(lines)


def to_values(items: list[Cell] | list[Claim]) -> list[dict[str, object]]:
    """For JSON."""
    return [asdict(item) for item in items]
