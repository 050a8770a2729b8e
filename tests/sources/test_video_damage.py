from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import pytest
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from helpers.video_files import HEIGHT, WIDTH, encode, picture
from x2localizer.errors import VideoError
from x2localizer.sources.video import VideoWriter, open_video
from x2localizer.sources.video.decoding import FrameDecoder


def _damage(source: Path, target: Path, at: float, length: int) -> Path:
    data = bytearray(source.read_bytes())
    begin = data.find(b"mdat") + 4
    place = begin + int((len(data) - begin) * at)
    data[place : place + length] = np.random.default_rng(5).bytes(length)
    target.write_bytes(data)
    return target


@pytest.mark.parametrize("spacing_s", [None, 0.4])
def test_damage_costs_only_the_frames_that_build_on_it(spacing_s: float | None, tmp_path: Path) -> None:
    whole = encode(
        tmp_path / "whole.mp4",
        120,
        gop=20,
        params={"crf": "10"},
        container_options={"movflags": "+faststart"},
    )
    damaged = _damage(whole, tmp_path / "damaged.mp4", 0.5, 300)
    clean = {frame.time_s: frame.image for frame in open_video(whole)}
    with open_video(damaged, spacing_s=spacing_s) as video:
        frames = list(video)
        assert video.skipped > 0
    times = [frame.time_s for frame in frames]
    assert times == sorted(set(times))
    assert times[0] == 0 and times[-1] > 3.5
    assert len(frames) >= (90 if spacing_s is None else 8)
    for frame in frames:
        assert np.array_equal(frame.image, clean[frame.time_s]), "a smeared frame was handed out"


@pytest.mark.parametrize(("at", "length"), [(0.1, 300), (0.0, 4), (0.0, 1200)])
def test_damage_at_the_head_shifts_no_times(at: float, length: int, tmp_path: Path) -> None:
    whole = encode(
        tmp_path / "whole.mp4", 60, gop=20, params={"crf": "10"}, container_options={"movflags": "+faststart"}
    )
    with open_video(_damage(whole, tmp_path / "damaged.mp4", at, length)) as video:
        frames = list(video)
        assert video.skipped > 0
    assert [frame.time_s for frame in frames] == pytest.approx([n / 30 for n in range(20, 60)])
    assert [frame.index for frame in frames] == list(range(40))


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts", ".avi"])
def test_a_file_cut_short_ends_cleanly(suffix: str, tmp_path: Path) -> None:
    options = {"movflags": "+faststart"} if suffix == ".mp4" else {}
    codec = "mpeg4" if suffix == ".avi" else "libx264"
    whole = encode(tmp_path / f"whole{suffix}", 90, gop=15, codec=codec, container_options=options)
    data = whole.read_bytes()
    begin = max(0, data.find({".mp4": b"mdat", ".avi": b"movi"}.get(suffix, b"\x47")))
    cut = tmp_path / f"cut{suffix}"
    cut.write_bytes(data[: begin + (len(data) - begin) // 2])
    with open_video(cut) as video:
        times = [frame.time_s for frame in video]
        assert list(video) == []
    assert 20 <= len(times) <= 60
    assert times[:20] == pytest.approx([n / 30 for n in range(20)], abs=0.001)
    assert times == sorted(set(times))


def test_bytes_out_of_place_never_crash(tmp_path: Path) -> None:
    whole = encode(tmp_path / "whole.mkv", 30, gop=10)
    data = whole.read_bytes()
    for seed in range(40):
        random = np.random.default_rng(seed)
        bad = bytearray(data)
        place, length = int(random.integers(0, len(data) - 400)), int(random.integers(1, 400))
        bad[place : place + length] = random.bytes(length if seed % 2 else length // 2)
        path = tmp_path / "bad.mkv"
        path.write_bytes(bad)
        try:
            with open_video(path, spacing_s=0.2 if seed % 3 else None) as video:
                times = [frame.time_s for frame in video]
        except VideoError:
            continue
        assert times == sorted(set(times))


def _write_sound(path: Path, *, cover: bool) -> None:
    with av.open(str(path), "w", format="mp4") as container:
        sound = container.add_stream("aac", rate=8000, layout="mono")
        assert isinstance(sound, AudioStream)
        if cover:
            art = container.add_stream("mjpeg", rate=1)
            assert isinstance(art, VideoStream)
            art.width, art.height, art.pix_fmt = WIDTH, HEIGHT, "yuvj420p"
            art.disposition = Disposition.attached_pic
            frame = VideoFrame.from_ndarray(picture(0), "rgb24")
            frame.pts = 0
            container.mux(art.encode(frame))
            container.mux(art.encode(None))
        silence = AudioFrame.from_ndarray(np.zeros((1, 4096), np.float32), "fltp", "mono")
        silence.sample_rate = 8000
        container.mux(sound.encode(silence))
        container.mux(sound.encode(None))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("missing.mp4", None, "no video at"),
        ("x" * 300 + ".mp4", None, "no video at"),
        ("nul\0.mp4", None, "no video at"),
        ("empty.mp4", b"", "not a video"),
        ("text.mp4", b"hello\n" * 100, "not a video"),
        ("text.txt", b"hello\n" * 100, "text file"),
        ("noise.mp4", np.random.default_rng(0).bytes(20_000), "not a video"),
        ("list.m3u8", b"#EXTM3U\nfile:///nowhere\n", "not a video"),
        ("words.srt", b"1\n00:00:01,000 --> 00:00:02,000\nhi\n", "subtitle"),
        ("broken.jpg", b"\xff\xd8\xff\xe0nothing", "can be read"),
    ],
)
def test_what_is_no_video_is_a_clear_error(name: str, content: bytes | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(VideoError, match=says) as caught:
        open_video(path)
    assert name in caught.value.what and caught.value.remedy


@pytest.mark.parametrize("cover", [False, True])
def test_sound_alone_is_a_clear_error(cover: bool, tmp_path: Path) -> None:
    _write_sound(tmp_path / "song.m4a", cover=cover)
    with pytest.raises(VideoError, match=r"song\.m4a has only sound"):
        open_video(tmp_path / "song.m4a")


def test_a_recording_without_its_index_is_a_clear_error(tmp_path: Path) -> None:
    whole = encode(tmp_path / "whole.mp4", 30)
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(whole.read_bytes()[:-1500])
    with pytest.raises(VideoError, match="damaged"):
        open_video(cut)


def test_too_little_memory_is_not_blamed_on_the_video(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fails:
        is_corrupt, pts, dts = False, 0, 0

        def decode(self) -> None:
            raise av.error.MemoryError(errno.ENOMEM, "Cannot allocate memory")

    with VideoWriter(tmp_path / "v.mp4", 64, 32, 10) as writer:
        writer.write(np.zeros((32, 64, 3), np.uint8))
    plain = FrameDecoder.decode
    monkeypatch.setattr(FrameDecoder, "decode", lambda self, packet: plain(self, cast(Any, Fails())))
    with pytest.raises(VideoError, match=r"not enough memory to decode .*v\.mp4"):
        open_video(tmp_path / "v.mp4")
