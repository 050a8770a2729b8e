"""Ways for bytes to reach other programs: datagrams, serial lines, and (in ``tcp_server``) connections.

A transport never makes its user wait: what cannot be sent at once is queued, and what does not fit is dropped and
counted.
"""

from __future__ import annotations

import queue
import socket
import threading
from contextlib import suppress
from typing import Any, Protocol

from x2localizer.errors import SinkError, optional
from x2localizer.sinks.live.address import SinkAddress
from x2localizer.sinks.live.base import cannot_open
from x2localizer.sinks.live.tcp_server import TcpServer, is_loopback, resolve

LOOPBACK = "127.0.0.1"
BAUD = 38400
"""NMEA's high speed; the old standard is 4800."""
QUEUED = 100
"""Messages that wait for a serial line, at most."""


class Transport(Protocol):
    """Sends messages; ``send`` returns at once.

    dropped: messages that could not be sent.
    problem: why the last of them could not.
    """

    dropped: int
    problem: str | None

    def send(self, data: bytes) -> None:
        """Send a message, or drop it."""

    def close(self) -> None:
        """Send what is queued if that takes less than a second, and let go."""


OPTIONS: dict[str, tuple[str, ...]] = {"tcp": (), "udp": (), "serial": ("baud",)}
"""Options of an address, by transport."""


def open_transport(address: SinkAddress, kind: str, port: int, bytes_per_s: float) -> Transport:
    """The transport of an address; ``port`` counts where the address has none.

    bytes_per_s: what will be sent; a serial line that is too slow for it is refused.
    """
    if kind == "serial":
        return SerialLine(address, bytes_per_s)
    if address.path.strip("/"):
        raise SinkError(f"{address.text} has a path, which means nothing there.", "Use only a host and a port.")
    return UdpSender(address, port) if kind == "udp" else TcpServer(address, port)


class UdpSender:
    """Sends datagrams to one place, also to a broadcast address; nobody has to be there."""

    problem: str | None

    def __init__(self, address: SinkAddress, port: int) -> None:
        self.dropped, self.problem = 0, None
        host, number = address.place(LOOPBACK, port)
        try:
            family, self._place = resolve(host, number, socket.SOCK_DGRAM)
            self._socket = socket.socket(family, socket.SOCK_DGRAM)
        except OSError as problem:
            raise cannot_open(address, problem, "Check the name of the host.") from problem
        self._socket.setblocking(False)
        if not is_loopback(str(self._place[0])):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)

    def send(self, data: bytes) -> None:
        """Send a datagram."""
        try:
            self._socket.sendto(data, self._place)
        except ConnectionRefusedError:
            pass  # about an earlier datagram: nobody listens, which is no failure
        except OSError as problem:
            self.dropped += 1
            self.problem = problem.strerror or str(problem)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class SerialLine:
    """Writes to a serial line in a thread of its own, as a line may be slow, held up or unplugged."""

    problem: str | None

    def __init__(self, address: SinkAddress, bytes_per_s: float) -> None:
        serial = optional("serial", "pyserial", "A serial line")
        device = address.path if not address.host else f"{address.host}{address.path}"
        baud = address.whole("baud", BAUD, 300, 4_000_000)
        if not device:
            raise SinkError(f"{address.text} names no device.", "Write it like nmea+serial:///dev/ttyUSB0?baud=38400.")
        if bytes_per_s > baud / 10:  # a start bit, eight of data, a stop bit
            raise SinkError(
                f"{address.text} is too slow at {baud} baud for {bytes_per_s:,.0f} bytes per second.",
                "Use a lower rate, fewer sentences, or a higher baud.",
            )
        self.dropped, self.problem = 0, None
        try:
            self._line: Any = serial.Serial(device, baud, timeout=0, write_timeout=1.0)
        except (OSError, ValueError) as problem:  # serial's own errors are OSErrors
            why = getattr(problem, "strerror", None) or str(problem)
            raise cannot_open(address, why, "Check the device, and that you may write to it.") from problem
        self._failed: type[Exception] = serial.SerialException
        self._queue: queue.Queue[bytes | None] = queue.Queue(QUEUED)
        self._thread = threading.Thread(target=self._write, name=address.text, daemon=True)
        self._thread.start()

    def send(self, data: bytes) -> None:
        """Queue a message; the oldest makes room."""
        while True:
            try:
                self._queue.put_nowait(data)
                return
            except queue.Full:
                with suppress(queue.Empty):
                    self._queue.get_nowait()
                    self.dropped += 1

    def _write(self) -> None:
        while (data := self._queue.get()) is not None:
            try:
                self._line.write(data)
            except (self._failed, OSError) as problem:
                self.dropped += 1
                self.problem = str(problem)

    def close(self) -> None:
        """Write what is queued, and close the line."""
        with suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join(1.0)
        with suppress(OSError):
            self._line.cancel_write()
        with suppress(OSError):
            self._line.close()
