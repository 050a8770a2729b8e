from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from x2localizer.errors import ConfigError, VideoError
from x2localizer.sources.video import image_folder, open_video


def _save(path: Path, shade: int, size: tuple[int, int] = (8, 6), **options: object) -> Path:
    PIL.Image.new("RGB", size, (shade, 0, 0)).save(path, **options)  # type: ignore[arg-type]
    return path


def _shades(folder: Path, **options: float) -> list[tuple[float, int]]:
    with open_video(folder, **options) as video:  # type: ignore[arg-type]
        return [(frame.time_s, int(frame.image[0, 0, 0])) for frame in video]


def test_numbers_in_names_count_as_numbers(tmp_path: Path) -> None:
    for number in (1, 2, 10, 9, 100, 21):
        _save(tmp_path / f"frame{number}.png", number)
    assert [shade for _, shade in _shades(tmp_path)] == [1, 2, 9, 10, 21, 100]


def test_every_kind_of_image_and_nothing_else(tmp_path: Path) -> None:
    for number, suffix in enumerate(["png", "PNG", "jpg", "jpeg", "webp", "bmp", "tif", "tiff"]):
        _save(tmp_path / f"{number}.{suffix}", 40 * number % 256)
    (tmp_path / "._0.png").write_bytes(b"what macOS leaves behind")
    (tmp_path / "notes.txt").write_text("not a picture")
    (tmp_path / "9.png").mkdir()
    with open_video(tmp_path) as video:
        shades = [int(frame.image[0, 0, 0]) for frame in video]
        assert video.skipped == 0
    assert shades == pytest.approx([40 * number % 256 for number in range(8)], abs=8)


def test_one_image_per_second_by_default(tmp_path: Path) -> None:
    for number in range(4):
        _save(tmp_path / f"{number}.png", number)
    assert _shades(tmp_path) == [(0.0, 0), (1.0, 1), (2.0, 2), (3.0, 3)]
    assert _shades(tmp_path, images_per_s=4.0) == [(0.0, 0), (0.25, 1), (0.5, 2), (0.75, 3)]
    with open_video(tmp_path, images_per_s=4.0) as video:
        info = video.info
    assert (info.width, info.height, info.duration_s, info.rate) == (8, 6, 0.75, Fraction(4))
    assert not info.live and info.start_time is None
    with pytest.raises(ConfigError):
        open_video(tmp_path, images_per_s=0.0)


def test_times_come_from_the_list_beside_the_images(tmp_path: Path) -> None:
    for number in range(3):
        _save(tmp_path / f"{number}.png", number)
    (tmp_path / "times.csv").write_text(
        "\ufefffile,time_s,note\n2.png,100.5,\n0.png,101.25,late\n1.png,103,\ngone.png,104,\n",
        encoding="utf-8",
    )
    assert _shades(tmp_path) == [(0.0, 2), (0.75, 0), (2.5, 1)]
    assert _shades(tmp_path, spacing_s=1.0) == [(0.0, 2), (2.5, 1)]
    assert _shades(tmp_path, start_s=0.5, end_s=2.0) == [(0.75, 0)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("file,time_s\n0.png,0\n", "no time for 1.png"),
        ("file,time_s\n0.png,0\n1.png,0\n", "same time"),
        ("file,time_s\n0.png,0\n0.png,1\n1.png,2\n", "twice"),
        ("file,time_s\n0.png,zero\n1.png,2\n", "Line 2"),
        ("file,time_s\n0.png,1\n1.png,nan\n", "Line 3"),
        ("file,time_s\n0.png,1\n1.png\n", "Line 3"),
        ("name,seconds\n0.png,1\n1.png,2\n", "Line 2"),
        ("", "no time for 0.png"),
        (b"file,time_s\n\xff\xfe,1\n", "Cannot read"),
    ],
)
def test_a_list_of_times_that_does_not_fit(text: str | bytes, says: str, tmp_path: Path) -> None:
    for number in range(2):
        _save(tmp_path / f"{number}.png", number)
    (tmp_path / "times.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(VideoError, match=says):
        open_video(tmp_path)


def test_damaged_images_are_skipped_and_counted(tmp_path: Path) -> None:
    for number in range(6):
        _save(tmp_path / f"{number}.png", number * 10, (64, 64))
    (tmp_path / "0.png").write_bytes(b"")
    (tmp_path / "2.png").write_bytes((tmp_path / "2.png").read_bytes()[:90])
    (tmp_path / "3.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    with open_video(tmp_path) as video:
        assert [(frame.index, frame.time_s) for frame in video] == [(0, 1.0), (1, 4.0), (2, 5.0)]
        assert video.skipped == 3
    # A due image that is damaged gives way to the next good one.
    assert _shades(tmp_path, spacing_s=2.0) == [(1.0, 10), (4.0, 40)]


def test_absurdly_large_images_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _save(tmp_path / "0.png", 1)
    _save(tmp_path / "1.png", 2, (100, 100))
    _save(tmp_path / "2.png", 3, (100, 150))
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 8_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with open_video(tmp_path) as video:
            assert [frame.image.shape for frame in video] == [(6, 8, 3)]
            assert video.skipped == 2


def test_the_orientation_that_a_camera_noted_is_applied(tmp_path: Path) -> None:
    stored = np.zeros((20, 40, 3), np.uint8)
    stored[:, :20] = 255
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # turn a quarter clockwise to be upright
    PIL.Image.fromarray(stored).save(tmp_path / "a.jpg", exif=exif, quality=95)
    with open_video(tmp_path / "a.jpg") as video:
        assert (video.info.width, video.info.height) == (20, 40)
        image = next(video).image
    assert image.shape == (40, 20, 3)
    assert image[:18].min() > 200 and image[22:].max() < 50


def test_a_single_image_is_one_frame(tmp_path: Path) -> None:
    path = _save(tmp_path / "one.JPG", 200)
    (tmp_path / "times.csv").write_text("not for a single image")
    with open_video(path, size=(3, 4)) as video:
        assert video.info.duration_s == 0.0 and video.info.rate is None
        frames = list(video)
    assert [(frame.index, frame.time_s, frame.image.shape) for frame in frames] == [(0, 0.0, (3, 4, 3))]
    assert frames[0].image.dtype == np.uint8


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "CMYK", "1"])
def test_every_colour_mode_becomes_rgb(mode: str, tmp_path: Path) -> None:
    suffix = "tif" if mode == "CMYK" else "png"
    PIL.Image.new("RGB", (8, 6), (255, 255, 255)).convert(mode).save(tmp_path / f"a.{suffix}")
    with open_video(tmp_path) as video:
        image = next(video).image
    assert image.shape == (6, 8, 3) and image.dtype == np.uint8 and image.min() > 250


def test_images_that_are_not_due_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        _save(tmp_path / f"{number}.png", number)
    read: list[str] = []
    original = image_folder.read_image

    def counted(file: Path, size: tuple[int, int] | None = None) -> object:
        read.append(file.name)
        return original(file, size)

    monkeypatch.setattr(image_folder, "read_image", counted)
    assert len(_shades(tmp_path, spacing_s=5.0)) == 4
    assert read == ["0.png", "0.png", "5.png", "10.png", "15.png"]


def test_a_folder_without_images(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing to see")
    with pytest.raises(VideoError, match="contains no images"):
        open_video(tmp_path)
    (tmp_path / "a.jpg").write_bytes(b"not an image")
    with pytest.raises(VideoError, match="No image in"):
        open_video(tmp_path)
