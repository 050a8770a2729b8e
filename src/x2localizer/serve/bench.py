"""How many cameras does a service hold? Town drives over WebSockets on loopback, against a service in its own process.

Each session plays one filmed drive to and fro: forward, then in reverse gear with the same frames, which is a drive
that a car can do, without an end. Latency is from sending a frame to its answer.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
from websockets.asyncio.client import ClientConnection, connect

from x2localizer.encoders import Bundle
from x2localizer.errors import UserError
from x2localizer.gallery import index_roads
from x2localizer.localize.calibrate import town_gallery
from x2localizer.serve.samples import Sample
from x2localizer.serve.town_car import TownCar
from x2localizer.serve.wire import pack_frame
from x2localizer.town.town import Town

HELD_MS = 200.0
"""The 99th percentile of the latency up to which a number of sessions is held."""
FILM_S = 90
LEVELS = (8, 16, 24, 32, 40, 48, 56, 64)
TOGETHER = 8
"""Sessions that send as fast as they are answered, for the frames per second."""


@dataclass(frozen=True, slots=True)
class _Film:
    """A second of driving each: the JPEG at its end, and the samples in it."""

    jpegs: tuple[bytes, ...]
    samples: tuple[tuple[Sample, ...], ...]

    def _place(self, number: int) -> int:
        lap, at = divmod(number, len(self.jpegs) - 1)
        return at if lap % 2 == 0 else len(self.jpegs) - 1 - at

    def at(self, number: int) -> tuple[bytes, list[dict[str, float]]]:
        """The frame of a second of a drive to and fro, and the samples of the second before it, timed from 0 on."""
        place = self._place(number)
        if number == 0:
            return self.jpegs[0], []
        last = self._place(number - 1)
        rows, sign = self.samples[max(place, last)], 1.0 if place > last else -1.0
        ordered = rows if sign > 0 else rows[::-1]
        times = number - 1.0 + (np.arange(len(rows)) + 1.0) / len(rows)
        speeds, yaw_rates = ([sign * (value or 0.0) for value in values] for values in _rates(ordered))
        names = ("time_s", "speed_m_s", "yaw_rate_deg_s")
        return self.jpegs[place], [
            dict(zip(names, row, strict=True)) for row in zip(times.tolist(), speeds, yaw_rates, strict=True)
        ]


def _rates(samples: Sequence[Sample]) -> tuple[list[float | None], list[float | None]]:
    return [s.speed_m_s for s in samples], [s.yaw_rate_deg_s for s in samples]


@dataclass(slots=True)
class _Player:
    """One session that plays the film."""

    film: _Film
    socket: ClientConnection
    number: int = 0
    status: str = "locating"
    dropped: int = 0
    latencies_s: list[float] = field(default_factory=list)

    async def play(self) -> None:
        """Send the next second and wait for its answer."""
        jpeg, samples = self.film.at(self.number)
        if self.number and samples:
            await self.socket.send(json.dumps({"samples": samples}))
        message = pack_frame(jpeg, float(self.number))
        start = time.perf_counter()
        await self.socket.send(message)
        while True:
            answer = json.loads(await self.socket.recv())
            if answer["type"] == "error":
                raise UserError(f"The service refused a frame: {answer['error']}", answer["remedy"])
            if answer["type"] == "answer" and answer["time_s"] == self.number:
                break
        self.latencies_s.append(time.perf_counter() - start)
        self.dropped += answer["outcome"] in ("dropped", "late")
        self.status = answer["fix"]["status"] if answer["fix"] else self.status
        self.number += 1

    async def until_found(self, most: int) -> None:
        """Play as fast as it goes until the position is sure."""
        for _ in range(most):
            await self.play()
            if self.status == "tracking":
                return

    async def hold(self, first_s: float, seconds: float) -> None:
        """Play a second each second."""
        began = time.monotonic() + first_s
        for number in range(int(seconds)):
            await asyncio.sleep(max(0.0, began + number - time.monotonic()))
            await self.play()


def bench_serve(
    town: Town,
    bundle: Bundle,
    work: Path,
    *,
    seconds: float = 20.0,
    most: int = 64,
    minutes: float = 60.0,
    drive: int = 3,
) -> dict[str, object]:
    """Sessions held, speed and memory of the service, and whether an hour of driving slows it down."""
    address = town_gallery(town, bundle, work).address
    index_roads(work / f"town-{town.seed}" / "roads.geojson", address)
    film = _filmed(TownCar.on(town, drive, float(FILM_S)))
    with _service(address, bundle, work / "serve-state") as (service, process):
        return asyncio.run(_measure(service, process, film, seconds, most, minutes))


def _filmed(car: TownCar) -> _Film:
    seconds = range(int(car.seconds))
    return _Film(
        tuple(car.jpeg(float(second)) for second in seconds),
        tuple(tuple(car.samples_between(second - 1.0, float(second))) for second in seconds),
    )


@contextmanager
def _service(gallery: str, bundle: Bundle, state: Path) -> Iterator[tuple[str, int]]:
    """A service in a process of its own: its address and the id of its process."""
    command = [
        sys.executable, "-c", "from x2localizer.cli import main; main()", "serve", "--gallery", gallery, "--bundle",
        str(bundle.root), "--port", "0", "--state", str(state), "--log-level", "error", "--set", "awake_sessions=1000",
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"http://\S+?:\d+", said)
        if found is None:
            raise UserError(f"The service did not start: {said.strip()}", "Start it by hand: x2l serve")
        _wait_until_ready(found[0])
        yield found[0], process.pid
    finally:
        process.terminate()
        try:
            process.wait(20.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(address: str) -> None:
    for _ in range(600):
        try:
            if httpx.get(f"{address}/readyz", timeout=5.0, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise UserError("The service is not ready after two minutes.", "Start it by hand: x2l serve")


async def _measure(
    address: str, process: int, film: _Film, seconds: float, most: int, minutes: float
) -> dict[str, object]:
    players: list[_Player] = []
    values: dict[str, object] = {"sessions": 0, "frames_per_s": 0.0, "p50_ms": 0.0, "p99_ms": 0.0, "dropped_share": 0.0}
    await _add(address, film, players, 1)
    hour = await _hour(players[0], int(60 * minutes))
    before_mb, locating = _memory_mb(process), players[0].latencies_s[:20]
    for level in [count for count in LEVELS if count <= most] or [most]:
        await _add(address, film, players, level - len(players))
        held = await _level(players, seconds)
        if held["p99_ms"] >= HELD_MS or held["dropped_share"] > 0.001:
            values["next_level_p99_ms"] = held["p99_ms"]
            break
        values |= {"sessions": level, **held}
    memory_mb = (_memory_mb(process) - before_mb) / max(len(players) - 1, 1)
    fastest = await _together(players[:TOGETHER], seconds)
    return values | {
        "frames_per_s": fastest, "memory_mb_per_session": memory_mb, "tracking_share": _tracking(players),
        "locating_p50_ms": 1000 * float(np.median(locating)), **hour,
    }  # fmt: skip


async def _add(address: str, film: _Film, players: list[_Player], count: int) -> None:
    """More sessions, one after the other, each played until it is found."""
    async with httpx.AsyncClient(base_url=address, timeout=60.0, trust_env=False) as http:
        for _ in range(count):
            made = await http.post("/v1/sessions", json={"odometry": "samples", "name": f"car {len(players)}"})
            path = f"{address.replace('http', 'ws', 1)}/v1/sessions/{made.json()['id']}/socket"
            player = _Player(film, await connect(path, max_size=None, compression=None))
            await player.until_found(2 * FILM_S)
            players.append(player)


async def _level(players: Sequence[_Player], seconds: float) -> dict[str, float]:
    """All sessions at a frame a second, evenly spread over the second."""
    for player in players:
        player.latencies_s, player.dropped = [], 0
    await asyncio.gather(*(player.hold(k / len(players), seconds) for k, player in enumerate(players)))
    latencies = np.concatenate([player.latencies_s for player in players])
    return {
        "p50_ms": 1000 * float(np.percentile(latencies, 50)), "p99_ms": 1000 * float(np.percentile(latencies, 99)),
        "dropped_share": sum(player.dropped for player in players) / len(latencies),
    }  # fmt: skip


async def _together(players: Sequence[_Player], seconds: float) -> float:
    """Frames per second when each session sends its next frame as soon as the last is answered."""
    end, before = time.monotonic() + seconds, sum(player.number for player in players)

    async def go(player: _Player) -> None:
        while time.monotonic() < end:
            await player.play()

    start = time.monotonic()
    await asyncio.gather(*(go(player) for player in players))
    return (sum(player.number for player in players) - before) / (time.monotonic() - start)


async def _hour(player: _Player, count: int) -> dict[str, float]:
    """Latency at the start and at the end of a long drive, played as fast as it goes; after the first two minutes."""
    while player.number < count:
        await player.play()
    steady = 1000 * np.array(player.latencies_s[min(120, count // 4) :])
    part = max(1, min(300, len(steady) // 4))
    first, last = float(np.median(steady[:part])), float(np.median(steady[-part:]))
    return {"hour_first_ms": first, "hour_last_ms": last, "hour_growth": last / first}


def _tracking(players: Sequence[_Player]) -> float:
    return sum(player.status == "tracking" for player in players) / len(players)


def _memory_mb(process: int) -> float:
    """Memory of a process now."""
    status = Path(f"/proc/{process}/status")
    if not status.is_file():
        return float("nan")
    line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
