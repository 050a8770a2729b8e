"""What a gallery is: which encoder made its codes, which codes it holds, which imagery and roads went in."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace

from x2localizer.files import parse_json
from x2localizer.similarity import CodeKind

FORMAT = 2
NO_MANIFEST = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError)
"""What reading a text raises that is no manifest."""


@dataclass(frozen=True, slots=True)
class ImagerySource:
    """Imagery that went into a gallery.

    imagery: its path or address.
    bounds: west, south, east, north in degrees.
    replace: whether it lies over what was there before.
    done: which codes of it are all in.
    """

    imagery: str
    bounds: tuple[float, float, float, float]
    replace: bool = False
    done: tuple[CodeKind, ...] = ()


@dataclass(frozen=True, slots=True)
class RoadSource:
    """A file of roads that is in a gallery.

    number: of its rows in the table of roads.
    path: the file.
    digest: of its content.
    roads: how many it holds.
    lengths_m: total length of its main roads, streets, and service roads and tracks.
    bounds: west, south, east, north in degrees.
    """

    number: int
    path: str
    digest: str
    roads: int
    lengths_m: tuple[float, float, float]
    bounds: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class GalleryManifest:
    """Everything about a gallery but its rows.

    encoder: the fingerprint of the encoder that made its codes.
    zoom: Web-Mercator level of its tiles.
    region_tiles: tiles along the side of a region.
    stride: tiles between neighbouring regions.
    dim: length of a code.
    headings: codes of each tile, one for each way that a camera may look; 1 if it does not matter.
    codes: which codes it holds, or will hold when all sources are done; none in a gallery of roads alone.
    sources: the imagery, finished or not.
    roads: the files of roads that are all in.
    """

    encoder: str
    zoom: int
    region_tiles: int
    stride: int
    dim: int
    codes: tuple[CodeKind, ...] = ("tiles",)
    sources: tuple[ImagerySource, ...] = ()
    format: int = FORMAT
    roads: tuple[RoadSource, ...] = ()
    headings: int = 1

    def with_source(self, number: int, source: ImagerySource) -> GalleryManifest:
        """The same with one source changed or added."""
        sources = [*self.sources]
        sources[number : number + 1] = [source]
        return replace(self, sources=tuple(sources))

    def unfinished(self) -> list[ImagerySource]:
        """The sources of which something is still missing."""
        return [source for source in self.sources if not set(self.codes) <= set(source.done)]

    def to_json(self) -> str:
        """As text. Without roads and headings it is as older versions wrote it, so that they can read it."""
        left_out = {name for name, unused in (("roads", not self.roads), ("headings", self.headings == 1)) if unused}
        return json.dumps({name: value for name, value in asdict(self).items() if name not in left_out})

    @classmethod
    def from_json(cls, text: str) -> GalleryManifest:
        """From text; what does not fit is a ValueError, KeyError or TypeError."""
        values = parse_json(text)
        if values.get("format") != FORMAT:  # the fields of other formats are unknown
            return cls("", 0, 0, 0, 0, format=int(values["format"]))
        sources = tuple(
            ImagerySource(row["imagery"], tuple(row["bounds"]), row["replace"], tuple(row["done"]))
            for row in values.pop("sources")
        )
        roads = tuple(
            RoadSource(**{**row, "lengths_m": tuple(row["lengths_m"]), "bounds": tuple(row["bounds"])})
            for row in values.pop("roads", ())
        )
        manifest = cls(**{**values, "codes": tuple(values["codes"])}, sources=sources, roads=roads)
        manifest._check()
        return manifest

    def _check(self) -> None:
        """Raise a ValueError for values that no build writes."""
        limits = {
            "zoom": (0, 24),
            "region_tiles": (1, 64),
            "stride": (1, 64),
            "dim": (0, 1 << 16),
            "headings": (1, 360),
        }
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ValueError(f"{name} is {value!r}")
        numbers = [number for source in self.sources for number in source.bounds]
        numbers += [number for source in self.roads for number in (*source.bounds, *source.lengths_m)]
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError("some bounds or lengths are no numbers")
        if not isinstance(self.encoder, str) or not set(self.codes) <= {"tiles", "regions"}:
            raise ValueError("the encoder or the codes are unknown")


ROADS_ONLY = GalleryManifest("", zoom=19, region_tiles=7, stride=3, dim=0, codes=())
"""A gallery of roads alone; the grid is that of the shipped bundle, until imagery decides it."""
