"""Who may ask, how often, and how much: what every request passes before anything looks at it.

One ASGI layer around the whole application, WebSockets and pages included.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from x2localizer.errors import ConfigError
from x2localizer.serve.metrics import Metrics
from x2localizer.serve.settings import ServeSettings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = ("/healthz", "/readyz")
"""Answered without a token: they say nothing."""
BODY_WITHIN_S = 30.0
"""A client that sends nothing for longer in the middle of a request is let go."""
SEND_WITHIN_S = 30.0
"""A client that does not read a part of its answer for longer is let go."""
COOKIE = "x2l"
PROTOCOL = "x2l.v1"
"""Subprotocol of the WebSocket; a browser, which cannot set headers, adds ``bearer.TOKEN`` beside it."""
MOST_CLIENTS = 10_000
MOST_LOGINS = 1_000
LEAST_TOKEN = 16
_API_CSP = "default-src 'none'; frame-ancestors 'none'"
_PAGE_CSP = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self' data:; connect-src 'self' ws: wss:; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "x-content-type-options": "nosniff", "x-frame-options": "DENY", "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(self), geolocation=(), microphone=()",
}  # fmt: skip
_log = logging.getLogger("x2localizer.serve.access")


def check_exposure(host: str, token: str | None) -> None:
    """Refuse to listen beyond this machine without a token, or with a short one."""
    if token is not None and len(token) < LEAST_TOKEN:
        raise ConfigError(
            f"The token has {len(token)} characters.", f"Use {LEAST_TOKEN} or more: openssl rand -hex 32 > FILE"
        )
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"Without a token the service listens on this machine only, not on {host}.",
            "Write a token into a file (openssl rand -hex 32 > FILE) and give it with --token-file FILE.",
        )


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Logins:
    """Browsers that have shown the token once. They hold a random cookie, never the token."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def add(self) -> str:
        """A new cookie."""
        cookie = secrets.token_hex(24)
        self._known[cookie] = None
        while len(self._known) > MOST_LOGINS:
            self._known.popitem(last=False)
        return cookie

    def knows(self, cookie: str) -> bool:
        """Whether a cookie was handed out."""
        return any(hmac.compare_digest(cookie.encode(), known.encode()) for known in self._known)


class Guard:
    """Checks every request, and adds headers to every answer."""

    def __init__(
        self, app: App, token: str | None, limits: ServeSettings, metrics: Metrics, logins: Logins | None = None
    ) -> None:
        self._app, self._token, self._limits, self._metrics = app, token, limits, metrics
        self._logins = logins or Logins()
        self._rates: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, a socket, or the start and end of the service."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refusal(scope, headers)
        if scope["type"] == "websocket":
            if refused is not None:
                self._metrics.refused.labels(str(refused[0])).inc()
                await _refuse_socket(receive, send)
                return
            await self._app(scope, receive, send)
            return
        watched = _Watched(scope, receive, send, self._most_bytes(scope))
        if refused is None and int(headers.get("content-length") or 0) > watched.most_bytes:
            refused = _too_large(watched.most_bytes)
        try:
            if refused is not None:
                await watched.answer(*refused)
            else:
                await self._app(scope, watched.receive, watched.send)
        except _BodyError as problem:
            await watched.answer(*problem.answer)
        except Exception:
            _log.exception("a request failed", extra={"path": scope["path"][:200]})
            await watched.answer(500, "The service failed to answer.", "Try again, and report it if it stays so.")
        finally:
            self._note(scope, watched)

    def _note(self, scope: Scope, watched: _Watched) -> None:
        if watched.status >= 400:
            self._metrics.refused.labels(str(watched.status)).inc()
        client = scope.get("client")
        _log.info(
            "request",
            extra={
                "method": scope["method"], "path": scope["path"][:200], "status": watched.status,
                "ms": round(1000 * (time.perf_counter() - watched.began), 1), "client": client[0] if client else None,
            },
        )  # fmt: skip

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str, str] | None:
        """The status, what is wrong and what to do; None if nothing is wrong."""
        client = (scope.get("client") or ("", 0))[0]
        if not self._within_rate(client):
            return 429, "Too many requests.", "Wait a second."
        if scope["path"] in OPEN_PATHS:
            return None
        host = headers.get("host", "")
        if self._token is None and not is_loopback(_name_of(host)):
            return (
                403,
                "This service answers to its own machine only.",
                "Use http://127.0.0.1, or start it with a token.",
            )
        origin = headers.get("origin")
        if origin is not None and _site_of(origin) != host.lower():
            return 403, "Pages of other sites may not use this service.", "Use it from its own pages."
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            return 400, "The length of the request is no number.", "Send a correct Content-Length."
        if self._token is None or self._has_token(scope, headers):
            return None
        return 401, "The token is missing or wrong.", "Send the header 'Authorization: Bearer TOKEN'."

    def _has_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        assert self._token is not None
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and _same(given.strip(), self._token):
            return True
        if scope["type"] == "websocket":
            offered = [word.strip() for word in headers.get("sec-websocket-protocol", "").split(",")]
            if any(_same(word.removeprefix("bearer."), self._token) for word in offered if word.startswith("bearer.")):
                return True
        return self._logins.knows(cookie_of(headers.get("cookie", ""))) or (
            scope["type"] == "http" and scope["path"] in ("/login", "/v1/login")
        )

    def _within_rate(self, client: str) -> bool:
        """A bucket of requests for each client, which fills up again."""
        rate, now = self._limits.requests_per_s, time.monotonic()
        left, last = self._rates.pop(client, (2 * rate, now))
        left = min(2 * rate, left + (now - last) * rate)
        self._rates[client] = (max(left - 1.0, 0.0), now)
        while len(self._rates) > MOST_CLIENTS:
            self._rates.popitem(last=False)
        return left >= 1.0

    def _most_bytes(self, scope: Scope) -> int:
        limits, path = self._limits, scope["path"]
        if path == "/v1/jobs":
            return limits.upload_bytes
        if path.endswith("/frames/batch"):
            return limits.frame_bytes * min(limits.batch_frames, 16)
        return limits.frame_bytes


class _BodyError(Exception):
    def __init__(self, *answer: Any) -> None:
        super().__init__()
        self.answer = answer


class _Watched:
    """A request whose body is counted, and whose answer gets headers."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, most_bytes: int) -> None:
        self._scope, self._receive, self._send, self.most_bytes = scope, receive, send, most_bytes
        self._bytes, self._whole, self._started = 0, False, False
        self.status, self.began = 0, time.perf_counter()

    async def receive(self) -> MutableMapping[str, Any]:
        """The next part of the body."""
        if self._whole:
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), BODY_WITHIN_S)
        except TimeoutError:
            raise _BodyError(408, "The request did not arrive in time.", "Send it again.") from None
        self._bytes += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._bytes > self.most_bytes:
            raise _BodyError(*_too_large(self.most_bytes))
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """A part of the answer."""
        if message["type"] == "http.response.start":
            self._started, self.status = True, message["status"]
            headers = [(name, value) for name, value in message.get("headers", ())]
            there = {bytes(name).lower() for name, _ in headers}
            path = self._scope["path"]
            api = path.startswith("/v1/") or path in (*OPEN_PATHS, "/metrics")
            wanted = {**_HEADERS, "content-security-policy": _API_CSP if api else _PAGE_CSP}
            if api:
                wanted["cache-control"] = "no-store"
            headers += [(k.encode(), v.encode()) for k, v in wanted.items() if k.encode() not in there]
            message = {**message, "headers": headers}
        try:
            await asyncio.wait_for(self._send(message), SEND_WITHIN_S)
        except TimeoutError:  # a client that does not read holds a place that others need
            raise _BodyError(408, "The answer was not read in time.", "Ask again.") from None

    async def answer(self, status: int, error: str, remedy: str) -> None:
        """Refuse the request, unless its answer has begun."""
        if self._started:
            return
        body = json.dumps({"error": error, "remedy": remedy}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if status == 429:
            headers.append((b"retry-after", b"1"))
        if not self._whole:
            headers.append((b"connection", b"close"))  # the rest of the body is not read
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _too_large(most: int) -> tuple[int, str, str]:
    return 413, f"The request has more than {most:,} bytes.", "Send less at once."


async def _refuse_socket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008})


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8"))


def cookie_of(header: str) -> str:
    """Our cookie in a header; empty without one."""
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _site_of(origin: str) -> str | None:
    """Host and port of an Origin header; None if it is no address."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _name_of(host: str) -> str:
    """A Host header without its port."""
    return host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
