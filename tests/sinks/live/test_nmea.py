"""NMEA sentences, read by pynmeagps, over TCP, UDP and a serial line."""

from __future__ import annotations

import os
import pty
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import pytest

from helpers.live_fixes import ELLIPSE, Drive, fix_at, free_port, movement_to, place_at, wait_for
from x2localizer.errors import UserError
from x2localizer.sinks.live import Epoch, open_sinks
from x2localizer.sinks.live import receiver as receiver_module
from x2localizer.sinks.live.base import LiveSink, sink_for
from x2localizer.sinks.live.nmea_sentences import KINDS, LONGEST, sentences
from x2localizer.sinks.live.reckon import covariance_of
from x2localizer.sinks.live.tcp_server import BUFFERED, MOST_CLIENTS, TcpServer
from x2localizer.types import Position

pynmeagps = pytest.importorskip("pynmeagps", reason="needs the extra [programs]")
NOON = datetime(2026, 5, 1, 12, 0, 0, 250_000, UTC)


def _parsed(data: bytes) -> list[Any]:
    """Messages, each with a right checksum and in one line of a legal length."""
    for line in data.splitlines(keepends=True):
        assert line.endswith(b"\r\n")
        assert len(line) <= LONGEST
    reader = pynmeagps.NMEAReader(BytesIO(data), validate=0x03, quitonerror=2)
    return [message for _, message in reader]


def _of(messages: Iterable[Any], kind: str) -> list[Any]:
    return [message for message in messages if message.msgID == kind]


@pytest.mark.parametrize(
    ("lat", "lon"), [(48.1, 11.5), (-33.999999999, -179.999999999), (0.0, 0.0), (-0.00001, 0.00001), (84.9, 180.0)]
)
def test_sentences_say_what_an_epoch_knows(lat: float, lon: float) -> None:
    epoch = Epoch(0.0, Position(lat, lon), covariance_of(ELLIPSE), 271.26, 5.0, 10.0)
    told = _parsed(sentences(epoch, NOON))
    assert [message.msgID for message in told] == list(KINDS)
    rmc, gga, gst, vtg = told
    for message in (gga, rmc):
        assert (message.lat, message.lon) == pytest.approx((lat, lon), abs=1e-7)
    assert (gga.quality, gga.numSV, gga.alt) == (1, 3, ""), "gpsd takes no fix with fewer"
    assert (rmc.status, rmc.posMode, str(rmc.date), str(rmc.time)) == ("A", "A", "2026-05-01", "12:00:00.250000")
    assert (rmc.cog, rmc.spd) == (271.3, pytest.approx(19.44))
    assert (vtg.cogt, vtg.sogk, vtg.posMode) == (271.3, 36.0, "A")
    assert (gst.stdLat, gst.stdLong, gst.stdMajor, gst.stdMinor, gst.orient) == (2.0, 4.0, 4.0, 2.0, 90.0)


def test_without_a_position_nothing_looks_like_one() -> None:
    for epoch, utc in ((Epoch(3.0), NOON), (Epoch(None), None)):
        rmc, gga, gst, vtg = _parsed(sentences(epoch, utc))
        assert (gga.quality, rmc.status, rmc.posMode, vtg.posMode) == (0, "V", "N", "N")
        for message in (rmc, gga):
            assert (message.lat, message.lon) == ("", "")
        assert (rmc.cog, rmc.spd, gst.stdLat, vtg.cogt) == ("", "", "", "")
    assert rmc.time == ""


def test_a_position_that_rests_on_odometry_alone_is_estimated() -> None:
    rmc, gga, *_ = _parsed(sentences(Epoch(0.0, Position(1.0, 2.0), (1.0, 0.0, 1.0), 0.0, age_s=2.0), NOON))
    assert (gga.quality, rmc.posMode) == (6, "E")
    back = Epoch(0.0, Position(1.0, 2.0), (1.0, 0.0, 1.0), 10.0, speed_m_s=-2.0)
    rmc, *_ = _parsed(sentences(back, NOON))
    assert (rmc.cog, rmc.spd) == (190.0, pytest.approx(3.89))


def test_what_users_state_is_told() -> None:
    sink = sink_for("nmea://127.0.0.1:1?sentences=gga,rmc&altitude=520.5&satellites=7&talker=gp&rate=10")
    sink.start(NOON)
    told = _parsed(sink.message(Epoch(1.0, Position(1.0, 2.0), (1.0, 0.0, 1.0))))  # type: ignore[attr-defined]
    assert [message.identity for message in told] == ["GPRMC", "GPGGA"]
    assert (told[1].alt, told[1].numSV, str(told[1].time)) == (520.5, 7, "12:00:01.250000")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nmea://127.0.0.1:1?rate=20", "1 to 10"), ("nmea://127.0.0.1:1?rate=nan", "1 to 10"),
        ("nmea://127.0.0.1:1?rat=2", "Did you mean 'rate'"), ("nmea://127.0.0.1:1?sentences=GGX", "'GGA'"),
        ("nmea://127.0.0.1:1?talker=ß1", "two letters"), ("nmea://127.0.0.1:99999", "not an address"),
        ("nmea://127.0.0.1:0", "port"), ("nmea+serial://?baud=9600", "no device"), ("nmea://127.0.0.1:1/x", "a path"),
        ("nmea://127.0.0.1:1?baud=9600", "no option 'baud'"), ("nmea+serial:///dev/x?baud=4800&rate=5", "too slow"),
        ("nmea+serial:///dev/no-such-line", "Cannot open"), ("nmea://no.such.host.invalid:1", "Cannot open"),
        ("namea://127.0.0.1", "Did you mean 'nmea'"), ("nothing", "not the address"), ("", "not the address"),
        ("mqtt://me:secret@127.0.0.1/x", "password"), ("nmea://[::1", "not an address"),
    ],
)  # fmt: skip
def test_addresses_that_make_no_sense_are_clear_errors(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why) as caught, open_sinks([text]):
        pass
    assert "secret" not in str(caught.value)


def test_a_server_is_on_loopback_unless_the_address_names_a_host() -> None:
    with open_sinks([f"nmea://:{free_port()}"]) as opened:
        server = opened.sinks[0]._transport  # type: ignore[attr-defined]
        assert server._listener.getsockname()[0] == "127.0.0.1"
    with open_sinks([f"nmea://0.0.0.0:{free_port()}"]) as opened:
        server = opened.sinks[0]._transport  # type: ignore[attr-defined]
        assert server._listener.getsockname()[0] == "0.0.0.0"


def test_a_port_that_is_taken_is_a_clear_error_and_leaves_nothing_open() -> None:
    first, port = free_port(), free_port()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(UserError, match="another port"):
        open_sinks([f"nmea://127.0.0.1:{first}", f"nmea://127.0.0.1:{port}"])
    with socket.create_server(("127.0.0.1", first)):
        pass


def _read_until_closed(client: socket.socket) -> bytes:
    data = b""
    while chunk := client.recv(1 << 16):
        data += chunk
    return data


def _server(sink: LiveSink) -> TcpServer:
    server = sink._transport  # type: ignore[attr-defined]
    assert isinstance(server, TcpServer)
    return server


def test_clients_of_the_tcp_server_get_a_drive() -> None:
    port = free_port()
    with open_sinks([f"nmea://127.0.0.1:{port}?rate=5"]) as opened:
        opened.start(NOON)
        clients = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(3)]
        clients[0].sendall(b"?WATCH={}\n" * 100)
        wait_for(lambda: _server(opened.sinks[0]).clients == 3)
        clients[2].close()
        Drive(4, lost=range(2, 3)).feed(opened)
        opened.close()
        one, two = (_parsed(_read_until_closed(client)) for client in clients[:2])
        for client in clients:
            client.close()
    assert [str(message) for message in one] == [str(message) for message in two]
    gga = _of(one, "GGA")
    assert len(gga) == 22, "21 epochs and a last word"
    assert [message.quality for message in gga] == [1] * 10 + [0] * 5 + [1] * 6 + [0]
    for number, message in enumerate(gga[:10]):
        place = place_at(number / 5)
        assert (message.lat, message.lon) == pytest.approx((place.lat_deg, place.lon_deg), abs=3e-7)
    sds = [message.stdLong for message in _of(one, "GST")[:5]]
    assert sds == sorted(sds)
    assert sds[0] < sds[-1], "between fixes the uncertainty grows"
    assert str(_of(one, "RMC")[1].time) == "12:00:00.450000"


def test_a_client_that_does_not_read_is_dropped_and_nobody_waits() -> None:
    port = free_port()
    with open_sinks([f"nmea://127.0.0.1:{port}?rate=10"]) as opened:
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", port))
        quick = socket.create_connection(("127.0.0.1", port), timeout=10)
        server = _server(opened.sinks[0])
        wait_for(lambda: server.clients == 2)
        for client in server._clients:  # the system would buffer megabytes
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        received, began_s = 0, time.monotonic()
        for second in range(60):
            opened.fix(fix_at(float(second)))
            for tenth in range(1, 10):
                opened.motion(movement_to(second + tenth / 10))
            quick.setblocking(False)
            with suppress(BlockingIOError):
                received += len(quick.recv(1 << 20))
            time.sleep(0.005)
        wait_for(lambda: server.clients == 1)
        assert time.monotonic() - began_s < 10
        quick.setblocking(True)
        opened.close()
        received += len(_read_until_closed(quick))
        slow.close()
        quick.close()
    assert received > 2 * BUFFERED, "the other one got everything"
    assert any("did not read" in note for note in opened.notes())


def test_many_clients_are_refused_not_served_badly() -> None:
    port = free_port()
    with open_sinks([f"nmea://127.0.0.1:{port}"]) as opened:
        clients = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(MOST_CLIENTS + 2)]
        assert clients[-1].recv(1) == b""
        assert _server(opened.sinks[0]).clients == MOST_CLIENTS
        for client in clients:
            client.close()


def test_datagrams_hold_whole_epochs() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(10)
        with open_sinks([f"nmea+udp://127.0.0.1:{listener.getsockname()[1]}?rate=2"]) as opened:
            Drive(2).feed(opened)
            told = [_parsed(listener.recv(2000)) for _ in range(5)]
        assert all([message.msgID for message in epoch] == list(KINDS) for epoch in told)
        assert _of(_parsed(listener.recv(2000)), "RMC")[0].status == "V", "the last word: no position any more"
    with open_sinks([f"nmea+udp://127.0.0.1:{free_port(socket.SOCK_DGRAM)}"]) as opened:
        Drive(3).feed(opened)
    assert opened.notes() == [], "nobody has to listen"


def test_a_serial_line_gets_sentences() -> None:
    pytest.importorskip("serial", reason="needs the extra [programs]")
    controller, line = pty.openpty()
    with open_sinks([f"nmea+serial://{os.ttyname(line)}?baud=38400&rate=10"]) as opened:
        Drive(1).feed(opened)
        data = b""
        while data.count(b"\n") < 44:
            data += os.read(controller, 4096)
    told = _parsed(data[: data.rindex(b"\n") + 1])
    assert len(_of(told, "GGA")) == 11
    os.close(controller)
    os.close(line)


def test_a_serial_line_that_hangs_or_is_unplugged_holds_up_nobody() -> None:
    pytest.importorskip("serial", reason="needs the extra [programs]")
    controller, line = pty.openpty()
    with open_sinks([f"nmea+serial://{os.ttyname(line)}?rate=10"]) as opened:
        began_s = time.monotonic()
        Drive(30).feed(opened)  # nobody reads
        assert time.monotonic() - began_s < 10
        os.close(controller)
        os.close(line)
        Drive(2).feed(opened)
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 10
    assert opened.notes()


def test_silence_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """A localizer that hangs must not leave its last position standing."""
    monkeypatch.setattr(receiver_module, "SILENCE_S", 0.2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(10)
        with open_sinks([f"nmea+udp://127.0.0.1:{listener.getsockname()[1]}"]) as opened:
            opened.fix(fix_at(0.0))
            assert _of(_parsed(listener.recv(2000)), "RMC")[0].status == "A"
            for _ in range(2):
                assert _of(_parsed(listener.recv(2000)), "RMC")[0].status == "V"
            opened.fix(fix_at(3.0))
            assert _of(_parsed(listener.recv(2000)), "RMC")[0].status == "A"
