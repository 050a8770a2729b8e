"""Seasons: the same town in other colours. Only the palette of the ground and the leaves changes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from x2localizer.town.columns import TREE
from x2localizer.town.districts import BANK, CONE, FIELD, GARDEN, LAWN, PARK, POLE, WATER, WOOD
from x2localizer.town.layers import Float32

Season = Literal["spring", "summer", "autumn", "winter", "snow"]
SEASONS: tuple[Season, ...] = ("spring", "summer", "autumn", "winter", "snow")
GREEN = (LAWN, GARDEN, PARK, WOOD, FIELD, BANK)

# How green surfaces change: toward which colour, and how far (0 to 1).
_GROUND: dict[Season, tuple[tuple[float, float, float], float]] = {
    "spring": ((112, 156, 62), 0.45),
    "summer": ((110, 130, 66), 0.0),
    "autumn": ((140, 122, 66), 0.5),
    "winter": ((132, 124, 96), 0.62),
    "snow": ((226, 230, 236), 0.9),
}
LEAFLESS: dict[Season, float] = {"spring": 0.0, "summer": 0.0, "autumn": 0.12, "winter": 0.75, "snow": 0.8}
"""How leafless broad-leaved trees are, 0 to 1."""


def season_palette(summer: Float32, season: Season) -> Float32:
    """Colours of the ground in a season, (districts, SURFACES, 3); ``summer`` has those of summer."""
    colours = summer.copy()
    target, share = _GROUND[season]
    colours[:, GREEN] += share * (np.array(target, np.float32) - colours[:, GREEN])
    if season == "snow":
        others = [surface for surface in range(colours.shape[1]) if surface not in (*GREEN, WATER)]
        colours[:, others] += 0.3 * (np.array([214, 218, 224], np.float32) - colours[:, others])
    return colours


def season_trees(trees: Float32, season: Season) -> Float32:
    """The table of trees with the leaves of a season; conifers keep theirs."""
    table = trees.copy()
    broad = (table[:, TREE.shape] != CONE) & (table[:, TREE.shape] != POLE)
    leaves = table[:, TREE.leaf_red : TREE.leaf_blue + 1]
    if season == "spring":
        leaves[broad] += 0.35 * (np.array([138, 170, 78], np.float32) - leaves[broad])
    elif season == "autumn":
        turn = (table[:, TREE.seed] % 97 / 96.0)[:, None]
        fire = np.array([198, 120, 42], np.float32) * turn + np.array([176, 148, 52], np.float32) * (1 - turn)
        leaves[broad] += (0.35 + 0.45 * turn[broad]) * (fire[broad] - leaves[broad])
    elif season in ("winter", "snow"):
        bark = np.array([104, 92, 82], np.float32)
        leaves[broad] += 0.85 * (bark - leaves[broad])
    if season == "snow":
        frosted = table[:, TREE.shape] != POLE
        leaves[frosted] += 0.3 * (np.array([226, 230, 236], np.float32) - leaves[frosted])
    return table
