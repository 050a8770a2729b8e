"""Coarse to fine: the best regions for a prefix, then each frame among their tiles. A frame is right within 80 m.

Two galleries: tiles centred on the places where cameras were (GPS), as in the paper, and the tiles of the map's grid at
half stride, which is what a deployment has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from x2localizer import geo
from x2localizer.evaluate.embed import Embeddings, grid_places
from x2localizer.types import Bools, Codes, Floats, Ints

GalleryKind = Literal["gps", "grid"]
NEVER = 1 << 40
"""The rank of a frame none of whose candidate tiles is right."""
METRES_PER_DEGREE = 111_320.0
DOUBT = 0.08
"""A flat map is off by far less than this share at 80 m; distances in between are worked out on the ellipsoid."""


@dataclass(frozen=True, slots=True, eq=False)
class TileGallery:
    """Tiles ordered by region: codes (t, d), latitude and longitude (t, 2), where each region starts (r + 1,), and in a
    map's grid a number for each tile, the same where regions share it (t,)."""

    codes: Codes
    places: Floats
    first: Ints
    ids: Ints | None = None

    def of(self, regions: Ints) -> Ints:
        """The rows of the tiles of some regions; a tile that several regions share counts once."""
        if not len(regions):
            return np.zeros(0, np.int64)
        rows = np.concatenate([np.arange(self.first[r], self.first[r + 1]) for r in regions])
        if self.ids is None:
            return rows
        _, kept = np.unique(self.ids[rows], return_index=True)
        return rows[np.sort(kept)]


@dataclass(frozen=True, slots=True, eq=False)
class Fine:
    """By frame: the rank of the first right tile (NEVER if there is none), and the distance of the best tile in metres;
    both (f,). ``video`` says to which video each belongs."""

    ranks: Ints
    errors_m: Floats
    video: Ints


def tile_gallery(split: Embeddings, kind: GalleryKind) -> TileGallery:
    """All tiles of the split, by region."""
    if kind == "grid":
        codes = split.grid_codes
        r, m = codes.shape[:2]
        places = np.stack([grid_places(row) for row in split.regions]).reshape(-1, 2)
        half = np.arange(m)
        ids = np.stack([
            (2 * row.y + half[:, None]) * (1 << row.zoom + 2) + (2 * row.x + half) for row in split.regions
        ])  # fmt: skip
        return TileGallery(
            codes.reshape(r * m * m, *codes.shape[3:]), places, np.arange(r + 1) * m * m, ids.reshape(-1)
        )
    region = np.repeat(split.region_of, np.diff(split.first_frame))
    there = ~np.isnan(split.tile_codes[:, 0, 0])
    order = np.flatnonzero(there)[np.argsort(region[there], kind="stable")]
    counts = np.bincount(region[there], minlength=len(split.regions))
    return TileGallery(split.tile_codes[order], split.places[order], np.concatenate([[0], np.cumsum(counts)]))


def fine(split: Embeddings, tiles: TileGallery, frames: Sequence[Ints], candidates: Sequence[Sequence[Ints]]) -> Fine:
    """Match frames of each video with the tiles of candidate regions.

    ``frames[v]`` are rows of all frames; ``candidates[v]`` names the candidate regions of each of them (arrays may be
    shared between frames, and are then matched together).
    """
    ranks, errors, video = [], [], []
    for v, (rows, regions) in enumerate(zip(frames, candidates, strict=True)):
        for part, chosen in _alike(rows, regions):
            gallery = tiles.of(chosen)
            if not len(gallery):  # no frame of these regions has a tile
                ranks.append(np.full(len(part), NEVER))
                errors.append(np.full(len(part), np.inf))
                video.append(np.full(len(part), v))
                continue
            scores = best_headings(split.frame_codes[part], tiles.codes[gallery])
            away = distances_m(split.places[part], tiles.places[gallery])
            ranks.append(right_ranks(scores, away <= geo.RIGHT_WITHIN_M))
            best = scores.argmax(1)
            errors.append(away[np.arange(len(part)), best])
            video.append(np.full(len(part), v))
    return Fine(np.concatenate(ranks), np.concatenate(errors), np.concatenate(video))


def best_headings(frames: Codes, tiles: Codes) -> Codes:
    """Frames (f, d) with tiles (t, headings, d), each in the heading that suits best: (f, t)."""
    t, headings, d = tiles.shape
    products = np.asarray(frames @ tiles.reshape(t * headings, d).T)
    best: Codes = products.reshape(len(frames), t, headings).max(2)
    return best


def _alike(rows: Ints, regions: Sequence[Ints]) -> list[tuple[Ints, Ints]]:
    """Runs of frames that have the same candidates."""
    out: list[tuple[list[int], Ints]] = []
    for row, chosen in zip(rows.tolist(), regions, strict=True):
        if out and out[-1][1] is chosen:
            out[-1][0].append(row)
        else:
            out.append(([row], chosen))
    return [(np.array(found, np.int64), chosen) for found, chosen in out]


def right_ranks(scores: Codes, right: Bools) -> Ints:
    """The rank of the best right tile of each frame, (f, t) -> (f,); wrong tiles that score as high come before it."""
    if np.isnan(scores).any():
        raise ValueError("a score is not a number")
    best = np.where(right, scores, -np.inf).max(1)
    ranks = 1 + ((scores >= best[:, None]) & ~right).sum(1)
    return np.where(right.any(1), ranks, NEVER).astype(np.int64)


def distances_m(a: Floats, b: Floats) -> Floats:
    """Distances of places (f, 2) from places (t, 2) in degrees, (f, t): on a flat map, and near 80 m exactly."""
    lat, lon = a[:, None, 0], a[:, None, 1]
    north = (b[None, :, 0] - lat) * METRES_PER_DEGREE
    east = ((b[None, :, 1] - lon + 180) % 360 - 180) * METRES_PER_DEGREE * np.cos(np.radians(lat))
    out = np.hypot(north, east)
    limit = geo.RIGHT_WITHIN_M
    f, t = np.nonzero((out > limit * (1 - DOUBT)) & (out < limit * (1 + DOUBT)))
    if len(f):
        out[f, t] = geo.distance_m(a[f, 0], a[f, 1], b[t, 0], b[t, 1])
    return out
