"""``python -m chaos``: see ``--help``."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from chaos import service
from chaos.faults import FAULTS, Fault, run
from chaos.work import COMMANDS, Command, prepare

SERVE = "serve"


@dataclass(slots=True)
class Tally:
    """What became of a command under one kind of fault."""

    command: str
    fault: str
    runs: int = 0
    same: int = 0
    ended_disturbed: int = 0
    problems: list[str] = field(default_factory=list)


def main() -> int:
    """Run, print, and say by the exit code whether something went wrong."""
    parser = argparse.ArgumentParser(prog="chaos", description="Disturb commands; the next run must make it good.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each command under each fault")
    parser.add_argument("--minutes", type=float, default=60.0, help="no round begins after that")
    names = [*(command.name for command in COMMANDS), SERVE]
    parser.add_argument("--command", action="append", choices=names, help="only these; may be repeated")
    parser.add_argument("--fault", action="append", choices=[fault.name for fault in FAULTS])
    parser.add_argument("--json", type=Path, help="file for the summary")
    chosen = parser.parse_args()
    wanted = chosen.command or names
    commands = [command for command in COMMANDS if command.name in wanted and (not command.torch or _has_torch())]
    faults = [fault for fault in FAULTS if not chosen.fault or fault.name in chosen.fault]
    folder = Path(tempfile.mkdtemp(prefix="x2l-chaos-"))
    start = time.monotonic()
    try:
        prepare(folder / "material")
        deadline_s = start + 60.0 * chosen.minutes
        tallies = disturb(commands, faults, folder, chosen.seed, chosen.rounds, deadline_s)
        if SERVE in wanted and (not chosen.fault or "kill -9" in chosen.fault):
            tallies.append(_serve(folder, chosen.seed, chosen.rounds, deadline_s))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    summary = {
        "seed": chosen.seed, "seconds": round(time.monotonic() - start), "runs": sum(t.runs for t in tallies),
        "same": sum(t.same for t in tallies), "problems": sum(len(t.problems) for t in tallies),
        "rows": [asdict(tally) for tally in tallies],
    }  # fmt: skip
    if chosen.json:
        chosen.json.write_text(json.dumps(summary, indent=1) + "\n")
    _print(tallies)
    return 1 if summary["problems"] else 0


def _has_torch() -> bool:
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def disturb(
    commands: list[Command], faults: list[Fault], folder: Path, seed: int, rounds: int, deadline_s: float
) -> list[Tally]:
    """Every command under every fault, round by round; what a seed disturbs when is always the same."""
    tallies = {(command.name, fault.name): Tally(command.name, fault.name) for command in commands for fault in faults}
    material, expected, usual_s = folder / "material", {}, {}
    for command in commands:
        out = folder / f"{command.name}-undisturbed"
        run(command.words(material, folder / "warm")).said  # noqa: B018 - compiles kernels, fills the disk's cache
        shutil.rmtree(folder / "warm", ignore_errors=True)
        began = time.monotonic()
        ended = run(command.words(material, out))
        usual_s[command.name] = time.monotonic() - began
        if ended.code:
            raise RuntimeError(f"{command.name} fails undisturbed: {ended.said}")
        expected[command.name] = command.digest(out)
    for number in range(rounds):
        for fault in faults:
            for command in commands:
                if time.monotonic() > deadline_s:
                    return list(tallies.values())
                rng = random.Random(f"{seed}|{command.name}|{fault.name}|{number}")
                out = folder / "out"
                _one(
                    command, fault, tallies[command.name, fault.name], rng, material, out, usual_s[command.name],
                    expected[command.name],
                )  # fmt: skip
                shutil.rmtree(out, ignore_errors=True)
                tally = tallies[command.name, fault.name]
                state = f"{tally.same} of {tally.runs} with the same result, {len(tally.problems)} problems"
                print(f"{command.name}, {fault.name}: {state}", file=sys.stderr, flush=True)
    return list(tallies.values())


def _one(
    command: Command, fault: Fault, tally: Tally, rng: random.Random, material: Path, out: Path, usual_s: float,
    expected: str,
) -> None:  # fmt: skip
    """One disturbed run and the one after it."""
    words = command.words(material, out)
    out.mkdir()
    tally.runs += 1
    disturbed = fault.disturb(words, rng, usual_s, out)
    tally.ended_disturbed += sum(ended.code == 0 for ended in disturbed)
    for ended in disturbed:
        if not ended.graceful:
            tally.problems.append(f"disturbed: {'hung' if ended.hung else ended.code}: {ended.said[-700:]}")
    again = run(words)
    if again.code:
        tally.problems.append(f"the next run: {'hung' if again.hung else again.code}: {again.said[-700:]}")
        return
    try:
        same = command.digest(out) == expected
    except Exception as problem:
        tally.problems.append(f"the result cannot be read: {type(problem).__name__}: {problem}")
        return
    tally.same += same
    if not same:
        tally.problems.append("the result differs")


def _serve(folder: Path, seed: int, rounds: int, deadline_s: float) -> Tally:
    """A service that is killed twice during a drive, and loses nothing of it."""
    tally = Tally(SERVE, "kill -9")
    expected = service.drive(folder / "material", folder / "state", None)
    for number in range(rounds):
        if time.monotonic() > deadline_s:
            break
        tally.runs += 1
        try:
            same = service.drive(folder / "material", folder / f"state{number}", random.Random(f"{seed}|{number}"))
        except Exception as problem:
            tally.problems.append(f"{type(problem).__name__}: {problem}"[:700])
            continue
        tally.same += same == expected
        if same != expected:
            tally.problems.append("the fixes differ")
    return tally


def _print(tallies: list[Tally]) -> None:
    print(f"{'command':10}{'fault':28}{'runs':>6}{'same result':>13}{'problems':>10}")
    for tally in tallies:
        print(f"{tally.command:10}{tally.fault:28}{tally.runs:6}{tally.same:13}{len(tally.problems):10}")
    for tally in tallies:
        for problem in tally.problems[:2]:
            print(f"\n{tally.command}, {tally.fault}: {problem}")


if __name__ == "__main__":
    sys.exit(main())
