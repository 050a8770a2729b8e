"""What disturbs a command: how its process is started, and what is done to it while it runs."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos.work import X2L, environment

LONGEST_S = 600.0
"""After so long a command hangs."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: its exit code (negative: the signal), what it said, and whether it had to be stopped."""

    code: int
    said: str
    hung: bool = False

    @property
    def graceful(self) -> bool:
        """No traceback, no "this is a bug", no hang; a process that was killed has said nothing."""
        return not self.hung and "Traceback" not in self.said and "This is a bug" not in self.said


Watch = Callable[["subprocess.Popen[bytes]"], None]


def run(words: Sequence[str], *, watch: Watch | None = None, **env: str) -> Ended:
    """Run a command line to its end; ``env`` says what ``site/sitecustomize.py`` does to its process."""
    process = subprocess.Popen(
        [*X2L, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(**env)
    )  # fmt: skip
    hung = False
    try:
        if watch is not None:
            watch(process)
        said, _ = process.communicate(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        process.kill()
        said, hung = process.communicate()[0], True
    return Ended(process.returncode, said.decode("utf-8", "replace"), hung)


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of disturbance: runs a command disturbed, perhaps several times.

    disturb: given the words, a random generator, the seconds of an undisturbed run, and the folder it writes to.
    """

    name: str
    disturb: Callable[[Sequence[str], random.Random, float, Path], list[Ended]]


def _after(delay_s: float, *signals: signal.Signals) -> Watch:
    def watch(process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(delay_s)
        except subprocess.TimeoutExpired:
            for one in signals:
                process.send_signal(one)
                time.sleep(0.05)

    return watch


def _kill(words: Sequence[str], rng: random.Random, usual_s: float, out: Path) -> list[Ended]:
    return [
        run(words, watch=_after(rng.uniform(0.1, 1.0) * usual_s, signal.SIGKILL)) for _ in range(rng.choice((1, 2)))
    ]


def _interrupt_twice(words: Sequence[str], rng: random.Random, usual_s: float, out: Path) -> list[Ended]:
    return [run(words, watch=_after(rng.uniform(0.3, 0.9) * usual_s, signal.SIGINT, signal.SIGINT))]


def _terminate_twice(words: Sequence[str], rng: random.Random, usual_s: float, out: Path) -> list[Ended]:
    return [run(words, watch=_after(rng.uniform(0.3, 0.9) * usual_s, signal.SIGTERM, signal.SIGTERM))]


def _ignored(words: Sequence[str], rng: random.Random, usual_s: float, out: Path) -> list[Ended]:
    """As by nohup in the background: signals that are ignored from the start, and come all the same."""

    watch = _after(rng.uniform(0.3, 0.9) * usual_s, signal.SIGHUP, signal.SIGINT)
    return [run(words, CHAOS_IGNORE="SIGHUP SIGINT SIGPIPE", watch=watch)]


def _limited(limit: str, amounts: Sequence[int]) -> Callable[[Sequence[str], random.Random, float, Path], list[Ended]]:
    def disturb(words: Sequence[str], rng: random.Random, usual_s: float, out: Path) -> list[Ended]:
        return [run(words, CHAOS_LIMIT=f"{limit}={rng.choice(amounts)}")]

    return disturb


def _full_disk(words: Sequence[str], rng: random.Random, usual_s: float, out: Path) -> list[Ended]:
    """A small file system where that can be mounted, which takes root; else a limit on the size of files."""
    kilobytes = rng.choice((16, 64, 256, 1024))
    with _small_disk(out, kilobytes) as mounted:
        if mounted:
            ended = [run(words)]
            left = out.with_name(out.name + "-left")
            shutil.copytree(out, left, symlinks=True)
    if not mounted:
        return _limited("RLIMIT_FSIZE", (4096, 16384, 65536))(words, rng, usual_s, out)
    shutil.rmtree(out)  # what was on the small disk goes on a larger one
    left.rename(out)
    return ended


@contextmanager
def _small_disk(folder: Path, kilobytes: int) -> Iterator[bool]:
    folder.mkdir(parents=True, exist_ok=True)
    options = ["-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    mount = shutil.which("mount")
    done = subprocess.run([mount, *options], capture_output=True, check=False).returncode == 0 if mount else False
    try:
        yield done
    finally:
        if done:
            subprocess.run(["umount", str(folder)], check=True)


def _slow_disk(words: Sequence[str], rng: random.Random, usual_s: float, out: Path) -> list[Ended]:
    return [run(words, CHAOS_SLOW_DISK_S="0.05", watch=_after(rng.uniform(0.5, 1.2) * usual_s, signal.SIGKILL))]


def _clock(words: Sequence[str], rng: random.Random, usual_s: float, out: Path) -> list[Ended]:
    delay_s = rng.uniform(0.3, 1.5) * usual_s
    return [run(words, CHAOS_CLOCK_SEED=str(rng.randrange(1000)), watch=_after(delay_s, signal.SIGKILL))]


def _paused(words: Sequence[str], rng: random.Random, usual_s: float, out: Path) -> list[Ended]:
    """As on a machine that sleeps: stopped for a while, again and again."""

    def watch(process: subprocess.Popen[bytes]) -> None:
        for _ in range(4):
            try:
                process.wait(rng.uniform(0.05, 0.3) * usual_s)
                return
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGSTOP)
                time.sleep(rng.uniform(0.1, 0.5))
                process.send_signal(signal.SIGCONT)

    return [run(words, watch=watch)]


MB = 1 << 20
"""Addresses, not memory in use: below about 800 MB not even the libraries can be loaded."""
FAULTS = (
    Fault("kill -9", _kill),
    Fault("full disk", _full_disk),
    Fault("slow disk, then kill -9", _slow_disk),
    Fault("little memory", _limited("RLIMIT_AS", (900 * MB, 1100 * MB, 1400 * MB, 2000 * MB))),
    Fault("few file handles", _limited("RLIMIT_NOFILE", (12, 24, 40))),
    Fault("clock jumps, then kill -9", _clock),
    Fault("Ctrl-C twice", _interrupt_twice),
    Fault("SIGTERM twice", _terminate_twice),
    Fault("signals ignored", _ignored),
    Fault("stopped and continued", _paused),
)
