"""``x2l bench``: measured speeds, as a table or as JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from x2localizer.cli.common import JsonOption, console, show_values

app = typer.Typer(help="Measure speeds. Every bench prints a table, or with --json one object.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Measure speeds."""


@app.command(epilog="Example: x2l bench town --json")
def town(
    seed: Annotated[int, typer.Option(min=0, help="The town that is measured.")] = 1,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time given to each measurement.")] = 4.0,
    as_json: JsonOption = False,
) -> None:
    """Speed of the embedded world on one core: street frames, towns, regions."""
    from x2localizer.town.bench import bench_town  # noqa: PLC0415 - numba takes a second to load

    if as_json:
        values = bench_town(seed, seconds)
    else:
        with console.status("measuring ..."):
            values = bench_town(seed, seconds)
    notes = {
        "frames_per_s_48x96": "street frames per second per core",
        "frames_per_s_216x384": "street frames per second per core",
        "town_s": "seconds per town of 2.1 km, imagery included",
        "regions_per_s": "7 x 7 tiles cut, reduced and encoded",
    }
    show_values("the embedded world, one core", values, as_json, notes)
