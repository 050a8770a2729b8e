"""Tiny videos made on the spot, and the slow twin of the reader: decode everything, then choose."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from x2localizer.sources.video.decoding import RgbConverter
from x2localizer.types import Image

HEIGHT, WIDTH = 48, 64
_TEXTURE = np.random.default_rng(7).integers(0, 256, (HEIGHT // 8, WIDTH // 8, 3)).astype(np.uint8)


def picture(index: int) -> Image:
    """A texture that moves sideways, so that no two frames look alike."""
    return np.roll(_TEXTURE.repeat(8, 0).repeat(8, 1), index, axis=1)


def encode(
    path: Path,
    count: int = 90,
    *,
    codec: str = "libx264",
    rate: Fraction = Fraction(30),
    gop: int = 30,
    b_frames: int = 2,
    stamps: Sequence[int] | None = None,
    time_base: Fraction | None = None,
    params: dict[str, str] | None = None,
    turn: tuple[float, bool, bool] | None = None,
    pictures: Sequence[Image] | None = None,
    container_options: dict[str, str] | None = None,
) -> Path:
    """Write ``count`` frames; ``stamps`` in units of ``time_base`` (by default 0, 1, 2, ... of 1 / rate)."""
    base = time_base or 1 / rate
    with av.open(str(path), "w", options=container_options or {}) as container:
        stream = cast(VideoStream, container.add_stream(codec, rate=rate, options=params or {}))
        stream.width, stream.height = WIDTH, HEIGHT
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.gop_size, stream.max_b_frames = gop, b_frames
        stream.time_base = stream.codec_context.time_base = base
        if turn is not None:
            stream.set_display_rotation(turn[0], turn[1], turn[2])
        for index in range(count):
            image = picture(index) if pictures is None else pictures[index]
            frame = VideoFrame.from_ndarray(np.ascontiguousarray(image), "rgb24")
            frame.pts = index if stamps is None else stamps[index]
            frame.time_base = base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def naive_frames(
    path: Path, spacing_s: float | None, start_s: float = 0.0, end_s: float | None = None
) -> list[tuple[float, Image]]:
    """What a reader that decodes every frame on one thread, from the first, hands out."""
    chosen: list[tuple[float, Image]] = []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_count = 1
        assert stream.time_base is not None
        frames = list(container.decode(stream))
        first = frames[0].pts
        to_rgb = RgbConverter(frames[0], None)
        due_s = start_s
        for frame in frames:
            assert frame.pts is not None and first is not None
            time_s = float((frame.pts - first) * stream.time_base)
            if end_s is not None and time_s >= end_s - 0.001:
                break
            if time_s >= due_s - 0.001:
                chosen.append((time_s, to_rgb(frame)))
                while spacing_s is not None and due_s - 0.001 <= time_s:
                    due_s = start_s + round((due_s - start_s) / spacing_s + 1) * spacing_s
    return chosen
