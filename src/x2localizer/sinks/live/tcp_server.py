"""A TCP server that sends the same bytes to every client, and never waits for one.

A thread accepts clients and writes to them. A client that does not read gets a buffer of 64 kB; when it is full, the
client is disconnected. What clients send is read and ignored.
"""

from __future__ import annotations

import ipaddress
import selectors
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any

from x2localizer.sinks.live.address import SinkAddress
from x2localizer.sinks.live.base import cannot_open

LOOPBACK = "127.0.0.1"
MOST_CLIENTS = 32
BUFFERED = 1 << 16
"""Bytes that wait for one client."""
QUEUED = 1000
"""Messages that wait for the thread."""
DRAIN_S = 0.5
"""Time for clients to take what is left at the end."""


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def resolve(host: str, port: int, kind: socket.SocketKind) -> tuple[int, tuple[Any, ...]]:
    """Family and place of a host; of several, one of IPv4, as most programs take "localhost" for 127.0.0.1."""
    found = socket.getaddrinfo(host, port, type=kind)
    best = min(found, key=lambda one: one[0] != socket.AF_INET)
    return best[0], best[4]


class TcpServer:
    """Listens on loopback, unless the address names another host.

    dropped: messages that a slow client did not get, with the rest of its buffer.
    """

    problem: str | None

    def __init__(self, address: SinkAddress, port: int) -> None:
        self.dropped, self.problem = 0, None
        host, number = address.place(LOOPBACK, port)
        try:
            family, place = resolve(host, number, socket.SOCK_STREAM)
            self._listener = socket.socket(family, socket.SOCK_STREAM)
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(place)
            self._listener.listen(16)
        except OSError as problem:
            raise cannot_open(address, problem, "Choose another port, or end the program that uses it.") from problem
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._wake, self._woken = socket.socketpair()
        for end in (self._wake, self._woken):
            end.setblocking(False)
        self._messages: deque[bytes] = deque(maxlen=QUEUED)
        self._clients: dict[socket.socket, bytearray] = {}
        self._stopping_s: float | None = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name=address.text, daemon=True)
        self._thread.start()

    @property
    def clients(self) -> int:
        """How many are connected."""
        return len(self._clients)

    def send(self, data: bytes) -> None:
        """Send to every client that is connected; with none, nothing happens."""
        if self._stopping_s is None:
            self._messages.append(data)
            self._notify()

    def close(self) -> None:
        """Let clients read what is left for half a second, then disconnect them."""
        if self._stopping_s is None:
            self._stopping_s = time.monotonic() + DRAIN_S
            self._notify()
            self._thread.join(DRAIN_S + 2.0)
            for end in (self._wake, self._woken):
                end.close()

    def _notify(self) -> None:
        with suppress(OSError):  # full: the thread is awake already
            self._wake.send(b"\0")

    def _serve(self) -> None:
        try:
            while not self._is_done():
                for key, events in self._selector.select(0.1 if self._stopping_s is not None else None):
                    self._attend(key.fileobj, events)  # type: ignore[arg-type]
                self._distribute()
        finally:
            for client in list(self._clients):
                self._drop(client)
            self._listener.close()
            self._selector.close()

    def _is_done(self) -> bool:
        if self._stopping_s is None:
            return False
        waiting = bool(self._messages) or any(self._clients.values())
        return not waiting or time.monotonic() >= self._stopping_s

    def _attend(self, end: socket.socket, events: int) -> None:
        if end is self._listener:
            self._accept()
        elif end is self._woken:
            with suppress(OSError):
                while end.recv(4096):
                    pass
        elif end in self._clients:
            if events & selectors.EVENT_READ:
                self._ignore_input(end)
            if events & selectors.EVENT_WRITE and end in self._clients:
                self._flush(end)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError as problem:
            self.problem = problem.strerror or str(problem)
            return
        if len(self._clients) >= MOST_CLIENTS or self._stopping_s is not None:
            client.close()
            return
        client.setblocking(False)
        with suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._clients[client] = bytearray()
        self._selector.register(client, selectors.EVENT_READ)

    def _ignore_input(self, client: socket.socket) -> None:
        try:
            if not client.recv(4096):
                self._drop(client)
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client)

    def _distribute(self) -> None:
        data = b""
        while self._messages:
            data += self._messages.popleft()
        for client in list(self._clients) if data else ():
            waiting = self._clients[client]
            if len(waiting) + len(data) > BUFFERED:
                self.dropped += 1
                self.problem = "a client did not read and was disconnected"
                self._drop(client)
                continue
            waiting += data
            self._flush(client)

    def _flush(self, client: socket.socket) -> None:
        waiting = self._clients[client]
        try:
            sent = client.send(waiting) if waiting else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(client)
            return
        del waiting[:sent]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if waiting else 0)
        self._selector.modify(client, events)

    def _drop(self, client: socket.socket) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(client)
        self._clients.pop(client, None)
        client.close()
