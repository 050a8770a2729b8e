"""A town: its plan, its rasters, what stands in it, and its aerial picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from x2localizer import geo
from x2localizer.config import TownSettings
from x2localizer.town.aerial import paint_aerial, sun_at, tint
from x2localizer.town.columns import TREE
from x2localizer.town.districts import POLE
from x2localizer.town.layers import Float32, Layers, empty_layers, palette
from x2localizer.town.lots import place_lots
from x2localizer.town.noise import stream
from x2localizer.town.place import ZOOM, Bounds, Place, place_for
from x2localizer.town.plan import Plan, draw_plan
from x2localizer.town.seasons import LEAFLESS, Season, season_palette, season_trees
from x2localizer.town.traffic import parked_cars
from x2localizer.types import Image, Region


@dataclass(frozen=True, slots=True, eq=False)
class Town:
    """Everything that all drives through a town share."""

    seed: int
    settings: TownSettings
    place: Place
    plan: Plan
    layers: Layers
    boxes: Float32  # (n, len(BOX))
    trees: Float32  # (m, len(TREE)), in summer
    colours: Float32  # (districts, SURFACES, 3) of the ground, in summer
    season: Season  # of the imagery

    @property
    def metres_per_pixel(self) -> float:
        """Size on the ground of a pixel of the imagery."""
        return self.layers.metres_per_pixel


def build_town(seed: int, settings: TownSettings | None = None) -> Town:
    """The town of a seed, the same on every run."""
    settings = settings or TownSettings()
    place = place_for(seed, settings.tiles)
    plan = draw_plan(seed, place)
    layers = empty_layers(plan, settings.pixels_per_tile)
    boxes, trees = place_lots(plan, layers)
    seasons: tuple[Season, ...] = ("spring", "summer", "summer", "autumn", "winter")
    season = seasons[int(stream(seed, "season").integers(len(seasons)))]
    return Town(seed, settings, place, plan, layers, boxes, trees, palette(plan), season)


def paint_town(town: Town) -> Image:
    """The aerial picture of a town, (H, W, 3), north up; a whole number of pixels makes a tile of zoom 19."""
    rng = stream(town.seed, "imagery")
    sun = sun_at(float(rng.uniform(110, 250)), float(rng.uniform(40, 62)))
    size = town.place.size_m
    cars = parked_cars(rng, town.plan, town.boxes, Bounds(0.0, 0.0, size, size), float(rng.uniform(0.15, 0.4)))
    canvas = paint_aerial(
        town.layers, town.boxes, season_trees(town.trees, town.season), cars,
        season_palette(town.colours, town.season), sun, LEAFLESS[town.season], town.seed,
    )  # fmt: skip
    warm = rng.normal(0, 0.03)
    bright = float(np.exp(rng.normal(0, 0.06)))
    tint(canvas, np.array([1 + warm, 1.0, 1 - warm], np.float32) * np.float32(bright))
    return canvas


def crop_region(town: Town, aerial: Image, region: Region, tile_px: int) -> Image:
    """The picture of a region with ``tile_px`` pixels per tile, cut from the town's aerial picture."""
    per_tile = town.settings.pixels_per_tile
    left, top = (region.x - town.place.x) * per_tile, (region.y - town.place.y) * per_tile
    side = region.n * per_tile
    if left < 0 or top < 0 or left + side > aerial.shape[1] or top + side > aerial.shape[0]:
        raise ValueError(f"region {region} extends beyond town {town.seed}")
    return shrink(aerial[top : top + side, left : left + side], per_tile // tile_px)


def crop_square(town: Town, aerial: Image, x_m: float, y_m: float, tile_px: int, margin_px: int = 0) -> Image:
    """The tile centred on map metres (x, y), to the nearest pixel, with a margin of ``margin_px`` pixels around it.

    It has ``tile_px`` pixels per side before the margin is added, and is cut from the town's aerial picture. A margin
    that extends beyond the picture is black there.
    """
    per_tile = town.settings.pixels_per_tile
    factor = per_tile // tile_px
    margin = margin_px * factor
    left = round(x_m / town.metres_per_pixel - per_tile / 2)
    top = round(y_m / town.metres_per_pixel - per_tile / 2)
    if left < 0 or top < 0 or left + per_tile > aerial.shape[1] or top + per_tile > aerial.shape[0]:
        raise ValueError(f"the tile around ({x_m:.0f}, {y_m:.0f}) m extends beyond town {town.seed}")
    cut = aerial[max(0, top - margin) : top + per_tile + margin, max(0, left - margin) : left + per_tile + margin]
    square = np.zeros((per_tile + 2 * margin, per_tile + 2 * margin, 3), np.uint8)
    down, right = max(0, margin - top), max(0, margin - left)
    square[down : down + cut.shape[0], right : right + cut.shape[1]] = cut
    return shrink(square, factor)


def shrink(image: Image, factor: int) -> Image:
    """The picture reduced by a factor: each pixel is the mean of ``factor`` x ``factor``."""
    if factor == 1:
        return image
    rows, columns = image.shape[0] // factor, image.shape[1] // factor
    total = np.zeros((rows, columns, 3), np.uint16)
    for i in range(factor):
        for j in range(factor):
            total += image[i : rows * factor : factor, j : columns * factor : factor]
    return ((total + factor * factor // 2) // (factor * factor)).astype(np.uint8)


class Georeference(NamedTuple):
    """Where a picture is, in Web-Mercator metres."""

    west: float
    north: float
    pixel: float  # size of a pixel


def georeference(town: Town) -> Georeference:
    """Where the town's aerial picture is."""
    west, _, _, north = geo.mercator_bounds(float(town.place.x), float(town.place.y), ZOOM)
    side = 2 * geo.WEB_MERCATOR_HALF_M / (1 << ZOOM)
    return Georeference(west, north, side / town.settings.pixels_per_tile)


def tree_count(town: Town) -> int:
    """The number of trees in a town, without lamp posts."""
    return int((town.trees[:, TREE.shape] != POLE).sum())
