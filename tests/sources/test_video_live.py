from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from helpers.video_files import HEIGHT, WIDTH, encode
from x2localizer.errors import VideoError
from x2localizer.sources.video import open_video
from x2localizer.sources.video.live import LiveSource
from x2localizer.sources.video.source import FrameGrid


@contextmanager
def streaming(data: bytes, *, chunk_s: float = 0.0, silence_s: float = 0.0, chunked: bool = False) -> Iterator[str]:
    """Serve a recording as a stream of unknown length, stay silent for a while, then end it.

    ``chunked`` streams say where they end, the others just hang up.
    """
    finished = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1" if chunked else "HTTP/1.0"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "video/mp2t")
            if chunked:
                self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                for place in range(0, len(data), 4096):
                    self._send(data[place : place + 4096])
                    finished.wait(chunk_s)
                finished.wait(silence_s)
                self._send(b"")
            except OSError:
                pass
            self.close_connection = True

        def _send(self, part: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/live.ts"
    finally:
        finished.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def broadcast(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encode(tmp_path_factory.mktemp("live") / "broadcast.ts", 90, gop=15)


def _live(path: Path, **grid: float) -> LiveSource:
    return LiveSource(av.open(str(path)), path.name, FrameGrid(**grid), timeout_s=5.0)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_stream_is_read_with_its_times_and_ends_cleanly(chunked: bool, broadcast: Path) -> None:
    with (
        streaming(broadcast.read_bytes(), chunk_s=0.005, chunked=chunked) as address,
        open_video(address, timeout_s=5.0) as video,
    ):
        assert video.info.live and video.info.duration_s is None and video.info.start_time is not None
        assert (video.info.height, video.info.width) == (HEIGHT, WIDTH)
        frames = list(video)
        assert list(video) == []
        assert video.skipped == 0
        assert len(frames) + video.dropped == 90
    numbers = [frame.time_s * 30 for frame in frames]
    assert numbers == pytest.approx([round(n) for n in numbers])
    assert [frame.index for frame in frames] == list(range(len(frames)))
    assert numbers[-1] == pytest.approx(89)


def test_a_slow_reader_gets_the_newest_and_losses_are_counted(broadcast: Path) -> None:
    with _live(broadcast) as video:
        video._thread.join()  # everything has come in before the first look
        frames = list(video)
        assert video.dropped == 88
    assert [frame.time_s for frame in frames] == pytest.approx([88 / 30, 89 / 30])
    assert [frame.index for frame in frames] == [0, 1]


def test_spacing_is_kept_before_frames_are_dropped(broadcast: Path) -> None:
    with _live(broadcast, spacing_s=1.0, start_s=0.5, end_s=2.0) as video:
        times = [frame.time_s for frame in video]
        assert video.dropped == 0
    assert times == pytest.approx([0.5, 1.5])


def test_live_pictures_are_those_of_the_file(broadcast: Path) -> None:
    expected = {frame.time_s: frame.image for frame in open_video(broadcast)}
    with _live(broadcast, spacing_s=2.0) as video:
        frames = list(video)
    assert frames
    for frame in frames:
        assert np.array_equal(frame.image, expected[frame.time_s])


def test_frames_without_stamps_take_the_wall_clock(tmp_path: Path) -> None:
    with _live(encode(tmp_path / "raw.h264", 30)) as video:
        video._thread.join()
        times = [frame.time_s for frame in video]
    assert times == sorted(times) and 0 < times[-1] < 5.0


def test_silence_is_an_error_and_does_not_hang(broadcast: Path) -> None:
    with streaming(broadcast.read_bytes(), silence_s=30.0) as address:
        began = time.monotonic()
        with open_video(address, spacing_s=1.0, timeout_s=0.5) as video:
            with pytest.raises(VideoError, match="No picture from"):
                for _ in video:
                    pass
            assert list(video) == []
        assert time.monotonic() - began < 5.0
        assert not video._thread.is_alive()  # type: ignore[attr-defined]


@pytest.mark.parametrize("scheme", ["rtsp", "http", "tcp"])
def test_a_server_that_never_answers_is_given_up(scheme: str) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        began = time.monotonic()
        with pytest.raises(VideoError, match="No picture from") as caught:
            open_video(f"{scheme}://me:secret@127.0.0.1:{mute.getsockname()[1]}/cam", timeout_s=0.5)
        assert time.monotonic() - began < 5.0
        assert "secret" not in str(caught.value)


def test_a_stream_that_is_no_video(tmp_path: Path) -> None:
    with (
        streaming(b"<html>Sign in first</html>" * 200) as address,
        pytest.raises(VideoError, match=r"Cannot open|not a video"),
    ):
        open_video(address, timeout_s=5.0)


def test_a_stream_that_ends_before_its_first_picture(tmp_path: Path) -> None:
    whole = encode(tmp_path / "v.ts", 30)
    for length in (188 * 3, 188 * 5):
        head = whole.read_bytes()[:length]
        with streaming(head) as address, pytest.raises(VideoError):
            open_video(address, timeout_s=5.0)


def test_closing_early_stops_the_thread(broadcast: Path) -> None:
    with streaming(broadcast.read_bytes(), chunk_s=0.05) as address:
        video = open_video(address, timeout_s=5.0)
        next(video)
        video.close()
        assert not video._thread.is_alive()  # type: ignore[attr-defined]
        assert list(video) == []


def test_a_recording_on_a_server_loses_no_frame(tmp_path: Path) -> None:
    path = encode(tmp_path / "v.mp4", 60, container_options={"movflags": "+faststart"})

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *values: Any) -> None:
            super().__init__(*values, directory=str(tmp_path))

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        with open_video(f"http://127.0.0.1:{server.server_port}/{path.name}", spacing_s=0.5) as video:
            assert not video.info.live and video.info.duration_s == pytest.approx(2.0)
            assert [frame.time_s for frame in video] == pytest.approx([0.0, 0.5, 1.0, 1.5])
    finally:
        server.shutdown()
        server.server_close()
