"""Conditions of a drive (weather, time of day, season, camera), and the light that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np

from x2localizer.compiled import compiled
from x2localizer.town.aerial import Sun, cast_shadow, sun_at
from x2localizer.town.columns import GREEN, TREE
from x2localizer.town.districts import POLE
from x2localizer.town.layers import Float32, Layers, UInt16
from x2localizer.town.place import Bounds
from x2localizer.town.scene import Look
from x2localizer.town.seasons import LEAFLESS, Season

Weather = Literal["clear", "cloudy", "overcast", "rain", "fog"]
Daytime = Literal["morning", "noon", "evening", "night"]
WEATHERS: tuple[Weather, ...] = ("clear", "cloudy", "overcast", "rain", "fog")
DAYTIMES: tuple[Daytime, ...] = ("morning", "noon", "evening", "night")

PATCH_STEP = 2
"""Shadows and lamp light have a pixel for every second pixel of the layers."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What differs between drives through the same town."""

    season: Season
    weather: Weather
    daytime: Daytime
    sun_azimuth_deg: float
    sun_height_deg: float
    exposure: float  # 1 is correct
    warmth: float  # white balance, positive is warmer
    noise: float  # of the sensor, in grey levels
    vignette: float
    traffic: float  # 0 (empty roads) to 1 (busy)
    seed: int


def draw_conditions(rng: np.random.Generator, not_season: Season | None = None, night: bool = False) -> Conditions:
    """Random conditions; ``not_season`` is the season of the imagery, which a drive never has."""
    seasons: list[Season] = [s for s in ("spring", "summer", "autumn", "winter") if s != not_season]
    season: Season = seasons[int(rng.integers(len(seasons)))]
    if season == "winter" and rng.uniform() < 0.3:
        season = "snow"
    weather = WEATHERS[int(rng.choice(5, p=(0.36, 0.28, 0.2, 0.1, 0.06)))]
    daytime: Daytime = "night" if night else DAYTIMES[int(rng.choice(3, p=(0.3, 0.4, 0.3)))]
    azimuth, height = {
        "morning": (rng.uniform(80, 130), rng.uniform(14, 30)),
        "noon": (rng.uniform(150, 215), rng.uniform(34, 62)),
        "evening": (rng.uniform(230, 285), rng.uniform(8, 26)),
        "night": (rng.uniform(0, 360), 30.0),
    }[daytime]
    return Conditions(
        season, weather, daytime, float(azimuth), float(height),
        exposure=float(np.exp(rng.normal(0, 0.13))),
        warmth=float(rng.normal(0, 0.035)),
        noise=float(rng.uniform(1.0, 4.0)) * (2.2 if night else 1.0),
        vignette=float(rng.uniform(0.1, 0.6)),
        traffic=float(rng.uniform(0, 1)),
        seed=int(rng.integers(1 << 30)),
    )  # fmt: skip


def fair_weather(conditions: Conditions, season: Season) -> Conditions:
    """The same camera at noon on a clear day of a season, on empty roads."""
    return replace(
        conditions,
        season=season,
        weather="clear",
        daytime="noon",
        sun_azimuth_deg=180.0,
        sun_height_deg=45.0,
        traffic=0.0,
    )


MONTHS: dict[Season, int] = {"winter": 1, "snow": 2, "spring": 4, "summer": 7, "autumn": 10}
HOURS: dict[Daytime, int] = {"morning": 8, "noon": 12, "evening": 18, "night": 22}


def start_time(conditions: Conditions, rng: np.random.Generator) -> datetime:
    """A random time (UTC) that fits the season and time of day; local time in the towns is about UTC - 3."""
    day, minute = int(rng.integers(1, 28)), int(rng.integers(60))
    local = datetime(2025, MONTHS[conditions.season], day, HOURS[conditions.daytime], minute, tzinfo=UTC)
    return local + timedelta(hours=3)


@compiled
def _lamp_light(trees: Float32, x0: float, y0: float, step: float, out: Float32) -> None:
    """Add to ``out`` the pools of light under lamp posts; (x0, y0) is its north-west corner, ``step`` its pixel."""
    reach = 15.0
    for i in range(trees.shape[0]):
        if trees[i, TREE.shape] != POLE:
            continue
        x, y = trees[i, TREE.x] - x0, trees[i, TREE.y] - y0
        for r in range(max(0, int((y - reach) / step)), min(out.shape[0], int((y + reach) / step) + 1)):
            for c in range(max(0, int((x - reach) / step)), min(out.shape[1], int((x + reach) / step) + 1)):
                d2 = ((c + 0.5) * step - x) ** 2 + ((r + 0.5) * step - y) ** 2
                if d2 < reach * reach:
                    out[r, c] += 0.9 * (1.0 - d2 / (reach * reach)) ** 2


def _rgb(r: float, g: float, b: float) -> Float32:
    return np.array([r, g, b], np.float32)


@dataclass(frozen=True, slots=True)
class _Sky:
    """What a weather does to the light by day."""

    direct: float  # strength of the sun, 0 to 1
    grey: float  # 0 blue to 1 grey
    cloud: float  # share of the sky that clouds cover, about
    haze_per_km: float


_SKIES: dict[Weather, _Sky] = {
    "clear": _Sky(1.0, 0.0, 0.28, 0.9),
    "cloudy": _Sky(0.8, 0.15, 0.62, 1.3),
    "overcast": _Sky(0.08, 0.85, 0.5, 2.0),
    "rain": _Sky(0.0, 1.0, 0.45, 4.0),
    "fog": _Sky(0.1, 1.0, 0.0, 11.0),
}


def make_look(conditions: Conditions, layers: Layers, trees: Float32, bounds: Bounds, seed: int) -> Look:
    """The light under some conditions, with shadows and lamps inside some bounds; ``seed`` is the town's."""
    sky, night = _SKIES[conditions.weather], conditions.daytime == "night"
    sun, height = sun_at(conditions.sun_azimuth_deg, conditions.sun_height_deg), np.radians(conditions.sun_height_deg)
    direct = 0.04 if night else sky.direct
    low_sun = float(np.clip(1.0 - conditions.sun_height_deg / 35.0, 0.0, 1.0)) if not night else 0.0
    sun_rgb = _rgb(0.66, 0.64 - 0.10 * low_sun, 0.58 - 0.24 * low_sun) * direct
    ambient = _rgb(0.52, 0.55, 0.60) + _rgb(0.36, 0.35, 0.33) * (1.0 - direct)
    top = _rgb(70, 120, 196) * (1 - sky.grey) + _rgb(152, 160, 170) * sky.grey
    low = _rgb(190 + 40 * low_sun, 208 - 6 * low_sun, 226 - 50 * low_sun) * (1 - sky.grey)
    low = low + _rgb(196, 200, 204) * sky.grey
    cloud_rgb = _rgb(236, 238, 242) * (1 - 0.35 * sky.grey)
    lamp = _rgb(0.0, 0.0, 0.0)
    if night:
        ambient, top, low = _rgb(0.10, 0.11, 0.15), _rgb(10, 13, 26), _rgb(34, 36, 50)
        cloud_rgb, lamp = _rgb(30, 31, 40), _rgb(1.0, 0.84, 0.58)
    level = float(ambient[GREEN] + sun_rgb[GREEN] * np.sin(height))
    auto = 1.0 if night else (1.0 / level) ** 0.8  # cameras open up when there is less light
    gain = auto * conditions.exposure * _rgb(1 + conditions.warmth, 1.0, 1 - conditions.warmth)
    patch = _patch(layers, trees, bounds, sun, shadows=direct > 0.2, night=night)
    return Look(
        sun_x=float(sun.x * np.cos(height)),
        sun_y=float(sun.y * np.cos(height)),
        sun_z=float(np.sin(height)),
        sun_flat=1.0,
        sun=sun_rgb.astype(np.float32),
        ambient=ambient.astype(np.float32),
        sky_top=top,
        sky_low=low.astype(np.float32),
        haze=low.astype(np.float32),
        haze_per_m=sky.haze_per_km / 1000.0,
        cloud=sky.cloud,
        cloud_rgb=cloud_rgb.astype(np.float32),
        sun_glow=(1.0 - sky.grey) * (0.0 if night else 1.0),
        night=float(night),
        lamp=lamp,
        wet=1.0 if conditions.weather == "rain" else 0.0,
        bare=LEAFLESS[conditions.season],
        gain=gain.astype(np.float32),
        vignette=conditions.vignette,
        noise=conditions.noise,
        seed=conditions.seed % 100003,
        ground_seed=seed,
        shadow=patch.shadow,
        lamps=patch.lamps,
        patch_x=patch.x,
        patch_y=patch.y,
        patch_m=layers.metres_per_pixel * PATCH_STEP,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Patch:
    """Shadows and lamp light over a part of the town whose north-west corner is at map metres (x, y)."""

    shadow: Float32
    lamps: Float32
    x: float
    y: float


def _patch(layers: Layers, trees: Float32, bounds: Bounds, sun: Sun, *, shadows: bool, night: bool) -> _Patch:
    mpp, side = layers.metres_per_pixel, layers.height.shape[0]
    c0, r0 = max(0, int(bounds.west / mpp)), max(0, int(bounds.north / mpp))
    c1, r1 = min(side, int(bounds.east / mpp) + 1), min(side, int(bounds.south / mpp) + 1)
    heights: UInt16 = np.ascontiguousarray(layers.height[r0:r1:PATCH_STEP, c0:c1:PATCH_STEP])
    shadow, lamps = np.zeros(heights.shape, np.float32), np.zeros(heights.shape, np.float32)
    if shadows:
        cast_shadow(heights, mpp * PATCH_STEP, sun.x, sun.y, sun.slope, shadow)
    if night:
        _lamp_light(trees, c0 * mpp, r0 * mpp, mpp * PATCH_STEP, lamps)
    return _Patch(shadow, lamps, c0 * mpp, r0 * mpp)
