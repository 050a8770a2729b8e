"""A process that reads broken files until it is told to stop, or dies of one.

It takes jobs as lines of JSON (``{"reader": ..., "first": 0, "count": 50}``) and says what becomes of each input. The
process that started it sees a crash by the input that was begun and never ended.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
import traceback
import warnings
from pathlib import Path

from fuzz.mutate import break_path
from fuzz.readers import BY_NAME, Reader, as_json
from x2localizer.errors import UserError

MOST_MB = 1500
"""Memory that reading one input may add at its peak."""


def input_at(reader: Reader, seeds: Path, target: Path, seed: int, number: int) -> Path:
    """Write the input of a number into a folder; the same seed, reader and number give the same input."""
    name = hashlib.sha256(f"{seed}|{reader.name}|{number}".encode()).digest()
    rng = random.Random(name)
    choices = sorted(path for path in (seeds / reader.name).iterdir() if path.name not in reader.beside)
    chosen = rng.choice(choices)
    for other in reader.beside:
        shutil.copy(seeds / reader.name / other, target / other)
    path = target / chosen.name
    if chosen.is_dir():
        shutil.copytree(chosen, path)
    else:
        shutil.copy(chosen, path)
    if number:  # number 0 is left as it is: a seed that cannot be read finds nothing
        break_path(path, rng)
    if reader.after is not None:
        reader.after(path)
    return path


def outcome(reader: Reader, path: Path) -> tuple[str, str]:
    """read, refused, or failed, and why."""
    before = _forget_peak()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.read(path)
    except UserError as problem:
        what, why = "refused", str(problem)
    except MemoryError:
        what, why = "failed", "MemoryError\n" + traceback.format_exc(limit=-8)
    except Exception:
        what, why = "failed", traceback.format_exc(limit=-12)
    else:
        what, why = "read", ""
    grown = _megabytes("VmHWM") - before
    if what != "failed" and grown > MOST_MB:
        what, why = "failed", f"memory grew by {grown:.0f} MB"
    return what, why


def _forget_peak() -> float:
    """Start to count peak memory again; returns the memory in use, in megabytes."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return _megabytes("VmHWM")
    return _megabytes("VmRSS")


def _megabytes(field: str) -> float:
    status = Path("/proc/self/status")
    if not status.is_file():
        return 0.0
    line = next(line for line in status.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) / 1024


def main(seeds: str, work: str, seed: str) -> None:
    """Take jobs from standard input; say what becomes of them on what was standard output."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries print to both
    for line in sys.stdin:
        job = json.loads(line)
        reader = BY_NAME[job["reader"]]
        for number in range(job["first"], job["first"] + job["count"]):
            folder = Path(work) / "input"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            path = input_at(reader, Path(seeds), folder, int(seed), number)
            print(as_json({"begin": number}), file=answers)
            what, why = outcome(reader, path)
            print(as_json({"end": number, "what": what, "why": why[-4000:]}), file=answers)
        print(as_json({"done": True}), file=answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
