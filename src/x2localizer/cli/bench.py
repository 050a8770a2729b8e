"""``x2l bench``: measured speeds, as a table or as JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from x2localizer.cli.common import JsonOption, console, needs_training, show_values
from x2localizer.config import TrainSettings, load_config

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
    from x2localizer.datasets.bench import bench_town  # noqa: PLC0415 - numba takes a second to load

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


@app.command(epilog="Example: x2l bench model --preset gama --json")
def model(
    preset: Annotated[str, typer.Option(help="gama, town, town-quick, or a TOML file.")] = "gama",
    times: Annotated[int, typer.Option(min=1, help="Runs of each encoder; the fastest counts.")] = 2,
    as_json: JsonOption = False,
) -> None:
    """Size and speed of a model with random weights: encoders against their plain twin, and training steps."""
    needs_training()
    from x2localizer.learn.bench import bench_model  # noqa: PLC0415 - torch takes seconds to load

    settings = load_config(TrainSettings, "train", preset)
    values = bench_model(settings, times)
    notes = {
        "params_image_m": "million parameters of the two image towers",
        "params_video_m": "with the adapters",
        "region_s": "one region, fast",
        "region_naive_s": "one region, every token masked as in the paper",
        "stage3_cached_speedup": "stage 3: everything computed, over aerial side and teacher from the cache",
        "train_step_s": "one step of stage 2, batch 2",
        "train_step_gb": "peak memory of the process",
    }
    show_values(f"the {preset} model, random weights", values, as_json, notes)
