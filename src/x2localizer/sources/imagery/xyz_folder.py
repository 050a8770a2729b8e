"""Aerial imagery in a folder of tiles: ``{z}/{x}/{y}.png``, ``.jpg``, ``.jpeg`` or ``.webp``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import PIL.Image

from x2localizer.errors import ImageryError
from x2localizer.sources.imagery.tile_pyramid import Level, TilePyramid
from x2localizer.types import TileId

_SUFFIXES = {".png", ".jpg", ".jpeg", ".webp"}
_TRIES = 100
"""Tiles to try until one can be read; its size is taken for all."""


class TileFolder(TilePyramid):
    """A folder of tiles; with ``tms`` its rows are counted from the south."""

    def __init__(self, folder: Path, tms: bool) -> None:
        self._folder = folder
        self._tms = tms
        self._suffixes: dict[int, tuple[str, ...]] = {}
        try:
            super().__init__(str(folder), list(self._scan()))
        except OSError as problem:
            raise ImageryError(
                f"Cannot list the folder {folder}: {problem.strerror}.", "Check your access to it."
            ) from problem
        if not self.levels:
            raise ImageryError(
                f"The folder {folder} contains no map tiles.",
                "Use a folder of {z}/{x}/{y}.png, .jpg or .webp tiles; to use several GeoTIFFs as one, "
                "gdalbuildvrt <all.vrt> <files>.",
            )
        finest = self.levels[max(self.levels)]
        places = (
            TileId(finest.z, x, y)
            for x, (first, last) in sorted(finest.columns.items())
            for y in range(first, last + 1)
        )
        seen = self.look(places, _TRIES)
        if seen is None:
            raise ImageryError(
                f"The tiles in {folder / str(finest.z)} cannot be read as pictures.", "Copy or download them again."
            )
        self.describe("XYZ folder", *seen)

    def load(self, tile: TileId) -> PIL.Image.Image | None:
        """A tile from whichever of its files there is."""
        row = (1 << tile.z) - 1 - tile.y if self._tms else tile.y
        for suffix in self._suffixes[tile.z]:
            try:
                return PIL.Image.open(self._folder / str(tile.z) / str(tile.x) / f"{row}{suffix}")
            except FileNotFoundError:
                continue
        return None

    def _scan(self) -> Iterator[Level]:
        """The zoom levels in the folder; files with other names are ignored."""
        for zoom_folder in _numbered(self._folder, 31):
            z = int(zoom_folder.name)
            world = 1 << z
            columns: dict[int, tuple[int, int]] = {}
            suffixes: set[str] = set()
            for column_folder in _numbered(zoom_folder, world):
                rows = []
                for path in column_folder.iterdir():
                    if path.suffix.lower() in _SUFFIXES and path.stem.isdecimal() and int(path.stem) < world:
                        rows.append(world - 1 - int(path.stem) if self._tms else int(path.stem))
                        suffixes.add(path.suffix)
                if rows:
                    columns[int(column_folder.name)] = (min(rows), max(rows))
            if columns:
                self._suffixes[z] = tuple(sorted(suffixes))
                yield Level(z, columns)


def _numbered(folder: Path, below: int) -> Iterator[Path]:
    """Subfolders that are named by a number less than ``below``."""
    for path in folder.iterdir():
        if path.name.isdecimal() and int(path.name) < below and path.is_dir():
            yield path
