"""A webhook gets every fix as JSON, whatever its server does; and the localizer never waits for it."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from helpers.live_fixes import Drive, fix_at, free_port, wait_for
from x2localizer.sinks.live import open_sinks
from x2localizer.sinks.live import webhook as webhook_module


class _Server(ThreadingHTTPServer):
    """Keeps what it gets; answers with the next of some statuses, then with 204."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[int] = []
        self.requests: list[tuple[str, dict[str, str], Any]] = []

    @property
    def indices(self) -> list[int]:
        """The fixes of all requests."""
        return [fix["index"] for _, _, body in self.requests for fix in body["fixes"]]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = self.server.answers.pop(0) if self.server.answers else 204
        if status < 300:
            self.server.requests.append((self.path, dict(self.headers), body))
        self.send_response(status)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def test_fixes_are_posted_in_order(server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X2L_WEBHOOK_TOKEN", "abc")
    with open_sinks([f"http://127.0.0.1:{server.server_port}/a%2Fb?key=1&x"]) as opened:
        Drive(120, lost=range(5, 6)).feed(opened)
    assert server.indices == list(range(121))
    path, headers, body = server.requests[0]
    assert (path, headers["Authorization"]) == ("/a%2Fb?key=1&x", "Bearer abc")
    first = body["fixes"][0]
    assert first["position"] == {"lat_deg": 48.1, "lon_deg": 11.5}
    assert first["utc"].endswith("Z")
    lost = next(fix for _, _, body in server.requests for fix in body["fixes"] if fix["index"] == 5)
    assert (lost["status"], lost["position"]) == ("lost", None)
    assert lost["guess"] == {"lat_deg": 10.0, "lon_deg": 20.0}
    assert opened.notes() == []


def test_a_server_that_fails_for_a_while_gets_everything(server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_module, "FIRST_PAUSE_S", 0.02)
    server.answers = [500, 503, 429]
    with open_sinks([f"http://127.0.0.1:{server.server_port}/"]) as opened:
        Drive(10).feed(opened)
        wait_for(lambda: len(server.indices) == 11)
    assert server.indices == list(range(11))
    assert opened.notes() == []


def test_what_a_server_refuses_is_dropped_and_told(server: _Server) -> None:
    server.answers = [404]
    with open_sinks([f"http://127.0.0.1:{server.server_port}/secret"]) as opened:
        opened.fix(fix_at(0.0))
        wait_for(lambda: opened.sinks[0].dropped == 1)
        opened.fix(fix_at(1.0))
    assert server.indices == [1]
    [note] = opened.notes()
    assert "answered 404" in note
    assert "secret" not in note


@pytest.mark.parametrize("kind", ["nobody", "silent"])
def test_a_server_that_is_away_holds_up_nobody(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_module, "DRAIN_S", 0.3)
    monkeypatch.setattr(webhook_module, "TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1] if kind == "silent" else free_port()
        began_s = time.monotonic()
        with open_sinks([f"http://127.0.0.1:{port}/"]) as opened:
            Drive(1500, odometry=False).feed(opened)
            assert time.monotonic() - began_s < 10
        assert time.monotonic() - began_s < 15
    [note] = opened.notes()
    assert "1,501 messages" in note
