"""What an encoder is: pictures in, codes out, whatever network does it.

An encoder has four parts. ``frame`` and ``tile`` turn single pictures into *image codes* (phi in the paper); ``prefix``
and ``region`` turn sets of pictures into *set codes* (Phi in the paper): one code for the whole set, and one token for
each picture in it. An encoder need not have all four; its :class:`EncoderSpec` says what it can do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, cast

from x2localizer.encoders.device import CPU_PIXELS
from x2localizer.types import Bools, Codes, Floats, Image, Images

Part = Literal["frame", "tile", "prefix", "region"]
PARTS: tuple[Part, ...] = ("frame", "tile", "prefix", "region")
IMAGE_PARTS: tuple[Part, ...] = ("frame", "tile")
"""The parts that encode single pictures; the other two encode sets."""


@dataclass(frozen=True, slots=True, eq=False)
class SetCodes:
    """Codes of b sets of s pictures, all of length 1.

    whole: one code for each set, (b, d).
    tokens: one code for each picture, seen among the others of its set, (b, s, d); (b, 0, d) if the encoder has none.
    """

    whole: Codes
    tokens: Codes


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a family of networks can do, whatever its sizes; the fields are those of :class:`EncoderSpec`."""

    parts: tuple[Part, ...] = PARTS
    shortest_prefix: int = 1
    tokens: bool = True
    headings: int = 1
    ahead: int = 0
    further: int = 0
    whole_regions: bool = False
    poses: bool = False

    @property
    def plausible(self) -> bool:
        """Whether these are numbers that a network can have."""
        looks = 0 <= self.ahead <= 64 and 0 <= self.further <= 64
        return 1 <= self.shortest_prefix <= 1024 and 1 <= self.headings <= 360 and looks


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """The sizes an encoder works with, and what it can do.

    frame_height, frame_width: pixels of a street frame.
    tile_px: pixels of a tile's side.
    dim: length of a code.
    frames: frames of the longest prefix.
    region_tiles: tiles along the side of a region.
    parts: which parts there are.
    shortest_prefix: frames of the shortest prefix; a video network may need a full clip.
    tokens: whether set codes have a token for each picture; without them similarities of tokens cannot be used.
    headings: codes of each tile. 1: one, whichever way the camera looks. 8: one for a camera that looks north, one for
        north-east, and so on.
    ahead: half tiles from the camera to the middle of the tile whose code stands for it, the way it looks: what a
        camera sees lies ahead of it. 0: the tile around the camera.
    further: half tiles from the camera to a second tile, which the second half of its code is of; 0: there is none, and
        the whole code is of the first.
    whole_regions: whether a region is encoded as one picture, so that none of its tiles may be missing.
    poses: whether a prefix is encoded with the relative poses of its cameras.
    pixels_at_once: of a batch of pictures, with which the encoder is fastest on its device.
    accepts: fingerprints of other encoders whose galleries it may be used with, such as that of its twin in full
        precision.
    """

    frame_height: int
    frame_width: int
    tile_px: int
    dim: int
    frames: int = 8
    region_tiles: int = 7
    parts: tuple[Part, ...] = PARTS
    shortest_prefix: int = 1
    tokens: bool = True
    headings: int = 1
    ahead: int = 0
    further: int = 0
    whole_regions: bool = False
    poses: bool = False
    pixels_at_once: int = CPU_PIXELS
    accepts: tuple[str, ...] = ()

    @property
    def frame_size(self) -> tuple[int, int]:
        """Height and width of a street frame."""
        return self.frame_height, self.frame_width

    @property
    def reach(self) -> int:
        """Half tiles from a camera to the furthest tile that its code is of."""
        return max(self.ahead, self.further)

    def frames_at_once(self, each: int = 1) -> int:
        """How many street frames, or sets of ``each`` frames, make a good batch."""
        return max(1, self.pixels_at_once // (each * self.frame_height * self.frame_width))

    def tiles_at_once(self, each: int = 1) -> int:
        """How many aerial tiles, or sets of ``each`` tiles, make a good batch."""
        return max(1, self.pixels_at_once // (each * self.tile_px * self.tile_px))

    def accepts_prefix(self, frames: int) -> bool:
        """Whether a prefix of this many frames can be encoded."""
        return self.shortest_prefix <= frames <= self.frames


class Encoder(Protocol):
    """Anything that encodes street frames and aerial tiles into one space.

    Pictures are RGB bytes of the sizes in ``spec``; scaling to a network's input is the encoder's own business.
    """

    @property
    def spec(self) -> EncoderSpec:
        """Sizes and abilities."""

    @property
    def fingerprint(self) -> str:
        """A name for exactly these weights: a gallery belongs to one fingerprint."""

    @property
    def threads(self) -> int:
        """Threads to use; 0 is one for each core."""

    def weights_of(self, part: Part) -> str:
        """A name for exactly the weights that one part needs: encoders that share them share their codes."""

    def encode_frames(self, images: Images) -> Codes:
        """Image codes of street frames: (n, h, w, 3) -> (n, d).

        Their length is 1, or less than 1 where a frame says little of its place, if the encoder can tell.
        """

    def encode_tiles(self, images: Images) -> Codes:
        """Image codes of aerial tiles: (n, t, t, 3) -> (n, d), or (n, headings, d) if there are several headings."""

    def encode_area(self, image: Image, wanted: Bools | None = None) -> Codes:
        """Codes of cameras in an area, one at the middle of each tile at half stride: (2 a - 1, 2 b - 1, headings, d).

        image: the area, whole tiles, (a t, b t, 3).
        wanted: tiles to be encoded, (2 a - 1, 2 b - 1). The codes of cameras that look at others, or out of the area,
            are zero.
        """

    def encode_prefixes(self, images: Images) -> SetCodes:
        """Set codes of prefixes of one length: (b, s, h, w, 3)."""

    def encode_regions(self, images: Images) -> SetCodes:
        """Set codes of regions, tiles row by row: (b, n n, t, t, 3)."""


class PosedEncoder(Encoder, Protocol):
    """An encoder that may need to know how the cameras of a prefix stand to each other; ``spec.poses`` says so."""

    def encode_posed_prefixes(self, images: Images, poses: Floats) -> SetCodes:
        """Set codes of prefixes of one length: (b, s, h, w, 3).

        poses: of the cameras as the first one sees them, (b, s, 3): metres right, metres ahead, and the turn in radians
            clockwise.
        """


def encode_prefixes(encoder: Encoder, images: Images, poses: Callable[[], Floats]) -> SetCodes:
    """Set codes of prefixes, with the poses of their cameras if the encoder needs them."""
    if not encoder.spec.poses:
        return encoder.encode_prefixes(images)
    return cast(PosedEncoder, encoder).encode_posed_prefixes(images, poses())
