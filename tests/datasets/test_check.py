"""``x2l check``: every kind of damage is found and named."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from x2localizer.datasets.check import check_dataset
from x2localizer.datasets.dataset import open_dataset
from x2localizer.datasets.tables import SCHEMAS

Damage = Callable[[Path], object]


def _edit(root: Path, name: str, change: Callable[[dict[str, list[object]]], None]) -> None:
    path = root / f"{name}.parquet"
    columns = pq.read_table(path).to_pydict()
    change(columns)
    pq.write_table(pa.table(columns, schema=SCHEMAS[name]), path)


def _set(column: str, row: int, value: object) -> Callable[[dict[str, list[object]]], None]:
    def change(columns: dict[str, list[object]]) -> None:
        columns[column][row] = value

    return change


def _swap_frames(root: Path) -> None:
    def change(columns: dict[str, list[object]]) -> None:
        for values in columns.values():
            values[3], values[4] = values[4], values[3]

    _edit(root, "frames", change)


def _cut_file(root: Path) -> None:
    path = next(iter(sorted((root / "frames" / "test").iterdir())))
    path.write_bytes(path.read_bytes()[:1000])


def _scramble(root: Path) -> None:
    for path in (root / "tiles" / "val").iterdir():
        path.write_bytes(bytes(len(path.read_bytes())))


DAMAGES: list[tuple[str, Damage]] = [
    ("missing files", lambda root: next(iter((root / "frames" / "test").iterdir())).unlink()),
    ("missing files", lambda root: next(iter((root / "regions" / "val").iterdir())).unlink()),
    ("truncated files", _cut_file),
    ("damaged pictures", _scramble),
    ("outside their region", lambda root: _edit(root, "frames", _set("lat_deg", 5, 41.9))),
    ("not on the map", lambda root: _edit(root, "frames", _set("lat_deg", 5, float("nan")))),
    ("out of order", _swap_frames),
    ("repeat a time", lambda root: _edit(root, "frames", _set("time_s", 6, 5.0))),
    ("have no time", lambda root: _edit(root, "frames", _set("time_s", 6, float("nan")))),
    ("number of frames differs", lambda root: _edit(root, "videos", _set("frames", 0, 12))),
    ("keyframes are not numbered", lambda root: _edit(root, "frames", _set("keyframe", 5, 7))),
    ("region is missing", lambda root: _edit(root, "videos", _set("region_id", 0, "nowhere"))),
    ("ids that occur twice", lambda root: _edit(root, "regions", _twice_region)),
    ("two splits share", lambda root: _edit(root, "regions", _set("area", 0, "town9000"))),
    ("unknown split", lambda root: _edit(root, "videos", _set("split", 0, "dev"))),
    ("frames of unknown videos", lambda root: _edit(root, "frames", _set("video_id", 0, "ghost"))),
    ("cannot be opened", lambda root: (root / "frames.parquet").write_bytes(b"PAR1")),
    ("cannot be opened", lambda root: (root / "dataset.json").unlink()),
    ("cannot be opened", lambda root: (root / "dataset.json").write_text("{}")),
    ("cannot be opened", lambda root: (root / "dataset.json").write_text('{"format": 999}')),
    ("outside the dataset", lambda root: _edit(root, "regions", _set("image_path", 0, "../../etc/passwd"))),
    ("outside the dataset", lambda root: _edit(root, "frames", _set("image_path", 0, "/etc/passwd"))),
    ("outside the dataset", lambda root: _edit(root, "frames", _set("tile_path", 0, "../tile.jpg"))),
    ("is negative", lambda root: _edit(root, "frames", _set("image_length", 0, -5))),
    ("truncated files", lambda root: _edit(root, "frames", _set("image_length", 0, 1 << 40))),
    ("differs from the manifest", lambda root: _drop_last(root, "regions")),
    ("has no counts", lambda root: (root / "dataset.json").write_text('{"format": 1}')),
    ("missing imagery", lambda root: shutil.rmtree(root / "imagery")),
    ("split or area differs", lambda root: _edit(root, "videos", _set("split", 0, "test"))),
    ("split or area differs", lambda root: _edit(root, "videos", _set("area", 0, "atlantis"))),
    ("centre is elsewhere", lambda root: _edit(root, "regions", _set("lat_deg", 0, 0.0))),
    ("duration differs", lambda root: _edit(root, "videos", _set("duration_s", 0, -5.0))),
    ("does not start at 0", lambda root: _edit(root, "frames", _set("time_s", 0, -1.0))),
    ("move as no car does", lambda root: _edit(root, "frames", _set("speed_m_s", 3, 40.0))),
    ("heading is not an angle", lambda root: _edit(root, "frames", _set("heading_deg", 0, 9999.0))),
    ("not on the map", lambda root: _edit(root, "regions", _set("zoom", 0, 77))),
    ("not on the map", lambda root: _edit(root, "regions", _set("n", 0, 0))),
    ("without area", lambda root: _null(root, "regions", "area")),
    ("without start_time", lambda root: _null(root, "videos", "start_time")),
    ("overlap another split", lambda root: _edit(root, "regions", _same_ground)),
]


def _drop_last(root: Path, name: str) -> None:
    table = pq.read_table(root / f"{name}.parquet")
    pq.write_table(table.slice(0, len(table) - 1), root / f"{name}.parquet")


def _null(root: Path, name: str, column: str) -> None:
    table = pq.read_table(root / f"{name}.parquet")
    values = table[column].to_pylist()
    values[0] = None
    place = table.column_names.index(column)
    loose = pa.field(column, SCHEMAS[name].field(column).type)
    pq.write_table(table.set_column(place, loose, pa.array(values, loose.type)), root / f"{name}.parquet")


def _same_ground(columns: dict[str, list[object]]) -> None:
    columns["x"][0], columns["y"][0] = columns["x"][-1], columns["y"][-1]


def _twice_region(columns: dict[str, list[object]]) -> None:
    columns["region_id"][0] = columns["region_id"][1]


@pytest.mark.parametrize(
    ("finding_text", "damage"), DAMAGES, ids=[f"{i}-{finding_text}" for i, (finding_text, _) in enumerate(DAMAGES)]
)
def test_the_check_reports_what_is_wrong(tiny_dataset: Path, tmp_path: Path, finding_text: str, damage: Damage) -> None:
    root = tmp_path / "damaged"
    shutil.copytree(tiny_dataset, root)
    damage(root)
    report = check_dataset(root, full=True)
    assert not report.sound
    assert any(finding_text in finding.what for finding in report.findings), report.to_text()
    assert finding_text in report.to_text()
    json.loads(report.to_json())


def test_a_frame_without_a_tile_is_a_note_that_names_it(tiny_dataset: Path, tmp_path: Path) -> None:
    root = tmp_path / "ragged"
    shutil.copytree(tiny_dataset, root)
    _edit(root, "frames", _set("tile_path", 7, ""))
    report = check_dataset(root)
    assert report.sound
    (found,) = [finding for finding in report.findings if finding.what == "frames without a tile"]
    assert (found.level, found.count, found.examples) == ("note", 1, ("row 7 of frames.parquet",))


def test_the_command_reports_damage_too(tiny_dataset: Path, tmp_path: Path) -> None:
    root = tmp_path / "damaged"
    shutil.copytree(tiny_dataset, root)
    _edit(root, "frames", _set("lat_deg", 0, float("nan")))
    words = [sys.executable, "-c", "from x2localizer.cli import main; main()", "check", str(root)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "not on the map" in done.stdout
    assert "Unexpected" not in done.stdout + done.stderr


def test_clips_have_a_name_that_changes_with_them(tiny_dataset: Path, tmp_path: Path) -> None:
    root = tmp_path / "moved"
    shutil.copytree(tiny_dataset, root)
    same, before = check_dataset(root), check_dataset(tiny_dataset)
    assert same.clips == before.clips
    assert set(before.clips) == {"val", "test"}
    assert before.clips["test"] in before.to_text()
    clip = open_dataset(root).videos("test")[0].video_id

    def move_north(columns: dict[str, list[object]]) -> None:
        row = columns["video_id"].index(clip)
        columns["lat_deg"][row] = float(str(columns["lat_deg"][row])) + 1e-5

    _edit(root, "frames", move_north)
    after = check_dataset(root)
    assert after.clips["val"] == before.clips["val"]
    assert after.clips["test"] != before.clips["test"]
