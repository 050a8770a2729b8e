"""Which frames are usable? Black, white and frozen pictures are not, and a long time without any is an interruption."""

from __future__ import annotations

import numpy as np

from x2localizer.types import Frame, Image

FLAT = 4.0
"""Grey levels of spread below which a picture shows nothing: a covered lens, a black or white screen."""
FROZEN_AFTER = 3
"""Frames in a row that equal the previous one to the last bit are a frozen picture: a sensor always has noise."""


class FrameGate:
    """Lets usable frames pass and notices interruptions."""

    def __init__(self, gap_s: float) -> None:
        self._gap_s = gap_s
        self._last_usable_s: float | None = None
        self._last_image: Image | None = None
        self._same = 0

    def usable(self, frame: Frame) -> bool:
        """Whether the frame shows something that can be matched."""
        same = self._last_image is not None and np.array_equal(frame.image, self._last_image)
        self._same = self._same + 1 if same else 0
        self._last_image = frame.image
        return float(frame.image.std()) >= FLAT and self._same < FROZEN_AFTER

    def interrupted(self, frame: Frame) -> bool:
        """Whether the last usable frame lies too far back; this frame then counts as the last one."""
        last, self._last_usable_s = self._last_usable_s, frame.time_s
        return last is not None and not 0 <= frame.time_s - last <= self._gap_s
