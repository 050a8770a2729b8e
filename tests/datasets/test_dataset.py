"""Datasets of synthetic towns: what is in them, that they resume, and that nothing else is touched."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from helpers.small_world import TINY
from x2localizer import geo
from x2localizer.config import SplitSettings
from x2localizer.datasets.check import check_dataset
from x2localizer.datasets.dataset import open_dataset
from x2localizer.datasets.tables import Media
from x2localizer.datasets.town import jobs_of, make_dataset
from x2localizer.errors import DatasetError, UserError
from x2localizer.show.dataset import dataset_sheet
from x2localizer.town.place import place_for


def _snapshot(root: Path) -> dict[str, bytes]:
    """Every file of a dataset but the scratch folder."""
    return {
        str(p.relative_to(root)): p.read_bytes()
        for p in sorted(root.rglob("*"))
        if p.is_file() and "parts" not in p.parts
    }


def test_what_is_made_is_sound(tiny_dataset: Path) -> None:
    report = check_dataset(tiny_dataset, full=True)
    assert report.findings == []
    assert report.counts["train videos (clip)"] == 6
    assert report.counts["test regions"] == 4
    assert report.counts["test videos (long)"] >= 2
    assert report.counts["pictures decoded"] == report.counts["pictures"]


def test_a_clip_has_eight_keyframes_five_seconds_apart_inside_its_region(tiny_dataset: Path) -> None:
    data = open_dataset(tiny_dataset)
    for split in ("train", "val", "test"):
        regions = {row.region_id: row for row in data.regions(split)}
        for video in data.videos(split):
            frames, keys = data.frames(video.video_id), data.keyframes(video.video_id)
            assert [frame.time_s for frame in frames] == [float(k) for k in range(36)]
            assert [key.time_s for key in keys] == [5.0 * k for k in range(8)]
            assert video.duration_s == 35.0
            region = regions[video.region_id].region
            assert geo.region_contains(
                region, np.array([f.lat_deg for f in frames]), np.array([f.lon_deg for f in frames])
            ).all()


def test_pictures_have_the_sizes_of_the_config(tiny_dataset: Path) -> None:
    data = open_dataset(tiny_dataset)
    video = data.videos("test")[0]
    key = data.keyframes(video.video_id)[3]
    assert data.picture(key.image).shape == (32, 64, 3)
    assert data.picture(key.tile).shape == (32, 32, 3)
    assert data.picture(data.regions("test")[0].image).shape == (7 * 32, 7 * 32, 3)


def test_the_tile_of_a_frame_is_cut_from_its_region(tiny_dataset: Path) -> None:
    data = open_dataset(tiny_dataset)
    regions = {row.region_id: row for row in data.regions("test")}
    errors = []
    for video in data.videos("test"):
        row = regions[video.region_id]
        picture = data.picture(row.image).astype(float)
        for key in data.keyframes(video.video_id):
            x, y = geo.tile_coordinates(key.lat_deg, key.lon_deg, row.zoom)
            c, r = round((float(x) - row.x - 0.5) * 32), round((float(y) - row.y - 0.5) * 32)
            if min(c, r) >= 0 and max(c, r) <= 6 * 32:
                tile = data.picture(key.tile).astype(float)
                here = np.abs(tile - picture[r : r + 32, c : c + 32]).mean()
                elsewhere = np.abs(tile - picture[(r + 96) % 192 :][:32, c : c + 32]).mean()
                errors.append(here < 0.6 * elsewhere)
    assert len(errors) > 10
    assert np.mean(errors) > 0.95


def test_long_drives_leave_their_first_region_and_may_have_a_gap(tiny_dataset: Path) -> None:
    data = open_dataset(tiny_dataset)
    regions = {row.region_id: row.region for row in data.regions("test")}
    rides: dict[str, list[str]] = {}
    for video in data.videos("test", "long"):
        rides.setdefault(video.ride_id, []).append(video.video_id)
    assert len(rides) == 2
    for videos in rides.values():
        frames = [frame for video in videos for frame in data.frames(video)]
        visited = {
            name
            for name, region in regions.items()
            for frame in frames
            if geo.region_contains(region, frame.lat_deg, frame.lon_deg)
        }
        assert len(visited) > 1
        assert len(frames) >= 119
    gaps = []
    for videos in rides.values():
        rows = sorted((v for v in data.videos("test", "long") if v.video_id in videos), key=lambda v: v.start_time)
        gaps += [(b.start_time - a.start_time).total_seconds() - a.duration_s for a, b in pairwise(rows)]
    assert len(gaps) == 1
    assert 19 < gaps[0] <= 42


def test_splits_never_share_a_town(tiny_dataset: Path) -> None:
    data = open_dataset(tiny_dataset)
    areas = [{row.area for row in data.regions(split)} for split in ("train", "val", "test")]
    assert not (areas[0] & areas[1] or areas[0] & areas[2] or areas[1] & areas[2])
    clash = TINY.model_copy(update={"val": SplitSettings(first_seed=1)})
    with pytest.raises(DatasetError, match="share a town"):
        jobs_of(clash)


def test_the_manifest_says_how_it_was_made(tiny_dataset: Path) -> None:
    manifest = json.loads((tiny_dataset / "dataset.json").read_text())
    assert manifest["command"] == "made by a test"
    assert manifest["seeds"] == {"train": [0, 1], "val": [5000], "test": [9000]}
    assert manifest["config"]["frame_height"] == 32


def test_making_it_again_changes_nothing(tiny_dataset: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tiny_dataset, copy)
    before = _snapshot(copy)
    make_dataset(TINY, copy, "made by a test", workers=1)
    assert _snapshot(copy) == before


def test_another_config_does_not_write_into_it(tiny_dataset: Path, tmp_path: Path) -> None:
    other = TINY.model_copy(update={"frame_height": 48})
    with pytest.raises(DatasetError, match="another config"):
        make_dataset(other, tiny_dataset, "other", workers=1)
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(DatasetError, match="other files"):
        make_dataset(TINY, tmp_path, "here", workers=1)


KILLED = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from helpers.small_world import TINY
from x2localizer.datasets.town import make_dataset
make_dataset(TINY, Path(sys.argv[1]), "made by a test", workers=1)
"""


@pytest.mark.slow
def test_a_killed_run_resumes_and_gives_the_same_bytes(tiny_dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "killed"
    work = subprocess.Popen([sys.executable, "-c", KILLED, str(out), str(Path(__file__).parent.parent)])
    first_part = out / "parts" / "test-9000" / "done"
    deadline = time.monotonic() + 240
    while not first_part.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)  # well into the second town
    os.kill(work.pid, signal.SIGKILL)
    work.wait()
    assert first_part.exists()
    assert not (out / "dataset.json").exists()
    with pytest.raises(DatasetError, match="running its command again"):
        open_dataset(out)
    stamp = first_part.stat().st_mtime_ns
    steps: list[int] = []
    make_dataset(TINY, out, "made by a test", workers=1, progress=lambda done, total: steps.append(done))
    assert steps[0] >= 1  # what was done is not done again
    assert not first_part.exists() or first_part.stat().st_mtime_ns == stamp
    left = {name for name in _snapshot(out) if "/." not in name}
    assert left == set(_snapshot(tiny_dataset))
    assert {n: b for n, b in _snapshot(out).items() if "/." not in n} == _snapshot(tiny_dataset)
    assert check_dataset(out).sound


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for path in tasks for word in path.read_text().split()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find the workers")
def test_workers_end_when_the_run_is_killed(tmp_path: Path) -> None:
    words = ["town", "dataset", "--preset", "quick", "--out", str(tmp_path / "out"), "--workers", "2"]
    work = subprocess.Popen(
        [sys.executable, "-c", "from x2localizer.cli import main; main()", *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not (tmp_path / "out" / "frames").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = _children(work.pid)
    assert len(workers) >= 2
    os.kill(work.pid, signal.SIGKILL)
    work.wait()
    deadline = time.monotonic() + 30
    while any(_running(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(_running(pid) for pid in workers)


def _running(pid: int) -> bool:
    """Whether a process still works; a dead one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_pictures_outside_the_dataset_are_not_read(tiny_dataset: Path, tmp_path: Path) -> None:
    outside = tmp_path / "secret.jpg"
    shutil.copy(next((tiny_dataset / "regions" / "val").iterdir()), outside)
    data = open_dataset(tiny_dataset)
    for path in (str(outside), f"../{tmp_path.name}/secret.jpg", ""):
        with pytest.raises(DatasetError, match="not a picture of the dataset"):
            data.picture(Media(path))


def test_a_folder_with_other_things_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("mine")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".my-writing-notes.txt").write_text("precious")
    with pytest.raises(DatasetError, match="other files"):
        make_dataset(TINY, tmp_path, "here", workers=1)
    assert (tmp_path / ".lock").read_text() == "mine"
    assert (tmp_path / "sub" / ".my-writing-notes.txt").read_text() == "precious"
    (tmp_path / "afile").write_text("")
    with pytest.raises(UserError, match=r"is a file|file where a folder"):
        make_dataset(TINY, tmp_path / "afile", "here", workers=1)


def test_towns_that_would_share_ground_are_passed_over() -> None:
    many = TINY.model_copy(update={"train": SplitSettings(towns=1000, grid=False)})
    jobs = jobs_of(many)
    trained = [job.seed for job in jobs if job.name.startswith("train")]
    assert len(trained) == 1000
    assert trained == sorted(set(trained))
    assert trained[-1] > 999  # some seeds were passed over
    tiles = many.town.tiles
    places = [place_for(job.seed, tiles) for job in jobs]
    at = np.array([(place.x, place.y) for place in places])
    apart = np.abs(at[:, None] - at[None]).max(-1)
    np.fill_diagonal(apart, tiles)
    assert apart.min() >= tiles


# A shell starts what it runs in the background with interrupts ignored, and that is inherited: also by these tests.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from x2localizer.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find the workers")
@pytest.mark.parametrize("end", ["interrupt", "failure"])
def test_no_worker_writes_after_an_interrupt_or_a_failure(tmp_path: Path, end: str) -> None:
    out = tmp_path / "out"
    words = ["town", "dataset", "--preset", "quick", "--out", str(out), "--workers", "2", "--set", "train.towns=30"]
    work = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        _end_it(work, out, end)
    finally:
        work.kill()
        work.wait()


def _end_it(work: subprocess.Popen[str], out: Path, end: str) -> None:
    deadline = time.monotonic() + 120
    while not (out / "frames" / "val").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = _children(work.pid)
    if end == "interrupt":
        os.killpg(work.pid, signal.SIGINT)  # as a terminal does
    else:
        (out / "frames" / "train").write_text("a file where a folder should be")
    output, _ = work.communicate(timeout=60)
    assert work.returncode == (130 if end == "interrupt" else 2), output
    assert ("Interrupted" if end == "interrupt" else "Cannot write") in output
    assert "Traceback" not in output
    done = len(list(out.glob("parts/*/done")))
    deadline = time.monotonic() + 10
    while any(_running(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(_running(pid) for pid in workers)
    assert len(list(out.glob("parts/*/done"))) == done < 30


def test_the_sheet_shows_what_can_be_shown(tiny_dataset: Path, tmp_path: Path) -> None:
    picture = dataset_sheet(tiny_dataset)
    assert picture is not None
    assert picture.shape[0] > 1000
    assert picture.std() > 30
    root = tmp_path / "damaged"
    shutil.copytree(tiny_dataset, root)
    shutil.rmtree(root / "frames")
    assert dataset_sheet(root) is None
