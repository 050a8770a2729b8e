"""Whole videos: each is a job with progress, a result and a report. One at a time, in the order they came."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import shutil
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from x2localizer.files import cannot_write
from x2localizer.serve.errors import BadInputError, BusyError, NotThereError, StoreError, TooLargeError
from x2localizer.serve.settings import Box, Near, ServeSettings
from x2localizer.serve.store import Store

JobState = Literal["waiting", "running", "done", "failed"]
LONGEST_S = 12 * 3600.0
"""A job that takes longer is stopped."""
SAVE_AGAIN_S = 10.0
"""Until the end of a job that could not be stored is stored again."""
_log = logging.getLogger("x2localizer.serve")
_CONTAINERS = (
    (4, b"ftyp"), (4, b"moov"), (4, b"mdat"), (4, b"wide"), (4, b"free"), (0, b"\x1a\x45\xdf\xa3"), (0, b"RIFF"),
    (0, b"FLV"), (0, b"OggS"), (0, b"\x00\x00\x01\xba"), (0, b"\x00\x00\x01\xb3"), (0, b"\x47"), (4, b"\x47"),
    (0, b"\x30\x26\xb2\x75"),
)  # fmt: skip
"""How videos begin: MP4, Matroska, AVI, FLV, Ogg, MPEG, ASF. Playlists, which name other files, are not among them."""


@dataclass(frozen=True, slots=True)
class Job:
    """A whole video.

    done_s, total_s: seconds of video that are done, and how many there are, as far as that is known.
    summary: the track in a few numbers, at the end.
    files: that can be fetched.
    error, remedy: of a failed one.
    """

    id: str
    created: float
    state: JobState
    name: str
    fov_deg: float | None = None
    height_m: float = 1.5
    prior: dict[str, Any] | None = None
    done_s: float = 0.0
    total_s: float | None = None
    summary: dict[str, Any] | None = None
    files: list[str] = field(default_factory=list)
    note: str | None = None
    error: str | None = None
    remedy: str | None = None


class Jobs:
    """The jobs of a service, in a folder and in its store."""

    def __init__(self, store: Store, gallery: str, bundle: str, limits: ServeSettings) -> None:
        self._store, self._gallery, self._bundle, self._limits = store, gallery, bundle, limits
        self._folder = store.folder / "jobs"
        self._jobs: dict[str, Job] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._process: asyncio.subprocess.Process | None = None
        self._running: str | None = None

    async def start(self) -> None:
        """Bring back the jobs of the store; one that was interrupted runs again."""
        for text in await self._store.read(lambda db: [row for (row,) in db.execute(_ALL)]):
            job = Job(**json.loads(text))
            self._jobs[job.id] = job
            if job.state in ("waiting", "running"):
                self._jobs[job.id] = replace(job, state="waiting", done_s=0.0)
                self._queue.put_nowait(job.id)
        for left in self._folder.glob("*"):
            if left.name not in self._jobs:
                shutil.rmtree(left, ignore_errors=True)  # an upload that was interrupted
        self._worker = asyncio.create_task(self._work(), name="jobs")

    async def close(self) -> None:
        """Stop; a job that runs will start again."""
        self._worker.cancel()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
        await asyncio.wait({self._worker})

    def all(self) -> list[Job]:
        """All jobs, oldest first."""
        return list(self._jobs.values())

    def get(self, name: str) -> Job:
        """The job with an id."""
        found = self._jobs.get(name)
        if found is None:
            raise NotThereError(f"There is no job '{name[:40]}'.", "List them, or send a video.")
        return found

    async def add(
        self, video: AsyncIterator[bytes], name: str, fov_deg: float | None, height_m: float, prior: Near | Box | None
    ) -> Job:
        """Take in a video as it comes, and queue it."""
        if len(self._jobs) >= self._limits.jobs:
            raise BusyError(f"There are {len(self._jobs)} jobs already.", "Remove one that is done.")
        job = Job(
            secrets.token_hex(8), time.time(), "waiting", name, fov_deg, height_m,
            None if prior is None else prior.model_dump(),
        )  # fmt: skip
        folder = self._folder / job.id
        try:
            folder.mkdir(parents=True)
            await self._receive(video, folder / "video")
            await self._save(job)
        except OSError as problem:
            self._jobs.pop(job.id, None)
            shutil.rmtree(folder, ignore_errors=True)
            raise cannot_write(folder, problem) from problem
        except BaseException:
            self._jobs.pop(job.id, None)
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._queue.put_nowait(job.id)
        return job

    async def _receive(self, video: AsyncIterator[bytes], path: Path) -> None:
        size, loop = 0, asyncio.get_running_loop()
        with path.open("wb") as file:
            async for part in video:
                if size == 0 and part:
                    _check_begin(part)
                size += len(part)
                if size > self._limits.upload_bytes:
                    raise TooLargeError(
                        f"The video has more than {self._limits.upload_bytes:,} bytes.", "Send it in parts."
                    )
                await loop.run_in_executor(None, file.write, part)
        if size == 0:
            raise BadInputError("The video is empty.", "Send it as the body of the request.")

    async def remove(self, name: str) -> None:
        """Remove a job with its files; one that runs is stopped."""
        job = self.get(name)
        self._jobs.pop(job.id)
        if self._running == job.id and self._process is not None and self._process.returncode is None:
            self._process.kill()
        await self._store.write(lambda db: db.execute("DELETE FROM jobs WHERE id = ?", (job.id,)))
        await asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, self._folder / job.id, True)

    def file(self, name: str, file: str) -> Path:
        """A file of a job that is done."""
        job = self.get(name)
        if file not in job.files:
            raise NotThereError(f"The job has no file '{file[:40]}'.", f"It has: {', '.join(job.files) or 'none yet'}.")
        return self._folder / job.id / "track" / file

    async def tidy(self) -> None:
        """Remove jobs that were done long ago."""
        for job in self.all():
            if job.state in ("done", "failed") and time.time() - job.created > self._limits.keep_ended_s:
                await self.remove(job.id)

    async def _save(self, job: Job) -> None:
        self._jobs[job.id] = job
        row = (job.id, job.created, job.state, json.dumps(asdict(job)))

        def put(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?)", row)

        await self._store.write(put)

    async def _work(self) -> None:
        while True:
            name = await self._queue.get()
            job = self._jobs.get(name)
            if job is None:
                continue
            self._running = name
            try:
                await self._save(replace(job, state="running"))
                finished = await asyncio.wait_for(self._run(job), LONGEST_S)
            except TimeoutError:
                finished = replace(job, state="failed", error="The job took too long.", remedy="Send a shorter video.")
            except asyncio.CancelledError:
                raise
            except Exception:
                _log.exception("a job failed", extra={"job": name})
                finished = replace(job, state="failed", error="The job failed.", remedy="See the log of the service.")
            finally:
                self._running = None
            if name in self._jobs:
                await self._finish(finished)

    async def _finish(self, job: Job) -> None:
        """Store the end of a job, however long the disk is full; then its video is no longer needed."""
        self._jobs[job.id] = job
        while job.id in self._jobs:
            try:
                await self._save(job)
                break
            except StoreError:
                _log.warning("the end of a job could not be stored; trying again", extra={"job": job.id})
                await asyncio.sleep(SAVE_AGAIN_S)
        (self._folder / job.id / "video").unlink(missing_ok=True)

    async def _run(self, job: Job) -> Job:
        folder = self._folder / job.id
        task = {
            "video": str(folder / "video"), "gallery": self._gallery, "bundle": self._bundle,
            "out": str(folder / "track"), "title": f"Where was the camera? {job.name}", "fov_deg": job.fov_deg,
            "height_m": job.height_m, "prior": job.prior,
        }  # fmt: skip
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "x2localizer.serve.job", json.dumps(task),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, stdin=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdout is not None
        said: dict[str, Any] = {}
        try:
            async for line in process.stdout:
                said = json.loads(line) if line.startswith(b"{") else said
                if "done_s" in said and job.id in self._jobs:
                    self._jobs[job.id] = replace(
                        self._jobs[job.id], state="running", done_s=said["done_s"], total_s=said["total_s"]
                    )
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
        latest = self._jobs.get(job.id, job)
        if "summary" in said:
            return replace(latest, state="done", summary=said["summary"], files=said["files"], note=said["note"])
        error = said.get("error", "The video could not be read to its end.")
        return replace(latest, state="failed", error=error, remedy=said.get("remedy", "Check that it plays elsewhere."))


_ALL = "SELECT about FROM jobs ORDER BY created"


def _check_begin(part: bytes) -> None:
    if not any(part[at : at + len(mark)] == mark for at, mark in _CONTAINERS):
        raise BadInputError("That is not a video of a known kind.", "Send MP4, MOV, MKV, WebM, AVI, FLV, TS or MPEG.")
