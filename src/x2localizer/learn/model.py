"""The model: a ground tower and an aerial tower, of one family, with weights of their own."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from x2localizer.config import ModelSettings
from x2localizer.encoders.protocol import Capabilities
from x2localizer.learn.families import build_tower, capabilities_of, family_of
from x2localizer.learn.towers import SetEmbedding, Tower, TowerPlan

Trains = Literal["everything", "adapters", "ground adapters"]


class Model(nn.Module):
    """Both towers.

    ``pretrained=False`` leaves out the pretrained weights that the settings name, for a model that is loaded next.
    """

    def __init__(self, settings: ModelSettings, *, pretrained: bool = True) -> None:
        super().__init__()
        self.settings = settings
        self.family: type[Tower] = family_of(settings)
        frame, tile = (settings.frame_height, settings.frame_width), (settings.tile_px, settings.tile_px)
        self.ground = build_tower(TowerPlan(settings, frame, settings.frames, grid=False, pretrained=pretrained))
        self.aerial = build_tower(TowerPlan(settings, tile, settings.region_tiles**2, grid=True, pretrained=pretrained))

    @property
    def capabilities(self) -> Capabilities:
        """What the family can do with the options that were chosen."""
        return capabilities_of(self.settings)

    def pairs(self, frames: Tensor, tiles: Tensor) -> tuple[Tensor, Tensor]:
        """Image codes of frames (n, 3, h, w) and tiles (n, 3, t, t)."""
        codes: tuple[Tensor, Tensor] = self.ground(frames), self.aerial(tiles)
        return codes

    def prefixes(
        self, videos: Tensor, budgets: list[int], *, adapt: bool = True, poses: Tensor | None = None
    ) -> dict[int, SetEmbedding]:
        """Set codes of the first frames of videos (b, T, 3, h, w), by their number.

        poses: of their cameras, (b, T, 3), for families that need them; others leave them aside.
        """
        if not self.capabilities.poses:
            return self.ground.embed_prefixes(videos, budgets, adapt=adapt)
        return self.ground.embed_posed_prefixes(videos, budgets, poses)

    def regions(self, tiles: Tensor, *, adapt: bool = True) -> SetEmbedding:
        """Set codes of regions (b, n n, 3, t, t), tiles row by row."""
        return self.aerial.embed_sets(tiles, adapt=adapt)

    def is_adapter(self, name: str) -> bool:
        """Whether a weight belongs to the adapters, by its name in the model's state dict."""
        return self.family.is_adapter(name.partition(".")[2])

    def set_checkpointing(self, on: bool) -> None:
        """Whether towers compute the inside of blocks again for gradients, instead of keeping it."""
        self.ground.set_checkpointing(on)
        self.aerial.set_checkpointing(on)

    def arrange(self) -> None:
        """Lay weights out in memory as they are read fastest."""
        self.ground.arrange()
        self.aerial.arrange()

    def set_trainable(self, what: Trains) -> None:
        """Freeze all but what a stage trains; a model without adapters trains its towers instead of them."""
        adapted = self.family.has_adapters(self.settings)
        for name, parameter in self.named_parameters():
            if what == "everything":
                wanted = not self.is_adapter(name)
            else:
                wanted = self.is_adapter(name) or not adapted
                wanted = wanted and (what == "adapters" or name.startswith("ground."))
            parameter.requires_grad_(wanted)
