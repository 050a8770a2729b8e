"""Pictures of ROS 2 bags as a video."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from helpers.command_line import x2l
from helpers.ros_bags import BagWriter
from x2localizer.errors import UserError, VideoError
from x2localizer.odometry import find_fov
from x2localizer.sources.ros import bag_at
from x2localizer.sources.video import open_video
from x2localizer.sources.video.ros_bag import RosBagSource
from x2localizer.types import Image

pytest.importorskip("rosbags", reason="needs the extra [programs]")
FRONT = "/front/image_raw"


def _picture(number: int) -> Image:
    """A picture with red to the right and green below; blue says which one it is."""
    rows, columns = np.mgrid[0:24, 0:32]
    return np.stack([columns * 8, rows * 10, np.full_like(rows, number * 10)], axis=2).astype(np.uint8)


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    """Two cameras, 2 s at 10 Hz and at 5 Hz."""
    with BagWriter(tmp_path / "drive") as writer:
        for number in range(20):
            writer.raw(FRONT, 3.0 + number / 10, _picture(number), "rgb8", pad=4)
        for number in range(10):
            writer.jpeg("/rear/image_raw/compressed", 3.0 + number / 5, _picture(number))
        writer.camera_info("/rear/camera_info", 32, 24, 16.0)
    return tmp_path / "drive"


def test_frames_of_a_bag_have_their_true_times(bag: Path) -> None:
    for address in (bag, next(bag.glob("*.mcap")), f"{bag}#{FRONT}"):
        with open_video(address) as video:
            assert (video.info.width, video.info.height, video.info.live) == (32, 24, False)
            assert video.info.start_time == datetime(2026, 5, 1, 12, 0, 3, tzinfo=UTC)
            assert video.info.duration_s == pytest.approx(1.9, abs=0.01)
            frames = list(video)
        np.testing.assert_allclose([frame.time_s for frame in frames], np.arange(20) / 10, atol=1e-6)
        for number, frame in enumerate(frames):
            np.testing.assert_array_equal(frame.image, _picture(number))
    with open_video(bag, spacing_s=0.5, size=(12, 16), start_s=0.5, end_s=1.6) as video:
        chosen = list(video)
    assert [frame.time_s for frame in chosen] == pytest.approx([0.5, 1.0, 1.5])
    assert chosen[0].image.shape == (12, 16, 3)


def test_compressed_pictures_and_the_calibration_beside_them(bag: Path) -> None:
    with open_video(f"{bag}#/rear/image_raw/compressed") as video:
        frames = list(video)
    assert len(frames) == 10
    assert np.abs(frames[3].image.astype(int) - _picture(3)).mean() < 6
    fov = find_fov(f"{bag}#/rear/image_raw/compressed")
    assert fov.origin == "file"
    assert fov.degrees == pytest.approx(90.0)
    assert find_fov(bag).origin == "usual"


def test_sqlite_bags_are_read_too(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "old", "sqlite3") as writer:
        for number in range(3):
            writer.raw(FRONT, float(number), _picture(number), "bgr8", stamped=False)
    for address in (tmp_path / "old", next((tmp_path / "old").glob("*.db3"))):
        with open_video(address) as video:
            frames = list(video)
        assert [frame.time_s for frame in frames] == [0.0, 1.0, 2.0], "times of recording, as headers have none"
        np.testing.assert_array_equal(frames[1].image, _picture(1)[:, :, ::-1])


def _mosaic(red: Image, pattern: str) -> Image:
    """One number for each pixel of a picture of one colour, behind a filter such as "rggb"."""
    out = np.zeros((8, 8), np.uint8)
    for place, colour in enumerate(pattern):
        out[place // 2 :: 2, place % 2 :: 2] = red["rgb".index(colour)]
    return out


@pytest.mark.parametrize("encoding", ["bayer_rggb8", "bayer_bggr8", "bayer_gbrg8", "bayer_grbg8"])
def test_bayer_patterns_have_their_colours(encoding: str, tmp_path: Path) -> None:
    colour = np.array([200, 100, 20], np.uint8)
    with BagWriter(tmp_path / "b") as writer:
        writer.raw(FRONT, 0.0, _mosaic(colour, encoding[6:10]), encoding)
    with open_video(tmp_path / "b") as video:
        [frame] = list(video)
    np.testing.assert_allclose(frame.image[3, 3], colour, atol=2)


def test_grey_deep_and_yuv_pictures(tmp_path: Path) -> None:
    grey = np.full((8, 8), 77, np.uint8)
    deep = np.full((8, 8), 77 << 8, "<u2").view(np.uint8).reshape(8, 16)
    uyvy = np.tile(np.array([128, 77, 128, 77], np.uint8), (8, 4))
    cases = {"mono8": grey, "mono16": deep, "yuv422": uyvy}
    for encoding, data in cases.items():
        with BagWriter(tmp_path / encoding) as writer:
            writer.raw(FRONT, 0.0, data, encoding)
        with open_video(tmp_path / encoding) as video:
            [frame] = list(video)
        assert frame.image.shape == (8, 8, 3)
        expected = 71 if encoding == "yuv422" else 77  # video range
        np.testing.assert_allclose(frame.image, expected, atol=2)


def test_what_cannot_be_read_is_skipped_and_counted(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "b") as writer:
        writer.bytes("/c", 0.0, b"no picture")
        writer.jpeg("/c", 1.0, _picture(1))
        writer.bytes("/c", 2.0, b"")
        writer.jpeg("/c", 0.5, _picture(2), recorded_s=2.5)  # a clock that was set back
        writer.jpeg("/c", 3.0, _picture(3))
    with open_video(tmp_path / "b") as video:
        assert [frame.time_s for frame in video] == [0.0, 2.0]
        assert video.skipped == 3
    with BagWriter(tmp_path / "odd") as writer:
        writer.raw("/c", 0.0, np.zeros((4, 4), np.uint8), "32FC1")
    with pytest.raises(VideoError, match="No picture of /c"):
        open_video(tmp_path / "odd")


def test_bags_that_are_none_are_clear_errors(bag: Path, tmp_path: Path) -> None:
    file = next(bag.glob("*.mcap"))
    (tmp_path / "cut.mcap").write_bytes(file.read_bytes()[:300])
    (tmp_path / "text.mcap").write_text("no bag")
    (tmp_path / "empty.db3").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "metadata.yaml").write_text("a: [")
    for name in ("cut.mcap", "text.mcap", "empty.db3", "folder"):
        with pytest.raises(UserError) as caught:
            list(open_video(tmp_path / name))
        assert isinstance(caught.value, VideoError), name
    with pytest.raises(VideoError, match=r"/front/image_raw, /rear/image_raw/compressed"):
        open_video(f"{bag}#/left")
    with BagWriter(tmp_path / "blind") as writer:
        writer.twist("/speed", 0.0, 1.0, 0.0)
    with pytest.raises(VideoError, match=r"no pictures; it has /speed"):
        open_video(tmp_path / "blind")


def test_a_bag_that_was_cut_off_gives_what_it_holds(bag: Path, tmp_path: Path) -> None:
    data = next(bag.glob("*.mcap")).read_bytes()
    (tmp_path / "cut.mcap").write_bytes(data[: len(data) - 300])
    try:
        with open_video(tmp_path / "cut.mcap") as video:
            assert len(list(video)) <= 20
    except VideoError as problem:
        assert "Cannot read the bag" in problem.what


def test_addresses_are_recognised(bag: Path, tmp_path: Path) -> None:
    assert bag_at(bag) == (bag, None)
    assert bag_at(f"{bag}#/a/b") == (bag, "/a/b")
    assert bag_at("camera:0") is None
    assert bag_at("rtsp://127.0.0.1/x#/y") is None
    assert bag_at("a" * 5000) is None
    assert bag_at("a\0b") is None
    assert isinstance(open_video(bag), RosBagSource)


def test_inspect_shows_the_topics(bag: Path) -> None:
    text = x2l("inspect", str(bag))
    assert "20 sensor_msgs/msg/Image" in text
    assert "has no motion" in text


@pytest.mark.parametrize("key", ["nanoseconds", "nanoseconds_since_epoch", "message_count"])
@pytest.mark.parametrize("value", ["1" + 400 * "0", "soon", "null", "{}", "-5", ".nan"])
def test_numbers_of_a_bag_that_cannot_be_are_an_error_or_do_no_harm(key: str, value: str, tmp_path: Path) -> None:
    with BagWriter(tmp_path / "b") as writer:
        for i in range(3):
            writer.raw(FRONT, i / 10, _picture(i), "rgb8")
    file = tmp_path / "b" / "metadata.yaml"
    text, count = re.subn(rf"\b{key}: \d+", f"{key}: {value}", file.read_text())
    assert count
    file.write_text(text)
    try:
        with open_video(tmp_path / "b") as frames:
            assert len(list(frames)) == 3
            assert frames.info.duration_s is None or np.isfinite(frames.info.duration_s)
    except UserError as problem:
        assert "Cannot read the bag" in str(problem)
