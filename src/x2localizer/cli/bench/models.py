"""``x2l bench``: models: their size, their work, and what reads pictures for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer
from rich.table import Table

from x2localizer.cli.common import (
    JsonOption,
    console,
    measured,
    needs_onnx,
    needs_training,
    progress_bar,
    show_values,
    split_words,
    status_lines,
)
from x2localizer.config import TrainSettings, load_config
from x2localizer.errors import ConfigError, UserError

if TYPE_CHECKING:
    from x2localizer.learn.precision import Precision

app = typer.Typer()


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


@app.command(epilog="Example: x2l bench families --preset gama-dsm --preset town-dsm --json")
def families(
    preset: Annotated[
        list[str] | None, typer.Option(help="Only this preset, such as gama-timesformer; all baselines by default.")
    ] = None,
    batch: Annotated[
        int, typer.Option(min=0, help="Videos, or pairs, in the training step; 0 for as many as the preset has.")
    ] = 2,
    times: Annotated[int, typer.Option(min=1, help="Steps of each; the fastest counts.")] = 1,
    precision: Annotated[Literal["32-true", "bf16-mixed"], typer.Option(help="Of the step.")] = "32-true",
    out: Annotated[
        Path | None, typer.Option(help="Add results to this JSON file; what is in it is not measured again.")
    ] = None,
    counted: Annotated[
        bool, typer.Option("--count", help="Only count parameters and operations, which takes seconds.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Parameters of our networks and the baselines; work, time and memory of one training step with random weights.

    Also the time to encode a prefix of eight frames, or one frame where a network has no prefixes.
    """
    if batch == 1:
        raise UserError("A training step needs two pairs: others are its negatives.", "Set --batch 2, or more.")
    needs_training()
    from x2localizer.learn.bench_families import PRESETS, bench_families  # noqa: PLC0415 - torch takes seconds to load

    with status_lines("measuring ...", quiet=as_json) as report:
        found = bench_families(preset or PRESETS, batch, times, out, counted, report, precision, measured)
    values: dict[str, object] = dict(found)
    if not as_json:
        values = {
            name: f"{row['params_m']:.1f} M, {row['gflops_step']:,.0f} GFLOP"
            + (
                f", {row['step_s']:.3g} s, {row['peak_gb']:.2g} GB, encodes in {row['encode_ms']:.3g} ms"
                if "step_s" in row
                else ""
            )
            for name, row in found.items()
        }
    size = batch or "of the preset"
    show_values(f"one training step, batch {size}: parameters, work, time, peak memory", values, as_json)


@app.command(epilog="Example: x2l bench loader --data data/gama --json")
def loader(
    data: Annotated[Path | None, typer.Option(help="A dataset; default: synthetic pictures of GAMa's sizes.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time given to each measurement.")] = 3.0,
    as_json: JsonOption = False,
) -> None:
    """Pictures and batches per second that one core reads for training, decoding included."""
    from x2localizer.datasets.bench import bench_loader  # noqa: PLC0415

    notes = {
        "frames_per_s": "street frames, brought to 216 x 384",
        "tiles_per_s": "tiles of 256 x 256",
        "regions_per_s": "regions of 1792 x 1792",
        "pair_batches_per_s": "64 pairs: a step of stage 1",
        "video_batches_per_s": "8 videos of 8 frames with their regions: a step of stage 2",
    }
    show_values("reading pictures, one core", bench_loader(data, seconds), as_json, notes)


@app.command(epilog="Example: x2l bench precision --data data/standard --json")
def precision(
    bundle: Annotated[str, typer.Option(help="A bundle: the name of a shipped one, or a folder.")] = "town",
    data: Annotated[
        Path | None, typer.Option(help="A dataset for ranges and recall; without it only size and speed.")
    ] = None,
    split: Annotated[str, typer.Option(help="The split that recall is measured on.")] = "test",
    clips: Annotated[int | None, typer.Option(min=1, help="Measure recall on this many clips; default: all.")] = None,
    deit: Annotated[
        bool, typer.Option("--deit", help="Untrained towers of the paper's size instead, speed alone.")
    ] = False,
    threads: Annotated[int, typer.Option(min=0, help="Threads of the encoders; 0 is one for each core.")] = 0,
    precisions: Annotated[str, typer.Option(help="Which to compare with fp32, by comma.")] = "fp16,int8",
    merged: Annotated[
        str | None, typer.Option(help="The bundle with merged tokens, measured too; see x2l export --merge.")
    ] = None,
    merge: Annotated[int, typer.Option(min=0, help="With --deit: patches that are merged in every block.")] = 0,
    times: Annotated[int, typer.Option(min=1, help="Rounds of timing; the best counts.")] = 7,
    work: Annotated[Path | None, typer.Option(help="Folder for codes, kept for the next run.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Size, speed and recall of a bundle in 32 bits, 16 bits and 8 bits, side by side."""
    needs_onnx()
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    from x2localizer.datasets.dataset import open_dataset  # noqa: PLC0415
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.evaluate.precision import bench_precision, to_values  # noqa: PLC0415
    from x2localizer.localize.bench import deit_bundle  # noqa: PLC0415

    if deit:
        needs_training()
    asked = split_words(precisions)
    if not asked or not set(asked) <= {"fp16", "int8"}:
        raise ConfigError(f"'{precisions}' are no precisions.", "Use fp16, int8 or fp16,int8.")
    with TemporaryDirectory(prefix="x2l-bench-") as folder, progress_bar("measuring", quiet=as_json) as progress:
        large = deit_bundle(Path(folder), ("frame", "tile"), threads) if deit else None
        fewer = deit_bundle(Path(folder) / "merged", ("frame", "tile"), threads, merge) if deit and merge else None
        if merged is not None:
            fewer = open_bundle(merged, threads=threads)
        source = None if data is None or deit else open_dataset(data)
        rows = bench_precision(
            large or open_bundle(bundle, threads=threads), source, work or Path(folder), split=split, clips=clips,
            times=times, precisions=cast(list["Precision"], asked), merged=fewer,
            report=lambda what, done, total: progress(done, total, what),
        )  # fmt: skip
    values = measured(
        {
            "bundle": "deit-s, random weights" if deit else bundle,
            "split": split,
            "threads": threads,
            "rows": to_values(rows),
        }
    )
    if as_json:
        typer.echo(json.dumps(values))
        return
    table = Table(title=f"{values['bundle']} by precision", title_justify="left")
    for title in (
        "precision",
        "MB",
        "ms a frame",
        "times",
        "ms a tile",
        "times",
        "CPU ms a frame",
        "times",
        "R@1 1 / 2 / 4 / 8",
        "points lost",
    ):
        table.add_column(title)
    for row in values["rows"]:
        table.add_row(
            row["precision"], f"{row['bytes'] / 1e6:.1f}", f"{row['ms_frame']:.2f}", f"{row['speedup_frame']:.2f}",
            f"{row['ms_tile']:.2f}", f"{row['speedup_tile']:.2f}",
            f"{row['cpu_ms_frame']:.2f}", f"{row['speedup_cpu']:.2f}",
            " / ".join(f"{v:.1f}" for v in row["r1"].values()),
            " / ".join(f"{v[0]:.1f} [{v[1]:.1f}, {v[2]:.1f}]" for v in row["r1_lost"].values()),
        )  # fmt: skip
    console.print(table)
