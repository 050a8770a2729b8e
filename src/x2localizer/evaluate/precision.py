"""What a bundle in another precision saves and loses: bytes, time, recall, side by side in one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from x2localizer.datasets.dataset import Dataset
from x2localizer.encoders import Bundle, EncoderSpec, Part, SetCodes, open_bundle
from x2localizer.evaluate.coarse import coarse
from x2localizer.evaluate.embed import Embeddings
from x2localizer.learn.precision import Precision, calibration_pictures, reduce_bundle
from x2localizer.metrics import paired_difference, recall_at
from x2localizer.types import Bools, Codes, Floats, Image, Images, Progress

BUDGETS = (1, 2, 4, 8)
SIMILARITY = "s_path"
MIXED = "int8, gallery fp32"


@dataclass(frozen=True, slots=True)
class PrecisionRow:
    """One precision.

    bytes: of graphs and weights on disk.
    ms_frame: for one frame by itself.
    ms_tile: for one tile of a full batch.
    cpu_ms: CPU time for one frame by itself in one thread, which a busy machine changes little.
    r1: R@1 in percent by budget; empty if it was not measured.
    lost: points of R@1 lost to the first row, with the ends of a 95% interval, by budget.
    """

    name: str
    bytes: int
    ms_frame: float
    ms_tile: float
    cpu_ms: float
    r1: dict[int, float] = field(default_factory=dict)
    lost: dict[int, tuple[float, float, float]] = field(default_factory=dict)


def bench_precision(
    bundle: Bundle,
    data: Dataset | None,
    work: Path,
    *,
    split: str = "test",
    precisions: Sequence[Precision] = ("fp16", "int8"),
    clips: int | None = None,
    times: int = 7,
    merged: Bundle | None = None,
    report: Progress = lambda what, done, total: None,
) -> list[PrecisionRow]:
    """A bundle and its twins in other precisions: sizes, times in turns (the best counts), and R@1 by s_path.

    data: int8 measures its ranges on the training or validation split, recall is that of ``split``. Without it ranges
        come from noise, and recall is not measured.
    clips: measure recall on this many clips, drawn evenly; all by default.
    merged: the same towers with merged tokens, measured as they are and in these precisions.
    """
    parts: tuple[Part, ...] = ("frame", "tile")
    pictures = noise(bundle.spec) if data is None else calibration_pictures(data, bundle.spec)
    twins: dict[str, Bundle] = {"fp32": bundle}
    if merged is not None:
        twins["fp32, merged"] = merged
    for name, full in tuple(twins.items()):
        for precision in precisions:
            twin = name.replace("fp32", precision)
            reduced = reduce_bundle(full, work / f"bundle-{twin}", precision, pictures, parts=parts)
            twins[twin] = open_bundle(reduced.root, threads=bundle.threads)
    spent = _in_turns({name: _timers(twin, pictures) for name, twin in twins.items()}, times)
    hits: dict[str, dict[int, Floats]] = {}
    if data is not None:
        hits = {name: _hits(twin, data, split, work, clips, report) for name, twin in twins.items()}
        if "int8" in twins:
            mixed = TwoBundles(twins["int8"], bundle)
            hits[MIXED] = _hits(mixed, data, split, work, clips, report)
    rows = [
        PrecisionRow(name, _bytes(twin.root, parts), *spent[name], *_recalls(hits, name))
        for name, twin in twins.items()
    ]
    if MIXED in hits:
        small = next(row for row in rows if row.name == "int8")
        spent_mixed = small.ms_frame, rows[0].ms_tile, small.cpu_ms
        rows.append(PrecisionRow(MIXED, small.bytes, *spent_mixed, *_recalls(hits, MIXED)))
    return rows


def to_values(rows: Sequence[PrecisionRow]) -> list[dict[str, Any]]:
    """Rows for a results file, with their speed beside that of the first."""
    first = rows[0]
    return [
        {
            "precision": row.name, "bytes": row.bytes, "ms_frame": row.ms_frame, "ms_tile": row.ms_tile,
            "cpu_ms_frame": row.cpu_ms, "speedup_frame": first.ms_frame / row.ms_frame,
            "speedup_tile": first.ms_tile / row.ms_tile, "speedup_cpu": first.cpu_ms / row.cpu_ms,
            "r1": {str(b): v for b, v in row.r1.items()}, "r1_lost": {str(b): list(v) for b, v in row.lost.items()},
        }
        for row in rows
    ]  # fmt: skip


def noise(spec: EncoderSpec, count: int = 16) -> dict[Part, Images]:
    """Pictures for an encoder whose weights are random anyway."""
    rng = np.random.default_rng(42)
    return {
        "frame": rng.integers(0, 256, (count, *spec.frame_size, 3), np.uint8),
        "tile": rng.integers(0, 256, (count, spec.tile_px, spec.tile_px, 3), np.uint8),
    }


Timer = Callable[[], float]


def _timers(bundle: Bundle, pictures: dict[Part, Images]) -> tuple[Timer, Timer, Timer]:
    """Milliseconds for a frame alone, for a tile of a batch, and of CPU time for a frame in one thread."""
    frame, size = pictures["frame"][:1], min(bundle.spec.tiles_at_once(), 128)
    tiles = np.resize(pictures["tile"], (size, *pictures["tile"].shape[1:]))
    alone = open_bundle(bundle.root, threads=1, device="cpu", verify=False)

    def time_frame() -> float:
        return min(_ms(lambda: bundle.encode_frames(frame)) for _ in range(5))

    def time_cpu() -> float:
        return min(_ms(lambda: alone.encode_frames(frame), time.process_time) for _ in range(5))

    return time_frame, lambda: _ms(lambda: bundle.encode_tiles(tiles)) / size, time_cpu


def _ms(run: Callable[[], object], clock: Timer = time.perf_counter) -> float:
    start = clock()
    run()
    return 1000 * (clock() - start)


def _in_turns(timers: dict[str, tuple[Timer, Timer, Timer]], times: int) -> dict[str, tuple[float, float, float]]:
    """The best time of each timer, after one to warm up; in turns, so that a busy machine is busy for all."""
    rounds = [{name: [timer() for timer in own] for name, own in timers.items()} for _ in range(times + 1)][1:]
    best = {name: [min(found[name][k] for found in rounds) for k in range(3)] for name in timers}
    return {name: (frame, tile, cpu) for name, (frame, tile, cpu) in best.items()}


def _bytes(root: Path, parts: Sequence[Part]) -> int:
    return sum((root / name).stat().st_size for name in (*(f"{part}.onnx" for part in parts), "weights.bin"))


def _hits(
    encoder: Bundle | TwoBundles, data: Dataset, split: str, work: Path, clips: int | None, report: Progress
) -> dict[int, Floats]:
    """Of each clip, whether its region is the best one, by budget."""
    videos = data.videos(split)
    if clips is not None and clips < len(videos):
        videos = [videos[i] for i in np.linspace(0, len(videos) - 1, clips).astype(int)]
    codes = Embeddings(data, split, encoder, work, report, videos=videos)
    found = {}
    for budget in BUDGETS:
        report(f"searching, {budget} frames", budget, max(BUDGETS))
        found[budget] = (coarse(codes, budget, [SIMILARITY])[SIMILARITY].ranks == 1).astype(np.float64)
    return found


def _recalls(
    hits: dict[str, dict[int, Floats]], name: str
) -> tuple[dict[int, float], dict[int, tuple[float, float, float]]]:
    """R@1 of a row, and what it lost to the first, in points."""
    if name not in hits:
        return {}, {}
    first, own = next(iter(hits.values())), hits[name]
    r1 = {budget: recall_at(np.where(found > 0, 1, 2), 1) for budget, found in own.items()}
    lost = {}
    for budget, found in own.items():
        mean, low, high = paired_difference(100 * first[budget], 100 * found)
        lost[budget] = (mean, low, high)
    return r1, ({} if own is first else lost)


@dataclass(frozen=True)
class TwoBundles:
    """Frames encoded by one bundle and tiles by another: a reduced bundle on a gallery in full precision."""

    frames: Bundle
    tiles: Bundle

    @property
    def spec(self) -> EncoderSpec:
        """Sizes and abilities, which both share."""
        return self.frames.spec

    @property
    def fingerprint(self) -> str:
        """That of the gallery."""
        return self.tiles.fingerprint

    @property
    def threads(self) -> int:
        """Threads of both."""
        return self.frames.threads

    def weights_of(self, part: Part) -> str:
        """A name for the weights of one part."""
        return self._bundle(part).weights_of(part)

    def _bundle(self, part: Part) -> Bundle:
        return self.frames if part in ("frame", "prefix") else self.tiles

    def encode_frames(self, images: Images) -> Codes:
        """Image codes of street frames."""
        return self.frames.encode_frames(images)

    def encode_tiles(self, images: Images) -> Codes:
        """Image codes of aerial tiles."""
        return self.tiles.encode_tiles(images)

    def encode_area(self, image: Image, wanted: Bools | None = None) -> Codes:
        """Codes of cameras in an area."""
        return self.tiles.encode_area(image, wanted)

    def encode_prefixes(self, images: Images) -> SetCodes:
        """Set codes of prefixes."""
        return self.frames.encode_prefixes(images)

    def encode_regions(self, images: Images) -> SetCodes:
        """Set codes of regions."""
        return self.tiles.encode_regions(images)
