"""Feeds broken files to all readers in processes of their own, for some minutes, and counts what becomes of them."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.readers import READERS, Reader, as_json

TESTS = Path(__file__).parent.parent
BATCH_S = 4.0
"""Seconds of work that a worker is given at once, roughly."""


@dataclass(slots=True)
class Tally:
    """What became of the inputs of one reader. Failures are told apart by their last lines."""

    inputs: int = 0
    read: int = 0
    refused: int = 0
    failures: int = 0
    hangs: int = 0
    crashes: int = 0
    seconds: float = 0.0
    examples: dict[str, list[int]] = field(default_factory=dict)

    def add(self, what: str, number: int, why: str) -> None:
        """Count one input."""
        self.inputs += 1
        if what == "read":
            self.read += 1
        elif what == "refused":
            self.refused += 1
        else:
            self.failures += what == "failed"
            self.hangs += what == "hang"
            self.crashes += what == "crash"
            self.examples.setdefault(f"{what}: {why}", []).append(number)

    @property
    def bad(self) -> int:
        """Inputs that should not have ended as they did."""
        return self.failures + self.hangs + self.crashes


class Worker:
    """A process that reads inputs. It is started again after a crash, a hang, or too much memory."""

    def __init__(self, number: int, seeds: Path, folder: Path, seed: int, timeout_s: float) -> None:
        self._command = [
            sys.executable, "-m", "fuzz.worker", str(seeds), str(folder / f"worker{number}"), str(seed),
        ]  # fmt: skip
        self._timeout_s = timeout_s
        self._log = folder / f"worker{number}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.reader: Reader | None = None
        self.next = self.end = 0
        self._began_s: float | None = None
        self._began_cpu_s = 0.0
        self._buffer = b""

    def start(self) -> None:
        """Start the process, if none is running."""
        if self.process is None:
            paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
            one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
            with self._log.open("wb") as log:
                self.process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=TESTS,
                    env={**os.environ, **one, "PYTHONPATH": paths, "PYTHONFAULTHANDLER": "1"},
                )  # fmt: skip
            self._began_s, self._buffer = None, b""

    def give(self, reader: Reader, first: int, count: int) -> None:
        """Hand over the next inputs."""
        self.start()
        assert self.process is not None and self.process.stdin is not None
        self.reader, self.next, self.end = reader, first, first + count
        self.process.stdin.write(as_json({"reader": reader.name, "first": first, "count": count}).encode() + b"\n")
        self.process.stdin.flush()

    def poll(self, tally: Tally) -> bool:
        """Take in what the process has said since; returns whether it has ended its inputs, or has died of one."""
        assert self.process is not None and self.process.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            if waiting.select(0.2):
                data = os.read(self.process.stdout.fileno(), 1 << 16)
                if not data:
                    return self._died(tally, "crash")
                *lines, self._buffer = (self._buffer + data).split(b"\n")
                for line in lines:
                    if self._take(json.loads(line), tally):
                        return True
        return self._hangs() and self._died(tally, "hang")

    def _hangs(self) -> bool:
        """Whether the input has used up its processor time, or four times that while others used the machine."""
        if self._began_s is None or time.monotonic() - self._began_s <= self._timeout_s:
            return False
        lasted_s = time.monotonic() - self._began_s
        return lasted_s > 4 * self._timeout_s or self._cpu_s() - self._began_cpu_s > self._timeout_s

    def _cpu_s(self) -> float:
        assert self.process is not None
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # no such files on this system: any time counts
            return float("inf")
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _take(self, said: dict[str, object], tally: Tally) -> bool:
        if "begin" in said:
            self._began_s, self._began_cpu_s = time.monotonic(), self._cpu_s()
        elif "end" in said:
            self._began_s = None
            self.next += 1
            tally.add(str(said["what"]), int(str(said["end"])), _signature(str(said["why"])))
        return "done" in said

    def _died(self, tally: Tally, what: str) -> bool:
        code = self.stop()
        log = self._log.read_text("utf-8", "replace")
        why = f"ended with {code}\n{_signature(log)}" if what == "crash" else f"more than {self._timeout_s:.0f} s"
        tally.add(what, self.next, why)
        self.next += 1
        return True

    def stop(self) -> int | None:
        """End the process."""
        if self.process is None:
            return None
        process, self.process = self.process, None
        if process.poll() is None:
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        return process.returncode


def _signature(why: str) -> str:
    """The lines that tell one failure from another: where it was raised, and what it says."""
    lines = [line.strip() for line in why.strip().splitlines()]
    places = [line for line in lines if line.startswith("File ") and "x2localizer" in line][-1:]
    last = [line for line in lines if line and not line.startswith(("File ", "^", "~"))][-1:]
    return "\n".join([*places, *(line[:300] for line in last)])


def available() -> list[Reader]:
    """All readers whose libraries are installed."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return [reader for reader in READERS if not reader.torch]
    return list(READERS)


def make_seeds(readers: Sequence[Reader], folder: Path) -> None:
    """Write the sound files of readers."""
    for reader in readers:
        (folder / reader.name).mkdir(parents=True)
        reader.make(folder / reader.name)


def fuzz(
    readers: Sequence[Reader], *, minutes: float, seed: int = 0, workers: int = 2, timeout_s: float = 30.0,
    most_inputs: int | None = None, first: int = 0,
) -> dict[str, Tally]:  # fmt: skip
    """Read broken inputs until the time is over; each time the reader with the least time behind it is next.

    most_inputs: of each reader; the run ends when all have had that many.
    first: number of the first input.
    """
    tallies = {reader.name: Tally() for reader in readers}
    upcoming = {reader.name: first for reader in readers}
    folder = Path(tempfile.mkdtemp(prefix="x2l-fuzz-"))
    team = [Worker(number, folder / "seeds", folder, seed, timeout_s) for number in range(workers)]
    try:
        make_seeds(readers, folder / "seeds")
        end_s = time.monotonic() + 60.0 * minutes
        began: dict[int, float] = {}
        while True:
            left = [] if time.monotonic() >= end_s else [
                reader for reader in readers if most_inputs is None or upcoming[reader.name] < first + most_inputs
            ]  # fmt: skip
            if not left and not began:
                return tallies
            for number, worker in enumerate(team):
                if number in began:
                    reader = worker.reader
                    assert reader is not None
                    tally = tallies[reader.name]
                    if not worker.poll(tally):
                        continue
                    tally.seconds += time.monotonic() - began.pop(number)
                    if worker.next < worker.end and time.monotonic() < end_s:  # go on after what it died of
                        worker.give(reader, worker.next, worker.end - worker.next)
                        began[number] = time.monotonic()
                elif left:
                    at_work = [team[other].reader for other in began]
                    chosen = min(left, key=lambda one: tallies[one.name].seconds + BATCH_S * at_work.count(one))
                    count = _batch(tallies[chosen.name])
                    if most_inputs is not None:
                        count = min(count, first + most_inputs - upcoming[chosen.name])
                    worker.give(chosen, upcoming[chosen.name], count)
                    upcoming[chosen.name] += count
                    began[number] = time.monotonic()
                    left = [one for one in left if most_inputs is None or upcoming[one.name] < first + most_inputs]
    finally:
        for worker in team:
            if worker.process is not None:
                worker.process.kill()
                worker.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _batch(tally: Tally) -> int:
    """How many inputs take a few seconds."""
    if not tally.inputs:
        return 5
    return max(1, min(400, int(BATCH_S * tally.inputs / max(tally.seconds, 0.1))))
