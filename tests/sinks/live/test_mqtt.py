"""MQTT through a real broker (mosquitto), and what happens without one."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.live_fixes import Drive, fix_at, free_port, wait_for
from x2localizer.errors import UserError
from x2localizer.sinks.live import mqtt as mqtt_module
from x2localizer.sinks.live import open_sinks

paho = pytest.importorskip("paho.mqtt.client", reason="needs the extra [programs]")
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
needs_broker = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed: apt install mosquitto")


class _Broker:
    """A mosquitto on a port of its own, on loopback."""

    def __init__(self, folder: Path, *lines: str) -> None:
        self.port = free_port()
        self._config = folder / "mosquitto.conf"
        self._config.write_text("\n".join([f"listener {self.port} 127.0.0.1", "persistence false", *lines]) + "\n")
        self.start()

    def start(self) -> None:
        assert MOSQUITTO is not None
        self._process = subprocess.Popen(
            [MOSQUITTO, "-c", str(self._config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            except ConnectionRefusedError:
                assert time.monotonic() < end and self._process.poll() is None, "mosquitto did not start"
                time.sleep(0.05)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)


class _Subscriber:
    """Keeps what comes on all topics."""

    def __init__(self, port: int) -> None:
        self.messages: list[tuple[str, str]] = []
        self._client: Any = paho.Client(paho.CallbackAPIVersion.VERSION2)
        ready = threading.Event()
        self._client.on_connect = lambda client, *_: client.subscribe("#", 1)
        self._client.on_subscribe = lambda *_: ready.set()
        self._client.on_message = lambda client, data, m: self.messages.append((m.topic, m.payload.decode()))
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert ready.wait(10)

    def fixes(self, topic: str) -> list[Any]:
        return [json.loads(text) for name, text in self.messages if name == topic]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[_Broker]:
    running = _Broker(tmp_path, "allow_anonymous true")
    yield running
    running.stop()


@needs_broker
def test_subscribers_get_every_fix(broker: _Broker) -> None:
    listener = _Subscriber(broker.port)
    with open_sinks([f"mqtt://127.0.0.1:{broker.port}/car/1"]) as opened:
        Drive(30, lost=range(7, 8)).feed(opened)
        wait_for(lambda: len(listener.fixes("car/1")) == 31)
    wait_for(lambda: ("car/1/state", "offline") in listener.messages)
    fixes = listener.fixes("car/1")
    listener.close()
    assert [fix["index"] for fix in fixes] == list(range(31))
    assert fixes[0]["position"] == {"lat_deg": 48.1, "lon_deg": 11.5}
    assert fixes[7]["position"] is None
    assert ("car/1/state", "online") in listener.messages
    assert opened.notes() == []


@needs_broker
def test_fixes_wait_for_a_broker_that_restarts(broker: _Broker) -> None:
    with open_sinks([f"mqtt://127.0.0.1:{broker.port}/x"]) as opened:
        broker.stop()
        began_s = time.monotonic()
        Drive(20, odometry=False).feed(opened)
        assert time.monotonic() - began_s < 5
        broker.start()
        listener = _Subscriber(broker.port)
        wait_for(lambda: {fix["index"] for fix in listener.fixes("x")} >= set(range(5, 21)), 20)
        listener.close()


@needs_broker
def test_a_broker_that_asks_for_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = shutil.which("mosquitto_passwd")
    if tool is None:
        pytest.skip("mosquitto_passwd is not installed")
    subprocess.run([tool, "-b", "-c", str(tmp_path / "users"), "car", "secret"], check=True, capture_output=True)
    (tmp_path / "users").chmod(0o644)
    running = _Broker(tmp_path, "allow_anonymous false", f"password_file {tmp_path / 'users'}", "user root")
    try:
        with pytest.raises(UserError, match="X2L_MQTT_PASSWORD"):
            open_sinks([f"mqtt://127.0.0.1:{running.port}/x"])
        monkeypatch.setenv("X2L_MQTT_USER", "car")
        monkeypatch.setenv("X2L_MQTT_PASSWORD", "secret")
        with open_sinks([f"mqtt://127.0.0.1:{running.port}/x"]) as opened:
            opened.fix(fix_at(0.0))
        assert opened.notes() == []
    finally:
        running.stop()


def test_a_broker_that_is_away_or_silent_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="Check that the broker runs"):
        open_sinks([f"mqtt://127.0.0.1:{free_port()}/x"])
    monkeypatch.setattr(mqtt_module, "CONNECT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(UserError, match="does not answer"):
        open_sinks([f"mqtt://127.0.0.1:{silent.getsockname()[1]}/x"])
    for text in ("mqtt://127.0.0.1/a/+/b", "mqtt:///x"):
        with pytest.raises(UserError, match="broker with a topic"):
            open_sinks([text])
