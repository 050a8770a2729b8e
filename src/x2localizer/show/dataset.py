"""A contact sheet of a dataset: a few videos, their region, their keyframes and tiles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from PIL import Image as Pillow
from PIL import ImageDraw

from x2localizer.datasets.dataset import Dataset, open_dataset
from x2localizer.datasets.tables import FrameRow, RegionRow, VideoRow
from x2localizer.errors import UserError
from x2localizer.show.pictures import DOT, INK, PAPER, TRACKS, Map, label_font
from x2localizer.types import Image

SIDE = 240


def dataset_sheet(root: Path, rows: int = 6) -> Image | None:
    """Samples of all splits as one picture; None if there is nothing that can be shown."""
    try:
        data = open_dataset(root)
        table = data.video_table
        picks = sorted({k * (len(table) - 1) // max(rows - 1, 1) for k in range(rows)}) if len(table) else []
        strips = [
            strip
            for k in picks
            if (strip := _strip(data, VideoRow(**table.slice(int(k), 1).to_pylist()[0]))) is not None
        ]
    except (UserError, TypeError, ValueError):
        return None
    if not strips:
        return None
    wide = max(strip.shape[1] for strip in strips)
    return np.concatenate([np.pad(s, ((0, 0), (0, wide - s.shape[1]), (0, 0)), constant_values=250) for s in strips])


def _strip(data: Dataset, video: VideoRow) -> Image | None:
    """One video: its region with the trajectory, and its keyframes above their tiles."""
    try:
        regions = data.region_table
        row = regions.filter(pc.equal(regions["region_id"], video.region_id)).to_pylist()[0]
        frames = data.frames(video.video_id)
        keys = [frame for frame in frames if frame.keyframe >= 0][:8]
        pictures = [(data.picture(frame.image), data.tile(frame.tile)) for frame in keys if frame.tile_path]
        region = RegionRow(**row)
        ground = _with_path(data.picture(region.image), region, frames, keys)
    except (UserError, IndexError, ValueError, TypeError):  # a damaged row shows nothing
        return None
    strip = Pillow.new("RGB", (SIDE + 8 + 8 * 168, SIDE + 26), PAPER)
    strip.paste(ground, (4, 22))
    draw = ImageDraw.Draw(strip)
    conditions = ", ".join(word for word in (video.season, video.weather, video.daytime) if word)
    draw.text(
        (6, 4), f"{video.video_id}   {video.split} {video.role}   {video.region_id}   {conditions}", INK, label_font(13)
    )
    for i, (frame, tile) in enumerate(pictures):
        x = SIDE + 12 + i * 168
        tall = min(112, round(160 * frame.shape[0] / frame.shape[1]))
        strip.paste(Pillow.fromarray(frame).resize((160, tall), Pillow.Resampling.LANCZOS), (x, 22))
        strip.paste(Pillow.fromarray(tile).resize((112, 112), Pillow.Resampling.LANCZOS), (x, 26 + tall))
    return np.asarray(strip)


def _with_path(picture: Image, region: RegionRow, frames: list[FrameRow], keys: list[FrameRow]) -> Pillow.Image:
    """A region's picture with the line of the frames and a dot for each keyframe."""
    canvas = Pillow.fromarray(picture).resize((SIDE, SIDE), Pillow.Resampling.LANCZOS)
    draw = ImageDraw.Draw(canvas)
    base = Map(np.asarray(canvas), region.region)

    def spots(rows: list[FrameRow]) -> list[tuple[float, float]]:
        return base.pixels([row.lat_deg for row in rows], [row.lon_deg for row in rows])

    draw.line(spots(frames), fill=TRACKS[0], width=2)
    for x, y in spots(keys):
        draw.ellipse((x - 3, y - 3, x + 3, y + 3), fill=DOT, outline=INK)
    return canvas
