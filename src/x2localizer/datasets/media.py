"""Reading and writing pictures of a dataset: JPEG files, and motion-JPEG files with the frames of a video.

A motion-JPEG file is a concatenation of JPEG pictures. Any video player opens it, and the frames table says where each
picture starts.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path, PurePath

import numpy as np
from PIL import Image as Pillow

from x2localizer.datasets.tables import Media
from x2localizer.errors import DatasetError
from x2localizer.files import atomic_path
from x2localizer.types import Image


def encode_jpeg(image: Image, quality: int) -> bytes:
    """A picture as JPEG with full colour resolution, as small pictures lose too much without it."""
    buffer = io.BytesIO()
    Pillow.fromarray(image).save(buffer, "JPEG", quality=quality, subsampling=0)
    return buffer.getvalue()


def write_pictures(root: Path, name: str, pictures: Iterable[Image], quality: int) -> list[Media]:
    """Write pictures one after the other to ``root / name``, atomically; returns the location of each."""
    places = []
    with atomic_path(root / name) as path, path.open("wb") as file:
        offset = 0
        for picture in pictures:
            data = encode_jpeg(picture, quality)
            file.write(data)
            places.append(Media(name, offset, len(data)))
            offset += len(data)
    return places


@lru_cache(maxsize=1 << 16)
def below(path: str) -> bool:
    """Whether a path in a table stays inside the dataset's folder."""
    parts = PurePath(path).parts
    return bool(parts) and not PurePath(path).is_absolute() and ".." not in parts and "\0" not in path


def read_bytes(root: Path, media: Media) -> bytes:
    """The bytes of one picture."""
    path = root / media.path
    if not below(media.path) or media.offset < 0 or media.length < 0:
        raise DatasetError(f"'{media.path}' is not a picture of the dataset.", "Run `x2l check` on the dataset.")
    try:
        with path.open("rb") as file:
            file.seek(media.offset)
            rest = path.stat().st_size - media.offset
            data = file.read(min(media.length, rest) if media.length else rest) if rest > 0 else b""
    except OSError as problem:
        raise DatasetError(f"Cannot read {path}: {problem.strerror}.", "Run `x2l check` on the dataset.") from problem
    if not data or (media.length and len(data) < media.length):
        raise DatasetError(f"{path} is truncated at byte {media.offset}.", "Run `x2l check` on the dataset.")
    return data


def read_picture(root: Path, media: Media, size: tuple[int, int] | None = None) -> Image:
    """One picture, shape (height, width, 3), resized if a size (height, width) is given."""
    data = read_bytes(root, media)
    try:
        with Pillow.open(io.BytesIO(data)) as picture:
            if size is None or picture.size == size[::-1]:
                return np.asarray(picture.convert("RGB"))
            # JPEG can be decoded at 1/2, 1/4, ... in a fraction of the time; twice the size keeps edges sharp.
            picture.draft("RGB", (2 * size[1], 2 * size[0]))
            return np.asarray(picture.convert("RGB").resize(size[::-1], Pillow.Resampling.BICUBIC))
    except (OSError, ValueError, SyntaxError, Pillow.DecompressionBombError) as problem:
        raise DatasetError(
            f"{root / media.path} has no picture at byte {media.offset}.", "Run `x2l check` on the dataset."
        ) from problem
