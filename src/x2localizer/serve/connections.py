"""Connections that send nothing are closed: each takes a place that another client needs."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

FIRST_REQUEST_S = 10.0
"""Seconds in which the header of the first request must have come."""


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which by itself waits for a first request forever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self.loop.call_later(FIRST_REQUEST_S, self._close_if_silent)

    def _close_if_silent(self) -> None:
        transport = self.transport
        # A socket that became a WebSocket has another protocol now.
        silent = getattr(self, "cycle", None) is None and transport.get_protocol() is self
        if silent and not transport.is_closing():
            transport.close()
