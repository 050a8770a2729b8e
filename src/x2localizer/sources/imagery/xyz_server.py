"""Aerial imagery of a tile server: ``https://server/{z}/{x}/{y}.jpg#box=WEST,SOUTH,EAST,NORTH&zoom=19``.

A server does not say what it covers, so the address does, after the mark "#", which is not sent to the server. Only the
tiles under a request are fetched, some at the same time, and the last ones are kept: neighbouring regions share most.
"""

from __future__ import annotations

import math
import re
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from io import BytesIO
from urllib.parse import parse_qs

import numpy as np
import PIL.Image

from x2localizer import geo
from x2localizer.errors import ImageryError
from x2localizer.sources.imagery.access import Access, check_address
from x2localizer.sources.imagery.pixel_source import check_zoom
from x2localizer.sources.imagery.raster_open import HTTP_RETRIES, HTTP_SILENCE_S, no_answer, without_secrets
from x2localizer.sources.imagery.tile_pyramid import Level, TilePyramid
from x2localizer.types import TileId

DEFAULT_ZOOM = 19
MISSING = frozenset({204, 404, 410})
"""What servers answer where they have no tile. Any other failure is an error, never a hole."""
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers after which it is worth asking again."""
FIRST_WAIT_S = 0.5
AT_ONCE = 6
"""Requests at a time, as many as browsers send to one server."""
KEPT = 2000
"""Tiles that are kept, as they came: 20 to 60 MB."""
LARGEST_BYTES = 16 << 20
MOST_TILES = 100_000_000
_TRIES = 25
"""Tiles to ask for until one is there; its size is taken for all."""
_EXAMPLE = "Write it like https://server/{z}/{x}/{y}.jpg#box=11.50,48.10,11.60,48.15&zoom=19"


def is_tile_server(address: str) -> bool:
    """Whether an address is a template for the tiles of a server."""
    return re.match(r"https?://", address) is not None and "{" in address.partition("#")[0]


class TileServer(TilePyramid):
    """The tiles of one zoom that lie in a box."""

    def __init__(self, address: str, access: Access) -> None:
        check_address(address, access)
        self._template, _, area = address.partition("#")
        names = re.findall(r"\{([^}]*)\}", self._template)
        if set(names) != {"x", "y", "z"}:
            raise ImageryError(f"{without_secrets(self._template)} does not name {{z}}, {{x}} and {{y}}.", _EXAMPLE)
        level = _level(area)
        super().__init__(without_secrets(self._template), [level])
        self._kept: OrderedDict[TileId, bytes | None] = OrderedDict()
        self._pool = ThreadPoolExecutor(AT_ONCE, "tiles")
        try:
            seen = self.look(_from_the_middle(level), _TRIES)
        except BaseException:
            self.close()
            raise
        if seen is None:
            self.close()
            raise ImageryError(
                f"{self.name} has no pictures of zoom {level.z} in the middle of the box.",
                "Check the box (west, south, east, north in degrees), or give another zoom: #box=...&zoom=18",
            )
        self.describe("tile server", *seen)

    def load(self, tile: TileId) -> PIL.Image.Image | None:
        """A tile, from the server if it was not among the last ones."""
        if tile not in self._kept:
            self.prepare([tile])
        data = self._kept[tile]
        return None if data is None else PIL.Image.open(BytesIO(data))

    def prepare(self, tiles: list[TileId]) -> None:
        """Fetch tiles, some at a time."""
        wanted = [tile for tile in dict.fromkeys(tiles) if tile not in self._kept]
        for tile, data in zip(wanted, self._pool.map(self._fetch, wanted), strict=True):
            self._kept[tile] = data
        for tile in tiles:
            self._kept.move_to_end(tile)
        while len(self._kept) > max(KEPT, len(tiles)):
            self._kept.popitem(last=False)

    def close(self) -> None:
        """Ask for nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _fetch(self, tile: TileId) -> bytes | None:
        """The bytes of a tile; None if the server has none."""
        url = self._template.format(z=tile.z, x=tile.x, y=tile.y)
        for retry in range(HTTP_RETRIES + 1):
            if retry:
                time.sleep(FIRST_WAIT_S * 2 ** (retry - 1))
            try:
                request = urllib.request.Request(url, headers={"User-Agent": "x2localizer"})
                with urllib.request.urlopen(request, timeout=HTTP_SILENCE_S) as answer:
                    if answer.status in MISSING:
                        return None
                    data: bytes = answer.read(LARGEST_BYTES + 1)
            except urllib.error.HTTPError as problem:
                problem.close()
                if problem.code in MISSING:
                    return None
                if problem.code not in BUSY:
                    raise ImageryError(
                        f"The server behind {self.name} refuses tiles ({problem.code} {problem.reason}).",
                        "Check the address, and whether it needs a key.",
                    ) from problem
            except (OSError, HTTPException, ValueError):
                continue
            else:
                if len(data) > LARGEST_BYTES:
                    raise ImageryError(
                        f"A tile of {self.name} has more than {LARGEST_BYTES >> 20} MB.", "Check the address."
                    )
                return data or None
        raise no_answer(self.name)


def _level(area: str) -> Level:
    """The tiles that the box of an address touches."""
    values = parse_qs(area, keep_blank_values=True)
    if "box" not in values:
        raise ImageryError("The address of a tile server does not say which area to read.", _EXAMPLE)
    try:
        west, south, east, north = (float(part) for part in values["box"][-1].split(","))
        z = int(values.get("zoom", [str(DEFAULT_ZOOM)])[-1])
    except ValueError as problem:
        raise ImageryError(f"'{area[:100]}' is not a box and a zoom.", _EXAMPLE) from problem
    limit = geo.MAX_LATITUDE_DEG
    if not (-limit <= south < north <= limit and -180 <= west < 180 and west < east <= west + 360):
        raise ImageryError(
            f"The box {values['box'][-1][:100]} is not west, south, east and north in degrees.", _EXAMPLE
        )
    check_zoom(z)
    world = 1 << z
    _, (first_y, last_y) = geo.tile_coordinates(np.array([north, south]), west, z)
    first_x = (west + 180) / 360 * world
    last_x = first_x + (east - west) / 360 * world  # goes on past the antimeridian
    columns = range(math.floor(first_x), max(math.floor(first_x) + 1, math.ceil(last_x - 1e-9)))
    rows = max(0, math.floor(first_y)), min(world - 1, max(math.floor(first_y), math.ceil(last_y - 1e-9) - 1))
    if len(columns) * (rows[1] - rows[0] + 1) > MOST_TILES:
        raise ImageryError("The box has more tiles than a server would deliver.", "Give a smaller box.")
    return Level(z, {x % world: rows for x in columns})


def _from_the_middle(level: Level) -> list[TileId]:
    """Some tiles of a level, from its middle outwards."""
    columns = list(level.columns)
    first, last = level.columns[columns[0]]
    return [
        TileId(level.z, columns[int(len(columns) * share_x)], first + int((last - first + 1) * share_y))
        for share_x in (0.5, 0.3, 0.7, 0.1, 0.9)
        for share_y in (0.5, 0.3, 0.7, 0.1, 0.9)
    ]
