"""JPEG in, pixels out, with a look at the header first; and small JPEGs for the map."""

from __future__ import annotations

import io
import warnings

import numpy as np
from PIL import Image as Pillow
from PIL import UnidentifiedImageError

from x2localizer.serve.errors import BadInputError, TooLargeError
from x2localizer.types import Image

SMALLEST_PX = 16
NOT_A_FRAME = "Send each frame as one JPEG picture."
MOST_SCANS = 64
"""A progressive JPEG has some ten. Each takes the time of the whole picture, in a few bytes."""


def decode_jpeg(data: bytes, most_pixels: int) -> Image:
    """The pixels of a JPEG; anything else, or one with too many pixels, is an error. Nothing large is decoded."""
    if data.count(b"\xff\xda") > MOST_SCANS:
        raise BadInputError("The JPEG picture has too many scans.", "Save it as a baseline JPEG.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of pictures that are refused below
            with Pillow.open(io.BytesIO(data), formats=("JPEG",)) as picture:
                width, height = picture.size
                if width * height > most_pixels:
                    raise TooLargeError(
                        f"The frame has {width} x {height} pixels, more than {most_pixels:,}.", "Send a smaller one."
                    )
                if min(width, height) < SMALLEST_PX:
                    raise BadInputError(f"The frame has only {width} x {height} pixels.", "Send a larger one.")
                return np.asarray(picture.convert("RGB"))
    except (UnidentifiedImageError, Pillow.DecompressionBombError) as problem:
        raise BadInputError(f"{_described(data)} is not a JPEG picture.", NOT_A_FRAME) from problem
    except (OSError, ValueError, SyntaxError, EOFError, IndexError) as problem:
        raise BadInputError("The JPEG picture is damaged.", NOT_A_FRAME) from problem


def small_jpeg(image: Image, width: int = 384, quality: int = 70) -> bytes:
    """A picture as a small JPEG."""
    picture = Pillow.fromarray(np.ascontiguousarray(image))
    if picture.width > width:
        picture = picture.resize((width, max(1, round(picture.height * width / picture.width))))
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=quality)
    return out.getvalue()


def _described(data: bytes) -> str:
    return f"A frame of {len(data):,} bytes" if data else "An empty frame"
