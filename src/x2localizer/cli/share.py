"""``x2l gallery export``, ``import``, ``merge`` and ``cut``: galleries that are handed on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from x2localizer.cli.common import JsonOption, progress_bar, say, show_values
from x2localizer.errors import ConfigError

GalleryArgument = Annotated[str, typer.Argument(help="A gallery: a folder, an object-store address, or an .x2g file.")]
OutOption = Annotated[str, typer.Option(help="The new gallery: a folder, or an object-store address.")]


def export(
    gallery: GalleryArgument,
    out: Annotated[Path, typer.Argument(help="The file to write; its name ends in .x2g.")],
    as_json: JsonOption = False,
) -> None:
    """Write a gallery into one file, with checksums, that opens on any machine.

    Names of local imagery go with it, their folders do not. An index for faster search is left out; it can be made
    again.

    Examples:

      x2l gallery export city-gallery city.x2g

      x2l localize drive.mp4 --gallery city.x2g
    """
    from x2localizer.gallery.share import export as run  # noqa: PLC0415 - LanceDB takes a while to load

    with progress_bar("tables", quiet=as_json) as bar:
        shared = run(gallery, out, lambda what, done, total: bar(done, total, what))
    rows: dict[str, object] = {f"rows of {name}": table.rows for name, table in shared.tables.items()}
    values = {**rows, "bytes": out.stat().st_size, **({"sha256": shared.identity} if as_json else {})}
    show_values(str(out), values, as_json)
    if not as_json:
        say(f"SHA-256 of what it holds: {shared.identity}")
        say(f"next, elsewhere: x2l localize VIDEO --gallery {out.name}, or x2l gallery import {out.name} --out GALLERY")


def import_file(
    file: Annotated[Path, typer.Argument(help="A file that x2l gallery export wrote.")],
    out: OutOption,
    as_json: JsonOption = False,
) -> None:
    """Make a gallery of an exported file, after its checksums were compared.

    Only needed to add imagery or roads, or to put the gallery into an object store: x2l localize opens the file itself.

    Examples:

      x2l gallery import city.x2g --out city-gallery

      x2l gallery import city.x2g --out s3://bucket/city
    """
    from x2localizer.gallery.share import unpack  # noqa: PLC0415

    with progress_bar("checksums", quiet=as_json) as bar:
        unpack(file, out, lambda what, done, total: bar(done, total, what))
    _show(out, as_json)


def merge(
    first: GalleryArgument,
    second: GalleryArgument,
    out: OutOption,
    as_json: JsonOption = False,
) -> None:
    """Make one gallery of two that the same bundle made on the same grid.

    Where both have data the first counts, and the second fills its holes. An index for faster search is left out.

    Example: x2l gallery merge north south --out both
    """
    from x2localizer.gallery.merge import merge as run  # noqa: PLC0415

    run(first, second, out)
    _show(out, as_json)


def cut(
    gallery: GalleryArgument,
    box: Annotated[str, typer.Option(metavar="WEST,SOUTH,EAST,NORTH", help="The area to keep, in degrees.")],
    out: OutOption,
    as_json: JsonOption = False,
) -> None:
    """Make a gallery of the part of another that touches a box.

    Blocks of 8 x 8 tiles are kept whole, so it reaches up to some 500 m further. An index for faster search is left
    out.

    Example: x2l gallery cut state --box 11.5,48.1,11.6,48.2 --out town
    """
    from x2localizer.gallery.cut import cut as run  # noqa: PLC0415

    try:
        west, south, east, north = (float(word) for word in box.split(","))
    except ValueError as problem:
        raise ConfigError(
            f"'{box}' is not a box.", "Write it like 11.5,48.1,11.6,48.2: WEST,SOUTH,EAST,NORTH."
        ) from problem
    run(gallery, (west, south, east, north), out)
    _show(out, as_json)


def _show(address: str, as_json: bool) -> None:
    from x2localizer.gallery.describe import describe  # noqa: PLC0415

    show_values(f"gallery {address}", describe(address), as_json)
