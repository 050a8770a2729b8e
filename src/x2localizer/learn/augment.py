"""Pictures as input of a tower, in other light than they were taken in, and with less to see.

Shapes: b pictures or sets of pictures, (b, ..., H, W, 3) in bytes -> (b, ..., 3, H, W), scaled by ImageNet's mean and
deviation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from x2localizer.config import StageSettings

MEAN = torch.tensor([0.485, 0.456, 0.406]).reshape(3, 1, 1) * 255
STD = torch.tensor([0.229, 0.224, 0.225]).reshape(3, 1, 1) * 255
GREY = torch.tensor([0.299, 0.587, 0.114]).reshape(3, 1, 1)
PATCHES = 3
"""At most as many are hidden."""


def to_input(images: npt.NDArray[np.uint8]) -> Tensor:
    """In the light they were taken in."""
    return (_channels_first(images) - MEAN) / STD


def augmented(rng: np.random.Generator, images: npt.NDArray[np.uint8], stage: StageSettings) -> Tensor:
    """As a stage wants them."""
    return relight(rng, images, stage.vary) if stage.augment else to_input(images)


def relight(rng: np.random.Generator, images: npt.NDArray[np.uint8], strength: float = 0.0) -> Tensor:
    """Each of the first axis in another exposure and white balance.

    strength: up to 1; how much further light, contrast and colours may go, how much noise there is, and how often parts
        are hidden. 0: none of these.
    """
    b, ones = len(images), (1,) * (images.ndim - 4)
    gain = np.exp(rng.normal(0, 0.12 + 0.18 * strength, (b, 1))) * np.exp(rng.normal(0, 0.05 + 0.07 * strength, (b, 3)))
    shift = rng.normal(0, 6.0 + 9.0 * strength, (b, 1)).repeat(3, 1)
    lit = _channels_first(images) * _per_picture(gain, ones) + _per_picture(shift, ones)
    if strength:
        lit = _hidden(rng, _flattened_colours(rng, lit, strength), strength)
    return (lit.clamp_(0, 255) - MEAN) / STD


def shaken(rng: np.random.Generator, frames: Tensor, strength: float) -> Tensor:
    """Frames as if the camera were mounted another way: (b, 3, H, W), up to an eighth larger, and off by as much."""
    zoom = 1 - rng.uniform(0, 0.125 * strength, len(frames))
    off = rng.uniform(-1, 1, (len(frames), 2)) * (1 - zoom)[:, None]
    moves = np.zeros((len(frames), 2, 3), np.float32)
    moves[:, 0, 0] = moves[:, 1, 1] = zoom
    moves[:, :, 2] = off
    grid = F.affine_grid(torch.from_numpy(moves), list(frames.shape), align_corners=False)
    return F.grid_sample(frames, grid, align_corners=False, padding_mode="border")


def _flattened_colours(rng: np.random.Generator, lit: Tensor, strength: float) -> Tensor:
    """Other contrast, other saturation, and noise."""
    b, ones = len(lit), (1,) * (lit.ndim - 4)
    contrast = _per_picture(np.exp(rng.normal(0, 0.2 * strength, (b, 1))).repeat(3, 1), ones)
    colour = _per_picture(rng.uniform(1 - 0.6 * strength, 1 + 0.3 * strength, (b, 1)).repeat(3, 1), ones)
    mean = lit.mean((-3, -2, -1), keepdim=True)
    lit = mean + (lit - mean) * contrast
    grey = (lit * GREY).sum(-3, keepdim=True)
    noise = torch.from_numpy(rng.standard_normal(lit.shape, np.float32))
    return grey + (lit - grey) * colour + noise * _per_picture(rng.uniform(0, 8 * strength, (b, 1)).repeat(3, 1), ones)


def _hidden(rng: np.random.Generator, lit: Tensor, strength: float) -> Tensor:
    """Some rectangles of each picture in its mean colour: a sixth to a third of each side."""
    pictures = lit.flatten(0, -4)
    height, width = pictures.shape[-2:]
    for picture in pictures:
        for _ in range(int(rng.binomial(PATCHES, 0.5 * strength))):
            h, w = (max(1, int(side * rng.uniform(1 / 6, 1 / 3))) for side in (height, width))
            y, x = int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1))
            picture[:, y : y + h, x : x + w] = picture.mean((1, 2), keepdim=True)
    return pictures.reshape(lit.shape)


def _channels_first(images: npt.NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(np.require(images, requirements="W")).movedim(-1, -3).float()


def _per_picture(values: npt.NDArray[np.float64], ones: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(values).float().reshape(len(values), *ones, 3, 1, 1)
