"""Temporal decoding: the beam of a decoder over the best tiles of every frame, and the belief that follows it.

A hypothesis is a path through earlier frames. At each frame every hypothesis gives each tile a probability; for each
tile the best hypothesis that leads to it is kept, and the best of those form the next beam. Only the past counts, and a
beam lives on when SWRL replaces the candidate regions: paths are kept as places, not as tiles of a region.

:class:`Beams` follows many sequences at once. :func:`decode_plainly` is the same, step by step and one by one; tests
compare the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from x2localizer import geo
from x2localizer.config import LocalizeSettings
from x2localizer.encoders.tile_decoder import LOOK_BACK, REMEMBERED, TileChoices, TileDecoder, log_odds
from x2localizer.gallery.tiles import TileGrid
from x2localizer.localize.belief import Belief, Match, half_columns
from x2localizer.motion import HEADINGS
from x2localizer.types import Bools, Codes, Floats, Ints

BEAM = 8
"""Hypotheses that are kept."""
FORGETTING = 0.9
"""What the score of a path counts for at the next frame: a path that was wrong for long can be given up."""
IMPOSSIBLE = -1e9


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What h hypotheses of each of s sequences chose, the latest first.

    xy_m: metres, (s, h, 26, 2).
    facts: time in seconds, log odds and similarity of each choice, (s, h, 26, 3).
    there: which choices there are, (s, h, 26).
    score: log-probability, (s, h); very low for hypotheses that do not exist.
    """

    xy_m: Floats
    facts: Floats
    there: Bools
    score: Floats

    @staticmethod
    def empty(sequences: int, beam: int) -> Memory:
        """One hypothesis for each sequence, which has chosen nothing yet."""
        score = np.full((sequences, beam), IMPOSSIBLE)
        score[:, 0] = 0.0
        shape = (sequences, beam, REMEMBERED)
        return Memory(np.zeros((*shape, 2)), np.zeros((*shape, 3)), np.zeros(shape, np.bool_), score)


class Beams:
    """Follows sequences by a decoder: the tiles of the next frame of each in, their probabilities out."""

    def __init__(self, decoder: TileDecoder, sequences: int, beam: int = BEAM, forgetting: float = FORGETTING) -> None:
        self._decoder, self._beam, self._forgetting = decoder, beam, forgetting
        self.memory = Memory.empty(sequences, beam)

    def step(self, times_s: Floats, xy_m: Floats, similarity: Codes, there: Bools) -> Floats:
        """The probability of each tile, (s, k), after the frames of a time, one for each sequence.

        times_s: (s,). xy_m, similarity, there: the frames' tiles, (s, k, 2), (s, k), (s, k). A sequence without a tile
        keeps its memory, and its probabilities are zero.
        """
        memory, odds = self.memory, log_odds(similarity, there)
        s, k = there.shape
        scores = np.full((s, self._beam, k), IMPOSSIBLE)
        seen: Bools = np.any(there, axis=1)
        live = (memory.score > IMPOSSIBLE / 2) & seen[:, None]
        row, hypothesis = np.nonzero(live)
        if not len(row):
            return np.zeros((s, k))
        inputs = step_inputs(
            memory.xy_m[row, hypothesis], memory.facts[row, hypothesis], memory.there[row, hypothesis],
            times_s[row], xy_m[row], similarity[row], odds[row], there[row],
        )  # fmt: skip
        found = self._decoder.step(*inputs).astype(np.float64)
        scores[row, hypothesis] = (
            self._forgetting * memory.score[row, hypothesis, None] + np.where(there[row], found, IMPOSSIBLE)
        )  # fmt: skip
        self._keep_best(scores, times_s, xy_m, similarity, odds, there)
        return _shares(scores, seen)

    def _keep_best(
        self, scores: Floats, times_s: Floats, xy_m: Floats, similarity: Codes, odds: Codes, there: Bools
    ) -> None:
        """Make the next beam: for each tile the best hypothesis that leads to it, and of these the best."""
        memory, beam, s = self.memory, self._beam, len(there)
        origin, best = scores.argmax(1), scores.max(1)  # (s, k)
        kept = np.argsort(-best, 1, kind="stable")[:, :beam]  # (s, min(beam, k))
        rows = np.arange(s)[:, None]
        parent = origin[rows, kept]
        score = np.full((s, beam), IMPOSSIBLE)
        score[:, : kept.shape[1]] = best[rows, kept]
        score = np.where(score > IMPOSSIBLE / 2, score - score.max(1, keepdims=True), IMPOSSIBLE)
        chosen = np.stack([
            np.broadcast_to(times_s[:, None], kept.shape), odds[rows, kept], similarity[rows, kept]
        ], -1)  # fmt: skip
        facts, places, marks = (np.zeros_like(v) for v in (memory.facts, memory.xy_m, memory.there))
        n = kept.shape[1]
        places[:, :n] = np.concatenate([xy_m[rows, kept][:, :, None], memory.xy_m[rows, parent][:, :, :-1]], 2)
        facts[:, :n] = np.concatenate([chosen[:, :, None], memory.facts[rows, parent][:, :, :-1]], 2)
        marks[:, :n] = np.concatenate([np.ones((s, n, 1), np.bool_), memory.there[rows, parent][:, :, :-1]], 2)
        moved: Bools = np.any(there, axis=1)
        self.memory = Memory(
            np.where(moved[:, None, None, None], places, memory.xy_m),
            np.where(moved[:, None, None, None], facts, memory.facts),
            np.where(moved[:, None, None], marks, memory.there),
            np.where(moved[:, None], score, memory.score),
        )


def step_inputs(
    past_xy_m: Floats, facts: Floats, past_there: Bools, times_s: Floats, xy_m: Floats, similarity: Codes, odds: Codes,
    there: Bools,
) -> tuple[Codes, Bools, Codes, Bools]:  # fmt: skip
    """What the decoder sees of n memories, (n, 26, ...), and of the tiles that may follow, (n, k, ...)."""
    seen = np.array(LOOK_BACK) - 1
    marks = past_there[:, seen]
    origin = np.where(past_there[:, :1, None], past_xy_m[:, :1], xy_m[:, :1])  # (n, 1, 2)
    past = np.concatenate(
        [past_xy_m[:, seen] - origin, times_s[:, None, None] - facts[:, seen, :1], facts[:, seen, 1:]], 2
    )
    tiles = np.concatenate([xy_m - origin, odds[..., None], similarity[..., None]], 2)
    return (
        np.where(marks[..., None], past, 0.0).astype(np.float32), marks,
        np.where(there[..., None], tiles, 0.0).astype(np.float32), there,
    )  # fmt: skip


def _shares(scores: Floats, live: Bools) -> Floats:
    """The probability of each tile over all hypotheses, (s, h, k) -> (s, k)."""
    top = scores.max((1, 2), keepdims=True)
    weight = np.exp(scores - top).sum(1)
    return np.where(live[:, None], weight / weight.sum(1, keepdims=True), 0.0)


def decode(decoder: TileDecoder, choices: TileChoices, beam: int = BEAM, forgetting: float = FORGETTING) -> Floats:
    """The probability of each tile of each frame, (s, f, k): all sequences side by side."""
    s, f, _ = choices.there.shape
    beams = Beams(decoder, s, beam, forgetting)
    return np.stack([
        beams.step(choices.times_s[:, i], choices.xy_m[:, i], choices.similarity[:, i], choices.there[:, i])
        for i in range(f)
    ], 1)  # fmt: skip


def decode_plainly(
    decoder: TileDecoder, choices: TileChoices, beam: int = BEAM, forgetting: float = FORGETTING
) -> Floats:
    """The same as :func:`decode`: sequence by sequence, hypothesis by hypothesis, with paths as lists."""
    out = np.zeros(choices.there.shape)
    for s in range(len(choices.there)):
        paths: list[tuple[float, list[tuple[int, int]]]] = [(0.0, [])]
        for f in range(choices.there.shape[1]):
            there = choices.there[s, f]
            if not there.any():
                continue
            extended = [
                (forgetting * score + value, [*path, (f, k)], k)
                for score, path in paths
                for k, value in enumerate(_plain_step(decoder, choices, s, f, path))
                if there[k]
            ]
            top = max(score for score, _, _ in extended)
            for score, _, k in extended:
                out[s, f, k] += np.exp(score - top)
            out[s, f] /= out[s, f].sum()
            best = {
                k: max((row for row in extended if row[2] == k), key=lambda row: row[0]) for k in np.flatnonzero(there)
            }
            kept = sorted(best.values(), key=lambda row: -row[0])[:beam]
            paths = [(score - kept[0][0], path) for score, path, _ in kept]
    return out


def _plain_step(decoder: TileDecoder, choices: TileChoices, s: int, f: int, path: list[tuple[int, int]]) -> list[float]:
    """Log-probabilities of a frame's tiles after one path of frames and tiles."""
    odds = log_odds(choices.similarity[s], choices.there[s])
    origin = choices.xy_m[s, path[-1][0], path[-1][1]] if path else choices.xy_m[s, f, 0]
    past, marks = np.zeros((1, len(LOOK_BACK), 5), np.float32), np.zeros((1, len(LOOK_BACK)), np.bool_)
    for number, back in enumerate(LOOK_BACK):
        if back <= len(path):
            i, k = path[-back]
            place = choices.xy_m[s, i, k] - origin
            age = choices.times_s[s, f] - choices.times_s[s, i]
            past[0, number], marks[0, number] = (*place, age, odds[i, k], choices.similarity[s, i, k]), True
    tiles = np.zeros((1, choices.there.shape[2], 4), np.float32)
    for k in np.flatnonzero(choices.there[s, f]).tolist():
        tiles[0, k] = (*(choices.xy_m[s, f, k] - origin), odds[f, k], choices.similarity[s, f, k])
    return [float(v) for v in decoder.step(past, marks, tiles, choices.there[s, f][None])[0]]


class DecodedBelief(Belief):
    """A belief over the best tiles of the latest frame, as a temporal decoder chooses among them."""

    def __init__(self, grid: TileGrid, regions: Floats, settings: LocalizeSettings, decoder: TileDecoder) -> None:
        super().__init__(grid, regions, settings)
        self._decoder, self._beams, self._time_s = decoder, Beams(decoder, 1), 0.0
        self._origin = grid.regions[0]

    def carried_over(self, grid: TileGrid, regions: Floats, restart_share: float | None = None) -> DecodedBelief:
        """The same paths on new candidates; what they hold of tiles is seen with the next frame."""
        fresh = DecodedBelief(grid, regions, self.settings, self._decoder)
        fresh.frames, fresh._recent = self.frames, self._recent
        fresh._beams, fresh._time_s, fresh._origin = self._beams, self._time_s, self._origin
        fresh.mass = self._on(grid)
        return fresh

    def update(self, code: Codes, seconds: float) -> Match:
        """Take in a frame's code (d,), ``seconds`` after the previous frame; returns the best place."""
        similarity = (self.grid.codes @ code).max(-1)
        similarity[~self.grid.valid] = -np.inf
        c, rows, columns = best_tiles(self.grid, similarity, self._decoder.settings.tiles)
        self.frames += 1
        self._time_s += seconds
        places = self._metres(c, rows, columns)
        shares = self._beams.step(
            np.array([self._time_s]), places[None], similarity[c, rows, columns][None], np.ones((1, len(c)), np.bool_)
        )[0]
        self.mass = np.zeros_like(self.mass)
        self.mass[:, c, rows, columns] = shares / HEADINGS
        match = self.best(code)
        self._recent = match.recent
        return match

    def best(self, code: Codes) -> Match:
        """The most probable tile as things stand."""
        places = self.mass.sum(0)
        c, row, column = (int(v) for v in np.unravel_index(int(np.argmax(places)), places.shape))
        similarity = float((self.grid.codes[c, row, column] @ code).max())
        return Match(c, row, column, similarity, self._faded(similarity), self._share(c, row, column))

    def _metres(self, c: Ints, rows: Ints, columns: Ints) -> Floats:
        """Metres east and north of the first region that was seen, (k, 2)."""
        half_m, world = self._tile_m / 2, 2 << self._origin.z
        x = np.array([self.grid.regions[i].x for i in c]) * 2 + columns - 2 * self._origin.x
        y = np.array([self.grid.regions[i].y for i in c]) * 2 + rows - 2 * self._origin.y
        return np.stack([((x + world / 2) % world - world / 2) * half_m, -y * half_m], 1)


def best_tiles(grid: TileGrid, similarity: Codes, most: int) -> tuple[Ints, Ints, Ints]:
    """The best tiles of some regions, best first: candidate, row and column of each; what regions share counts once."""
    m = similarity.shape[1]
    half = np.arange(m)
    keys = np.stack([
        (2 * region.y + half[:, None]) * (2 << region.z) + half_columns(region, half) for region in grid.regions
    ]).reshape(-1)  # fmt: skip
    flat = similarity.reshape(-1)
    order = np.argsort(-flat, kind="stable")
    order = order[np.isfinite(flat[order])]
    _, first = np.unique(keys[order], return_index=True)
    best = order[np.sort(first)[:most]]
    c, rows, columns = np.unravel_index(best, similarity.shape)
    return c.astype(np.int64), rows.astype(np.int64), columns.astype(np.int64)


def metres_east_north(places: Floats, origin: Floats) -> Floats:
    """Latitudes and longitudes (..., 2) as metres east and north of an origin (2,), on a flat map."""
    metre = geo.tile_size_m(0.0, 0) / 360.0
    east = (places[..., 1] - origin[1] + 180.0) % 360.0 - 180.0
    return np.stack([east * metre * np.cos(np.radians(origin[0])), (places[..., 0] - origin[0]) * metre], -1)
