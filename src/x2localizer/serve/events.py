"""News of sessions for listeners in this process: sockets, event streams, the map."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from x2localizer.types import Fix

EventKind = Literal["fix", "dropped", "session"]


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """Something that has happened to a session.

    kind: "fix", "dropped" (frames were), or "session": it was created, ended, given a prior, or its source changed.
    session: its id.
    fix: of a "fix".
    dropped: frames of the session that were dropped so far.
    state: of the session, such as "open" or "ended".
    """

    kind: EventKind
    session: str
    fix: Fix | None = None
    dropped: int = 0
    state: str = "open"


class Subscription:
    """Events as they come; a context manager and an asynchronous iterator.

    A listener that is too slow misses the oldest events; ``missed`` counts them.
    """

    def __init__(self, board: Board, most: int) -> None:
        self.missed = 0
        self._board, self._most = board, most
        self._waiting: deque[Event] = deque()
        self._news = asyncio.Event()
        self._closed = False

    def put(self, event: Event) -> None:
        """Add an event; called by the board."""
        if len(self._waiting) >= self._most:
            self._waiting.popleft()
            self.missed += 1
        self._waiting.append(event)
        self._news.set()

    async def next(self, timeout_s: float | None = None) -> Event | None:
        """The next event; None when the subscription was closed, or none came in time."""
        while not self._waiting and not self._closed:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), timeout_s)
            except TimeoutError:
                return None
        return self._waiting.popleft() if self._waiting else None

    async def __aiter__(self) -> AsyncIterator[Event]:
        while (event := await self.next()) is not None:
            yield event

    def close(self) -> None:
        """Stop listening; closing twice does nothing."""
        self._closed = True
        self._news.set()
        self._board.remove(self)

    @property
    def closed(self) -> bool:
        """Whether no more events will come."""
        return self._closed and not self._waiting

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Board:
    """Hands events to its listeners; used from one event loop."""

    def __init__(self) -> None:
        self._listeners: set[Subscription] = set()

    def __len__(self) -> int:
        return len(self._listeners)

    def subscribe(self, most: int = 256) -> Subscription:
        """Listen from now on; ``most`` events may wait."""
        listener = Subscription(self, most)
        self._listeners.add(listener)
        return listener

    def remove(self, listener: Subscription) -> None:
        """Stop handing events to a listener."""
        self._listeners.discard(listener)

    def publish(self, event: Event) -> None:
        """Hand an event to everyone who listens; never waits."""
        for listener in tuple(self._listeners):
            listener.put(event)

    def close(self) -> None:
        """End all subscriptions."""
        for listener in tuple(self._listeners):
            listener.close()
