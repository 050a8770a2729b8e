"""The machine that looks for failures finds them; and what it has found once stays mended."""

from __future__ import annotations

import json
import random
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rasterio
from rasterio.errors import RasterioError

from fuzz.mutate import break_path, broken_bytes, broken_json
from fuzz.readers import BY_NAME, READERS
from fuzz.run import fuzz, make_seeds
from fuzz.worker import input_at
from helpers.imagery_files import on_grid, on_tiles
from helpers.tiny_bundle import TINY_BUNDLE
from x2localizer.config import TrackSettings
from x2localizer.datasets.dataset import open_dataset
from x2localizer.datasets.tables import FORMAT, SCHEMAS
from x2localizer.encoders import open_bundle
from x2localizer.encoders.bundle import files_fingerprint
from x2localizer.errors import BundleError, DatasetError, ImageryError, MotionError, UserError
from x2localizer.evaluate.rankings import ranks_of_file
from x2localizer.localize.confidence import Confidence
from x2localizer.localize.track.confidence import track_confidence
from x2localizer.sources.imagery import open_imagery
from x2localizer.sources.imagery.raster_bands import choose_bands
from x2localizer.sources.motion import read_motion
from x2localizer.town.folder import load_town

QUICK = (
    "GPX",
    "CSV track",
    "telemetry",
    "odometry",
    "oxts",
    "config",
    "rankings",
    "frame message",
    "confidence",
    "town",
)


@pytest.mark.slow
def test_every_kind_of_failure_is_seen_and_the_worker_goes_on() -> None:
    toys = [BY_NAME[f"toy that {what}"] for what in ("raises", "refuses", "crashes", "hangs", "takes all memory")]
    found = fuzz(toys[:4], minutes=3.0, workers=1, timeout_s=1.0, most_inputs=3)
    found |= fuzz(toys[4:], minutes=3.0, workers=1, timeout_s=30.0, most_inputs=2)
    counts = {name: (t.read, t.refused, t.failures, t.crashes, t.hangs) for name, t in found.items()}
    assert counts == {
        "toy that raises": (1, 0, 2, 0, 0), "toy that refuses": (1, 2, 0, 0, 0), "toy that crashes": (1, 0, 0, 2, 0),
        "toy that hangs": (1, 0, 0, 0, 2), "toy that takes all memory": (1, 0, 1, 0, 0),
    }  # fmt: skip


@pytest.mark.slow
def test_a_few_broken_inputs_of_the_quick_readers_do_no_harm() -> None:
    found = fuzz([BY_NAME[name] for name in QUICK], minutes=3.0, workers=1, most_inputs=25)
    assert {name: tally.inputs for name, tally in found.items()} == dict.fromkeys(QUICK, 25)
    assert {name: tally.examples for name, tally in found.items() if tally.bad} == {}
    assert all(tally.read for tally in found.values())  # the seed itself, at least


def test_a_number_names_an_input(tmp_path: Path) -> None:
    reader = BY_NAME["GPX"]
    make_seeds([reader], tmp_path / "seeds")
    texts: list[bytes] = []
    for number in (0, 7, 7, 8):
        folder = tmp_path / f"in{len(texts)}"
        folder.mkdir()
        texts.append(input_at(reader, tmp_path / "seeds", folder, 3, number).read_bytes())
    assert texts[0] == (tmp_path / "seeds" / "GPX" / "a.gpx").read_bytes()
    assert texts[1] == texts[2] != texts[3]


def test_readers_have_names_of_their_own() -> None:
    assert len({reader.name for reader in READERS}) == len(READERS)


@pytest.mark.parametrize("seed", range(5))
def test_broken_files_differ_from_sound_ones(seed: int, tmp_path: Path) -> None:
    data = bytes(range(256))
    assert any(broken_bytes(data, random.Random(f"{seed} {k}")) != data for k in range(5))
    tree = json.dumps({"a": [1, {"b": None}], "c": "d"}).encode()
    assert any(broken_json(tree, random.Random(f"{seed} {k}")) != tree for k in range(5))
    table = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": np.arange(9), "b": list("abcdefghi")}), table)
    before = table.read_bytes()
    for k in range(5):
        break_path(table, random.Random(f"{seed} {k}"))
        if table.read_bytes() != before:
            return
    raise AssertionError("nothing was broken")


# Found by the machine, and mended ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [{"config": "x"}, {"config": {"objective": []}}, {"config": {"objective": {"tau_f": "x"}}}, {"model": None}],
)
def test_a_bundle_whose_manifest_has_other_types(change: dict[str, object], tmp_path: Path) -> None:
    root = tmp_path / "bundle"
    shutil.copytree(TINY_BUNDLE, root)
    manifest = json.loads((root / "bundle.json").read_text()) | change
    if manifest["model"] is None:
        del manifest["model"]
    (root / "bundle.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match="damaged"):
        open_bundle(root)


def test_a_manifest_of_endless_brackets(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text("[" * 100_000)
    with pytest.raises(BundleError, match="damaged"):
        open_bundle(tmp_path)


def test_a_bundle_with_its_graphs_exchanged(tmp_path: Path) -> None:
    root = tmp_path / "bundle"
    shutil.copytree(TINY_BUNDLE, root)
    shutil.copy(root / "prefix.onnx", root / "frame.onnx")
    manifest = json.loads((root / "bundle.json").read_text())
    (root / "bundle.json").write_text(json.dumps(manifest | {"fingerprint": files_fingerprint(root)}))
    bundle = open_bundle(root)
    with pytest.raises(BundleError, match=r"frame\.onnx cannot be run"):
        bundle.encode_frames(np.zeros((1, *bundle.spec.frame_size, 3), np.uint8))


@pytest.mark.parametrize("text", ["[]", "3", "true", '"x"', "[" * 100_000])
def test_a_confidence_that_is_no_object(text: str, tmp_path: Path) -> None:
    (tmp_path / "track.json").write_text(text)
    (tmp_path / "confidence.json").write_text(text)
    with pytest.raises(BundleError, match="damaged"):
        track_confidence(tmp_path, TrackSettings())
    with pytest.raises(BundleError, match="damaged"):
        Confidence.load(tmp_path)


@pytest.mark.parametrize("text", ['{"seed": Infinity, "settings": {}}', "[" * 100_000, '{"seed": 1}', "3"])
def test_a_town_whose_recipe_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "town.json").write_text(text)
    with pytest.raises(UserError, match="damaged"):
        load_town(tmp_path)


@pytest.mark.parametrize("header", ["time_s,speed_m_s,speed_m_s", "time_s,time_s,speed_m_s", "time,time,speed_m_s"])
def test_a_motion_table_with_a_column_twice(header: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(header + "\n0,0,1\n1,1,2\n2,2,3\n")
    with pytest.raises(MotionError, match=r"has the column '\w+' twice"):
        read_motion(tmp_path / "a.csv")


def test_imagery_that_claims_thousands_of_bands(tmp_path: Path) -> None:
    layout = {"tiled": False, "blockxsize": 4, "blockysize": 4}
    on_grid(tmp_path / "a.tif", np.ones((1001, 4, 4), np.uint8), **layout)
    with pytest.raises(ImageryError, match="1,001 bands"):
        open_imagery(tmp_path / "a.tif")


def test_imagery_of_many_bands_in_long_rows_is_refused_before_any_is_decoded(tmp_path: Path) -> None:
    layout: dict[str, Any] = {"width": 65_535, "height": 128, "count": 255, "dtype": "float32", "blockysize": 8}
    place = {"crs": "EPSG:3857", "transform": on_tiles(), "interleave": "pixel", "sparse_ok": True, "BIGTIFF": "YES"}
    with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", **layout, **place):
        pass
    began_s = time.process_time()
    with pytest.raises(ImageryError, match=r"65,535 x 8 pixels with 255 bands: 535 MB.*gdal_translate -b 1 -b 2 -b 3"):
        open_imagery(tmp_path / "a.tif")
    assert time.process_time() - began_s < 5.0


def test_imagery_whose_directory_breaks_off_late() -> None:
    class Damaged:
        name = "a.tif"

        @property
        def colorinterp(self) -> object:
            raise RasterioError("TIFFFetchNormalTag: tag is not read from file")

    with pytest.raises(ImageryError, match=r"a\.tif is damaged"):
        choose_bands(Damaged())


def test_rankings_whose_names_are_not_text(tmp_path: Path) -> None:
    names = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"\xf6a")]
    )
    pq.write_table(pa.table({"query": names, "item": ["x", "x"], "score": [1.0, 2.0]}), tmp_path / "r.parquet")
    with pytest.raises(DatasetError, match="not in the dataset"):
        ranks_of_file(tmp_path / "r.parquet", ["a"], ["x"], np.array([0]))


def test_a_motion_table_whose_columns_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"time_s": [0.0, 1.0], "speed_m_s": [3.0, 3.0], "wheel_ticks": [1, 2]}), path, compression=None
    )
    path.write_bytes(path.read_bytes().replace(b"wheel_ticks", b"wheel\xffticks"))
    with pytest.raises(MotionError):
        read_motion(path)


@pytest.mark.parametrize("config", [1.5, {"train": []}, None])
def test_a_dataset_whose_config_is_no_table(config: object, tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_text(json.dumps({"format": FORMAT, "config": config}))
    with pytest.raises(DatasetError, match="damaged"):
        open_dataset(tmp_path)


def test_a_dataset_with_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_text(json.dumps({"format": FORMAT}))
    columns: dict[str, Any] = {field.name: pa.array([], field.type) for field in SCHEMAS["regions"]}
    pq.write_table(pa.table(columns), tmp_path / "regions.parquet")
    assert open_dataset(tmp_path).region_table.num_rows == 0
    filled = {
        field.name: pa.array(["some text"] if field.type == pa.string() else [1], field.type)
        for field in SCHEMAS["regions"]
    }
    pq.write_table(
        pa.table(filled), tmp_path / "regions.parquet", compression=None, use_dictionary=False, write_statistics=False
    )
    data = (tmp_path / "regions.parquet").read_bytes()
    (tmp_path / "regions.parquet").write_bytes(data.replace(b"some text", b"some\xfftext"))
    with pytest.raises(DatasetError, match="damaged"):
        _ = open_dataset(tmp_path).region_table
