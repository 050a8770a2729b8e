"""A drive: a car with a camera follows a route through a town, under some conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from x2localizer.town.boxes import LOT
from x2localizer.town.columns import BOX, X, Y
from x2localizer.town.districts import RGB
from x2localizer.town.layers import Float32
from x2localizer.town.noise import stream
from x2localizer.town.place import Bounds, bounds_around
from x2localizer.town.route import STEP_M, Route, draw_route, drive_times, headings
from x2localizer.town.scene import CAMERA_HEIGHT_M, Camera, Look, Scene, build_scene, camera_at
from x2localizer.town.seasons import season_palette, season_trees
from x2localizer.town.street import VIEW_M, render
from x2localizer.town.town import Town
from x2localizer.town.traffic import PAINTS, car_rows, parked_cars
from x2localizer.town.weather import Conditions, draw_conditions, fair_weather, make_look
from x2localizer.types import Floats, Frame, Image, Region

MOVING_CARS = 6
"""The most other cars that move on a route."""
FOV_DEG = 65.0


@dataclass(frozen=True, slots=True, eq=False)
class Shake:
    """How the camera swings with the car: sums of three waves, (2, 3) for yaw and pitch."""

    amplitude: Floats  # radians
    frequency: Floats  # radians per second
    phase: Floats  # radians

    def at(self, time_s: float) -> tuple[float, float]:
        """Yaw and pitch in radians."""
        yaw, pitch = (self.amplitude * np.sin(self.frequency * time_s + self.phase)).sum(1)
        return float(yaw), float(pitch)


@dataclass(frozen=True, slots=True)
class MovingCar:
    """Another car on the route: it drives ahead of the camera, or comes toward it in the other lane."""

    start_m: float  # ahead of the camera; for an oncoming car, along the route at time 0
    speed_m_s: float  # of an oncoming car
    oncoming: bool
    paint: RGB
    scale: float


@dataclass(frozen=True, slots=True, eq=False)
class Drive:
    """Where the car is at any time, how the camera shakes, and which other cars are on the route."""

    seed: int
    route: Route
    times_s: Floats  # (k,) from 0
    distances_m: Floats  # (k,) along the route at those times
    conditions: Conditions
    shake: Shake
    mount_yaw: float  # radians by which the camera is mounted off the car's heading
    mount_pitch: float
    traffic: tuple[MovingCar, ...]  # at most MOVING_CARS
    fov_deg: float = FOV_DEG  # of the camera, from its left edge to its right edge
    camera_m: float = CAMERA_HEIGHT_M  # of the camera, above ground

    @property
    def duration_s(self) -> float:
        """How long the drive lasts, at least as long as asked for."""
        return float(self.times_s[-1])

    def places(self, times_s: Floats) -> tuple[Floats, Floats, Floats]:
        """Map metres x and y and headings (radians clockwise from north) of the car at times, (n,) each."""
        distance = np.interp(times_s, self.times_s, self.distances_m)
        return _along(self.route.lane, distance)

    def speeds(self, times_s: Floats) -> Floats:
        """Speeds in metres per second at times."""
        return np.interp(times_s, self.times_s, np.gradient(self.distances_m, self.times_s))


def _along(line: Floats, distance: Floats) -> tuple[Floats, Floats, Floats]:
    """Map metres x and y and headings at distances along a polyline with points STEP_M apart."""
    at = np.clip(distance / STEP_M, 0.0, len(line) - 1.001)
    i = at.astype(int)
    x, y = (line[i] + (at - i)[:, None] * (line[i + 1] - line[i])).T
    bearing = headings(line)
    return x, y, bearing[i] + (at - i) * (bearing[i + 1] - bearing[i])


def region_bounds(town: Town, region: Region, margin_m: float = 6.0) -> Bounds:
    """A region in map metres, ``margin_m`` smaller on every side."""
    x, y = town.place.corner_m(region)
    side = region.n * town.place.tile_m
    return Bounds(x + margin_m, y + margin_m, x + side - margin_m, y + side - margin_m)


def draw_drive(
    town: Town,
    seed: int,
    duration_s: float,
    bounds: Bounds | None = None,
    *,
    night: bool = False,
    fair: bool = False,
    fov_deg: float = FOV_DEG,
) -> Drive | None:
    """A drive inside some bounds (by default the town without its outermost tiles); None if no road is long enough.

    A ``fair`` drive is at noon on a clear day, on empty roads, in the season of the imagery.
    """
    rng = stream(town.seed, "drive", seed)
    tile, size = town.place.tile_m, town.place.size_m
    bounds = bounds or Bounds(tile, tile, size - tile, size - tile)
    least_m = min(5.0 * duration_s, 170.0 * max(1.0, duration_s / 35.0))
    route = draw_route(rng, town.plan, bounds, duration_s * 11.0, least_m)
    if route is None:
        return None
    times, distances = drive_times(rng, route, duration_s)
    conditions = draw_conditions(rng, town.season, night)
    if fair:
        conditions = fair_weather(conditions, town.season)
    shake = _draw_shake(rng)
    yaw, pitch = float(np.radians(rng.normal(0, 1.2))), float(np.radians(rng.normal(0, 1.0)))
    return Drive(seed, route, times, distances, conditions, shake, yaw, pitch, _draw_traffic(rng, conditions), fov_deg)


def with_camera(drive: Drive, rng: np.random.Generator) -> Drive:
    """The same drive with another camera: behind the windscreen of a van, say, and with a wider lens."""
    conditions = replace(
        drive.conditions,
        exposure=float(np.exp(rng.normal(0, 0.25))),
        warmth=float(rng.normal(0, 0.06)),
        noise=drive.conditions.noise * float(rng.uniform(0.7, 1.6)),
    )
    return replace(
        drive,
        conditions=conditions,
        fov_deg=float(rng.uniform(50.0, 90.0)),
        camera_m=float(rng.uniform(1.1, 2.4)),
        mount_yaw=float(np.radians(rng.normal(0, 2.5))),
        mount_pitch=float(np.radians(rng.normal(0, 1.8))),
    )


def _draw_shake(rng: np.random.Generator) -> Shake:
    waves = [
        (rng.uniform(0.1, 0.5, 3) * np.radians(size_deg), rng.uniform(0.4, 5.0, 3), rng.uniform(0, 6.3, 3))
        for size_deg in (1.2, 0.6)
    ]
    amplitude, frequency, phase = (np.stack(parts) for parts in zip(*waves, strict=True))
    return Shake(amplitude, frequency, phase)


def _draw_traffic(rng: np.random.Generator, conditions: Conditions) -> tuple[MovingCar, ...]:
    """The other cars. All are drawn and then some are kept, so that every drive takes as many random numbers."""
    cars = []
    for k in range(MOVING_CARS):
        ahead = k == 0 and rng.uniform() < 0.4
        start = rng.uniform(11, 26) if ahead else (rng.uniform(20, 140) + 90.0 * k) * 3.0
        speed, paint = rng.uniform(7, 12), PAINTS[int(rng.integers(len(PAINTS)))]
        cars.append(MovingCar(float(start), float(speed), not ahead, paint, 1.0 + 0.04 * (k % 4)))
    return tuple(cars[: round(conditions.traffic * MOVING_CARS)])


@dataclass(frozen=True, slots=True, eq=False)
class Film:
    """A drive that is ready to be filmed: the scene around it and its light."""

    town: Town
    drive: Drive
    scene: Scene
    look: Look
    palette: Float32
    height: int
    width: int

    def camera(self, time_s: float) -> Camera:
        """The camera at a time, shaking with the car."""
        x, y, heading = (float(v[0]) for v in self.drive.places(np.array([time_s])))
        yaw, pitch = self.drive.shake.at(time_s)
        heading, pitch = heading + self.drive.mount_yaw + yaw, self.drive.mount_pitch + pitch
        return camera_at(x, y, heading, self.height, self.width, self.drive.fov_deg, pitch, self.drive.camera_m)

    def image(self, time_s: float) -> Image:
        """The frame at a time, (height, width, 3)."""
        self.scene.boxes[self.scene.first_mover :] = self._moving(time_s)
        return render(
            self.camera(time_s), self.scene, self.look, self.town.layers, self.town.boxes, self.palette,
            frame_seed=int(time_s * 1000) + self.drive.conditions.seed % 65521,
        )  # fmt: skip

    def frames(self, times_s: Floats) -> Iterator[Frame]:
        """The frames at some times."""
        for index, time_s in enumerate(times_s):
            yield Frame(index, float(time_s), self.image(float(time_s)))

    def _moving(self, time_s: float) -> Float32:
        """Rows of the table of boxes for the moving cars, two for each; cars out of sight are far off the map."""
        rows = np.zeros((2 * MOVING_CARS, len(BOX)), np.float32)
        rows[:, BOX.x], rows[:, BOX.y], rows[:, BOX.axis_x] = -1e6, -1e6, 1.0
        own = float(np.interp(time_s, self.drive.times_s, self.drive.distances_m))
        line, middle = self.drive.route.lane, self.drive.route.centre
        for k, car in enumerate(self.drive.traffic):
            if car.oncoming:
                at = car.start_m - car.speed_m_s * time_s
            else:
                at = own + car.start_m + 4.0 * np.sin(0.3 * time_s)
            if not 0 < at < (len(line) - 2) * STEP_M or (car.oncoming and at < own - 12.0):
                continue
            x, y, heading = (float(v[0]) for v in _along(line, np.array([at])))
            if car.oncoming:  # mirrored at the middle of the road
                i = int(at / STEP_M)
                x, y, heading = 2 * middle[i, X] - x, 2 * middle[i, Y] - y, heading + np.pi
            ux, uy = float(np.sin(heading)), float(-np.cos(heading))
            rows[2 * k : 2 * k + 2] = car_rows(x, y, ux, uy, car.paint, car.scale)
        return rows


def open_film(town: Town, drive: Drive, height: int, width: int) -> Film:
    """Prepare the scene and the light to film a drive; ``height`` and ``width`` of the frames in pixels."""
    far, near = bounds_around(drive.route.lane, VIEW_M), bounds_around(drive.route.lane, 160.0)
    rng = stream(town.seed, "parked", drive.seed)
    cars = parked_cars(rng, town.plan, town.boxes, near, 0.1 + 0.45 * drive.conditions.traffic)
    standing = np.concatenate([town.boxes[town.boxes[:, BOX.kind] < LOT], cars])
    trees = season_trees(town.trees, drive.conditions.season)
    scene = build_scene(standing, trees, far, 2 * MOVING_CARS)
    look = make_look(drive.conditions, town.layers, town.trees, near, town.seed)
    colours = season_palette(town.colours, drive.conditions.season)
    return Film(town, drive, scene, look, colours, height, width)
