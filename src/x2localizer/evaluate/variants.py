"""Models against the first one: which regions each finds, and what it gains, paired by video."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from x2localizer.datasets.dataset import Dataset
from x2localizer.errors import UserError
from x2localizer.evaluate import protocols
from x2localizer.evaluate.entrants import entrants
from x2localizer.evaluate.tables import gained, markdown
from x2localizer.metrics import paired_difference
from x2localizer.similarity import similarities
from x2localizer.types import Floats, Progress

SIMILARITY = "s_path"
"""By which models are ranked that have codes of tiles; others by their own last one."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What one model finds.

    hits: of each video, 100 where its region comes first and 0 where it does not, by budget.
    """

    run: str
    similarity: str
    hits: dict[int, Floats]

    @property
    def r1(self) -> dict[str, float]:
        """R@1 in percent, by budget."""
        return {str(budget): float(hits.mean()) for budget, hits in self.hits.items()}

    def gained_over(self, other: Found) -> tuple[float, float, float]:
        """Points gained over another model, the mean over the budgets of both, with a 95% interval."""
        shared = [budget for budget in self.hits if budget in other.hits]
        own, others = (np.mean([found.hits[budget] for budget in shared], 0) for found in (self, other))
        return paired_difference(own, others)


@dataclass(frozen=True, slots=True)
class VariantRow:
    """One model: R@1 in percent by budget, and the points it gained over the first one, with a 95% interval."""

    run: str
    similarity: str
    r1: dict[str, float]
    gained: tuple[float, float, float]


def find_regions(
    models: Sequence[str], data: Dataset, split: str, work: Path, report: Progress,
    budgets: Sequence[int] = protocols.BUDGETS, similarity: str | None = None,
) -> list[Found]:  # fmt: skip
    """What the last stage of each model finds, by s_path where it can, or by a similarity of that name."""
    out = []
    for name in models:
        entrant = entrants(name)[-1]
        wanted = similarity or SIMILARITY
        suits = entrant.encoder is not None and similarities.get(wanted).suits(entrant.encoder.spec)
        if similarity and not suits:
            raise UserError(
                f"{name} cannot be ranked by {similarity}.",
                f"It can by {', '.join(entrant.similarities)}.",
            )
        kind = wanted if suits else entrant.similarities[-1]
        (row,), _ = protocols.prefix_rows(
            [replace(entrant, similarities=(kind,))], data, split, work, report, budgets
        )  # fmt: skip
        hits = {budget: (ranks <= 1).astype(np.float64) * 100.0 for budget, ranks in row.ranks.items()}
        out.append(Found(entrant.run, kind, hits))
    return out


def measure_variants(
    models: Sequence[str], data: Dataset, split: str, work: Path, report: Progress,
    budgets: Sequence[int] = protocols.BUDGETS, similarity: str | None = None,
) -> list[VariantRow]:  # fmt: skip
    """A row for each model, the first being the reference."""
    if len(models) < 2:
        raise UserError(
            "Variants are compared with the first model.",
            "Name two or more: x2l evaluate runs/a runs/b --protocol variants",
        )
    found = find_regions(models, data, split, work, report, budgets, similarity)
    return [VariantRow(one.run, one.similarity, one.r1, one.gained_over(found[0])) for one in found]


def to_values(rows: Sequence[VariantRow]) -> list[dict[str, Any]]:
    """For JSON."""
    return [asdict(row) for row in rows]


def table_text(rows: Sequence[VariantRow], titles: Mapping[str, str] | None = None) -> str:
    """A line for each model.

    titles: what to call runs; others are called by their names.
    """
    budgets, names = [*rows[0].r1], titles or {}
    return markdown(
        ["run", "similarity", *(f"R@1, tau = {budget}" for budget in budgets), "points gained (95%)"],
        ((names.get(row.run, row.run), row.similarity,
          *(f"{row.r1[budget]:.1f}" if budget in row.r1 else "-" for budget in budgets),
          "-" if row is rows[0] else gained(*row.gained)) for row in rows),
    )  # fmt: skip
