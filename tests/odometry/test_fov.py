"""How wide a camera sees: stated, by the file, or by its turns."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import PIL.Image
import pytest
from PIL import ExifTags

from helpers.street import Square, circle, straight
from x2localizer.errors import ConfigError, VideoError
from x2localizer.odometry import estimate_fov, find_fov
from x2localizer.sources.video import open_video


def _video(path: Path, focal: str | None) -> Path:
    with av.open(str(path), "w") as container:
        if focal is not None:
            container.metadata["com.apple.quicktime.camera.focal_length.35mm_equivalent"] = focal
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height = 128, 64
        for k in range(5):
            frame = av.VideoFrame.from_ndarray(np.full((64, 128, 3), 40 * k, np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def test_turns_tell_how_wide_a_camera_sees() -> None:
    usual, wide = (estimate_fov(Square(fov_deg=fov).frames(circle(52, 0.8, 13.0))) for fov in (65.0, 100.0))
    assert usual == pytest.approx(65.0, rel=0.1)
    assert wide == pytest.approx(100.0, rel=0.2)
    assert wide > usual + 10.0


def test_a_straight_drive_does_not_tell() -> None:
    with pytest.raises(VideoError, match="too little to estimate"):
        estimate_fov(Square(sides_m=(11.0, 70.0)).frames(straight(20, 0.8)))


def test_the_focal_length_of_a_file_counts(tmp_path: Path) -> None:
    seen = find_fov(_video(tmp_path / "phone.mkv", "26"))
    assert seen.origin == "file"
    assert seen.degrees == pytest.approx(69.4, abs=0.1)
    assert "from the file" in str(seen)
    assert find_fov(tmp_path / "phone.mkv", 90.0).degrees == 90.0


@pytest.mark.parametrize("focal", [None, "", "wide", "-3", "0.1", "nan", "1e400"])
def test_a_focal_length_that_cannot_be_is_ignored(tmp_path: Path, focal: str | None) -> None:
    seen = find_fov(_video(tmp_path / "drive.mkv", focal))
    assert (seen.origin, seen.degrees) == ("usual", 65.0)


def test_pictures_state_their_focal_length(tmp_path: Path) -> None:
    picture, exif = PIL.Image.new("RGB", (60, 80)), PIL.Image.Exif()
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.FocalLengthIn35mmFilm] = 24
    picture.save(tmp_path / "1.jpg", exif=exif)
    with open_video(tmp_path) as source:
        assert source.info.focal_35mm == 24.0
    assert find_fov(tmp_path).degrees == pytest.approx(53.1, abs=0.1)  # upright: the shorter side is the width


def test_cameras_are_not_opened_to_look_at_them() -> None:
    assert find_fov("rtsp://127.0.0.1:9/none").origin == "usual"
    with pytest.raises(VideoError, match="State it"):
        find_fov("rtsp://127.0.0.1:9/none", "auto")


def test_a_field_of_view_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="field of view of 400"):
        find_fov(tmp_path / "none.mp4", 400.0)
