"""Sessions that pull: the service reads a stream, a camera or a file by itself, and pushes its frames."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING

from x2localizer.errors import UserError, VideoError
from x2localizer.odometry.record import SPACING_S
from x2localizer.serve.allow import is_live
from x2localizer.serve.errors import BusyError, ConflictError, StoreError
from x2localizer.serve.events import Event
from x2localizer.serve.follower import LONGEST_JUMP_S
from x2localizer.sources.video import VideoSource, open_video
from x2localizer.types import Image

if TYPE_CHECKING:
    from x2localizer.serve.hub import Hub
    from x2localizer.serve.session import Session

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
"""A stream that fails is opened again after so many seconds, doubled each time."""
BUSY_WAIT_S = 2.0
"""Until a frame of a file that was refused for want of room is sent again."""
_log = logging.getLogger("x2localizer.serve")


class Puller:
    """Reads one source in a thread until it ends, or the session does.

    A stream that breaks is opened again; the gap is a gap of the track. After a restart of the service a file resumes
    where its track ended.
    """

    def __init__(self, hub: Hub, session: Session, address: str) -> None:
        self._hub, self._session, self._address = hub, session, address
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._live = is_live(address)
        self._thread = threading.Thread(target=self._run, name=f"pull {session.id}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop reading; the thread ends by itself."""
        self._stop.set()

    async def ended(self, timeout_s: float = 15.0) -> None:
        """Wait for the thread."""
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join, timeout_s)

    def _run(self) -> None:
        wait_s = FIRST_WAIT_S
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self._say("connecting")
                self._read()
                problem = "the stream ended"
            except UserError as trouble:
                problem = trouble.what
            except Exception:
                _log.exception("a source failed", extra={"session": self._session.id})
                problem = "an unexpected error"
            if self._stop.is_set():
                return
            if not self._live:
                self._say("ended" if problem == "the stream ended" else f"failed: {problem}")
                self._end_session()
                return
            if time.monotonic() - began > 60.0:
                wait_s = FIRST_WAIT_S
            self._say(f"waiting: {problem}")
            self._stop.wait(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    def _read(self) -> None:
        spacing_s = SPACING_S if self._session.options.odometry == "frames" else self._hub.track.frame_spacing_s
        last_s = self._session.last_time_s
        start_s = 0.0 if self._live or last_s is None else last_s + 0.5 * spacing_s
        with open_video(self._address, spacing_s=spacing_s, start_s=max(0.0, start_s)) as source:
            self._say("reading")
            offset_s = self._offset_s(last_s) if self._live else 0.0
            self._push_all(source, offset_s)

    def _offset_s(self, last_s: float | None) -> float:
        """Live frames are timed from the first of the session, the time without a picture included."""
        if last_s is None:
            return 0.0
        away_s = max(time.time() - self._session.touched, 0.2)
        return last_s + min(away_s, 0.9 * LONGEST_JUMP_S)  # longer, and its frames would be refused

    def _push_all(self, source: VideoSource, offset_s: float) -> None:
        for frame in source:
            if self._stop.is_set():
                return
            try:
                self._push(frame.image, offset_s + frame.time_s)
            except ConflictError:
                if not self._session.is_open:
                    self._stop.set()
                    return
                raise VideoError("The clock of the stream runs backwards.", "Check the camera.") from None

    def _push(self, image: Image, time_s: float) -> None:
        """Push a frame. When the service is full or cannot write, a file waits and a live source goes on without it."""
        while not self._stop.is_set():
            # The time of a frame that was refused counts as used, so the next try is a moment later.
            pushed = asyncio.run_coroutine_threadsafe(self._session.push(image, time_s), self._loop)
            try:
                pushed.result()
                return
            except (BusyError, StoreError) as problem:
                self._say(f"waiting: {problem.what}")
                if self._live:
                    return
                self._stop.wait(BUSY_WAIT_S)
                time_s += 1e-3

    def _say(self, state: str) -> None:
        def change() -> None:
            self._session.source_state = state
            self._hub.publish(Event("session", self._session.id, state=self._session.state))

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(change)

    def _end_session(self) -> None:
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._session.end(), self._loop)
