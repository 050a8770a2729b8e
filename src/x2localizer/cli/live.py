"""``x2l live``: a town, cars that drive through it, the service, and the map to watch them being found."""

from __future__ import annotations

import json
import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from x2localizer.cli.common import DeviceOption, progress_bar, say, status_lines
from x2localizer.cli.serve import needs_serve
from x2localizer.config import RELEASED
from x2localizer.errors import UserError

if TYPE_CHECKING:  # heavy, and not needed for --help
    from x2localizer.encoders import Bundle


def live(
    out: Annotated[Path, typer.Option(help="Folder for the town and its gallery; what is there is used again.")] = Path(
        "demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="The town; the model saw none from 5000 on.")] = 9014,
    drive: Annotated[int, typer.Option(min=0, help="The first drive through it.")] = 15,
    tiles: Annotated[int, typer.Option(min=9, max=74, help="Side of the town in tiles of 58 m.")] = 37,
    cars: Annotated[int, typer.Option(min=1, max=16, help="How many cars drive at once.")] = 1,
    bundle: Annotated[str, typer.Option(help="A bundle: the name of a shipped one, or a folder.")] = RELEASED,
    device: DeviceOption = "auto",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 lets the operating system choose.")] = 8471,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="Stop after so many seconds of driving; by default with Ctrl-C.")
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page if there is a display.")
    ] = True,
) -> None:
    """Watch a car being found: builds a town, drives through it, and serves the live map.

    Examples:

      x2l live

      x2l live --cars 3 --port 0 --no-browser --seconds 120
    """
    needs_serve()
    from x2localizer.config import TownSettings  # noqa: PLC0415
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.gallery import index  # noqa: PLC0415
    from x2localizer.live.run import run_live  # noqa: PLC0415
    from x2localizer.town.folder import save_town  # noqa: PLC0415
    from x2localizer.town.town import build_town  # noqa: PLC0415

    encoder = open_bundle(bundle)
    folder = out / "town"
    gallery = out / f"gallery-{seed}-{tiles}-{encoder.fingerprint[:8]}"
    with status_lines("building a town (the first run also compiles, about 20 s) ..."):
        town = build_town(seed, TownSettings(tiles=tiles))
        fresh = not _holds(folder, seed, tiles)
        if fresh:
            save_town(town, folder)
    if fresh or not _is_indexed(gallery, encoder):
        with progress_bar("indexing imagery and roads") as progress:
            index(
                folder / "aerial.tif", encoder, gallery, roads=[folder / "roads.geojson"], replace=True,
                progress=lambda what, done, total: progress(done, total, f"indexing: {what}"),
            )  # fmt: skip

    def ready(address: str) -> None:
        say(f"The map is at {address} (your own camera: {address}/camera). Ctrl-C ends it.")
        if browser and _has_display():
            webbrowser.open(address)

    say("starting the service ...")
    try:
        frames = run_live(
            town, str(gallery), bundle, port=port, drive=drive, cars=cars, seconds=seconds, announce=ready
        )
    except KeyboardInterrupt:
        say("Stopped.")
    else:
        say(f"Stopped after {frames} frames.")


def _holds(folder: Path, seed: int, tiles: int) -> bool:
    """Whether a folder has the files of a town."""
    try:
        recipe = json.loads((folder / "town.json").read_text(encoding="utf-8"))
        same = recipe["seed"] == seed and recipe["settings"]["tiles"] == tiles
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return same and all((folder / name).is_file() for name in ("aerial.tif", "roads.geojson"))


def _is_indexed(gallery: Path, encoder: Bundle) -> bool:
    """Whether the imagery and the roads of a town are in its gallery."""
    from x2localizer.gallery import open_gallery  # noqa: PLC0415

    try:
        return bool(open_gallery(gallery, encoder).manifest.roads)
    except UserError:  # there is none, or it is half built
        return False


def _has_display() -> bool:
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
