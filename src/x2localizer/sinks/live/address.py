"""Addresses of sinks: ``scheme://host:port/path?option=value``, or ``scheme:path``."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from x2localizer.errors import SinkError, nearest


@dataclass(frozen=True, slots=True)
class SinkAddress:
    """An address in its parts; options that nobody asks for are an error, see :meth:`refuse_unknown`.

    text: the address without its query, for messages.
    scheme: in lower case, such as "nmea+udp".
    host, port: None where the address has none.
    path: what follows, unquoted.
    options, query: what follows "?", and the same as it was written.
    """

    text: str
    scheme: str
    host: str | None = None
    port: int | None = None
    path: str = ""
    options: dict[str, str] = field(default_factory=dict)
    query: str = ""

    @staticmethod
    def parse(text: str) -> SinkAddress:
        """The parts of an address."""
        try:
            parts = urlsplit(text.strip())
            host, port = parts.hostname, parts.port
            pairs = parse_qsl(parts.query, keep_blank_values=True)
        except ValueError as problem:
            shown = text.partition("?")[0].rpartition("@")[2]
            raise SinkError(f"'{shown}' is not an address: {problem}.", _EXAMPLE) from problem
        shown = text.strip().partition("?")[0]
        if parts.username is not None or parts.password is not None:
            raise SinkError(
                "An address of a sink contains a user or a password, which would end up in logs.",
                "Remove it, and set the environment variables that docs/programs.md names.",
            )
        if not parts.scheme:
            raise SinkError(f"'{shown}' is not the address of a sink.", _EXAMPLE)
        return SinkAddress(shown, parts.scheme.lower(), host, port, unquote(parts.path), dict(pairs), parts.query)

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """An option that is a number between two others."""
        text = self.options.get(name)
        try:
            value = default if text is None else float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise SinkError(
                f"'{name}={text}' of {self.text} is not possible.", f"Use a number from {low:g} to {high:g}."
            )
        return value

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """An option that is a whole number between two others."""
        value = self.number(name, default, low, high)
        if value != int(value):
            raise SinkError(f"'{name}={value}' of {self.text} is not a whole number.", f"Use one from {low} to {high}.")
        return int(value)

    def optional(self, name: str, low: float, high: float) -> float | None:
        """An option that may be missing."""
        return self.number(name, 0.0, low, high) if name in self.options else None

    def word(self, name: str, default: str) -> str:
        """An option that is a text."""
        return self.options.get(name) or default

    def place(self, host: str, port: int) -> tuple[str, int]:
        """Host and port, with what counts where the address has none."""
        if self.port == 0:
            raise SinkError(f"{self.text} has the port 0.", "Use a port from 1 to 65535.")
        return self.host or host, self.port or port

    def refuse_unknown(self, known: tuple[str, ...]) -> None:
        """Refuse options that a sink does not have."""
        for name in self.options:
            if name not in known:
                raise SinkError(f"{self.text} has no option '{name}'.", nearest(name, known))


_EXAMPLE = "Write it like nmea://127.0.0.1:10110, mqtt://127.0.0.1/car or rosbag:out; docs/programs.md has all of them."
