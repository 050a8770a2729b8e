"""The machine that disturbs commands tells a graceful end from another, and a lost result from a whole one."""

from __future__ import annotations

import random
import signal
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from chaos import faults
from chaos.__main__ import Tally, _one
from chaos.faults import Ended, Fault
from chaos.work import Command, files_digest, to_toml
from helpers.small_model import SETTINGS
from helpers.small_world import TINY
from x2localizer.config import DatasetSettings, TrainSettings

SCRIPT = "from pathlib import Path; import sys, time; p = Path(sys.argv[1]) / 'a'; "


def _words(material: Path, out: Path) -> list[str]:
    return [str(out)]


COMMAND = Command("toy", _words, files_digest)


@pytest.mark.parametrize(
    ("ended", "graceful"),
    [
        (Ended(0, "done"), True), (Ended(-9, ""), True), (Ended(2, "error: The disk is full."), True),
        (Ended(1, "Traceback (most recent call last):"), False), (Ended(1, "  next: This is a bug; x2l"), False),
        (Ended(-9, "", hung=True), False),
    ],
)  # fmt: skip
def test_what_a_graceful_end_is(ended: Ended, graceful: bool) -> None:
    assert ended.graceful == graceful


def test_presets_are_written_as_they_are_read() -> None:
    assert DatasetSettings.model_validate(tomllib.loads(to_toml(TINY))) == TINY
    assert TrainSettings.model_validate(tomllib.loads(to_toml(SETTINGS))) == SETTINGS


def _tally(script: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: Fault) -> Tally:
    """A toy command under a fault; a sound run leaves a file with the word whole."""
    import sys

    monkeypatch.setattr(faults, "X2L", [sys.executable, "-c", script])
    (tmp_path / "expected").mkdir()
    (tmp_path / "expected" / "a").write_text("whole")
    tally = Tally("toy", fault.name)
    _one(COMMAND, fault, tally, random.Random(0), tmp_path, tmp_path / "out", 2.0, files_digest(tmp_path / "expected"))
    return tally


def _killed(words: Sequence[str], rng: random.Random, usual_s: float, out: Path) -> list[Ended]:
    return [faults.run(words, watch=faults._after(1.0, signal.SIGKILL))]


KILLED = Fault("killed", _killed)


def test_a_command_that_resumes_survives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = SCRIPT + "fresh = not p.exists(); p.write_text('half'); fresh and time.sleep(60); p.write_text('whole')"
    tally = _tally(script, monkeypatch, tmp_path, KILLED)
    assert (tally.runs, tally.same, tally.ended_disturbed, tally.problems) == (1, 1, 0, [])


def test_a_command_that_takes_half_for_whole_is_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = SCRIPT + "p.exists() and sys.exit(0); p.write_text('half'); time.sleep(60)"
    tally = _tally(script, monkeypatch, tmp_path, KILLED)
    assert (tally.same, tally.problems) == (0, ["the result differs"])


def test_a_traceback_is_a_problem_even_if_the_next_run_is_fine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limited = Fault("few", faults._limited("RLIMIT_FSIZE", (2,)))
    tally = _tally(SCRIPT + "p.write_text('whole')", monkeypatch, tmp_path, limited)
    assert tally.same == 1
    assert len(tally.problems) == 1 and "Traceback" in tally.problems[0]
