"""kill -9, start again, go on: nothing that was acknowledged is lost."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from helpers.command_line import RUN
from helpers.served import FEW_POSES, jpeg, samples
from x2localizer.encoders import Bundle
from x2localizer.gallery import Gallery
from x2localizer.serve.client import Client, ClientSession

POSES = [
    word
    for name in ("start_poses", "most_poses", "unclear_poses", "least_poses")
    for word in ("--set", f"track.{name}={getattr(FEW_POSES, name)}")
]


@contextmanager
def process(gallery: Gallery, bundle: Bundle, state: Path) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """A service in a process of its own."""
    command = [*RUN, "serve", "--gallery", gallery.address, "--bundle", str(bundle.root), "--port", "0", "--state"]
    options = [str(state), "--log-level", "error", "--set", "answer_within_s=60", *POSES]
    running = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    try:
        said = running.stderr.readline()
        found = re.search(r"http://\S+?:\d+", said)
        assert found is not None, said
        with Client(found[0], timeout_s=60.0) as client:
            for _ in range(600):
                try:
                    client.request("GET", "/readyz")
                    break
                except Exception:
                    time.sleep(0.1)
            yield running, client
    finally:
        running.kill()
        running.wait()
        running.stderr.close()


def second_of(second: int) -> list[dict[str, float]]:
    """The samples of a second of a drive with turns."""
    return samples(second, second + 1, yaw_rate_deg_s=20.0 if second % 9 < 3 else 0.0)


def drive(session: ClientSession, start: int, end: int) -> list[dict[str, object]]:
    """Some seconds of driving; the fixes that were acknowledged."""
    fixes = []
    for second in range(start, end):
        session.odometry(second_of(second))
        fixes.append(session.frame(jpeg(second), second + 0.9)["fix"])
    return fixes


def without_view(fixes: list[dict[str, object]]) -> list[dict[str, object]]:
    """Fixes without what is only for drawing, which is not stored."""
    return [{name: value for name, value in fix.items() if name != "region"} for fix in fixes]


def test_a_killed_service_goes_on_where_it_was(served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path) -> None:
    with process(served_gallery, tiny_bundle, tmp_path / "whole") as (_, client):
        expected = drive(client.create(odometry="samples"), 0, 40)
    state = tmp_path / "state"
    with process(served_gallery, tiny_bundle, state) as (running, client):
        session = client.create(odometry="samples", name="van")
        said = drive(session, 0, 34)  # beyond a snapshot, with steps since
        session.odometry(second_of(34))  # acknowledged, and not used yet
        running.send_signal(signal.SIGKILL)
        running.wait()
    with process(served_gallery, tiny_bundle, state) as (_, client):
        again = ClientSession(client, session.id)
        assert without_view(again.fixes()) == without_view(said)
        assert client.sessions()[0]["name"] == "van"
        said.append(again.frame(jpeg(34), 34.9)["fix"])
        said += drive(again, 35, 40)
        assert len(again.fixes()) == 40
    assert said == expected  # as if nothing had happened


def test_a_second_service_on_the_same_state_is_refused(
    served_gallery: Gallery, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    with process(served_gallery, tiny_bundle, tmp_path) as (_, client):
        words = ["serve", "--gallery", served_gallery.address, "--bundle", str(tiny_bundle.root), "--port", "0"]
        other = subprocess.run(
            [*RUN, *words, "--state", str(tmp_path), "--log-level", "critical"], capture_output=True, text=True,
            check=False, timeout=300,
        )  # fmt: skip
        assert other.returncode != 0
        assert "Another process" in other.stderr
        assert client.request("GET", "/healthz").status_code == httpx.codes.OK
