"""What a smaller bundle saves and what it costs: bytes, milliseconds and recall, beside the bundle it was made from.

The first model is the reference. The others are the same towers in another precision, with merged tokens, or any other
bundle: whatever is exported gets a row. Times are taken in turns in one run, so that a busy machine slows all alike.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from x2localizer.datasets.dataset import Dataset
from x2localizer.encoders import Bundle, open_bundle
from x2localizer.errors import UserError
from x2localizer.evaluate.tables import markdown
from x2localizer.evaluate.variants import find_regions
from x2localizer.types import Images, Progress

AT_ONCE = 16
"""Pictures that are encoded together when times are taken."""
TURNS = 9


@dataclass(frozen=True, slots=True)
class CompressionRow:
    """One bundle.

    r1: in percent, by budget.
    lost: points lost against the first bundle, the mean over the budgets, and its 95% interval, paired by video.
    frame_ms, tile_ms: median milliseconds to encode one.
    bytes: of its graphs and weights.
    """

    run: str
    precision: str
    similarity: str
    r1: dict[str, float]
    lost: tuple[float, float, float]
    frame_ms: float
    tile_ms: float
    bytes: int


def measure_compression(
    models: Sequence[str], data: Dataset, split: str, work: Path, report: Progress
) -> list[CompressionRow]:
    """A row for each bundle, the first being the reference."""
    if len(models) < 2:
        raise UserError(
            "Compression compares bundles.",
            "Name the full one first: x2l evaluate town town-int8 --protocol compression",
        )
    bundles = [open_bundle(name) for name in models]
    found = find_regions(models, data, split, work, report)
    times = times_ms(bundles)
    return [
        CompressionRow(
            one.run, precision_of(bundle), one.similarity, one.r1, found[0].gained_over(one), frame_ms, tile_ms,
            size_of(bundle),
        )
        for one, bundle, (frame_ms, tile_ms) in zip(found, bundles, times, strict=True)
    ]  # fmt: skip


def times_ms(bundles: Sequence[Bundle], turns: int = TURNS) -> list[tuple[float, float]]:
    """Median milliseconds for a frame and for a tile, of each bundle; one after the other, turn by turn."""
    rng = np.random.default_rng(0)
    spent: list[list[tuple[float, float]]] = [[] for _ in bundles]
    pictures: list[tuple[Images, Images]] = []
    for bundle in bundles:
        spec = bundle.spec
        frames = rng.integers(0, 256, (AT_ONCE, *spec.frame_size, 3), dtype=np.uint8)
        pictures.append((frames, rng.integers(0, 256, (AT_ONCE, spec.tile_px, spec.tile_px, 3), dtype=np.uint8)))
    for turn in range(turns + 1):
        for bundle, (frames, tiles), own in zip(bundles, pictures, spent, strict=True):
            start = time.perf_counter()
            bundle.encode_frames(frames)
            middle = time.perf_counter()
            bundle.encode_tiles(tiles)
            if turn:  # the first opens the graphs
                own.append((middle - start, time.perf_counter() - middle))
    return [
        (float(frame), float(tile))
        for frame, tile in (1000.0 * np.median(np.array(own), 0) / AT_ONCE for own in spent)
    ]  # fmt: skip


def precision_of(bundle: Bundle) -> str:
    """What the bundle says of its precision."""
    manifest = json.loads((bundle.root / "bundle.json").read_text(encoding="utf-8"))
    return str(manifest.get("precision", "fp32"))


def size_of(bundle: Bundle) -> int:
    """Bytes of the graphs and weights."""
    return sum(path.stat().st_size for path in bundle.root.iterdir() if path.suffix in (".onnx", ".bin"))


def to_values(rows: Sequence[CompressionRow]) -> list[dict[str, Any]]:
    """For JSON."""
    return [asdict(row) for row in rows]


def table_text(rows: Sequence[CompressionRow]) -> str:
    """A line for each bundle; times and bytes also as what the first bundle takes, divided by what this one takes."""
    first = rows[0]
    budgets = [*first.r1]
    return markdown(
        ["bundle", "precision", *(f"R@1, tau = {budget}" for budget in budgets), "points lost (95%)",
         "ms a frame", "ms a tile", "MB"],
        ((row.run, row.precision, *(f"{row.r1.get(budget, np.nan):.1f}" for budget in budgets),
          _lost(row, row is first),
          f"{row.frame_ms:.2f} ({first.frame_ms / row.frame_ms:.2f}x)",
          f"{row.tile_ms:.2f} ({first.tile_ms / row.tile_ms:.2f}x)",
          f"{row.bytes / 1e6:.1f} ({first.bytes / row.bytes:.2f}x)") for row in rows),
    )  # fmt: skip


def _lost(row: CompressionRow, is_first: bool) -> str:
    mean, low, high = row.lost
    return "-" if is_first else f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"
