"""The polar transform: an aerial picture unrolled around its middle, as a camera that turns there would see it.

Columns are azimuths, clockwise from up. Rows are distances: the lowest row is the middle of the picture, the highest
its edge, as the horizon is high in a street frame.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def polar_grid(height: int, width: int, margin: int = 0) -> Tensor:
    """Where each polar pixel lies in a square picture, x and y from -1 to 1: (height, width + 2 margin, 2).

    width: pixels of a full circle; the azimuth 0 is in the middle of column ``margin``.
    margin: columns beyond a full circle on each side, so that convolutions see no edge at azimuth 0.
    """
    azimuth = (torch.arange(-margin, width + margin) * (2 * math.pi / width))[None, :]
    radius = 1 - (torch.arange(height) + 0.5)[:, None] / height
    return torch.stack([radius * torch.sin(azimuth), -radius * torch.cos(azimuth)], -1)


def to_polar(pictures: Tensor, grid: Tensor) -> Tensor:
    """Pictures at the places of a grid: (n, 3, t, t) and (height, width, 2) -> (n, 3, height, width)."""
    every = grid.to(pictures.dtype).expand(pictures.shape[0], -1, -1, -1)
    return F.grid_sample(pictures, every, mode="bilinear", padding_mode="border", align_corners=False)


def heading_columns(circle: int, view: int, headings: int) -> Tensor:
    """The columns that a camera sees in each heading: (headings, view), out of a circle of columns.

    Heading i looks i / headings of a circle clockwise from up, and sees ``view`` columns, half of them on each side.
    """
    middle = torch.arange(headings)[:, None] * circle / headings
    first = torch.round(middle - (view - 1) / 2).long()
    return (first + torch.arange(view)) % circle
