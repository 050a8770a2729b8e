"""The second process: crashes, hangs, bombs and Ctrl-C are errors here, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from helpers.gallery_files import write_noise
from x2localizer.errors import ConfigError, ImageryError, VideoError
from x2localizer.sources.guard import GuardProcess
from x2localizer.sources.guard.bench import bench_guard
from x2localizer.sources.imagery import Access, guarded, open_imagery
from x2localizer.sources.video import VideoWriter, open_video
from x2localizer.types import TileId

AT = TileId(19, 160005, 200006)


@pytest.fixture
def video(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    with VideoWriter(tmp_path / "v.mp4", 64, 32, 10) as writer:
        for _ in range(12):
            writer.write(rng.integers(0, 256, (32, 64, 3), dtype=np.uint8))
    return tmp_path / "v.mp4"


def _pid(guard: GuardProcess) -> int:
    return guard._process.pid


def test_frames_are_the_same(video: Path) -> None:
    for options in ({}, {"spacing_s": 0.3, "size": (16, 32)}, {"start_s": 0.5, "end_s": 0.9}):
        with open_video(video, **options) as plain, open_video(video, own_process=True, **options) as other:
            assert plain.info == other.info
            ours, theirs = list(plain), list(other)
        assert [frame.time_s for frame in ours] == [frame.time_s for frame in theirs]
        for one, two in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one.image, two.image)


@pytest.mark.parametrize("how", [signal.SIGSEGV, signal.SIGABRT])
def test_a_crash_of_the_decoder_is_an_error(how: signal.Signals, video: Path, tmp_path: Path) -> None:
    with open_video(video, own_process=True) as frames:
        next(frames)
        os.kill(_pid(frames._guard), how)  # type: ignore[attr-defined]
        with pytest.raises(VideoError, match=f"crashes the library that decodes it .{how.name}"):
            list(frames)
    with open_imagery(write_noise(tmp_path / "a.tif", 160003, 200005, 4), access=Access(own_process=True)) as imagery:
        os.kill(_pid(imagery._source._guard), how)  # type: ignore[attr-defined]
        with pytest.raises(ImageryError, match="crashes the library"):
            imagery.tile(AT)


def test_a_hang_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_imagery(write_noise(tmp_path / "a.tif", 160003, 200005, 4), access=Access(own_process=True)) as imagery:
        os.kill(_pid(imagery._source._guard), signal.SIGSTOP)  # type: ignore[attr-defined]
        monkeypatch.setattr(guarded, "READ_S", 0.3)
        with pytest.raises(ImageryError, match=r"took longer than 0.3 s"):
            imagery.tile(AT)


def test_ctrl_c_works_while_the_decoder_hangs(tmp_path: Path) -> None:
    with open_imagery(write_noise(tmp_path / "a.tif", 160003, 200005, 4), access=Access(own_process=True)) as imagery:
        os.kill(_pid(imagery._source._guard), signal.SIGSTOP)  # type: ignore[attr-defined]
        began_s = time.monotonic()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for what runs behind them
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            with pytest.raises(KeyboardInterrupt):
                imagery.tile(AT)
        finally:
            signal.signal(signal.SIGINT, before)
        assert time.monotonic() - began_s < 20


def test_errors_keep_their_kind_and_their_words(tmp_path: Path, video: Path) -> None:
    (tmp_path / "t.mp4").write_text("no video")
    with pytest.raises(VideoError, match="not a video"):
        open_video(tmp_path / "t.mp4", own_process=True)
    with pytest.raises(ConfigError, match="spacing"):
        open_video(video, spacing_s=-1.0, own_process=True)


def test_the_process_ends_with_its_parent(video: Path) -> None:
    code = f"""
import os
from x2localizer.sources.video import open_video
frames = open_video({str(video)!r}, own_process=True)
print(frames._guard._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    child = int(done.stdout)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if f"/proc/{child}" and Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the second process is still there")


def test_the_bench_gives_all_figures() -> None:
    values = bench_guard(frames=3, height=32, width=64, times=1, lines=20)
    assert {name.partition("_")[0] for name in values} == {"size", "plain", "guarded"}
    assert len(values) == 13
