"""MQTT: each fix as JSON on a topic of a broker."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from typing import Any

from x2localizer.errors import SinkError, optional
from x2localizer.sinks.live.address import SinkAddress
from x2localizer.sinks.live.base import LiveSink, cannot_open, live_sinks
from x2localizer.sinks.live.fix_json import fix_values
from x2localizer.types import Fix

USER, PASSWORD = "X2L_MQTT_USER", "X2L_MQTT_PASSWORD"
CONNECT_S = 5.0
KEEPALIVE_S = 10
QUEUED = 1000
"""Fixes that wait for a broker that is away; later ones are dropped."""
DRAIN_S = 2.0


@live_sinks.register
class Mqtt(LiveSink):
    """``mqtt://127.0.0.1:1883/car/1`` publishes on the topic ``car/1``; ``mqtts://`` with TLS, port 8883.

    qos: 0, 1 or 2; 1 by default. retain: 1 keeps the last fix for those who subscribe later; 0 by default.
    client: the name of the client.

    User and password come from the environment: X2L_MQTT_USER and X2L_MQTT_PASSWORD. ``TOPIC/state`` is "online", or
    "offline" once the localizer has ended or the connection is lost.
    """

    name = "mqtt"
    schemes = ("mqtt", "mqtts")
    known = ("qos", "retain", "client")

    def __init__(self, address: SinkAddress) -> None:
        super().__init__(address)
        self.topic = address.path.strip("/") or "x2localizer/fix"
        self.qos = address.whole("qos", 1, 0, 2)
        self.retain = bool(address.whole("retain", 0, 0, 1))
        if any(character in self.topic for character in "+#\0") or not address.host:
            raise SinkError(
                f"{address.text} is not a broker with a topic.", "Write it like mqtt://127.0.0.1:1883/car/1."
            )
        self._paho: Any = optional("paho.mqtt.client", "paho-mqtt", "MQTT")
        self._client: Any = None
        self._waiting: list[Any] = []

    def open(self) -> None:
        """Connect; later on the connection is made again by itself when it is lost."""
        secure = self.address.scheme == "mqtts"
        host, port = self.address.place("", 8883 if secure else 1883)
        name = self.address.word("client", f"x2localizer-{os.getpid()}-{id(self):x}")
        client = self._paho.Client(self._paho.CallbackAPIVersion.VERSION2, name)
        if os.environ.get(USER):
            client.username_pw_set(os.environ[USER], os.environ.get(PASSWORD))
        if secure:
            client.tls_set()
        client.max_queued_messages_set(QUEUED)
        client.reconnect_delay_set(1, 30)
        client.will_set(f"{self.topic}/state", "offline", 1, True)
        client.connect_timeout = CONNECT_S
        answered, answers = threading.Event(), []

        def connected(client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
            answers.append(reason)
            answered.set()
            if not reason.is_failure:
                client.publish(f"{self.topic}/state", "online", 1, True)

        client.on_connect = connected
        try:
            client.connect(host, port, KEEPALIVE_S)
        except (OSError, ValueError) as problem:
            raise cannot_open(self.address, str(problem), "Check that the broker runs, and its address.") from problem
        client.loop_start()
        self._client = client
        if not answered.wait(CONNECT_S) or answers[0].is_failure:
            why = str(answers[0]) if answers else "the broker does not answer"
            self._stop()
            raise cannot_open(self.address, why, f"Check the broker; {USER} and {PASSWORD} state who connects.")

    def fix(self, fix: Fix) -> None:
        """Publish a fix; while the broker is away, it waits."""
        if self._client is None:
            return
        text = json.dumps(fix_values(fix, self.utc(fix.time_s)))
        sent = self._client.publish(self.topic, text, self.qos, self.retain)
        if sent.rc == self._paho.MQTT_ERR_QUEUE_SIZE or (sent.rc == self._paho.MQTT_ERR_NO_CONN and not self.qos):
            self.dropped += 1
            self.problem = self._paho.error_string(sent.rc)
            return
        self._waiting = [earlier for earlier in self._waiting if not _done(earlier)]
        self._waiting.append(sent)

    def close(self) -> None:
        """Wait two seconds for what the broker has not taken yet, and disconnect."""
        if self._client is None:
            return
        self._waiting.append(self._client.publish(f"{self.topic}/state", "offline", 1, True))
        for sent in self._waiting[-1:]:
            with suppress(RuntimeError, ValueError):
                sent.wait_for_publish(DRAIN_S)
        left = sum(not _done(sent) for sent in self._waiting[:-1])
        if left:
            self.dropped, self.problem = self.dropped + left, "the broker did not take them"
        self._stop()

    def _stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
        self._client = None


def _done(sent: Any) -> bool:
    try:
        return bool(sent.is_published())
    except (RuntimeError, ValueError):  # it was never queued
        return True
