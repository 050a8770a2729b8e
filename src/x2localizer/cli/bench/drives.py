"""``x2l bench``: drives: the world they are filmed in, odometry, localizing, the service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from x2localizer.cli.common import (
    DeviceOption,
    JsonOption,
    measured,
    needs_onnx,
    progress_bar,
    show_values,
    status_lines,
)
from x2localizer.config import RELEASED

app = typer.Typer()


@app.command(epilog="Example: x2l bench town --json")
def town(
    seed: Annotated[int, typer.Option(min=0, help="The town that is measured.")] = 1,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time given to each measurement.")] = 4.0,
    as_json: JsonOption = False,
) -> None:
    """Speed of the embedded world on one core: street frames, towns, regions."""
    from x2localizer.datasets.bench import bench_town  # noqa: PLC0415 - numba takes a second to load

    with status_lines("measuring ...", quiet=as_json):
        values = bench_town(seed, seconds)
    notes = {
        "frames_per_s_48x96": "street frames per second per core",
        "frames_per_s_216x384": "street frames per second per core",
        "town_s": "seconds per town of 2.1 km, imagery included",
        "regions_per_s": "7 x 7 tiles cut, reduced and encoded",
    }
    show_values("the embedded world, one core", values, as_json, notes)


@app.command(epilog="Example: x2l bench odometry --json")
def odometry(
    towns: Annotated[int, typer.Option(min=1, help="Test towns; each has a drive by day and one at night.")] = 4,
    seconds: Annotated[float, typer.Option(min=31, help="Length of each drive.")] = 90.0,
    fps: Annotated[float, typer.Option(min=3, max=30, help="Frames per second.")] = 7.0,
    as_json: JsonOption = False,
) -> None:
    """Errors of visual odometry over 30 s on drives through test towns, and its speed on one core."""
    from x2localizer.evaluate.odometry import bench_odometry  # noqa: PLC0415

    with progress_bar("drives", quiet=as_json) as progress:
        values = bench_odometry(
            range(9000, 9000 + towns), seconds, fps, lambda what, done, total: progress(done, total, what)
        )
    notes = {"ms_per_frame": "on one core"}
    for light in ("day", "night"):
        notes |= {
            f"{light}_turn_deg_median": "error of the turn over 30 s",
            f"{light}_turn_deg_p90": "its 90th percentile",
            f"{light}_distance_percent_median": "error of the distance over 30 s",
            f"{light}_distance_percent_p90": "its 90th percentile",
            f"{light}_standing_m_s": "speed while the car stands",
            f"{light}_normalised_turn": "errors over 10 s in their own standard deviations, 1 is right",
            f"{light}_normalised_distance": "the same for distances",
        }
    show_values("visual odometry", values, as_json, notes)


@app.command(epilog="Example: x2l bench localize --json")
def localize(
    bundle: Annotated[str, typer.Option(help="A bundle: the name of a shipped one, or a folder.")] = RELEASED,
    minutes: Annotated[
        float, typer.Option(min=3, help="Length of the drive; the tracked one is twice as long.")
    ] = 30.0,
    deit: Annotated[bool, typer.Option(help="Also untrained towers of the paper's size; needs [train].")] = True,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Seconds of video per second of work, and whether a long drive slows it down."""
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.localize.bench import bench_localize  # noqa: PLC0415

    values = bench_localize(open_bundle(bundle), minutes=minutes, deit=deit)
    notes = {
        "realtime_town": "seconds of video per second of work, one frame a second",
        "growth_window": "time per frame in the last minute over that in the first, by windows",
        "realtime_deit_s": "the same for towers of the paper's size",
        "odometry_ms_per_frame": "216 x 384 pixels, one core",
        "track_ms_per_s": "the tracker on tiles and roads, for a second of driving",
        "realtime_all": "seconds of video per second of work: odometry at 7 Hz, encoder and tracker at 1 Hz",
        "realtime_first_minute": "the same while the whole map is searched",
        "growth": "time of the tracker in the second half of an hour over that in the first, without the start",
        "peak_mb": "memory of the process that tracks",
    }
    show_values("localizing", values, as_json, notes)


@app.command(epilog="Example: x2l bench decoder decoders/town --json")
def decoder(
    folder: Annotated[Path, typer.Argument(help="A temporal decoder; see x2l train-decoder.")],
    clips: Annotated[int, typer.Option(min=2, help="Clips that are decoded side by side.")] = 16,
    as_json: JsonOption = False,
) -> None:
    """Speed of temporal decoding: a live camera, and many clips side by side against step by step."""
    from x2localizer.encoders.tile_decoder import open_decoder  # noqa: PLC0415
    from x2localizer.localize.bench_decoding import bench_decoding  # noqa: PLC0415

    notes = {
        "live_ms": "for a frame of one camera",
        "batched_ms": "for a frame, all clips side by side",
        "plain_ms": "for a frame, one clip and one hypothesis after the other",
        "speedup": "plain over batched, in one run",
        "largest_difference": "of a probability",
    }
    show_values("temporal decoding", bench_decoding(open_decoder(folder), clips), as_json, notes)


@app.command(epilog="Example: x2l bench serve --json")
def serve(
    bundle: Annotated[str, typer.Option(help="A bundle: the name of a shipped one, or a folder.")] = "eye",
    seconds: Annotated[float, typer.Option(min=5, help="Time given to each number of sessions.")] = 20.0,
    most: Annotated[int, typer.Option(min=1, max=1000, help="Most sessions to try.")] = 64,
    minutes: Annotated[float, typer.Option(min=3, help="Length of the long drive.")] = 60.0,
    tiles: Annotated[int, typer.Option(min=9, max=74, help="Side of the town in tiles of 58 m.")] = 37,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Cameras that one service follows at a frame a second each, on loopback, and its speed and memory."""
    from x2localizer.cli.serve import needs_serve  # noqa: PLC0415

    needs_serve()
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    from x2localizer.config import TownSettings  # noqa: PLC0415
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.serve.bench import bench_serve  # noqa: PLC0415
    from x2localizer.town.town import build_town  # noqa: PLC0415

    with status_lines("driving ...", quiet=as_json), TemporaryDirectory(prefix="x2l-bench-") as work:
        town = build_town(9014, TownSettings(tiles=tiles))
        values = bench_serve(town, open_bundle(bundle), Path(work), seconds=seconds, most=most, minutes=minutes)
    notes = {
        "sessions": "held at a frame a second each, with a 99th percentile under 200 ms and none dropped",
        "frames_per_s": "answered when 8 sessions send as fast as they can",
        "p50_ms": "from sending a frame to its answer, with that many sessions",
        "p99_ms": "its 99th percentile",
        "dropped_share": "of the frames",
        "next_level_p99_ms": "with the number of sessions that was too many",
        "memory_mb_per_session": "of the service",
        "tracking_share": "of the sessions that were sure of their position at the end",
        "locating_p50_ms": "of the first 20 frames of a lone session, while the whole map is searched",
        "hour_first_ms": "median latency of a long drive, five minutes near its start",
        "hour_last_ms": "and its last five minutes",
        "hour_growth": "the second over the first",
    }
    show_values("the service on loopback", values, as_json, notes)


@app.command(epilog="Example: x2l bench edge --json")
def edge(
    bundle: Annotated[str, typer.Option(help="A bundle: the name of a shipped one, or a folder.")] = RELEASED,
    slim: Annotated[
        Path | None, typer.Option(help="The slim bundle to localize with; made from the other by default.")
    ] = None,
    towns: Annotated[int, typer.Option(min=1, help="Towns of 4.6 km² in the gallery.")] = 4,
    times: Annotated[int, typer.Option(min=0, help="Runs; the best counts, after one that fills caches.")] = 3,
    work: Annotated[Path | None, typer.Option(help="Folder for towns and gallery, kept for the next run.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Memory, time to the first fix and size on disk of x2l localize on a small machine."""
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.localize.bench_edge import bench_edge  # noqa: PLC0415

    opened = open_bundle(bundle)
    with TemporaryDirectory(prefix="x2l-bench-") as folder, status_lines("driving ...", quiet=as_json) as report:
        place = work or Path(folder)
        if slim is None:
            needs_onnx()
            from x2localizer.learn.slim import slim_bundle  # noqa: PLC0415

            slim = slim_bundle(opened, place / "slim").root
        values = bench_edge(opened, slim, place, towns=towns, times=times, report=report)
    notes = {
        "peak_mb": "memory of the process",
        "start_s": "from the start of the process to its first fix",
        "start_cpu_s": "CPU time until then, of all cores",
        "bundle_bytes": "of the slim bundle",
        "loaded": "heavy libraries that were loaded",
    }
    show_values("localizing on a small machine", measured(values), as_json, notes)
