"""A family in one file: a tiny convolutional network without adapters; a set is the mean of its images."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, nn

from x2localizer.config import Settings
from x2localizer.learn.families import register_family
from x2localizer.learn.towers import Tower, TowerPlan


class ToyOptions(Settings):
    """What ``model.options`` may hold."""

    channels: int = Field(8, ge=4, multiple_of=4)


@register_family("toy-cnn")
class ToyCnn(Tower):
    """Three layers and a linear head."""

    Options = ToyOptions

    def __init__(self, plan: TowerPlan, options: ToyOptions) -> None:
        super().__init__(plan, options)
        c = options.channels
        self.layers = nn.Sequential(
            nn.Conv2d(3, c, 3, 2, 1), nn.GroupNorm(2, c), nn.GELU(),
            nn.Conv2d(c, 2 * c, 3, 2, 1), nn.GELU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(8 * c, plan.settings.dim)

    def embed_images(self, images: Tensor) -> Tensor:
        """Image codes: (n, 3, H, W) -> (n, d)."""
        codes: Tensor = self.head(self.layers(images))
        return codes
