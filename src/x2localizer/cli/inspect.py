"""``x2l inspect``: show what a video, imagery, roads, a track, motion or a gallery contains."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from x2localizer.cli.common import AllowPathOption, NetworkOption, access_of
from x2localizer.errors import ConfigError


def inspect(
    path: Annotated[
        str, typer.Argument(help="A video, camera, stream, ROS bag, imagery, roads, track, motion, or gallery.")
    ],
    picture: Annotated[Path | None, typer.Option(help="File for a contact sheet or a map.")] = None,
    spacing: Annotated[float, typer.Option(min=0.01, help="Seconds between the frames of a video.")] = 5.0,
    network: NetworkOption = False,
    allow_path: AllowPathOption = None,
) -> None:
    """Show what a file contains, as the localizer sees it.

    Examples: x2l inspect ride.mp4 --picture sheet.png, x2l inspect city.tif, x2l inspect city.osm.pbf,
    x2l inspect ride.gpx, x2l inspect city-gallery --picture map.png
    """
    if not path.strip():
        raise ConfigError("There is nothing to inspect.", "Name a file: x2l inspect ride.mp4")
    from x2localizer.cli.inspect_file import inspect_file  # noqa: PLC0415 - reads every format, which takes memory

    inspect_file(path, picture, spacing, access_of(network, allow_path))
