"""``x2l train``, ``x2l export``, ``x2l import`` and ``x2l encode``."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.progress import Progress, TextColumn

from x2localizer.cli.common import (
    SetOption,
    console,
    needs_training,
    progress_columns,
    say,
    show_values,
)
from x2localizer.config import STAGES, TrainSettings, load_config
from x2localizer.errors import UserError


def train(
    data: Annotated[Path, typer.Option(help="A data set; see x2l town dataset.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; an interrupted one goes on.")],
    preset: Annotated[str, typer.Option(help="town, town-quick, gama, or a TOML file.")] = "town",
    stages: Annotated[str, typer.Option(help="Stages to run, by comma.")] = "image,full,progressive",
    start: Annotated[Path | None, typer.Option(help="A checkpoint of another run to start from.")] = None,
    overrides: SetOption = None,
) -> None:
    """Train a model through its stages; checkpoints, and goes on where it stopped.

    Examples:

      x2l train --preset town-quick --data data/small --out runs/quick

      x2l train --data data/standard --out runs/no-self --stages progressive
        --start runs/town/full/best.safetensors --set objective.eta_self=0
    """
    needs_training()
    from x2localizer.learn.loop import train as run  # noqa: PLC0415 - torch takes seconds to load

    settings = load_config(TrainSettings, "train", preset, overrides or [])
    wanted = tuple(word.strip() for word in stages.split(","))
    for word in wanted:
        if word not in STAGES:
            raise UserError(f"There is no stage '{word}'.", f"Stages: {', '.join(STAGES)}.")
    if console.is_terminal:
        with Progress(*progress_columns(), TextColumn("{task.fields[note]}"), console=console) as bar:
            best = run(settings, data, out, wanted, _reporter(bar), start)
    else:
        best = run(settings, data, out, wanted, _log_reporter(), start)
    say(f"best model: {best}")
    say(f"next: x2l export {best} --data {data} --out {out / 'bundle'}")


def _log_reporter() -> Callable[[str, int, int, dict[str, float]], None]:
    """In a log a bar is noise: a line now and then, and every evaluation."""
    last = time.monotonic()

    def report(stage: str, step: int, steps: int, values: dict[str, float]) -> None:
        nonlocal last
        if "loss" not in values or time.monotonic() - last >= 30.0:
            last = time.monotonic()
            typer.echo(f"{stage} {step} of {steps}: " + "  ".join(f"{k} {v:.3f}" for k, v in values.items()))

    return report


def _reporter(bar: Progress) -> Callable[[str, int, int, dict[str, float]], None]:
    """Show the loss in the bar and every evaluation as a line."""
    tasks: dict[str, object] = {}

    def report(stage: str, step: int, steps: int, values: dict[str, float]) -> None:
        if stage not in tasks:
            tasks[stage] = bar.add_task(stage, total=steps, note="")
        if "loss" in values:
            bar.update(tasks[stage], completed=step, note=f"loss {values['loss']:.3f}")  # type: ignore[arg-type]
        else:
            bar.console.print(f"{stage} {step}: " + "  ".join(f"{k} {v:.1f}" for k, v in values.items()), markup=False)

    return report


def export(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint, such as RUN/progressive/best.safetensors.")],
    out: Annotated[Path, typer.Option(help="Folder of the bundle.")],
    data: Annotated[Path | None, typer.Option(help="A data set: check on its pictures, not on noise.")] = None,
    card: Annotated[Path | None, typer.Option(help="A model card (Markdown) to put into the bundle.")] = None,
) -> None:
    """Write a bundle that runs without torch, and check it against torch.

    Example: x2l export runs/town/progressive/best.safetensors --data data/standard --out bundles/town
    """
    needs_training()
    from x2localizer.learn.checkpoint import load_checkpoint  # noqa: PLC0415
    from x2localizer.learn.export import export_bundle, pictures_for  # noqa: PLC0415

    found = load_checkpoint(checkpoint)
    with console.status("exporting four graphs ..."):
        pictures = None if data is None else pictures_for(found.settings.model, data)
        bundle, differences = export_bundle(found, out, pictures, card)
    size = sum(path.stat().st_size for path in out.iterdir())
    say(f"bundle {bundle.fingerprint} in {out}, {size / 1e6:.1f} MB")
    on = "noise" if data is None else f"pictures of {data}"
    say(f"largest difference from torch on {on}: " + ", ".join(f"{k} {v:.1e}" for k, v in differences.items()))
    say(f"next: x2l encode IMAGE --bundle {out}")


def import_weights(
    weights: Annotated[Path, typer.Argument(help="Published weights: safetensors, or a file of torch.")],
    out: Annotated[Path, typer.Option(help="The checkpoint to write, such as runs/garet/full/best.safetensors.")],
    preset: Annotated[str, typer.Option(help="The model they are of: gama, or a TOML file.")] = "gama",
    overrides: SetOption = None,
) -> None:
    """Turn weights published by GAReT or by the paper's authors into a checkpoint.

    Example: x2l import garet.pth --set model.adapter_skip=true --out runs/garet/full/best.safetensors
    """
    needs_training()
    from x2localizer.learn.published import import_file  # noqa: PLC0415

    settings = load_config(TrainSettings, "train", preset, overrides or [])
    layout, fingerprint = import_file(settings, weights, out)
    say(f"{weights} has the layout of {layout}; checkpoint {fingerprint} in {out}")
    say(f"next: x2l export {out} --out bundle")


def encode(
    path: Annotated[str, typer.Argument(help="An image, a video, or with --tile an aerial tile.")],
    bundle: Annotated[str, typer.Option(help="A bundle: the name of a shipped one, or a folder.")] = "town",
    tile: Annotated[bool, typer.Option("--tile", help="The picture is an aerial tile.")] = False,
) -> None:
    """Run a bundle on a picture or a video and print shapes and times, for the curious.

    Example: x2l encode ride.mp4 --bundle town
    """
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.sources.video import open_video  # noqa: PLC0415

    opened = open_bundle(bundle)
    m = opened.spec
    size = (m.tile_px, m.tile_px) if tile else (m.frame_height, m.frame_width)
    images = []
    with open_video(path, size=size, spacing_s=5.0) as frames:
        for frame in frames:
            images.append(frame.image)
            if len(images) == m.frames:
                break
    if not images:
        raise UserError(f"{path} holds no picture.", "Check it: x2l inspect")
    stack = np.stack(images)
    one = opened.encode_tiles if tile else opened.encode_frames
    one(stack[:1])
    start = time.perf_counter()
    codes = one(stack)
    spent = time.perf_counter() - start
    values: dict[str, object] = {
        "bundle": opened.fingerprint, "pictures": str(stack.shape), "image codes": str(codes.shape),
        "ms per picture": 1000 * spent / len(stack),
    }  # fmt: skip
    if not tile:
        opened.encode_prefixes(stack[None])
        start = time.perf_counter()
        prefix = opened.encode_prefixes(stack[None])
        values |= {
            "prefix code": str(prefix.whole.shape), "frame tokens": str(prefix.tokens.shape),
            "ms per prefix": 1000 * (time.perf_counter() - start),
        }  # fmt: skip
    show_values(path, values, False)
