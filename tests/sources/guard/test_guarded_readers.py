"""Roads, telemetry and motion in the second process: the same values, and a crash or a hang there is an error here."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from helpers.road_files import write_osm, write_pbf
from helpers.ros_bags import BagWriter
from helpers.telemetry_files import mp4
from x2localizer.errors import MotionError, RoadError, TrackError, UserError
from x2localizer.sources import packets
from x2localizer.sources.guard import GuardProcess, worker
from x2localizer.sources.guard.wire import received
from x2localizer.sources.motion import read_motion
from x2localizer.sources.roads import guarded, read_roads, road_batches
from x2localizer.sources.roads import read as roads_read
from x2localizer.sources.tracks import read_track
from x2localizer.sources.video import open_video
from x2localizer.sources.video.guarded import GuardedVideo

WAYS = [
    ([(48.0 + 0.001 * i, 11.0), (48.0 + 0.001 * i, 11.001), (48.001, 11.002)], {"highway": "primary", "oneway": "yes"})
    for i in range(30)
]


def _camm(count: int) -> bytes:
    """A film with a position a second, as Street View cameras write them."""
    positions = [np.array([48.0 + 1e-5 * i, 11.0, 500.0]).tobytes() for i in range(count)]
    return mp4([b"\0\0\5\0" + position for position in positions], b"camm")


@pytest.fixture
def film(tmp_path: Path) -> Path:
    (tmp_path / "film.mp4").write_bytes(_camm(2500))
    return tmp_path / "film.mp4"


@pytest.fixture
def streets(tmp_path: Path) -> Path:
    return write_osm(tmp_path / "streets.osm", WAYS)


def _signal_after(monkeypatch: pytest.MonkeyPatch, questions: int, what: signal.Signals) -> list[GuardProcess]:
    """Let a signal reach the second process when it is asked for the n-th time; returns those that got one."""
    hit: list[GuardProcess] = []
    asked = [0]
    plain = GuardProcess.send

    def send(self: GuardProcess, **values: Any) -> None:
        asked[0] += 1
        if asked[0] == questions:
            os.kill(self._process.pid, what)
            hit.append(self)
        plain(self, **values)

    monkeypatch.setattr(GuardProcess, "send", send)
    return hit


@pytest.mark.parametrize("kind", ["osm", "pbf", "packed"])
def test_roads_are_the_same(kind: str, streets: Path, tmp_path: Path) -> None:
    path = streets
    if kind == "pbf":
        path = write_pbf(tmp_path / "streets.osm.pbf", WAYS)
    elif kind == "packed":
        path = tmp_path / "streets.osm.gz"
        path.write_bytes(gzip.compress(streets.read_bytes()))
    plain, other = read_roads(path), read_roads(path, own_process=True)
    assert len(plain) == len(WAYS)
    for name in ("points_deg", "starts", "kinds", "oneway", "dropped"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(other, name))


def test_roads_come_in_the_same_batches(streets: Path) -> None:
    sizes = [len(roads) for roads in road_batches(streets, lines_at_once=8, own_process=True)]
    assert sizes == [len(roads) for roads in road_batches(streets, lines_at_once=8)]
    assert len(sizes) > 3


def test_telemetry_is_the_same(film: Path) -> None:
    plain, other = read_track(film), read_track(film, own_process=True)
    assert len(plain) == 2500, "more than are handed over at once"
    np.testing.assert_array_equal(plain.times_s, other.times_s)
    np.testing.assert_array_equal(plain.lats_deg, other.lats_deg)


@pytest.mark.parametrize("kind", ["csv", "parquet", "poses", "bag"])
def test_motion_is_the_same(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"drive.{kind}"
    columns = {"time": [f"2026-05-01T12:00:{i:02d}Z" for i in range(20)], "speed_m_s": [5.0 + i for i in range(20)]}
    if kind == "csv":
        path.write_text("\n".join(["time,speed_m_s", *(f"{t},{s}" for t, s in zip(*columns.values(), strict=True))]))
    elif kind == "parquet":
        pyarrow.parquet.write_table(pa.table(columns), path)
    elif kind == "poses":
        path.write_text("\n".join(f"1 0 0 0 0 1 0 0 0 0 1 {i}" for i in range(20)))
    else:
        pytest.importorskip("rosbags", reason="needs the extra [programs]")
        with BagWriter(path) as writer:
            for i in range(20):
                writer.odometry("/odom", i / 10, 5.0 + i, 0.1)
        path = Path(f"{path}#/odom")
    plain, other = read_motion(path, 1.5, rate_hz=4.0), read_motion(path, 1.5, rate_hz=4.0, own_process=True)
    for field in fields(plain):
        np.testing.assert_array_equal(getattr(plain, field.name), getattr(other, field.name))


def test_pictures_of_a_bag_are_the_same(tmp_path: Path) -> None:
    pytest.importorskip("rosbags", reason="needs the extra [programs]")
    with BagWriter(tmp_path / "b") as writer:
        for i in range(5):
            writer.raw("/front", i / 10, np.full((12, 16, 3), 40 * i, np.uint8), "rgb8")
    address = f"{tmp_path / 'b'}#/front"
    with open_video(address) as plain, open_video(address, own_process=True) as other:
        assert isinstance(other, GuardedVideo)
        assert other.info == plain.info
        frames, others = list(plain), list(other)
    assert len(frames) == 5
    for frame, same in zip(frames, others, strict=True):
        assert same.time_s == frame.time_s
        np.testing.assert_array_equal(same.image, frame.image)


@pytest.mark.parametrize("questions", [1, 2])
def test_a_crash_is_an_error_about_the_file(
    questions: int, film: Path, streets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for read, path, error in ((read_roads, streets, RoadError), (read_track, film, TrackError)):
        with monkeypatch.context() as patched:
            _signal_after(patched, questions, signal.SIGSEGV)
            with pytest.raises(error, match=rf"{path.name} crashes the library that decodes it \(SIGSEGV\)"):
                read(path, own_process=True)


def test_a_crash_while_motion_is_read(film: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _signal_after(monkeypatch, 1, signal.SIGABRT)
    with pytest.raises(MotionError, match="crashes the library"):
        read_motion(film, own_process=True)


def test_a_hang_is_given_up_and_leaves_no_process(film: Path, streets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packets, "READ_S", 0.5)
    monkeypatch.setattr(guarded, "BATCH_S", 0.5)
    monkeypatch.setattr(guarded, "BYTES_PER_S", 1e12)
    for read, path, advice in ((read_roads, streets, "osmium extract"), (read_track, film, "ffmpeg -i FILE")):
        with monkeypatch.context() as patched:
            hit = _signal_after(patched, 1, signal.SIGSTOP)
            with pytest.raises(UserError, match=rf"took longer than 0.5 s to read.*{advice}"):
                read(path, own_process=True)
            assert hit[0]._process.poll() is not None


def test_a_large_file_has_more_time(streets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    plain = GuardProcess.answer

    def answer(self: GuardProcess, timeout_s: float) -> object:
        limits.append(timeout_s)
        return plain(self, timeout_s)

    monkeypatch.setattr(GuardProcess, "answer", answer)
    monkeypatch.setattr(guarded, "BYTES_PER_S", 1.0)
    read_roads(streets, own_process=True)
    assert set(limits) == {guarded.BATCH_S + streets.stat().st_size}


def test_a_process_that_hangs_alone_ends_by_itself() -> None:
    """As it is left if this process is killed while the library hangs."""
    code = """
import time
from x2localizer.sources.guard import worker
with worker._alarm(0.1):
    time.sleep(60)
"""
    began_s = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert done.returncode == -signal.SIGALRM
    assert time.monotonic() - began_s < 50


@pytest.mark.parametrize(
    "problem", [MemoryError(), ImportError("a.so: failed to map segment"), RuntimeError("bad_alloc")]
)
def test_a_lack_of_memory_in_the_second_process_is_named(problem: Exception) -> None:
    def make() -> worker.Handler:
        raise problem

    sent = BytesIO()
    worker._reply(sent, worker._at_first(make), {})
    sent.seek(0)
    values, _ = received(lambda count: bytearray(sent.read(count)))
    assert values["what"] == "There is not enough memory to decode the file."


def test_errors_keep_their_words(tmp_path: Path) -> None:
    (tmp_path / "a.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": []}))
    (tmp_path / "a.mp4").write_bytes(b"\0\0\0\x18ftypmp41" + bytes(100))
    for read, name in ((read_roads, "a.geojson"), (read_track, "a.mp4"), (read_motion, "a.mp4")):
        said = []
        for own_process in (False, True):
            with pytest.raises(UserError) as problem:
                read(tmp_path / name, own_process=own_process)
            said.append((type(problem.value), str(problem.value)))
        assert said[0] == said[1]


def test_a_packed_file_that_grows_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roads_read, "_LEAST_UNPACKED", 1 << 20)
    (tmp_path / "bomb.osm.gz").write_bytes(gzip.compress(bytes(64 << 20)))
    with pytest.raises(RoadError, match="unpacks to more than 100 times its size"):
        read_roads(tmp_path / "bomb.osm.gz")
