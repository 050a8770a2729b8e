"""What a gallery is: which encoder made its codes, which codes it holds, which imagery went in."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from x2localizer.similarity import CodeKind

FORMAT = 2


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
class GalleryManifest:
    """Everything about a gallery but its rows.

    encoder: the fingerprint of the encoder that made its codes.
    zoom: Web-Mercator level of its tiles.
    region_tiles: tiles along the side of a region.
    stride: tiles between neighbouring regions.
    dim: length of a code.
    codes: which codes it holds, or will hold when all sources are done.
    """

    encoder: str
    zoom: int
    region_tiles: int
    stride: int
    dim: int
    codes: tuple[CodeKind, ...] = ("tiles",)
    sources: tuple[ImagerySource, ...] = ()
    format: int = FORMAT

    def with_source(self, number: int, source: ImagerySource) -> GalleryManifest:
        """The same with one source changed or added."""
        sources = [*self.sources]
        sources[number : number + 1] = [source]
        return replace(self, sources=tuple(sources))

    def unfinished(self) -> list[ImagerySource]:
        """The sources of which something is still missing."""
        return [source for source in self.sources if not set(self.codes) <= set(source.done)]

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> GalleryManifest:
        """From text; what does not fit is a ValueError, KeyError or TypeError."""
        values = json.loads(text)
        if values.get("format") != FORMAT:  # the fields of other formats are unknown
            return cls("", 0, 0, 0, 0, format=int(values["format"]))
        sources = tuple(
            ImagerySource(row["imagery"], tuple(row["bounds"]), row["replace"], tuple(row["done"]))
            for row in values.pop("sources")
        )
        return cls(**{**values, "codes": tuple(values["codes"])}, sources=sources)
