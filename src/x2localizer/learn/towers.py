"""What a tower is: pictures of one view in, codes out, whatever network does it.

A tower turns single pictures into *image codes* (phi in the paper), and sets of pictures, the frames of a prefix or the
tiles of a region, into *set codes* (Phi in the paper). Networks that do so are called families; each is one file in
``learn/families``. Shapes: n pictures, b sets of s pictures, H x W pixels, d numbers in a code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from x2localizer.config import BackboneSettings, ModelSettings, Settings
from x2localizer.encoders.protocol import Capabilities
from x2localizer.errors import ConfigError, UserError

Out = TypeVar("Out")


class SetEmbedding(NamedTuple):
    """Codes of b sets, all of length 1.

    whole: one code for each set, (b, d).
    tokens: one code for each picture, seen among the others of its set, (b, s, d); (b, 0, d) if there are none.
    """

    whole: Tensor
    tokens: Tensor


@dataclass(frozen=True, slots=True)
class TowerPlan:
    """What a tower is built for.

    settings: the whole model; a tower needs ``settings.dim``, the length of its codes.
    size: height and width of a picture in pixels.
    instances: pictures in the largest set.
    grid: True if sets are the tiles of a region, row by row; False if they are frames in the order of time.
    pretrained: False if all weights are loaded next, so that none need to be fetched.
    """

    settings: ModelSettings
    size: tuple[int, int]
    instances: int
    grid: bool
    pretrained: bool = True

    @property
    def backbone(self) -> BackboneSettings:
        """The transformer of this tower."""
        chosen = self.settings.backbone
        return chosen.model_copy(
            update={"patch": chosen.patch_of(tiles=self.grid), "depth": chosen.depth_of(tiles=self.grid)}
        )


class Tower(nn.Module):
    """A network for one view. A family implements ``embed_images``, or ``embed_sets`` if pictures of a set interact.

    name: what ``model.family`` calls the family.
    Options: what ``model.options`` may hold; none by default.
    capabilities: what the family can do. A family that encodes sets only leaves ``frame`` and ``tile`` out of its
        parts; one whose sets have no token for each picture sets ``tokens`` to False.
    """

    name: ClassVar[str]
    Options: ClassVar[type[Settings]] = Settings
    capabilities: ClassVar[Capabilities] = Capabilities()

    def __init__(self, plan: TowerPlan, options: Settings) -> None:
        super().__init__()
        self.size, self.instances, self.grid = plan.size, plan.instances, plan.grid
        self.options = options
        self.checkpointing = False

    def set_checkpointing(self, on: bool) -> None:
        """Whether to compute what lies inside blocks again for gradients, instead of keeping it."""
        self.checkpointing = on

    def arrange(self) -> None:
        """Lay weights out in memory as they are read fastest, if another way than torch's own is faster."""

    def set_merging(self, count: int) -> None:
        """Merge so many patches in every block, if the family can."""
        if count:
            raise ConfigError(f"The family '{self.name}' cannot merge tokens.", "Leave out --merge.")

    def _saving(self, block: Callable[..., Out], *tensors: Tensor) -> Out:
        """What a block makes of tensors; with checkpointing, only they are kept for the gradient."""
        if self.checkpointing and torch.is_grad_enabled():
            out: Out = checkpoint(block, *tensors, use_reentrant=False)
            return out
        return block(*tensors)

    def embed_images(self, images: Tensor) -> Tensor:
        """Image codes before they are scaled to length 1: (n, 3, H, W) -> (n, d).

        Of a family that encodes sets only it is the code of a set of one picture, with which stage 1 can train it.
        """
        return self.embed_sets(images[:, None]).whole

    def forward(self, images: Tensor) -> Tensor:
        """Image codes of length 1: (n, 3, H, W) -> (n, d)."""
        return F.normalize(self.embed_images(images), dim=-1)

    def embed_sets(self, images: Tensor, *, adapt: bool = True) -> SetEmbedding:
        """Set codes of sets of one length: (b, s, 3, H, W). By default a set is the mean of its images.

        ``adapt=False`` leaves adapters out, where a family has any.
        """
        b, s = images.shape[:2]
        return pool(self.embed_images(images.flatten(0, 1)).reshape(b, s, -1))

    def embed_prefixes(self, videos: Tensor, lengths: Sequence[int], *, adapt: bool = True) -> dict[int, SetEmbedding]:
        """Set codes of the first frames of each video, by their number: (b, T, 3, H, W)."""
        if type(self).embed_sets is not Tower.embed_sets:
            return {length: self.embed_sets(videos[:, :length], adapt=adapt) for length in lengths}
        longest = videos[:, : max(lengths)]  # means of images share the images
        codes = self.embed_images(longest.flatten(0, 1)).reshape(*longest.shape[:2], -1)
        return {length: pool(codes[:, :length]) for length in lengths}

    def embed_posed(self, frames: Tensor, poses: Tensor) -> SetEmbedding:
        """Set codes of prefixes of a family whose capabilities have ``poses``: (b, s, 3, H, W) and (b, s, 3)."""
        raise NotImplementedError(f"{type(self).__name__} does without poses")

    def embed_posed_prefixes(
        self, videos: Tensor, lengths: Sequence[int], poses: Tensor | None
    ) -> dict[int, SetEmbedding]:
        """The same for prefixes of several lengths, by their length: (b, T, 3, H, W) and (b, T, 3)."""
        if poses is None:
            raise UserError(
                f"The family '{self.name}' needs to know how the camera moved between frames.",
                "Measure it on a dataset, which says so: x2l evaluate",
            )
        return {length: self.embed_posed(videos[:, :length], poses[:, :length]) for length in lengths}

    @classmethod
    def has_adapters(cls, settings: ModelSettings) -> bool:
        """Whether stages 2 and 3 train adapters; without any they train the towers themselves."""
        return False

    @classmethod
    def capabilities_of(cls, options: Settings) -> Capabilities:
        """What a tower with these options can do; the same whatever the options by default."""
        return cls.capabilities

    @classmethod
    def taken_from(cls, family: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights that a model can take over from one of another family, by name; none by default."""
        return {}

    @staticmethod
    def is_adapter(name: str) -> bool:
        """Whether a weight belongs to the adapters, by its name in the tower's state dict."""
        return False

    @staticmethod
    def is_hidden_matrix(name: str) -> bool:
        """Whether a matrix maps hidden layers to hidden layers, so that Muon can train it."""
        return False

    def variant(self, *, sets: bool) -> str:
        """A name for what the settings change in image or set codes while the weights stay the same."""
        text = f"{self.size} {self.options.model_dump_json()}"
        return "-" + hashlib.sha256(text.encode()).hexdigest()[:8]


def pool(codes: Tensor) -> SetEmbedding:
    """Sets whose code is the mean of their pictures' codes: (b, s, d)."""
    return SetEmbedding(F.normalize(codes.mean(1), dim=-1), F.normalize(codes, dim=-1))


def whole_only(whole: Tensor) -> SetEmbedding:
    """Sets without tokens: (b, d), of length 1."""
    return SetEmbedding(whole, whole.new_zeros(whole.shape[0], 0, whole.shape[1]))
