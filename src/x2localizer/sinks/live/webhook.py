"""A webhook: fixes as JSON in the body of POST requests."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections import deque
from typing import Any
from urllib.parse import urlsplit

from x2localizer.errors import SinkError
from x2localizer.sinks.live.address import SinkAddress
from x2localizer.sinks.live.base import LiveSink, live_sinks
from x2localizer.sinks.live.fix_json import fix_values
from x2localizer.types import Fix

TOKEN = "X2L_WEBHOOK_TOKEN"
QUEUED = 1000
"""Fixes that wait for a server that is away; then the oldest are dropped."""
AT_ONCE = 50
"""Fixes in one request, at most."""
TIMEOUT_S = 5.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
DRAIN_S = 3.0
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


@live_sinks.register
class Webhook(LiveSink):
    """``https://example.org/fixes`` gets ``{"fixes": [...]}`` in POST requests, from a thread of its own.

    Fixes that the server did not take are sent again, in order: after a lost answer a fix can come twice, with the same
    ``index``. An answer such as 404 drops them. Redirects are not followed. With X2L_WEBHOOK_TOKEN in the environment,
    requests carry it as ``Authorization: Bearer ...``.
    """

    name = "webhook"
    schemes = ("http", "https")

    def __init__(self, address: SinkAddress) -> None:
        super().__init__(address)
        if not address.host:
            raise SinkError("The address of a webhook has no host.", "Write it like https://example.org/fixes.")
        self._place = address.place("", 443 if address.scheme == "https" else 80)
        self._queue: deque[dict[str, Any]] = deque()
        self._news = threading.Condition()
        self._closing_s: float | None = None
        self._thread: threading.Thread | None = None

    def options_of(self, address: SinkAddress) -> tuple[str, ...]:
        """Any: they are the server's."""
        return tuple(address.options)

    @property
    def target(self) -> str:
        """Scheme and host alone; paths of webhooks can be secrets."""
        return f"{self.address.scheme}://{self.address.host}"

    def open(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._work, name=f"webhook {self.target}", daemon=True)
        self._thread.start()

    def fix(self, fix: Fix) -> None:
        """Queue a fix; when 1,000 wait, the oldest makes room."""
        values = fix_values(fix, self.utc(fix.time_s))
        with self._news:
            if self._closing_s is not None:
                return
            if len(self._queue) >= QUEUED:
                self._queue.popleft()
                self.dropped += 1
            self._queue.append(values)
            self._news.notify()

    def close(self) -> None:
        """Deliver what is queued, for three seconds at most."""
        with self._news:
            if self._closing_s is not None:
                return
            self._closing_s = time.monotonic() + DRAIN_S
            self._news.notify()
        if self._thread is not None:
            self._thread.join(DRAIN_S + 0.5)
        with self._news:
            self.dropped += len(self._queue)
            self._queue.clear()

    def _work(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            with self._news:
                while not self._queue:
                    if self._closing_s is not None:
                        return
                    self._news.wait()
                batch = [self._queue[i] for i in range(min(AT_ONCE, len(self._queue)))]
            status = self._post(batch)
            if status not in _TRY_AGAIN:
                pause_s = FIRST_PAUSE_S
                self._remove(batch, delivered=200 <= status < 300)
            elif not self._pause(pause_s):
                return
            else:
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _pause(self, seconds: float) -> bool:
        """Wait before the next try, less if the sink is being closed; False if there is no time for one."""
        until_s = time.monotonic() + seconds
        with self._news:
            while (left_s := until_s - time.monotonic()) > 0 and self._closing_s is None:
                self._news.wait(left_s)
            closing_s = self._closing_s
        if closing_s is None:
            return True
        time.sleep(min(FIRST_PAUSE_S, seconds))
        return time.monotonic() < closing_s

    def _remove(self, batch: list[dict[str, Any]], *, delivered: bool) -> None:
        with self._news:
            for values in batch:
                if self._queue and self._queue[0] is values:  # else it has made room already
                    self._queue.popleft()
                    self.dropped += not delivered

    def _post(self, batch: list[dict[str, Any]]) -> int:
        """Send some fixes: the status of the answer, or 503 without one."""
        kind = http.client.HTTPSConnection if self.address.scheme == "https" else http.client.HTTPConnection
        connection = kind(*self._place, timeout=TIMEOUT_S)
        path = (urlsplit(self.address.text).path or "/") + (f"?{self.address.query}" if self.address.query else "")
        try:
            connection.request("POST", path, json.dumps({"fixes": batch}).encode(), _headers())
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException, ValueError) as problem:
            self.problem = str(problem) or type(problem).__name__
            return 503
        finally:
            connection.close()
        if not 200 <= status < 300:
            self.problem = f"the server answered {status}"
        return status


def _headers() -> dict[str, str]:
    token = os.environ.get(TOKEN)
    return {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
