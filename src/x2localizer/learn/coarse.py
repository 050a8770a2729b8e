"""Coarse prefix retrieval of trained checkpoints, side by side in one run: the table of the docs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from x2localizer.config import ObjectiveSettings
from x2localizer.datasets.dataset import open_dataset
from x2localizer.learn.batches import Videos
from x2localizer.learn.checkpoint import load_checkpoint, load_weights
from x2localizer.learn.model import Model
from x2localizer.learn.score import embed_prefixes, embed_regions, similarities
from x2localizer.metrics import bootstrap_interval, one_percent, ranks_of, recall_at

Ranks = npt.NDArray[np.int64]

# Rows of the table: stage whose best checkpoint is taken, whether its adapters are used, the similarity, and its name.
ROWS = (
    ("image", False, "s_f", "stage-1 towers, no adapters, s_f"),
    ("image", False, "s_best", "stage-1 towers, no adapters, mean over frames of the best tile"),
    ("full", True, "s_g", "GAReT's objective (stage 2), s_g"),
    ("full", True, "s_mix", "GAReT's objective (stage 2), s_mix"),
    ("progressive", True, "s_g", "X²Localizer (stage 3), s_g"),
    ("progressive", True, "s_mix", "X²Localizer (stage 3), s_mix"),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """Recalls in percent at one budget, with the 95% bootstrap interval of Recall@1."""

    row: str
    budget: int
    r1: float
    r1_low: float
    r1_high: float
    r5: float
    r10: float
    r1pc: float


def coarse_ranks(run: Path, data: Path, split: str, budgets: list[int]) -> tuple[dict[tuple[str, int], Ranks], int]:
    """Ranks of the true region by row and budget, and the size of the gallery. Stages that are missing are left out."""
    ranks: dict[tuple[str, int], Ranks] = {}
    gallery_size = 0
    for stage, adapt in dict.fromkeys((stage, adapt) for stage, adapt, _, _ in ROWS):
        path = run / stage / "best.safetensors"
        if not path.is_file():
            continue
        found = load_checkpoint(path)
        model = Model(found.settings.model)
        load_weights(model, found.tensors)
        videos = Videos(open_dataset(data), split, found.settings.model)
        gallery = embed_regions(model, videos, adapt=adapt)
        gallery_size = len(gallery.whole)
        for budget, query in embed_prefixes(model, videos, budgets, adapt=adapt).items():
            scores = similarities(query, gallery, ObjectiveSettings())
            for row_stage, row_adapt, kind, name in ROWS:
                if (row_stage, row_adapt) == (stage, adapt):
                    ranks[name, budget] = ranks_of(scores[kind].numpy(), videos.region_of)
    return ranks, gallery_size


def coarse_table(ranks: dict[tuple[str, int], Ranks], gallery: int) -> list[Cell]:
    """One cell for each row and budget."""
    cells = []
    for (name, budget), found in ranks.items():
        low, high = bootstrap_interval((found <= 1).astype(float) * 100.0)
        cells.append(
            Cell(name, budget, recall_at(found, 1), low, high, recall_at(found, 5), recall_at(found, 10),
                 recall_at(found, one_percent(gallery)))
        )  # fmt: skip
    return cells


def to_markdown(cells: list[Cell]) -> str:
    """The table for the docs: a line per row and budget."""
    lines = ["| | tau | R@1 (95%) | R@5 | R@10 | R@1% |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {c.row} | {c.budget} | {c.r1:.1f} ({c.r1_low:.1f} to {c.r1_high:.1f}) "
        f"| {c.r5:.1f} | {c.r10:.1f} | {c.r1pc:.1f} |"
        for c in cells
    ]
    return "\n".join(lines)


def to_values(cells: list[Cell]) -> list[dict[str, object]]:
    """For JSON."""
    return [asdict(cell) for cell in cells]
