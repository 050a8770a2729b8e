"""The protocols on all entrants: prefix retrieval, coarse to fine, random start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from x2localizer.config import LocalizeSettings
from x2localizer.datasets.dataset import Dataset
from x2localizer.encoders.tile_decoder import TileDecoder
from x2localizer.errors import UserError
from x2localizer.evaluate.coarse import Coarse, RegionScorer, coarse, queries_of
from x2localizer.evaluate.decoding import along_path, decoded
from x2localizer.evaluate.embed import Embeddings
from x2localizer.evaluate.entrants import Entrant, frame_latency_ms, latency_ms
from x2localizer.evaluate.fine import Fine, GalleryKind, fine, tile_gallery
from x2localizer.evaluate.rankings import ranks_of_file, true_items
from x2localizer.localize.refresh import policies, searched_windows
from x2localizer.types import Floats, Ints, Progress

BUDGETS = (1, 2, 4, 8)
SEED = 42


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

    ``gate`` tells of each video whether its region is among the first candidates; ``matching`` how frames are compared
    with tiles: one by one, along the path, or by a temporal decoder."""

    run: str
    model: str
    similarity: str
    budget: int
    gallery: GalleryKind
    refresh: str
    found: Fine
    gate: npt.NDArray[np.bool_]
    parameters: int | None = None
    latency_ms: float | None = None
    """Time to encode one frame."""
    matching: str = "frame"


def prefix_rows(
    entrants: Sequence[Entrant],
    data: Dataset,
    split: str,
    work: Path,
    report: Progress,
    budgets: Sequence[int] = BUDGETS,
    starts: Callable[[Embeddings, int], Ints] | None = None,
) -> tuple[list[PrefixRow], int]:
    """Coarse retrieval of all entrants, and the size of the gallery; ``starts`` gives other first keyframes than 0."""
    rows, gallery = [], 0
    for entrant in entrants:
        searching = entrant.searching
        if searching is None:
            row, gallery = _file_row(entrant, data, split)
            rows.append(row)
            continue
        encoded = Embeddings(data, split, searching, work, report)
        gallery = len(encoded.regions)
        able = [budget for budget in budgets if searching.spec.accepts_prefix(budget)]
        found: dict[int, dict[str, Coarse]] = {}
        for budget in able:
            begin = None if starts is None else starts(encoded, budget)
            found[budget] = coarse(encoded, budget, entrant.similarities, begin, entrant.tau_f)
        latency = {budget: latency_ms(searching, budget) for budget in able}
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
    encoded = _embeddings(entrant, data, split, work, lambda what, done, total: None)
    items = [row.region_id for row in encoded.regions]
    name = entrant.similarities[-1]
    scorer = RegionScorer(encoded, [name], entrant.tau_f)
    for budget in budgets:
        query = queries_of(encoded, budget, scorer.kinds)
        for v, video in enumerate(encoded.videos):
            yield video.video_id, budget, items, scorer.scores(query(v))[name]


def random_starts(encoded: Embeddings, budget: int, seed: int = SEED) -> Ints:
    """A first keyframe for each video such that the prefix stays inside it."""
    rng = np.random.default_rng(seed)
    return np.array([int(rng.integers(0, max(0, len(keys) - budget) + 1)) for keys in encoded.keyframes], np.int64)


def fine_rows(
    entrants: Sequence[Entrant],
    data: Dataset,
    split: str,
    work: Path,
    report: Progress,
    *,
    budgets: Sequence[int] = BUDGETS,
    galleries: Sequence[GalleryKind] = ("gps", "grid"),
    candidates: int = 10,
    similarity: str | None = None,
    decoder: TileDecoder | None = None,
    timed: bool = False,
) -> list[FineRow]:
    """Coarse to fine, for every budget and gallery, with the first candidates and with SWRL, on all frames.

    With a decoder, the entrant that it was trained for is also matched by it, and by our path on the map's grid; with
    the shortest and the longest prefix.

    timed: measure how long a frame takes to encode, too.
    """
    rows = []
    for entrant in entrants:
        encoded = _embeddings(entrant, data, split, work, report)
        kind = similarity or entrant.similarities[-1]
        frames = [np.arange(a, b) for a, b in zip(encoded.first_frame[:-1], encoded.first_frame[1:], strict=True)]
        size, latency = entrant.parameters, frame_latency_ms(encoded.encoder) if timed else None
        if entrant.whole_gallery:
            rows.append(_whole_gallery_row(entrant, encoded, frames, latency))
            continue
        searched = encoded if entrant.screen is None else Embeddings(data, split, entrant.screen, work, report)
        able = [budget for budget in budgets if searched.encoder.spec.accepts_prefix(budget)]
        for budget in able:
            by_start = {0: coarse(searched, budget, [kind], temperature=entrant.tau_f)[kind]}
            for start, _ in clip_windows("swrl", max(len(keys) for keys in encoded.keyframes), budget):
                if start not in by_start:
                    last = np.array([len(keys) - 1 for keys in encoded.keyframes])
                    by_start[start] = coarse(searched, budget, [kind], np.minimum(start, last), entrant.tau_f)[kind]
            gate = (by_start[0].top[:, :candidates] == encoded.region_of[:, None]).any(1)
            for gallery in galleries:
                tiles = tile_gallery(encoded, gallery)
                for label, policy in (("once", "once"), ("SWRL", "swrl")):
                    serving = _serving(encoded, by_start, budget, policy)
                    chosen = _candidates(by_start, serving, candidates)
                    found = {"frame": fine(encoded, tiles, frames, chosen)}
                    ends = budget in (min(able), max(able))
                    if decoder is not None and decoder.encoder == encoded.encoder.fingerprint and ends:
                        found["decoder"] = decoded(encoded, tiles, frames, chosen, decoder)
                        if gallery == "grid":
                            scores = _scores(by_start, serving, candidates)
                            found["path"] = along_path(encoded, frames, chosen, scores)
                    rows += [
                        FineRow(entrant.run, entrant.model, kind, budget, gallery, label, result, gate, size, latency,
                                matching)
                        for matching, result in found.items()
                    ]  # fmt: skip
    return rows


def _whole_gallery_row(entrant: Entrant, encoded: Embeddings, frames: Sequence[Ints], latency: float | None) -> FineRow:
    """Each frame by itself among the tiles of all regions, centred on the cameras' places."""
    every = np.arange(len(encoded.regions))
    chosen = [[every] * len(rows) for rows in frames]
    found = fine(encoded, tile_gallery(encoded, "gps"), frames, chosen)
    gate = np.ones(len(encoded.videos), np.bool_)
    return FineRow(
        entrant.run, entrant.model, "frames", 1, "gps", "all regions", found, gate, entrant.parameters, latency
    )


def _serving(encoded: Embeddings, by_start: dict[int, Coarse], budget: int, policy: str) -> list[list[int]]:
    """By which window each frame of each video has its candidates; the first serves from the first frame on."""
    out = []
    for keys, rows in zip(encoded.keyframes, encoded.frames, strict=True):
        full = clip_windows(policy, len(keys), budget)
        serving = []
        for frame in range(len(rows)):
            ready = [start for start, last in full if keys[last] <= frame]
            serving.append(ready[-1] if ready else 0)
        out.append(serving)
    return out


def _candidates(by_start: dict[int, Coarse], serving: list[list[int]], count: int) -> list[list[Ints]]:
    """The candidate regions of every frame of every video; frames that share a window share an array."""
    tops = [{start: found.top[v, :count] for start, found in by_start.items()} for v in range(len(serving))]
    return [[tops[v][start] for start in starts] for v, starts in enumerate(serving)]


def _scores(by_start: dict[int, Coarse], serving: list[list[int]], count: int) -> list[list[Floats]]:
    """The similarities of the same regions."""
    return [
        [by_start[start].top_scores[v, :count].astype(np.float64) for start in starts]
        for v, starts in enumerate(serving)
    ]


def clip_windows(policy: str, keyframes: int, budget: int) -> list[tuple[int, int]]:
    """The windows that a refresh policy searches on a clip: first and last keyframe of each."""
    settings = LocalizeSettings(policy=policy, budget=budget)
    times = [settings.keyframe_spacing_s * k for k in range(keyframes)]
    return searched_windows(policies.get(policy)(settings), times, budget)


def random_start_rows(
    entrants: Sequence[Entrant], data: Dataset, split: str, work: Path, report: Progress,
    budgets: Sequence[int] = (1, 2, 4),
) -> tuple[list[PrefixRow], list[FineRow], dict[int, Ints], int]:  # fmt: skip
    """Random start: coarse rows, fine rows on the keyframes from the start on, the drawn starts, and the gallery."""
    plain = [entrant for entrant in entrants if entrant.encoder is not None]
    coarse_rows, gallery = prefix_rows(plain, data, split, work, report, budgets, random_starts)
    fine_found: list[FineRow] = []
    drawn: dict[int, Ints] = {}
    for entrant in plain:
        encoded = _embeddings(entrant, data, split, work, report)
        kind = entrant.similarities[-1]
        tiles = tile_gallery(encoded, "gps")
        for budget in budgets:
            starts = drawn[budget] = random_starts(encoded, budget)
            found = coarse(encoded, budget, [kind], starts, entrant.tau_f)[kind]
            frames = [
                encoded.first_frame[v] + np.array(keys[starts[v] :], np.int64)
                for v, keys in enumerate(encoded.keyframes)
            ]
            chosen = [[top] * len(rows) for top, rows in zip(found.top, frames, strict=True)]
            gate = (found.top == encoded.region_of[:, None]).any(1)
            fine_found.append(
                FineRow(entrant.run, entrant.model, kind, budget, "gps", "once",
                        fine(encoded, tiles, frames, chosen), gate)
            )  # fmt: skip
    return coarse_rows, fine_found, drawn, gallery


def _embeddings(entrant: Entrant, data: Dataset, split: str, work: Path, report: Progress) -> Embeddings:
    if entrant.encoder is None:
        raise UserError(
            f"{entrant.run} is a rankings file of regions: it has no frames.", "Score it with --protocol coarse."
        )
    return Embeddings(data, split, entrant.encoder, work, report)
