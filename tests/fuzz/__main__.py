"""``python -m fuzz``: see ``--help``."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from fuzz.readers import BY_NAME
from fuzz.run import Tally, available, fuzz, make_seeds
from fuzz.worker import input_at, outcome


def main() -> int:
    """Run, print, and say by the exit code whether something failed."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Feed broken files to every reader.")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds for one input, after which it hangs")
    parser.add_argument("--inputs", type=int, help="of each reader; without it, as many as fit into the time")
    parser.add_argument("--reader", action="append", choices=sorted(BY_NAME), help="only these; may be repeated")
    parser.add_argument("--json", type=Path, help="file for the summary")
    parser.add_argument("--only", type=int, help="one input of --reader, in this process, with its traceback")
    parser.add_argument("--keep", type=Path, help="with --only: a folder to leave the input in")
    chosen = parser.parse_args()
    readers = [reader for reader in available() if not chosen.reader or reader.name in chosen.reader]
    if chosen.only is not None:
        return _one(readers[0].name, chosen.seed, chosen.only, chosen.keep)
    start = time.monotonic()
    tallies = fuzz(
        readers, minutes=chosen.minutes, seed=chosen.seed, workers=chosen.workers, timeout_s=chosen.timeout,
        most_inputs=chosen.inputs,
    )  # fmt: skip
    summary = _summary(tallies, chosen.seed, time.monotonic() - start)
    if chosen.json:
        chosen.json.write_text(json.dumps(summary, indent=1) + "\n")
    _print(tallies)
    return 1 if summary["bad"] else 0


def _one(name: str, seed: int, number: int, keep: Path | None) -> int:
    reader = BY_NAME[name]
    with tempfile.TemporaryDirectory() as folder:
        make_seeds([reader], Path(folder) / "seeds")
        target = keep or Path(folder) / "input"
        target.mkdir(parents=True, exist_ok=True)
        path = input_at(reader, Path(folder) / "seeds", target, seed, number)
        what, why = outcome(reader, path)
    print(f"{path.name}: {what}\n{why}")
    return int(what == "failed")


def _summary(tallies: dict[str, Tally], seed: int, seconds: float) -> dict[str, object]:
    rows = {
        name: {
            "inputs": tally.inputs, "read": tally.read, "refused": tally.refused,
            "failures": tally.failures + tally.crashes, "crashes": tally.crashes, "hangs": tally.hangs,
            "seconds": round(tally.seconds, 1),
            "examples": [
                {"what": what, "times": len(found), "numbers": found[:5]} for what, found in tally.examples.items()
            ],
        }
        for name, tally in tallies.items()
    }  # fmt: skip
    return {
        "seed": seed, "seconds": round(seconds), "inputs": sum(tally.inputs for tally in tallies.values()),
        "bad": sum(tally.bad for tally in tallies.values()), "readers": rows,
    }  # fmt: skip


def _print(tallies: dict[str, Tally]) -> None:
    print(f"{'reader':20}{'inputs':>9}{'read':>9}{'refused':>9}{'failed':>8}{'crashed':>9}{'hung':>6}")
    for name, t in tallies.items():
        print(f"{name:20}{t.inputs:9,}{t.read:9,}{t.refused:9,}{t.failures:8,}{t.crashes:9,}{t.hangs:6,}")
    print(f"{'all':20}{sum(t.inputs for t in tallies.values()):9,}{sum(t.bad for t in tallies.values()):44,} bad")
    for name, tally in tallies.items():
        for what, numbers in tally.examples.items():
            print(f"\n{name}, input {numbers[0]} and {len(numbers) - 1:,} more\n  " + what.replace("\n", "\n  "))


if __name__ == "__main__":
    sys.exit(main())
