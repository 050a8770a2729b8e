"""Cars that drive through a town in real time, and send what their camera and their sensors say to a service."""

from __future__ import annotations

import io
import logging
import threading
import time
from collections.abc import Callable

import numpy as np
from PIL import Image as Pillow

from x2localizer.errors import UserError
from x2localizer.serve.client import Client, ClientSession
from x2localizer.town.drive import FOV_DEG, Drive, draw_drive, open_film
from x2localizer.town.sensors import sensor_motion
from x2localizer.town.town import Town
from x2localizer.types import Floats, Image, Position

FRAMES_PER_S = 2.0
DRIVE_S = 300.0
"""Length of a drive; then the car starts somewhere else, in a session of its own."""
HEIGHT, WIDTH = 216, 384
_log = logging.getLogger("x2localizer.live")


class Car(threading.Thread):
    """Drives until it is stopped.

    seed: of its first drive; the next ones follow.
    beacons: where it says where it really is, for the map.
    moved: called after every frame that was sent.
    """

    def __init__(
        self, address: str, town: Town, seed: int, name: str, beacons: dict[str, Position],
        moved: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        super().__init__(name=name, daemon=True)
        self._address, self._town, self._seed, self._beacons, self._moved = address, town, seed, beacons, moved
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the drive."""
        self._stopped.set()

    def run(self) -> None:
        """Drive after drive."""
        seed = self._seed
        while not self._stopped.is_set():
            drive = draw_drive(self._town, seed, DRIVE_S)
            seed += 1
            if drive is None:  # no road is long enough from there
                continue
            try:
                self._drive(drive)
            except UserError as problem:
                if not self._stopped.wait(2.0):
                    _log.warning("the car lost the service", extra={"reason": problem.what})
            finally:
                self._beacons.pop(self._beacon, None)

    @property
    def _beacon(self) -> str:
        return f"{self.name}: where it really is"

    def _drive(self, drive: Drive) -> None:
        film = open_film(self._town, drive, HEIGHT, WIDTH)
        samples = _Samples(self._town, drive)
        with Client(self._address) as client:
            session = client.create(
                name=f"{self.name}, drive {drive.seed}", odometry="samples", camera={"fov_deg": FOV_DEG}
            )
            start, time_s = time.monotonic(), 0.0
            while time_s <= DRIVE_S and not self._stopped.is_set():
                self._show(drive, time_s)
                try:
                    self._send(session, samples, film.image(time_s), time_s)
                except UserError as problem:  # an answer that was lost; what comes next may get through
                    if not self._stopped.is_set():
                        _log.warning("a frame got no answer", extra={"reason": problem.what})
                # A machine that is too slow for a frame leaves it out, as a camera would.
                time_s = max(time_s + 1.0 / FRAMES_PER_S, _last_before(time.monotonic() - start))
                self._stopped.wait(max(0.0, start + time_s - time.monotonic()))
            session.end()

    def _send(self, session: ClientSession, samples: _Samples, image: Image, time_s: float) -> None:
        new = samples.until(time_s)
        if new:
            session.odometry(new)
        session.frame(_jpeg(image), time_s)
        self._moved()

    def _show(self, drive: Drive, time_s: float) -> None:
        x, y, _ = drive.places(np.array([time_s]))
        lats, lons = self._town.place.to_degrees(x, y)
        self._beacons[self._beacon] = Position(float(lats[0]), float(lons[0]))


class _Samples:
    """What the sensors of a drive say, ten times a second, handed out as time goes on."""

    def __init__(self, town: Town, drive: Drive) -> None:
        record = sensor_motion(town.seed, drive, np.array([0.0, DRIVE_S]))
        self._times_s: Floats = record.times_s
        self._speeds: Floats = np.gradient(record.distances_m, record.times_s)
        self._yaw_rates: Floats = np.gradient(record.headings_deg, record.times_s)
        self._next = 0

    def until(self, time_s: float) -> list[dict[str, float]]:
        """The samples up to a time that were not handed out yet."""
        end = int(np.searchsorted(self._times_s, time_s + 1e-6, "right"))
        new = range(self._next, end)
        self._next = max(end, self._next)
        return [
            {
                "time_s": float(self._times_s[k]), "speed_m_s": float(self._speeds[k]),
                "yaw_rate_deg_s": float(self._yaw_rates[k]),
            }
            for k in new
        ]  # fmt: skip


def _last_before(time_s: float) -> float:
    """The time of the last frame that was due before a time."""
    return float(np.floor(time_s * FRAMES_PER_S)) / FRAMES_PER_S


def _jpeg(image: Image) -> bytes:
    out = io.BytesIO()
    Pillow.fromarray(image).save(out, "JPEG", quality=85)
    return out.getvalue()
