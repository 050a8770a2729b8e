"""What checksums cost when a gallery is opened: a gallery of random codes, read with each way to verify it in turns.

Times are seconds of computing, in all threads: other programs on the machine change them little.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import get_args

import numpy as np

from x2localizer.gallery.blocks import PICTURE_PX, TileBlock
from x2localizer.gallery.checksums import Verify
from x2localizer.gallery.grid import BLOCK, HALVES
from x2localizer.gallery.manifest import GalleryManifest, ImagerySource
from x2localizer.gallery.open import open_for_writing, open_gallery

HEADINGS, DIM = 8, 128


def bench_open(blocks: int = 400, times: int = 5, seed: int = 42) -> dict[str, object]:
    """Seconds to open a gallery and to read its codes, by how it is verified; the least of some runs counts."""
    best = {(verify, part): np.inf for verify in get_args(Verify) for part in ("open", "read")}
    with tempfile.TemporaryDirectory() as work:
        address = str(Path(work) / "gallery")
        seal_s = _fill(address, blocks, seed)
        size = sum(path.stat().st_size for path in Path(address).rglob("*") if path.is_file())
        for _ in range(times):
            for verify in get_args(Verify):
                start = time.process_time()
                gallery = open_gallery(address, verify=verify)
                opened = time.process_time()
                for _ in gallery.tile_blocks():
                    pass
                best[verify, "open"] = min(best[verify, "open"], opened - start)
                best[verify, "read"] = min(best[verify, "read"], time.process_time() - start)
    values: dict[str, object] = {"gallery_mb": size / 1e6, "seal_s": seal_s}
    for part in ("open", "read"):
        values |= {f"{part}_{verify}_s": float(best[verify, part]) for verify in get_args(Verify)}
    return values


def _fill(address: str, blocks: int, seed: int) -> float:
    """A gallery with random codes; returns the seconds that its checksums took."""
    rng = np.random.default_rng(seed)
    source = ImagerySource("random", (0.0, 0.0, 1.0, 1.0), done=("tiles",))
    gallery = open_for_writing(address, GalleryManifest("random", 19, 7, 3, DIM, headings=HEADINGS, sources=(source,)))
    side = int(np.ceil(np.sqrt(blocks)))
    picture = rng.integers(0, 256, (BLOCK * PICTURE_PX,) * 2 + (3,), dtype=np.uint8)
    for start in range(0, blocks, 16):
        rows = []
        for number in range(start, min(start + 16, blocks)):
            codes = rng.standard_normal((HALVES, HALVES, HEADINGS, DIM), np.float32) / np.float32(np.sqrt(DIM))
            x, y = 160000 + number % side * BLOCK, 200000 + number // side * BLOCK
            rows.append(TileBlock(x, y, codes, np.ones((HALVES, HALVES), np.bool_)))
        gallery.add_pictures({(row.x, row.y): picture for row in rows}, 0)
        gallery.add_tiles(rows, 0)
    gallery.optimize(in_use=False)
    began = time.process_time()
    gallery.seal()
    return time.process_time() - began
