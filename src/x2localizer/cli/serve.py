"""``x2l serve``: the live service."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from x2localizer.cli.common import DeviceOption, SetOption, announce
from x2localizer.cli.localize import circle
from x2localizer.config import RELEASED
from x2localizer.errors import UserError

if TYPE_CHECKING:
    from fastapi import FastAPI


def serve(
    gallery: Annotated[str, typer.Option(help="A gallery; see x2l index.")],
    bundle: Annotated[str, typer.Option(help="The bundle that made the gallery; roads alone need none.")] = RELEASED,
    roads: Annotated[
        list[Path] | None, typer.Option(help="Roads to add to the gallery first: .osm.pbf, GeoPackage, GeoJSON, ...")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen; beyond this machine a token is needed.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 lets the operating system choose.")] = 8471,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token that every request must carry.")
    ] = None,
    state: Annotated[Path, typer.Option(help="Folder for sessions, tracks and jobs.")] = Path("serve-state"),
    near: Annotated[
        str | None, typer.Option(metavar="LAT,LON,KM", help="Use only this part of a large gallery.")
    ] = None,
    allow_path: Annotated[
        list[Path] | None, typer.Option(help="Folder whose videos sessions may read; may be repeated.")
    ] = None,
    allow_rtsp: Annotated[
        list[str] | None, typer.Option(help="rtsp://HOST/PATH that sessions may read; may be repeated.")
    ] = None,
    allow_camera: Annotated[
        list[int] | None, typer.Option(min=0, help="Number of a camera of this machine that sessions may read.")
    ] = None,
    with_map: Annotated[
        bool, typer.Option("--map/--no-map", help="Serve the live map at / and the browser's camera at /camera.")
    ] = True,
    device: DeviceOption = "auto",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    overrides: SetOption = None,
) -> None:
    """Follow cameras live: frames in, positions out, over HTTP and WebSockets.

    --set changes a limit of the service, such as answer_within_s or sessions.

    Examples:

      x2l serve --gallery city-gallery

      x2l serve --gallery city-gallery --allow-rtsp rtsp://camera.local/live

      x2l serve --gallery city-gallery --host 0.0.0.0 --token-file token.txt --set sessions=100
    """
    needs_serve()
    if "numpy" not in sys.modules:  # frames of many cameras are worked on side by side, each in one thread
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from x2localizer.config import from_overrides  # noqa: PLC0415
    from x2localizer.gallery import index_roads  # noqa: PLC0415
    from x2localizer.serve.allow import Allowed  # noqa: PLC0415
    from x2localizer.serve.guard import check_exposure  # noqa: PLC0415
    from x2localizer.serve.run import open_hub, read_token  # noqa: PLC0415
    from x2localizer.serve.run import serve as run  # noqa: PLC0415
    from x2localizer.serve.settings import ServeSettings  # noqa: PLC0415

    token = None if token_file is None else read_token(token_file)
    check_exposure(host, token)
    settings = from_overrides(ServeSettings, overrides or [])
    allowed = Allowed(tuple(allow_path or ()), tuple(allow_rtsp or ()), tuple(allow_camera or ()))
    if roads:
        index_roads(roads, gallery)
    hub = open_hub(gallery, bundle, state, settings, prior=None if near is None else circle(near), allowed=allowed)

    def pages(app: FastAPI) -> None:
        from x2localizer.live.mount import add_pages  # noqa: PLC0415 - NiceGUI takes a second to load

        add_pages(app, hub)

    shown = "the map at /, " if with_map else ""
    run(
        hub, host=host, port=port, token=token, bundle=bundle, log_level=log_level, pages=pages if with_map else None,
        announce=lambda address: announce(f"listening on {address}: {shown}the API described at /v1/openapi.json"),
    )  # fmt: skip


def needs_serve() -> None:
    """A clear word where the extra is missing."""
    try:
        import fastapi  # noqa: F401, PLC0415
        import nicegui  # noqa: F401, PLC0415
        import prometheus_client  # noqa: F401, PLC0415
        import uvicorn  # noqa: F401, PLC0415
    except ImportError as problem:
        raise UserError(
            f"The service needs {problem.name}, which is not installed.", "pip install 'x2localizer[serve]'"
        ) from problem
