"""A folder of images, or a single one, as a video.

Files are read in natural order (``2.jpg`` before ``10.jpg``). Times come from ``times.csv`` in the same folder (columns
``file,time_s``; the first image becomes 0), or otherwise from a constant rate.
"""

from __future__ import annotations

import csv
import itertools
import math
import re
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO

import numpy as np
import PIL.Image
from PIL import ExifTags, ImageOps

from x2localizer.errors import ConfigError, VideoError
from x2localizer.sources.video.containers import positive
from x2localizer.sources.video.source import FrameGrid, VideoInfo, VideoSource
from x2localizer.types import Image

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})
TIMES_FILE = "times.csv"


class ImageFolderSource(VideoSource):
    """The images in a folder as upright RGB pictures; each keeps its own size unless ``size`` is given."""

    def __init__(
        self,
        path: Path,
        grid: FrameGrid,
        size: tuple[int, int] | None = None,
        images_per_s: float = 1.0,
    ) -> None:
        super().__init__()
        if not 0 < images_per_s < math.inf:
            raise ConfigError(f"The rate of the images is {images_per_s} per second.", "Use a number above 0.")
        self._grid, self._size = grid, size
        self._skipped = 0
        files = [path] if path.is_file() else _images_in(path)
        listed = path / TIMES_FILE
        has_times = path.is_dir() and listed.is_file()
        self._timed = _times_of(files, listed) if has_times else _evenly(files, images_per_s)
        first = next((image for file in files if (image := read_image(file)) is not None), None)
        if first is None:
            raise VideoError(f"No image in {path} can be read.", "Check that the files open in an image viewer.")
        self.info = VideoInfo(
            width=first.shape[1],
            height=first.shape[0],
            duration_s=self._timed[-1][0],
            rate=None if has_times or len(files) == 1 else Fraction(images_per_s).limit_denominator(1_000_000),
            live=False,
            start_time=None,
            focal_35mm=_focal_35mm(files[0]),
        )

    @property
    def skipped(self) -> int:
        """Number of images that could not be read so far."""
        return self._skipped

    def _read(self) -> Iterator[tuple[float, Image]]:
        for time_s, file in self._timed:
            if self._grid.is_over(time_s):
                return
            if time_s >= self._grid.due_s:
                image = read_image(file, self._size)
                if image is None:
                    self._skipped += 1
                else:
                    self._grid.hand_out(time_s)
                    yield time_s, image

    def _release(self) -> None:
        """Nothing to release: every image is closed after reading."""


def read_image(file: Path | BinaryIO, size: tuple[int, int] | None = None) -> Image | None:
    """An image file or its bytes as upright RGB, resized to (height, width); None if damaged or far too large."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)
            with PIL.Image.open(file) as stored:
                picture = ImageOps.exif_transpose(stored).convert("RGB")
        if size is not None:
            picture = picture.resize((size[1], size[0]), PIL.Image.Resampling.BICUBIC)
        return np.array(picture, np.uint8)
    except Exception:  # Pillow's readers raise nearly anything for damaged files
        return None


def _focal_35mm(file: Path) -> float | None:
    """The focal length in a picture's Exif data as for 35 mm film, in millimetres; None without it."""
    try:
        with PIL.Image.open(file) as stored:
            return positive(stored.getexif().get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.FocalLengthIn35mmFilm))
    except Exception:  # Pillow's readers raise nearly anything for damaged files
        return None


def natural_order(file: Path) -> tuple[list[tuple[int, int, str]], str]:
    """A sort key that compares numbers inside names as numbers."""
    parts = re.split(r"([0-9]+)", file.name.casefold())
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part], file.name


def _images_in(folder: Path) -> list[Path]:
    try:
        found = [file for file in folder.iterdir() if file.suffix.lower() in IMAGE_SUFFIXES and file.is_file()]
    except OSError as problem:
        raise VideoError(f"Cannot read the folder {folder}: {problem.strerror}.", "Check the permissions.") from problem
    # On foreign disks macOS writes "._name.jpg" next to each file; these are not pictures.
    images = sorted((file for file in found if not file.name.startswith(".")), key=natural_order)
    if not images:
        raise VideoError(
            f"The folder {folder} contains no images.",
            f"Use a folder with files that end in {', '.join(sorted(IMAGE_SUFFIXES))}, or a video.",
        )
    return images


def _evenly(files: list[Path], images_per_s: float) -> list[tuple[float, Path]]:
    return [(index / images_per_s, file) for index, file in enumerate(files)]


def _times_of(files: list[Path], listed: Path) -> list[tuple[float, Path]]:
    """Images with their times from ``times.csv``, in order, relative to the first."""
    times = _read_times(listed)
    for file in files:
        if file.name not in times:
            raise VideoError(f"{listed} has no time for {file.name}.", "Add a row for it, or remove the image.")
    timed = sorted((times[file.name], file) for file in files)
    for (earlier_s, one), (later_s, other) in itertools.pairwise(timed):
        if earlier_s == later_s:
            raise VideoError(
                f"{listed} gives {one.name} and {other.name} the same time.", "Use a different time for every image."
            )
    return [(time_s - timed[0][0], file) for time_s, file in timed]


def _read_times(listed: Path) -> dict[str, float]:
    remedy = "It needs the header 'file,time_s' and one row per image, such as '2.jpg,0.5'."
    try:
        with listed.open(encoding="utf-8-sig", newline="") as text:
            rows = list(csv.DictReader(text))
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise VideoError(f"Cannot read {listed}: {problem}.", remedy) from problem
    times: dict[str, float] = {}
    for number, row in enumerate(rows, start=2):
        try:
            name, time_s = row["file"].strip(), float(row["time_s"])
        except (KeyError, AttributeError, TypeError, ValueError) as problem:
            raise VideoError(f"Line {number} of {listed} has no file and time.", remedy) from problem
        if not math.isfinite(time_s):
            raise VideoError(f"Line {number} of {listed} has the time {time_s}.", remedy)
        if name in times:
            raise VideoError(f"{listed} lists {name} twice.", "Keep one row per image.")
        times[name] = time_s
    return times
