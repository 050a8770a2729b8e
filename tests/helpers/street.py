"""A square with walls around it, drawn exactly as a camera on a known path sees it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from x2localizer.types import Floats, Frame, Image

WALL_M, CAMERA_M = 14.0, 1.5
_RNG = np.random.default_rng(3)


def _smooth_grain(size: float) -> npt.NDArray[np.float32]:
    grain = cv2.GaussianBlur(_RNG.normal(0, 1, (1024, 1024)).astype(np.float32), (0, 0), size)
    return np.asarray(grain / grain.std(), np.float32)


_GROUND = 8 * _smooth_grain(1.0) + 6 * _smooth_grain(3.0) + 5 * _smooth_grain(12.0)
_BLOCKS = _RNG.normal(0, 35, (64, 64)).astype(np.float32).repeat(16, 0).repeat(16, 1)
_BLOCKS = np.asarray(cv2.GaussianBlur(_BLOCKS, (0, 0), 2.5), np.float32)  # sharper edges would jump from pixel to pixel


def _texture(texture: npt.NDArray[np.float32], cell_m: float, u: Floats, v: Floats) -> Floats:
    """Grey levels at metres (u, v) of a texture that repeats."""
    columns, rows = ((u / cell_m) % 1024).astype(np.float32), ((v / cell_m) % 1024).astype(np.float32)
    return np.asarray(cv2.remap(texture, columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP), np.float64)


@dataclass(frozen=True, slots=True)
class Square:
    """A camera between four walls.

    horizon: row as a share of the height.
    mount_deg: how far the camera looks to the right of its heading.
    noise: grey levels.
    sides_m: from the origin to the walls in the east and in the north.
    """

    height: int = 216
    width: int = 384
    fov_deg: float = 65.0
    horizon: float = 0.55
    mount_deg: float = 0.0
    noise: float = 1.5
    sides_m: tuple[float, float] = (30.0, 30.0)

    def image(self, east: float, north: float, heading_deg: float, seed: int = 0) -> Image:
        """The frame of a camera at a place between walls around the origin."""
        focal = 0.5 * self.width / np.tan(np.radians(self.fov_deg) / 2)
        x = (np.arange(self.width) + 0.5 - self.width / 2) / focal
        drop = ((np.arange(self.height) + 0.5 - self.horizon * self.height) / focal)[:, None]
        angle = np.radians(heading_deg + self.mount_deg)
        dx, dy = np.sin(angle) + np.cos(angle) * x, np.cos(angle) - np.sin(angle) * x
        to_x = np.where(dx > 0, self.sides_m[0] - east, -self.sides_m[0] - east) / np.where(np.abs(dx) < 1e-9, 1e-9, dx)
        to_y = np.where(dy > 0, self.sides_m[1] - north, -self.sides_m[1] - north) / np.where(
            np.abs(dy) < 1e-9, 1e-9, dy
        )
        wall = np.minimum(to_x, to_y)[None]
        ground = CAMERA_M / np.maximum(drop, 1e-6)
        depth = np.minimum(wall, ground)
        at_x, at_y, up = east + depth * dx, north + depth * dy, CAMERA_M - depth * drop
        on_wall = np.broadcast_to(wall < ground, depth.shape)
        along = np.where((to_x < to_y)[None], at_y, at_x)
        near = np.minimum(1.0, 8.0 / depth)  # far grain would flicker
        walls, ground_light = _texture(_BLOCKS, 0.12, along, up), _texture(_GROUND, 0.06, at_x, at_y)
        walls *= np.clip(np.minimum(up, WALL_M - up), 0.0, 1.0)  # fade at their edges
        light = np.where(on_wall, 120 + walls, 110 + near * ground_light)
        light += np.random.default_rng(seed).normal(0, self.noise, light.shape) if self.noise else 0.0
        return np.repeat(np.clip(light, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2)

    def frames(self, places: Iterable[tuple[float, float, float]], spacing_s: float = 0.1) -> list[Frame]:
        """Frames at places (east, north, heading in degrees), with a time between them."""
        return [Frame(k, k * spacing_s, self.image(*place, seed=k)) for k, place in enumerate(places)]


def straight(count: int, step_m: float, start_m: float = -40.0) -> list[tuple[float, float, float]]:
    """Places on a straight line toward north."""
    return [(2.0, start_m + k * step_m, 0.0) for k in range(count)]


def circle(count: int, step_m: float, radius_m: float) -> list[tuple[float, float, float]]:
    """Places on a circle around the origin, driven clockwise (counter-clockwise if the radius is negative)."""
    places = []
    for k in range(count):
        angle = k * step_m / radius_m
        places.append((-radius_m * np.cos(angle), radius_m * np.sin(angle), float(np.degrees(angle))))
    return places
