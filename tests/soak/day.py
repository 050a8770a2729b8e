"""A day of driving through the localizer, and through a service in a process of its own."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from chaos.service import service_on
from helpers.served import FEW_POSES, to_jpeg
from helpers.tiny_bundle import TINY_BUNDLE
from x2localizer.config import TownSettings
from x2localizer.encoders import open_bundle
from x2localizer.gallery import index, open_gallery
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.localize.track.tracker import Tracker
from x2localizer.serve.samples import Sample, SampleBuffer
from x2localizer.serve.town_car import TownCar
from x2localizer.town.folder import save_town
from x2localizer.town.town import build_town
from x2localizer.types import Frame, Image

FILM_S = 60
"""Length of the drive that is driven to and fro."""
PER_S = 2
"""Samples of odometry per second."""


@dataclass(frozen=True, slots=True)
class Film:
    """A drive without an end: forward, then in reverse gear with the same frames.

    images: one a second. speeds, yaw_rates: of each sample.
    """

    images: tuple[Image, ...]
    jpegs: tuple[bytes, ...]
    speeds: tuple[float, ...]
    yaw_rates: tuple[float, ...]

    def frame(self, second: int) -> int:
        """Which of the images a second shows."""
        lap, at = divmod(second, FILM_S)
        return at if lap % 2 == 0 else FILM_S - at

    def samples(self, start_s: int, end_s: int) -> list[Sample]:
        """The odometry from a second until before another."""
        out = []
        for number in range(start_s * PER_S, end_s * PER_S):
            lap, at = divmod(number, FILM_S * PER_S)
            place, sign = (at, 1.0) if lap % 2 == 0 else (FILM_S * PER_S - 1 - at, -1.0)
            out.append(Sample((number + 1) / PER_S, sign * self.speeds[place], sign * self.yaw_rates[place]))
        return out


def film_in(folder: Path) -> Film:
    """Build a small town with a gallery in a folder, and film a drive."""
    town = build_town(5, TownSettings(tiles=16, pixels_per_tile=64))
    save_town(town, folder)
    index(folder / "aerial.tif", open_bundle(TINY_BUNDLE), folder / "gallery", roads=[folder / "roads.geojson"])
    car = TownCar.on(town, 3, float(FILM_S + 1), height=32, width=64)
    images = tuple(car.image(float(second)) for second in range(FILM_S + 1))
    picked = [car.samples[min(round((k + 0.5) * 10 / PER_S), len(car.samples) - 1)] for k in range(FILM_S * PER_S)]
    return Film(
        images, tuple(to_jpeg(image) for image in images), tuple(one.speed_m_s or 0.0 for one in picked),
        tuple(one.yaw_rate_deg_s or 0.0 for one in picked),
    )  # fmt: skip


@dataclass(slots=True)
class Series:
    """What was measured along the day, at even distances."""

    memory_mb: list[float] = field(default_factory=list)
    handles: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    latency_ms: list[float] = field(default_factory=list)
    yardstick_ms: list[float] = field(default_factory=list)
    tracking: int = 0

    def note(self, process: int, cpu_s: float, spent_s: float, status: str) -> None:
        """One step: processor time and time until its answer, and what the process holds now."""
        self.cpu_ms.append(1000 * cpu_s)
        self.latency_ms.append(1000 * spent_s)
        self.yardstick_ms.append(1000 * _yardstick_s())
        self.memory_mb.append(_memory_mb(process))
        self.handles.append(float(len(os.listdir(f"/proc/{process}/fd"))))  # noqa: PTH208 - names alone
        self.tracking += status == "tracking"


def _yardstick_s() -> float:
    """Processor time of a fixed piece of work: on a machine that others use as well, the same work takes longer."""
    start = time.process_time()
    sum(number * number for number in range(20_000))
    return time.process_time() - start


def _memory_mb(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _cpu_s(process: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def through_localizer(film: Film, folder: Path, hours: float, spacing_s: int) -> Series:
    """The day through a tracker in this process: each frame is decoded, gated, encoded and followed."""
    bundle = open_bundle(TINY_BUNDLE, threads=1)
    tracker = Tracker(TrackMap.of(open_gallery(folder / "gallery", bundle)), bundle, FEW_POSES)
    buffer, series = SampleBuffer(), Series()
    for number, second in enumerate(range(spacing_s, int(3600 * hours), spacing_s)):
        buffer.add(film.samples(second - spacing_s, second))
        image = film.images[film.frame(second)]
        start, cpu_s = time.perf_counter(), time.process_time()
        movements = buffer.movements(max(second - spacing_s, 1 / PER_S), float(second), 0.5)
        fix = tracker.update(Frame(number, float(second), image), movements)
        spent_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu_s
        buffer.forget_before(float(second))
        series.note(os.getpid(), cpu_s, spent_s, fix.status)
    return series


def through_service(film: Film, folder: Path, hours: float, spacing_s: int) -> Series:
    """The day through a service: one camera that drives all day, and one that comes and goes every hour."""
    series = Series()
    with service_on(folder, folder / "state") as (running, client):
        session = client.create(odometry="samples", name="all day")
        guest, hour, before_s = None, -1, _cpu_s(running.pid)
        for second in range(spacing_s, int(3600 * hours), spacing_s):
            rows = film.samples(second - spacing_s, second)
            session.odometry([_row(one) for one in rows])
            jpeg = film.jpegs[film.frame(second)]
            start = time.perf_counter()
            answer = session.frame(jpeg, float(second))
            spent_s, now_s = time.perf_counter() - start, _cpu_s(running.pid)
            series.note(running.pid, now_s - before_s, spent_s, (answer["fix"] or {}).get("status", ""))
            if second // 3600 != hour:
                hour = second // 3600
                if guest is not None:
                    guest.end()
                guest = client.create(odometry="samples", name=f"guest {hour}")
            if guest is not None and second % 3600 < 20 * spacing_s:
                guest.odometry([_row(one) for one in rows])
                guest.frame(jpeg, float(second))
            before_s = _cpu_s(running.pid)
    return series


def _row(sample: Sample) -> dict[str, float]:
    return {
        "time_s": sample.time_s, "speed_m_s": sample.speed_m_s or 0.0, "yaw_rate_deg_s": sample.yaw_rate_deg_s or 0.0
    }  # fmt: skip
