"""Denser streams and chosen frames: recall against the number of frames that are encoded.

The paper's protocols know a clip by 8 keyframes, 5 s apart. Here a clip is a stream of a frame each second, and a rule
says which of them are encoded: at a fixed spacing; after a distance, as odometry measures it; where the picture has
changed; or the sharpest of each interval. A rule sees pictures and movements of the past, never codes:
what it leaves out is not encoded. Regions are ranked by s_path, which takes any number of frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from x2localizer import geo
from x2localizer.datasets.dataset import Dataset
from x2localizer.datasets.tables import FrameRow
from x2localizer.errors import UserError
from x2localizer.evaluate.coarse import RegionScorer, reach_in
from x2localizer.evaluate.embed import Embeddings
from x2localizer.evaluate.entrants import Entrant
from x2localizer.evaluate.tables import markdown, spread
from x2localizer.metrics import bootstrap_interval, ranks_of, recall_at
from x2localizer.similarity import Query, similarities
from x2localizer.types import Bools, Floats, Ints, Progress

SPANS_S = (15.0, 35.0)
"""How much of a clip has been seen."""
SIMILARITY = "s_path"
THUMBNAIL = (8, 16)
"""Rows and columns of the brightness that novelty compares."""


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """What a rule may see of a clip's f frames, each up to its time.

    times_s, travelled_m: since the first frame, (f,).
    thumbnails: brightness from 0 to 1, (f, 8, 16).
    sharpness: the mean square of the picture's second differences, (f,).
    """

    times_s: Floats
    travelled_m: Floats
    thumbnails: Floats
    sharpness: Floats

    def until(self, seconds: float) -> Stream:
        """What has been seen of it after some seconds."""
        seen = self.times_s <= seconds + 1e-3
        return Stream(self.times_s[seen], self.travelled_m[seen], self.thumbnails[seen], self.sharpness[seen])


Rule = Callable[[Stream, float], Bools]
"""Which frames of a stream are encoded, (f,), given the rule's one setting. The first always is."""


def every(stream: Stream, seconds: float) -> Bools:
    """A frame each so many seconds."""
    return _after(stream.times_s, seconds - 1e-3)


def distance(stream: Stream, metres: float) -> Bools:
    """A frame after each so many metres; none while the car stands."""
    return _after(stream.travelled_m, metres)


def novelty(stream: Stream, change: float) -> Bools:
    """A frame whose brightness has changed so much, on average, since the last one that was taken."""
    taken, last = np.zeros(len(stream.times_s), np.bool_), None
    for i, picture in enumerate(stream.thumbnails):
        if last is None or float(np.abs(picture - last).mean()) >= change:
            taken[i], last = True, picture
    return taken


def sharpest(stream: Stream, seconds: float) -> Bools:
    """The sharpest frame of each interval of so many seconds; of the last one, the sharpest so far."""
    interval = ((stream.times_s - stream.times_s[0]) / seconds + 1e-6).astype(int)
    taken = np.zeros(len(interval), np.bool_)
    for number in np.unique(interval):
        inside = np.flatnonzero(interval == number)
        taken[inside[int(np.argmax(stream.sharpness[inside]))]] = True
    return taken


def _after(passed: Floats, least: float) -> Bools:
    """Those at which at least so much has passed since the last that was taken."""
    taken, last = np.zeros(len(passed), np.bool_), -np.inf
    for i, value in enumerate(passed):
        if value - last >= least:
            taken[i], last = True, value
    return taken


RULES: dict[str, tuple[Rule, str, tuple[float, ...]]] = {
    "every": (every, "s", (35.0, 10.0, 5.0, 3.0, 2.0, 1.0)),
    "distance": (distance, "m", (160.0, 80.0, 50.0, 30.0, 15.0)),
    "novelty": (novelty, "of brightness", (0.16, 0.12, 0.1, 0.08, 0.06)),
    "sharpest": (sharpest, "s", (10.0, 5.0, 3.0, 2.0)),
}
"""Rules by name, with the unit and the values of their setting."""


@dataclass(frozen=True, slots=True)
class StreamRow:
    """Recalls in percent by one rule, after some seconds; ``frames`` is the mean number that were encoded."""

    run: str
    rule: str
    setting: float
    unit: str
    span_s: float
    frames: float
    r1: float
    r1_low: float
    r1_high: float
    r5: float


def able(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Those that have image codes of frames and tiles."""
    found = [e for e in entrants if e.encoder is not None and similarities.get(SIMILARITY).suits(e.encoder.spec)]
    if not found:
        raise UserError("Streams need a model with image codes.", "Name a bundle such as town or eye.")
    return found


def stream_rows(entrant: Entrant, data: Dataset, split: str, work: Path, report: Progress) -> list[StreamRow]:
    """Every rule with every setting, after every span."""
    assert entrant.encoder is not None
    encoded = Embeddings(data, split, entrant.encoder, work, report)
    streams = []
    for v in range(len(encoded.videos)):
        streams.append(stream_of(encoded, v))
        report("looking at clips", v + 1, len(encoded.videos))
    scorer = RegionScorer(encoded, [SIMILARITY])
    rows = []
    wanted = [(name, setting, span) for name, rule in RULES.items() for setting in rule[2] for span in SPANS_S]
    for number, (name, setting, span) in enumerate(wanted):
        rule, unit, _ = RULES[name]
        ranks, counts = [], []
        for v, stream in enumerate(streams):
            frames = np.flatnonzero(rule(stream.until(span), setting))
            ranks.append(_rank(encoded, scorer, v, frames, stream.times_s[frames]))
            counts.append(len(frames))
        found = np.array(ranks)
        low, high = bootstrap_interval(100.0 * (found <= 1))
        rows.append(StreamRow(
            entrant.run, name, setting, unit, span, float(np.mean(counts)), recall_at(found, 1), low, high,
            recall_at(found, 5),
        ))  # fmt: skip
        report("rules", number + 1, len(wanted))
    return rows


def stream_of(encoded: Embeddings, video: int) -> Stream:
    """What rules see of a clip."""
    rows = encoded.frames[video]
    times = np.array([row.time_s for row in rows])
    moved = np.concatenate([[0.0], np.cumsum([_way_m(a, b) for a, b in pairwise(rows)])])
    first = int(encoded.first_frame[video])
    grey = np.stack([encoded.frame_image(first + i).mean(-1) / 255.0 for i in range(len(rows))])
    f, height, width = grey.shape
    r, c = THUMBNAIL
    small = grey[:, : height // r * r, : width // c * c].reshape(f, r, height // r, c, width // c).mean((2, 4))
    second = 4 * grey[:, 1:-1, 1:-1] - grey[:, :-2, 1:-1] - grey[:, 2:, 1:-1] - grey[:, 1:-1, :-2] - grey[:, 1:-1, 2:]
    return Stream(times - times[0], moved, small, (second**2).mean((1, 2)))


def _way_m(a: FrameRow, b: FrameRow) -> float:
    """Metres driven between two frames: by their speeds, as odometry would say; by their places if they have none."""
    if a.speed_m_s is None or b.speed_m_s is None:
        return float(geo.distance_m(a.lat_deg, a.lon_deg, b.lat_deg, b.lon_deg))
    return (a.speed_m_s + b.speed_m_s) / 2 * (b.time_s - a.time_s)


def _rank(encoded: Embeddings, scorer: RegionScorer, video: int, frames: Ints, times_s: Floats) -> int:
    """The rank of a clip's region by some of its frames."""
    query = Query(np.asarray(encoded.frame_codes[encoded.first_frame[video] + frames]))
    reach = [reach_in(encoded, float(step)) for step in np.diff(times_s)]
    scores = scorer.scores({"tiles": query}, reach)[SIMILARITY]
    return int(ranks_of(scores[None], encoded.region_of[video : video + 1])[0])


def table_text(rows: Sequence[StreamRow]) -> str:
    """A line for each rule, setting and span."""
    return markdown(
        ["run", "rule", "seen", "frames encoded", "R@1 (95%)", "R@5"],
        ((row.run, f"{row.rule} {row.setting:g} {row.unit}", f"{row.span_s:.0f} s", f"{row.frames:.1f}",
          spread(row.r1, row.r1_low, row.r1_high), f"{row.r5:.1f}") for row in rows),
    )  # fmt: skip


def panels(rows: Sequence[StreamRow]) -> dict[str, Any]:
    """Curves of R@1 over frames encoded, a panel for each span."""
    runs = list(dict.fromkeys(row.run for row in rows))
    out: dict[str, Any] = {}
    for span in dict.fromkeys(row.span_s for row in rows):
        curves: dict[str, list[tuple[float, float, int]]] = {}
        for row in (row for row in rows if row.span_s == span):
            name = row.rule if len(runs) == 1 else f"{row.rule}, {row.run}"
            curves.setdefault(name, []).append((row.frames, row.r1, 1))
        out[f"after {span:.0f} s"] = {name: sorted(points) for name, points in curves.items()}
    return out
