"""Who may ask: tokens, other sites, other hosts, limits; and what the service reads by itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from helpers.command_line import x2l
from helpers.served import PATIENT, Served, jpeg, served
from x2localizer.encoders import Bundle
from x2localizer.errors import ConfigError, UserError
from x2localizer.gallery import Gallery
from x2localizer.serve.allow import Allowed
from x2localizer.serve.errors import ForbiddenError
from x2localizer.serve.guard import check_exposure, is_loopback
from x2localizer.serve.logs import JsonLines

TOKEN = "a-secret-of-the-tests-0123456789"


@pytest.fixture(scope="module")
def closed(served_gallery: Gallery, tiny_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(served_gallery, tiny_bundle, tmp_path_factory.mktemp("closed"), token=TOKEN) as running:
        yield running


def test_without_the_token_nothing_but_health_is_answered(closed: Served) -> None:
    for path, status in (("/healthz", 200), ("/readyz", 200), ("/v1/sessions", 401), ("/metrics", 401),
                         ("/v1/openapi.json", 401), ("/", 401), ("/nothing", 401)):  # fmt: skip
        assert httpx.get(closed.address + path).status_code == status
    assert httpx.get(closed.address + "/v1/sessions").headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"])
def test_a_wrong_token_is_refused(closed: Served, given: str) -> None:
    answer = httpx.get(closed.address + "/v1/sessions", headers={b"authorization": given.encode("utf-8")})
    assert answer.status_code == 401


def test_a_token_in_the_address_does_not_count(closed: Served) -> None:
    for name in ("token", "access_token", "authorization"):
        assert httpx.get(f"{closed.address}/v1/sessions", params={name: TOKEN}).status_code == 401


def test_with_the_token_everything_works(closed: Served) -> None:
    with closed.client(TOKEN) as client:
        assert client.create(odometry="samples").frame(jpeg(), 0.0)["outcome"] == "fix"
        assert "bearer" in str(client.request("GET", "/v1/openapi.json").json()["components"]["securitySchemes"])


def test_a_socket_takes_the_token_as_a_header_or_a_subprotocol(closed: Served) -> None:
    with closed.client(TOKEN) as client:
        session = client.create(odometry="samples")
    address = f"{closed.address.replace('http', 'ws')}/v1/sessions/{session.id}/socket"
    with connect(address, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as connection:
        assert "hello" in str(connection.recv())
    with connect(address, subprotocols=[Subprotocol("x2l.v1"), Subprotocol(f"bearer.{TOKEN}")]) as connection:
        assert "hello" in str(connection.recv())
        assert connection.subprotocol == "x2l.v1"
    for bad in ({"additional_headers": {"Authorization": "Bearer no"}}, {"subprotocols": ["bearer.no"]}, {}):
        with pytest.raises(InvalidStatus):
            connect(address + f"?token={TOKEN}", **bad)


def test_a_browser_logs_in_once(closed: Served) -> None:
    with httpx.Client(base_url=closed.address) as browser:
        assert browser.post("/v1/login", json={"token": "wrong"}).status_code == 401
        answer = browser.post("/v1/login", json={"token": TOKEN})
        assert answer.status_code == 204
        said = answer.headers["set-cookie"].lower()
        assert "httponly" in said
        assert "samesite=strict" in said
        assert TOKEN not in said
        assert browser.get("/v1/sessions").status_code == 200


def test_pages_of_other_sites_are_refused(service: Served, client: object) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        assert httpx.post(f"{service.address}/v1/sessions", json={}, headers={"origin": origin}).status_code == 403
    own = service.address
    assert httpx.post(f"{own}/v1/sessions", json={}, headers={"origin": own}).status_code == 201


def test_another_name_for_this_machine_is_refused(service: Served) -> None:
    for host in ("evil.example", "evil.example:80", "[2001:db8::1]", ""):
        assert httpx.get(f"{service.address}/v1/sessions", headers={"host": host}).status_code in (400, 403)
    assert httpx.get(f"{service.address}/v1/sessions", headers={"host": "localhost:1"}).status_code == 200


def test_too_many_requests_are_refused(served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path) -> None:
    slow = PATIENT.model_copy(update={"requests_per_s": 5.0})
    with served(served_gallery, tiny_bundle, tmp_path, slow) as running, httpx.Client(base_url=running.address) as http:
        answers = [http.get("/v1/sessions") for _ in range(30)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(refused) >= 10
        assert refused[0].headers["retry-after"] == "1"


def test_too_many_sessions_are_refused(served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path) -> None:
    few = PATIENT.model_copy(update={"sessions": 2})
    with served(served_gallery, tiny_bundle, tmp_path, few) as running, running.client() as client:
        first, _ = client.create(), client.create()
        with pytest.raises(UserError, match="2 open sessions"):
            client.create()
        first.end()
        client.create()


def test_beyond_this_machine_a_token_is_needed(tmp_path: Path) -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.8.9.1"):
        assert is_loopback(host)
        check_exposure(host, None)
    for host in ("0.0.0.0", "::", "192.168.1.4", "example.org"):
        assert not is_loopback(host)
        with pytest.raises(ConfigError, match="Without a token"):
            check_exposure(host, None)
        check_exposure(host, TOKEN)
    with pytest.raises(ConfigError, match="5 characters"):
        check_exposure("127.0.0.1", "short")
    said = x2l("serve", "--gallery", str(tmp_path), "--host", "0.0.0.0", code=2)
    assert "Without a token" in said
    assert "no usable token" in x2l("serve", "--gallery", "g", "--token-file", _write(tmp_path / "t", "\n"), code=2)


def _write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_logs_are_json_and_have_neither_tokens_nor_queries(closed: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "x2localizer.serve.access")
    httpx.get(f"{closed.address}/v1/sessions?token={TOKEN}&x=1", headers={"authorization": f"Bearer {TOKEN}"})
    for _ in range(100):  # the line is written after the answer
        if caplog.records:
            break
        time.sleep(0.05)
    lines = [JsonLines().format(record) for record in caplog.records]
    assert any('"path": "/v1/sessions"' in line and '"status": 200' in line for line in lines)
    assert not any(TOKEN in line or "x=1" in line for line in lines)


def test_only_allowed_addresses_are_read(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "a.mp4").write_bytes(b"x")
    (outside / "b.mp4").write_bytes(b"x")
    (inside / "link.mp4").symlink_to(outside / "b.mp4")
    allowed = Allowed((inside,), ("rtsp://camera.local/live",), (0,))
    assert allowed.check(str(inside / "a.mp4")) == str((inside / "a.mp4").resolve())
    assert allowed.check("rtsp://user:word@camera.local/live/main") == "rtsp://user:word@camera.local/live/main"
    assert allowed.check("camera:0") == "camera:0"
    for bad in (
        str(outside / "b.mp4"), str(inside / "link.mp4"), str(inside / ".." / "out" / "b.mp4"), str(inside),
        str(inside / "missing.mp4"), "camera:1", "rtsp://camera.local/other", "rtsp://camera.local.evil/live",
        "rtsp://camera.local:8554/live", "rtsp://camera.local/live/../admin", "rtsp://camera.local@evil/live",
        "rtsp://camera.local/lively", "rtsps://camera.local/live", "http://camera.local/live", "file:///etc/passwd",
        "concat:/etc/passwd", "/dev/video0", "", "a\0b", "rtsp://[", "rtsp://camera.local/live/%2e%2e/x",
    ):  # fmt: skip
        with pytest.raises(ForbiddenError):
            allowed.check(bad)
    with pytest.raises(ConfigError, match="not an RTSP address"):
        Allowed(streams=("http://camera.local",))


def test_a_source_that_is_not_allowed_is_refused(service: Served) -> None:
    answer = httpx.post(f"{service.address}/v1/sessions", json={"source": "/etc/passwd"})
    assert answer.status_code == 403
