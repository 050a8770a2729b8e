from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from helpers.video_files import HEIGHT, WIDTH, encode, naive_frames, picture
from x2localizer.errors import ConfigError, UserError, VideoError
from x2localizer.sources.video import open_video
from x2localizer.sources.video.decoding import FrameDecoder, RgbConverter
from x2localizer.sources.video.packets import PacketReader
from x2localizer.sources.video.source import FrameGrid

NTSC = Fraction(30000, 1001)
JUMPY = np.cumsum(np.random.default_rng(3).integers(1, 12, 120)).tolist()
GAPPY = [*range(30), *range(200, 230), *range(500, 560)]
OPEN_GOP = {"x264-params": "open-gop=1:b-adapt=0:scenecut=0"}

RECORDINGS: dict[str, dict[str, Any]] = {
    "long_gop.mp4": {"count": 150, "gop": 300},
    "short_gop.mp4": {"count": 150, "gop": 10, "b_frames": 0},
    "b_pyramid.mp4": {"count": 150, "b_frames": 3, "params": {"x264-params": "b-pyramid=normal:ref=4"}},
    "open_gop.mp4": {"count": 150, "gop": 24, "b_frames": 3, "params": OPEN_GOP},
    "open_gop.mkv": {"count": 150, "gop": 24, "b_frames": 3, "params": OPEN_GOP},
    "ntsc.mp4": {"count": 150, "gop": 15, "rate": NTSC},
    "variable.mp4": {"count": 120, "gop": 12, "stamps": JUMPY, "time_base": Fraction(1, 120)},
    "variable.mkv": {"count": 120, "gop": 12, "stamps": GAPPY, "time_base": Fraction(1, 120)},
    "offset.mp4": {"count": 120, "gop": 20, "stamps": range(900, 1020)},
    "offset.mkv": {"count": 120, "gop": 20, "stamps": range(900, 1020)},
    "broadcast.ts": {"count": 120, "gop": 20},
    "intra_refresh.mp4": {
        "count": 150,
        "b_frames": 0,
        "params": {"x264-params": "intra-refresh=1:keyint=40"},
    },
    "mpeg4.avi": {"count": 90, "gop": 20, "codec": "mpeg4"},
    "mpeg2.ts": {"count": 90, "gop": 20, "codec": "mpeg2video"},
    "motion_jpeg.avi": {"count": 90, "codec": "mjpeg", "b_frames": 0},
    "motion_jpeg.mp4": {"count": 90, "codec": "mjpeg", "b_frames": 0},
}
NEWER_CODECS: dict[str, dict[str, Any]] = {
    "hevc_open.mp4": {
        "count": 90,
        "codec": "libx265",
        "params": {"x265-params": "log-level=none:keyint=20:open-gop=1:bframes=3"},
    },
    "vp9.webm": {
        "count": 60,
        "codec": "libvpx-vp9",
        "gop": 20,
        "b_frames": 0,
        "params": {"cpu-used": "8", "deadline": "realtime"},
    },
}
REQUESTS: list[tuple[float | None, float, float | None]] = [
    (None, 0.0, None),
    (None, 1.7, 2.3),
    (0.1, 0.0, None),
    (1 / 3, 0.0, None),
    (0.5, 0.25, None),
    (1.0, 1.3, 3.1),
    (1.7, 0.0, None),
    (100.0, 0.0, None),
    (1.0, 100.0, None),
]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("recordings")

    def make(name: str) -> Path:
        path = folder / name
        settings = (RECORDINGS | NEWER_CODECS)[name]
        if settings.get("codec", "libx264") not in av.codecs_available:
            pytest.skip(f"this build of FFmpeg has no {settings.get('codec', 'libx264')}")
        return path if path.exists() else encode(path, **settings)

    return make


@pytest.mark.parametrize("name", [*RECORDINGS, *NEWER_CODECS])
def test_hands_out_what_the_naive_reader_does(name: str, recording: Callable[[str], Path]) -> None:
    path = recording(name)
    for spacing_s, start_s, end_s in REQUESTS:
        expected = naive_frames(path, spacing_s, start_s, end_s)
        with open_video(path, spacing_s=spacing_s, start_s=start_s, end_s=end_s) as video:
            frames = list(video)
            assert video.skipped == 0
        assert [frame.time_s for frame in frames] == [time_s for time_s, _ in expected], (spacing_s, start_s)
        assert [frame.index for frame in frames] == list(range(len(expected)))
        for frame, (_, image) in zip(frames, expected, strict=True):
            assert np.array_equal(frame.image, image), (spacing_s, frame.time_s)


@pytest.fixture
def effort(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many packets went in, frames came out, pictures were converted, and jumps made."""
    made = {"packets": 0, "decoded": 0, "converted": 0, "jumps": 0}
    decode, convert, jump = FrameDecoder.decode, RgbConverter.__call__, PacketReader.jump_before

    def counted_decode(self: FrameDecoder, packet: Packet[VideoStream]) -> Iterator[tuple[float, VideoFrame]]:
        made["packets"] += 1
        for timed_frame in decode(self, packet):
            made["decoded"] += 1
            yield timed_frame

    def counted_convert(self: RgbConverter, frame: VideoFrame) -> np.ndarray[Any, np.dtype[np.uint8]]:
        made["converted"] += 1
        return convert(self, frame)

    def counted_jump(self: PacketReader, due: int) -> bool:
        jumped = jump(self, due)
        made["jumps"] += jumped
        return jumped

    monkeypatch.setattr(FrameDecoder, "decode", counted_decode)
    monkeypatch.setattr(RgbConverter, "__call__", counted_convert)
    monkeypatch.setattr(PacketReader, "jump_before", counted_jump)
    return made


@pytest.mark.parametrize(
    ("name", "most_packets", "jumps"),
    [
        ("short_gop.mp4", 75, True),
        ("open_gop.mp4", 110, True),
        ("open_gop.mkv", 110, True),
        ("motion_jpeg.avi", 10, False),
        ("motion_jpeg.mp4", 10, True),
        ("long_gop.mp4", 151, False),
        ("broadcast.ts", 121, False),
    ],
)
def test_decodes_only_what_the_spacing_needs(
    name: str, most_packets: int, jumps: bool, recording: Callable[[str], Path], effort: dict[str, int]
) -> None:
    with open_video(recording(name), spacing_s=1.0) as video:
        count = len(list(video))
    assert effort["converted"] == count
    assert effort["packets"] <= most_packets
    assert (effort["jumps"] > 0) == jumps


def test_a_late_start_is_reached_by_a_jump(recording: Callable[[str], Path], effort: dict[str, int]) -> None:
    with open_video(recording("short_gop.mp4"), start_s=4.0, end_s=4.5) as video:
        assert [frame.time_s for frame in video] == pytest.approx([4.0 + n / 30 for n in range(15)])
    assert effort["packets"] < 60


def test_frames_that_nothing_builds_on_are_not_decoded(
    recording: Callable[[str], Path], effort: dict[str, int]
) -> None:
    with open_video(recording("long_gop.mp4"), spacing_s=2.0) as video:
        assert len(list(video)) == 3
    assert effort["packets"] == 151  # one group of pictures: all must be read, and an empty one at the end
    assert effort["decoded"] < 120, "B-frames on the way to the next due frame were decoded"


def test_ntsc_times_do_not_drift(tmp_path: Path) -> None:
    path = encode(tmp_path / "ntsc.mp4", 600, rate=NTSC, codec="mpeg4", b_frames=0)
    with open_video(path) as video:
        assert video.info.rate == NTSC
        assert video.info.duration_s == pytest.approx(600 * 1001 / 30000)
        for index, frame in enumerate(video):
            assert frame.time_s == index * 1001 / 30000
    assert index == 599


def test_variable_times_are_those_of_the_file(recording: Callable[[str], Path]) -> None:
    with open_video(recording("variable.mp4")) as video:
        times = [frame.time_s for frame in video]
    assert times == pytest.approx([(stamp - JUMPY[0]) / 120 for stamp in JUMPY], abs=1e-4)


def test_a_stream_without_stamps_runs_at_its_stated_rate(tmp_path: Path) -> None:
    path = encode(tmp_path / "raw.h264", 40)
    with open_video(path) as video:
        assert video.info.rate is not None
        times = [frame.time_s for frame in video]
        assert times == pytest.approx([float(n / video.info.rate) for n in range(40)])


def test_a_new_timeline_goes_on_where_the_old_one_ended(tmp_path: Path) -> None:
    once = encode(tmp_path / "once.ts", 60).read_bytes()
    twice = tmp_path / "twice.ts"
    twice.write_bytes(once + once)
    with open_video(twice) as video:
        numbers = [frame.time_s * 30 for frame in video]
    # At the seam the demuxer takes the last packets for damaged: a few frames are lost there.
    assert numbers[:50] == pytest.approx(list(range(50)))
    assert np.diff(numbers[-60:]) == pytest.approx(np.ones(59))
    assert numbers[-1] == pytest.approx(119, abs=1.01)


@pytest.mark.parametrize("hflip", [False, True])
@pytest.mark.parametrize("vflip", [False, True])
@pytest.mark.parametrize("degrees", [0, 90, 180, -90])
def test_rotated_video_is_made_upright(degrees: int, hflip: bool, vflip: bool, tmp_path: Path) -> None:
    stored = picture(0)
    path = encode(tmp_path / "phone.mp4", 1, turn=(degrees, hflip, vflip), pictures=[stored], params={"crf": "4"})
    upright = np.rot90(stored, degrees // 90)  # both count counterclockwise
    upright = np.fliplr(upright) if hflip else upright
    upright = np.flipud(upright) if vflip else upright
    height, width, _ = upright.shape
    with open_video(path) as video:
        assert (video.info.height, video.info.width) == (height, width)
        image = next(video).image
    assert image.shape == upright.shape
    assert np.abs(image.astype(float) - upright).mean() < 12
    with open_video(path, size=(height // 2, width // 2)) as video:
        assert (video.info.height, video.info.width) == (height, width)
        small = next(video).image
    assert small.shape == (height // 2, width // 2, 3)
    halved = upright.astype(float).reshape(height // 2, 2, width // 2, 2, 3).mean((1, 3))
    assert np.abs(small.astype(float) - halved).mean() < 12


def test_pictures_shrink_by_averaging(tmp_path: Path) -> None:
    stripes = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    stripes[::2] = 240
    path = encode(tmp_path / "stripes.mp4", 1, pictures=[stripes], params={"crf": "1"})
    with open_video(path, size=(HEIGHT // 4, WIDTH // 4)) as video:
        image = next(video).image
    assert np.abs(image.astype(float) - 120).max() < 12, "one-pixel stripes must become even grey"


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("2024-05-01T12:30:15.000000Z", datetime(2024, 5, 1, 12, 30, 15, tzinfo=UTC)),
        ("2024-05-01T14:30:15+02:00", datetime(2024, 5, 1, 12, 30, 15, tzinfo=UTC)),
        ("1970-01-01T00:00:00Z", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_start_time_is_read_from_the_file(stamp: str | None, expected: datetime | None, tmp_path: Path) -> None:
    path = tmp_path / "when.mkv"
    with av.open(str(encode(tmp_path / "plain.mkv", 2))) as plain, av.open(str(path), "w") as copy:
        stream = copy.add_stream_from_template(plain.streams.video[0])
        if stamp is not None:
            copy.metadata["creation_time"] = stamp
        for packet in plain.demux(video=0):
            if packet.size:
                packet.stream = stream
                copy.mux(packet)
    with open_video(path) as video:
        assert video.info.start_time == expected


@pytest.mark.parametrize("name", ["2024-05-01T12:30:00.mp4", "straße – 道.mp4", "100%.mp4", "a b#c?.mp4"])
def test_odd_file_names(name: str, tmp_path: Path) -> None:
    path = encode(tmp_path / "plain.mp4", 3).rename(tmp_path / name)
    with open_video(path) as video:
        assert len(list(video)) == 3
    with open_video(str(path)) as video:
        assert len(list(video)) == 3


def test_an_empty_address_is_not_the_current_folder() -> None:
    with pytest.raises(VideoError):
        open_video("")


def test_pictures_belong_to_the_one_who_gets_them(recording: Callable[[str], Path]) -> None:
    with open_video(recording("short_gop.mp4"), end_s=0.2) as video:
        images = [frame.image for frame in video]
    for image in images:
        assert image.dtype == np.uint8 and image.flags.owndata and image.flags.writeable
        assert image.flags.c_contiguous


def test_file_address(tmp_path: Path) -> None:
    path = encode(tmp_path / "a b.mp4", 3)
    with open_video(path.as_uri()) as video:
        assert len(list(video)) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"spacing_s": 0.0},
        {"spacing_s": -1.0},
        {"spacing_s": float("nan")},
        {"start_s": -0.1},
        {"start_s": 2.0, "end_s": 2.0},
        {"size": (0, 10)},
        {"timeout_s": 0.0},
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], tmp_path: Path) -> None:
    path = encode(tmp_path / "v.mp4", 2)
    with pytest.raises(ConfigError):
        open_video(path, **options)


@pytest.mark.parametrize("address", ["camera:93", "/dev/video93", "rtsp://127.0.0.1:{port}/x", "nonsense://x"])
def test_sources_that_are_not_there(address: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        with pytest.raises(UserError):
            open_video(address.format(port=unused.getsockname()[1]), timeout_s=2.0)


def test_a_closed_video_hands_out_nothing(tmp_path: Path) -> None:
    video = open_video(encode(tmp_path / "v.mp4", 5))
    assert next(video).index == 0
    video.close()
    video.close()
    assert list(video) == []
    assert video.skipped == 0 and video.dropped == 0


@pytest.mark.parametrize(
    ("spacing_s", "times", "expected"),
    [
        (None, [0.0, 0.04, 0.5], [0.0, 0.04, 0.5]),
        (1.0, [0.0, 0.5, 0.9985, 1.1, 1.9995, 2.01], [0.0, 1.1, 1.9995]),
        (1.0, [0.0, 0.9, 5.3, 5.9, 6.0], [0.0, 5.3, 6.0]),
        (0.1, [0.0, 1.0, 1.05, 1.1, 1.15], [0.0, 1.0, 1.1]),
    ],
)
def test_grid(spacing_s: float | None, times: list[float], expected: list[float]) -> None:
    grid = FrameGrid(spacing_s)
    chosen = []
    for time_s in times:
        if time_s >= grid.due_s:
            grid.hand_out(time_s)
            chosen.append(time_s)
    assert chosen == expected


@pytest.mark.parametrize("spacing_s", [0.1, 1 / 3, 0.7, 1.001])
def test_grid_takes_every_point_once_however_floats_round(spacing_s: float) -> None:
    grid = FrameGrid(spacing_s)
    for step in range(5000):
        time_s = step * spacing_s - 0.001  # exactly at the tolerance
        assert time_s >= grid.due_s
        grid.hand_out(time_s)
        assert time_s < grid.due_s
