"""``x2l check``: validate a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from x2localizer.cli.common import JsonOption, progress_bar, say
from x2localizer.errors import UserError


def check(
    data: Annotated[Path, typer.Argument(help="Folder of a dataset.")],
    full: Annotated[bool, typer.Option("--full", help="Decode every picture, not a sample.")] = False,
    sheet: Annotated[Path | None, typer.Option(help="File for a sheet of samples; DATA/sheet.png by default.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Validate a dataset: counts, missing or damaged files, wrong positions, order and times.

    Exits with 1 if something is wrong. Example: x2l check data/quick
    """
    from x2localizer.datasets.check import check_dataset  # noqa: PLC0415 - heavy, and not needed for --help

    with progress_bar("checking") as progress:
        report = check_dataset(data, full=full, progress=progress)
    if as_json:
        typer.echo(report.to_json())
    else:
        say(report.to_text())
    if sheet is not None or not as_json:
        _draw_samples(data, sheet or data / "sheet.png")
    if not report.sound:
        raise typer.Exit(1)


def _draw_samples(data: Path, target: Path) -> None:
    """Draw a sheet of samples if possible; does not affect the result of the check."""
    from x2localizer.show.dataset import dataset_sheet  # noqa: PLC0415
    from x2localizer.show.pictures import save_picture  # noqa: PLC0415

    try:
        picture = dataset_sheet(data)
        if picture is not None:
            save_picture(target, picture)
            say(f"samples: {target}")
    except UserError as problem:
        say(f"no sheet of samples: {problem}")
