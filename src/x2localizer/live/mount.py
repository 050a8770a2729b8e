"""The pages of a service: the map at ``/``, the browser's camera at ``/camera``, the way in at ``/login``."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Path, Response
from nicegui import ui

from x2localizer.errors import GalleryError
from x2localizer.live.assets import asset
from x2localizer.live.page import Ground, LivePage
from x2localizer.live.tiles import FINEST, MapTiles, map_bounds, road_lines
from x2localizer.serve.hub import Hub
from x2localizer.types import Position

PAGES = ("/", "/camera")
TILE_SECONDS = 3600
"""How long a browser may keep a tile: imagery may be added to a gallery."""
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="-16 -16 32 32"><circle r="15" fill="#e6007e"/>'
    '<path d="M0 -10 L7 9 L0 5 L-7 9 Z" fill="#fff"/></svg>'
)
KINDS = {"js": "text/javascript", "css": "text/css"}


def add_pages(app: FastAPI, hub: Hub, beacons: dict[str, Position] | None = None) -> None:
    """Add the pages to the application of a service; once in a process, since NiceGUI has one application.

    beacons: places by name to show beside the cameras; looked at again and again, so they may change.
    """
    bounds = map_bounds(hub.gallery)
    if bounds is None:
        raise GalleryError(f"The gallery {hub.gallery.address} is empty.", "Add imagery or roads: x2l index")
    reader = ThreadPoolExecutor(1, "map tiles")  # imagery must not be shared between threads
    tiles = reader.submit(MapTiles, hub.gallery).result()
    zooms = tiles.zooms if hub.gallery.has_tiles else None
    ground = Ground(hub, bounds, zooms, {} if beacons is None else beacons)
    _close_with(app, reader, tiles)
    _add_map(app, hub, tiles, reader)
    _add_files(app)

    @ui.page("/", title="X²Localizer live")
    async def live() -> None:
        version = hashlib.sha256((asset("live.js") + asset("live.css")).encode()).hexdigest()[:8]
        ui.add_head_html(f'<link rel="stylesheet" href="/map/live.css?{version}">')
        ui.add_head_html(f'<script src="/map/live.js?{version}"></script>')
        await LivePage(ground).begin()

    ui.run_with(app, title="X²Localizer", dark=None, show_welcome_message=False, favicon=ICON, reconnect_timeout=10.0)
    app.add_middleware(ToLogin)


def _close_with(app: FastAPI, reader: ThreadPoolExecutor, tiles: MapTiles) -> None:
    """Close the imagery when the service ends."""
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with inner(app) as state:
            yield state
        reader.submit(tiles.close).result()
        reader.shutdown()

    app.router.lifespan_context = lifespan


def _add_files(app: FastAPI) -> None:
    @app.get("/map/{name}.{kind}", include_in_schema=False)
    async def file(name: str, kind: str) -> Response:
        if f"{name}.{kind}" not in ("live.js", "live.css", "camera.js", "pages.css"):
            return Response(status_code=404)
        return Response(asset(f"{name}.{kind}"), media_type=KINDS[kind], headers={"cache-control": "no-cache"})

    @app.get("/camera", include_in_schema=False)
    async def camera() -> Response:
        return Response(asset("camera.html"), media_type="text/html")

    @app.get("/login", include_in_schema=False)
    async def login() -> Response:
        # The only page that is open to everyone: its files are in it.
        page = asset("login.html").replace("/* pages.css */", asset("pages.css"))
        return Response(page.replace("/* login.js */", asset("login.js")), media_type="text/html")


def _add_map(app: FastAPI, hub: Hub, tiles: MapTiles, reader: ThreadPoolExecutor) -> None:
    lines: list[bytes] = []

    @app.get("/map/tiles/{z}/{x}/{y}", include_in_schema=False)
    async def tile(z: Annotated[int, Path(ge=0, le=FINEST)], x: int, y: int) -> Response:
        made = await asyncio.get_running_loop().run_in_executor(reader, tiles.tile, z, x, y)
        kept = {"cache-control": f"private, max-age={TILE_SECONDS}"}
        return Response(made.data, media_type=made.media_type, headers=kept)

    @app.get("/map/roads.json", include_in_schema=False)
    async def roads() -> Response:
        if not lines:
            found = await hub.roads()
            bounds = map_bounds(hub.gallery)
            west = 0.0 if bounds is None else bounds[0]
            lines.append(await hub.compute("show", lambda: json.dumps(road_lines(found, west)).encode()))
        return Response(lines[0], media_type="application/json")


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class ToLogin:
    """Sends a browser that asks for a page without having shown the token to ``/login``, instead of an error."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or scope["path"] not in PAGES:
            await self._app(scope, receive, send)
            return
        redirected = False

        async def instead(message: MutableMapping[str, Any]) -> None:
            nonlocal redirected
            if message["type"] == "http.response.start" and message["status"] == 401:
                redirected = True
                headers = [(b"location", b"/login?" + scope["path"].encode()), (b"content-length", b"0")]
                await send({"type": "http.response.start", "status": 303, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
            elif not redirected:
                await send(message)

        await self._app(scope, receive, instead)
