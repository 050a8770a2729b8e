"""Smaller and faster twins of a bundle: numbers of 16 bits, or products of 8 bits. Needs onnx, not torch.

fp16: all numbers and all computing in 16-bit floats; half the size, and faster on GPUs.
int8: weights in bytes, a scale for each output channel; activations of 8 bits with fixed ranges, which are measured on
    pictures. Only products with weights are computed so: they take most of the time, and what remains (norms,
    attention, the first convolution, which reads pixels) would lose more than it saves. Weights use 7 of their 8 bits:
    processors without VNNI instructions add two products in 16 bits, which overflow otherwise.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.transformers.float16 import convert_float_to_float16

from x2localizer.datasets.dataset import Dataset
from x2localizer.datasets.tiles import cut_tiles
from x2localizer.encoders import Bundle, EncoderSpec, Part, open_bundle
from x2localizer.encoders.bundle import BESIDE, files_fingerprint
from x2localizer.errors import BundleError, DatasetError
from x2localizer.files import write_text
from x2localizer.learn.graph_files import SharedWeights, new_bundle, write_graph
from x2localizer.types import Images

Precision = Literal["fp32", "fp16", "int8"]
LEAST_CHANNELS = 8
"""Convolutions that read fewer channels stay in 32 bits: 8 bits would make them slower."""


def reduce_bundle(
    source: Bundle,
    out: Path,
    precision: Precision,
    pictures: Mapping[Part, Images],
    *,
    parts: tuple[Part, ...] | None = None,
    accept_galleries: bool = False,
) -> Bundle:
    """Write a bundle that computes in another precision, and open it.

    out: its folder. It is written elsewhere and then moved there as a whole.
    pictures: what int8 measures ranges on, by part; see :func:`calibration_pictures`.
    parts: which of the source's parts to keep; all by default.
    accept_galleries: whether it may be used with galleries that the source made.
    """
    manifest: dict[str, Any] = json.loads((source.root / "bundle.json").read_text(encoding="utf-8"))
    if manifest.get("precision", "fp32") != "fp32":
        raise BundleError(
            f"The bundle {source.root} is already {manifest['precision']}.", "Start from the one it was made from."
        )
    kept = tuple(part for part in source.spec.parts if parts is None or part in parts)
    with new_bundle(out) as work:
        shared = SharedWeights()
        for part in kept:
            proto = onnx.load(source.root / f"{part}.onnx")  # with its weights
            reduced = (
                convert_float_to_float16(proto, keep_io_types=True)
                if precision == "fp16"
                else _to_bytes(proto, pictures[part])
            )
            write_graph(reduced, work / f"{part}.onnx", shared)
        (work / "weights.bin").write_bytes(bytes(shared.data))
        for name in ("weights", "files"):
            manifest.pop(name, None)
        manifest |= {
            "precision": precision,
            "source": source.fingerprint,
            "accepts": [source.fingerprint] if accept_galleries else [],
            "capabilities": asdict(replace(source.capabilities, parts=kept)),
            "fingerprint": files_fingerprint(work, kept),
        }
        write_text(work / "bundle.json", json.dumps(manifest, indent=2) + "\n")
        for name in BESIDE:
            if (source.root / name).is_file():
                shutil.copyfile(source.root / name, work / name)
        _try_out(open_bundle(work, device="cpu"), out)
    return open_bundle(out)


def _try_out(bundle: Bundle, out: Path) -> None:
    """Refuse graphs that do not run, before they replace anything."""
    spec = bundle.spec
    if "frame" in spec.parts:
        codes = bundle.encode_frames(np.zeros((1, *spec.frame_size, 3), np.uint8))
        if not np.isfinite(codes).all():
            raise BundleError(f"The codes of {out} would not be numbers.", "Use another precision.")


def _to_bytes(proto: onnx.ModelProto, pictures: Images) -> onnx.ModelProto:
    """The graph with products of bytes, ranges of activations as on these pictures."""
    with tempfile.TemporaryDirectory(prefix="x2l-int8-") as folder, _quiet_log():
        plain, ready, done = (str(Path(folder) / name) for name in ("plain.onnx", "ready.onnx", "done.onnx"))
        onnx.save(proto, plain)
        quant_pre_process(plain, ready, skip_symbolic_shape=True)
        quantize_static(
            ready, done, _Pictures(pictures), quant_format=QuantFormat.QDQ, per_channel=True,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, reduce_range=True,  # 7 bits
            nodes_to_quantize=_products(onnx.load(ready)),
            # What leaves a product goes to a norm or an addition, in floats.
            extra_options={"OpTypesToExcludeOutputQuantization": ["MatMul", "Gemm"]},
        )  # fmt: skip
        return onnx.load(done)


def _products(proto: onnx.ModelProto) -> list[str]:
    """Names of the nodes that multiply with weights."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in proto.graph.initializer}
    found = []
    for node in proto.graph.node:
        shape = shapes.get(node.input[1]) if len(node.input) > 1 else None
        if shape is None:
            continue
        if node.op_type in ("MatMul", "Gemm") or (node.op_type == "Conv" and shape[1] >= LEAST_CHANNELS):
            found.append(node.name)
    return found


class _Pictures(CalibrationDataReader):  # type: ignore[misc] # ONNX Runtime has no types
    """Pictures in batches of 8, or sets one by one."""

    def __init__(self, pictures: Images) -> None:
        size = 8 if pictures.ndim == 4 else 1
        self._batches = iter([pictures[start : start + size] for start in range(0, len(pictures), size)])

    def get_next(self) -> dict[str, Images] | None:
        """The next batch; None at the end."""
        batch = next(self._batches, None)
        return None if batch is None else {"images": batch}


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Without the advice that the quantizer logs."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def code_similarity(full: Bundle, reduced: Bundle, pictures: Mapping[Part, Images]) -> dict[Part, float]:
    """The lowest similarity (cosine) of image codes in both precisions, by part."""
    found: dict[Part, float] = {}
    for part in ("frame", "tile"):
        if part in pictures and part in full.spec.parts:
            images = pictures[part]
            a, b = (
                bundle.encode_frames(images) if part == "frame" else bundle.encode_tiles(images)
                for bundle in (full, reduced)
            )
            length = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
            found[part] = float(((a * b).sum(-1) / np.maximum(length, 1e-12)).min())
    return found


def calibration_pictures(data: Dataset, spec: EncoderSpec, count: int = 64, seed: int = 42) -> dict[Part, Images]:
    """Pictures for each part, drawn from the training split, or from that for validation if there is none.

    count: frames and tiles; of prefixes and regions there are a sixteenth.
    """
    split = next((name for name in ("train", "val") if data.videos(name) and data.regions(name)), None)
    if split is None:
        raise DatasetError(
            f"{data.root} has no clips for training or validation to measure ranges on.", f"x2l check {data.root}"
        )
    rng, side = np.random.default_rng(seed), spec.region_tiles
    videos, regions = data.videos(split), data.regions(split)
    tiles = [
        cut_tiles(data.picture(regions[int(i)].image, (side * spec.tile_px,) * 2), side)
        for i in rng.permutation(len(regions))[:count]
    ]
    clips = [data.frames(videos[int(i)].video_id) for i in rng.permutation(len(videos))[:count]]
    frames = [data.picture(clip[int(rng.integers(len(clip)))].image, spec.frame_size) for clip in clips]
    found: dict[Part, Images] = {
        "frame": np.stack(frames),
        "tile": np.stack([some[int(rng.integers(len(some)))] for some in tiles]),
    }
    sets = max(1, count // 16)
    if "prefix" in spec.parts:
        found["prefix"] = _prefixes(data, [video.video_id for video in videos], spec, sets)
    if "region" in spec.parts:
        found["region"] = np.stack(tiles[:sets])
    return found


def _prefixes(data: Dataset, videos: list[str], spec: EncoderSpec, sets: int) -> Images:
    keys = (data.keyframes(name)[: spec.frames] for name in videos)
    full = [rows for rows in keys if len(rows) == spec.frames][:sets]
    if not full:
        raise DatasetError(f"{data.root} has no clip of {spec.frames} keyframes.", f"x2l check {data.root}")
    return np.stack([np.stack([data.picture(row.image, spec.frame_size) for row in rows]) for rows in full])
