"""The hub: one gallery, one encoder, many sessions. Everything that the HTTP layer and the map page talk to.

Used from one event loop; what computes runs in threads, since the tracker's kernels, ONNX Runtime and the decoders all
let go of Python's lock.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

import cv2
import numpy as np

from x2localizer import geo
from x2localizer.config import TrackSettings
from x2localizer.encoders import Encoder
from x2localizer.errors import UserError
from x2localizer.files import only_writer
from x2localizer.gallery import Gallery
from x2localizer.localize.track.snapshot import SnapshotError, restore
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.localize.track.tracker import Tracker
from x2localizer.odometry.record import scale_sd_of
from x2localizer.search import Prior
from x2localizer.serve import store
from x2localizer.serve.allow import Allowed
from x2localizer.serve.answers import Counts
from x2localizer.serve.batcher import Batcher
from x2localizer.serve.errors import BadInputError, BusyError, ForbiddenError, NotThereError
from x2localizer.serve.events import Board, Event, Subscription
from x2localizer.serve.follower import Follower, Progress
from x2localizer.serve.jobs import Jobs
from x2localizer.serve.metrics import Metrics
from x2localizer.serve.pull import Puller
from x2localizer.serve.samples import BIAS_SD_DEG_S, SCALE_SD, from_array
from x2localizer.serve.session import Session
from x2localizer.serve.settings import ServeSettings, SessionOptions
from x2localizer.sources.roads import Roads
from x2localizer.types import Movement

P = ParamSpec("P")
Result = TypeVar("Result")
JUST_USED_S = 5.0
"""A session that was used within this time is not put to sleep to make room."""
_log = logging.getLogger("x2localizer.serve")


class Hub:
    """Follows cameras over one gallery; :meth:`start` before use, :meth:`close` at the end.

    gallery, encoder: open ones that belong together; roads alone need no encoder.
    folder: for the store; one process at a time.
    track: settings of all trackers, instead of those in ``settings``.
    prior: the part of the gallery that is used; all by default.
    allowed: addresses that sessions may pull from; none by default.
    """

    def __init__(
        self, gallery: Gallery, encoder: Encoder | None, folder: Path, settings: ServeSettings | None = None, *,
        track: TrackSettings | None = None, prior: Prior | None = None, allowed: Allowed | None = None,
        threads: int | None = None,
    ) -> None:  # fmt: skip
        self.gallery, self.settings = gallery, settings or ServeSettings()
        self.track = track or self.settings.track
        self.folder, self.metrics, self.allowed = folder, Metrics(), allowed or Allowed()
        uses_tiles = gallery.has_tiles and self.track.use_tiles and encoder is not None
        self.map = TrackMap.of(gallery, prior, roads=self.track.use_roads, tiles=uses_tiles)
        self.encoder = encoder if uses_tiles else None
        self.batcher: Batcher | None = None
        self.boards: defaultdict[str, Board] = defaultdict(Board)
        self.board = Board()
        self.ready = False
        self.started = time.time()
        self._threads = threads or os.cpu_count() or 1
        self.jobs: Jobs | None = None
        self._sessions: dict[str, Session] = {}
        self._pullers: dict[str, Puller] = {}
        self._waking: set[str] = set()
        self._lock = only_writer(folder)
        self._roads: Roads | None = None

    # Looking on ------------------------------------------------------------------------------------------------------

    def sessions(self) -> list[Session]:
        """All sessions, open and ended, oldest first."""
        return list(self._sessions.values())

    def session(self, name: str) -> Session:
        """The session with an id."""
        found = self._sessions.get(name)
        if found is None:
            raise NotThereError(f"There is no session '{name[:40]}'.", "List them, or create one.")
        return found

    def subscribe(self) -> Subscription:
        """News of all sessions."""
        return self.board.subscribe(self.settings.events_waiting)

    async def roads(self) -> Roads:
        """Centre lines of all roads of the gallery."""
        if self._roads is None:
            self._roads = await self.compute("show", self.gallery.roads)
        return self._roads

    def publish(self, event: Event) -> None:
        """Tell those who listen."""
        self.board.publish(event)
        if event.session in self.boards:
            self.boards[event.session].publish(event)

    # Sessions --------------------------------------------------------------------------------------------------------

    async def create(self, options: SessionOptions) -> Session:
        """A new session."""
        if sum(session.is_open for session in self._sessions.values()) >= self.settings.sessions:
            raise BusyError(
                f"There are {self.settings.sessions:,} open sessions already.", "End one, or wait until one expires."
            )
        await self.check_options(options)
        now = time.time()
        row = store.SessionRow(
            secrets.token_hex(8), now, now, "open", options.model_dump_json(), Progress().to_json(), Counts().to_json()
        )
        session = Session(self, row)
        await self.store.write(lambda db: store.add_session(db, row))
        self._sessions[session.id] = session
        self.publish(Event("session", session.id))
        _log.info("session created", extra={"session": session.id, "camera": session.name})
        self._pull(session)
        return session

    def _pull(self, session: Session) -> None:
        if session.options.source is not None and session.is_open:
            self._pullers[session.id] = Puller(self, session, self.allowed.check(session.options.source))

    def stop_pulling(self, session: Session) -> None:
        """Stop reading the source of a session, if it has one."""
        puller = self._pullers.pop(session.id, None)
        if puller is not None:
            puller.stop()

    async def remove(self, name: str) -> None:
        """End a session and remove its track."""
        session = self.session(name)
        await session.end()
        await self.store.write(lambda db: store.remove_session(db, session.id))
        self._sessions.pop(session.id, None)
        board = self.boards.pop(session.id, None)
        if board is not None:
            board.close()
        self.publish(Event("session", session.id, state="removed"))

    async def check_options(self, options: SessionOptions) -> None:
        """Refuse options that no tracker can be made with."""
        settings = options.track_settings(self.track)
        tiles = self.encoder is not None and self.map.tiles is not None and settings.use_tiles
        if not tiles and not (self.map.roads is not None and settings.use_roads):
            raise BadInputError("The gallery has nothing that this session uses.", "Use its tiles, or its roads.")
        if options.odometry == "samples-only" and not (self.map.roads is not None and settings.use_roads):
            raise BadInputError("Odometry alone needs roads, and the gallery has none.", "Send frames, too.")
        if options.source is not None:
            self.allowed.check(options.source)
            if options.odometry == "samples-only":
                raise BadInputError("A session without frames cannot read a source.", 'Use "odometry": "samples".')
        if options.prior is not None and not await self.compute("check", self._reaches, options.prior.prior):
            raise BadInputError(
                "The gallery has nothing at that place.", "Check the latitude and longitude, or leave out the prior."
            )

    def _reaches(self, prior: Prior) -> bool:
        """Whether a prior holds anything of the map."""
        field, tiles = self.map.roads, self.map.tiles
        if field is not None:
            x, y = field.x, field.y
        else:
            assert tiles is not None
            x, y = tiles.places()
        lats, lons = geo.from_tile_coordinates(x, y, self.map.patches.zoom)
        return bool(prior.contains(lats, geo.wrap_longitude(lons)).any())

    async def wake(self, session: Session) -> tuple[Follower, int]:
        """The follower of a session, from the store; and how many steps were replayed. Makes room for it if needed."""
        self._waking.add(session.id)
        try:
            await self._make_room(session)
            kept = await self.store.read(lambda db: store.kept(db, session.id))
            follower = await self.compute("wake", self._restored, session.options, kept)
        finally:
            self._waking.discard(session.id)
        return follower, len(kept.steps)

    def _restored(self, options: SessionOptions, kept: store.Kept) -> Follower:
        progress = Progress.from_json(kept.progress)
        follower = Follower(self._tracker(options), options, progress)
        try:
            if kept.snapshot is not None:
                restore(follower.tracker, kept.snapshot)
            follower.replay(kept.steps)
        except (SnapshotError, ValueError) as problem:
            # The gallery or the bundle is another one now. The track goes on with a belief that knows nothing.
            _log.warning("a belief could not be restored", extra={"reason": str(problem)})
            fresh = Progress(progress.count, progress.frame_s, progress.due_s)
            return Follower(self._tracker(options), options, fresh)
        for data in kept.samples:
            follower.samples.add(from_array(np.frombuffer(data, np.float64).reshape(-1, 3)))
        if progress.covered_s is not None:
            follower.samples.forget_before(progress.covered_s)
        return follower

    def _tracker(self, options: SessionOptions) -> Tracker:
        shared = self.map if options.prior is None else replace(self.map, prior=options.prior.prior)
        by_frames = options.odometry == "frames"
        return Tracker(
            shared, self.encoder, options.track_settings(self.track),
            scale_sd=scale_sd_of(options.camera.profile) if by_frames else SCALE_SD,
            bias_sd_deg_s=0.0 if by_frames else BIAS_SD_DEG_S,
        )  # fmt: skip

    async def _make_room(self, session: Session) -> None:
        awake = [other for other in self._sessions.values() if other.awake and other is not session]
        if len(awake) + len(self._waking) <= self.settings.awake_sessions:
            return
        oldest = max(awake, key=lambda other: other.idle_s, default=None)
        if oldest is None or oldest.idle_s < JUST_USED_S:
            raise BusyError(
                f"The service follows {self.settings.awake_sessions} cameras, as many as it can.",
                "Try again when one of them has ended.",
            )
        await oldest.park()

    async def tidy(self) -> None:
        """Put idle sessions to sleep, end those that were left, and remove old tracks; called now and then."""
        limits, now = self.settings, time.time()
        for session in self.sessions():
            if session.awake and session.idle_s >= limits.park_after_s:
                await session.park()
            if session.is_open and session.idle_s >= limits.expire_after_s and session.options.source is None:
                _log.info("session expired", extra={"session": session.id})
                await session.end()
            elif not session.is_open and now - session.touched >= limits.keep_ended_s:
                await self.remove(session.id)
        ended = [session for session in self.sessions() if not session.is_open]
        for session in sorted(ended, key=lambda one: one.touched)[: max(0, len(ended) - limits.ended_sessions)]:
            await self.remove(session.id)
        if self.jobs is not None:
            await self.jobs.tidy()

    # Start and end ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store, bring back its sessions, and warm up the kernels; then ``ready``."""
        self._lock.__enter__()
        try:
            self.store = store.Store(self.folder, lambda seconds: self.metrics.stage("commit", seconds))
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        cv2.setNumThreads(1)  # frames of many cameras are looked at side by side instead
        self._pool = ThreadPoolExecutor(self._threads, "compute")
        if self.encoder is not None:
            self.batcher = Batcher(self.encoder, self._batched)
        for row in await self.store.read(store.all_sessions):
            try:
                session = Session(self, row)
            except (ValueError, TypeError) as problem:
                _log.warning("a stored session could not be read", extra={"session": row.id, "reason": str(problem)})
                continue
            self._sessions[row.id] = session
            await session.load_recent()
        await self.compute("warm up", self._warm_up)
        for session in self.sessions():
            try:
                self._pull(session)
            except ForbiddenError as problem:
                session.source_state = f"failed: {problem.what}"
        self._tidying = asyncio.create_task(self._tidy_forever(), name="tidy")
        self._add_gauges()
        self.ready = True

    def _batched(self, seconds: float, frames: int) -> None:
        self.metrics.stage("encode batch", seconds)
        self.metrics.batch.observe(frames)

    def _warm_up(self) -> None:
        """Compile the kernels, or load them, before the first frame comes."""
        tracker = Tracker(
            self.map, self.encoder, self.track.model_copy(update={"start_poses": 1000, "most_poses": 1000})
        )
        code = None
        if self.encoder is not None:
            height, width = self.encoder.spec.frame_size
            code = self.encoder.encode_frames(np.zeros((1, height, width, 3), np.uint8))[0]
        for second in range(3):
            moved = Movement(second, second + 1.0, 10.0, 5.0, 0.5, 0.5)
            tracker.advance(second, second + 1.0, [moved] if second else [], code)

    def _add_gauges(self) -> None:
        m, everyone = self.metrics, self._sessions
        m.gauge("x2l_open_sessions", "Open sessions.", lambda: sum(s.is_open for s in everyone.values()))
        m.gauge(
            "x2l_awake_sessions", "Sessions with a belief in memory.", lambda: sum(s.awake for s in everyone.values())
        )
        m.gauge("x2l_waiting_frames", "Frames that wait.", lambda: sum(s.waiting for s in everyone.values()))
        m.gauge("x2l_listeners", "Listeners to events.", lambda: self.listeners)
        m.lost_share(self._lost_share)

    @property
    def listeners(self) -> int:
        """Event streams and sockets that are open."""
        return len(self.board) + sum(len(board) for board in self.boards.values())

    def _lost_share(self) -> float:
        latest = [s.latest for s in self._sessions.values() if s.awake and s.latest is not None]
        return sum(fix.status == "lost" for fix in latest) / len(latest) if latest else 0.0

    async def _tidy_forever(self) -> None:
        while True:
            await asyncio.sleep(min(10.0, 0.5 * self.settings.park_after_s))
            try:
                await self.tidy()
            except UserError as problem:
                _log.warning("tidying failed", extra={"reason": str(problem)})

    async def close(self) -> None:
        """Finish the frames that are being looked at, and close everything."""
        self.ready = False
        self._tidying.cancel()
        self.board.close()
        for board in self.boards.values():
            board.close()
        for puller in self._pullers.values():
            puller.stop()
        await asyncio.gather(*(puller.ended() for puller in self._pullers.values()))
        await asyncio.gather(*(session.settle() for session in self._sessions.values()))
        if self.batcher is not None:
            self.batcher.close()
        self._pool.shutdown()
        self.store.close()
        self._lock.__exit__(None, None, None)

    async def compute(self, stage: str, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Run something in the pool, and note how long it took."""
        start = time.perf_counter()
        result = await asyncio.get_running_loop().run_in_executor(self._pool, partial(function, *args, **kwargs))
        self.metrics.stage(stage, time.perf_counter() - start)
        return result
