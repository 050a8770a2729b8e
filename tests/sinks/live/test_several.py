"""Several sinks at once, the pace of a recording, and the way from a drive to a program."""

from __future__ import annotations

import socket
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from helpers.command_line import x2l
from helpers.driven_town import DrivenTown, drive_through
from helpers.live_fixes import Drive, fix_at, movement_to
from x2localizer.errors import UserError
from x2localizer.pipeline import localize_odometry
from x2localizer.sinks.live import LiveSink, LiveSinks, SinkAddress, live_sinks, open_sinks
from x2localizer.sources.motion import write_motion
from x2localizer.town.town import Town
from x2localizer.types import Fix, Movement


class _Kept(LiveSink):
    """Keeps what it gets, and fails when asked to."""

    name = "kept"
    schemes = ("kept",)
    known = ("fail",)
    opened: list[_Kept] = []  # noqa: RUF012 - of a test

    def open(self) -> None:
        if "fail" in self.address.options:
            raise UserError("It does not open.", "Try another.")
        self.events: list[Fix | Movement] = []
        self.closed, self.fails = 0, False
        _Kept.opened.append(self)

    def fix(self, fix: Fix) -> None:
        if self.fails:
            raise RuntimeError("a bug")
        self.events.append(fix)

    def motion(self, movement: Movement) -> None:
        self.events.append(movement)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def kept() -> object:
    """The list of kept sinks that were opened, while there is such a scheme."""
    live_sinks.names()
    live_sinks.register(_Kept)
    _Kept.opened = []
    yield _Kept.opened
    del live_sinks._classes["kept"]


@pytest.fixture(scope="module")
def driven(town: Town, tmp_path_factory: pytest.TempPathFactory) -> DrivenTown:
    return drive_through(town, tmp_path_factory.mktemp("driven"), seconds=40.0)


def test_a_sink_that_fails_does_not_stop_the_others(kept: list[_Kept]) -> None:
    with open_sinks(["kept://a", "kept://b"]) as opened:
        kept[0].fails = True
        Drive(5).feed(opened)
    assert sum(isinstance(event, Fix) for event in kept[1].events) == 6
    assert opened.notes() == ["kept://a: 6 messages were not delivered (RuntimeError: a bug)"]
    assert [sink.closed for sink in kept] == [1, 1]


def test_if_one_does_not_open_all_are_closed(kept: list[_Kept]) -> None:
    with pytest.raises(UserError, match="does not open"):
        open_sinks(["kept://a", "kept://b?fail=1"])
    assert [sink.closed for sink in kept] == [1]


def test_a_recording_goes_at_its_own_pace() -> None:
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    sink = _Kept(SinkAddress.parse("kept://a"))
    sink.open()
    paced = LiveSinks([sink], realtime=True, clock=lambda: now[0], sleep=sleep)
    paced.fix(fix_at(7.0))
    paced.motion(movement_to(7.5))
    now[0] += 2.0  # the localizer took its time
    paced.fix(fix_at(8.0))
    paced.fix(fix_at(10.0))
    assert slept == pytest.approx([0.5, 0.5])
    assert now[0] == 103.0


def test_times_are_utc_and_without_a_start_they_are_now() -> None:
    sink = _Kept(SinkAddress.parse("kept://a"))
    assert abs((sink.utc(0.0) - datetime.now(UTC)).total_seconds()) < 5
    sink.start(datetime.fromisoformat("2026-05-01T12:00:00+02:00"))
    assert sink.utc(1.5).isoformat() == "2026-05-01T10:00:01.500000+00:00"


def test_a_drive_of_recorded_motion_is_handed_on_with_what_moves_in_between(
    driven: DrivenTown, tmp_path: Path, kept: list[_Kept]
) -> None:
    result = localize_odometry(driven.motion, driven.gallery, tmp_path, formats=["csv"], sinks=["kept://a"])
    events = kept[0].events
    fixes = [event for event in events if isinstance(event, Fix)]
    assert [fix.time_s for fix in fixes] == [fix.time_s for fix in result.fixes]
    assert any(live.confidence != later.confidence for live, later in zip(fixes, result.fixes, strict=True)), (
        "not smoothed"
    )
    moved = [event for event in events if isinstance(event, Movement)]
    assert len(moved) >= 10 * (len(fixes) - 2)
    last = fixes[5]
    after = events[events.index(last) + 1]
    assert isinstance(after, Movement)
    assert after.end_s == pytest.approx(last.time_s), "the fix comes before the movement that ends with it"


def test_the_command_line_takes_addresses(driven: DrivenTown, tmp_path: Path) -> None:
    write_motion(tmp_path / "m.csv", driven.motion)
    words = ("localize", "--odometry", str(tmp_path / "m.csv"), "--gallery", driven.gallery.address,
             "--out", str(tmp_path / "t"), "--formats", "csv")  # fmt: skip
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(10)
        x2l(*words, "--sink", f"nmea+udp://127.0.0.1:{listener.getsockname()[1]}")
        assert listener.recv(2000).startswith(b"$GNRMC,")
    text = x2l(*words, "--sink", "nmea://127.0.0.1:1?hertz=2", code=2)
    assert "no option 'hertz'" in text
    assert "Traceback" not in text


def test_a_missing_library_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("serial", "pymavlink", "pymavlink.dialects.v20.common", "paho.mqtt.client", "rosbags.rosbag2"):
        monkeypatch.setitem(sys.modules, module, None)
    for address in ("nmea+serial:///dev/x", "mavlink+udp://127.0.0.1:1", "mqtt://127.0.0.1/x", "rosbag:out"):
        with pytest.raises(UserError, match=r"x2localizer\[programs\]"), open_sinks([address]):
            pass
