"""Codes of a whole country, made up with the statistics of real ones.

The codes of a few towns say how often each kind of ground is there, which kinds lie beside which, how codes of one kind
differ, and how alike neighbours are. Frames of drives through them say how a frame differs from the tile it was taken
in. Both are drawn again for as large an area as is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from x2localizer import geo
from x2localizer.config import TownSettings
from x2localizer.encoders import Bundle
from x2localizer.files import atomic_path
from x2localizer.gallery import Gallery, index
from x2localizer.gallery.blocks import TileBlock, place_id
from x2localizer.gallery.grid import BLOCK, HALVES
from x2localizer.gallery.manifest import GalleryManifest, ImagerySource
from x2localizer.gallery.open import open_for_writing
from x2localizer.search.approximate.codebooks import kmeans, nearest, principal
from x2localizer.town.drive import draw_drive, open_film
from x2localizer.town.folder import save_town
from x2localizer.town.town import Town, build_town
from x2localizer.types import Codes, Ints

KINDS = 48
"""Kinds of ground that are told apart."""
TILE_DIRECTIONS, FRAME_DIRECTIONS = 48, 32
"""Directions of the space of codes in which tiles differ from each other, and in which frames follow their tile."""
BLOCKS_AT_ONCE = 1024
WEST, NORTH = 160_008, 196_008
"""The north-west tile of the country: a multiple of the size of a block and of the usual stride."""
DRIVES = 6
WINDOW = 8

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class CodeStatistics:
    """What codes of tiles and frames are like; h headings, d the length of a code.

    mean, basis: of the codes of a tile in all headings, (h d,) and (h d, p).
    kind_means, kind_factors: of each kind of ground, (k, p); and a root of its covariance, (k, p, p).
    layout: the kind of each tile of the towns, (towns, side, side).
    likeness: correlation of neighbours at half stride within a kind.
    frame_basis, frame_map: from the code of a tile to the mean code of a frame in it, (d, q) and (q + 1, d).
    frame_noise: a root of the covariance of what is left, (q, d).
    """

    mean: Codes
    basis: Codes
    kind_means: Codes
    kind_factors: Codes
    layout: npt.NDArray[np.uint8]
    likeness: float
    frame_basis: Codes
    frame_map: Codes
    frame_noise: Codes

    def save(self, path: Path) -> None:
        """Write the statistics, as arrays."""
        arrays = {name: np.asarray(getattr(self, name)) for name in self.__slots__}
        with atomic_path(path) as target, target.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    @staticmethod
    def load(path: Path) -> CodeStatistics:
        """Read statistics."""
        with np.load(path, allow_pickle=False) as arrays:
            values = {name: arrays[name] for name in CodeStatistics.__slots__}
        return CodeStatistics(**{**values, "likeness": float(values["likeness"])})


def fit_statistics(bundle: Bundle, work: Path, towns: int = 2, seed: int = 9000) -> CodeStatistics:
    """The statistics of a bundle's codes, from towns that it was not trained on and drives through them."""
    path = work / f"statistics-{bundle.fingerprint}-{towns}-{seed}.npz"
    if path.is_file():
        return CodeStatistics.load(path)
    grids, pairs = [], []
    for number in range(towns):
        town = build_town(seed + number, TownSettings(pixels_per_tile=max(64, bundle.spec.tile_px)))
        folder = work / f"town-{town.seed}"
        if not (folder / "aerial.tif").is_file():
            save_town(town, folder)
        grid, corner = _grid(index(folder / "aerial.tif", bundle, work / f"gallery-{bundle.fingerprint}-{town.seed}"))
        grids.append(grid)
        pairs += list(_pairs(town, bundle, grid, corner))
    side = min(min(grid.shape[:2]) for grid in grids)
    statistics = _fitted(np.stack([grid[:side, :side] for grid in grids]), *_joined(pairs))
    statistics.save(path)
    return statistics


def _joined(pairs: list[tuple[Codes, Codes]]) -> tuple[Codes, Codes]:
    return np.concatenate([frames for frames, _ in pairs]), np.concatenate([tiles for _, tiles in pairs])


def _grid(gallery: Gallery) -> tuple[Codes, tuple[int, int]]:
    """The largest square of tiles with data at the middle of a gallery, (side, side, h, d), and its north-west tile."""
    blocks = list(gallery.tile_blocks())
    x0, y0 = min(block.x for block in blocks), min(block.y for block in blocks)
    rows = 2 * (max(block.y for block in blocks) - y0) + HALVES
    columns = 2 * (max(block.x for block in blocks) - x0) + HALVES
    codes = np.zeros((rows, columns, *blocks[0].codes.shape[2:]), np.float32)
    valid = np.zeros((rows, columns), np.bool_)
    for block in blocks:
        down, across = 2 * (block.y - y0), 2 * (block.x - x0)
        place = np.s_[down : down + HALVES, across : across + HALVES]
        codes[place], valid[place] = block.codes, block.valid
    held = np.linalg.norm(codes, axis=-1).min(-1) > 0.5  # a camera that looks out of the imagery has no code
    inside = np.argwhere(valid & held)
    (top, left), (bottom, right) = inside.min(0) // 2 * 2 + 2, inside.max(0) - 1
    side = int(min(bottom - top, right - left)) // 2 * 2
    return codes[top : top + side, left : left + side], (x0 + int(left) // 2, y0 + int(top) // 2)


def _pairs(town: Town, bundle: Bundle, grid: Codes, corner: tuple[int, int]) -> Iterator[tuple[Codes, Codes]]:
    """Codes of frames, (n, d), and those of the tiles they were taken in, in the heading of the camera, (n, d)."""
    headings = grid.shape[2]
    for number in range(DRIVES):
        drive = draw_drive(town, 90_000 + number, 150.0, night=number % 3 == 2)
        if drive is None:
            continue
        times = np.arange(0.0, 150.0, 2.5)
        film = open_film(town, drive, bundle.spec.frame_height, bundle.spec.frame_width)
        frames = bundle.encode_frames(np.stack([frame.image for frame in film.frames(times)]))
        x, y, heading = drive.places(times)
        lats, lons = town.place.to_degrees(x, y)
        tile_x, tile_y = geo.tile_coordinates(lats, lons, 19)
        columns = np.rint(2 * (tile_x - corner[0]) - 1).astype(np.int64)
        rows = np.rint(2 * (tile_y - corner[1]) - 1).astype(np.int64)
        way = np.rint(heading / (2 * np.pi) * headings).astype(np.int64) % headings
        inside = (rows >= 0) & (columns >= 0) & (rows < len(grid)) & (columns < grid.shape[1])
        yield frames[inside], grid[rows[inside], columns[inside], way[inside]]


def _fitted(grids: Codes, frames: Codes, tiles: Codes) -> CodeStatistics:
    """From codes of towns, (towns, side, side, h, d), and pairs of frames and tiles, (n, d) each."""
    towns, side, _, h, d = grids.shape
    flat = grids.reshape(-1, h * d)
    mean, basis = principal(flat, most=TILE_DIRECTIONS)
    points = np.asarray((flat - mean) @ basis, np.float32)
    centres = kmeans(points, KINDS, np.random.default_rng(0))
    kinds = nearest(points, centres)
    factors, within = [], np.zeros_like(points)
    for kind in range(KINDS):
        own = points[kinds == kind]
        spread = np.cov(own.T) if len(own) > 1 else np.zeros((basis.shape[1],) * 2)
        values, vectors = np.linalg.eigh(spread)
        factors.append((np.sqrt(np.maximum(values, 0))[:, None] * vectors.T).astype(np.float32))
        within[kinds == kind] = own - centres[kind]
    map_of = within.reshape(towns, side, side, -1)
    same = kinds.reshape(towns, side, side)
    beside = same[:, :, 1:] == same[:, :, :-1]
    products = (map_of[:, :, 1:] * map_of[:, :, :-1]).sum(-1)[beside].mean()
    likeness = float(np.clip(products / (map_of**2).sum(-1).mean(), 0.0, 0.99))
    frame_basis = principal(grids.reshape(-1, d), most=FRAME_DIRECTIONS)[1]
    inputs = np.c_[np.ones(len(tiles), np.float32), tiles @ frame_basis]
    frame_map = np.linalg.solve(inputs.T @ inputs + 0.5 * np.eye(inputs.shape[1]), inputs.T @ frames)
    rest = frames - inputs @ frame_map
    values, vectors = np.linalg.eigh(np.cov(rest.T))
    noise = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    return CodeStatistics(
        mean, basis, centres, np.stack(factors), kinds.reshape(towns, side, side).astype(np.uint8), likeness,
        frame_basis, frame_map.astype(np.float32), noise.astype(np.float32),
    )  # fmt: skip


# A country -----------------------------------------------------------------------------------------------------------


def make_country(
    statistics: CodeStatistics, manifest: GalleryManifest, side: int, folder: Path, seed: int = 42,
    progress: Progress = lambda what, done, total: None,
) -> Gallery:  # fmt: skip
    """A gallery of ``side`` x ``side`` regions with such codes; an interrupted run resumes."""
    gallery = open_for_writing(str(folder), manifest)
    if gallery.manifest.sources and not gallery.manifest.unfinished():
        return gallery
    gallery.save_manifest(manifest.with_source(0, ImagerySource(f"synthetic-{side}", (0.0, 0.0, 1.0, 1.0))))
    tiles = manifest.stride * (side - 1) + manifest.region_tiles
    wide = -(-tiles // BLOCK)
    done = gallery.ids("tiles")
    waiting: list[TileBlock] = []
    for row in range(wide):
        corners = [(WEST + BLOCK * column, NORTH + BLOCK * row) for column in range(wide)]
        if not {place_id(x, y, manifest.zoom) for x, y in corners} <= done:
            band = _band(statistics, row, wide * HALVES, (manifest.headings, manifest.dim), seed)
            for column, (x, y) in enumerate(corners):
                part = band[:, HALVES * column : HALVES * (column + 1)]
                valid = np.zeros((HALVES, HALVES), np.bool_)
                valid[: 2 * (tiles - BLOCK * row), : 2 * (tiles - BLOCK * column)] = True
                waiting.append(TileBlock(x, y, part, valid))
        if len(waiting) >= BLOCKS_AT_ONCE or (waiting and row == wide - 1):
            gallery.add_tiles(waiting, 0)
            waiting = []
        progress("making codes", row + 1, wide)
    gallery.index_places("tiles")
    source = ImagerySource(f"synthetic-{side}", (0.0, 0.0, 1.0, 1.0), done=("tiles",))
    gallery.save_manifest(manifest.with_source(0, source))
    return gallery


def _band(statistics: CodeStatistics, row: int, width: int, shape: tuple[int, int], seed: int) -> Codes:
    """A row of blocks, (16, width, h, d). Bands depend on their number alone, so that any can be made again."""
    rng = np.random.default_rng((seed, row))
    noise = rng.standard_normal((HALVES, width, statistics.basis.shape[1]), np.float32)
    alike, new = np.float32(statistics.likeness), np.float32((1 - statistics.likeness**2) ** 0.5)
    for column in range(1, width):
        noise[:, column] = alike * noise[:, column - 1] + new * noise[:, column]
    for line in range(1, HALVES):
        noise[line] = alike * noise[line - 1] + new * noise[line]
    kinds = _kinds(statistics, row, width, seed).reshape(-1)
    flat = noise.reshape(len(kinds), -1)
    points = np.empty_like(flat)
    for kind in range(len(statistics.kind_means)):
        own = np.flatnonzero(kinds == kind)
        points[own] = flat[own] @ statistics.kind_factors[kind] + statistics.kind_means[kind]
    codes = (points @ statistics.basis.T + statistics.mean).reshape(HALVES, width, *shape)
    codes /= np.linalg.norm(codes, axis=-1, keepdims=True)
    return np.asarray(codes, np.float32)


def _kinds(statistics: CodeStatistics, row: int, width: int, seed: int) -> Ints:
    """Kinds of ground of a band, (16, width): pieces of the towns' maps, turned and mirrored, side by side."""
    towns, side, _ = statistics.layout.shape
    piece = side // HALVES * HALVES
    out = np.empty((HALVES, width), np.int64)
    for number, start in enumerate(range(0, width, piece)):
        rng = np.random.default_rng((seed, row * HALVES // piece, number, 7))
        layout = statistics.layout[rng.integers(towns), :piece, :piece]
        layout = np.rot90(layout, int(rng.integers(4)))
        layout = layout.T if rng.integers(2) else layout
        first = row * HALVES % piece
        wide = min(piece, width - start)
        out[:, start : start + wide] = layout[first : first + HALVES, :wide]
    return out


def draw_windows(
    gallery: Gallery, statistics: CodeStatistics, count: int, seed: int = 7, frames: int = WINDOW
) -> list[Codes]:
    """Windows of frames, (frames, d) each, of drives through a gallery that was made with these statistics."""
    rng = np.random.default_rng(seed)
    corners = np.array(gallery.corners())
    low, high = 2 * corners.min(0), 2 * corners.max(0)
    return [_window(gallery, statistics, rng, low, high, frames) for _ in range(count)]


def _window(
    gallery: Gallery, statistics: CodeStatistics, rng: np.random.Generator, low: Ints, high: Ints, frames: int
) -> Codes:
    """A drive from a random place: up to four half tiles between two keyframes, and a turn now and then."""
    at = rng.uniform(low + HALVES // 2, np.maximum(high - HALVES // 2, low + HALVES // 2 + 1))
    heading = rng.uniform(0, 2 * np.pi)
    places, ways = [], []
    for _ in range(frames):
        places.append(np.clip(np.rint(at), low, high + 7).astype(np.int64))
        ways.append(heading)
        heading += rng.normal(0.0, 0.3)
        at = at + rng.uniform(0.5, 4.0) * np.array([np.sin(heading), -np.cos(heading)])
    needed = {(int(x) // HALVES * BLOCK, int(y) // HALVES * BLOCK) for x, y in places}
    blocks = {(block.x, block.y): block for block in gallery.tile_blocks(sorted(needed))}
    codes = []
    for (x, y), way in zip(places, ways, strict=True):
        block = blocks[int(x) // HALVES * BLOCK, int(y) // HALVES * BLOCK]
        turn = round(way / (2 * np.pi) * block.codes.shape[2]) % block.codes.shape[2]
        codes.append(block.codes[int(y) % HALVES, int(x) % HALVES, turn])
    inputs = np.c_[np.ones(frames, np.float32), np.stack(codes) @ statistics.frame_basis]
    noise = rng.standard_normal((frames, len(statistics.frame_noise))) @ statistics.frame_noise
    drawn = inputs @ statistics.frame_map + noise
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)
