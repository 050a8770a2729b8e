"""``x2l demo``: the main job on the embedded world, with a report and a map at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from x2localizer.cli.common import DeviceOption, progress_bar, say

COVERED = (0.47, 0.55)
"""Between these shares of the drive the lens is covered; when it is free again the camera is somewhere else."""
FPS = 5.0
"""Frames per second of the film: enough for odometry, and a drive of three minutes is filmed in half a minute."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="The town; the model saw none from 5000 on.")] = 9014,
    drive: Annotated[int, typer.Option(min=0, help="The drive through it.")] = 15,
    seconds: Annotated[float, typer.Option(min=30, max=3600, help="How long it lasts.")] = 180.0,
    tiles: Annotated[int, typer.Option(min=9, max=74, help="Side of the town in tiles of 58 m.")] = 37,
    device: DeviceOption = "auto",
) -> None:
    """Build a town the model never saw, film a drive, and follow the camera. Example: x2l demo --out demo"""
    from x2localizer.cli.common import status_lines  # noqa: PLC0415
    from x2localizer.config import RELEASED, TownSettings  # noqa: PLC0415
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.gallery import index  # noqa: PLC0415
    from x2localizer.pipeline import localize_video  # noqa: PLC0415
    from x2localizer.sources.tracks import read_track  # noqa: PLC0415
    from x2localizer.town.folder import save_drive, save_town  # noqa: PLC0415
    from x2localizer.town.town import build_town  # noqa: PLC0415

    bundle = open_bundle(RELEASED)
    folder, track = out / "town", out / "track"
    address = out / f"gallery-{seed}-{tiles}-{bundle.fingerprint[:8]}"
    video, truth_file = folder / "drive" / "drive.mp4", folder / "drive" / "drive.gpx"
    covered_s = (COVERED[0] * seconds, COVERED[1] * seconds)
    with status_lines("building a town (the first run also compiles, about 20 s) ..."):
        town = build_town(seed, TownSettings(tiles=tiles))
        save_town(town, folder)
    with progress_bar("filming a drive") as progress:
        save_drive(town, folder / "drive", drive, seconds, fps=FPS, covered_s=covered_s, progress=progress)
    with progress_bar("indexing imagery and roads") as progress:
        gallery = index(
            folder / "aerial.tif", bundle, address, roads=[folder / "roads.geojson"], replace=True,
            progress=lambda what, done, total: progress(done, total, f"indexing: {what}"),
        )  # fmt: skip
    with progress_bar("localizing, in seconds of video") as progress:
        result = localize_video(
            video, gallery, bundle, track, truth=read_track(truth_file), title=f"A drive through town {seed}",
            progress=lambda done_s, total_s: progress(int(done_s), int(total_s or seconds)),
        )  # fmt: skip
    s = result.summary
    say(f"\n{s.frames} s of a drive through a town that the model never saw; the lens was covered for a while.")
    say(f"Followed by its odometry, imagery and roads: sure of its position {s.tracking_percent:.0f}% of the time.")
    say(
        f"Within 80 m of the truth: {s.within_80m_percent or 0:.0f}% of all guesses, "
        f"{s.sure_within_80m_percent or 0:.0f}% when sure."
        + ("" if s.sure_median_m is None else f" Median error when sure: {s.sure_median_m:.0f} m.")
    )
    say(f"  open      {track / 'report.html'}")
    say(f"  picture   {track / 'map.jpg'}")
    say(f"  files     {track}: GPX, GeoJSON, KML, CSV, JSON lines")
    say(f"  video     {video}   imagery   {folder / 'aerial.tif'}   roads   {folder / 'roads.geojson'}")
    say("next, with your own: x2l index IMAGERY --roads ROADS --out gallery; x2l localize VIDEO --gallery gallery")
