"""``x2l town``: synthetic towns."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from x2localizer.cli.common import SetOption, command_line, parse_size, progress_bar, say, status_lines
from x2localizer.config import DatasetSettings, TownSettings, load_config, preset_names

app = typer.Typer(help="Synthetic towns: build them, film drives, make datasets.", no_args_is_help=True)


@app.command(epilog="Example: x2l town build --seed 7 --out town")
def build(
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("town"),
    seed: Annotated[int, typer.Option(min=0, max=(1 << 32) - 1, help="The same seed gives the same town.")] = 7,
    overrides: SetOption = None,
) -> None:
    """Build a town: aerial.tif (GeoTIFF), roads.geojson, town.json."""
    from x2localizer.town.folder import save_town  # noqa: PLC0415 - numba takes a second to load
    from x2localizer.town.town import build_town  # noqa: PLC0415

    settings = load_config(TownSettings, "town", "default", overrides or [])
    with status_lines(f"building town {seed} (the first run also compiles, about 20 s) ..."):
        save_town(build_town(seed, settings), out)
    say(f"town {seed} in {out}: aerial.tif, roads.geojson, town.json")
    say(f"next: x2l town drive {quote(str(out))} --seed 1")


@app.command(epilog="Example: x2l town drive town --seed 1 --seconds 60 --night")
def drive(
    town: Annotated[Path, typer.Argument(help="A folder made by x2l town build.")],
    seed: Annotated[int, typer.Option(min=0, max=(1 << 32) - 1, help="The same seed gives the same drive.")] = 1,
    seconds: Annotated[float, typer.Option(min=1, max=7200, help="Duration of the drive.")] = 60.0,
    fps: Annotated[float, typer.Option(min=0.1, max=60, help="Frames per second.")] = 10.0,
    size: Annotated[str, typer.Option(help="Height x width.")] = "216x384",
    night: Annotated[bool, typer.Option("--night", help="Drive at night.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder to write; TOWN/drives/SEED by default.")] = None,
) -> None:
    """Film a drive through a town: drive.mp4, drive.gpx (the true track), drive.json."""
    from x2localizer.town.folder import load_town, save_drive  # noqa: PLC0415 - numba takes a second to load

    height, width = parse_size(size)
    folder = out or town / "drives" / str(seed)
    with status_lines("building the town ..."):
        place = load_town(town)
    with progress_bar("filming") as progress:
        save_drive(place, folder, seed, seconds, fps=fps, height=height, width=width, night=night, progress=progress)
    say(f"drive {seed} in {folder}: drive.mp4, drive.gpx, drive.json")
    say(f"next: x2l town show {quote(str(town))}")


@app.command(epilog="Example: x2l town show town")
def show(town: Annotated[Path, typer.Argument(help="A folder made by x2l town build.")]) -> None:
    """Draw a map of the town with its drives, and a sheet of frames for each drive."""
    from x2localizer.show.town import show_town  # noqa: PLC0415

    with status_lines("drawing ..."):
        made = show_town(town)
    for path in made:
        say(f"picture: {path}")


@app.command(epilog="Example: x2l town dataset --preset quick --out data/quick --set train.towns=4")
def dataset(
    out: Annotated[Path, typer.Option(help="Folder to write, or to resume.")],
    preset: Annotated[str, typer.Option(help=f"{', '.join(preset_names('dataset'))}, or a TOML file.")] = "quick",
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes; each needs about 1 GB.")] = 2,
    overrides: SetOption = None,
) -> None:
    """Make a dataset of towns for training and evaluation. A run that was killed resumes."""
    from x2localizer.datasets.town import make_dataset  # noqa: PLC0415 - numba takes a second to load

    settings = load_config(DatasetSettings, "dataset", preset, overrides or [])
    words = ["town", "dataset", "--preset", preset, *(word for o in overrides or [] for word in ("--set", o))]
    if (out / "dataset.json").is_file():
        say(f"{out} is complete already; validate it with x2l check {quote(str(out))}")
    with progress_bar("towns") as progress:
        make_dataset(settings, out, command_line(*words), workers, progress)
    say(f"dataset in {out}")
    say(f"next: x2l check {quote(str(out))}")
