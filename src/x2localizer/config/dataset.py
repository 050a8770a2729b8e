"""Settings of towns and of the datasets made of them."""

from __future__ import annotations

from pydantic import Field, model_validator

from x2localizer.config.base import Settings


class TownSettings(Settings):
    """How large a town is and how finely it is painted."""

    tiles: int = Field(37, ge=9, le=74)
    """Side of the town in tiles of zoom 19 (about 58 m); one tile on each side is margin. 37 takes 0.8 GB, 74 four
    times as much."""
    pixels_per_tile: int = Field(128, ge=32, le=256, multiple_of=32)
    """Pixels of the aerial picture per tile: 128 is 0.45 m."""


class SplitSettings(Settings):
    """The towns of one split, and what is driven in them."""

    towns: int = Field(1, ge=0)
    first_seed: int = Field(0, ge=0, lt=1 << 32)
    """Towns are seeds first_seed, first_seed + 1, ...; a seed whose town would share ground with another is passed
    over, and splits never share a seed."""
    videos_per_region: int = Field(3, ge=0, le=99)
    """Drives in each region of the grid."""
    grid: bool = True
    """True: regions fill the town without overlap. False: each video has a region of its own, anywhere around it."""
    videos_per_town: int = Field(72, ge=1, le=2000)
    """With grid = false: drives in each town."""
    long_drives_per_town: int = Field(0, ge=0, le=99)
    night_share: float = Field(0.0, ge=0, le=1)
    """Share of the clips that are filmed at night. Of the long drives it is always a quarter."""


class DatasetSettings(Settings):
    """A dataset of towns."""

    town: TownSettings = TownSettings()
    train: SplitSettings = SplitSettings(grid=False)
    val: SplitSettings = SplitSettings(first_seed=5000)
    test: SplitSettings = SplitSettings(first_seed=9000)
    frame_height: int = Field(64, ge=16, le=1080)
    frame_width: int = Field(128, ge=16, le=1920)
    tile_px: int = Field(64, ge=16, le=256)
    """Pixels of a tile; a region is region_tiles times as wide."""
    tile_margin_px: int = Field(0, ge=0, le=512)
    """Pixels kept around each frame's tile on every side, so that training can cut it off the centre: a camera is
    seldom in the middle of a map's tile."""
    region_tiles: int = Field(7, ge=2, le=15)
    keyframes: int = Field(8, ge=2, le=64)
    keyframe_spacing_s: float = Field(5.0, ge=0.1)
    frame_spacing_s: float = Field(1.0, ge=0.1)
    fair: bool = False
    """True: clear noon, empty roads and the season of the imagery on all drives but the long ones; an easy world."""
    long_drive_s: float = Field(200.0, ge=20, le=3600)
    """Filmed seconds of a long drive; a gap, where there is one, comes on top."""
    longest_gap_s: float = Field(110.0, ge=1, le=600)
    film_fps: float = Field(0.0, ge=0, le=60)
    """Frames per second of the film of long drives, for odometry; 0 makes none."""
    film_height: int = Field(216, ge=32, le=1080)
    film_width: int = Field(384, ge=32, le=1920)
    other_cameras: bool = False
    """True: every second long drive is filmed with another field of view."""
    varied_cameras: float = Field(0.0, ge=0.0, le=1.0)
    """Share of the clips that have a camera of their own: its height, field of view, mounting and exposure."""
    jpeg_quality: int = Field(92, ge=50, le=100)

    @model_validator(mode="after")
    def _fits(self) -> DatasetSettings:
        """Sizes and times that must divide each other do."""
        if self.town.pixels_per_tile % self.tile_px:
            raise ValueError(f"tile_px must divide town.pixels_per_tile, which is {self.town.pixels_per_tile}")
        if self.tile_margin_px > 2 * self.tile_px:
            raise ValueError("tile_margin_px must be at most twice tile_px")
        if self.region_tiles > self.town.tiles - 2:
            raise ValueError(f"region_tiles must be at most town.tiles - 2 = {self.town.tiles - 2}")
        steps = self.keyframe_spacing_s / self.frame_spacing_s
        if abs(steps - round(steps)) > 1e-9 or steps < 1:
            raise ValueError("keyframe_spacing_s must be a multiple of frame_spacing_s")
        if not 5.0 <= (self.keyframes - 1) * self.keyframe_spacing_s <= 120.0:
            raise ValueError("(keyframes - 1) * keyframe_spacing_s must be 5 to 120 seconds")
        if not self.train.towns + self.val.towns + self.test.towns:
            raise ValueError("there must be at least one town")
        return self
