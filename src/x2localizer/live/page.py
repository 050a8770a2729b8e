"""The live map, a page of the service: NiceGUI brings Leaflet and the socket, so that nothing is loaded from elsewhere.

What is new goes to the browser twice a second, as rows of :mod:`x2localizer.live.state`; ``assets/live.js`` draws it.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments
from pydantic import ValidationError

from x2localizer.errors import UserError
from x2localizer.live.assets import asset
from x2localizer.live.state import OFF_MAP, belief_row, camera_row, fix_row, jpeg_address, view_row
from x2localizer.live.tiles import Bounds
from x2localizer.serve.export import MEDIA_TYPES
from x2localizer.serve.hub import Hub
from x2localizer.serve.session import Session
from x2localizer.serve.settings import Box, Near
from x2localizer.types import Position

NEWS_EVERY_S = 0.5
MOST_CAMERAS = 50
"""Cameras on the map: those that something came from most recently."""
MOST_FIXES = 20_000
"""Of one track, for replay: five and a half hours."""
BELIEF_CELLS = 64
DEEPEST_ZOOM = 22
NAMES = {"gpx": "GPX", "geojson": "GeoJSON", "kml": "KML", "csv": "CSV"}
NORTH = (
    '<svg class="live-north" viewBox="-12 -14 24 28" role="img" aria-label="North is up">'
    '<path d="M0 -12 L6 4 L0 1 L-6 4 Z"/><text y="13" text-anchor="middle">N</text></svg>'
)
_log = logging.getLogger("x2localizer.live")


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """What all pages share.

    bounds: west, south, east, north of the map in degrees.
    zooms: levels that there are tiles of; None without imagery.
    beacons: places by name that are known otherwise, such as that of the car of a simulated drive.
    """

    hub: Hub
    bounds: Bounds
    zooms: tuple[int, int] | None
    beacons: dict[str, Position] = field(default_factory=dict)


class LivePage:
    """The map in one browser, and what that browser knows so far."""

    def __init__(self, ground: Ground) -> None:
        self._ground, self._hub = ground, ground.hub
        self._known: dict[str, tuple[Any, ...]] = {}
        self._last: dict[str, int] = {}
        self._chosen: str | None = None
        self._shown: tuple[str, int] | None = None
        self._frame: bytes | None = None
        self._dark = ui.dark_mode(None)
        self._map = self._build()
        ui.on("x2l-choose", self._choose)
        ui.on("x2l-prior", self._set_prior)
        ui.on("x2l-night", lambda event: self._dark.set_value(not event.args.get("dark", False)))

    def _build(self) -> ui.leaflet:
        west, south, east, north = self._ground.bounds
        with ui.element("div").classes("live"):
            with ui.element("div").classes("live-stage"):
                options = {"zoomSnap": 0.5, "zoomDelta": 1, "maxZoom": DEEPEST_ZOOM, "attributionControl": False}
                drawn = ui.leaflet(center=((south + north) / 2, (west + east) / 2), zoom=15, options=options)
                drawn.clear_layers()  # a map of the world from the network
                if self._ground.zooms is not None:
                    coarsest, finest = self._ground.zooms
                    drawn.tile_layer(
                        url_template="/map/tiles/{z}/{x}/{y}",
                        options={
                            "minNativeZoom": coarsest, "maxNativeZoom": finest, "maxZoom": DEEPEST_ZOOM,
                            "bounds": [[south, west], [north, east]], "className": "live-imagery",
                        },
                    )  # fmt: skip
                ui.html(f'{NORTH}<div class="live-banner" role="status" hidden></div>', sanitize=False)
            ui.html(asset("panel.html"), sanitize=False).classes("live-panel")
            ui.html(asset("time.html"), sanitize=False).classes("live-time")
        return drawn

    async def begin(self) -> None:
        """Wait for the browser, then send what is new for as long as it is there."""
        await self._map.initialized()
        west, south, east, north = self._ground.bounds
        exports = [(NAMES[kind], f"/v1/sessions/{{id}}/track.{kind}") for kind in MEDIA_TYPES]
        options = {"exports": exports, "offMap": OFF_MAP, "bounds": [[south, west], [north, east]]}
        ui.run_javascript(f"LiveMap.start(getElement({self._map.id}).map, {json.dumps(options)})")
        ui.timer(NEWS_EVERY_S, self._tick)

    async def _tick(self) -> None:
        try:
            news = await self._news()
        except UserError as problem:  # a session that was removed meanwhile, a store that cannot be read
            _log.warning("the map could not be brought up to date", extra={"reason": problem.what})
            return
        if news:
            ui.run_javascript(f"liveMap.update({json.dumps(news)})")

    async def _news(self) -> dict[str, Any]:
        """What the browser does not know yet."""
        every = sorted(self._hub.sessions(), key=lambda session: session.touched)
        shown = sorted(every[-MOST_CAMERAS:], key=lambda session: session.created)
        news: dict[str, Any] = {}
        cameras = [row for session in shown if (row := self._camera_news(session)) is not None]
        gone = [name for name in self._known if all(session.id != name for session in shown)]
        for name in gone:
            del self._known[name]
            self._last.pop(name, None)
        if cameras or gone or not self._known:
            news = {"cameras": cameras, "gone": gone, "more": len(every) - len(shown)}
        if self._ground.beacons:
            news["beacons"] = [(name, p.lat_deg, p.lon_deg) for name, p in self._ground.beacons.items()]
        chosen = next((session for session in shown if session.id == self._chosen), None)
        if chosen is not None and (details := await self._chosen_news(chosen)):
            news["chosen"] = {"id": chosen.id, **details}
        return news

    def _camera_news(self, session: Session) -> dict[str, Any] | None:
        latest = session.latest
        state = (
            None if latest is None else latest.index, session.is_open, session.options.prior, session.counts.dropped,
            session.source_state, session.idle_s // 5,
        )  # fmt: skip
        if self._known.get(session.id) == state:
            return None
        self._known[session.id] = state
        last = self._last.get(session.id, -1)
        fixes = [fix for fix in session.recent if fix.index > last]
        if fixes:
            self._last[session.id] = fixes[-1].index
        return camera_row(session, fixes)

    async def _chosen_news(self, session: Session) -> dict[str, Any]:
        """The belief, the view and the frame of the camera in the panel, where they are new."""
        news: dict[str, Any] = {}
        frame = await session.frame_jpeg() if session.is_open else None
        if frame is not None and frame is not self._frame:
            self._frame, news["frame"] = frame, jpeg_address(frame)
        latest = session.latest
        now = (session.id, -1 if latest is None or not session.is_open else latest.index)
        if now != self._shown:
            self._shown = now
            grid = await session.belief_grid(BELIEF_CELLS) if session.awake else None
            news["belief"] = None if grid is None else belief_row(grid)
            if latest is not None and latest.view is not None:
                news["view"] = view_row(latest.view)
        return news

    async def _choose(self, event: GenericEventArguments) -> None:
        """A camera was chosen: send its whole track."""
        session = self._session_of(event.args)
        if session is None:
            return
        self._chosen, self._shown, self._frame = session.id, None, None
        fixes = await session.fixes(max(0, session.counts.fixes - MOST_FIXES))
        rows = json.dumps([fix_row(fix) for fix in fixes])
        ui.run_javascript(f"liveMap.track({json.dumps(session.id)}, {rows})")

    async def _set_prior(self, event: GenericEventArguments) -> None:
        """A box was drawn, a pin dropped, or either removed."""
        session, given = self._session_of(event.args), event.args
        if session is None:
            return
        try:
            if given.get("kind") == "box":
                edges = {name: given.get(name) for name in ("west", "south", "east", "north")}
                prior: Near | Box | None = Box.model_validate(edges)
            elif given.get("kind") == "near":
                radius_m = max(20.0, float(given.get("radius") or 0.0))
                prior = Near(lat_deg=given.get("lat"), lon_deg=given.get("lon"), radius_m=radius_m)
            else:
                prior = None
            await session.set_prior(prior)
        except (ValidationError, TypeError, ValueError):
            ui.notify("That is not a place on this map. Draw it again.", type="warning")
        except UserError as problem:
            ui.notify(f"{problem.what} {problem.remedy}", type="warning")
        else:
            self._shown = None
            where = "anywhere on the map" if prior is None else "there"
            ui.notify(f"{session.name} is looked for {where} from now on.", type="info")

    def _session_of(self, given: Any) -> Session | None:
        name = given.get("id") if isinstance(given, dict) else None
        try:
            return self._hub.session(str(name))
        except UserError:  # it was removed meanwhile; the next news say so
            return None
