"""The WebSocket: frames in binary, answers on the same connection; clients that misbehave."""

from __future__ import annotations

import json
import socket
import struct
import time

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from helpers.served import Served, jpeg, samples
from x2localizer.serve.client import Client
from x2localizer.serve.wire import pack_frame


def open_socket(service: Served, session: str) -> ClientConnection:
    return connect(
        f"{service.address.replace('http', 'ws')}/v1/sessions/{session}/socket", subprotocols=[Subprotocol("x2l.v1")]
    )


def read(connection: ClientConnection, kind: str) -> dict[str, object]:
    """The next message of a kind."""
    while True:
        message = json.loads(connection.recv(timeout=30))
        if message["type"] == kind:
            return dict(message)


def test_frames_and_odometry_on_one_socket(service: Served, client: Client) -> None:
    session = client.create(odometry="samples")
    with open_socket(service, session.id) as connection:
        assert connection.subprotocol == "x2l.v1"
        assert read(connection, "hello")["id"] == session.id
        for second in range(3):
            connection.send(json.dumps({"samples": samples(second, second + 1)}))
            connection.send(pack_frame(jpeg(second), second + 0.9))
            answer = read(connection, "answer")
            assert answer["outcome"] == "fix"
            assert answer["time_s"] == second + 0.9
        session.end()
        assert read(connection, "end")["state"] == "ended"
    assert len(session.fixes()) == 3


@pytest.mark.parametrize(
    "message",
    [b"", b"\0\0", struct.pack(">I", 1 << 31) + b"x", struct.pack(">I", 2) + b"{}" + jpeg(), pack_frame(b"junk", 1.0),
     "hello", '{"samples": []}', '{"samples": [{"time_s": NaN, "speed_m_s": 1}]}', '{"samples": [{"time_s": 1}]}',
     pack_frame(jpeg(), 0.0).replace(b"0.0", b"NaN", 1)],
)  # fmt: skip
def test_a_bad_message_is_answered_and_the_connection_stays(
    service: Served, client: Client, message: bytes | str
) -> None:
    session = client.create(odometry="samples")
    with open_socket(service, session.id) as connection:
        connection.send(message)
        assert read(connection, "error")["remedy"]
        connection.send(pack_frame(jpeg(), 5.0))
        assert read(connection, "answer")["outcome"] == "fix"


def test_nothing_but_garbage_ends_the_connection_and_not_the_session(service: Served, client: Client) -> None:
    session = client.create(odometry="samples")
    with open_socket(service, session.id) as connection, pytest.raises(ConnectionClosed):
        for _ in range(100):
            connection.send(b"garbage")
            connection.recv(timeout=30)
    assert session.frame(jpeg(), 1.0)["outcome"] == "fix"


def test_a_message_that_is_too_large_ends_the_connection(service: Served, client: Client) -> None:
    session = client.create(odometry="samples")
    with open_socket(service, session.id) as connection, pytest.raises(ConnectionClosed):
        connection.send(pack_frame(bytes(5 << 20), 1.0))
        while True:
            connection.recv(timeout=30)


def test_a_socket_of_no_session_is_refused(service: Served) -> None:
    with pytest.raises(Exception, match=r"403|1008|rejected"), open_socket(service, "nobody") as connection:
        connection.recv(timeout=5)


def test_a_socket_that_drops_leaves_the_session_to_the_next_one(service: Served, client: Client) -> None:
    session = client.create(odometry="samples")
    with open_socket(service, session.id) as connection:
        connection.send(pack_frame(jpeg(), 0.0))
        read(connection, "answer")
        connection.send(json.dumps({"samples": samples(0, 2)}))
        connection.send(pack_frame(jpeg(1), 1.0))
        time.sleep(0.5)
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.socket.close()  # a reset, without a word
    for _ in range(100):
        if len(session.fixes()) == 2:
            break
        time.sleep(0.05)
    with open_socket(service, session.id) as again:
        session.odometry(samples(2, 3))
        again.send(pack_frame(jpeg(2), 2.0))
        assert read(again, "answer")["outcome"] == "fix"
    assert [fix["index"] for fix in session.fixes()] == [0, 1, 2]


def test_a_client_that_never_reads_does_not_hold_up_others(service: Served, client: Client) -> None:
    deaf, other = client.create(odometry="samples"), client.create(odometry="samples")
    host, port = service.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.sendall(f"GET /v1/sessions/{deaf.id}/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        deaf.odometry(samples(0, 30))
        for second in range(20):
            assert deaf.frame(jpeg(second), float(second))["outcome"] == "fix"
        assert other.frame(jpeg(), 0.0)["outcome"] == "fix"


def test_a_client_that_sends_slowly_does_not_hold_up_others(service: Served, client: Client) -> None:
    session = client.create(odometry="samples")
    host, port = service.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as raw:
        head = f"POST /v1/sessions/{session.id}/frames?time_s=0 HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n"
        raw.sendall(head.encode() + b"ab")
        assert session.frame(jpeg(), 1.0)["outcome"] == "fix"
