"""Running the service: what ``x2l serve`` does."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from x2localizer.config import RELEASED, TrackSettings
from x2localizer.encoders import Encoder, open_bundle
from x2localizer.errors import ConfigError, UserError
from x2localizer.gallery import open_gallery
from x2localizer.search import Prior
from x2localizer.serve.allow import Allowed
from x2localizer.serve.app import create_app
from x2localizer.serve.connections import PatientProtocol
from x2localizer.serve.guard import check_exposure
from x2localizer.serve.hub import Hub
from x2localizer.serve.logs import log_config
from x2localizer.serve.settings import ServeSettings

_log = logging.getLogger("x2localizer.serve")


def read_token(path: Path) -> str:
    """The token in a file."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError(f"Cannot read the token in {path}.", "Write one: openssl rand -hex 32 > FILE") from problem
    if not token or not token.isascii() or not token.isprintable() or " " in token or "," in token:
        raise ConfigError(f"{path} holds no usable token.", "Write one: openssl rand -hex 32 > FILE")
    return token


def open_hub(
    gallery: str, bundle: str, state: Path, settings: ServeSettings | None = None, *,
    track: TrackSettings | None = None, prior: Prior | None = None, allowed: Allowed | None = None,
) -> Hub:  # fmt: skip
    """A hub on a gallery, with the bundle that made it; roads alone need none."""
    opened = open_gallery(gallery)
    encoder: Encoder | None = open_bundle(bundle) if opened.has_tiles else None
    return Hub(opened, encoder, state, settings, track=track, prior=prior, allowed=allowed)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 lets the operating system choose."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host.strip("[]"), port))
    except OSError as problem:
        bound.close()
        raise UserError(
            f"Cannot listen on {host}, port {port}: {problem.strerror or problem}.",
            "Choose another --port; is the service running already?",
        ) from problem
    return bound


def serve(
    hub: Hub, *, host: str = "127.0.0.1", port: int = 8471, token: str | None = None, bundle: str = RELEASED,
    pages: Callable[[FastAPI], None] | None = None, announce: Callable[[str], None] = lambda address: None,
    log_level: str = "info",
) -> None:  # fmt: skip
    """Serve until interrupted.

    pages: adds pages to the application, such as the map.
    announce: called with the address when the socket is bound.
    """
    check_exposure(host, token)
    app = create_app(hub, token=token, bundle=bundle)
    if pages is not None:
        pages(app)
    bound = listen(host, port)
    announce(f"http://{host}:{bound.getsockname()[1]}")
    uvicorn.Server(server_config(app, hub.settings, log_level)).run([bound])


def server_config(app: FastAPI, settings: ServeSettings, log_level: str = "info") -> uvicorn.Config:
    """How uvicorn runs the service: JSON logs, no version in headers, bounded messages and waits."""
    return uvicorn.Config(
        app, log_config=log_config(log_level), access_log=False, server_header=False, date_header=False,
        proxy_headers=True, forwarded_allow_ips="127.0.0.1", timeout_keep_alive=30, timeout_graceful_shutdown=5,
        ws_max_size=settings.frame_bytes + 8192, ws_max_queue=4, ws_ping_interval=20.0, ws_ping_timeout=20.0,
        ws_per_message_deflate=False, limit_concurrency=settings.listeners + 1000,
        http=PatientProtocol,
    )  # fmt: skip
