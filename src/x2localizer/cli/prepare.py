"""``x2l prepare``: datasets from your own drives or from GAMa."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from x2localizer.cli.common import AllowPathOption, NetworkOption, SetOption, access_of, progress_bar, say, status_lines
from x2localizer.errors import ConfigError

ENOUGH_CLIPS = 10_000
"""Training clips that small towers need when they start from random weights."""

app = typer.Typer(help="Make a dataset from your own drives or from GAMa.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Make a dataset from your own drives or from GAMa."""


@app.command(epilog="Example: x2l prepare own --video a.mp4 --track a.gpx --imagery city.tif --out data/own")
def own(
    video: Annotated[list[str], typer.Option(help="Video of a drive; may be repeated, with a --track for each.")],
    track: Annotated[
        list[Path], typer.Option(help="Recorded track of the drive: GPX, CSV, or a video with telemetry.")
    ],
    imagery: Annotated[str, typer.Option(help="Aerial imagery of the area.")],
    out: Annotated[Path, typer.Option(help="Folder of the new dataset.")],
    offset: Annotated[
        list[float] | None,
        typer.Option(help="Seconds from the start of a track to the start of its video: one for all, or one for each."),
    ] = None,
    val: Annotated[float, typer.Option(help="Share of clips for validation.")] = 0.15,
    test: Annotated[float, typer.Option(help="Share of clips for testing.")] = 0.15,
    zoom: Annotated[int, typer.Option(min=12, max=22, help="Web-Mercator zoom of the tiles.")] = 19,
    network: NetworkOption = False,
    allow_path: AllowPathOption = None,
    overrides: SetOption = None,
) -> None:
    """Make a dataset from your own drives: videos, recorded tracks and imagery. Splits share no ground."""
    from x2localizer.config import DatasetSettings, from_overrides  # noqa: PLC0415
    from x2localizer.datasets.own import RecordedDrive, prepare_own  # noqa: PLC0415

    if len(video) != len(track):
        raise ConfigError(f"There are {len(video)} videos and {len(track)} tracks.", "Give a --track for each --video.")
    offsets = offset or [0.0]
    if len(offsets) not in (1, len(video)):
        raise ConfigError(
            f"There are {len(video)} videos and {len(offsets)} offsets.", "Give one --offset, or one for each --video."
        )
    offsets *= len(video) if len(offsets) == 1 else 1
    drives = [RecordedDrive(*words) for words in zip(video, track, offsets, strict=True)]
    settings = from_overrides(DatasetSettings, overrides or [])
    access = access_of(network, allow_path)
    with status_lines("opening the imagery ...") as progress:
        made = prepare_own(
            drives, imagery, out, settings, val=val, test=test, zoom=zoom, access=access, progress=progress
        )
    seconds = (settings.keyframes - 1) * settings.keyframe_spacing_s
    counts = ", ".join(f"{count} {name}" for name, count in made.clips.items())
    say(f"dataset in {out}: {counts} clips of {seconds:g} s")
    for reason, count in made.left_out.items():
        say(f"  left out: {count} {reason}")
    if not val:
        say("  no validation clips, which x2l train needs (--val)")
    if made.clips["train"] < ENOUGH_CLIPS:
        hours = ENOUGH_CLIPS * seconds / 3600
        say(f"  towers trained from scratch need about {ENOUGH_CLIPS:,} train clips ({hours:.0f} hours of driving);")
        say("  with fewer, start from pretrained backbones: x2l train --preset gama")
    say(f"next: x2l check {out}")


@app.command(epilog="Example: x2l prepare gama --bdd BDD100K --gama GAMA --out data/gama")
def gama(
    gama: Annotated[Path, typer.Option(help="Folder with Ground/, Aerial/, GAMa/ and the lists.")],
    bdd: Annotated[
        Path | None, typer.Option(help="Folder of BDD100K with info/; by default the same as --gama.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the new dataset; pictures are linked, not copied.")
    ] = None,
    lists: Annotated[Path | None, typer.Option(help="Folder of the four lists, if they are elsewhere.")] = None,
    held_out: Annotated[float, typer.Option(help="Share of the training ground that becomes val.")] = 0.08,
    report: Annotated[bool, typer.Option("--report", help="Only report on the lists; needs no pictures.")] = False,
) -> None:
    """Make a dataset from GAMa's public folders. Its val becomes test, part of the ground of its train becomes val."""
    from x2localizer.datasets.gama import prepare_gama, report_lists  # noqa: PLC0415
    from x2localizer.datasets.gama_lists import find_lists, read_lists  # noqa: PLC0415

    if report:
        typer.echo(report_lists(read_lists(lists or find_lists(gama, bdd or gama))).to_text())
        return
    if out is None:
        raise ConfigError("There is no folder to write to.", "Set one with --out, or use --report.")
    with progress_bar("videos") as progress:
        made = prepare_gama(bdd or gama, gama, out, lists=lists, held_out=held_out, progress=progress)
    typer.echo(made.to_text())
    say(f"next: x2l check {out}")
