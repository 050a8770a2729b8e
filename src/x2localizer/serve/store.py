"""What a service remembers, in one SQLite file: sessions, their fixes, and what it takes to go on after a crash.

An answer is given only after what it says was committed. The file is in write-ahead mode with ``synchronous=NORMAL``: a
commit is with the operating system, so nothing is lost when the process is killed; after a power cut the last moments
may be missing, but the file is whole. One thread writes, and commits everything that waits at once.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from x2localizer.errors import UserError
from x2localizer.files import cannot_write
from x2localizer.localize.track.tracker import Step
from x2localizer.serve.errors import NotThereError, StoreError
from x2localizer.types import Movement

FORMAT = 1
FILE = "serve.sqlite"
_TABLES = """
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, created REAL, touched REAL, state TEXT, options TEXT,
  progress TEXT, counts TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fixes (session TEXT, number INTEGER, time_s REAL, row TEXT,
  PRIMARY KEY (session, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS steps (session TEXT, number INTEGER, time_s REAL, movements BLOB, code BLOB,
  PRIMARY KEY (session, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS snapshots (session TEXT PRIMARY KEY, number INTEGER, data BLOB);
CREATE TABLE IF NOT EXISTS samples (id INTEGER PRIMARY KEY, session TEXT, last_s REAL, data BLOB);
CREATE INDEX IF NOT EXISTS samples_of ON samples (session);
CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, created REAL, state TEXT, about TEXT) WITHOUT ROWID;
"""
Work = Callable[[sqlite3.Connection], Any]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as it is stored; times are seconds since 1970, the rest is JSON."""

    id: str
    created: float
    touched: float
    state: str
    options: str
    progress: str
    counts: str


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """What one frame or one batch of samples changes; written as a whole or not at all.

    fixes: numbers, times and rows as JSON.
    steps: that the tracker took in.
    snapshot: replaces the steps up to the number beside it.
    samples: new ones, as bytes, and the time of the last.
    consumed_s: samples that end before this time are not needed any more.
    """

    progress: str
    counts: str
    fixes: Sequence[tuple[int, float, str]] = ()
    steps: Sequence[Step] = ()
    snapshot: tuple[int, bytes] | None = None
    samples: tuple[float, bytes] | None = None
    consumed_s: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What it takes to go on: where the session stands, a snapshot, the steps since, and the samples that wait."""

    progress: str
    snapshot: bytes | None
    steps: list[Step]
    samples: list[bytes]


@dataclass(slots=True)
class _Waiting:
    work: Work
    loop: asyncio.AbstractEventLoop | None
    done: asyncio.Future[Any] | None
    event: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    problem: Exception | None = None


class Store:
    """An open file; ``observe`` is called with the seconds of each commit."""

    def __init__(self, folder: Path, observe: Callable[[float], None] = lambda seconds: None) -> None:
        self.folder, self._observe = folder, observe
        self._path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)  # tracks are personal
            self._writer_connection = self._open()
        except OSError as problem:
            raise cannot_write(folder, problem) from problem
        except sqlite3.Error as problem:
            raise UserError(
                f"The store {self._path} cannot be opened: {problem}.", "Choose another --state, or move the file away."
            ) from problem
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(1, "store-reader", initializer=self._start_reader)
        self._local = threading.local()
        self._thread = threading.Thread(target=self._write_all, name="store", daemon=True)
        self._thread.start()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA busy_timeout=5000")
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, FORMAT):
            raise UserError(
                f"The store {self._path} has format {found}, this version reads {FORMAT}.", "Choose another --state."
            )
        connection.executescript(_TABLES)
        connection.execute(f"PRAGMA user_version={FORMAT}")
        return connection

    def _start_reader(self) -> None:
        self._local.connection = sqlite3.connect(self._path, isolation_level=None)

    # Writing ---------------------------------------------------------------------------------------------------------

    async def write(self, work: Work) -> Any:
        """Run something in a transaction, and return when it is committed."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(work, loop, loop.create_future())
        assert waiting.done is not None
        self._waiting.put(waiting)
        return await waiting.done

    def write_now(self, work: Work) -> Any:
        """The same without an event loop: waits for the commit."""
        waiting = _Waiting(work, None, None)
        self._waiting.put(waiting)
        waiting.event.wait()
        if waiting.problem is not None:
            raise waiting.problem
        return waiting.result

    def _write_all(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch = [first]
            while len(batch) < 256 and not self._waiting.empty():
                item = self._waiting.get()
                if item is None:
                    self._waiting.put(None)
                    break
                batch.append(item)
            self._commit(batch)

    def _commit(self, batch: list[_Waiting]) -> None:
        start, connection = time.perf_counter(), self._writer_connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for item in batch:
                item.result = item.work(connection)
            connection.execute("COMMIT")
        except Exception as problem:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if len(batch) > 1:  # one may be at fault: each gets a transaction of its own
                for item in batch:
                    self._commit([item])
                return
            batch[0].problem = _unwritten(self._path, problem)
        self._observe(time.perf_counter() - start)
        for item in batch:
            item.event.set()
            if item.loop is not None and not item.loop.is_closed():
                item.loop.call_soon_threadsafe(_finish, item)

    async def read(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run a query beside the writer."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, lambda: work(self._local.connection))

    def close(self) -> None:
        """Commit what waits, and close."""
        self._waiting.put(None)
        self._thread.join(30.0)
        self._readers.shutdown()
        self._writer_connection.close()


def _finish(item: _Waiting) -> None:
    if item.done is None or item.done.done():
        return
    if item.problem is not None:
        item.done.set_exception(item.problem)
    else:
        item.done.set_result(item.result)


def _unwritten(path: Path, problem: Exception) -> Exception:
    if not isinstance(problem, sqlite3.Error | OSError):
        return problem
    error = StoreError(f"The store {path.name} cannot be written: {problem}.", "Check the disk of the service.")
    error.__cause__ = problem
    return error


# Statements ----------------------------------------------------------------------------------------------------------


def add_session(db: sqlite3.Connection, row: SessionRow) -> None:
    """Add a session."""
    values = (row.id, row.created, row.touched, row.state, row.options, row.progress, row.counts)
    db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)", values)


def all_sessions(db: sqlite3.Connection) -> list[SessionRow]:
    """All sessions, in order of creation."""
    return [SessionRow(*row) for row in db.execute("SELECT * FROM sessions ORDER BY created")]


def set_state(db: sqlite3.Connection, session: str, state: str, touched: float) -> None:
    """Open or end a session; an ended one needs no belief any more."""
    db.execute("UPDATE sessions SET state = ?, touched = ? WHERE id = ?", (state, touched, session))
    if state != "open":
        forget_belief(db, session)


def forget_belief(db: sqlite3.Connection, session: str) -> None:
    """Remove a belief, and leave the fixes."""
    for table in ("steps", "snapshots", "samples"):
        db.execute(f"DELETE FROM {table} WHERE session = ?", (session,))


def restart(db: sqlite3.Connection, session: str, options: str, progress: str) -> None:
    """Start the belief again with other options."""
    forget_belief(db, session)
    db.execute("UPDATE sessions SET options = ?, progress = ? WHERE id = ?", (options, progress, session))


def remove_session(db: sqlite3.Connection, session: str) -> None:
    """Remove a session with its track."""
    forget_belief(db, session)
    db.execute("DELETE FROM fixes WHERE session = ?", (session,))
    db.execute("DELETE FROM sessions WHERE id = ?", (session,))


def apply(db: sqlite3.Connection, session: str, update: Update, touched: float) -> None:
    """Write what a frame has changed."""
    db.executemany("INSERT OR REPLACE INTO fixes VALUES (?, ?, ?, ?)", [(session, *row) for row in update.fixes])
    rows = [
        (session, s.index, s.time_s, movement_bytes(s.movements), None if s.code is None else s.code.tobytes())
        for s in update.steps
    ]
    db.executemany("INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?, ?)", rows)
    if update.snapshot is not None:
        number, data = update.snapshot
        db.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", (session, number, data))
        db.execute("DELETE FROM steps WHERE session = ? AND number <= ?", (session, number))
    if update.samples is not None:
        db.execute("INSERT INTO samples (session, last_s, data) VALUES (?, ?, ?)", (session, *update.samples))
    if update.consumed_s is not None:
        db.execute("DELETE FROM samples WHERE session = ? AND last_s < ?", (session, update.consumed_s))
    values = (update.progress, update.counts, touched, session)
    db.execute("UPDATE sessions SET progress = ?, counts = ?, touched = ? WHERE id = ?", values)


def fixes_of(db: sqlite3.Connection, session: str, start: int = 0, most: int = -1) -> list[str]:
    """Rows of fixes from a number on, as JSON."""
    rows = db.execute(
        "SELECT row FROM fixes WHERE session = ? AND number >= ? ORDER BY number LIMIT ?", (session, start, most)
    )
    return [row for (row,) in rows]


def last_fixes(db: sqlite3.Connection, session: str, most: int) -> list[str]:
    """The rows of the last fixes, oldest first."""
    rows = db.execute("SELECT row FROM fixes WHERE session = ? ORDER BY number DESC LIMIT ?", (session, most))
    return [row for (row,) in rows][::-1]


def kept(db: sqlite3.Connection, session: str) -> Kept:
    """What a session needs to go on."""
    found = db.execute("SELECT progress FROM sessions WHERE id = ?", (session,)).fetchone()
    if found is None:
        raise NotThereError(f"There is no session '{session}'.", "List them, or create one.")
    (progress,) = found
    snapshot = db.execute("SELECT data FROM snapshots WHERE session = ?", (session,)).fetchone()
    rows = db.execute("SELECT number, time_s, movements, code FROM steps WHERE session = ? ORDER BY number", (session,))
    steps = [
        Step(number, time_s, movements_from(data), None if code is None else np.frombuffer(code, np.float32))
        for number, time_s, data, code in rows
    ]
    samples = [data for (data,) in db.execute("SELECT data FROM samples WHERE session = ? ORDER BY id", (session,))]
    return Kept(progress, None if snapshot is None else snapshot[0], steps, samples)


def movement_bytes(movements: Sequence[Movement]) -> bytes:
    """Movements as six numbers each."""
    return np.array(
        [(m.start_s, m.end_s, m.distance_m, m.turn_deg, m.distance_sd_m, m.turn_sd_deg) for m in movements], "<f8"
    ).tobytes()


def movements_from(data: bytes) -> tuple[Movement, ...]:
    """Movements from six numbers each."""
    return tuple(Movement(*(float(v) for v in row)) for row in np.frombuffer(data, "<f8").reshape(-1, 6))
