"""Validation of a dataset: collects everything that is wrong, instead of stopping at the first error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from x2localizer import geo
from x2localizer.datasets.check_media import check_media
from x2localizer.datasets.check_report import CheckReport
from x2localizer.datasets.dataset import Dataset, open_dataset, video_blocks
from x2localizer.datasets.tables import ROLES, SCHEMAS, SPLITS
from x2localizer.errors import UserError
from x2localizer.motion import beyond_limits
from x2localizer.types import Region

FULL_KEYFRAMES = 8
"""Keyframes of a clip where the manifest does not say."""


def check_dataset(
    root: Path, *, full: bool = False, progress: Callable[[int, int], None] = lambda done, total: None
) -> CheckReport:
    """Check the tables and media of a dataset; ``full`` decodes every picture instead of a sample."""
    report = CheckReport(str(root))
    try:
        data = open_dataset(root)
        tables = (data.region_table, data.video_table, data.frame_table)
    except UserError as problem:
        report.add("error", "the dataset cannot be opened", [str(problem)])
        return report
    if not _check_values(report, dict(zip(SCHEMAS, tables, strict=True))):
        return report
    _count(report, *tables)
    _check_splits(report, data)
    _check_manifest(report, data)
    _check_ids(report, *tables)
    _check_order(report, data)
    _check_places(report, data)
    _check_motion(report, data)
    if report.sound:  # else there may be no clips to name
        report.clips = {name: data.clips_name(name) for name in ("val", "test") if data.videos(name)}
    check_media(report, data, full, progress)
    return report


def _strings(table: pa.Table, column: str) -> npt.NDArray[np.object_]:
    return np.asarray(table[column].to_pylist(), dtype=object)


def _numbers(table: pa.Table, column: str) -> npt.NDArray[np.float64]:
    return np.asarray(table[column].to_numpy(zero_copy_only=False), np.float64)


def _check_values(report: CheckReport, tables: dict[str, pa.Table]) -> bool:
    """Check what all other checks rely on: required values, sizes and zooms; returns whether they are fine."""
    for name, table in tables.items():
        for field in SCHEMAS[name]:
            if not field.nullable and table[field.name].null_count:
                report.add("error", f"{name} without {field.name}", ["null"] * table[field.name].null_count)
        for column in table.column_names:
            if column.endswith(("_offset", "_length")):
                bad = _numbers(table, column) < 0
                report.add("error", f"{name} whose {column} is negative", ["row"] * int(bad.sum()))
    if not report.sound:
        return False
    regions = tables["regions"]
    zoom, n = _numbers(regions, "zoom"), _numbers(regions, "n")
    x, y = _numbers(regions, "x"), _numbers(regions, "y")
    ids = _strings(regions, "region_id")
    world = 2.0 ** np.clip(zoom, 0, 24)
    wrong = (zoom < 0) | (zoom > 24) | (n < 1) | (x < 0) | (x >= world) | (y < 0) | (y + n > world)
    report.add("error", "regions that are not on the map", [str(r) for r in ids[wrong]])
    return report.sound


def _check_manifest(report: CheckReport, data: Dataset) -> None:
    """Check the lengths of the tables against the manifest, and that the imagery of the areas exists."""
    counts = data.manifest.get("counts")
    if not isinstance(counts, dict):
        report.add("error", "the manifest has no counts", ["dataset.json has no 'counts'"])
        return
    for name in SCHEMAS:
        if counts.get(name) != report.counts[name]:
            lengths = f"{name}: {counts.get(name)} in the manifest, {report.counts[name]} in the table"
            report.add("error", "tables whose length differs from the manifest", [lengths])
    imagery = data.root / "imagery"
    if data.manifest.get("kind") == "town":
        areas = {(r["split"], r["area"]) for r in data.region_table.select(["split", "area"]).to_pylist()}
        wanted = [(s, a) for s, a in sorted(areas) if data.manifest.get("config", {}).get(s, {}).get("grid")]
        missing = [f"imagery/{s}/{a}.tif" for s, a in wanted if not (imagery / s / f"{a}.tif").is_file()]
        report.add("error", "missing imagery", missing)


def _count(report: CheckReport, regions: pa.Table, videos: pa.Table, frames: pa.Table) -> None:
    report.counts |= {"regions": len(regions), "videos": len(videos), "frames": len(frames)}
    splits, roles = _strings(videos, "split"), _strings(videos, "role")
    areas = _strings(regions, "area")
    region_splits = _strings(regions, "split")
    for split in SPLITS:
        report.counts[f"{split} regions"] = int((region_splits == split).sum())
        for role in ROLES:
            report.counts[f"{split} videos ({role})"] = int(((splits == split) & (roles == role)).sum())
    shared = [str(area) for area in sorted(set(areas)) if len(set(region_splits[areas == area])) > 1]
    report.add("error", "areas that two splits share", shared)
    report.add("error", "videos of an unknown split", [str(s) for s in splits if s not in SPLITS])
    report.add("error", "videos of an unknown role", [str(r) for r in roles if r not in ROLES])


def _check_splits(report: CheckReport, data: Dataset) -> None:
    """Check that splits have clips with all keyframes: training needs train and val, evaluation neither."""
    configured = data.manifest.get("config", {}).get("keyframes")
    keyframes = configured if isinstance(configured, int) else FULL_KEYFRAMES
    videos = data.video_table
    whole = (_numbers(videos, "keyframes") >= keyframes) & (_strings(videos, "role") == "clip")
    empty = [split for split in SPLITS if split not in set(_strings(videos, "split")[whole])]
    needed = [split for split in empty if data.manifest.get("kind") == "own" and split != "test"]
    what = f"splits without a clip of {keyframes} keyframes"
    report.add("error", what, [f"{split}: training needs it; record more drives" for split in needed])
    report.add("note", what, [split for split in empty if split not in needed])


def _check_ids(report: CheckReport, regions: pa.Table, videos: pa.Table, frames: pa.Table) -> None:
    region_ids, video_ids = _strings(regions, "region_id"), _strings(videos, "video_id")
    report.add("error", "region ids that occur twice", _twice(region_ids))
    report.add("error", "video ids that occur twice", _twice(video_ids))
    known = {row["region_id"]: row for row in regions.select(["region_id", "split", "area"]).to_pylist()}
    missing, strayed = [], []
    for row in videos.select(["video_id", "region_id", "split", "area"]).to_pylist():
        region = known.get(row["region_id"])
        if region is None:
            missing.append(str(row["video_id"]))
        elif (region["split"], region["area"]) != (row["split"], row["area"]):
            strayed.append(f"{row['video_id']}: {row['split']} {row['area']}, not {region['split']} {region['area']}")
    report.add("error", "videos whose region is missing", missing)
    report.add("error", "videos whose split or area differs from their region", strayed)
    framed, listed = set(_strings(frames, "video_id")), set(video_ids)
    report.add("error", "videos without frames", sorted(listed - framed))
    report.add("error", "frames of unknown videos", sorted(framed - listed))


def _twice(ids: npt.NDArray[np.object_]) -> list[str]:
    names, counts = np.unique(ids.astype(str), return_counts=True)
    return [str(name) for name in names[counts > 1]]


def _check_order(report: CheckReport, data: Dataset) -> None:
    """Check the order of indices and times, repeated times, declared counts, and keyframes."""
    frames = data.frame_table
    index, times, keys = _numbers(frames, "index"), _numbers(frames, "time_s"), _numbers(frames, "keyframe")
    names = data.video_table["video_id"].to_pylist()
    declared = dict(zip(names, data.video_table["frames"].to_pylist(), strict=True))
    key_counts = dict(zip(names, data.video_table["keyframes"].to_pylist(), strict=True))
    durations = dict(zip(names, data.video_table["duration_s"].to_pylist(), strict=True))
    wrong: dict[str, list[str]] = {name: [] for name in ("order", "twice", "count", "keys", "nan", "start", "lasts")}
    blocks: dict[str, int] = {}
    for video, start, stop in video_blocks(frames):
        blocks[video] = blocks.get(video, 0) + 1
        t, i, k = times[start:stop], index[start:stop], keys[start:stop]
        if not np.isfinite(t).all():
            wrong["nan"].append(video)
        if (np.diff(i) <= 0).any() or (np.diff(t) < 0).any():
            wrong["order"].append(video)
        elif (np.diff(t) == 0).any():
            wrong["twice"].append(f"{video} at {t[1:][np.diff(t) == 0][0]:.3f} s")
        if t[0] != 0.0:
            wrong["start"].append(f"{video} starts at {t[0]:.3f} s")
        if abs(durations.get(video, t[-1]) - t[-1]) > 1e-3:
            wrong["lasts"].append(f"{video}: {durations[video]:.3f} s declared, {t[-1]:.3f} s found")
        if declared.get(video, stop - start) != stop - start:
            wrong["count"].append(f"{video}: {declared[video]} declared, {stop - start} found")
        numbers = k[k >= 0]
        if len(numbers) != key_counts.get(video, len(numbers)) or (numbers != np.arange(len(numbers))).any():
            wrong["keys"].append(video)
    report.add("error", "videos whose frames are not together in the table", [v for v, n in blocks.items() if n > 1])
    report.add("error", "videos whose frames are out of order", wrong["order"])
    report.add("error", "videos that repeat a time", wrong["twice"])
    report.add("error", "videos whose number of frames differs from the declared one", wrong["count"])
    report.add("error", "videos whose keyframes are not numbered 0, 1, 2, ... as declared", wrong["keys"])
    report.add("error", "videos with frames that have no time", wrong["nan"])
    report.add("error", "videos whose time does not start at 0", wrong["start"])
    report.add("error", "videos whose duration differs from the declared one", wrong["lasts"])


def _check_places(report: CheckReport, data: Dataset) -> None:
    """Check that positions are on the map, and inside the region of their clip."""
    frames, regions, videos = data.frame_table, data.region_table, data.video_table
    lats, lons = _numbers(frames, "lat_deg"), _numbers(frames, "lon_deg")
    on_map = (np.abs(lats) <= geo.MAX_LATITUDE_DEG) & (np.abs(lons) <= 180.0)
    ids = _strings(frames, "video_id")
    report.add("error", "frames whose position is not on the map", [str(v) for v in ids[~on_map]])
    boxes = {
        row["region_id"]: Region(row["zoom"], row["x"], row["y"], row["n"])
        for row in regions.select(["region_id", "zoom", "x", "y", "n"]).to_pylist()
    }
    owner = {row["video_id"]: row for row in videos.select(["video_id", "region_id", "role", "ride_id"]).to_pylist()}
    middles = np.array([(p.lat_deg, p.lon_deg) for p in map(geo.region_centre, boxes.values())]).reshape(-1, 2)
    stored = np.stack([_numbers(regions, "lat_deg"), _numbers(regions, "lon_deg")], 1)
    if len(boxes) == len(stored):
        off = ~(np.abs(middles - stored).max(1) < 1e-5) if len(stored) else np.zeros(0, bool)
        report.add("error", "regions whose centre is elsewhere", [str(r) for r in _strings(regions, "region_id")[off]])
    heading = _numbers(frames, "heading_deg")
    report.add("error", "frames whose heading is not an angle", [str(v) for v in ids[(heading < 0) | (heading > 360)]])
    published = data.manifest.get("kind") == "gama"
    _check_shared_ground(report, regions, published=published)
    rides = Counter(videos["ride_id"].to_pylist())
    outside, stay = [], []
    for video, start, stop in video_blocks(frames):
        row, good = owner.get(video), on_map[start:stop]
        if row is None or row["region_id"] not in boxes or not good.any():
            continue
        inside = geo.region_contains(boxes[row["region_id"]], lats[start:stop][good], lons[start:stop][good])
        if row["role"] == "clip" and not inside.all():
            outside.append(f"{video}: {int((~inside).sum())} frames")
        elif row["role"] == "long" and inside.all() and rides[row["ride_id"]] == 1:
            stay.append(video)
    report.add("note" if published else "error", "clips with frames outside their region", outside)
    report.add("note", "long drives that never leave their first region", stay)


def _check_motion(report: CheckReport, data: Dataset) -> None:
    """Check that cars move as cars do. Towns must; on drives of others it may also be an error of their track."""
    frames = data.frame_table
    times, heading, speed = (_numbers(frames, name) for name in ("time_s", "heading_deg", "speed_m_s"))
    strange = []
    for video, start, stop in video_blocks(frames):
        part = slice(start, stop)
        known = np.isfinite(heading[part]) & np.isfinite(speed[part]) & np.isfinite(times[part])
        t, v, h = times[part][known], speed[part][known], heading[part][known]
        if len(t) > 1 and (np.diff(t) > 0).all() and (found := beyond_limits(t, v, h)):
            strange.append(f"{video}: {', '.join(found)}")
    level = "error" if data.manifest.get("kind") == "town" else "note"
    report.add(level, "videos that move as no car does", strange)


def _check_shared_ground(report: CheckReport, regions: pa.Table, *, published: bool) -> None:
    """Check that no regions of two splits overlap; with the test split of a published dataset that is only a note."""
    rows = regions.select(["region_id", "split", "zoom", "x", "y", "n"]).to_pylist()
    cells: dict[tuple[int, int, int], str] = {}
    shared: dict[str, list[str]] = {"error": [], "note": []}
    for row in rows:
        for x in range(row["x"], row["x"] + row["n"]):
            for y in range(row["y"], row["y"] + row["n"]):
                other = cells.setdefault((row["zoom"], x, y), row["split"])
                if other != row["split"]:
                    given = published and "test" in (other, row["split"])
                    shared["note" if given else "error"].append(str(row["region_id"]))
    report.add("error", "regions that overlap another split", list(dict.fromkeys(shared["error"])))
    report.add("note", "regions that overlap the published test split", list(dict.fromkeys(shared["note"])))
