"""Splits that share no ground, chosen so that few clips are lost.

Two ways are tried. Strips of the map: along either axis, in any order, cut where the fewest regions lie across the cut.
Pieces of the map: groups of clips whose regions overlap stay together. The cheapest way wins, where a clip that is lost
costs as much as a clip that is in another split than the shares ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

import numpy as np

from x2localizer.types import Floats, Ints, Region

_MOST_CUTS = 256
"""Places along an axis that are tried for a cut."""
_NOWHERE = -1
"""The split of a clip that is left out."""


def split_ground(regions: Mapping[str, Region], shares: Mapping[str, float]) -> dict[str, str]:
    """The split of each clip by its id, without the clips that would share ground with another split.

    ``regions`` holds the region of each clip, all of one zoom and size. ``shares`` holds the share of clips that each
    split should get; splits with a share of 0 get none. Where there is too little ground, other splits get none either.
    """
    splits = [name for name, share in shares.items() if share > 0]
    clips = sorted(regions)
    if not clips:
        return {}
    corners = _corners([regions[clip] for clip in clips])
    n = regions[clips[0]].n
    wanted = np.array([shares[name] for name in splits]) / sum(shares.values())
    orders = list(permutations(range(len(splits))))
    ways = [_strips(corners, n, axis, order, wanted) for axis in (0, 1) for order in orders]
    ways.append(_pieces(corners, n, wanted))
    costs = [float(_cost(np.bincount(way[way >= 0], minlength=len(splits)), len(clips), wanted)) for way in ways]
    best = _add_free(corners, n, ways[int(np.argmin(costs))])
    return {clip: splits[split] for clip, split in zip(clips, best, strict=True) if split != _NOWHERE}


def _corners(regions: Sequence[Region]) -> Ints:
    """North-west corners in tiles, shape (clips, 2); columns do not wrap at the antimeridian."""
    world = 1 << regions[0].z
    columns = [(region.x - regions[0].x + world // 2) % world for region in regions]
    return np.array([columns, [region.y for region in regions]], np.int64).T


def _cost(counts: Ints, clips: int, wanted: Floats) -> Floats:
    """Clips lost plus clips in the wrong split; an empty split costs more than both. ``counts`` is (splits, ...)."""
    kept = counts.sum(0)
    shares = wanted.reshape(-1, *[1] * (counts.ndim - 1))
    misplaced = np.abs(counts - shares * kept).sum(0) / 2
    cost: Floats = (clips - kept) + misplaced + 2.0 * clips * (counts == 0).sum(0)
    return cost


def _strips(corners: Ints, n: int, axis: int, order: Sequence[int], wanted: Floats) -> Ints:
    """The split of each clip, (clips,): strips across an axis in some order, cut where it costs least."""
    cuts = _best_cuts(corners[:, axis], n, order, wanted)
    strip = np.searchsorted(cuts, corners[:, axis], side="right")
    across = np.searchsorted(cuts, corners[:, axis] + n, side="left") != strip
    return np.where(across, _NOWHERE, np.asarray(order)[strip])


def _best_cuts(low: Ints, n: int, order: Sequence[int], wanted: Floats) -> Ints:
    """Where to cut clips that reach from ``low`` to ``low + n`` into as many strips as there are splits."""
    ordered = np.sort(low)
    places: Ints = np.unique(ordered)[1:]  # a cut between two of these is never better than at the second
    if len(order) == 1 or not len(places):
        return np.full(len(order) - 1, ordered[-1] + n, np.int64)
    places = places[np.unique(np.linspace(0, len(places) - 1, _MOST_CUTS).round().astype(int))]
    before = np.searchsorted(ordered, places - n, side="right")  # clips that end before a cut
    behind = len(ordered) - np.searchsorted(ordered, places, side="left")
    if len(order) == 2:
        counts = np.stack([before, behind])
        cuts = np.array([int(np.argmin(_cost(counts, len(low), wanted[list(order)])))])
        return np.asarray(places[cuts], np.int64)
    between = np.maximum(before[None, :] - (len(ordered) - behind)[:, None], 0)  # (first cut, second cut)
    counts = np.stack(np.broadcast_arrays(before[:, None], between, behind[None, :]))
    costs = _cost(counts, len(low), wanted[list(order)])
    costs[np.tril_indices(len(places), -1)] = np.inf
    return np.asarray(places[list(np.unravel_index(int(np.argmin(costs)), costs.shape))], np.int64)


def _add_free(corners: Ints, n: int, split: Ints) -> Ints:
    """Add clips that lie across a cut but overlap one split at most; those that overlap none go to the first."""
    ground: dict[tuple[int, int], int] = {}
    for clip in np.flatnonzero(split != _NOWHERE):
        ground.update(dict.fromkeys(_cells(corners[clip], n), int(split[clip])))
    for clip in np.flatnonzero(split == _NOWHERE):
        cells = list(_cells(corners[clip], n))
        owners = {ground[cell] for cell in cells if cell in ground}
        if len(owners) <= 1:
            split[clip] = owners.pop() if owners else 0
            ground.update(dict.fromkeys(cells, int(split[clip])))
    return split


def _pieces(corners: Ints, n: int, wanted: Floats) -> Ints:
    """The split of each clip, (clips,): clips whose regions overlap are in the same split, so that none is lost."""
    pieces = sorted(_connected(corners, n), key=lambda piece: (-len(piece), piece[0]))
    split = np.full(len(corners), _NOWHERE, np.int64)
    filled = np.zeros(len(wanted))
    for number, piece in enumerate(pieces):
        lacks = wanted * len(corners) - filled
        if len(pieces) - number <= (filled == 0).sum():  # the last pieces go to splits that have none
            lacks[filled > 0] = -np.inf
        chosen = int(np.argmax(lacks))
        split[piece] = chosen
        filled[chosen] += len(piece)
    return split


def _connected(corners: Ints, n: int) -> list[list[int]]:
    """Groups of clips that are connected by overlapping regions."""
    clips_on: dict[tuple[int, int], list[int]] = {}
    for clip, corner in enumerate(corners):
        for cell in _cells(corner, n):
            clips_on.setdefault(cell, []).append(clip)
    group = np.full(len(corners), -1)
    groups: list[list[int]] = []
    for first in range(len(corners)):
        if group[first] >= 0:
            continue
        group[first] = len(groups)
        members, waiting = [first], [first]
        while waiting:
            for cell in _cells(corners[waiting.pop()], n):
                for clip in clips_on.pop(cell, ()):
                    if group[clip] < 0:
                        group[clip] = len(groups)
                        members.append(clip)
                        waiting.append(clip)
        groups.append(sorted(members))
    return groups


def _cells(corner: Ints, n: int) -> Iterator[tuple[int, int]]:
    """The tiles of a region."""
    x, y = int(corner[0]), int(corner[1])
    return ((x + column, y + row) for column in range(n) for row in range(n))
