"""What is known of the ground: where roads are, and which tile looks how. Flat arrays over the patches of a map."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from x2localizer import geo
from x2localizer.gallery.blocks import TileBlock
from x2localizer.gallery.grid import BLOCK
from x2localizer.gallery.store import Gallery
from x2localizer.localize.track.kernels import HALVES, NEAR_ROADS, Int32, UInt8, stamp_roads
from x2localizer.localize.track.patches import METRES_AROUND, Patches, patches_around
from x2localizer.search.codes import ByteCodes, ByteQuery, byte_product, to_bytes
from x2localizer.search.prior import Prior
from x2localizer.sources.roads import Roads
from x2localizer.types import Bools, Codes, Floats, Ints, Region

Number = TypeVar("Number", bound=np.generic)
ROAD_POINTS_M = 2.0
"""Distance of the points by which roads are entered into the field."""
REACH_M = 20.0
"""Distance from a road up to which the field knows it."""
CROSSING_RAD = np.radians(25.0)
"""Roads whose directions differ by more are two roads to a cell."""


@dataclass(frozen=True, slots=True, eq=False)
class RoadField:
    """Roads of a map.

    x, y, headings: points along all roads, a few metres apart: places in tiles, radians clockwise from north, (n,).
    patch: which patch holds each point, (n,).
    cells: distance and direction of the nearest road and of a road that crosses it, for each cell, (cells, 4).
    offsets: where each patch begins among the cells.
    """

    patches: Patches
    x: Floats
    y: Floats
    headings: Floats
    patch: Ints
    cells: UInt8
    offsets: Ints

    @staticmethod
    def of(roads: Roads, patches: Patches) -> RoadField | None:
        """The field of some roads; None if no road lies on the patches."""
        x, y, headings = _points_along(roads, patches)
        patch = patches.holding(x, y)
        inside = patch >= 0
        if not inside.any():
            return None
        x, y, headings, patch = x[inside], y[inside], headings[inside], patch[inside]
        offsets = patches.offsets(NEAR_ROADS)
        cells = np.full((int(offsets[-1]), 4), 255, np.uint8)
        stamp_roads(
            np.stack([x, y], 1), headings, patch, patches.corners, offsets, patches.world, REACH_M,
            METRES_AROUND / patches.world, float(CROSSING_RAD), cells,
        )  # fmt: skip
        return RoadField(patches, x, y, headings, patch.astype(np.int64), cells, offsets)


def _points_along(roads: Roads, patches: Patches) -> tuple[Floats, Floats, Floats]:
    """Places and headings every ROAD_POINTS_M along all roads."""
    parts: list[tuple[Floats, Floats, Floats]] = []
    for number in range(len(roads)):
        line = roads.line(number)
        x, y = patches.tile_coordinates(line[:, 0], line[:, 1])
        x = np.unwrap(x, period=patches.world)
        length = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)) * patches.tile_m(y[:-1]))])
        if length[-1] <= 0.0:
            continue
        at = (np.arange(max(2, int(length[-1] / ROAD_POINTS_M) + 1)) + 0.5) * ROAD_POINTS_M
        at = np.minimum(at, length[-1] * 0.999)
        segment = np.clip(np.searchsorted(length, at, "right") - 1, 0, len(length) - 2)
        heading = np.arctan2(np.diff(x), -np.diff(y))[segment]
        parts.append((np.interp(at, length, x) % patches.world, np.interp(at, length, y), heading))
    if not parts:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    xs, ys, headings = zip(*parts, strict=True)
    return np.concatenate(xs), np.concatenate(ys), np.concatenate(headings)


@dataclass(frozen=True, slots=True, eq=False)
class TileField:
    """Tiles of a map at half stride.

    codes: image codes of the tiles that hold data, (t, d), or in 8 bits, (t headings, 1, d).
    headings: codes of each tile.
    cells: the cell of each, (t,).
    offsets: where each patch begins among the cells.
    tile_at: the tile of each cell, (cells,); -1 where there is none.
    """

    patches: Patches
    codes: Codes | ByteCodes
    headings: int
    cells: Ints
    offsets: Ints
    tile_at: Int32

    @staticmethod
    def of(blocks: Iterable[TileBlock], patches: Patches, prior: Prior | None = None) -> TileField | None:
        """The field of blocks of tiles; None if none holds data. With a prior, only the tiles that it allows."""
        offsets = patches.offsets(HALVES)
        cells: list[Ints] = []
        codes: list[Codes | ByteCodes] = []
        headings = 1
        for block in blocks:
            ends = np.array([0.5, BLOCK - 0.5])
            first, last = patches.holding((block.x + ends) % patches.world, block.y + ends)
            if first < 0 or first != last:  # a prior left it out, though the margin of a patch reaches into it
                continue
            patch = int(first)
            rows, columns = np.nonzero(block.valid & _allowed(block, patches.zoom, prior))
            x0, y0, width, _ = patches.corners[patch]
            column = ((block.x - x0) % int(patches.world)) * HALVES + columns
            cells.append(offsets[patch] + ((block.y - y0) * HALVES + rows) * width * HALVES + column)
            codes.append(_packed(block.codes[rows, columns]))
            headings = block.codes.shape[2]
        if not cells or not sum(map(len, cells)):
            return None
        joined = np.concatenate(cells)
        tile_at = np.full(int(offsets[-1]), -1, np.int32)
        tile_at[joined] = np.arange(len(joined))
        return TileField(patches, _joined(codes), headings, joined, offsets, tile_at)

    def compared(self, code: Codes) -> Codes:
        """Similarities of a frame with all tiles, (t, headings)."""
        if not isinstance(self.codes, ByteCodes):
            return (self.codes @ code)[:, None]
        values = self.codes.values[:, 0]
        fine = ByteQuery.of(np.stack([code, _rest(code)]))  # the frame, and what 7 bits of it leave over
        products = byte_product(1).run(None, {"a": values, "b": fine.columns})[0]
        both: Codes = ((products - fine.zero) * fine.step).sum(1) * self.codes.scale
        return both.astype(np.float32).reshape(-1, self.headings)

    def in_region(self, region: Region) -> Int32:
        """The tiles of a region at half stride, (m, m) with m = 2 n - 1; -1 where there is none."""
        m = 2 * region.n - 1
        found = np.full((m, m), -1, np.int32)
        patch = int(self.patches.holding(np.array([region.x + region.n / 2]), np.array([region.y + region.n / 2]))[0])
        if patch < 0:
            return found
        x0, y0, width, height = (int(value) for value in self.patches.corners[patch])
        world = int(self.patches.world)
        east = (region.x - x0 + world // 2) % world - world // 2
        columns, rows = east * HALVES + np.arange(m), (region.y - y0) * HALVES + np.arange(m)
        in_x, in_y = (columns >= 0) & (columns < width * HALVES), (rows >= 0) & (rows < height * HALVES)
        cells = int(self.offsets[patch]) + rows[in_y][:, None] * width * HALVES + columns[in_x]
        found[np.ix_(in_y, in_x)] = self.tile_at[cells]
        return found

    def places(self) -> tuple[Floats, Floats]:
        """The middles of all tiles: columns and rows, (t,) each."""
        patch = np.searchsorted(self.offsets, self.cells, "right") - 1
        x0, y0, width, _ = self.patches.corners[patch].T
        row, column = np.divmod(self.cells - self.offsets[patch], width * HALVES)
        return (x0 + (column + 1) / HALVES) % self.patches.world, y0 + (row + 1) / HALVES


def _packed(codes: Codes) -> Codes | ByteCodes:
    """Codes (t, headings, d) as a field keeps them: of one heading in full, (t, d), of several in 8 bits."""
    t, headings, d = codes.shape
    return codes[:, 0] if headings == 1 else to_bytes(codes.reshape(t * headings, 1, d))


def _joined(parts: list[Codes | ByteCodes]) -> Codes | ByteCodes:
    """All parts as one; each is given up once it is copied, so that they are never in memory twice."""
    small = [part for part in parts if isinstance(part, ByteCodes)]
    full = [part for part in parts if not isinstance(part, ByteCodes)]
    parts.clear()
    if not small:
        return _concatenated(full)
    scale, slack = (np.concatenate([getattr(part, name) for part in small]) for name in ("scale", "slack"))
    values = [part.values for part in small]
    small.clear()
    return ByteCodes(_concatenated(values), scale, slack)


def _concatenated(parts: list[npt.NDArray[Number]]) -> npt.NDArray[Number]:
    """Arrays one after the other; the list is empty afterwards."""
    out = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    end = len(out)
    while parts:
        part = parts.pop()
        out[end - len(part) : end] = part
        end -= len(part)
    return out


def _rest(code: Codes) -> Codes:
    """What a frame's code in 7 bits leaves over, (d,)."""
    query = ByteQuery.of(code[None])
    rest: Codes = code - query.columns[:, 0] * query.step[0]
    return rest.astype(np.float32)


def _allowed(block: TileBlock, zoom: int, prior: Prior | None) -> Bools:
    """Which tiles of a block a prior allows, (16, 16)."""
    if prior is None:
        return np.ones_like(block.valid)
    half = np.arange(len(block.valid)) / HALVES + 0.5
    lats, _ = geo.from_tile_coordinates(np.zeros(len(half)), block.y + half, zoom)
    _, lons = geo.from_tile_coordinates(block.x + half, np.zeros(len(half)), zoom)
    lat, lon = np.meshgrid(lats, geo.wrap_longitude(lons), indexing="ij")
    return prior.contains(lat, lon)


def patches_of(gallery: Gallery, roads: Roads, prior: Prior | None = None) -> Patches:
    """The patches of everything that a gallery holds: its tiles and its roads, as far as a prior allows them."""
    zoom = gallery.manifest.zoom
    corners: list[tuple[int, int]] = list(gallery.corners()) if gallery.has_tiles else []
    points = roads.points_deg
    if prior is not None and len(points):
        points = points[prior.contains(points[:, 0], points[:, 1])]
    x, y = geo.tile_coordinates(points[:, 0], points[:, 1], zoom)
    corners += [(int(a), int(b)) for a, b in np.unique(np.stack([x, y], 1) // BLOCK * BLOCK, axis=0)]
    if prior is not None:
        middles = [geo.from_tile_coordinates(a + BLOCK / 2, b + BLOCK / 2, zoom) for a, b in corners]
        corners = [
            corner
            for corner, (lat, lon) in zip(corners, middles, strict=True)
            if bool(np.any(prior.contains(np.atleast_1d(lat), geo.wrap_longitude(np.atleast_1d(lon)))))
        ] or corners
    return patches_around(corners, zoom, BLOCK)
