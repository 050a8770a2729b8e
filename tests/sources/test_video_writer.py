from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from helpers.video_files import HEIGHT, WIDTH, picture
from x2localizer.errors import UserError, VideoError
from x2localizer.sources.video import open_video, writer
from x2localizer.sources.video.writer import VideoWriter
from x2localizer.types import Image

NTSC = Fraction(30000, 1001)


def _smooth(index: int) -> Image:
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    channels = [rows * 5, columns * 4, np.full_like(rows, 60 + index)]
    return np.stack(channels, axis=2).astype(np.uint8)


def _write(path: Path, count: int = 30, times: list[float] | None = None) -> Path:
    with VideoWriter(path, WIDTH, HEIGHT, NTSC) as writer:
        for index in range(count):
            writer.write(_smooth(index), None if times is None else times[index])
    return path


@pytest.mark.parametrize("name", ["v.mp4", "v.mov", "v.mkv"])
def test_pictures_come_back_at_their_times(name: str, tmp_path: Path) -> None:
    path = _write(tmp_path / name, 45)
    with open_video(path) as video:
        assert (video.info.width, video.info.height, video.info.rate) == (WIDTH, HEIGHT, NTSC)
        assert video.info.start_time is None
        frames = list(video)
    step = 0.0006 if name.endswith("mkv") else 1e-9
    assert [frame.time_s for frame in frames] == pytest.approx([n * 1001 / 30000 for n in range(45)], abs=step)
    for index, frame in enumerate(frames):
        assert np.abs(frame.image.astype(int) - _smooth(index)).mean() < 3, "colours or brightness changed"


def test_times_may_be_uneven(tmp_path: Path) -> None:
    times = np.cumsum(np.random.default_rng(1).uniform(0.01, 0.4, 30)).tolist()
    with open_video(_write(tmp_path / "v.mp4", 30, times)) as video:
        assert video.info.duration_s == pytest.approx(times[-1] - times[0] + 1001 / 30000, abs=1e-3)
        read = [frame.time_s for frame in video]
    assert read == pytest.approx([t - times[0] for t in times], abs=2 / 60000)


def test_a_picture_without_a_time_follows_the_one_before(tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "v.mp4", WIDTH, HEIGHT, 10.0) as writer:
        for time_s in (0.0, None, 1.0, None, None):
            writer.write(picture(0), time_s)
    with open_video(tmp_path / "v.mp4") as video:
        assert [frame.time_s for frame in video] == pytest.approx([0.0, 0.1, 1.0, 1.1, 1.2])


def test_start_time_is_kept(tmp_path: Path) -> None:
    local = datetime(2024, 5, 1, 14, 30, 15, tzinfo=timezone(timedelta(hours=2)))
    with VideoWriter(tmp_path / "v.mp4", WIDTH, HEIGHT, 30, local) as writer:
        writer.write(picture(0))
    with open_video(tmp_path / "v.mp4") as video:
        assert video.info.start_time == datetime(2024, 5, 1, 12, 30, 15, tzinfo=UTC)


def test_the_same_pictures_give_the_same_video(tmp_path: Path) -> None:
    pictures = []
    for name in ("one.mp4", "other.mp4"):
        with open_video(_write(tmp_path / name)) as video:
            frames = list(video)
        pictures.append((np.stack([frame.image for frame in frames]), [frame.time_s for frame in frames]))
    (one, times), (other, other_times) = pictures
    assert times == other_times
    # Not the same bytes: the encoder may choose other bits, depending on what was in memory.
    assert np.abs(one.astype(int) - other).mean() < 0.5


def test_the_index_comes_first(tmp_path: Path) -> None:
    data = _write(tmp_path / "v.mp4").read_bytes()
    assert 0 < data.find(b"moov") < data.find(b"mdat")


def test_keyframes_are_near_enough_to_jump(tmp_path: Path) -> None:
    path = _write(tmp_path / "v.mp4", 150)
    with open_video(path, spacing_s=2.5) as video:
        assert [frame.time_s for frame in video] == pytest.approx([0.0, 75 * 1001 / 30000])
        index = video._stream.index_entries  # type: ignore[attr-defined]
        assert sum(entry.is_keyframe for entry in index) >= 3


def test_without_h264_it_still_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer.av, "codecs_available", {"mpeg4"})  # type: ignore[attr-defined]
    with open_video(_write(tmp_path / "v.mp4")) as video:
        frames = list(video)
    assert [frame.time_s for frame in frames] == pytest.approx([n * 1001 / 30000 for n in range(30)])
    assert np.abs(frames[20].image.astype(int) - _smooth(20)).mean() < 4


@pytest.mark.parametrize("problem", [ValueError("stop"), OSError("not about this file"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file(problem: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "v.mp4"
    path.write_bytes(b"old")
    with pytest.raises(type(problem)) as caught, VideoWriter(path, WIDTH, HEIGHT, 30) as writer:
        writer.write(picture(0))
        raise problem
    assert caught.value is problem
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match="No picture"), VideoWriter(tmp_path / "v.mp4", WIDTH, HEIGHT, 30):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_kind_of_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match="Cannot write"), VideoWriter(tmp_path / "v.xyz", WIDTH, HEIGHT, 30):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError), VideoWriter(tmp_path / "file" / "v.mp4", WIDTH, HEIGHT, 30):
        pass


@pytest.mark.parametrize(
    ("width", "height", "rate", "start"),
    [
        (63, 48, 30.0, None),
        (64, 47, 30.0, None),
        (0, 48, 30.0, None),
        (64, 48, 0.0, None),
        (64, 48, float("nan"), None),
        (64, 48, 30.0, datetime(2024, 5, 1)),
    ],
)
def test_settings_that_do_not_fit(width: int, height: int, rate: float, start: datetime | None, tmp_path: Path) -> None:
    with pytest.raises(VideoError):
        VideoWriter(tmp_path / "v.mp4", width, height, rate, start)


@pytest.mark.parametrize(
    ("image", "time_s"),
    [
        (np.zeros((HEIGHT, WIDTH), np.uint8), None),
        (np.zeros((WIDTH, HEIGHT, 3), np.uint8), None),
        (np.zeros((HEIGHT, WIDTH, 3), np.float32), None),
        (picture(0), 1.0),
        (picture(0), 0.5),
        (picture(0), -1.0),
        (picture(0), float("nan")),
    ],
)
def test_pictures_that_do_not_fit(image: Image, time_s: float | None, tmp_path: Path) -> None:
    with pytest.raises(VideoError), VideoWriter(tmp_path / "v.mp4", WIDTH, HEIGHT, 30) as writer:
        writer.write(picture(0), 1.0)
        writer.write(image, time_s)
    assert list(tmp_path.iterdir()) == []
