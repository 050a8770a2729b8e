"""From ranks to figures: recalls with intervals, the paper's claims, Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from x2localizer.evaluate.fine import NEVER
from x2localizer.evaluate.protocols import FineRow, PrefixRow
from x2localizer.metrics import bootstrap_interval, one_percent, paired_difference, recall_at
from x2localizer.types import Floats, Ints


@dataclass(frozen=True, slots=True)
class Cell:
    """Recalls in percent at one budget, with the 95% bootstrap interval of Recall@1 over videos; ``geo_r1`` counts any
    region that holds the camera. Size in millions of numbers, time to encode a prefix in milliseconds."""

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
    geo_r1: float | None = None
    params_m: float | None = None
    latency_ms: float | None = None


@dataclass(frozen=True, slots=True)
class FineCell:
    """Frames within 80 m in percent at one budget: by the best tile (with its interval over videos), among the first 5,
    the first 10 and all tiles; videos whose region is among the candidates; quartiles of the error in metres. Size in
    millions of numbers, time to encode a frame in milliseconds."""

    run: str
    model: str
    similarity: str
    budget: int
    gallery: str
    refresh: str
    r1: float
    r1_low: float
    r1_high: float
    r5: float
    r10: float
    r_all: float
    gate: float
    error_25_m: float
    error_50_m: float
    error_75_m: float
    params_m: float | None = None
    latency_ms: float | None = None
    matching: str = "frame"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the paper at one budget: a difference of Recall@1 in points, with its paired 95% interval."""

    claim: str
    budget: int
    difference: float
    low: float
    high: float
    holds: bool


def prefix_cells(rows: Sequence[PrefixRow], gallery: int) -> list[Cell]:
    """One cell for each row and budget."""
    cells = []
    for row in rows:
        for budget, ranks in row.ranks.items():
            low, high = bootstrap_interval(_hits(ranks))
            cells.append(
                Cell(row.run, row.model, row.similarity, budget, recall_at(ranks, 1), low, high, recall_at(ranks, 5),
                     recall_at(ranks, 10), recall_at(ranks, one_percent(gallery)),
                     recall_at(row.geographic[budget], 1) if budget in row.geographic else None,
                     None if row.parameters is None else row.parameters / 1e6, row.latency_ms.get(budget))
            )  # fmt: skip
    return cells


def fine_cells(rows: Sequence[FineRow]) -> list[FineCell]:
    """One cell for each row."""
    cells = []
    for row in rows:
        ranks, video = row.found.ranks, row.found.video
        hits, frames = per_video(ranks <= 1, video)
        low, middle, high = np.percentile(row.found.errors_m, (25, 50, 75), method="nearest").tolist()
        size = None if row.parameters is None else row.parameters / 1e6
        cells.append(
            FineCell(row.run, row.model, row.similarity, row.budget, row.gallery, row.refresh, recall_at(ranks, 1),
                     *bootstrap_interval(hits, weights=frames), recall_at(ranks, 5), recall_at(ranks, 10),
                     100.0 * float((ranks < NEVER).mean()), 100.0 * float(row.gate.mean()),
                     low, middle, high, size, row.latency_ms, row.matching)
        )  # fmt: skip
    return cells


def per_video(right: npt.NDArray[np.bool_], video: Ints) -> tuple[Floats, Floats]:
    """The percentage of right frames of each video, and how many frames it has."""
    frames = np.bincount(video).astype(np.float64)
    there = frames > 0
    return 100.0 * np.bincount(video, weights=right)[there] / frames[there], frames[there]


def check_claims(rows: Sequence[PrefixRow]) -> list[Claim]:
    """The paper's claims about the first run, against the last run of GAReT's objective (the longest trained).

    A gain holds if its whole interval is above zero; what is kept holds unless the whole interval is below it.
    """
    ours = {row.similarity: row for row in rows if (row.run, row.model) == (rows[0].run, "X²Localizer")}
    theirs = {
        row.similarity: row for row in rows if row.model == "GAReT's objective" and row.similarity in ("s_g", "s_mix")
    }
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


def _claim(what: str, budget: int, a: PrefixRow, b: PrefixRow, *, kept: bool) -> Claim:
    difference, low, high = paired_difference(_hits(a.ranks[budget]), _hits(b.ranks[budget]))
    return Claim(what, budget, difference, low, high, high >= 0 if kept else low > 0)


def _hits(ranks: Ints) -> npt.NDArray[np.float64]:
    return (ranks <= 1).astype(np.float64) * 100.0


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |".replace(" --- ", "---") for line in lines)


def spread(mean: float, low: float, high: float) -> str:
    """A figure with its interval."""
    return f"{mean:.1f} ({low:.1f} to {high:.1f})"


def gained(mean: float, low: float, high: float) -> str:
    """A difference with its interval."""
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"


def prefix_text(cells: Sequence[Cell]) -> str:
    """The table of prefix retrieval: a line per row and budget."""
    return markdown(
        ["run", "model", "size", "similarity", "tau", "ms", "R@1 (95%)", "R@5", "R@10", "R@1%"],
        ((c.run, c.model, _or_dash(c.params_m, "M"), c.similarity, c.budget, _or_dash(c.latency_ms),
          spread(c.r1, c.r1_low, c.r1_high), f"{c.r5:.1f}", f"{c.r10:.1f}", f"{c.r1pc:.1f}") for c in cells),
    )  # fmt: skip


def fine_text(cells: Sequence[FineCell]) -> str:
    """The table of frame localization; sizes, times and matchings where there are some."""
    sized = any(c.params_m is not None for c in cells)
    several = any(c.matching != "frame" for c in cells)
    more = ["size", "ms"] if sized else []
    return markdown(
        ["run", "model", *more, "tau", "gallery", "candidates", *(["matching"] if several else []), "Gate@10",
         "R@1 (95%)", "R@5", "R@10", "R@All", "median error"],
        ((c.run, c.model, *((_or_dash(c.params_m, "M"), _or_dash(c.latency_ms)) if sized else ()), c.budget, c.gallery,
          c.refresh, *([c.matching] if several else []), f"{c.gate:.1f}", spread(c.r1, c.r1_low, c.r1_high),
          f"{c.r5:.1f}", f"{c.r10:.1f}", f"{c.r_all:.1f}", f"{c.error_50_m:.0f} m") for c in cells),
    )  # fmt: skip


def claims_text(claims: Sequence[Claim]) -> str:
    """The claims, a line each."""
    return markdown(
        ["claim", "tau", "difference of R@1 (95%)", "holds"],
        ((c.claim, c.budget, gained(c.difference, c.low, c.high), "yes" if c.holds else "no")
         for c in claims),
    )  # fmt: skip


def to_values(items: Sequence[Cell] | Sequence[FineCell] | Sequence[Claim]) -> list[dict[str, Any]]:
    """For JSON."""
    return [asdict(item) for item in items]


def _or_dash(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:.1f}{unit and ' ' + unit}"
