"""How fast is tracking? Odometry, encoder and belief on a filmed drive, and an hour of driving to and fro.

The hour repeats the film's movements and codes, there and back. It runs in a process of its own, so that peak memory is
that of tracking alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from x2localizer.encoders import Bundle, open_bundle
from x2localizer.errors import UserError
from x2localizer.gallery import index_roads, open_gallery
from x2localizer.localize.calibrate import town_gallery
from x2localizer.localize.follow import joined
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.localize.track.tracker import Tracker
from x2localizer.odometry import VisualOdometry
from x2localizer.odometry.record import SPACING_S
from x2localizer.sources.video import open_video
from x2localizer.town.folder import save_drive
from x2localizer.town.town import Town
from x2localizer.types import Codes, Movement

FILM_S = 120.0
PER_S = 7
"""Frames per second that odometry looks at."""


@dataclass(frozen=True, slots=True, eq=False)
class _Second:
    """What a second of driving gives to the tracker."""

    movements: tuple[Movement, ...]
    code: Codes


def bench_track(
    town: Town, bundle: Bundle, work: Path, minutes: float = 60.0, film_s: float = FILM_S
) -> dict[str, float]:
    """Speed, growth and memory of tracking in a town, on tiles and roads."""
    address = town_gallery(town, bundle, work).address
    index_roads(work / f"town-{town.seed}" / "roads.geojson", address)
    save_drive(town, work / "film", 3, film_s, fps=PER_S)
    words = [str(work / "film" / "drive.mp4"), address, str(bundle.root), str(minutes)]
    script = "import sys; from x2localizer.localize.bench_track import measure; measure(*sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"Tracking failed: {done.stderr.strip()[-300:]}", "Run x2l localize on a video of your own.")
    values: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return values


def measure(video: str, address: str, bundle: str, minutes: str) -> None:
    """Print the figures as JSON; the body of the process."""
    encoder = open_bundle(bundle)
    gallery = open_gallery(address, encoder)
    cv2.setNumThreads(1)
    seconds, odometry_s, encode_s = _look(video, encoder)
    tracker = Tracker(TrackMap.of(gallery), encoder)
    spent = _drive(tracker, seconds, int(60 * float(minutes)))
    looking_s = PER_S * odometry_s + encode_s
    values: dict[str, Any] = {
        "odometry_ms_per_frame": 1000 * odometry_s,
        "track_ms_per_s": 1000 * float(np.mean(spent)),
        "realtime_all": 1.0 / (looking_s + float(np.mean(spent))),
        "realtime_first_minute": 1.0 / (looking_s + float(np.mean(spent[:60]))),
        "growth": growth(spent),
        "peak_mb": _peak_mb(),
    }
    print(json.dumps(values))  # read by the process that started this one


def growth(spent: Sequence[float]) -> float:
    """How much longer a second takes in the second half of a drive than in the first.

    Without the first two minutes, in which the camera is looked for. Halves, because searches of the whole map come now
    and then: a few minutes hold none or several by chance.
    """
    later = np.asarray(spent[min(120, len(spent) // 4) :])
    middle = len(later) // 2
    return float(later[middle:].mean() / later[:middle].mean())


def _look(video: str, encoder: Bundle) -> tuple[list[_Second], float, float]:
    """What each second of a film gives, and the times of odometry per frame and of the encoder per second."""
    odometry = VisualOdometry()
    seconds: list[_Second] = []
    movements: list[Movement] = []
    odometry_s, encode_s = [], []
    with open_video(video, spacing_s=SPACING_S) as source:
        for frame in source:
            start = time.thread_time()
            movement = odometry.update(frame)
            odometry_s.append(time.thread_time() - start)
            movements += [] if movement is None else [movement]
            if frame.index % PER_S == 0 and frame.index > 0:
                start = time.perf_counter()
                height, width = encoder.spec.frame_size
                image = cv2.resize(frame.image, (width, height), interpolation=cv2.INTER_AREA)
                code = encoder.encode_frames(np.asarray(image, np.uint8)[None])[0]
                encode_s.append(time.perf_counter() - start)
                seconds.append(_Second(tuple(joined(movements, 0.5)), code))
                movements = []
    return seconds, float(np.mean(odometry_s)), float(np.mean(encode_s))


def _drive(tracker: Tracker, seconds: Sequence[_Second], count: int) -> list[float]:
    """Time of the tracker for each second of a drive along the film and back, again and again."""
    spent = []
    now_s = 0.0
    for number in range(count):
        lap, at = divmod(number, len(seconds))
        back = lap % 2 == 1
        second = seconds[len(seconds) - 1 - at if back else at]
        movements = []
        for m in reversed(second.movements) if back else second.movements:
            end_s = now_s + (m.end_s - m.start_s)
            turn_deg = -m.turn_deg if back else m.turn_deg
            movements.append(Movement(now_s, end_s, m.distance_m, turn_deg, m.distance_sd_m, m.turn_sd_deg))
            now_s = end_s
        if at == 0 and lap > 0:  # the car turns round
            movements.insert(0, Movement(movements[0].start_s, movements[0].start_s, 0.0, 180.0, 0.1, 2.0))
        start = time.perf_counter()
        tracker.advance(number, now_s, movements, second.code)
        spent.append(time.perf_counter() - start)
    return spent


def _peak_mb() -> float:
    """Peak memory of this process; not ru_maxrss, which starts at what the parent process had."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return float("nan")
    line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024
