from __future__ import annotations

from pathlib import Path

import pytest

from x2localizer.config import DatasetSettings, TownSettings, load_config, preset_names
from x2localizer.errors import ConfigError


def test_every_preset_that_ships_is_valid() -> None:
    assert preset_names("dataset") == ["decoder", "eye", "foreign", "night", "quick", "small", "standard"]
    for name in preset_names("dataset"):
        load_config(DatasetSettings, "dataset", name)
    assert load_config(TownSettings, "town", "default") == TownSettings()


def test_the_standard_preset_promises_enough_test_regions() -> None:
    settings = load_config(DatasetSettings, "dataset", "standard")
    per_town = ((settings.town.tiles - 2) // settings.region_tiles) ** 2
    assert settings.test.towns * per_town >= 400
    assert settings.test.towns * settings.test.long_drives_per_town >= 60
    assert settings.long_drive_s >= 180
    assert settings.longest_gap_s <= 120


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("train.towns=9", lambda s: s.train.towns == 9),
        ("keyframe_spacing_s = 2.0", lambda s: s.keyframe_spacing_s == 2.0),
        ("val.grid=false", lambda s: s.val.grid is False),
    ],
)
def test_overrides_reach_their_key(override: str, read: object) -> None:
    settings = load_config(DatasetSettings, "dataset", "quick", [override])
    assert callable(read)
    assert read(settings)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.twons=9", "Did you mean 'towns'?"),
        ("tran.towns=9", "Did you mean 'train'?"),
        ("frame_heigth=64", "Did you mean 'frame_height'?"),
        ("zzzz=1", "Valid names: "),
        ("train.towns=many", "train.towns"),
        ("train.towns=-1", "train.towns"),
        ("frame_height.x=1", "frame_height"),
        ("tile_px=48", "tile_px must divide"),
        ("region_tiles=15", "region_tiles must be at most"),
        ("frame_spacing_s=0.7", "multiple of frame_spacing_s"),
        ("keyframe_spacing_s=inf", "finite"),
        ("keyframes=60", "5 to 120 seconds"),
        ("test.first_seed=-5", "test.first_seed"),
        ("test.videos_per_region=100", "test.videos_per_region"),
        ("nonsense", "--set section.key=value"),
        ("=3", "--set section.key=value"),
    ],
)
def test_a_wrong_override_names_the_way_out(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as problem:
        load_config(DatasetSettings, "dataset", "quick", [override])
    assert message in str(problem.value)


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'standard'"):
        load_config(DatasetSettings, "dataset", "standart")


@pytest.mark.parametrize("text", ["tiles = ", "\x00", "tiles = 37\ntiles = 38"])
def test_a_broken_file_is_a_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        load_config(TownSettings, "town", path)


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Cannot read"):
        load_config(TownSettings, "town", tmp_path / "none.toml")


def test_a_file_of_ones_own_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("tiles = 23\n")
    assert load_config(TownSettings, "town", path, ["pixels_per_tile=64"]) == TownSettings(tiles=23, pixels_per_tile=64)
