"""Points that are followed from one frame to the next."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from x2localizer.types import Floats

Gray = npt.NDArray[np.uint8]
"""Grey levels, (height, width)."""

MAX_POINTS = 160
SPACING_PX = 7
WINDOW = (15, 15)
LEVELS = 3
"""Levels of the image pyramid above the frame itself; three follow points over some 40 pixels."""
RETURN_PX = 0.7
"""A point that is followed to the next frame and back must end this close to where it began."""
_DARK = 12.0
"""Grey level up to which contrasts are raised to those of brighter parts."""
_CURVE = (255.0 * np.log1p(np.arange(256) / _DARK) / np.log1p(255.0 / _DARK)).astype(np.uint8)


def even_contrast(gray: Gray) -> Gray:
    """The frame with contrasts in dark parts raised and noise smoothed, so that nights have corners too."""
    return np.asarray(_CURVE[cv2.GaussianBlur(gray, (0, 0), 0.8)], np.uint8)


class PointTracker:
    """Finds corners in each frame, and where they are in the next."""

    def __init__(self) -> None:
        self._before: Gray | None = None

    def restart(self, gray: Gray) -> None:
        """Take a frame that has nothing to do with the previous one."""
        self._before = even_contrast(gray)

    def follow(self, gray: Gray, shift_px: float = 0.0) -> Floats:
        """Columns and rows of points in the previous frame and in this one, (n, 4).

        ``shift_px`` is how far points are expected to move to the right.
        """
        after, before = even_contrast(gray), self._before
        self._before = after
        corners = None if before is None else cv2.goodFeaturesToTrack(before, MAX_POINTS, 0.01, SPACING_PX, blockSize=5)
        if before is None or corners is None:
            return np.zeros((0, 4))
        options: dict[str, Any] = {
            "winSize": WINDOW, "flags": cv2.OPTFLOW_USE_INITIAL_FLOW,
            "criteria": (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 12, 0.02),
        }  # fmt: skip
        guess = corners + np.array([shift_px, 0.0], np.float32)
        there, ok, _ = cv2.calcOpticalFlowPyrLK(before, after, corners, guess, maxLevel=LEVELS, **options)
        back, ok_back, _ = cv2.calcOpticalFlowPyrLK(after, before, there, corners.copy(), maxLevel=1, **options)
        kept = (ok.ravel() > 0) & (ok_back.ravel() > 0)
        kept &= np.linalg.norm((back - corners).reshape(-1, 2), axis=1) < RETURN_PX
        return np.concatenate([corners, there], axis=2).reshape(-1, 4)[kept].astype(np.float64)
