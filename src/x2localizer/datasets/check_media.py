"""Validation of a dataset's pictures: whether they are there, are whole, and decode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from x2localizer.datasets.check_report import CheckReport
from x2localizer.datasets.dataset import Dataset
from x2localizer.datasets.media import below, read_picture
from x2localizer.datasets.tables import Media
from x2localizer.errors import UserError

SAMPLE = 600
"""Pictures that are decoded by default."""


def check_media(report: CheckReport, data: Dataset, full: bool, progress: Callable[[int, int], None]) -> None:
    """Check that files exist and are long enough, and that pictures decode and have one size per kind."""
    missing: list[str] = []
    astray: list[str] = []
    short: list[str] = []
    damaged: list[str] = []
    sizes: dict[str, int] = {}
    tileless: list[str] = []
    everything: list[tuple[str, Media]] = []
    for kind, table, prefix in (
        ("region", data.region_table, "image"), ("frame", data.frame_table, "image"),
        ("tile", data.frame_table, "tile"),
    ):  # fmt: skip
        for row, media in enumerate(_media(table, prefix)):
            if kind == "tile" and not media.path:  # GAMa has such frames; training skips them
                tileless.append(f"row {row} of frames.parquet")
                continue
            if not below(media.path):
                astray.append(repr(media.path))
                continue
            if media.path not in sizes:
                sizes[media.path] = _size(data.root, media.path)
                if sizes[media.path] < 0:
                    missing.append(media.path)
            if sizes[media.path] >= 0:
                if media.offset < 0 or media.offset + max(media.length, 1) > sizes[media.path]:
                    short.append(f"{media.path} at byte {media.offset}")
                else:
                    everything.append((kind, media))
    chosen = everything
    if not full and len(everything) > SAMPLE:
        picks = np.random.default_rng(42).choice(len(everything), SAMPLE, replace=False)
        chosen = [everything[i] for i in np.sort(picks)]
    shapes: dict[str, set[tuple[int, ...]]] = {}
    for done, (kind, media) in enumerate(chosen, 1):
        try:
            shapes.setdefault(kind, set()).add(read_picture(data.root, media).shape)
        except UserError:
            damaged.append(f"{media.path} at byte {media.offset}")
        progress(done, len(chosen))
    report.counts |= {"media files": len(sizes), "pictures": len(everything), "pictures decoded": len(chosen)}
    report.add("note", "frames without a tile", tileless)
    report.add("error", "pictures outside the dataset", astray)
    report.add("error", "missing files", missing)
    report.add("error", "truncated files", short)
    report.add("error", "damaged pictures", damaged)
    for kind, found in shapes.items():
        if len(found) > 1:
            report.add("note", f"{kind} pictures of different sizes", [f"{s[0]} x {s[1]}" for s in sorted(found)])


def _media(table: pa.Table, prefix: str) -> Iterator[Media]:
    columns = (table[f"{prefix}_{part}"].to_pylist() for part in ("path", "offset", "length"))
    return (Media(path, offset, length) for path, offset, length in zip(*columns, strict=True))


def _size(root: Path, path: str) -> int:
    """The size of a file of the dataset in bytes, or -1 if it does not exist."""
    try:
        return (root / path).stat().st_size
    except OSError:
        return -1
