"""A session: one camera that is followed, with its queue, its answers and its track.

Used from one event loop. What computes runs in the hub's threads, one call at a time for each session. A session sleeps
when no frame has come for a while: its belief lies in the store, and the next frame wakes it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import sqlite3
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from x2localizer.errors import UserError
from x2localizer.localize.track.snapshot import pack
from x2localizer.localize.track.tracker import Step
from x2localizer.serve import rows, store
from x2localizer.serve.answers import Answer, Counts, check_time
from x2localizer.serve.errors import ConflictError, StoreError, TooLargeError
from x2localizer.serve.events import Event, Subscription
from x2localizer.serve.follower import Advanced, Follower, Look, Progress, check_follows
from x2localizer.serve.heat import HeatGrid, heat_of
from x2localizer.serve.pictures import decode_jpeg, small_jpeg
from x2localizer.serve.samples import Sample, check_samples, to_array
from x2localizer.serve.settings import Box, Near, SessionOptions
from x2localizer.types import Fix, Image

if TYPE_CHECKING:
    from x2localizer.serve.hub import Hub

Result = TypeVar("Result")
SHOWN_FIXES, SHOWN_ENDED = 900, 50
"""Fixes kept in memory for those who look on: a quarter of an hour, and few of a session that has ended."""
SNAPSHOT_STEPS, SNAPSHOT_STEPS_LARGE = 30, 120
"""Steps after which a belief is stored as a whole; what was since is replayed after a crash."""
SMALL_BYTES = 2 << 20
"""A belief of this size is small: some 30,000 poses."""
TELL_DROPPED_S = 1.0
"""Between two events about dropped frames: a flood of frames must not be a flood of events."""
_log = logging.getLogger("x2localizer.serve")


@dataclass(frozen=True, slots=True, eq=False)
class _Item:
    picture: bytes | Image
    time_s: float
    arrived: float
    answer: asyncio.Future[Answer]


class Session:
    """One camera.

    latest: the last fix, with its view (the small frame, the region around the guess, similarities of its tiles).
    recent: the last fixes without views, oldest first.
    source_state: what the source of a session that pulls is doing, such as "reading"; None for others.
    """

    def __init__(self, hub: Hub, row: store.SessionRow) -> None:
        self._hub = hub
        self.id, self.created, self.touched, self.state = row.id, row.created, row.touched, row.state
        self.options = SessionOptions.model_validate_json(row.options)
        self.counts = Counts(**json.loads(row.counts))
        self.latest: Fix | None = None
        self.recent: deque[Fix] = deque(maxlen=SHOWN_FIXES)
        self._used = time.monotonic() - max(0.0, time.time() - row.touched)
        self.source_state: str | None = None
        self._follower: Follower | None = None
        self._last_sent_s = Progress.from_json(row.progress).frame_s
        self._inbox: deque[_Item] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._steps_since = 0
        self._told_dropped = -math.inf
        self._picture: bytes | Image | None = None
        self._small: bytes | None = None

    # Looking on ------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """For people."""
        return self.options.name

    @property
    def is_open(self) -> bool:
        """Whether it takes frames."""
        return self.state == "open"

    @property
    def awake(self) -> bool:
        """Whether its belief is in memory."""
        return self._follower is not None

    @property
    def waiting(self) -> int:
        """Frames that wait."""
        return len(self._inbox)

    @property
    def idle_s(self) -> float:
        """Seconds since something came."""
        return 0.0 if self._worker is not None else time.monotonic() - self._used

    def _touch(self) -> None:
        """Something came. How long nothing has come is measured by a clock that nobody sets."""
        self.touched, self._used = time.time(), time.monotonic()

    @property
    def last_time_s(self) -> float | None:
        """Time of the last frame that was accepted, by the camera's clock."""
        return self._last_sent_s

    async def fixes(self, start: int = 0, most: int | None = None) -> list[Fix]:
        """All fixes so far from a number on, without views."""

        def read(db: sqlite3.Connection) -> list[Fix]:  # parsed there, not on the event loop: it takes seconds
            return [rows.from_json(text) for text in store.fixes_of(db, self.id, start, -1 if most is None else most)]

        return await self._hub.store.read(read)

    def subscribe(self) -> Subscription:
        """News of this session, in a queue of its own."""
        return self._hub.boards[self.id].subscribe(self._hub.settings.events_waiting)

    async def frame_jpeg(self) -> bytes | None:
        """The last frame as a small JPEG; None before the first since the service was started."""
        if self._small is None and self._picture is not None:
            picture = self._picture
            self._small = await self._hub.compute("look", _shrunk, picture, self._hub.settings.frame_pixels)
        return self._small

    async def belief_grid(self, cells: int = 48) -> HeatGrid | None:
        """Where the belief lies; None before the first frame, and while the session sleeps."""
        async with self._lock:
            follower = self._follower
            return (
                None if follower is None else await self._hub.compute("show", heat_of, follower.tracker.belief, cells)
            )

    # Frames ----------------------------------------------------------------------------------------------------------

    def submit(self, picture: bytes | Image, time_s: float) -> asyncio.Future[Answer]:
        """Queue a frame, a JPEG or pixels; the answer comes later, and never waits for more than the bound.

        A frame that cannot be accepted raises at once. One that turns out to be no picture raises from the future.
        """
        self._check_open()
        if self.options.odometry == "samples-only":
            raise ConflictError("This session takes odometry alone.", 'Create one with "odometry": "samples".')
        limits = self._hub.settings
        if isinstance(picture, bytes) and len(picture) > limits.frame_bytes:
            raise TooLargeError(
                f"The frame has {len(picture):,} bytes, more than {limits.frame_bytes:,}.", "Send a smaller JPEG."
            )
        check_time(time_s)
        check_follows(self._last_sent_s, time_s)
        self._last_sent_s = time_s
        self.counts.frames += 1
        self._touch()
        if len(self._inbox) >= limits.queue_frames:
            self._drop(self._inbox.popleft())
        loop = asyncio.get_running_loop()
        item = _Item(picture, time_s, time.monotonic(), loop.create_future())
        self._inbox.append(item)
        if self._worker is None:
            self._worker = loop.create_task(self._work(), name=f"session {self.id}")
        timer = loop.call_later(limits.answer_within_s, self._late, item)
        item.answer.add_done_callback(lambda _: timer.cancel())
        return item.answer

    async def push(self, picture: bytes | Image, time_s: float) -> Answer:
        """Queue a frame and wait for its answer."""
        return await self.submit(picture, time_s)

    async def add_odometry(self, samples: Sequence[Sample]) -> list[Answer]:
        """Take in samples; of a session without frames, with the fixes that became due."""
        self._check_open()
        check_samples(samples)
        for sample in samples:
            check_time(sample.time_s)
        self._touch()
        async with self._lock:
            self._check_open()  # it may have ended meanwhile
            follower = await self._wake()
            return await self._guarded(self._take_samples(follower, samples))

    async def set_prior(self, prior: Near | Box | None) -> None:
        """Say where the camera is; the belief starts again there."""
        self._check_open()
        options = self.options.model_copy(update={"prior": prior})
        await self._hub.check_options(options)
        async with self._lock:
            self._check_open()
            old = Progress.from_json((await self._hub.store.read(lambda db: store.kept(db, self.id))).progress)
            progress, text = Progress(old.count, old.frame_s, old.due_s).to_json(), options.model_dump_json()
            await self._hub.store.write(lambda db: store.restart(db, self.id, text, progress))
            self.options, self._follower, self._steps_since = options, None, 0
        self._hub.publish(Event("session", self.id, state=self.state))

    def _check_open(self) -> None:
        if not self.is_open:
            raise ConflictError(f"The session {self.id} has ended.", "Create a new one.")

    def _late(self, item: _Item) -> None:
        """The bound is reached: say so, whatever the frame is waiting for."""
        if item.answer.done():
            return
        if item in self._inbox:
            self._inbox.remove(item)
            self._drop(item)
            return
        self.counts.late += 1
        self._hub.metrics.late.inc()
        item.answer.set_result(Answer(item.time_s, "late", dropped=self.counts.dropped))

    def _drop(self, item: _Item) -> None:
        self.counts.dropped += 1
        self._hub.metrics.dropped.inc()
        if not item.answer.done():
            item.answer.set_result(Answer(item.time_s, "dropped", dropped=self.counts.dropped))
        if time.monotonic() - self._told_dropped >= TELL_DROPPED_S:
            self._told_dropped = time.monotonic()
            self._hub.publish(Event("dropped", self.id, dropped=self.counts.dropped))

    async def _work(self) -> None:
        """Answer frames until none waits; runs while there is one."""
        try:
            while self._inbox:
                item = self._inbox.popleft()
                waited = time.monotonic() - item.arrived
                if self._inbox and waited > 0.5 * self._hub.settings.answer_within_s:
                    self._drop(item)
                    continue
                await self._answer(item)
        finally:
            self._worker = None

    async def _answer(self, item: _Item) -> None:
        try:
            async with self._lock:
                self._check_open()
                answer = await self._guarded(self._take_frame(item))
        except asyncio.CancelledError:
            item.answer.cancel()
            raise
        except UserError as problem:
            self.counts.bad += not isinstance(problem, StoreError)
            _refuse(item, problem)
        except Exception as problem:
            _log.exception("a frame could not be answered", extra={"session": self.id})
            _refuse(item, problem)
        else:
            self._hub.metrics.latency.observe(time.monotonic() - item.arrived)
            if not item.answer.done():
                item.answer.set_result(answer)

    async def _guarded(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run something that changes the belief; if it cannot be stored, go back to what the store knows."""
        try:
            return await work
        except BaseException as problem:  # cancelled, too: a thread may still be moving this belief
            if isinstance(problem, StoreError) or not isinstance(problem, UserError):
                self._follower, self._steps_since = None, 0
            raise

    async def _take_frame(self, item: _Item) -> Answer:
        hub = self._hub
        image = item.picture
        if isinstance(image, bytes):
            image = await hub.compute("decode", decode_jpeg, image, hub.settings.frame_pixels)
        follower = await self._wake()
        looked: Look = await hub.compute("look", follower.look, image, item.time_s)
        self._picture, self._small = item.picture, None
        if not looked.due:
            if self.options.odometry != "frames":
                return Answer(item.time_s, "skipped", dropped=self.counts.dropped)
            await self._save(follower, [])
            return Answer(item.time_s, "taken", dropped=self.counts.dropped)
        code = None
        if looked.small is not None and hub.batcher is not None:
            start = time.perf_counter()
            code = await hub.batcher.encode(looked.small)
            hub.metrics.stage("encode", time.perf_counter() - start)
        advanced: Advanced = await hub.compute("track", follower.advance, item.time_s, code, looked.small)
        await self._save(follower, [advanced])
        return Answer(item.time_s, "fix", advanced.fix, self.counts.dropped, advanced.note)

    async def _take_samples(self, follower: Follower, samples: Sequence[Sample]) -> list[Answer]:
        follower.add_samples(samples)
        advanced: list[Advanced] = []
        if self.options.odometry == "samples-only":
            self._last_sent_s = samples[-1].time_s if samples else self._last_sent_s
            for time_s in follower.due_times():
                advanced.append(await self._hub.compute("track", follower.advance, time_s))
        await self._save(follower, advanced, samples)
        return [Answer(a.fix.time_s, "fix", a.fix, self.counts.dropped, a.note) for a in advanced]

    async def _save(self, follower: Follower, advanced: Sequence[Advanced], samples: Sequence[Sample] = ()) -> None:
        """Store what has changed, and only then let it be seen."""
        hub, counts = self._hub, self.counts
        fixes = [a.fix for a in advanced]
        steps = [a.step for a in advanced if a.step is not None]
        counts.fixes += len(fixes)
        counts.tracking += sum(fix.status == "tracking" for fix in fixes)
        counts.searches += sum(fix.refreshed for fix in fixes)
        self._steps_since += len(steps)
        snapshot = await self._snapshot_if_due(follower, steps)
        covered_s = follower.progress.covered_s
        update = store.Update(
            follower.progress.to_json(), counts.to_json(),
            [(fix.index, fix.time_s, rows.to_json(fix)) for fix in fixes], steps, snapshot,
            (samples[-1].time_s, to_array(samples).tobytes()) if samples else None,
            None if covered_s is None or not steps else covered_s - 2.0,
        )  # fmt: skip
        start = time.perf_counter()
        touched = self.touched
        await hub.store.write(lambda db: store.apply(db, self.id, update, touched))
        hub.metrics.stage("store", time.perf_counter() - start)
        for fix in fixes:
            self.latest = fix
            self.recent.append(replace(fix, view=None, evidence=None))
            hub.metrics.fix(fix)
            hub.publish(Event("fix", self.id, fix, counts.dropped))

    async def _snapshot_if_due(self, follower: Follower, steps: Sequence[Step]) -> tuple[int, bytes] | None:
        if not steps or self._steps_since < SNAPSHOT_STEPS:
            return None
        if follower.tracker.belief.poses.nbytes > SMALL_BYTES and self._steps_since < SNAPSHOT_STEPS_LARGE:
            return None
        data: bytes = await self._hub.compute("snapshot", pack, follower.tracker)
        self._steps_since = 0
        return steps[-1].index, data

    # Sleeping --------------------------------------------------------------------------------------------------------

    async def _wake(self) -> Follower:
        if self._follower is None:
            self._follower, self._steps_since = await self._hub.wake(self)
        return self._follower

    async def park(self) -> None:
        """Let go of the belief: it is in the store."""
        async with self._lock:
            if self._follower is not None and not self._inbox:
                self._follower, self._picture = None, None
                self.latest = None if self.latest is None else replace(self.latest, view=None)

    async def end(self) -> None:
        """Take no more frames. The track stays."""
        self._hub.stop_pulling(self)
        while self._inbox:
            self._drop(self._inbox.popleft())
        async with self._lock:
            if not self.is_open:
                return
            self._touch()
            await self._hub.store.write(lambda db: store.set_state(db, self.id, "ended", self.touched))
            self.state, self._follower, self._picture = "ended", None, None
            self.recent = deque(list(self.recent)[-SHOWN_ENDED:], SHOWN_ENDED)
            self.latest = None if self.latest is None else replace(self.latest, view=None)
        self._hub.publish(Event("session", self.id, state="ended", dropped=self.counts.dropped))

    async def settle(self) -> None:
        """Wait until no frame waits."""
        worker = self._worker
        if worker is not None:
            await asyncio.wait({worker})

    async def load_recent(self) -> None:
        """Read the last fixes from the store; after a start of the service."""
        most = SHOWN_FIXES if self.is_open else SHOWN_ENDED
        texts = await self._hub.store.read(lambda db: store.last_fixes(db, self.id, most))
        self.recent.extend(replace(rows.from_json(text), evidence=None) for text in texts)
        self.latest = self.recent[-1] if self.recent else None


def _refuse(item: _Item, problem: Exception) -> None:
    if not item.answer.done():
        item.answer.set_exception(problem)
        item.answer.exception()  # not an error if nobody waits any more


def _shrunk(picture: bytes | Image, most_pixels: int) -> bytes:
    return small_jpeg(decode_jpeg(picture, most_pixels) if isinstance(picture, bytes) else picture)
