"""Settings of the small town and the small dataset that most tests use."""

from __future__ import annotations

from x2localizer.config import DatasetSettings, SplitSettings, TownSettings

SMALL = TownSettings(tiles=16)
TINY = DatasetSettings(
    town=TownSettings(tiles=16, pixels_per_tile=64),
    train=SplitSettings(towns=2, first_seed=0, grid=False, videos_per_town=3),
    val=SplitSettings(towns=1, first_seed=5000, videos_per_region=1),
    test=SplitSettings(towns=1, first_seed=9000, videos_per_region=1, long_drives_per_town=2),
    frame_height=32,
    frame_width=64,
    tile_px=32,
    long_drive_s=120.0,
    longest_gap_s=40.0,
)
