"""``x2l train``, ``x2l export``, ``x2l evaluate`` and ``x2l encode``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.progress import Progress, TextColumn

from x2localizer.cli.common import (
    JsonOption,
    SetOption,
    command_line,
    console,
    needs_training,
    progress_columns,
    say,
    show_values,
)
from x2localizer.config import TrainSettings, load_config
from x2localizer.errors import UserError


def train(
    data: Annotated[Path, typer.Option(help="A data set; see x2l town dataset.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; an interrupted one goes on.")],
    preset: Annotated[str, typer.Option(help="town, town-quick, gama, or a TOML file.")] = "town",
    stages: Annotated[str, typer.Option(help="Stages to run, by comma.")] = "image,full,progressive",
    overrides: SetOption = None,
) -> None:
    """Train a model through its stages; checkpoints, and goes on where it stopped.

    Example: x2l train --preset town-quick --data data/quick --out runs/quick
    """
    needs_training()
    from x2localizer.learn.loop import train as run  # noqa: PLC0415 - torch takes seconds to load
    from x2localizer.learn.stages import STAGES  # noqa: PLC0415

    settings = load_config(TrainSettings, "train", preset, overrides or [])
    wanted = tuple(word.strip() for word in stages.split(","))
    for word in wanted:
        if word not in STAGES:
            raise UserError(f"There is no stage '{word}'.", f"Stages: {', '.join(STAGES)}.")
    with Progress(*progress_columns(), TextColumn("{task.fields[note]}"), console=console) as bar:
        best = run(settings, data, out, wanted, _reporter(bar))
    say(f"best model: {best}")
    say(f"next: x2l export {best} --out {out / 'bundle'}")


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
) -> None:
    """Write a bundle that runs without torch, and check it against torch.

    Example: x2l export runs/town/progressive/best.safetensors --out bundles/town
    """
    needs_training()
    from x2localizer.learn.checkpoint import load_checkpoint  # noqa: PLC0415
    from x2localizer.learn.export import export_bundle  # noqa: PLC0415

    with console.status("exporting four graphs ..."):
        bundle = export_bundle(load_checkpoint(checkpoint), out, {"command": command_line("export", checkpoint)})
    size = sum(path.stat().st_size for path in out.iterdir())
    say(f"bundle {bundle.fingerprint} in {out}, {size / 1e6:.1f} MB, equal to torch to 1e-4")
    say(f"next: x2l encode IMAGE --bundle {out}")


def evaluate(
    run: Annotated[Path, typer.Argument(help="The folder of a training run.")],
    data: Annotated[Path, typer.Option(help="A data set.")],
    split: Annotated[str, typer.Option(help="val while choosing settings, test for what is published.")] = "test",
    as_json: JsonOption = False,
) -> None:
    """Coarse prefix retrieval of a run's stages, side by side: R@1/5/10/1% at 1, 2, 4 and 8 frames.

    Example: x2l evaluate runs/town --data data/standard --split val
    """
    needs_training()
    from x2localizer.learn.coarse import coarse_ranks, coarse_table, to_markdown, to_values  # noqa: PLC0415

    with console.status("encoding ..."):
        ranks, gallery = coarse_ranks(run, data, split, [1, 2, 4, 8])
    if not ranks:
        raise UserError(f"{run} holds no checkpoint.", "Train one: x2l train --data DATA --out RUN")
    cells = coarse_table(ranks, gallery)
    if as_json:
        typer.echo(json.dumps({"split": split, "gallery": gallery, "rows": to_values(cells)}))
    else:
        queries = len(next(iter(ranks.values())))
        say(f"{split}: {queries} videos, {gallery} regions; 95% bootstrap intervals over videos, seed 42\n")
        typer.echo(to_markdown(cells))


def encode(
    path: Annotated[str, typer.Argument(help="An image, a video, or with --tile an aerial tile.")],
    bundle: Annotated[Path, typer.Option(help="A bundle; see x2l export.")],
    tile: Annotated[bool, typer.Option("--tile", help="The picture is an aerial tile.")] = False,
) -> None:
    """Run a bundle on a picture or a video and print shapes and times, for the curious.

    Example: x2l encode ride.mp4 --bundle bundles/town
    """
    from x2localizer.encode import open_bundle  # noqa: PLC0415
    from x2localizer.sources.video import open_video  # noqa: PLC0415

    opened = open_bundle(bundle)
    m = opened.model
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
