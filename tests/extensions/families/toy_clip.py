"""A video network in one file: it mixes the pictures of a set from the first layer on.

So it has neither image codes nor tokens, and a clip needs at least two frames.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from x2localizer.config import Settings
from x2localizer.encoders.protocol import Capabilities
from x2localizer.learn.families import register_family
from x2localizer.learn.towers import SetEmbedding, Tower, TowerPlan


@register_family("toy-clip")
class ToyClip(Tower):
    """One convolution over time and space."""

    capabilities = Capabilities(parts=("prefix", "region"), shortest_prefix=2, tokens=False)

    def __init__(self, plan: TowerPlan, options: Settings) -> None:
        super().__init__(plan, options)
        self.layer = nn.Conv3d(3, 8, (3, 8, 8), (1, 8, 8), (1, 0, 0))
        self.head = nn.Linear(8, plan.settings.dim)

    def embed_sets(self, images: Tensor, *, adapt: bool = True) -> SetEmbedding:
        """Set codes without tokens: (b, s, 3, H, W) -> (b, d) and (b, 0, d)."""
        volume = F.gelu(self.layer(images.transpose(1, 2)))
        whole = F.normalize(self.head(volume.mean((2, 3, 4))), dim=-1)
        return SetEmbedding(whole, whole.new_zeros(whole.shape[0], 0, whole.shape[1]))
