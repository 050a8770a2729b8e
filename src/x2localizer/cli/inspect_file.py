"""What ``x2l inspect`` prints of a video, imagery, roads, a track, motion or a gallery."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from x2localizer.cli.common import progress_bar, say, show_values
from x2localizer.errors import ConfigError, ImageryError, MotionError, RoadError, TrackError, UserError, VideoError
from x2localizer.show.pictures import contact_sheet, save_picture
from x2localizer.sources.imagery import Access, Glance, glance, open_imagery
from x2localizer.sources.imagery.xyz_server import is_tile_server
from x2localizer.sources.motion import read_motion
from x2localizer.sources.motion.record import MAX_GAP_S
from x2localizer.sources.roads import ROAD_SUFFIXES, RoadKind, read_roads
from x2localizer.sources.ros import Bag, bag_at
from x2localizer.sources.tracks import TELEMETRY_SUFFIXES, TRACK_SUFFIXES, read_track
from x2localizer.sources.video import open_video
from x2localizer.types import Image

Values = dict[str, object]
Reader = Callable[[str, Path | None, float], Values]
VIDEO_SUFFIXES = {".mp4", ".mov", ".avi", ".mkv", ".webm", ".ts", ".m4v", ".mpg", ".mjpeg", ".3gp"}
IMAGERY_SUFFIXES = {".tif", ".tiff", ".vrt", ".mbtiles", ".jp2", ".img"}


def inspect_file(path: str, picture: Path | None, spacing: float, access: Access) -> None:
    """Print what a file contains; see ``x2l inspect``."""
    imagery = partial(_imagery, access=access)
    if (Path(path) / "town.json").is_file():
        path = str(Path(path) / "aerial.tif")
    if (Path(path) / "dataset.json").is_file():
        raise ConfigError(f"{path} is a dataset.", f"Use: x2l check {path}")
    suffix = Path(path).suffix.lower()
    if (Path(path) / "about.lance").is_dir() or suffix == ".x2g":
        readers: list[Reader] = [_gallery]
    elif bag_at(path) is not None:
        readers = [_bag]
    elif suffix in IMAGERY_SUFFIXES or is_tile_server(path):
        readers = [imagery]
    elif _is_roads(path):
        readers = [_roads]
    elif suffix in TRACK_SUFFIXES or suffix == ".parquet":
        readers = [_motion] if suffix == ".parquet" else [_track, _motion]
    elif suffix in VIDEO_SUFFIXES or path.startswith(("camera:", "/dev/video", "rtsp:", "http:", "https:")):
        readers = [_video]
    else:
        readers = [imagery, _video]
    problems: list[UserError] = []
    for reader in readers:
        try:
            values = reader(path, picture, spacing)
        except (VideoError, ImageryError, RoadError, TrackError, MotionError) as problem:
            problems.append(problem)
            continue
        show_values(path, values, False)
        if picture is not None:
            say(f"picture: {picture}")
        return
    # Of a table that is neither, the reader that knows its columns says what is wrong with it.
    raise next((problem for problem in problems if "has no column" not in problem.what), problems[0])


def _video(path: str, picture: Path | None, spacing: float) -> Values:
    images: list[Image] = []
    labels: list[str] = []
    times: list[float] = []
    with open_video(path, spacing_s=spacing, own_process=True) as source, progress_bar("seconds of video") as bar:
        info = source.info
        for frame in source:
            times.append(frame.time_s)
            bar(int(frame.time_s), int(info.duration_s or 0) or None)
            if len(images) < 24:
                images.append(frame.image)
                labels.append(f"{frame.time_s:.2f} s")
            if info.live and len(times) >= 3:
                break
        skipped = source.skipped
    if picture is not None and images:
        save_picture(picture, contact_sheet(images, labels, title=Path(path).name))
    values: Values = {
        "kind": "live video" if info.live else "video",
        "size": f"{info.width} x {info.height}",
        "shape": _shape(info.width, info.height),
        "duration_s": info.duration_s if info.duration_s is not None else "unknown",
        "start_time": str(info.start_time or "unknown"),
        f"frames every {spacing:g} s": len(times),
        "last frame at": f"{times[-1]:.2f} s" if times else "none",
        "damaged frames": skipped,
    }
    if not info.live and Path(path).suffix.lower() in TELEMETRY_SUFFIXES:
        try:
            values["camera track"] = f"{len(read_track(Path(path), own_process=True))} positions"
        except TrackError:
            values["camera track"] = "none"
    return values


def _bag(path: str, picture: Path | None, spacing: float) -> Values:
    """The topics of a ROS bag, and what its pictures and its motion give."""
    place = bag_at(path)
    assert place is not None
    with Bag(place[0], VideoError) as bag:
        values: Values = {"kind": "ROS 2 bag", **{t.name: f"{t.messages:,} {t.type}" for t in bag.topics}}
    for what, reader in (("video", _video), ("motion", _motion)):
        try:
            found = reader(path, picture if what == "video" else None, spacing)
            values |= {f"{what}: {name}": value for name, value in found.items() if name != "kind"}
        except (VideoError, MotionError) as problem:
            values[what] = problem.what
    return values


def _shape(width: int, height: int) -> str:
    """Landscape or portrait, and what that means for the localizer."""
    if height <= width:
        return "landscape"
    return "portrait: frames are squeezed to the landscape shape of the model; film in landscape for better results"


def _imagery(path: str, picture: Path | None, spacing: float, *, access: Access) -> Values:
    with open_imagery(path, access=access) as imagery:
        info = imagery.info
        whole = glance(imagery, 512 if picture is None else 1200)
        if picture is not None:
            save_picture(picture, whole.image)
        west, south, east, north = info.bounds
        enough = "yes" if info.metres_per_pixel <= 1.0 else "no: 1 m per pixel or finer is needed"
        return {
            "kind": info.kind,
            "coordinate system": info.crs,
            "south, west": f"{south:.6f}, {west:.6f}",
            "north, east": f"{north:.6f}, {east:.6f}",
            "metres_per_pixel": info.metres_per_pixel,
            "natural zoom": info.zoom,
            "fine enough": enough,
            "holds data": _coverage(whole),
            "damaged reads": imagery.damaged,
        }


def _is_roads(path: str) -> bool:
    """Whether the name is that of a file of roads; ``.osm.gz`` and ``.osm.bz2`` too."""
    name = Path(path.lower())
    return (Path(name.stem).suffix if name.suffix in (".gz", ".bz2") else name.suffix) in ROAD_SUFFIXES


def _roads(path: str, picture: Path | None, spacing: float) -> Values:
    from x2localizer.show.gallery_map import roads_picture  # noqa: PLC0415

    roads = read_roads(path, own_process=True)
    if picture is not None:
        save_picture(picture, roads_picture(roads))
    west, south, east, north = roads.bounds or (0.0, 0.0, 0.0, 0.0)
    lengths = roads.lengths_by_kind_m()
    return {
        "kind": "roads",
        "south, west": f"{south:.6f}, {west:.6f}",
        "north, east": f"{north:.6f}, {east:.6f}",
        "roads": len(roads),
        "length": f"{sum(lengths.values()) / 1000:,.1f} km",
        "main roads": f"{lengths[RoadKind.MAIN] / 1000:,.1f} km",
        "streets": f"{lengths[RoadKind.STREET] / 1000:,.1f} km",
        "service roads and tracks": f"{lengths[RoadKind.SERVICE] / 1000:,.1f} km",
        "one-way": f"{roads.oneway.mean():.0%} of the roads",
        "lines dropped": f"{roads.dropped} with impossible coordinates" if roads.dropped else "none",
    }


def _gallery(path: str, picture: Path | None, spacing: float) -> Values:
    from x2localizer.gallery.describe import describe  # noqa: PLC0415 - LanceDB takes a while to load
    from x2localizer.gallery.open import open_to_read  # noqa: PLC0415
    from x2localizer.show.gallery_map import gallery_picture  # noqa: PLC0415

    if picture is not None:
        save_picture(picture, gallery_picture(open_to_read(path)))
    return {"kind": "gallery", **describe(path)}


def _coverage(whole: Glance) -> str:
    """The share of its bounds that imagery covers, and how it was measured."""
    if not whole.places:
        return f"{whole.coverage:.0%} of its bounds" if whole.coverage else "no: it is empty or black"
    how = f"sampled at {whole.places} places, as it has no overviews; `gdaladdo -r average FILE` adds them"
    return f"about {whole.coverage:.0%} of its bounds ({how})" if whole.coverage else f"nothing found ({how})"


def _track(path: str, picture: Path | None, spacing: float) -> Values:
    if picture is not None:
        raise ConfigError("A track alone has no picture.", "Remove --picture; `x2l town show` draws tracks on maps.")
    track = read_track(Path(path), own_process=True)
    gaps = np.diff(track.times_s)
    return {
        "kind": "track",
        "positions": len(track),
        "duration_s": track.duration_s,
        "length_m": track.length_m,
        "start_time": str(track.start_time or "unknown"),
        "gaps over 5 s": int((gaps > 5.0).sum()),
        "points dropped": str(track.dropped),
    }


def _motion(path: str, picture: Path | None, spacing: float) -> Values:
    record = read_motion(path, own_process=True)
    if picture is not None:
        raise ConfigError("Motion has no picture.", "Remove --picture.")
    return {
        "kind": "motion",
        "samples": len(record.times_s),
        "duration_s": record.duration_s,
        "distance": f"{record.distances_m[-1]:,.0f} m" if record.has_distance else "not recorded",
        "turn": f"{record.headings_deg[-1]:,.0f} degrees, clockwise" if record.has_turn else "not recorded",
        "start_time": str(record.start_time or "unknown"),
        "gaps over 3 s": int((np.diff(record.times_s) > MAX_GAP_S).sum()),
    }
