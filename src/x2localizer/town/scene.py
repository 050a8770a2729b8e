"""What the street view is rendered from: a camera, the boxes and trees around it in a grid, and the light."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from x2localizer.compiled import compiled
from x2localizer.town.boxes import box_reach
from x2localizer.town.columns import BOX, TREE
from x2localizer.town.layers import Float32
from x2localizer.town.place import Bounds
from x2localizer.types import Floats

CELL_M = 16.0
"""Side of a cell of the grid that rays walk."""
CAMERA_HEIGHT_M = 1.5
Int32 = npt.NDArray[np.int32]


class Camera(NamedTuple):
    """A pinhole at map metres (x, y), ``z`` above ground, that looks level toward ``heading``."""

    x: float
    y: float
    z: float
    heading: float  # radians clockwise from north
    focal: float  # pixels
    horizon: float  # row of the horizon
    height: int  # pixels
    width: int


def camera_at(
    x: float, y: float, heading: float, height: int, width: int, fov_deg: float = 65.0, pitch: float = 0.0,
    above_m: float = CAMERA_HEIGHT_M,
) -> Camera:  # fmt: skip
    """A camera ``above_m`` above ground; ``heading`` and ``pitch`` in radians, a positive pitch looks up."""
    focal = 0.5 * width / float(np.tan(np.radians(fov_deg) / 2))
    return Camera(x, y, above_m, heading, focal, 0.55 * height + pitch * focal, height, width)


def project(camera: Camera, points: Floats) -> Floats:
    """Columns, rows and depths in metres, (k, 3), of points (k, 3): map metres and height above ground.

    Points behind the camera have a depth of zero or less, and their column and row are meaningless.
    """
    x, y, z = points.T
    dx, dy = x - camera.x, y - camera.y
    sine, cosine = np.sin(camera.heading), np.cos(camera.heading)
    depth = dx * sine - dy * cosine
    safe = np.where(np.abs(depth) < 1e-9, 1e-9, depth)
    column = camera.width / 2 + camera.focal * (dx * cosine + dy * sine) / safe
    row = camera.horizon - camera.focal * (z - camera.z) / safe
    return np.stack([column, row, depth], axis=1)


class Scene(NamedTuple):
    """Boxes and trees in a grid of cells. Boxes from index ``first_mover`` on move, so every ray tries them."""

    boxes: Float32
    trees: Float32
    first_mover: int
    start: Int32  # (cells + 1,) where the items of each cell begin
    items: Int32  # indices of boxes, and -1 - index of trees
    rows: int  # cells
    columns: int
    x0: float  # map metres of the north-west corner
    y0: float
    last_ray: Int32  # scratch: the last ray that tried each box, then each tree


class Look(NamedTuple):
    """Light, weather and camera response. Colours are (3,) arrays; a light of 1 shows a colour as it is.

    Shadows and lamp light are patches: rasters of ``patch_m`` metres per pixel from map metres (patch_x, patch_y).
    """

    sun_x: float  # unit vector to the sun, x east, y south, z up
    sun_y: float
    sun_z: float
    sun_flat: float  # strength of the sun on walls
    sun: Float32  # light of the sun
    ambient: Float32  # light from everywhere
    sky_top: Float32
    sky_low: Float32  # colour of the sky at the horizon
    haze: Float32  # colour that far things fade to
    haze_per_m: float
    cloud: float  # share of the sky that clouds cover, about
    cloud_rgb: Float32
    sun_glow: float  # of the sky around the sun, 0 to 1
    night: float  # 0 or 1
    lamp: Float32  # light of street lamps
    wet: float  # how much the ground mirrors the sky, 0 to 1
    bare: float  # how leafless broad-leaved trees are, 0 to 1
    gain: Float32  # exposure and white balance, per channel
    vignette: float
    noise: float  # of the sensor, in grey levels
    seed: int  # of the clouds
    ground_seed: int  # of the town
    shadow: Float32  # heights in metres below which a place is in shadow
    lamps: Float32  # strength of lamp light, 0 to about 1
    patch_x: float
    patch_y: float
    patch_m: float


@compiled
def _fill_grid(
    boxes: Float32, trees: Float32, x0: float, y0: float, rows: int, columns: int, start: Int32, items: Int32,
    write: bool,
) -> int:  # fmt: skip
    """Count how many cells each box and tree touches; with ``write``, also write them to the cells' ``items``.

    ``start`` counts the items of each cell up from its values, which for writing are the cells' first places.
    """
    total = 0
    for i in range(boxes.shape[0] + trees.shape[0]):
        if i < boxes.shape[0]:
            ax, ay = box_reach(boxes, i)
            x, y, code = boxes[i, BOX.x], boxes[i, BOX.y], i
        else:
            k = i - boxes.shape[0]
            x, y, ax, code = trees[k, TREE.x], trees[k, TREE.y], trees[k, TREE.crown], -1 - k
            ay = ax
        c0, c1 = max(0, int((x - ax - x0) / CELL_M)), min(columns - 1, int((x + ax - x0) / CELL_M))
        r0, r1 = max(0, int((y - ay - y0) / CELL_M)), min(rows - 1, int((y + ay - y0) / CELL_M))
        for r in range(r0, r1 + 1):
            for c in range(c0, c1 + 1):
                cell = r * columns + c
                if write:
                    items[start[cell]] = code
                start[cell] += 1
                total += 1
    return total


def build_scene(boxes: Float32, trees: Float32, bounds: Bounds, movers: int) -> Scene:
    """The boxes and trees inside some bounds, with room for ``movers`` boxes that are set frame by frame."""
    still = boxes[bounds.contains(boxes[:, BOX.x], boxes[:, BOX.y])]
    crowns = trees[bounds.contains(trees[:, TREE.x], trees[:, TREE.y])]
    x0, y0 = bounds.west, bounds.north
    rows, columns = int((bounds.south - y0) / CELL_M) + 1, int((bounds.east - x0) / CELL_M) + 1
    counts = np.zeros(rows * columns + 1, np.int32)
    total = _fill_grid(still, crowns, x0, y0, rows, columns, counts, np.zeros(0, np.int32), False)
    start = np.zeros(rows * columns + 1, np.int32)
    start[1:] = np.cumsum(counts[:-1])
    items = np.zeros(total, np.int32)
    _fill_grid(still, crowns, x0, y0, rows, columns, start[:-1].copy(), items, True)
    room = np.zeros((movers, len(BOX)), np.float32)
    room[:, BOX.axis_x] = 1.0
    everything = np.concatenate([still, room]).astype(np.float32)
    last_ray = np.full(len(everything) + len(crowns), -1, np.int32)
    return Scene(everything, crowns, len(still), start, items, rows, columns, x0, y0, last_ray)
