"""Datasets of synthetic towns. Every town is written completely or not at all, so that a killed run can resume."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from x2localizer import __version__
from x2localizer.config import DatasetSettings, SplitSettings
from x2localizer.datasets.dataset import MANIFEST
from x2localizer.datasets.tables import FORMAT, SPLITS, write_table
from x2localizer.datasets.town_part import PARTS, Job, make_part
from x2localizer.errors import DatasetError
from x2localizer.files import LOCK, only_writer, remove_unfinished, write_text
from x2localizer.town.place import Place, place_for


def jobs_of(settings: DatasetSettings) -> list[Job]:
    """The towns of a dataset, small splits first, so that wrong settings show early.

    Towns are placed at random, so among hundreds some would overlap: a seed whose town would share ground with an
    earlier one is passed over, and the next one takes its place.
    """
    tiles = settings.town.tiles
    jobs: list[Job] = []
    places: list[Place] = []
    for name in ("val", "test", "train"):
        split: SplitSettings = getattr(settings, name)
        seed, wanted = split.first_seed, len(jobs) + split.towns
        while len(jobs) < wanted:
            if any(job.seed == seed for job in jobs):
                raise DatasetError("Two splits share a town.", "Set train, val and test.first_seed further apart.")
            place = place_for(seed, tiles)
            if not any(abs(place.x - other.x) < tiles and abs(place.y - other.y) < tiles for other in places):
                jobs.append(Job(name, seed, split))
                places.append(place)
            seed += 1
    return jobs


def make_dataset(
    settings: DatasetSettings,
    out: Path,
    command: str,
    workers: int = 2,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Make a dataset of towns in the folder ``out``, or resume one; returns the folder.

    ``progress`` is called with the number of towns done and the number of all towns.
    """
    fingerprint = hashlib.sha256((settings.model_dump_json() + f"|{FORMAT}").encode()).hexdigest()[:16]
    _refuse_foreign(out, fingerprint)  # before anything is written to the folder
    with only_writer(out):
        return _make(settings, out, command, workers, progress, fingerprint)


def _make(
    settings: DatasetSettings,
    out: Path,
    command: str,
    workers: int,
    progress: Callable[[int, int], None],
    fingerprint: str,
) -> Path:
    _refuse_foreign(out, fingerprint)  # another run may have started before the lock was taken
    jobs = jobs_of(settings)
    if (out / MANIFEST).is_file():
        progress(len(jobs), len(jobs))
        return out
    write_text(out / PARTS / "fingerprint", fingerprint + "\n")
    for name in (PARTS, "frames", "tiles", "regions", "imagery", "roads", "film", "motion"):
        remove_unfinished(out / name)
    missing = [job for job in jobs if not _part_done(out, job)]
    progress(len(jobs) - len(missing), len(jobs))
    for done, _ in enumerate(_run(settings, out, missing, workers), 1):
        progress(len(jobs) - len(missing) + done, len(jobs))
    _join(settings, out, jobs, command, fingerprint)
    return out


def _refuse_foreign(out: Path, fingerprint: str) -> None:
    """Raise if a folder contains other files, or a dataset with another config; changes nothing."""
    stamp, manifest = out / PARTS / "fingerprint", out / MANIFEST
    known = fingerprint
    try:
        if manifest.is_file():
            known = json.loads(manifest.read_text(encoding="utf-8"))["fingerprint"]
        elif stamp.is_file():
            known = stamp.read_text(encoding="utf-8").strip()
        elif out.exists() and any(path.name != LOCK for path in out.iterdir()):
            raise DatasetError(f"{out} contains other files.", "Choose a new folder with --out.")
    except NotADirectoryError as problem:
        raise DatasetError(f"{out} is a file.", "Choose a new folder with --out.") from problem
    except (ValueError, KeyError, TypeError) as problem:
        raise DatasetError(f"{manifest} is damaged.", "Remove it to resume, or choose a new folder.") from problem
    if known != fingerprint:
        raise DatasetError(f"{out} was started with another config.", "Choose a new folder with --out, or remove it.")


def _part_done(out: Path, job: Job) -> bool:
    return (out / PARTS / job.name / "done").is_file()


def _run(settings: DatasetSettings, out: Path, jobs: list[Job], workers: int) -> Iterator[str]:
    """Make the parts in worker processes; yields their names as they are done."""
    if workers <= 1 or len(jobs) <= 1:
        for job in jobs:
            yield make_part(settings, out, job)
        return
    pool = ProcessPoolExecutor(min(workers, len(jobs)), get_context("spawn"), _end_with_parent, (os.getpid(),))
    futures = [pool.submit(make_part, settings, out, job) for job in jobs]
    try:
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool as problem:
        raise DatasetError(
            "A worker was killed, perhaps for lack of memory.", "Run the same command again to resume."
        ) from problem
    finally:  # also on Ctrl-C and if a town fails: no worker may write after the lock is released
        unfinished = [future for future in futures if not future.done()]
        for future in unfinished:
            future.cancel()
        if unfinished:
            for process in list((pool._processes or {}).values()):
                process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _end_with_parent(parent: int) -> None:
    """Make a worker exit soon after its parent was killed, and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _join(settings: DatasetSettings, out: Path, jobs: list[Job], command: str, fingerprint: str) -> None:
    """Join the parts to the tables of the dataset, and write the manifest, which marks it as complete."""
    counts: dict[str, int] = {}
    order = sorted(jobs, key=lambda job: (SPLITS.index(job.split), job.seed))
    for name in ("regions", "videos", "frames"):
        table = pa.concat_tables([pq.read_table(out / PARTS / job.name / f"{name}.parquet") for job in order])
        write_table(out / f"{name}.parquet", table)
        counts[name] = table.num_rows
    manifest = {
        "format": FORMAT,
        "kind": "town",
        "command": command,
        "seeds": {name: [job.seed for job in order if job.split == name] for name in SPLITS},
        "config": settings.model_dump(mode="json"),
        "fingerprint": fingerprint,
        "x2localizer": __version__,
        "counts": counts,
    }
    write_text(out / MANIFEST, json.dumps(manifest, indent=2) + "\n")
    shutil.rmtree(out / PARTS, ignore_errors=True)
