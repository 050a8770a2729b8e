"""What a similarity is, and the registry of all of them.

Shapes: k frames of a window, r regions, l tiles in each, d the length of a code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from x2localizer.encoders import Encoder, EncoderSpec
from x2localizer.registry import Registry
from x2localizer.types import Bools, Codes, Image

CodeKind = Literal["tiles", "regions"]
"""The codes a gallery can hold: image codes of tiles at half stride, or set codes of whole regions."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A window of frames as a similarity compares it.

    tokens: one code for each frame, (k, d): image codes, or the tokens of a set code.
    whole: one code for all of them, (d,), where the similarity uses set codes.
    frames: image codes of the frames, (k, d), where ``tokens`` are not: what an approximate search begins with.
    """

    tokens: Codes
    whole: Codes | None = None
    frames: Codes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """A window compared with r regions, part by part: what a similarity is made of.

    s_tok: each frame with each tile, (r, k, l); s_tok of the paper. Where tiles have a code for each of h headings,
        (r, k, l h): a tile seen in h headings counts as h tiles, one after the other.
    s_g: the window as a whole with each region, (r,); None for similarities of tiles.
    valid: which tiles hold data, (r, l); None if all do.
    temperature: of the soft maxima of s_f that the encoder was trained with; tau_f of the paper.
    reach: how many tiles at half stride the camera may move along each axis between two keyframes; of each pair of
        them, (k - 1,), where they are not equally far apart.
    headings: in how many headings each tile is there.
    """

    s_tok: Codes
    s_g: Codes | None = None
    valid: Bools | None = None
    temperature: float = 0.01
    reach: int | Sequence[int] = 4
    headings: int = 1


class Similarity(ABC):
    """One way to rank regions.

    name: how settings and tables call it.
    codes: which codes of a gallery it compares with.
    bounded_by: what an upper bound is worked out from: ``every`` frame-tile similarity, or only the ``best`` one of
        each region, which is cheaper.
    uses_tokens: whether it looks at single frames and tiles, and not only at set codes as wholes.
    """

    name: ClassVar[str]
    codes: ClassVar[CodeKind]
    bounded_by: ClassVar[Literal["every", "best"]] = "every"
    uses_tokens: ClassVar[bool] = True

    @abstractmethod
    def score(self, compared: Compared) -> Codes:
        """The similarity of each region, (r,)."""

    def bound(self, compared: Compared) -> Codes:
        """At least the similarity of each region, (r,), given at least the similarity of each frame and tile.

        With ``bounded_by = "best"`` there is one frame and one tile: the best pair. The default suits every similarity
        that never falls when the similarity of a frame and a tile grows.
        """
        return self.score(compared)

    @classmethod
    def suits(cls, spec: EncoderSpec) -> bool:
        """Whether an encoder can make what this similarity compares."""
        parts = ("frame", "tile") if cls.codes == "tiles" else ("prefix", "region")
        has_tokens = cls.codes == "tiles" or spec.tokens or not cls.uses_tokens
        return has_tokens and all(part in spec.parts for part in parts)

    def encode(self, encoder: Encoder, images: Sequence[Image], image_codes: Sequence[Codes]) -> Query:
        """The keyframes of a window as a query: their image codes, or the set code of their pictures."""
        if self.codes == "tiles":
            return Query(np.stack(image_codes))
        codes = encoder.encode_prefixes(np.stack(images)[None])
        return Query(codes.tokens[0], codes.whole[0], np.stack(image_codes))


similarities: Registry[Similarity] = Registry("similarity", "x2localizer.similarity")
