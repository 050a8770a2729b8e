"""The protocols on all entrants: prefix retrieval, coarse to fine, random start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from x2localizer.datasets.dataset import Dataset
from x2localizer.errors import UserError
from x2localizer.evaluate.coarse import Coarse, coarse, region_scores
from x2localizer.evaluate.embed import Embeddings, Report
from x2localizer.evaluate.entrants import Entrant, latency_ms
from x2localizer.evaluate.fine import Fine, GalleryKind, fine, tile_gallery, windows
from x2localizer.evaluate.rankings import ranks_of_file, true_items
from x2localizer.types import Ints

BUDGETS = (1, 2, 4, 8)
SEED = 42
WINDOW_KEYFRAMES = 4
"""A window of SWRL starts every 20 s."""


@dataclass(frozen=True, slots=True, eq=False)
class PrefixRow:
    """Coarse retrieval of one entrant by one similarity: ranks by budget, and by the geographic rule."""

    run: str
    model: str
    similarity: str
    ranks: dict[int, Ints]
    geographic: dict[int, Ints]
    parameters: int | None
    latency_ms: dict[int, float]
    repeated: int = 0
    """Rows of a rankings file that were dropped because they repeat an item."""


@dataclass(frozen=True, slots=True, eq=False)
class FineRow:
    """Frame localization of one entrant: one budget, one kind of gallery, candidates once or refreshed by SWRL.

    ``gate`` tells of each video whether its region is among the first candidates."""

    run: str
    model: str
    similarity: str
    budget: int
    gallery: GalleryKind
    refresh: str
    found: Fine
    gate: npt.NDArray[np.bool_]


def prefix_rows(
    entrants: Sequence[Entrant],
    data: Dataset,
    split: str,
    work: Path,
    report: Report,
    budgets: Sequence[int] = BUDGETS,
    starts: Callable[[Embeddings, int], Ints] | None = None,
) -> tuple[list[PrefixRow], int]:
    """Coarse retrieval of all entrants, and the size of the gallery; ``starts`` gives other first keyframes than 0."""
    rows, gallery = [], 0
    for entrant in entrants:
        if entrant.encoder is None:
            row, gallery = _file_row(entrant, data, split)
            rows.append(row)
            continue
        seen = Embeddings(data, split, entrant.encoder, work, report)
        gallery = len(seen.regions)
        able = [budget for budget in budgets if budget <= entrant.encoder.spec.frames]
        found: dict[int, dict[str, Coarse]] = {}
        for budget in able:
            begin = None if starts is None else starts(seen, budget)
            found[budget] = coarse(seen, budget, entrant.similarities, begin, entrant.tau_f)
        latency = {budget: latency_ms(entrant.encoder, budget) for budget in able}
        rows += [
            PrefixRow(
                entrant.run, entrant.model, kind, {b: found[b][kind].ranks for b in able},
                {b: found[b][kind].geographic for b in able}, entrant.parameters, latency,
            )
            for kind in entrant.similarities
        ]  # fmt: skip
    return rows, gallery


def _file_row(entrant: Entrant, data: Dataset, split: str) -> tuple[PrefixRow, int]:
    assert entrant.rankings is not None
    videos, regions = data.videos(split), data.regions(split)
    queries, items = [row.video_id for row in videos], [row.region_id for row in regions]
    truth = true_items(videos, regions)
    found = ranks_of_file(entrant.rankings, queries, items, truth, keep_first=entrant.keep_first)
    return PrefixRow(entrant.run, entrant.model, "score", found.ranks, {}, None, {}, found.repeated), len(items)


def score_parts(
    entrant: Entrant, data: Dataset, split: str, work: Path, budgets: Sequence[int] = BUDGETS
) -> Iterator[tuple[str, int, list[str], npt.NDArray[np.floating]]]:
    """Every score of an entrant by its last similarity, for a rankings file: query, budget, items, scores."""
    seen = _embeddings(entrant, data, split, work, lambda what, done, total: None)
    items = [row.region_id for row in seen.regions]
    kind = entrant.similarities[-1]
    for budget in budgets:
        prefixes = seen.prefixes(budget)
        for v, video in enumerate(seen.videos):
            tokens = np.asarray(prefixes.tokens[v, : prefixes.lengths[v]])
            scores = region_scores(np.asarray(prefixes.whole[v]), tokens, seen.region_codes, [kind], entrant.tau_f)[
                kind
            ]
            yield video.video_id, budget, items, scores


def random_starts(seen: Embeddings, budget: int, seed: int = SEED) -> Ints:
    """A first keyframe for each video such that the prefix stays inside it."""
    rng = np.random.default_rng(seed)
    return np.array([int(rng.integers(0, max(0, len(keys) - budget) + 1)) for keys in seen.keyframes], np.int64)


def fine_rows(
    entrants: Sequence[Entrant],
    data: Dataset,
    split: str,
    work: Path,
    report: Report,
    *,
    budgets: Sequence[int] = BUDGETS,
    galleries: Sequence[GalleryKind] = ("gps", "grid"),
    candidates: int = 10,
    similarity: str | None = None,
) -> list[FineRow]:
    """Coarse to fine, for every budget and gallery, with the first candidates and with SWRL, on all frames."""
    rows = []
    for entrant in entrants:
        seen = _embeddings(entrant, data, split, work, report)
        kind = similarity or entrant.similarities[-1]
        able = [budget for budget in budgets if budget <= seen.encoder.spec.frames]
        frames = [np.arange(a, b) for a, b in zip(seen.first_frame[:-1], seen.first_frame[1:], strict=True)]
        for budget in able:
            by_start = {0: coarse(seen, budget, [kind], tau_f=entrant.tau_f)[kind]}
            for start, _ in windows(max(len(keys) for keys in seen.keyframes), budget, WINDOW_KEYFRAMES):
                if start and start not in by_start:
                    last = np.array([len(keys) - 1 for keys in seen.keyframes])
                    by_start[start] = coarse(seen, budget, [kind], np.minimum(start, last), entrant.tau_f)[kind]
            gate = (by_start[0].top[:, :candidates] == seen.region_of[:, None]).any(1)
            for gallery in galleries:
                tiles = tile_gallery(seen, gallery)
                for refresh in ("once", "SWRL"):
                    chosen = _candidates(seen, by_start, budget, candidates, refresh)
                    rows.append(
                        FineRow(entrant.run, entrant.model, kind, budget, gallery, refresh,
                                fine(seen, tiles, frames, chosen), gate)
                    )  # fmt: skip
    return rows


def _candidates(
    seen: Embeddings, by_start: dict[int, Coarse], budget: int, count: int, refresh: str
) -> list[list[Ints]]:
    """The candidate regions of every frame of every video."""
    out = []
    for v, keys in enumerate(seen.keyframes):
        tops = {start: found.top[v, :count] for start, found in by_start.items()}
        if refresh == "once":
            out.append([tops[0]] * len(seen.frames[v]))
            continue
        full = windows(len(keys), budget, WINDOW_KEYFRAMES)
        chosen = []
        for frame in range(len(seen.frames[v])):
            ready = [start for start, last in full if keys[last] <= frame]
            chosen.append(tops[ready[-1] if ready else 0])
        out.append(chosen)
    return out


def random_start_rows(
    entrants: Sequence[Entrant], data: Dataset, split: str, work: Path, report: Report,
    budgets: Sequence[int] = (1, 2, 4),
) -> tuple[list[PrefixRow], list[FineRow], dict[int, Ints], int]:  # fmt: skip
    """Random start: coarse rows, fine rows on the keyframes from the start on, the drawn starts, and the gallery."""
    plain = [entrant for entrant in entrants if entrant.encoder is not None]
    coarse_rows, gallery = prefix_rows(plain, data, split, work, report, budgets, random_starts)
    fine_found: list[FineRow] = []
    drawn: dict[int, Ints] = {}
    for entrant in plain:
        seen = _embeddings(entrant, data, split, work, report)
        kind = entrant.similarities[-1]
        tiles = tile_gallery(seen, "gps")
        for budget in budgets:
            starts = drawn[budget] = random_starts(seen, budget)
            found = coarse(seen, budget, [kind], starts, entrant.tau_f)[kind]
            frames = [
                seen.first_frame[v] + np.array(keys[starts[v] :], np.int64) for v, keys in enumerate(seen.keyframes)
            ]
            chosen = [[top] * len(rows) for top, rows in zip(found.top, frames, strict=True)]
            gate = (found.top == seen.region_of[:, None]).any(1)
            fine_found.append(
                FineRow(entrant.run, entrant.model, kind, budget, "gps", "once",
                        fine(seen, tiles, frames, chosen), gate)
            )  # fmt: skip
    return coarse_rows, fine_found, drawn, gallery


def _embeddings(entrant: Entrant, data: Dataset, split: str, work: Path, report: Report) -> Embeddings:
    if entrant.encoder is None:
        raise UserError(
            f"{entrant.run} is a rankings file of regions: it has no frames.", "Score it with --protocol coarse."
        )
    return Embeddings(data, split, entrant.encoder, work, report)
