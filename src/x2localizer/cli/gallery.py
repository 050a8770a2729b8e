"""``x2l gallery``: look after galleries."""

from __future__ import annotations

from typing import Annotated

import typer

from x2localizer.cli import share
from x2localizer.cli.common import JsonOption, progress_bar, say, show_values
from x2localizer.errors import GalleryError

app = typer.Typer(help="Look after galleries.", no_args_is_help=True)
app.command("export")(share.export)
app.command("import")(share.import_file)
app.command("merge")(share.merge)
app.command("cut")(share.cut)


@app.command("verify")
def verify(
    gallery: Annotated[str, typer.Argument(help="A folder, an exported file, or an object-store address.")],
    as_json: JsonOption = False,
) -> None:
    """Read all of a gallery and compare its files with their checksums. A damaged one is exit code 2.

    Example: x2l gallery verify city-gallery
    """
    from x2localizer.gallery.verify import verify as run  # noqa: PLC0415 - LanceDB takes a while to load

    with progress_bar("bytes", quiet=as_json) as bar:
        found = run(gallery, bar)
    values: dict[str, object] = {"files": found.files, "bytes": found.size, "without checksum": found.unsealed}
    show_values(
        f"gallery {gallery}", {**values, "damage": list(found.problems) if as_json else len(found.problems)}, as_json
    )
    if not found.sound:
        if not as_json:
            for problem in found.problems:
                say(f"  {problem}")
        raise GalleryError(
            f"The gallery {gallery} is damaged.",
            "Copy it again from a sound copy, or index its imagery into a new one: x2l index IMAGERY --out NEW",
        )
    if found.unsealed and not as_json:
        say(
            "All rows can be decoded. Files without a checksum are of an older version, or of a build that was "
            f"interrupted; the next `x2l index ... --out {gallery}` writes checksums."
        )
