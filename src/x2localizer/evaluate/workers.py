"""Work in processes beside each other."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

from x2localizer.errors import UserError

Task = TypeVar("Task")
Result = TypeVar("Result")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""How many threads libraries of linear algebra start; they read it when they are loaded."""


def in_workers(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    workers: int,
    prepare: Callable[..., None] | None = None,
    arguments: tuple[Any, ...] = (),
) -> Iterator[tuple[int, Result]]:
    """The number of each task and its result, as they are done.

    workers: processes; with one, the work is done in this process.
    prepare, arguments: called once in each process, before its first task.
    """
    if workers <= 1 or len(tasks) <= 1:
        if prepare is not None and tasks:
            prepare(*arguments)
        for number, task in enumerate(tasks):
            yield number, function(task)
        return
    start = (os.getpid(), prepare, arguments)
    with _one_thread_each():
        pool = ProcessPoolExecutor(min(workers, len(tasks)), get_context("spawn"), _start, start)
        futures = {pool.submit(function, task): number for number, task in enumerate(tasks)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as problem:
            raise UserError(
                "A worker was killed, perhaps for lack of memory.", "Run the same command again with --workers 1."
            ) from problem
        finally:  # also on Ctrl-C and if a task fails
            if not all(future.done() for future in futures):
                for process in list((pool._processes or {}).values()):
                    process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started in this block have one thread for linear algebra: together they use all cores anyway."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _start(parent: int, prepare: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    """Make a worker end soon after its parent, leave Ctrl-C to the parent, and prepare it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    if prepare is not None:
        prepare(*arguments)
