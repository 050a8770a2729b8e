"""The model: a ground tower and an aerial tower, of one shape, with weights of their own."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from x2localizer.config import ModelSettings
from x2localizer.learn.towers import SetEmbedding, Tower

Trains = Literal["everything", "adapters", "ground adapters"]


class Model(nn.Module):
    """Both towers; phi and Phi of each share the spatial weights.

    ``pretrained=False`` leaves out the pretrained weights that the settings name, for a model that is loaded next.
    """

    def __init__(self, settings: ModelSettings, *, pretrained: bool = True) -> None:
        super().__init__()
        self.settings = settings
        frame, tile = (settings.frame_height, settings.frame_width), (settings.tile_px, settings.tile_px)
        self.ground = Tower(settings, frame, settings.frames, grid=False, pretrained=pretrained)
        self.aerial = Tower(settings, tile, settings.region_tiles**2, grid=True, pretrained=pretrained)

    def pairs(self, frames: Tensor, tiles: Tensor) -> tuple[Tensor, Tensor]:
        """phi of frames (n, 3, h, w) and tiles (n, 3, t, t)."""
        return self.ground(frames), self.aerial(tiles)

    def prefixes(self, videos: Tensor, budgets: list[int], *, adapt: bool = True) -> dict[int, SetEmbedding]:
        """Phi of the first frames of videos (b, T, 3, h, w), all budgets in one pass; tokens as (b, budget, d)."""
        b = len(videos)
        frame = torch.arange(b * max(budgets), device=videos.device).reshape(b, -1)
        members = torch.cat([frame[:, :budget].flatten() for budget in budgets])
        lengths = [budget for budget in budgets for _ in range(b)]
        out = self.ground.embed_sets(videos[:, : max(budgets)].flatten(0, 1), lengths, members, adapt=adapt)
        found, start = {}, 0
        for i, budget in enumerate(budgets):
            stop = start + b * budget
            tokens = out.tokens[start:stop].reshape(b, budget, -1)
            found[budget] = SetEmbedding(out.whole[i * b : (i + 1) * b], tokens)
            start = stop
        return found

    def regions(self, tiles: Tensor, *, adapt: bool = True) -> SetEmbedding:
        """Phi of regions (b, n n, 3, t, t); tokens as (b, n n, d)."""
        b, s = tiles.shape[:2]
        if adapt:
            return self.aerial.embed_even(tiles)
        out = self.aerial.embed_sets(tiles.flatten(0, 1), [s] * b, adapt=False)
        return SetEmbedding(out.whole, out.tokens.reshape(b, s, -1))

    def set_trainable(self, what: Trains) -> None:
        """Freeze all but what a stage trains; a model without adapters trains its towers instead of them."""
        for name, parameter in self.named_parameters():
            if what == "everything":
                wanted = not is_adapter(name)
            else:
                wanted = is_adapter(name) or not self.settings.adapters
                wanted = wanted and (what == "adapters" or name.startswith("ground."))
            parameter.requires_grad_(wanted)


def is_adapter(name: str) -> bool:
    """Whether a parameter belongs to the adapters."""
    return ".adapters." in name or name.endswith("instance_embedding")
