"""Progress where there is no terminal: a line soon, then one now and then, so that no log looks dead."""

from __future__ import annotations

import time

import pytest

from x2localizer.cli import common


class _Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    hands = _Clock()
    monkeypatch.setattr(common, "time", hands)
    return hands


def test_without_a_terminal_a_line_comes_every_ten_seconds(clock: _Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with common.progress_bar("frames") as advance:
        for second in range(1, 25):
            clock.now_s = 100.0 + second
            advance(second, 1000)
        advance(1000, 1000)
    lines = ["frames 1 of 1,000", "frames 11 of 1,000", "frames 21 of 1,000", "frames 1,000 of 1,000"]
    assert capsys.readouterr().err.splitlines() == lines


def test_a_line_comes_before_the_first_step_if_that_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "FIRST_LINE_S", 0.05)
    with common.progress_bar("frames"):
        until_s, text = time.monotonic() + 20.0, ""
        while not text and time.monotonic() < until_s:
            time.sleep(0.02)
            text = capsys.readouterr().err
    assert text == "frames: starting\n"


def test_work_that_begins_or_fails_at_once_needs_no_such_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "FIRST_LINE_S", 0.2)
    with common.progress_bar("frames") as advance:
        advance(0, 10)
        time.sleep(0.4)
    with pytest.raises(ValueError, match="no such file"), common.progress_bar("frames"):
        raise ValueError("no such file")
    time.sleep(0.4)
    assert "starting" not in capsys.readouterr().err


def test_a_quiet_bar_prints_nothing(clock: _Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with common.progress_bar("frames", quiet=True) as advance:
        clock.now_s += 100.0
        advance(1, 2)
        advance(2, 2)
    assert capsys.readouterr().err == ""
