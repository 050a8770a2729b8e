"""GPS_INPUT messages, received by pymavlink."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from helpers.live_fixes import Drive, fix_at, free_port, movement_to, place_at
from x2localizer.sinks.live import Epoch, open_sinks
from x2localizer.sinks.live.base import sink_for
from x2localizer.types import Position

pytest.importorskip("pymavlink", reason="needs the extra [programs]")
NOON = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, int]]:
    """A MAVLink 2 receiver of datagrams, and its port."""
    monkeypatch.setitem(os.environ, "MAVLINK20", "1")
    from pymavlink import mavutil

    port = free_port(socket.SOCK_DGRAM)
    link = mavutil.mavlink_connection(f"udpin:127.0.0.1:{port}", dialect="common")
    yield link, port
    link.close()


def _received(link: Any, count: int) -> list[Any]:
    messages = [link.recv_match(type="GPS_INPUT", blocking=True, timeout=10) for _ in range(count)]
    assert all(message is not None for message in messages)
    return messages


def test_an_autopilot_receives_positions_at_5_hz(receiver: tuple[Any, int]) -> None:
    link, port = receiver
    with open_sinks([f"mavlink+udp://127.0.0.1:{port}"]) as opened:
        opened.start(NOON)
        Drive(4, lost=range(2, 3)).feed(opened)
        messages = _received(link, 21)
    assert [message.fix_type for message in messages] == [2] * 10 + [1] * 5 + [2] * 6
    steps = {b.time_usec - a.time_usec for a, b in pairwise(messages)}
    assert steps == {200_000}
    for number, message in enumerate(messages[:10]):
        place = place_at(number / 5)
        assert (message.lat / 1e7, message.lon / 1e7) == pytest.approx((place.lat_deg, place.lon_deg), abs=1e-7)
        assert (message.vn, message.ve) == pytest.approx((0.0, 10.0), abs=1e-4)
        assert message.yaw == 9000
        assert not message.ignore_flags & (8 | 64)
        assert message.ignore_flags & 1, "the height is unknown"
    spread = [message.horiz_accuracy for message in messages[:5]]
    assert spread[0] == pytest.approx(4.0, rel=1e-4)
    assert spread == sorted(spread)
    for message in messages[10:15]:
        assert (message.lat, message.lon, message.satellites_visible) == (0, 0, 0)
        assert message.ignore_flags & 8


def test_time_is_gps_time_and_the_last_word_is_no_fix(receiver: tuple[Any, int]) -> None:
    link, port = receiver
    with open_sinks([f"mavlink+udp://127.0.0.1:{port}?altitude=520&satellites=8&gps=1&rate=1"]) as opened:
        opened.start(NOON)
        opened.fix(fix_at(0.0))
        beat = link.recv_match(type="HEARTBEAT", blocking=True, timeout=10)
        [message] = _received(link, 1)
    assert (beat.get_srcSystem(), beat.get_srcComponent(), beat.type) == (1, 220, 41), "a heartbeat says what we are"
    assert (message.fix_type, message.alt, message.satellites_visible, message.gps_id) == (3, 520.0, 8, 1)
    assert (message.time_week, message.time_week_ms) == (2416, (5 * 24 + 12) * 3_600_000 + 18_000)
    assert message.time_usec == NOON.timestamp() * 1e6
    [last] = _received(link, 1)
    assert last.fix_type == 1


def test_a_heading_to_the_north_is_not_unknown_and_no_speed_is() -> None:
    sink: Any = sink_for("mavlink+udp://127.0.0.1:14550")
    sink.start(NOON)
    fields = sink._fields(Epoch(0.0, Position(1.0, 2.0), (1.0, 0.0, 1.0), 0.001))
    assert fields["yaw"] == 36_000
    assert fields["ignore_flags"] & 8
    sink._reckoner.fix(fix_at(0.0))
    [epoch] = sink._reckoner.motion(movement_to(0.2, 0.2))
    assert sink._fields(epoch)["speed_accuracy"] > 0
    assert not sink._fields(epoch)["ignore_flags"] & 32
