"""``x2l index``, ``x2l localize`` and ``x2l calibrate``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from x2localizer.cli.common import (
    AllowPathOption,
    DeviceOption,
    FovOption,
    JsonOption,
    NetworkOption,
    SetOption,
    VerifyOption,
    access_of,
    announce,
    fov_of,
    progress_bar,
    say,
    show_rows,
    show_values,
    split_words,
    verify_of,
)
from x2localizer.config import RELEASED
from x2localizer.errors import ConfigError, StoppedError, UserError

if TYPE_CHECKING:  # heavy, and not needed for --help
    from x2localizer.gallery import Estimate
    from x2localizer.search import CirclePrior


def index(
    imagery: Annotated[
        list[str] | None,
        typer.Argument(
            help="Imagery: GeoTIFF, COG, VRT, MBTiles, a folder or a server of XYZ tiles; a path, https:// or s3://."
        ),
    ] = None,
    roads: Annotated[
        list[Path] | None,
        typer.Option(help="Roads: .osm, .osm.pbf, GeoPackage, Shapefile or GeoJSON; may be repeated."),
    ] = None,
    out: Annotated[str, typer.Option(help="The gallery: a folder, or an object-store address.")] = "gallery",
    bundle: Annotated[str, typer.Option(help="A bundle: the name of a shipped one, or a folder.")] = RELEASED,
    codes: Annotated[
        str, typer.Option(help="What to compute: tiles, or tiles,regions for the paper's similarities too.")
    ] = "tiles",
    stride: Annotated[int, typer.Option(help="Distance of neighbouring regions, in tiles.")] = 3,
    zoom: Annotated[int, typer.Option(help="Web-Mercator level of the tiles; 19 is about 58 m at 40 degrees.")] = 19,
    replace: Annotated[bool, typer.Option("--replace", help="Replace what the gallery has of this area.")] = False,
    ray: Annotated[
        str | None,
        typer.Option(help="Encode on a Ray cluster: auto, its address, or local for processes of this machine."),
    ] = None,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Also build the index for approximate search, or bring it up to date.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Start even if it takes more than a day.")] = False,
    device: DeviceOption = "auto",
    info: Annotated[bool, typer.Option("--info", help="Only show what is in the gallery.")] = False,
    network: NetworkOption = False,
    allow_path: AllowPathOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put aerial imagery and roads into a gallery. An interrupted run resumes; more is added to what is there.

    Examples:

      x2l index city.tif --out city-gallery

      x2l index north.tif south.tif --out city-gallery --codes tiles,regions

      x2l index city.tif --roads city.osm.pbf --out city-gallery

      x2l index --roads city.osm.pbf --out city-gallery

      x2l index s3://bucket/state.vrt --network --out s3://bucket/state --ray auto

      x2l index --approximate --out country-gallery

      x2l index --info --out city-gallery
    """
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.gallery import index as build  # noqa: PLC0415
    from x2localizer.gallery import index_roads, open_gallery  # noqa: PLC0415
    from x2localizer.gallery.describe import describe  # noqa: PLC0415
    from x2localizer.search.approximate import build_index, describe_index  # noqa: PLC0415

    if not info:
        if not imagery and not roads and not approximate:
            raise ConfigError("There is no imagery to index.", "Name a file: x2l index IMAGERY --out GALLERY")

        def before(name: str, estimate: Estimate) -> None:
            announce(f"{name}: {estimate}")

        with progress_bar("indexing") as bar:

            def progress(what: str, done: int, total: int) -> None:
                bar(done, total, what)

            if imagery:
                build(
                    imagery, open_bundle(bundle), out, roads=roads or (), codes=split_words(codes), zoom=zoom,  # type: ignore[arg-type]
                    stride=stride, replace=replace, allow_long=yes, ray=ray, access=access_of(network, allow_path),
                    announce=before, progress=progress,
                )  # fmt: skip
            elif roads:
                index_roads(roads, out, replace=replace, progress=progress)
            if approximate:
                begin_again = replace and not imagery and not roads
                build_index(open_gallery(out), replace=begin_again, progress=progress)
    show_values(f"gallery {out}", {**describe(out), **describe_index(out)}, as_json)
    if imagery and not info and not as_json:
        say(f"next: x2l localize VIDEO --gallery {out} --out track")


def localize(
    gallery: Annotated[str, typer.Option(help="A gallery: a folder, an object-store address, or an .x2g file.")],
    video: Annotated[
        str | None,
        typer.Argument(
            help="A file, a folder of images, a ROS 2 bag, camera:0, rtsp://...; none with --odometry alone."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the track and the report.")] = Path("track"),
    bundle: Annotated[
        str | None, typer.Option(help="The bundle that made the gallery, if it is not one of this package.")
    ] = None,
    method: Annotated[
        str, typer.Option(help="track: follow odometry over the whole map. window: search the last keyframes (SWRL).")
    ] = "track",
    search: Annotated[
        str, typer.Option(help="With --method window: exact, approximate, or auto: approximate if there is an index.")
    ] = "auto",
    odometry: Annotated[
        Path | None,
        typer.Option(help="Recorded motion (CSV, Parquet, KITTI, TUM, GoPro, ROS 2 bag) instead of the video's own."),
    ] = None,
    odometry_offset: Annotated[
        float, typer.Option(help="Seconds from the start of the odometry to the start of the video.")
    ] = 0.0,
    fov: FovOption = None,
    camera_height: Annotated[float, typer.Option(help="Height of the camera above the road, metres.")] = 1.5,
    near: Annotated[
        str | None, typer.Option(metavar="LAT,LON,KM", help="The camera starts within so many kilometres of a place.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Keep the fixes as they came, instead of smoothing them at the end.")
    ] = False,
    truth: Annotated[Path | None, typer.Option(help="A recorded track (GPX, CSV, ...) to compare with.")] = None,
    offset: Annotated[float, typer.Option(help="Seconds from the start of the truth to the start of the video.")] = 0.0,
    formats: Annotated[
        str | None, typer.Option(help="Files to write, by comma, such as gpx,report; all by default.")
    ] = None,
    sink: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Hand each fix on to another program as it comes, such as nmea://127.0.0.1:10110; may be repeated.",
        ),
    ] = None,
    realtime: Annotated[
        bool, typer.Option("--realtime", help="With --sink: go no faster than the video was filmed.")
    ] = False,
    device: DeviceOption = "auto",
    verify: VerifyOption = "used",
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find out where the camera was: a track with its confidence, as files and as a report to look at.

    Examples:

      x2l localize drive.mp4 --gallery city-gallery --truth drive.gpx --out track

      x2l localize drive.mp4 --gallery city-gallery --fov 90 --camera-height 1.2

      x2l localize --odometry drive.csv --gallery city-gallery --near 48.14,11.58,10

      x2l localize drive.mp4 --gallery city-gallery --method window --set budget=4

      x2l localize camera:0 --gallery city-gallery --sink nmea://127.0.0.1:10110 --sink mqtt://127.0.0.1/car/1
    """
    from dataclasses import asdict  # noqa: PLC0415

    from x2localizer.config import LocalizeSettings, TrackSettings, from_overrides  # noqa: PLC0415
    from x2localizer.odometry import CameraProfile, find_fov  # noqa: PLC0415
    from x2localizer.pipeline import localize_odometry, localize_video  # noqa: PLC0415
    from x2localizer.sources.motion import read_motion  # noqa: PLC0415
    from x2localizer.sources.tracks import read_track  # noqa: PLC0415

    if video is None and odometry is None:
        raise ConfigError("There is nothing to localize.", "Name a video, or recorded motion: --odometry FILE")
    if method not in ("track", "window"):
        raise ConfigError(f"There is no method '{method}'.", "Use --method track or --method window.")
    if search not in ("auto", "exact", "approximate"):
        raise ConfigError(f"There is no search '{search}'.", "Use --search auto, exact or approximate.")
    if method == "window" and odometry is not None:
        raise ConfigError("The method 'window' uses no odometry.", "Leave out --odometry, or use --method track.")
    track = None if truth is None else read_track(truth, offset_s=offset, own_process=True)
    record = None if odometry is None else read_motion(odometry, odometry_offset, own_process=True)
    prior = None if near is None else circle(near)
    wanted = None if formats is None else split_words(formats)
    name = Path(str(video if video is not None else odometry)).name
    seen = None if video is None or record is not None or method == "window" else find_fov(video, fov_of(fov))
    with (
        _interruptible(out) as written,
        progress_bar("seconds of video" if video is not None else "seconds", quiet=as_json) as bar,
    ):

        def progress(done_s: float, total_s: float | None) -> None:
            written.fixes += 1
            bar(int(done_s), int(total_s or 0) or None)

        if video is None:
            assert record is not None
            result = localize_odometry(
                record, gallery, out, from_overrides(TrackSettings, overrides or []), live=live, truth=track,
                prior=prior, formats=wanted, sinks=sink or (), realtime=realtime,
                title=f"Where was the camera? {Path(name).stem}", verify=verify_of(verify), progress=progress,
            )  # fmt: skip
        else:
            camera = (
                CameraProfile(height_m=camera_height) if seen is None else CameraProfile(seen.degrees, camera_height)
            )
            tree: type[TrackSettings | LocalizeSettings] = TrackSettings if method == "track" else LocalizeSettings
            result = localize_video(
                video, gallery, bundle, out, from_overrides(tree, overrides or []),
                method="track" if method == "track" else "window", odometry=record,
                camera=camera, live=live, truth=track, prior=prior, formats=wanted,
                sinks=sink or (), realtime=realtime, search=search, verify=verify_of(verify),  # type: ignore[arg-type]
                progress=progress,
            )  # fmt: skip
    if as_json:
        show_values(name, asdict(result.summary), as_json)
        return
    show_rows(name, result.summary.to_rows())
    if seen is not None:
        say(f"field of view: {seen}")
    for note in (result.note, *result.advice):
        if note is not None:
            say(note)
    if not result.calibrated:
        say(_why_never_sure(bundle, overrides))
    if track is not None and not result.summary.with_truth:
        say("The truth covers no moment of the video: shift it with --offset.")
    for note in result.undelivered:
        say(note)
    for file in result.files:
        say(f"  {file}")


class _Written:
    """What a run has written so far; files alone do not tell, as they may be of an earlier run."""

    fixes = 0


@contextmanager
def _interruptible(out: Path) -> Iterator[_Written]:
    """Say after Ctrl-C what there is, and that the same command starts over: a belief is not kept on disk."""
    written = _Written()
    try:
        yield written
    except KeyboardInterrupt as stop:
        raise StoppedError(
            f"Interrupted. The track so far is in {out}." if written.fixes else "Interrupted before the first fix.",
            "The same command starts over from the beginning"
            + ("; name another --out to keep this." if written.fixes else "."),
        ) from stop


def _why_never_sure(bundle: str | None, overrides: list[str] | None) -> str:
    if overrides:
        return "The confidence was not fitted with these settings, so no position counts as sure."
    return f"This bundle is not calibrated, so no position counts as sure: x2l calibrate {bundle or 'BUNDLE'}"


def circle(text: str) -> CirclePrior:
    """A place and a radius from 'LAT,LON,KM'."""
    from x2localizer.search import CirclePrior  # noqa: PLC0415
    from x2localizer.types import Position  # noqa: PLC0415

    try:
        lat, lon, kilometres = (float(word) for word in text.split(","))
    except ValueError:
        lat = lon = kilometres = float("nan")
    if not (-90 <= lat <= 90 and -180 <= lon <= 180 and 0 < kilometres <= 20_000):
        raise ConfigError(f"'{text}' is not a place with a radius.", "Write it like 48.14,11.58,10: LAT,LON,KM.")
    return CirclePrior(Position(lat, lon), 1000 * kilometres)


def calibrate(
    bundle: Annotated[Path, typer.Argument(help="The folder of a bundle.")],
    towns: Annotated[str, typer.Option(help="Seeds of towns that the model did not train on, from-to.")] = "5000-5005",
    drives: Annotated[int, typer.Option(help="Drives in each town; two of four are at night.")] = 6,
    data: Annotated[
        Path | None, typer.Option(help="Calibrate tracking instead, on the long drives of this dataset.")
    ] = None,
    split: Annotated[str, typer.Option(help="With --data: a split that the model did not train on.")] = "val",
    roads_out: Annotated[
        Path | None, typer.Option(help="With --data: also write the confidence of roads alone to this file.")
    ] = None,
    rides: Annotated[
        int | None, typer.Option(help="With --data: only so many drives; the map stays that of all areas.", min=1)
    ] = None,
    workers: Annotated[int, typer.Option(help="With --data: processes.", min=1)] = 2,
    work: Annotated[Path, typer.Option(help="Folder for galleries, and for the towns' imagery.")] = Path("calibration"),
    device: DeviceOption = "auto",
) -> None:
    """Fit how sure a fix is, on drives through synthetic towns; the result goes into the bundle.

    Without --data, of the localizer that searches windows. With it, of the tracker.

    Examples:

      x2l calibrate bundles/town --towns 5000-5005

      x2l calibrate bundles/town --data data/standard --split val

      x2l calibrate bundles/eye --data data/map --split val --rides 24
    """
    if data is not None:
        _calibrate_track(bundle, data, split, roads_out, rides, workers, work)
        return
    from x2localizer.cli.common import status_lines  # noqa: PLC0415
    from x2localizer.localize.calibrate import calibrate as run  # noqa: PLC0415

    first, dash, last = towns.partition("-")
    if not dash or not first.isdigit() or not last.isdigit() or int(last) < int(first):
        raise UserError(f"'{towns}' is not a range of seeds.", "Write it like 5000-5005.")
    with status_lines("driving ...") as report:
        lines = run(bundle, range(int(first), int(last) + 1), drives, work, report)
    for line in lines:
        say(line)


def _calibrate_track(
    bundle: Path, data: Path, split: str, roads_out: Path | None, rides: int | None, workers: int, work: Path
) -> None:
    from x2localizer.datasets.dataset import open_dataset  # noqa: PLC0415
    from x2localizer.evaluate.track_calibration import calibrate_track  # noqa: PLC0415

    with progress_bar("driving") as progress:
        lines = calibrate_track(
            bundle, open_dataset(data), split, work, lambda what, done, total: progress(done, total, what),
            roads_out=roads_out, workers=workers, most_rides=rides,
        )  # fmt: skip
    for line in lines:
        say(line)
