"""Pictures in messages of ROS: sensor_msgs/Image and sensor_msgs/CompressedImage as RGB."""

from __future__ import annotations

import io
from typing import Any

import cv2
import numpy as np
from PIL import Image as Pillow

from x2localizer.sources.video.image_folder import read_image
from x2localizer.types import Image

MOST_PIXELS = 100_000_000
_PLAIN = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "8uc3": 3, "8uc4": 4, "mono8": 1, "8uc1": 1}
_DEEP = {"mono16": 1, "16uc1": 1, "rgb16": 3, "bgr16": 3}
_CONVERTED = {
    # OpenCV names the second row of a Bayer pattern, ROS the first.
    "bayer_rggb8": cv2.COLOR_BayerBG2RGB, "bayer_bggr8": cv2.COLOR_BayerRG2RGB,
    "bayer_gbrg8": cv2.COLOR_BayerGR2RGB, "bayer_grbg8": cv2.COLOR_BayerGB2RGB,
    "yuv422": cv2.COLOR_YUV2RGB_UYVY, "uyvy": cv2.COLOR_YUV2RGB_UYVY, "yuv422_yuy2": cv2.COLOR_YUV2RGB_YUY2,
    "yuyv": cv2.COLOR_YUV2RGB_YUY2,
}  # fmt: skip


def picture_of(message: Any, size: tuple[int, int] | None = None) -> Image | None:
    """The picture in a message, resized to (height, width); None if it is damaged, or in an encoding we do not know."""
    if hasattr(message, "format"):
        return read_image(io.BytesIO(bytes(message.data)), size)
    picture = _raw(message)
    if picture is None or size is None or picture.shape[:2] == size:
        return picture
    small = Pillow.fromarray(picture).resize((size[1], size[0]), Pillow.Resampling.BICUBIC)
    return np.array(small, np.uint8)


def _raw(message: Any) -> Image | None:
    encoding = str(message.encoding).lower()
    height, width, step = int(message.height), int(message.width), int(message.step)
    deep = encoding in _DEEP
    channels = _PLAIN.get(encoding) or _DEEP.get(encoding) or (2 if "yuv" in encoding or "uyvy" in encoding else 1)
    row = width * channels * (2 if deep else 1)
    data = np.frombuffer(memoryview(message.data), np.uint8)
    known = encoding in _PLAIN or deep or encoding in _CONVERTED
    if not known or not 0 < height * width <= MOST_PIXELS or step < row or len(data) < step * height:
        return None
    rows = data[: step * height].reshape(height, step)[:, :row]
    if deep:  # the more significant byte of each number
        rows = rows[:, 0::2] if message.is_bigendian else rows[:, 1::2]
    pixels = np.ascontiguousarray(rows).reshape(height, width, channels)
    if encoding in _CONVERTED:
        try:
            return np.asarray(cv2.cvtColor(pixels, _CONVERTED[encoding]), np.uint8)
        except cv2.error:  # an odd width
            return None
    if channels == 1:
        return np.repeat(pixels, 3, axis=2)
    colours = pixels[:, :, :3]
    return np.ascontiguousarray(colours if encoding.startswith("rgb") else colours[:, :, ::-1])
