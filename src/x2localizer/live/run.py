"""Everything at once: a service on a town, its map, and cars that drive through it. What ``x2l live`` does."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import uvicorn

from x2localizer.live.drive import Car
from x2localizer.live.mount import add_pages
from x2localizer.serve.app import create_app
from x2localizer.serve.hub import Hub
from x2localizer.serve.run import listen, open_hub, server_config
from x2localizer.town.town import Town
from x2localizer.types import Position

READY_EVERY_S = 0.2


def run_live(
    town: Town, gallery: str, bundle: str, *, port: int = 8471, drive: int = 1, cars: int = 1,
    seconds: float | None = None, announce: Callable[[str], None] = lambda address: None,
) -> int:  # fmt: skip
    """Serve, drive and show until interrupted, or for some seconds; returns how many frames were sent.

    port: 0 lets the operating system choose.
    drive: seed of the first drive of the first car.
    announce: called with the address when the page can be opened.
    """
    beacons: dict[str, Position] = {}
    with tempfile.TemporaryDirectory(prefix="x2l-live-") as state:
        hub = open_hub(gallery, bundle, Path(state))
        app = create_app(hub, bundle=bundle)
        add_pages(app, hub, beacons)
        bound = listen("127.0.0.1", port)
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        server = uvicorn.Server(server_config(app, hub.settings, "warning"))
        traffic = _Traffic(server, hub, address, town, drive, cars, beacons, seconds, announce)
        traffic.start()
        try:
            server.run([bound])
        finally:
            traffic.end()
            bound.close()
    return traffic.frames


class _Traffic(threading.Thread):
    """Starts the cars when the service is ready, and ends the service when the time is over."""

    def __init__(
        self, server: uvicorn.Server, hub: Hub, address: str, town: Town, drive: int, cars: int,
        beacons: dict[str, Position], seconds: float | None, announce: Callable[[str], None],
    ) -> None:  # fmt: skip
        super().__init__(name="traffic", daemon=True)
        self.frames = 0
        self._server, self._hub, self._address, self._seconds, self._announce = server, hub, address, seconds, announce
        self._over = threading.Event()
        self._cars = [
            Car(address, town, drive + 100 * k, f"car {k + 1}" if cars > 1 else "car", beacons, self._count)
            for k in range(cars)
        ]

    def _count(self) -> None:
        self.frames += 1

    def run(self) -> None:
        """Wait, start, wait, stop."""
        while not (self._hub.ready and self._server.started):
            if self._over.wait(READY_EVERY_S):
                return
        self._announce(self._address)
        for car in self._cars:
            car.start()
        self._over.wait(self._seconds)
        for car in self._cars:
            car.stop()
        for car in self._cars:
            car.join(5.0)
        self._server.should_exit = True

    def end(self) -> None:
        """Stop the cars; the service has ended."""
        self._over.set()
        for car in self._cars:
            car.stop()
        self.join(10.0)
