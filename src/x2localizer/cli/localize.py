"""``x2l index``, ``x2l localize`` and ``x2l calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from x2localizer.cli.common import JsonOption, SetOption, console, progress_columns, say, show_values
from x2localizer.errors import ConfigError, UserError


def index(
    imagery: Annotated[list[str] | None, typer.Argument(help="GeoTIFF, COG, VRT, MBTiles, a folder of tiles.")] = None,
    out: Annotated[str, typer.Option(help="The gallery: a folder, or an object-store address.")] = "gallery",
    bundle: Annotated[str, typer.Option(help="A bundle: the name of a shipped one, or a folder.")] = "town",
    stride: Annotated[int, typer.Option(help="Distance of regions, in tiles.")] = 3,
    zoom: Annotated[int, typer.Option(help="Web-Mercator level of the tiles; 19 is about 58 m at 40 degrees.")] = 19,
    replace: Annotated[bool, typer.Option("--replace", help="Lie over what the gallery has there already.")] = False,
    info: Annotated[bool, typer.Option("--info", help="Only tell what is in the gallery.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Put aerial imagery into a gallery; an interrupted run goes on, more imagery is added.

    Examples:

      x2l index city.tif --out city-gallery

      x2l index --info --out city-gallery
    """
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.gallery import index as build  # noqa: PLC0415

    if not info:
        if not imagery:
            raise ConfigError("There is no imagery to index.", "Name a file: x2l index IMAGERY --out GALLERY")
        opened = open_bundle(bundle)
        for item in imagery:
            with Progress(*progress_columns(), console=console, disable=not console.is_terminal) as bar:
                tasks = {what: bar.add_task(what, total=None) for what in ("tiles", "regions")}
                build(
                    item, opened, out, zoom=zoom, stride=stride, replace=replace,
                    progress=lambda what, done, total: bar.update(tasks[what], completed=done, total=total),  # noqa: B023
                )  # fmt: skip
    _show_gallery(out, as_json)
    if not info and not as_json:
        say(f"next: x2l localize VIDEO --gallery {out} --out track")


def _show_gallery(address: str, as_json: bool) -> None:
    from x2localizer.gallery.store import describe  # noqa: PLC0415

    show_values(f"gallery {address}", describe(address), as_json)


def localize(
    video: Annotated[str, typer.Argument(help="A file, a folder of images, camera:0, rtsp://...")],
    gallery: Annotated[str, typer.Option(help="A gallery; see x2l index.")],
    out: Annotated[Path, typer.Option(help="Folder for the track and the report.")] = Path("track"),
    bundle: Annotated[str, typer.Option(help="The bundle that made the gallery.")] = "town",
    truth: Annotated[Path | None, typer.Option(help="A recorded track (GPX, CSV, ...) to compare with.")] = None,
    offset: Annotated[float, typer.Option(help="Seconds from the start of the truth to the start of the video.")] = 0.0,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say where the camera was: a track with its confidence, as files and as a report to look at.

    Example: x2l localize drive.mp4 --gallery city-gallery --truth drive.gpx --out track
    """
    from dataclasses import asdict  # noqa: PLC0415

    from x2localizer.config import LocalizeSettings, from_overrides  # noqa: PLC0415
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.files import write_text  # noqa: PLC0415
    from x2localizer.gallery import open_gallery  # noqa: PLC0415
    from x2localizer.localize.confidence import Confidence  # noqa: PLC0415
    from x2localizer.localize.run import localize as run  # noqa: PLC0415
    from x2localizer.show.report import report  # noqa: PLC0415
    from x2localizer.sources.tracks import read_track  # noqa: PLC0415

    settings = from_overrides(LocalizeSettings, overrides or [])
    opened = open_bundle(bundle)
    track = None if truth is None else read_track(truth, offset_s=offset)
    kept = open_gallery(gallery, opened)
    with Progress(*progress_columns(), console=console, disable=not console.is_terminal or as_json) as bar:
        task = bar.add_task("seconds of video", total=None)
        outcome = run(
            video, kept, opened, out, settings, truth=track,
            progress=lambda done_s, total_s: bar.update(task, completed=int(done_s), total=int(total_s or 0) or None),
        )  # fmt: skip
    name = Path(str(video)).name
    page = report(outcome.fixes, outcome.views, kept, outcome.summary, track, f"Where was the camera? {name}")
    write_text(out / "report.html", page)
    show_values(name, asdict(outcome.summary), as_json)
    if as_json:
        return
    if not Confidence.of(opened).calibrated:
        say("This bundle is not calibrated, so no fix counts as sure: x2l calibrate BUNDLE")
    elif not Confidence.of(opened, settings).calibrated:
        say("How sure a fix is was fitted with the usual similarity, matching and policy: with others no fix is sure.")
    if track is not None and not outcome.summary.with_truth:
        say("The truth covers no moment of the video: shift it with --offset.")
    for file in ("report.html", "track.gpx", "track.geojson", "track.kml", "track.csv", "fixes.jsonl"):
        say(f"  {out / file}")


def calibrate(
    bundle: Annotated[Path, typer.Argument(help="The folder of a bundle.")],
    towns: Annotated[str, typer.Option(help="Seeds of towns that the model did not train on, from-to.")] = "5000-5005",
    drives: Annotated[int, typer.Option(help="Drives in each town; two of four are at night.")] = 6,
    work: Annotated[Path, typer.Option(help="Folder for the towns' imagery and galleries.")] = Path("calibration"),
) -> None:
    """Fit how sure a fix is, on drives through towns; goes into the bundle.

    Example: x2l calibrate bundles/town --towns 5000-5005
    """
    from x2localizer.localize.calibrate import calibrate as run  # noqa: PLC0415

    first, dash, last = towns.partition("-")
    if not dash or not first.isdigit() or not last.isdigit() or int(last) < int(first):
        raise UserError(f"'{towns}' is not a range of seeds.", "Write it like 5000-5005.")
    with console.status("driving ...") as status:
        lines = run(bundle, range(int(first), int(last) + 1), drives, work, status.update)
    for line in lines:
        say(line)
