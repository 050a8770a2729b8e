"""``x2l demo``: the main job on the embedded world, with pictures at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from x2localizer.cli.common import console, progress_bar, say

DRIVES = ((7, False), (2, True))
"""Seeds of the demo's drives, and whether they are at night."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="The town.")] = 9014,
) -> None:
    """Build a town, film a drive by day and one by night, and show them. Example: x2l demo --out demo"""
    from x2localizer.config import TownSettings  # noqa: PLC0415
    from x2localizer.show.town import show_town  # noqa: PLC0415
    from x2localizer.town.folder import save_drive, save_town  # noqa: PLC0415
    from x2localizer.town.town import build_town  # noqa: PLC0415

    folder = out / "town"
    with console.status("building a town (the first run also compiles, about 20 s) ..."):
        town = build_town(seed, TownSettings())
        save_town(town, folder)
    for number, night in DRIVES:
        with progress_bar(f"filming drive {number}{' at night' if night else ''}") as progress:
            save_drive(town, folder / "drives" / str(number), number, 60.0, fps=5.0, night=night, progress=progress)
    with console.status("drawing ..."):
        made = show_town(folder)
    say(f"\nThe town, {town.place.size_m / 1000:.1f} km wide, and two drives through it:")
    for path in made:
        say(f"  picture   {path}")
    for number, _ in DRIVES:
        say(f"  video     {folder / 'drives' / str(number) / 'drive.mp4'}  (truth: drive.gpx)")
    say(f"  imagery   {folder / 'aerial.tif'}  (opens in QGIS)")
    say("next: x2l inspect YOUR.mp4   or   x2l town dataset --preset quick --out data/quick")
