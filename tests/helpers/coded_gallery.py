"""Galleries of made-up codes, without imagery and encoder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from x2localizer.gallery import Gallery
from x2localizer.gallery.blocks import TileBlock
from x2localizer.gallery.manifest import GalleryManifest, ImagerySource
from x2localizer.gallery.open import open_for_writing
from x2localizer.types import Codes

X, Y, D = 160_008, 196_008, 24


def unit(values: npt.NDArray[np.floating]) -> Codes:
    """Codes of length 1."""
    return np.asarray(values / np.linalg.norm(values, axis=-1, keepdims=True), np.float32)


def blocks_of(
    rng: np.random.Generator, wide: int, high: int, headings: int = 1, x: int = X, y: int = Y, held: float = 0.97
) -> list[TileBlock]:
    """Blocks of random codes that have something in common, row by row; some tiles hold no data."""
    common = np.random.default_rng(0).normal(size=D)
    return [
        TileBlock(
            (x + 8 * i) % (1 << 19), y + 8 * j, unit(common + rng.normal(size=(16, 16, headings, D))),
            rng.uniform(size=(16, 16)) < held,
        )
        for j in range(high) for i in range(wide)
    ]  # fmt: skip


def coded_gallery(folder: Path, blocks: list[TileBlock]) -> Gallery:
    """A finished gallery of some blocks."""
    headings = blocks[0].codes.shape[2] if blocks else 1
    gallery = open_for_writing(str(folder), GalleryManifest("made up", 19, 7, 3, D, headings=headings))
    return add_blocks(gallery, blocks, "first")


def add_blocks(gallery: Gallery, blocks: list[TileBlock], name: str) -> Gallery:
    """Add blocks, or replace those at the same places, as one more piece of imagery."""
    number = len(gallery.manifest.sources)
    if blocks:
        gallery.add_tiles(blocks, number)
    source = ImagerySource(name, (0.0, 0.0, 1.0, 1.0), done=("tiles",))
    gallery.save_manifest(replace(gallery.manifest, sources=(*gallery.manifest.sources, source)))
    return gallery


def window_at(blocks: list[TileBlock], number: int, frames: int = 6, noise: float = 0.4, seed: int = 0) -> Codes:
    """A window of frames that look like tiles in a row of one block."""
    rng = np.random.default_rng((seed, number))
    block = blocks[number]
    places = [(5, min(15, 3 + i)) for i in range(frames)]
    codes = np.stack([block.codes[place][rng.integers(block.codes.shape[2])] for place in places])
    return unit(codes + noise * rng.normal(size=codes.shape) / D**0.5)
