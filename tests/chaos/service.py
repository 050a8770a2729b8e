"""A service that is killed at random moments of a drive, by a client that sends again what was not acknowledged."""

from __future__ import annotations

import hashlib
import json
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.work import POSES, X2L, environment
from helpers.served import jpeg, samples
from helpers.tiny_bundle import TINY_BUNDLE
from x2localizer.serve.client import Client, ClientSession

SECONDS = 24
START_WITHIN_S = 180.0


@contextmanager
def service_on(material: Path, state: Path) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """A service in a process of its own, on the gallery of the material, and a client of it."""
    few = [word if word == "--set" else f"track.{word}" for word in POSES]
    words = [
        "serve", "--gallery", str(material / "gallery"), "--bundle", str(TINY_BUNDLE), "--port", "0", "--state",
        str(state), "--log-level", "error", "--set", "answer_within_s=60", *few,
    ]  # fmt: skip
    running = subprocess.Popen([*X2L, *words], stderr=subprocess.PIPE, text=True, env=environment())
    assert running.stderr is not None
    try:
        found = re.search(r"http://\S+?:\d+", running.stderr.readline())
        if found is None:
            raise RuntimeError("the service did not start: " + running.stderr.read())
        with Client(found[0], timeout_s=60.0) as client:
            _wait(client)
            yield running, client
    finally:
        running.kill()
        running.wait()
        running.stderr.close()


def _wait(client: Client) -> None:
    end_s = time.monotonic() + START_WITHIN_S
    while True:
        try:
            client.request("GET", "/readyz")
            return
        except Exception:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.2)


def _samples(second: int) -> list[dict[str, float]]:
    return samples(second, second + 1, yaw_rate_deg_s=20.0 if second % 9 < 3 else 0.0)


def drive(material: Path, state: Path, rng: random.Random | None) -> str:
    """A drive through the service; with a random generator it is killed twice on the way. A digest of all fixes."""
    stops = sorted(rng.sample(range(2, SECONDS - 2), 2)) if rng is not None else []
    session_id, second = None, 0
    while True:
        end = stops.pop(0) if stops else SECONDS
        with service_on(material, state) as (running, client):
            session = client.create(odometry="samples") if session_id is None else ClientSession(client, session_id)
            session_id = session.id
            second = _drive(session, second, end)
            if end < SECONDS:
                assert rng is not None
                # in the middle of a second: the samples are sent, and the frame may or may not be acknowledged
                threading.Timer(rng.uniform(0.0, 0.05), running.send_signal, [signal.SIGKILL]).start()
                second = _until_killed(session, second)
                running.wait()
                continue
            fixes = [{name: fix[name] for name in fix if name != "region"} for fix in session.fixes()]
            return hashlib.sha256(json.dumps(fixes, sort_keys=True).encode()).hexdigest()


def _drive(session: ClientSession, start: int, end: int) -> int:
    """Send some seconds, each after what is stored already: a client that was cut off asks first."""
    known = {round(float(str(fix["time_s"])), 3) for fix in session.fixes()}
    for second in range(start, end):
        if round(second + 0.9, 3) in known:
            continue
        try:
            session.odometry(_samples(second))
        except Exception as problem:
            if "backwards" not in str(problem):  # they were taken before the kill
                raise
        session.frame(jpeg(second), second + 0.9)
    return end


def _until_killed(session: ClientSession, second: int) -> int:
    try:
        session.odometry(_samples(second))
        session.frame(jpeg(second), second + 0.9)
    except Exception:
        return second
    return second + 1
