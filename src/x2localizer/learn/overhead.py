"""Ground features seen from above: projected to a map by the geometry of cameras on a flat ground.

Camera coordinates: x metres right, z metres ahead; the ground lies the camera's height below it. Shapes: b prefixes of
s frames, c channels, h x w features of a frame, a map of m x m cells.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

NEAREST_M = 1.0
"""Ground that is nearer to the camera, or behind it, is not seen."""


def map_places(cells: int, cell_m: float) -> Tensor:
    """Middles of the cells of a map around the origin, metres right and ahead, (m, m, 2); the first row is furthest."""
    steps = (torch.arange(cells) - (cells - 1) / 2) * cell_m
    ahead, right = torch.meshgrid(-steps, steps, indexing="ij")
    return torch.stack([right, ahead], -1)


def centred(poses: Tensor) -> Tensor:
    """Poses (b, s, 3) as seen from the middle of their path, in the heading of the first camera."""
    middle = poses[..., :2].mean(1, keepdim=True)
    return torch.cat([poses[..., :2] - middle, poses[..., 2:]], -1)


def to_cameras(places: Tensor, poses: Tensor) -> Tensor:
    """Places of a map in the coordinates of each camera: (m, m, 2) and (b, s, 3) -> (b, s, m, m, 2)."""
    moved = places - poses[:, :, None, None, :2]
    cos, sin = torch.cos(poses[..., 2])[..., None, None], torch.sin(poses[..., 2])[..., None, None]
    right, ahead = moved[..., 0], moved[..., 1]
    return torch.stack([right * cos - ahead * sin, right * sin + ahead * cos], -1)


def image_places(ground: Tensor, fov_deg: float, aspect: float, height_m: float) -> tuple[Tensor, Tensor]:
    """Where ground places (..., 2) appear in a picture, x and y from -1 to 1, (..., 2), and whether they do, (...).

    fov_deg: horizontal field of view. aspect: width over height of the picture. The camera looks level.
    """
    focal = 1 / math.tan(math.radians(fov_deg) / 2)  # in halves of the width
    x, z = ground[..., 0], ground[..., 1].clamp(min=NEAREST_M)
    picture = torch.stack([focal * x / z, focal * aspect * height_m / z], -1)
    return picture, (ground[..., 1] > NEAREST_M) & (picture.abs() <= 1).all(-1)


def project(features: Tensor, picture: Tensor, seen: Tensor) -> Tensor:
    """Features (b, s, c, h, w) on a map, zero where unseen, (b, s, c, m, m).

    picture, seen: where the cells of the map appear in each picture, (b, s, m, m, 2), and whether, (b, s, m, m).
    """
    flat = F.grid_sample(
        features.flatten(0, 1), picture.flatten(0, 1), mode="bilinear", padding_mode="border", align_corners=False
    )
    b, s, m = seen.shape[:3]
    return flat.reshape(b, s, -1, m, m) * seen[:, :, None]


def fuse(maps: Tensor, scores: Tensor, seen: Tensor) -> Tensor:
    """One map of those of all frames: (b, s, c, m, m), scores and seen (b, s, m, m) -> (b, c, m, m).

    Frames count by their scores, and by how well they agree with the mean of those that see the same cell; cells that
    no frame sees are zero.
    """
    count = seen.sum(1, keepdim=True).clamp(min=1)
    mean = maps.sum(1) / count
    agree = (F.normalize(maps, dim=2) * F.normalize(mean, dim=1)[:, None]).sum(2)
    weights = torch.softmax((scores + agree).masked_fill(~seen, -1e4), 1) * seen
    return (maps * weights[:, :, None]).sum(1)
