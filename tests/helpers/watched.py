"""Commands that serve pages, run as a user runs them: in a process of their own, on a port that the system chooses."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from helpers.command_line import RUN

START_WITHIN_S = 600.0
"""Kernels may have to be compiled first, on a busy machine."""


@dataclass
class Running:
    """A running command.

    address: where it says that it listens.
    lines: what it has printed so far.
    """

    process: subprocess.Popen[str]
    address: str = ""
    lines: list[str] = field(default_factory=list)

    def stop(self) -> int:
        """Press Ctrl-C; returns the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


@contextmanager
def command(*words: str) -> Iterator[Running]:
    """A command that prints its address; killed at the end if it still runs."""
    process = subprocess.Popen([*RUN, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    running = Running(process)
    reader = threading.Thread(target=_read, args=(running,), daemon=True)
    reader.start()
    try:
        end = time.monotonic() + START_WITHIN_S
        while not running.address:
            assert process.poll() is None, "".join(running.lines)
            assert time.monotonic() < end, "".join(running.lines)
            time.sleep(0.1)
        yield running
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(10)
        reader.join(5)


def _read(running: Running) -> None:
    assert running.process.stdout is not None
    for line in running.process.stdout:
        running.lines.append(line)
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found and not running.address:
            running.address = found[0]
