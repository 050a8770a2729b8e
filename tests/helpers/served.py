"""A service on loopback, in a thread of this process; and a town to drive through."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import uvicorn
from PIL import Image as Pillow

from x2localizer.config import TrackSettings
from x2localizer.encoders import Bundle
from x2localizer.gallery import Gallery
from x2localizer.serve.allow import Allowed
from x2localizer.serve.app import create_app
from x2localizer.serve.client import Client
from x2localizer.serve.hub import Hub
from x2localizer.serve.run import listen, server_config
from x2localizer.serve.settings import ServeSettings
from x2localizer.types import Image

FEW_POSES = TrackSettings(start_poses=4_000, most_poses=4_000, unclear_poses=2_000, least_poses=1_000)
PATIENT = ServeSettings(answer_within_s=30.0, requests_per_s=100_000.0, track=FEW_POSES)
"""Few poses, and bounds that a busy machine does not reach."""


def jpeg(seed: int = 0, height: int = 48, width: int = 96) -> bytes:
    """A frame that shows something."""
    rng = np.random.default_rng(seed)
    image = np.kron(rng.integers(0, 255, (height // 8, width // 8, 3), np.uint8), np.ones((8, 8, 1), np.uint8))
    return to_jpeg(image)


def to_jpeg(image: Image) -> bytes:
    """Pixels as a JPEG."""
    out = io.BytesIO()
    Pillow.fromarray(image).save(out, "JPEG", quality=85)
    return out.getvalue()


def samples(
    start_s: float, end_s: float, speed_m_s: float = 9.0, yaw_rate_deg_s: float = 1.0
) -> list[dict[str, float]]:
    """Ten samples a second of a steady drive."""
    times = np.arange(round(start_s * 10), round(end_s * 10)) / 10
    return [{"time_s": float(t), "speed_m_s": speed_m_s, "yaw_rate_deg_s": yaw_rate_deg_s} for t in times]


@dataclass(frozen=True)
class Served:
    """A running service."""

    address: str
    hub: Hub
    server: uvicorn.Server
    loop_thread: threading.Thread

    def client(self, token: str | None = None) -> Client:
        """A client of it."""
        return Client(self.address, token, timeout_s=60.0)


@contextmanager
def served(
    gallery: Gallery, bundle: Bundle | None, folder: Path, settings: ServeSettings = PATIENT, *,
    token: str | None = None, allowed: Allowed | None = None,
) -> Iterator[Served]:  # fmt: skip
    """Run a service until the block ends."""
    hub = Hub(gallery, bundle, folder, settings, allowed=allowed)
    app = create_app(hub, token=token, bundle=str(bundle.root) if bundle is not None else "town")
    config = server_config(app, hub.settings, "warning")
    config.log_config = None
    server = uvicorn.Server(config)
    bound = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        for _ in range(600):
            if server.started or not thread.is_alive():
                break
            time.sleep(0.1)
        assert server.started
        yield Served(f"http://127.0.0.1:{bound.getsockname()[1]}", hub, server, thread)
    finally:
        server.should_exit = True
        thread.join(60.0)
        bound.close()
