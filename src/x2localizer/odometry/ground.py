"""How far a camera moved between two frames: the road ahead seen from above, aligned.

The road is a plane at a known height below the camera, so both frames can be drawn as a map of the road ahead. Asphalt
has little that a corner detector likes, but thousands of faint grains: the maps are aligned as a whole, by phase
correlation, which works by day and in the light of headlights.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from x2localizer.odometry.camera import Lens
from x2localizer.odometry.tracks import Gray
from x2localizer.types import Floats

Patch = npt.NDArray[np.float32]
SIDE, CELL_M = 128, 0.05
"""Cells of a patch of road and their size: 6.4 m wide and long, from the nearest row that the camera sees."""
WHITENING = 0.8
"""1 gives all spatial frequencies the same weight, which makes sharp peaks; 0 leaves them as they are."""
SMOOTHING = 0.15
"""Cycles per cell beyond which frequencies are damped, as they are noise."""
SIDEWAYS_CELLS = 5
JUMP_COST = 5.0
"""Standard deviations by which a peak far from the expected distance must be higher than one near it."""
LEAST_STRENGTH = 5.5
"""Height of a peak, in standard deviations of the correlation, below which it may be chance."""
_MARGIN = 10


@dataclass(frozen=True, slots=True)
class Step:
    """A movement between two frames, as far as it is known: metres along the chord of a circle, and radians."""

    distance_m: float
    yaw: float
    mount: float


@dataclass(frozen=True, slots=True)
class Alignment:
    """How two patches of road fit.

    distance_m: driven between the frames.
    sideways_m: how far the road still is to the right of where the step would put it.
    strength: height of the correlation's peak, in standard deviations.
    """

    distance_m: float
    sideways_m: float
    strength: float


def nearest_m(lens: Lens, horizon: float) -> float:
    """Distance of the nearest piece of road that a frame shows, metres."""
    return lens.focal * lens.height_m / max(lens.bottom - 0.5 - horizon, 0.05 * lens.height)


def align(
    before: Gray, after: Gray, lens: Lens, horizons: tuple[float, float], step: Step, spread_m: float,
    limits_m: tuple[float, float], banned_m: float = 0.0,
) -> Alignment | None:  # fmt: skip
    """Align the road of two frames; None if nothing fits.

    horizons: rows of the horizon in both frames.
    step: the expected movement. Its yaw and mount are taken as they are.
    spread_m: standard deviation of the expected distance.
    limits_m: smallest and largest distance that is possible.
    banned_m: distances smaller than this are impossible, because the camera is known to move.
    """
    near_m = max(nearest_m(lens, horizon) for horizon in horizons)
    surface = _correlate(
        _patch(before, _to_frame(lens, horizons[0], near_m, step)), _patch(after, _to_frame(lens, horizons[1], near_m))
    )
    centre, reach = SIDE // 2, SIDE // 2 - _MARGIN
    strip = surface[centre - reach : centre + reach + 1, centre - SIDEWAYS_CELLS : centre + SIDEWAYS_CELLS + 1]
    profile = strip.max(axis=1)
    distances = step.distance_m - np.arange(-reach, reach + 1) * CELL_M
    score = profile - np.minimum(0.5 * ((distances - step.distance_m) / spread_m) ** 2, JUMP_COST)
    peaks = np.concatenate([[False], (profile[1:-1] >= profile[:-2]) & (profile[1:-1] >= profile[2:]), [False]])
    possible = peaks & (distances >= limits_m[0]) & (distances <= limits_m[1]) & (np.abs(distances) >= banned_m)
    if not possible.any():
        return None
    best = int(np.argmax(np.where(possible, score, -np.inf)))
    if profile[best] < LEAST_STRENGTH:
        return None
    row, column = best + centre - reach, int(np.argmax(strip[best])) + centre - SIDEWAYS_CELLS
    down = row - centre + _top(surface[row - 1 : row + 2, column])
    right = column - centre + _top(surface[row, column - 1 : column + 2])
    return Alignment(step.distance_m - down * CELL_M, right * CELL_M, float(profile[best]))


def _to_frame(lens: Lens, horizon: float, near_m: float, step: Step | None = None) -> Floats:
    """Matrix (3, 3) from cells of a patch to pixels of a frame.

    The patch is that in front of the frame; with a step, that in front of the camera after the step.
    """
    cells = np.array([[CELL_M, 0, (0.5 - SIDE / 2) * CELL_M], [0, CELL_M, near_m + 0.5 * CELL_M], [0, 0, 1]])
    project = np.array([[lens.focal, lens.centre, 0], [0, horizon, lens.focal * lens.height_m], [0, 1, 0]])
    if step is None:
        return np.asarray(project @ cells)
    cos, sin, way = np.cos(step.yaw), np.sin(step.yaw), step.yaw / 2 - step.mount
    move = np.array([[cos, sin, step.distance_m * np.sin(way)], [-sin, cos, step.distance_m * np.cos(way)], [0, 0, 1]])
    return np.asarray(project @ move @ cells)


def _patch(gray: Gray, matrix: Floats) -> Patch:
    """A patch of road with its light evened out, fading toward its borders."""
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    cells = cv2.warpPerspective(gray, matrix, (SIDE, SIDE), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    light = cells.astype(np.float32)
    light -= cv2.blur(light, (21, 21))
    light /= np.sqrt(np.maximum(cv2.blur(light * light, (31, 31)), 0.0)) + 2.0
    return light * _TAPER


def _correlate(before: Patch, after: Patch) -> Patch:
    """Correlation by shift, (SIDE, SIDE) with no shift at the centre, in its own standard deviations."""
    product = np.conj(np.fft.rfft2(before)) * np.fft.rfft2(after)
    product *= _LOW_PASS / (np.abs(product) + 1e-3) ** WHITENING
    surface = np.fft.fftshift(np.fft.irfft2(product, s=(SIDE, SIDE)))
    return np.asarray(surface / (surface.std() + 1e-12), np.float32)


def _top(values: Patch) -> float:
    """Where the top of a peak lies that three values sample, -0.5 to 0.5 from the middle one."""
    low, middle, high = (float(value) for value in values)
    bend = low - 2 * middle + high
    return 0.0 if bend >= 0 else min(max(0.5 * (low - high) / bend, -0.5), 0.5)


def _taper() -> Patch:
    line = np.sqrt(np.hanning(SIDE + 2)[1:-1])
    return np.outer(line, line).astype(np.float32)


def _low_pass() -> Floats:
    rows, columns = np.fft.fftfreq(SIDE)[:, None], np.fft.rfftfreq(SIDE)[None]
    return np.asarray(np.exp(-0.5 * (rows**2 + columns**2) / SMOOTHING**2))


_TAPER, _LOW_PASS = _taper(), _low_pass()
