"""``x2l train``, ``x2l export``, ``x2l import`` and ``x2l encode``."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import typer
from rich.progress import Progress, TaskID, TextColumn

from x2localizer.cli.common import (
    DeviceOption,
    SetOption,
    console,
    needs_onnx,
    needs_training,
    progress_bar,
    progress_columns,
    say,
    show_values,
    status_lines,
)
from x2localizer.config import RELEASED, STAGES, TrainSettings, load_config
from x2localizer.errors import ConfigError, UserError, nearest

if TYPE_CHECKING:  # heavy, and not needed for --help
    from x2localizer.encoders import Bundle
    from x2localizer.learn.precision import Precision


def train(
    data: Annotated[Path, typer.Option(help="A dataset; see x2l town dataset and x2l prepare.")],
    out: Annotated[Path, typer.Option(help="Folder of the run. An interrupted run resumes.")],
    preset: Annotated[
        str, typer.Option(help="town, town-deit, town-quick, eye, gama, a baseline such as town-dsm, or a TOML file.")
    ] = "town",
    stages: Annotated[
        str | None, typer.Option(help="Stages to run, of image,full,progressive; all that the model has by default.")
    ] = None,
    start: Annotated[
        Path | None, typer.Option(help="A checkpoint of another run, or a bundle such as eye, to start from.")
    ] = None,
    overrides: SetOption = None,
) -> None:
    """Train a model, stage by stage. Run the same command again to resume.

    Examples:

      x2l train --preset town-quick --data data/small --out runs/quick

      x2l train --data data/standard --out runs/no-self --stages progressive
        --start runs/town/full/best.safetensors --set objective.eta_self=0
    """
    needs_training()
    from x2localizer.learn.checks import stages_of  # noqa: PLC0415 - torch takes seconds to load
    from x2localizer.learn.loop import train as run  # noqa: PLC0415
    from x2localizer.learn.sixteen_bits import is_emulated  # noqa: PLC0415

    settings = load_config(TrainSettings, "train", preset, overrides or [])
    if is_emulated(settings):
        say("note: this processor only emulates 16 bits: without precision=bf16-mixed, a step is some ten times faster")
    names = stages_of(settings) if stages is None else tuple(name.strip() for name in stages.split(","))
    for name in names:
        if name not in STAGES:
            raise ConfigError(f"There is no stage '{name}'.", nearest(name, STAGES))
    if console.is_terminal:
        with Progress(*progress_columns(), TextColumn("{task.fields[note]}"), console=console) as bar:
            best = run(settings, data, out, names, _bar_reporter(bar), start)
    else:
        best = run(settings, data, out, names, _line_reporter(), start)
    say(f"best model: {best}")
    say(f"next: x2l export {best} --data {data} --out {out / 'bundle'}")


def _line_reporter() -> Callable[[str, int, int, dict[str, float]], None]:
    """Without a terminal: a line for every evaluation, and every 30 seconds one with the loss, or what is encoded."""
    last = time.monotonic()

    def report(stage: str, step: int, steps: int, values: dict[str, float]) -> None:
        nonlocal last
        evaluated = values and "loss" not in values
        if evaluated or time.monotonic() - last >= 30.0:
            last = time.monotonic()
            said = "  ".join(f"{k} {v:.3f}" for k, v in values.items()) or "encoded"
            typer.echo(f"{stage} {step} of {steps}: {said}")

    return report


def _bar_reporter(bar: Progress) -> Callable[[str, int, int, dict[str, float]], None]:
    """On a terminal: the loss in the bar, and a line for every evaluation."""
    tasks: dict[str, TaskID] = {}

    def report(stage: str, step: int, steps: int, values: dict[str, float]) -> None:
        if stage not in tasks:
            tasks[stage] = bar.add_task(stage, total=steps, note="")
        if not values or "loss" in values:
            note = f"loss {values['loss']:.3f}" if values else "encoded"
            bar.update(tasks[stage], completed=step, note=note)
        else:
            bar.console.print(f"{stage} {step}: " + "  ".join(f"{k} {v:.1f}" for k, v in values.items()), markup=False)

    return report


def export(
    source: Annotated[
        str, typer.Argument(help="A checkpoint, such as RUN/progressive/best.safetensors, or a bundle to reduce.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the bundle.")],
    data: Annotated[
        Path | None, typer.Option(help="A dataset: int8 measures ranges on it, checks use its pictures.")
    ] = None,
    card: Annotated[Path | None, typer.Option(help="A model card (Markdown) to put into the bundle.")] = None,
    precision: Annotated[
        Literal["fp32", "fp16", "int8"],
        typer.Option(help="fp16: half the size, for GPUs. int8: for CPUs; needs --data."),
    ] = "fp32",
    accept_galleries: Annotated[
        bool, typer.Option("--accept-galleries", help="Let the bundle use galleries made in full precision.")
    ] = False,
    merge: Annotated[
        int, typer.Option(min=0, help="Merge so many alike patches in every block. Needs the extra [train].")
    ] = 0,
) -> None:
    """Write a bundle that runs without torch, and check it against torch; or a smaller, faster twin of a bundle.

    Examples:

      x2l export runs/town/progressive/best.safetensors --data data/standard --out bundles/town

      x2l export town --precision int8 --data data/standard --out town-int8

      x2l export town --merge 4 --out town-merged
    """
    from x2localizer.encoders.bundle import bundle_folder, open_bundle  # noqa: PLC0415

    if precision == "int8" and data is None:
        raise ConfigError("int8 measures ranges on pictures, and there are none.", "Name a dataset: --data DATA")
    if card is not None and not card.is_file():
        raise ConfigError(f"There is no file {card}.", "Name a model card in Markdown, or leave out --card.")
    if bundle_folder(Path(source)) is not None and not merge:
        if precision == "fp32":
            raise ConfigError(
                f"{source} is a bundle already.", "Say what to make of it: --precision int8 or fp16, or --merge 4."
            )
        _reduce(open_bundle(source), out, precision, data, accept_galleries)
    else:
        _export(Path(source), out, data, card, precision, accept_galleries, merge)
    if card is not None:
        copyfile(card, out / "README.md")
    size = sum(path.stat().st_size for path in out.iterdir())
    say(f"bundle {open_bundle(out).fingerprint} in {out}, {size / 1e6:.1f} MB")
    say(f"next: x2l encode IMAGE --bundle {out}")


def _export(
    source: Path, out: Path, data: Path | None, card: Path | None, precision: Precision, accept_galleries: bool,
    merge: int,
) -> None:  # fmt: skip
    needs_training()
    from x2localizer.encoders.bundle import bundle_folder, open_bundle  # noqa: PLC0415
    from x2localizer.learn.bundle_weights import load_origin  # noqa: PLC0415
    from x2localizer.learn.export import export_bundle, pictures_for  # noqa: PLC0415

    loaded = load_origin(source)
    with TemporaryDirectory(prefix="x2l-export-") as folder:
        full = out if precision == "fp32" else Path(folder) / "bundle"
        with status_lines("exporting and checking the graphs ..."):
            pictures = None if data is None else pictures_for(loaded.settings.model, data)
            parts = None if bundle_folder(source) is None else open_bundle(str(source)).spec.parts
            bundle, differences = export_bundle(loaded, full, pictures, card, parts, merge)
        on = "noise" if data is None else f"pictures of {data}"
        say(f"largest difference from torch on {on}: " + ", ".join(f"{k} {v:.1e}" for k, v in differences.items()))
        if precision != "fp32":
            _reduce(bundle, out, precision, data, accept_galleries)


def _reduce(bundle: Bundle, out: Path, precision: Precision, data: Path | None, accept_galleries: bool) -> None:
    needs_onnx()
    from x2localizer.datasets.dataset import open_dataset  # noqa: PLC0415
    from x2localizer.learn.precision import calibration_pictures, code_similarity, reduce_bundle  # noqa: PLC0415

    with status_lines(f"turning the graphs into {precision} ..."):
        pictures = {} if data is None else calibration_pictures(open_dataset(data), bundle.spec)
        reduced = reduce_bundle(bundle, out, precision, pictures, accept_galleries=accept_galleries)
        similar = code_similarity(bundle, reduced, pictures)
    if similar:
        say("lowest similarity with codes in full precision: " + ", ".join(f"{k} {v:.4f}" for k, v in similar.items()))
    if not accept_galleries:
        say("Galleries of the bundle in full precision are refused: index again, or use --accept-galleries.")


def train_decoder(
    bundle: Annotated[
        str, typer.Argument(help="The bundle whose codes it reads: the name of a shipped one, or a folder.")
    ],
    data: Annotated[Path, typer.Option(help="A dataset with training and validation clips, a frame each second.")],
    out: Annotated[Path, typer.Option(help="Folder of the decoder. A bundle's folder makes it part of the bundle.")],
    clips: Annotated[
        int | None, typer.Option(help="Learn from so many clips of each split only, to save time.", min=2)
    ] = None,
    work: Annotated[Path, typer.Option(help="Folder for codes, kept for the next run.")] = Path("evaluation"),
    overrides: SetOption = None,
) -> None:
    """Train a temporal decoder: which of a frame's best tiles follows from those chosen before?

    The towers stay as they are. Use towns that they were not trained on: the decoder must see how uncertain they are.

    Examples:

      x2l town dataset --preset decoder --out data/decoder

      x2l train-decoder town --data data/decoder --out decoders/town

      x2l evaluate town --protocol fine --decoder decoders/town --data data/standard --split val
    """
    needs_training()
    from x2localizer.config import DecoderSettings, from_overrides  # noqa: PLC0415
    from x2localizer.datasets.dataset import open_dataset  # noqa: PLC0415
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.evaluate.decoding import lessons_of  # noqa: PLC0415
    from x2localizer.learn.train_decoder import train_decoder as run  # noqa: PLC0415 - torch takes seconds to load

    settings, encoder, source = (
        from_overrides(DecoderSettings, overrides or []),
        open_bundle(bundle),
        open_dataset(data),
    )
    with progress_bar("encoding") as progress:
        train_on, held_out = (
            lessons_of(
                encoder,
                source,
                split,
                work,
                lambda what, done, total: progress(done, total, what),
                settings.tiles,
                clips,
            )
            for split in ("train", "val")
        )
    lines = _line_reporter()
    decoder = run(
        settings, train_on, held_out, out, encoder.fingerprint,
        lambda step, steps, values: lines("decoder", step, steps, values), {"data": source.contents},
    )  # fmt: skip
    metrics = decoder.training["metrics"]
    say(
        f"decoder in {out}: {metrics['decoder']:.1f}% of the validation frames within 80 m, without a beam; single "
        f"frames {metrics['frame']:.1f}%, at most {metrics['possible']:.1f}%; {decoder.training['minutes']} minutes"
    )
    say(f"next: x2l evaluate {bundle} --protocol fine --decoder {out} --data {data} --split val")


def import_weights(
    weights: Annotated[Path, typer.Argument(help="Published weights: a safetensors or a PyTorch file.")],
    out: Annotated[Path, typer.Option(help="The checkpoint to write, such as runs/garet/full/best.safetensors.")],
    preset: Annotated[str, typer.Option(help="The model that the weights fit: gama, or a TOML file.")] = "gama",
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
    path: Annotated[str, typer.Argument(help="An image or a video; with --tile, an aerial tile.")],
    bundle: Annotated[str, typer.Option(help="A bundle: the name of a shipped one, or a folder.")] = RELEASED,
    tile: Annotated[bool, typer.Option("--tile", help="The picture is an aerial tile.")] = False,
    device: DeviceOption = "auto",
) -> None:
    """Run a bundle on an image or a video, and print the shapes of the codes and the time they took.

    Example: x2l encode ride.mp4 --bundle eye
    """
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.sources.video import open_video  # noqa: PLC0415

    encoder = open_bundle(bundle)
    spec = encoder.spec
    size = (spec.tile_px, spec.tile_px) if tile else spec.frame_size
    images = []
    with open_video(path, size=size, spacing_s=5.0, own_process=True) as frames:
        for frame in frames:
            images.append(frame.image)
            if len(images) == spec.frames:
                break
    if not images:
        raise UserError(f"{path} has no picture.", f"See what is in it: x2l inspect {path}")
    stack = np.stack(images)
    values: dict[str, object] = {
        "bundle": encoder.fingerprint,
        "device": str(encoder.device),
        "pictures": str(stack.shape),
    }
    if ("tile" if tile else "frame") in spec.parts:
        encode_images = encoder.encode_tiles if tile else encoder.encode_frames
        encode_images(stack[:1])
        start = time.perf_counter()
        codes = encode_images(stack)
        spent_ms = 1000 * (time.perf_counter() - start)
        values |= {"image codes": str(codes.shape), "ms per picture": spent_ms / len(stack)}
    if not tile and "prefix" in spec.parts and spec.accepts_prefix(len(stack)):
        encoder.encode_prefixes(stack[None])
        start = time.perf_counter()
        prefix = encoder.encode_prefixes(stack[None])
        values |= {
            "prefix code": str(prefix.whole.shape), "frame tokens": str(prefix.tokens.shape),
            "ms per prefix": 1000 * (time.perf_counter() - start),
        }  # fmt: skip
    show_values(path, values, False)
