"""The error ellipse of a fix."""

from __future__ import annotations

import math

import numpy as np

from x2localizer.localize.track.belief import PoseEstimate
from x2localizer.types import ErrorEllipse

ELLIPSE_95 = math.sqrt(5.991)
"""Standard deviations of a plane's normal distribution within which 95% of it lies."""


def stretched(found: PoseEstimate, along_m: float) -> tuple[float, float, float]:
    """The covariance of a place, with at least the standard deviation ``along_m`` in the direction of driving."""
    a, b, c = found.covariance_m2
    east, north = math.sin(found.heading_rad), math.cos(found.heading_rad)
    more = max(0.0, along_m**2 - (a * east**2 + 2.0 * b * east * north + c * north**2))
    return a + more * east**2, b + more * east * north, c + more * north**2


def ellipse_of(covariance_m2: tuple[float, float, float]) -> ErrorEllipse:
    """The ellipse that holds 95% of a normal distribution."""
    a, b, c = covariance_m2
    values, vectors = np.linalg.eigh(np.array([[a, b], [b, c]]))
    minor, major = np.sqrt(np.maximum(values, 0.0)) * ELLIPSE_95
    angle = math.degrees(math.atan2(vectors[0, 1], vectors[1, 1])) % 180.0
    return ErrorEllipse(float(major), float(minor), angle)
