"""A car that drives through a town and sends what its camera sees: for demonstrations, benches and tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from x2localizer.errors import UserError
from x2localizer.serve.answers import Answer
from x2localizer.serve.pictures import small_jpeg
from x2localizer.serve.samples import Sample
from x2localizer.serve.session import Session
from x2localizer.town.drive import Drive, Film, draw_drive, open_film
from x2localizer.town.sensors import RATE_HZ, sensor_motion
from x2localizer.town.town import Town
from x2localizer.types import Image, Position

FRAMES_PER_S = 7.0
"""Of a session that measures its odometry in the frames."""


@dataclass(frozen=True)
class TownCar:
    """A drive through a town with a camera, a wheel sensor and a gyroscope.

    seconds: how long it lasts.
    """

    town: Town
    drive: Drive
    film: Film
    seconds: float

    @staticmethod
    def on(
        town: Town, seed: int, seconds: float, *, height: int = 216, width: int = 384, night: bool = False
    ) -> TownCar:
        """A car on one of a town's drives; ``height`` and ``width`` of its frames in pixels."""
        drive = draw_drive(town, seed, seconds, night=night)
        if drive is None:
            raise UserError(f"Town {town.seed} has no road for such a drive.", "Try another seed or fewer seconds.")
        return TownCar(town, drive, open_film(town, drive, height, width), seconds)

    def image(self, time_s: float) -> Image:
        """What the camera sees."""
        return next(iter(self.film.frames(np.array([time_s])))).image

    def jpeg(self, time_s: float) -> bytes:
        """The same as a JPEG."""
        return small_jpeg(self.image(time_s), width=10_000, quality=85)

    def truth(self, time_s: float) -> Position:
        """Where the car is."""
        lats, lons = self.town.place.to_degrees(*self.drive.places(np.array([time_s]))[:2])
        return Position(float(lats[0]), float(lons[0]))

    @cached_property
    def samples(self) -> list[Sample]:
        """What its sensors say, ten times a second."""
        record = sensor_motion(self.town.seed, self.drive, np.array([0.0, self.seconds]))
        speeds = np.gradient(record.distances_m, record.times_s)
        yaw_rates = np.gradient(record.headings_deg, record.times_s)
        return [Sample(float(t), float(v), float(w)) for t, v, w in zip(record.times_s, speeds, yaw_rates, strict=True)]

    def samples_between(self, start_s: float, end_s: float) -> Sequence[Sample]:
        """Samples after a time, up to and with another."""
        first, last = (int(np.floor(t * RATE_HZ + 1e-6)) + 1 for t in (start_s, end_s))
        return self.samples[max(first, 0) : max(last, 0)]


async def drive_session(car: TownCar, session: Session, *, pace: float = 1.0) -> AsyncIterator[Answer]:
    """Send a drive to a session as it happens; the answers, as they come.

    pace: seconds of driving per second; 1 is real time. On a machine that is slower, overdue frames are left out.
    """
    own = session.options.odometry == "frames"
    spacing_s = 1.0 / FRAMES_PER_S if own else 1.0
    loop, began, sent_s = asyncio.get_running_loop(), time.monotonic(), -1.0
    at_s = 0.0
    while at_s <= car.seconds and session.is_open:
        await asyncio.sleep(max(0.0, began + at_s / pace - time.monotonic()))
        jpeg = await loop.run_in_executor(None, car.jpeg, at_s)
        if not own:
            await session.add_odometry(car.samples_between(sent_s, at_s))
            sent_s = at_s
        yield await session.push(jpeg, at_s)
        late = int((time.monotonic() - began) * pace / spacing_s) * spacing_s
        at_s = max(at_s + spacing_s, late)
