"""Building an approximate index beside a gallery: train codebooks once, encode what is missing, fill the lists."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from x2localizer.errors import GalleryError
from x2localizer.files import only_writer, remove_unfinished
from x2localizer.gallery.blocks import TileBlock, place_id
from x2localizer.gallery.store import Gallery, require_tiles
from x2localizer.search.approximate.cells import CellGrid
from x2localizer.search.approximate.codebooks import Codebooks
from x2localizer.search.approximate.lists import Lists
from x2localizer.search.approximate.manifest import (
    IndexManifest,
    command,
    has_index,
    index_folder,
    read_manifest,
    state_of,
)
from x2localizer.search.approximate.parts import PartFiles
from x2localizer.types import Codes, Ints

TRAINING_BLOCKS = 256
TRAINING_CODES = 65_536
BLOCKS_PER_PART = 2048
"""What a killed run loses at most: some minutes of work."""
Progress = Callable[[str, int, int], None]


def build_index(
    gallery: Gallery, *, replace: bool = False, progress: Progress = lambda what, done, total: None
) -> IndexManifest:
    """Build the approximate index of a gallery, or bring it up to date; an interrupted run resumes.

    replace: begin again, with new codebooks: after the gallery has grown to many times what they were trained on, or if
        files are damaged.
    """
    require_tiles(gallery)
    if gallery.manifest.unfinished():
        raise GalleryError(
            f"The gallery {gallery.address} is half built.", "Finish it first; x2l index --info names what is missing."
        )
    folder = index_folder(gallery)
    with only_writer(folder):
        remove_unfinished(folder)
        if not replace and _is_current(gallery):
            return read_manifest(gallery)
        sources = gallery.block_sources()
        if not sources:
            raise GalleryError(
                f"The gallery {gallery.address} has no tiles.",
                f"Add imagery: x2l index IMAGERY --out {gallery.address}",
            )
        name, books = _codebooks(gallery, folder, sorted(sources), replace)
        files = PartFiles(folder, name, gallery.manifest.headings, books.basis.shape[1])
        _encode_missing(gallery, files, books, sources, progress)
        progress("lists", 0, 1)
        places = files.places()
        live = _live(places, sources)
        m = gallery.manifest
        lists = Lists.of(files, live, CellGrid(m.zoom, m.region_tiles, m.stride))
        manifest = IndexManifest(
            state_of(gallery), int(live.sum()), len(lists.cells), files.directions, secrets.token_hex(4), name
        )
        lists.save(folder, manifest.lists)
        manifest.save(folder)
        _remove_others(folder, manifest)
        progress("lists", 1, 1)
    return manifest


def _is_current(gallery: Gallery) -> bool:
    if not has_index(gallery):
        return False
    try:
        read_manifest(gallery)
    except GalleryError:
        return False
    return True


def _codebooks(gallery: Gallery, folder: Path, ids: list[int], replace: bool) -> tuple[str, Codebooks]:
    """Codebooks and their name: those that are there, or new ones."""
    there = sorted(folder.glob(f"books-{_made_by(gallery)}-*.npz"), key=lambda path: path.stat().st_mtime)
    if there and not replace:
        try:
            return there[-1].stem.removeprefix("books-"), Codebooks.load(there[-1])
        except (OSError, ValueError, KeyError) as problem:
            raise GalleryError(
                f"The approximate index of {gallery.address} is damaged.",
                f"Build it again: {command(gallery)} --replace",
            ) from problem
    books = Codebooks.train(_sample(gallery, ids))
    name = f"{_made_by(gallery)}-{secrets.token_hex(3)}"
    books.save(folder / f"books-{name}.npz")
    return name, books


def _made_by(gallery: Gallery) -> str:
    m = gallery.manifest
    return hashlib.sha256(f"{m.encoder} {m.zoom} {m.dim} {m.headings}".encode()).hexdigest()[:8]


def _sample(gallery: Gallery, ids: list[int]) -> Codes:
    """Codes of tiles from all over the gallery, (n, d)."""
    rng = np.random.default_rng(42)
    world = (1 << gallery.manifest.zoom) - 1
    chosen = rng.choice(np.array(ids, np.int64), min(TRAINING_BLOCKS, len(ids)), replace=False)
    corners = [(int(i) & world, int(i) >> gallery.manifest.zoom) for i in np.sort(chosen)]
    per_block = -(-TRAINING_CODES // len(corners))
    parts = []
    for block in gallery.tile_blocks(corners):
        codes = block.codes[block.valid].reshape(-1, block.codes.shape[-1])
        parts.append(codes[rng.permutation(len(codes))[:per_block]])
    return np.concatenate(parts)


def _encode_missing(
    gallery: Gallery, files: PartFiles, books: Codebooks, sources: dict[int, int], progress: Progress
) -> None:
    known = {int(identity): int(source) for identity, source in files.places()}
    missing = sorted(identity for identity, source in sources.items() if known.get(identity) != source)
    for start in range(0, len(missing), BLOCKS_PER_PART):
        progress("encoding tiles", len(known) + start, len(known) + len(missing))
        files.add(_blocks(gallery, missing[start : start + BLOCKS_PER_PART]), sources, gallery.manifest.zoom, books)
    progress("encoding tiles", len(known) + len(missing), len(known) + len(missing))


def _blocks(gallery: Gallery, ids: list[int]) -> Iterator[TileBlock]:
    wanted = set(ids)
    for block in gallery.tile_blocks_between(ids[0], ids[-1]):
        if place_id(block.x, block.y, gallery.manifest.zoom) in wanted:
            yield block


def _live(places: Ints, sources: dict[int, int]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which blocks of all parts count, (blocks,): the last one of each place, if the gallery still has it."""
    last = {int(identity): row for row, (identity, _) in enumerate(places)}
    live = np.zeros(len(places), np.bool_)
    live[[row for identity, row in last.items() if identity in sources]] = True
    return live


def _remove_others(folder: Path, manifest: IndexManifest) -> None:
    """Remove the files of earlier builds. Who has them open keeps them until it ends."""
    for path in folder.iterdir():
        old_list = path.name.startswith("lists-") and not path.name.startswith(f"lists-{manifest.lists}.")
        old_part = path.name.startswith(("part-", "small-", "books-")) and manifest.books not in path.name
        if old_list or old_part:
            path.unlink(missing_ok=True)
