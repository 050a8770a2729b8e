"""What sinks have in common that look like a GPS receiver: a steady rate, and an honest word when there is no news."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from x2localizer.sinks.live.address import SinkAddress
from x2localizer.sinks.live.base import LiveSink
from x2localizer.sinks.live.reckon import Epoch, Reckoner
from x2localizer.sinks.live.transports import OPTIONS, Transport, open_transport
from x2localizer.types import Fix, Movement

SILENCE_S = 2.0
"""Without news for so long, on the wall clock, a receiver says once a second that it has no position."""


class ReceiverSink(LiveSink):
    """Turns fixes and odometry into messages at ``rate`` per second, and sends them over one of the transports.

    A message without a position is sent while there is no news, so that nobody takes the last position for the current
    one, and at the end.
    """

    default_rate_hz: float = 1.0
    default_port: int
    epoch_bytes: int
    """Bytes of one epoch, at most."""

    def __init__(self, address: SinkAddress) -> None:
        super().__init__(address)
        self.rate_hz = address.number("rate", self.default_rate_hz, 1, 10)
        self._reckoner = Reckoner(self.rate_hz)
        self._transport: Transport | None = None
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._told_s = time.monotonic()
        self._heart: threading.Thread | None = None

    def options_of(self, address: SinkAddress) -> tuple[str, ...]:
        """Those of the protocol, the rate, and those of the transport."""
        return *self.known, "rate", *OPTIONS[_transport_of(address)]

    def message(self, epoch: Epoch) -> bytes:
        """An epoch in the words of the protocol."""
        raise NotImplementedError

    def open(self) -> None:
        """Open the transport."""
        self._transport = open_transport(
            self.address, _transport_of(self.address), self.default_port, self.epoch_bytes * self.rate_hz
        )
        self._heart = threading.Thread(target=self._beat, name=f"{self.address.text} heartbeat", daemon=True)
        self._heart.start()

    def fix(self, fix: Fix) -> None:
        """Take in a fix, and send its epoch."""
        with self._lock:
            self._send(self._reckoner.fix(fix))

    def motion(self, movement: Movement) -> None:
        """Take in a movement, and send the epochs that it has passed."""
        with self._lock:
            self._send(self._reckoner.motion(movement))

    def close(self) -> None:
        """Say that there is no position any more, and close the transport."""
        self._closing.set()
        if self._heart is not None:
            self._heart.join(2.0)
        with self._lock:
            transport = self._transport
            if transport is not None:
                self._send([Epoch(None)])
                self._transport = None
        if transport is not None:
            with suppress(OSError):
                transport.close()
            self._take_counts(transport)

    def _send(self, epochs: list[Epoch]) -> None:
        transport = self._transport
        if transport is None:
            return
        for epoch in epochs:
            self._told_s = time.monotonic()
            transport.send(self.message(epoch))
        self._take_counts(transport)

    def _take_counts(self, transport: Transport) -> None:
        self.dropped, self.problem = transport.dropped, transport.problem

    def _beat(self) -> None:
        while not self._closing.wait(1.0):
            with self._lock:
                if time.monotonic() - self._told_s >= SILENCE_S - 0.1:
                    told_s = self._told_s
                    self._send([Epoch(None)])
                    self._told_s = told_s  # silent until news come


def _transport_of(address: SinkAddress) -> str:
    return address.scheme.partition("+")[2] or "tcp"
