"""The localizer: a frame in, a fix out.

Keyframes fill a window. The first window is searched at every keyframe, so that the answer grows better from the first
frame on. With the policy ``swrl`` a new window starts every 20 s and is searched when its last keyframe has come; until
then the old candidates serve. Between searches each frame is matched with the tiles of the candidate regions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from x2localizer import geo
from x2localizer.config import LocalizeSettings
from x2localizer.encoders import Bundle, SetCodes
from x2localizer.gallery.store import Gallery
from x2localizer.gallery.tiles import TileReader
from x2localizer.localize.belief import Belief, Match
from x2localizer.localize.confidence import Confidence, Evidence
from x2localizer.localize.frames import FrameGate
from x2localizer.search import Hits, Prior, Searcher, nearest_region
from x2localizer.types import Candidate, Codes, Fix, Frame, Image, Position, Region

SEARCHED_PER_CANDIDATE = 6
NEAR_BORDER = 3
"""Half tiles from the border of its region at which a path gets the next one."""
OVERLAP = 0.4
"""A region of which a better one covers more is not a candidate of its own."""


def apart(regions: list[Region], most: int) -> list[int]:
    """Which of some regions, best first, to keep: none overlaps a better one by much."""
    kept: list[int] = []
    for i, region in enumerate(regions):
        if all(geo.region_overlap(region, regions[k]) <= OVERLAP for k in kept):
            kept.append(i)
            if len(kept) == most:
                break
    return kept


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A keyframe beside the region it was matched with: similarities with its tiles at half stride, (m, m)."""

    frame: Frame
    region: Region
    similarities: npt.NDArray[np.float32]
    valid: npt.NDArray[np.bool_]


class Localizer:
    """Follows one camera through one gallery."""

    def __init__(
        self,
        gallery: Gallery,
        bundle: Bundle,
        settings: LocalizeSettings | None = None,
        *,
        prior: Prior | None = None,
        searcher: Searcher | None = None,
        confidence: Confidence | None = None,
    ) -> None:
        self.gallery, self.bundle = gallery, bundle
        self.settings = settings or LocalizeSettings()
        self.searcher = searcher or Searcher.over(
            gallery, threads=bundle.threads, similarity=self.settings.similarity,
            spacing_s=self.settings.keyframe_spacing_s,
        )  # fmt: skip
        self._allowed = None if prior is None else prior.allowed(gallery.regions)
        self._confidence = confidence or Confidence.of(bundle, self.settings)
        self._tiles = TileReader(gallery)
        self._gate = FrameGate(self.settings.gap_s)
        self._restart()

    def _restart(self) -> None:
        self._window: deque[tuple[Image, Codes]] = deque(maxlen=min(self.settings.budget, self.bundle.spec.frames))
        self._keyframe_s: float | None = None
        self._searched_s: float | None = None
        self._searches = 0
        self._last_s: float | None = None
        self._belief: Belief | None = None
        self._hits: Hits | None = None
        self._guess: Position | None = None
        self._candidates: tuple[Candidate, ...] = ()
        self.evidence: Evidence | None = None
        """What spoke for the last fix."""
        self.view: View | None = None
        """What the last frame was matched with, for those who draw."""

    @property
    def frame_size(self) -> tuple[int, int]:
        """Height and width that frames must have; open the video with this size."""
        return self.bundle.spec.frame_height, self.bundle.spec.frame_width

    def run(self, frames: Iterable[Frame]) -> Iterator[Fix]:
        """A fix for every frame of a source."""
        for frame in frames:
            yield self.update(frame)

    def update(self, frame: Frame) -> Fix:
        """Take in the next frame."""
        if frame.image.shape != (*self.frame_size, 3):
            raise ValueError(f"frames must be {self.frame_size[0]} x {self.frame_size[1]}, not {frame.image.shape}")
        if not self._gate.usable(frame):
            return Fix(frame.index, frame.time_s, "lost", candidates=self._candidates)
        if self._gate.interrupted(frame):
            self._restart()
        is_keyframe = (
            self._keyframe_s is None or frame.time_s - self._keyframe_s >= self.settings.keyframe_spacing_s - 1e-3
        )
        code = self.bundle.encode_frames(frame.image[None])[0]
        if is_keyframe:
            self._keyframe_s = frame.time_s
            self._window.append((frame.image, code))
        refreshed = is_keyframe and self._due(frame.time_s)
        if refreshed:
            self._search(frame.time_s)
        seconds = 0.0 if self._last_s is None else frame.time_s - self._last_s
        self._last_s = frame.time_s
        if self._belief is None or self._hits is None:
            return Fix(frame.index, frame.time_s, "lost")
        match = self._belief.update(code, seconds)
        if self.settings.policy == "swrl" and self._follow(match):
            match = self._belief.best(code)
        grid = self._belief.grid
        self.view = View(
            frame, grid.regions[match.candidate], grid.codes[match.candidate] @ code, grid.valid[match.candidate]
        )
        return self._fix(frame, match, refreshed)

    def _due(self, time_s: float) -> bool:
        """Whether the candidates are to be searched anew with the keyframe that has just come."""
        if self._searches < (self._window.maxlen or 1):
            return True  # the first window: better with every keyframe
        if self.settings.policy == "once":
            return False
        return self._searched_s is None or time_s - self._searched_s >= self.settings.window_s - 1e-3

    def _search(self, time_s: float) -> None:
        """The best regions for the window, and the belief on their tiles."""
        code = self._window_code()
        # Regions of a gallery overlap: more are searched than are kept, so that the kept ones are different places.
        hits = self.searcher.search(code, SEARCHED_PER_CANDIDATE * self.settings.candidates, self._allowed)
        self._searches += 1
        self._searched_s = time_s
        table = self.gallery.regions
        kept = apart([table.region(int(row)) for row in hits.rows], self.settings.candidates)
        if not kept:
            return
        hits = self._with_own_region(code, hits.taken(kept))
        self._adopt(hits)

    def _adopt(self, hits: Hits, anew: float | None = None) -> None:
        """Make hits the candidates, and carry the belief over to their tiles."""
        regions = [self.gallery.regions.region(int(row)) for row in hits.rows]
        grid, scores = self._tiles.grid(regions), hits.score.astype(np.float64)
        if not grid.valid.any():
            return
        old = self._belief
        self._belief = Belief(grid, scores, self.settings) if old is None else old.carried_over(grid, scores, anew)
        self._hits = hits
        self._candidates = tuple(Candidate(r, float(s)) for r, s in zip(regions, hits.score, strict=True))

    def _window_code(self) -> SetCodes:
        """The window as the searcher wants it: Phi of its keyframes, or phi of each, which is known already."""
        if self.searcher.similarity == "s_path":
            tokens = np.stack([code for _, code in self._window])[None]
            return SetCodes(tokens[:, 0], tokens)
        return self.bundle.encode_prefixes(np.stack([image for image, _ in self._window])[None])

    def _with_own_region(self, code: SetCodes, hits: Hits) -> Hits:
        """The hits and, where the path is followed, the region around the last guess: a path goes on where it was."""
        if self._guess is None or self.settings.matching == "frame":
            return hits
        row = nearest_region(self.gallery.regions, self._guess, self._allowed)
        if row is None or row in hits.rows:
            return hits
        return hits.joined(self.searcher.look_at(code, np.array([row], np.int64)))

    def _follow(self, match: Match) -> bool:
        """Where a path nears the border of its region, put the region around it among the candidates."""
        assert self._belief is not None
        assert self._hits is not None
        m = self._belief.grid.valid.shape[1]
        inside = min(match.row, match.column, m - 1 - match.row, m - 1 - match.column)
        if self.settings.matching == "frame" or inside >= NEAR_BORDER:
            return False
        place = self._belief.grid.place(match.candidate, match.row, match.column)
        row = nearest_region(self.gallery.regions, place, self._allowed)
        if row is None or row in self._hits.rows:
            return False
        kept = list(range(len(self._hits.rows)))
        if len(kept) >= self.settings.candidates + 2:  # the one that is believed least makes room
            kept.remove(int(self._belief.mass.sum((0, 2, 3)).argmin()))
        here = self.searcher.look_at(self._window_code(), np.array([row], np.int64))
        self._adopt(self._hits.taken(kept).joined(here), anew=0.0)
        return True

    def _fix(self, frame: Frame, match: Match, refreshed: bool) -> Fix:
        assert self._belief is not None
        assert self._hits is not None
        self.evidence = Evidence.of(match, self._hits, self._belief.frames)
        confidence = self._confidence.probability(self.evidence)
        sure = confidence >= self._confidence.threshold
        self._guess = self._belief.grid.place(match.candidate, match.row, match.column)
        early = self._searches < (self._window.maxlen or 1) or self._belief.frames < self._confidence.least_frames
        return Fix(
            frame.index, frame.time_s, "tracking" if sure else "locating" if early else "lost",
            self._guess, confidence, match.similarity,
            self._belief.grid.regions[match.candidate], self._candidates, refreshed,
        )  # fmt: skip
