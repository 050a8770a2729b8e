"""Pictures of a town folder: the map with its drives, and the frames along each drive."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from x2localizer.errors import UserError
from x2localizer.show.pictures import around, contact_sheet, draw_tracks, overview, save_picture
from x2localizer.sources.imagery import Imagery, open_imagery
from x2localizer.sources.tracks import Track, read_track
from x2localizer.sources.video import open_video
from x2localizer.types import Image, Position

KEYFRAMES, SPACING_S = 8, 5.0


def show_town(folder: Path) -> list[Path]:
    """Draw ``map.png`` and, for each drive, ``sheet.png``; returns the paths. Reads only the files of the folder."""
    if not (folder / "aerial.tif").is_file():
        raise UserError(f"{folder} holds no town.", "Make one: x2l town build --out DIR")
    drives = sorted((path.parent for path in folder.glob("drives/*/drive.gpx")), key=lambda p: (len(p.name), p.name))
    tracks = [(f"drive {drive.name}", read_track(drive / "drive.gpx")) for drive in drives]
    made = []
    with open_imagery(folder / "aerial.tif") as imagery:
        save_picture(folder / "map.png", draw_tracks(overview(imagery), tracks))
        made.append(folder / "map.png")
        for drive, (name, track) in zip(drives, tracks, strict=True):
            save_picture(drive / "sheet.png", drive_sheet(imagery, drive / "drive.mp4", track, name))
            made.append(drive / "sheet.png")
    return made


def drive_sheet(imagery: Imagery, video: Path, track: Track, title: str) -> Image:
    """The first keyframes of a video, each with the tile around its position, beside a map of where they were taken."""
    images: list[Image] = []
    labels: list[str] = []
    spots: list[Position] = []
    with open_video(video, spacing_s=SPACING_S) as frames:
        for frame in frames:
            place = track.at(frame.time_s)
            if place is not None:
                tile = imagery.square(place, 19, frame.image.shape[0]).image
                images.append(np.concatenate([frame.image, tile], axis=1))
                labels.append(f"{len(images)}   {frame.time_s:.0f} s   {place.lat_deg:.5f}, {place.lon_deg:.5f}")
                spots.append(place)
            if len(images) == KEYFRAMES:
                break
    if not images:
        raise UserError(f"{video} and its track share no time.", "Film the drive again: x2l town drive")
    sheet = contact_sheet(
        images,
        labels,
        columns=2,
        width=420,
        title=f"{title}: the first {len(images)} keyframes, and the tile around each",
    )
    middle = Position(
        float(np.mean([spot.lat_deg for spot in spots])), float(np.mean([spot.lon_deg for spot in spots]))
    )
    last = (len(images) - 1) * SPACING_S
    keep = track.times_s <= track.times_s[0] + last + 1e-6
    part = Track(track.times_s[keep], track.lats_deg[keep], track.lons_deg[keep], track.start_time)
    side = (sheet.shape[0] // 7) * 7
    region = draw_tracks(around(imagery, middle, pixels=side), [("", part)])
    padded = np.full((sheet.shape[0], region.shape[1], 3), 250, np.uint8)
    padded[: region.shape[0]] = region
    return np.concatenate([padded, sheet], axis=1)
