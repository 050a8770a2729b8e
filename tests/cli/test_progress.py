"""Progress where there is no terminal: a line at once, then one now and then, so that no log looks dead."""

from __future__ import annotations

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


def test_without_a_terminal_a_line_comes_at_once_and_then_every_ten_seconds(
    clock: _Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with common.progress_bar("frames") as advance:
        assert capsys.readouterr().err == "frames: starting\n"
        for second in range(1, 41):
            clock.now_s = 100.0 + second
            advance(second, 1000)
        assert (
            capsys.readouterr().err
            == "frames 10 of 1,000\nframes 20 of 1,000\nframes 30 of 1,000\nframes 40 of 1,000\n"
        )
        advance(1000, 1000)
        assert capsys.readouterr().err == "frames 1,000 of 1,000\n"


def test_a_quiet_bar_prints_nothing(clock: _Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with common.progress_bar("frames", quiet=True) as advance:
        clock.now_s += 100.0
        advance(1, 2)
        advance(2, 2)
    assert capsys.readouterr().err == ""
