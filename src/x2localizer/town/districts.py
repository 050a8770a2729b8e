"""Neighbourhoods, each with its own look: what a region can be recognised by.

A kind sets how a neighbourhood is laid out. Each neighbourhood then draws its own palette, trees, lots and markings
within its kind, so that two suburbs of a town differ as those of a real city do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RGB = tuple[float, float, float]
Span = tuple[float, float]

# Surfaces of the ground, in the order of the palette.
LAWN, ASPHALT, PAVEMENT, GARDEN, PARK, PATH, PARKING, PLAZA, WATER, FIELD, YARD, WOOD, BANK = range(13)
SURFACES = 13

# Tree shapes.
ROUND, CONE, POPLAR, POLE = range(4)


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind of neighbourhood is laid out. Lengths in metres, densities per hectare."""

    name: str
    share: float  # how often it is drawn, relative to other kinds
    spacing: tuple[Span, Span] | None  # between parallel streets, and between their cross streets
    half_width: Span  # of a street's asphalt
    pavement: Span  # width of the sidewalk
    setback: Span  # from sidewalk to building
    frontage: Span  # of a building along the street
    depth: Span
    gap: Span  # between neighbours
    storeys: tuple[int, int]
    pitched: float  # share of pitched roofs
    built: float  # share of lots with a building
    infill: float  # attempts to place a building inside blocks, per hectare
    parking: float  # attempts to place a parking lot, per hectare
    street_trees: Span | None  # distance between them
    trees: float  # elsewhere, per hectare
    hedges: float  # share of lots with a hedge or wall at the street
    ground: int  # surface of open ground


KINDS = (
    Kind("downtown", 1.2, ((75, 110), (90, 150)), (4.2, 5.5), (3.0, 4.5), (0, 1.5), (18, 36), (16, 28),
         (0.0, 4.0), (5, 14), 0.0, 0.95, 3.0, 0.7, (14, 24), 2, 0.0, PLAZA),
    Kind("midrise", 1.4, ((70, 95), (85, 140)), (3.8, 5.0), (2.5, 3.5), (0, 1.0), (14, 24), (11, 14),
         (0.0, 0.5), (3, 6), 0.55, 0.97, 1.5, 0.5, (10, 18), 8, 0.0, GARDEN),
    Kind("terraces", 1.2, ((55, 75), (90, 160)), (3.0, 3.8), (1.6, 2.4), (2, 5), (6, 8), (9, 11),
         (0.0, 0.3), (2, 3), 1.0, 0.93, 1.0, 0.3, (14, 40), 14, 0.7, GARDEN),
    Kind("suburb", 2.6, ((65, 95), (95, 170)), (2.9, 3.7), (1.2, 2.0), (5, 10), (9, 15), (8, 12),
         (4.0, 10.0), (1, 2), 0.95, 0.9, 3.0, 0.1, (12, 50), 26, 0.45, LAWN),
    Kind("villas", 1.0, ((85, 120), (120, 200)), (2.8, 3.4), (0.9, 1.6), (8, 16), (13, 20), (11, 16),
         (10.0, 20.0), (2, 3), 0.8, 0.85, 2.0, 0.0, (10, 18), 48, 0.8, LAWN),
    Kind("slabs", 1.0, ((110, 150), (130, 200)), (3.5, 4.5), (2.0, 3.0), (8, 18), (38, 64), (11, 13),
         (18.0, 36.0), (4, 10), 0.0, 0.8, 2.2, 1.0, (16, 30), 26, 0.1, PARK),
    Kind("industrial", 1.0, ((120, 170), (150, 220)), (4.2, 5.2), (1.2, 2.0), (6, 14), (36, 70), (28, 50),
         (10.0, 24.0), (2, 3), 0.15, 0.85, 1.0, 1.6, None, 2, 0.3, YARD),
    Kind("park", 0.6, None, (3, 4), (2, 3), (0, 1), (8, 10), (8, 10),
         (90.0, 200.0), (1, 1), 1.0, 0.25, 0.0, 0.15, (9, 14), 55, 0.0, PARK),
    Kind("woods", 0.3, None, (3, 4), (1, 1.5), (0, 1), (8, 10), (8, 10),
         (120.0, 260.0), (1, 1), 1.0, 0.2, 0.0, 0.0, None, 150, 0.0, WOOD),
    Kind("fields", 0.45, None, (3, 4), (0.8, 1.2), (12, 30), (12, 26), (9, 14),
         (60.0, 180.0), (1, 2), 1.0, 0.5, 0.0, 0.0, (14, 30), 3, 0.3, FIELD),
)  # fmt: skip

ROOF_FAMILIES: tuple[tuple[RGB, ...], ...] = (
    ((176, 88, 60), (190, 108, 74), (158, 78, 56)),  # terracotta
    ((84, 88, 97), (101, 106, 116), (72, 76, 86)),  # slate
    ((122, 88, 66), (138, 104, 80), (104, 76, 60)),  # brown tile
    ((142, 52, 46), (158, 66, 56), (126, 46, 44)),  # dark red
    ((98, 140, 124), (112, 150, 136), (90, 122, 112)),  # old copper
    ((150, 140, 126), (168, 158, 142), (134, 126, 116)),  # cedar, weathered
)
FLAT_FAMILIES: tuple[tuple[RGB, ...], ...] = (
    ((152, 150, 146), (168, 166, 160), (136, 134, 132)),  # gravel
    ((214, 214, 210), (226, 224, 218), (200, 202, 202)),  # white membrane
    ((92, 92, 96), (78, 79, 84), (108, 107, 108)),  # tar
    ((186, 164, 136), (172, 150, 126), (198, 178, 152)),  # tan
    ((128, 148, 118), (142, 156, 122), (118, 136, 112)),  # planted
    ((120, 140, 160), (134, 152, 170), (110, 128, 150)),  # blue metal
)
WALL_FAMILIES: tuple[tuple[RGB, ...], ...] = (
    ((168, 92, 72), (152, 82, 66), (180, 106, 84)),  # brick
    ((226, 212, 182), (232, 222, 198), (216, 200, 170)),  # cream
    ((238, 238, 234), (226, 228, 228), (244, 242, 236)),  # white
    ((222, 186, 112), (230, 200, 132), (208, 170, 100)),  # ochre
    ((204, 152, 140), (214, 168, 156), (192, 138, 130)),  # rose
    ((160, 162, 164), (146, 148, 150), (176, 176, 174)),  # concrete
    ((128, 148, 166), (142, 160, 176), (116, 136, 156)),  # blue-grey
    ((150, 124, 98), (166, 140, 112), (136, 112, 90)),  # timber
    ((146, 164, 138), (160, 176, 150), (134, 152, 128)),  # sage
)
PAVEMENTS: tuple[RGB, ...] = ((176, 174, 168), (196, 188, 170), (168, 122, 104), (142, 144, 148), (206, 202, 194))
ASPHALTS: tuple[RGB, ...] = ((72, 73, 77), (92, 92, 94), (112, 111, 108), (132, 128, 122), (104, 92, 88))
LEAVES: tuple[RGB, ...] = ((66, 104, 46), (84, 118, 52), (52, 90, 50), (100, 122, 56), (60, 96, 70))

# Markings of a street: nothing, dashed white, solid white, double yellow.
NO_MARKING, DASHED, SOLID, YELLOW = range(4)


@dataclass(frozen=True, slots=True)
class District:
    """A neighbourhood: its kind, and what all its streets and houses have in common."""

    kind: Kind
    angle: float  # radians, of its street grid
    spacing: tuple[float, float]
    half_width: float
    pavement_width: float
    setback: float
    height_scale: float
    marking: int
    roofs: tuple[RGB, ...]
    flats: tuple[RGB, ...]
    walls: tuple[RGB, ...]
    colours: tuple[RGB, ...]  # one per surface, in summer
    species: tuple[int, int]  # tree shapes along streets and elsewhere
    leaf: RGB
    tree_scale: float
    tree_spacing: float | None


def _between(rng: np.random.Generator, span: Span) -> float:
    return float(rng.uniform(*span))


def _shade(rng: np.random.Generator, colour: RGB, spread: float) -> RGB:
    """A similar colour: a random shift in brightness, and a smaller one in hue."""
    common = rng.normal(0, spread)
    r, g, b = (float(np.clip(value + common + rng.normal(0, spread * 0.5), 8, 250)) for value in colour)
    return r, g, b


def _colours(rng: np.random.Generator) -> tuple[RGB, ...]:
    """Colours of the ground in a neighbourhood, one per surface."""
    asphalt = ASPHALTS[rng.integers(len(ASPHALTS))]
    pavement = PAVEMENTS[rng.integers(len(PAVEMENTS))]
    green: RGB = ((96, 128, 62), (116, 136, 74), (82, 118, 58), (128, 132, 80))[rng.integers(4)]
    field: RGB = ((178, 160, 92), (132, 142, 70), (150, 122, 84), (196, 178, 112))[rng.integers(4)]
    base: tuple[RGB, ...] = (
        green, asphalt, pavement, (108, 116, 72), (84, 122, 58), (192, 176, 142), asphalt,
        PAVEMENTS[rng.integers(len(PAVEMENTS))], (54, 84, 98), field, (158, 152, 142), (74, 84, 50), (142, 132, 96),
    )  # fmt: skip
    spread = (9, 5, 6, 9, 8, 8, 7, 8, 3, 10, 8, 7, 6)
    return tuple(_shade(rng, colour, s) for colour, s in zip(base, spread, strict=True))


def draw_district(rng: np.random.Generator, kind: Kind) -> District:
    """A random neighbourhood of a kind."""
    roofs = ROOF_FAMILIES[rng.integers(len(ROOF_FAMILIES))]
    flats = FLAT_FAMILIES[rng.integers(len(FLAT_FAMILIES))]
    first, second = rng.choice(len(WALL_FAMILIES), 2, replace=False)
    walls = WALL_FAMILIES[first] + WALL_FAMILIES[second][: int(rng.integers(0, 3))]
    spacing = kind.spacing or ((400.0, 400.0), (400.0, 400.0))
    shapes = (ROUND, ROUND, CONE, POPLAR)
    return District(
        kind=kind,
        angle=float(rng.uniform(0, np.pi / 2)),
        spacing=(_between(rng, spacing[0]), _between(rng, spacing[1])),
        half_width=_between(rng, kind.half_width),
        pavement_width=_between(rng, kind.pavement),
        setback=_between(rng, kind.setback),
        height_scale=float(rng.uniform(0.75, 1.3)),
        marking=int(rng.choice((NO_MARKING, NO_MARKING, DASHED, SOLID, YELLOW))),
        roofs=tuple(_shade(rng, colour, 7) for colour in roofs),
        flats=tuple(_shade(rng, colour, 7) for colour in flats),
        walls=tuple(_shade(rng, colour, 6) for colour in walls),
        colours=_colours(rng),
        species=(shapes[rng.integers(4)], shapes[rng.integers(4)]),
        leaf=_shade(rng, LEAVES[rng.integers(len(LEAVES))], 7),
        tree_scale=float(rng.uniform(0.75, 1.3)),
        tree_spacing=None if kind.street_trees is None or rng.uniform() < 0.2 else _between(rng, kind.street_trees),
    )


def draw_districts(rng: np.random.Generator, sites: np.ndarray, size_m: float) -> tuple[District, ...]:
    """A neighbourhood for each site (n, 2): dense kinds near the middle of the town, open ones near its border."""
    middle = np.array([size_m, size_m]) * rng.uniform(0.35, 0.65, 2)
    districts = []
    for site in sites:
        outward = float(np.hypot(*(site - middle)) / (0.5 * size_m))
        weights = np.array([kind.share * _lean(kind.name, outward) for kind in KINDS])
        districts.append(draw_district(rng, KINDS[rng.choice(len(KINDS), p=weights / weights.sum())]))
    return tuple(districts)


def _lean(name: str, outward: float) -> float:
    """Weight of a kind at a place; ``outward`` is 0 in the middle of the town and about 1 at its border."""
    if name in ("downtown", "midrise"):
        return max(0.1, 2.2 - 2.2 * outward)
    if name in ("fields", "woods", "villas"):
        return max(0.1, outward)
    return 1.0
