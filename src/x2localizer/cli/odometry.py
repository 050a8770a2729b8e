"""``x2l odometry``: how the camera of a video moved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from x2localizer.cli.common import FovOption, JsonOption, fov_of, progress_bar, say, show_rows, show_values


def odometry(
    video: Annotated[str, typer.Argument(help="A file, a folder of images, camera:0, rtsp://...")],
    truth: Annotated[Path | None, typer.Option(help="A recorded track (GPX, CSV, ...) to compare with.")] = None,
    offset: Annotated[float, typer.Option(help="Seconds from the start of the truth to the start of the video.")] = 0.0,
    fov: FovOption = None,
    camera_height: Annotated[float, typer.Option(help="Height of the camera above the road, metres.")] = 1.5,
    horizon: Annotated[
        float | None, typer.Option(help="Row of the horizon, 0 (top) to 1 (bottom); estimated by default.")
    ] = None,
    bonnet: Annotated[float, typer.Option(help="Share of the frame at its bottom that the car covers.")] = 0.0,
    out: Annotated[Path, typer.Option(help="Folder for motion.csv and path.png.")] = Path("odometry"),
    as_json: JsonOption = False,
) -> None:
    """Measure how the camera of a video moved: speed, yaw rate and path, without GPS or a map.

    Example: x2l odometry drive.mp4 --truth drive.gpx --fov 65 --camera-height 1.5 --out odometry
    """
    from x2localizer.odometry import CameraProfile, find_fov, video_motion  # noqa: PLC0415 - OpenCV takes a while to load
    from x2localizer.odometry.path import compare, write_rates  # noqa: PLC0415
    from x2localizer.show.paths import save_path  # noqa: PLC0415
    from x2localizer.sources.tracks import read_track  # noqa: PLC0415

    seen = find_fov(video, fov_of(fov))
    camera = CameraProfile(seen.degrees, camera_height, horizon=horizon, bonnet=bonnet)
    track = None if truth is None else read_track(truth, offset_s=offset, own_process=True)
    with progress_bar("seconds of video", quiet=as_json) as progress:
        record = video_motion(video, camera, lambda what, done, total: progress(done, total or None, what))
    comparison = None if track is None else compare(record, track)
    write_rates(out / "motion.csv", record)
    save_path(out / "path.png", record, comparison)
    values: dict[str, object] = {
        "seconds": record.duration_s,
        "distance_m": float(record.distances_m[-1]),
        "turn_deg": float(record.headings_deg[-1]),
        "fov_deg": seen.degrees,
    }
    rows = [
        ("field of view", str(seen)),
        ("duration", f"{record.duration_s:,.1f} s"),
        ("distance", f"{record.distances_m[-1]:,.0f} m, give or take {100 * record.scale_sd:.0f}%"),
        ("turn, clockwise", f"{record.headings_deg[-1]:,.0f} degrees, ± {record.heading_vars[-1] ** 0.5:.0f}"),
    ]
    if comparison is not None:
        values |= {
            "true_distance_m": comparison.distance_m, "drift_per_100m": comparison.drift_per_100m,
            "heading_drift_deg_min": comparison.heading_drift_deg_min,
        }  # fmt: skip
        rows += [
            ("distance by the truth", f"{comparison.distance_m:,.0f} m"),
            ("drift per 100 m", f"{comparison.drift_per_100m:.1f} m"),
            ("drift of the heading per minute", _degrees(comparison.heading_drift_deg_min)),
        ]
    if as_json:
        show_values(Path(video).name, values, as_json)
        return
    show_rows(Path(video).name, rows)
    for name in ("motion.csv", "path.png"):
        say(f"  {out / name}")


def _degrees(value: float | None) -> str:
    return "too short to tell" if value is None else f"{value:.1f} degrees"
