"""A real gpsd reads our NMEA sentences: position, precision, and mode 1 as soon as we are not sure."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest

from helpers.live_fixes import Drive, free_port, place_at, wait_for
from x2localizer.sinks.live import open_sinks

GPSD = shutil.which("gpsd") or shutil.which("gpsd", path="/usr/sbin")
pytestmark = pytest.mark.skipif(GPSD is None, reason="gpsd is not installed: apt install gpsd")


@contextmanager
def _gpsd(source: str) -> Iterator[Iterator[dict[str, Any]]]:
    """What a gpsd that reads a source reports, from the moment on that it knows of its listener."""
    port = free_port()
    assert GPSD is not None
    process = subprocess.Popen(
        [GPSD, "-N", "-n", "-b", "-S", str(port), source], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        client = None
        end = time.monotonic() + 10
        while client is None:
            try:
                client = socket.create_connection(("127.0.0.1", port), timeout=20)
            except ConnectionRefusedError:
                assert time.monotonic() < end and process.poll() is None, "gpsd did not start"
                time.sleep(0.05)
        with client, client.makefile("r", encoding="utf-8") as lines:
            client.sendall(b'?WATCH={"enable":true,"json":true};\n')
            reports = (json.loads(line) for line in lines)
            next(_of(reports, "WATCH"))  # what it reads before that is reported to nobody
            yield reports
    finally:
        process.terminate()
        process.wait(10)


def _of(reports: Iterator[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    return (values for values in reports if values["class"] == kind)


def test_gpsd_takes_us_for_a_receiver() -> None:
    port, began = free_port(), datetime.now(UTC).replace(microsecond=0)
    with open_sinks([f"nmea://127.0.0.1:{port}?rate=5"]) as opened, _gpsd(f"tcp://127.0.0.1:{port}") as heard:
        opened.start(began)
        wait_for(lambda: bool(opened.sinks[0]._transport.clients))  # type: ignore[attr-defined]
        Drive(8, lost=range(3, 5)).feed(opened)
        reports = [r for r in islice(_of(heard, "TPV"), 40) if "time" in r]
    at = {round((datetime.fromisoformat(r["time"]) - began).total_seconds(), 1): r for r in reports}
    sure = [time_s for time_s in at if 0.2 < time_s < 2.9 or 5.1 < time_s < 7.0]
    assert len(sure) > 15
    for time_s in sure:
        assert at[time_s]["mode"] == 2
        place = place_at(time_s)
        assert (at[time_s]["lat"], at[time_s]["lon"]) == pytest.approx((place.lat_deg, place.lon_deg), abs=5e-7)
        assert at[time_s]["track"] == pytest.approx(90.0)
        assert at[time_s]["speed"] == pytest.approx(10.0, abs=0.01)
    lost = [time_s for time_s in at if 3.0 < time_s < 4.9]
    assert len(lost) > 5
    for time_s in lost:
        assert at[time_s]["mode"] <= 1
        assert "lat" not in at[time_s] and "lon" not in at[time_s]


def test_gpsd_hears_of_our_precision_and_our_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("x2localizer.sinks.live.receiver.SILENCE_S", 0.5)
    port = free_port()
    address = f"nmea://127.0.0.1:{port}?rate=1&altitude=520"
    with open_sinks([address]) as opened, _gpsd(f"tcp://127.0.0.1:{port}") as heard:
        opened.start(datetime.now(UTC))
        wait_for(lambda: bool(opened.sinks[0]._transport.clients))  # type: ignore[attr-defined]
        Drive(6).feed(opened)
        # How many reports wait in gpsd's buffers, and how many say nothing, is the machine's affair: wait for one.
        precise = next(r for r in _of(heard, "GST") if "lat" in r)
        assert (precise["lat"], precise["lon"]) == pytest.approx((2.0, 4.0), abs=0.01)
        modes = (r["mode"] for r in _of(heard, "TPV"))
        assert any(mode <= 1 for mode in islice(modes, 30)), "no news is no position"
