"""Bundles in other precisions and with fewer parts: close to the original, and clear about what they are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from x2localizer.cli import app
from x2localizer.datasets.dataset import open_dataset
from x2localizer.encoders import Bundle, open_bundle
from x2localizer.errors import BundleError, CheckpointError, ConfigError, GalleryError
from x2localizer.evaluate.precision import bench_precision, to_values
from x2localizer.gallery import Gallery
from x2localizer.gallery.manifest import GalleryManifest
from x2localizer.gallery.store import check_encoder
from x2localizer.learn.bundle_weights import load_origin
from x2localizer.learn.precision import Precision, calibration_pictures, code_similarity, reduce_bundle
from x2localizer.learn.slim import slim_bundle


@pytest.mark.parametrize(("precision", "least", "share"), [("fp16", 0.999, 0.55), ("int8", 0.98, 0.55)])
def test_codes_are_nearly_the_same_in_fewer_bytes(
    precision: Precision, least: float, share: float, tiny_bundle: Bundle, tiny_dataset: Path, tmp_path: Path
) -> None:
    pictures = calibration_pictures(open_dataset(tiny_dataset), tiny_bundle.spec, 16)
    reduced = reduce_bundle(tiny_bundle, tmp_path / "small", precision, pictures)
    assert reduced.precision == precision
    assert reduced.fingerprint not in (tiny_bundle.fingerprint, "")
    assert reduced.spec.parts == tiny_bundle.spec.parts
    similar = code_similarity(tiny_bundle, reduced, pictures)
    assert set(similar) == {"frame", "tile"}
    assert min(similar.values()) > least
    prefixes = [bundle.encode_prefixes(pictures["prefix"]) for bundle in (tiny_bundle, reduced)]
    regions = [bundle.encode_regions(pictures["region"]) for bundle in (tiny_bundle, reduced)]
    for full, small in (prefixes, regions):
        assert float((full.whole * small.whole).sum(-1).min()) > least
        assert float((full.tokens * small.tokens).sum(-1).min()) > least
    sizes = [(bundle.root / "weights.bin").stat().st_size for bundle in (tiny_bundle, reduced)]
    assert sizes[1] < share * sizes[0]
    with pytest.raises(BundleError, match="already"):
        reduce_bundle(reduced, tmp_path / "again", precision, pictures)
    with pytest.raises(CheckpointError, match="does not hold all weights"):
        load_origin(reduced.root)


def test_int8_has_weights_of_bytes_with_a_scale_for_each_channel(
    tiny_bundle: Bundle, tiny_dataset: Path, tmp_path: Path
) -> None:
    pictures = calibration_pictures(open_dataset(tiny_dataset), tiny_bundle.spec, 4)
    assert {name: len(some) for name, some in pictures.items()} == {"frame": 4, "tile": 4, "prefix": 1, "region": 1}
    reduced = reduce_bundle(tiny_bundle, tmp_path / "small", "int8", pictures, parts=("frame",))
    assert reduced.spec.parts == ("frame",)
    graph = onnx.load(reduced.root / "frame.onnx").graph
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights = {name: values for name, values in tensors.items() if values.dtype == np.int8 and values.ndim >= 2}
    assert len(weights) >= 8
    for name, values in weights.items():
        scale = tensors[name.removesuffix("_quantized") + "_scale"]
        assert scale.shape in ((values.shape[0],), (values.shape[-1],))
        assert np.abs(values.astype(np.int64)).max() <= 64  # two products with bytes fit into 16 bits
    first = next(node for node in graph.node if node.op_type == "Conv")
    assert "Quantize" not in first.input[1]  # reads pixels: stays in 32 bits


def test_a_gallery_of_another_precision_is_refused_unless_the_bundle_accepts_it(
    tiny_bundle: Bundle, tmp_path: Path
) -> None:
    spec = tiny_bundle.spec
    manifest = GalleryManifest(
        encoder=tiny_bundle.fingerprint, zoom=19, region_tiles=spec.region_tiles, stride=3, dim=spec.dim
    )
    gallery = Gallery("somewhere", manifest, None)
    strict = reduce_bundle(tiny_bundle, tmp_path / "strict", "fp16", {})
    with pytest.raises(GalleryError, match="was made by the bundle"):
        check_encoder(gallery, strict)
    kind = reduce_bundle(tiny_bundle, tmp_path / "kind", "fp16", {}, accept_galleries=True)
    check_encoder(gallery, kind)
    assert kind.fingerprint == strict.fingerprint


def test_a_slim_bundle_has_the_same_frame_codes_and_the_same_name(tiny_bundle: Bundle, tmp_path: Path) -> None:
    slim = slim_bundle(tiny_bundle, tmp_path / "slim")
    frames = np.random.default_rng(0).integers(0, 256, (3, *tiny_bundle.spec.frame_size, 3), np.uint8)
    np.testing.assert_array_equal(slim.encode_frames(frames), tiny_bundle.encode_frames(frames))
    assert slim.fingerprint == tiny_bundle.fingerprint
    assert slim.spec.parts == ("frame",)
    assert (slim.root / "weights.bin").stat().st_size < 0.6 * (tiny_bundle.root / "weights.bin").stat().st_size
    small = reduce_bundle(slim, tmp_path / "fp16", "fp16", {})  # another name: its codes are not the same
    assert small.fingerprint != slim.fingerprint
    with pytest.raises(BundleError, match="no graph 'tile'"):
        slim.encode_tiles(np.zeros((1, slim.spec.tile_px, slim.spec.tile_px, 3), np.uint8))
    with pytest.raises(BundleError, match="no graph 'tile'"):
        slim_bundle(slim, tmp_path / "again", ("frame", "tile"))
    (slim.root / "weights.bin").write_bytes(b"x" + (slim.root / "weights.bin").read_bytes()[1:])
    with pytest.raises(BundleError, match="do not match"):
        open_bundle(slim.root)


def test_the_commands(tiny_bundle: Bundle, tiny_dataset: Path, tmp_path: Path) -> None:
    def run(*words: object) -> str:
        result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    out = tmp_path / "int8"
    said = run("export", tiny_bundle.root, "--precision", "int8", "--data", tiny_dataset, "--out", out)
    assert "lowest similarity with codes in full precision: frame 0.9" in said
    assert "are refused" in said
    assert "MB instead of" in run("bundle", "slim", out, "--out", tmp_path / "slim")
    values = json.loads(run("bundle", "info", tmp_path / "slim", "--json"))
    assert (values["precision"], values["parts"]) == ("int8", "frame")
    for words, message in ((["--precision", "int8"], "--data"), ([], "is a bundle already")):
        with pytest.raises(ConfigError, match=message):
            run("export", tiny_bundle.root, "--out", tmp_path / "no", *words)


def test_the_bench_measures_all_precisions_side_by_side(
    tiny_bundle: Bundle, tiny_dataset: Path, tmp_path: Path
) -> None:
    rows = bench_precision(tiny_bundle, open_dataset(tiny_dataset), tmp_path, clips=4, times=1)
    assert [row.name for row in rows] == ["fp32", "fp16", "int8", "int8, gallery fp32"]
    values = to_values(rows)
    assert values[0]["speedup_frame"] == 1.0
    assert not values[0]["r1_lost"]
    for row in values:
        assert set(row["r1"]) == {"1", "2", "4", "8"}
        assert all(0 <= value <= 100 for value in row["r1"].values())
    assert values[1]["bytes"] < values[0]["bytes"]
    assert not bench_precision(tiny_bundle, None, tmp_path, precisions=["fp16"], times=1)[1].r1
