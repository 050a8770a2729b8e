"""The temporal decoder on clips: what it is trained on, and frames localized by it, along the path, or one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from x2localizer import geo
from x2localizer.config import LocalizeSettings
from x2localizer.datasets.dataset import Dataset
from x2localizer.encoders import Encoder
from x2localizer.encoders.tile_decoder import TileChoices, TileDecoder
from x2localizer.evaluate.coarse import coarse
from x2localizer.evaluate.embed import Embeddings
from x2localizer.evaluate.fine import (
    NEVER,
    Fine,
    TileGallery,
    best_headings,
    distances_m,
    right_ranks,
    tile_gallery,
)
from x2localizer.gallery.tiles import TileGrid
from x2localizer.localize.belief import Belief
from x2localizer.localize.decoding import decode, metres_east_north
from x2localizer.types import Floats, Ints, Progress

if TYPE_CHECKING:  # needs torch
    from x2localizer.learn.train_decoder import Lesson

LESSON_BUDGETS = (1, 8)
Candidates = Sequence[Sequence[Ints]]
"""The candidate regions of each frame of each video."""


def tile_choices(
    split: Embeddings, tiles: TileGallery, frames: Sequence[Ints], candidates: Candidates, most: int
) -> tuple[TileChoices, Ints]:
    """The best tiles of each frame, and their rows in the gallery, (v, f, k); -1 where there is none."""
    v, f = len(frames), max(len(rows) for rows in frames)
    chosen = np.full((v, f, most), -1, np.int64)
    similarity = np.zeros((v, f, most), np.float32)
    times = np.zeros((v, f))
    time_of = np.array([row.time_s for rows in split.frames for row in rows])
    for number, (rows, regions) in enumerate(zip(frames, candidates, strict=True)):
        times[number, : len(rows)] = time_of[rows]
        for at, (row, around) in enumerate(zip(rows.tolist(), regions, strict=True)):
            if at == 0 or around is not regions[at - 1]:
                gallery = tiles.of(around)
                codes = tiles.codes[gallery]
            if not len(gallery):
                continue
            scores = best_headings(split.frame_codes[row : row + 1], codes)[0]
            best = np.argsort(-scores, kind="stable")[:most]
            chosen[number, at, : len(best)], similarity[number, at, : len(best)] = gallery[best], scores[best]
    there = chosen >= 0
    places = tiles.places[np.maximum(chosen, 0)]
    xy = np.stack([metres_east_north(places[i], origin_of(split, rows)) for i, rows in enumerate(frames)])
    return TileChoices(xy, similarity, there, times), chosen


def origin_of(split: Embeddings, rows: Ints) -> Floats:
    """A place near all frames of a video, (2,): where it begins."""
    return np.asarray(split.places[rows[0]], np.float64)


def lesson(split: Embeddings, tiles: TileGallery, frames: Sequence[Ints], candidates: Candidates, most: int) -> Lesson:
    """What a decoder learns from: the best tiles of all frames, and where the cameras were."""
    from x2localizer.learn.train_decoder import Lesson  # noqa: PLC0415 - torch is heavy

    choices, _ = tile_choices(split, tiles, frames, candidates, most)
    truth = np.zeros((*choices.times_s.shape, 2))
    for number, rows in enumerate(frames):
        xy = metres_east_north(split.places[rows], origin_of(split, rows))
        truth[number, : len(rows)], truth[number, len(rows) :] = xy, xy[-1]
    return Lesson(choices, truth)


def decoded(
    split: Embeddings, tiles: TileGallery, frames: Sequence[Ints], candidates: Candidates, decoder: TileDecoder
) -> Fine:
    """Frames localized by the decoder: its tiles first, as it orders them; the others as their similarities do."""
    choices, chosen = tile_choices(split, tiles, frames, candidates, decoder.settings.tiles)
    shares = decode(decoder, choices)
    ranks, errors, video = [], [], []
    for v, rows in enumerate(frames):
        for at, (row, around) in enumerate(zip(rows.tolist(), candidates[v], strict=True)):
            if at == 0 or around is not candidates[v][at - 1]:
                gallery = tiles.of(around)
                codes = tiles.codes[gallery]
                place_of = {int(tile): i for i, tile in enumerate(gallery)}
            video.append(v)
            if not len(gallery):
                ranks.append(NEVER)
                errors.append(np.inf)
                continue
            scores = best_headings(split.frame_codes[row : row + 1], codes).copy()
            own = [place_of[int(tile)] for tile in chosen[v, at] if tile >= 0]
            scores[0, own] = 100.0 + np.log(np.maximum(shares[v, at, : len(own)], 1e-30))  # above any similarity
            away = distances_m(split.places[row : row + 1], tiles.places[gallery])
            ranks.append(int(right_ranks(scores, away <= geo.RIGHT_WITHIN_M)[0]))
            errors.append(float(away[0, scores[0].argmax()]))
    return Fine(np.array(ranks), np.array(errors), np.array(video))


def along_path(
    split: Embeddings, frames: Sequence[Ints], candidates: Candidates, scores: Sequence[Sequence[Floats]]
) -> Fine:
    """Frames localized by our path matching on the tiles of the map's grid; ``scores`` are those of the candidates.

    A frame counts as right at first rank if the guess, which may lie between tiles, is within 80 m; further ranks are
    those of the tiles by belief.
    """
    settings, ranks, errors, video = LocalizeSettings(), [], [], []
    regions = [row.region for row in split.regions]
    time_of = np.array([row.time_s for rows in split.frames for row in rows])
    for v, rows in enumerate(frames):
        belief: Belief | None = None
        for at, row in enumerate(rows.tolist()):
            around = candidates[v][at]
            if at == 0 or around is not candidates[v][at - 1]:
                codes = np.asarray(split.grid_codes[around])
                grid = TileGrid(tuple(regions[r] for r in around), codes, np.ones(codes.shape[:3], np.bool_))
                own = scores[v][at]
                belief = Belief(grid, own, settings) if belief is None else belief.carried_over(grid, own)
                places = np.array([
                    (place.lat_deg, place.lon_deg)
                    for c in range(len(around)) for i in range(codes.shape[1]) for j in range(codes.shape[2])
                    for place in [grid.place(c, i, j)]
                ])  # fmt: skip
            assert belief is not None
            match = belief.update(split.frame_codes[row], time_of[row] - time_of[rows[max(0, at - 1)]])
            guess = belief.grid.place(match.candidate, match.row, match.column)
            truth = split.places[row]
            error = float(geo.distance_m(guess.lat_deg, guess.lon_deg, truth[0], truth[1]))
            away = distances_m(truth[None], places) <= geo.RIGHT_WITHIN_M
            by_tile = int(right_ranks(belief.mass.sum(0).reshape(1, -1).astype(np.float32), away)[0])
            ranks.append(1 if error <= geo.RIGHT_WITHIN_M else max(2, by_tile))
            errors.append(error)
            video.append(v)
    return Fine(np.array(ranks), np.array(errors), np.array(video))


def lessons_of(
    encoder: Encoder, data: Dataset, split: str, work: Path, report: Progress, most: int, clips: int | None = None
) -> Lesson:
    """What a decoder learns from on a split: all clips, with the candidates of one keyframe and of all, by s_path.

    Tiles are those of the map's grid, which a deployment has; it may be used with others. ``most`` is for each frame;
    ``clips`` is how many are taken, evenly over the split, if not all.
    """
    from x2localizer.learn.train_decoder import Lesson  # noqa: PLC0415 - torch is heavy

    every, videos = data.videos(split), None
    if clips is not None and clips < len(every):
        videos = [every[i] for i in np.linspace(0, len(every) - 1, clips).round().astype(int)]
    encoded = Embeddings(data, split, encoder, work, report, videos=videos)
    frames = [np.arange(a, b) for a, b in pairwise(encoded.first_frame)]
    parts = []
    for budget in LESSON_BUDGETS:
        report(f"candidates of {budget} keyframes", 0, 1)
        top = coarse(encoded, budget, ["s_path"])["s_path"].top
        candidates = [[regions] * len(rows) for regions, rows in zip(top, frames, strict=True)]
        parts.append(lesson(encoded, tile_gallery(encoded, "grid"), frames, candidates, most))
    choices = parts[0].choices
    for part in parts[1:]:
        choices = choices.join(part.choices)
    return Lesson(choices, np.concatenate([part.truth_m for part in parts]))
