"""The localizer: a frame in, a fix out.

Keyframes fill a window. A refresh policy decides when the window is searched; until the next search the old candidates
serve, and each frame is matched with the tiles of the candidate regions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from PIL import Image as Pillow

from x2localizer import geo
from x2localizer.config import LocalizeSettings
from x2localizer.encoders import Bundle, Encoder
from x2localizer.encoders.tile_decoder import TileDecoder, open_decoder
from x2localizer.errors import ConfigError
from x2localizer.gallery.store import Gallery, check_encoder
from x2localizer.gallery.tiles import TileReader
from x2localizer.localize.belief import Belief, Match
from x2localizer.localize.confidence import NEVER_SURE, Confidence, evidence_for
from x2localizer.localize.decoding import DecodedBelief
from x2localizer.localize.frames import FrameGate
from x2localizer.localize.refresh import SearchMoment, policies
from x2localizer.search import Prior, RankedRegions, Searcher, SearchMode, open_searcher
from x2localizer.similarity import Query, similarities
from x2localizer.types import Candidate, Codes, Fix, Frame, Image, Position, Region, View

SEARCHED_PER_CANDIDATE = 6
"""Regions of a gallery overlap: more are searched than are kept, so that the kept ones are different places."""
NEAR_BORDER = 3
"""Half tiles from the border of its region at which a path gets the next one."""
MAX_OVERLAP = 0.4
"""A region of which a better one covers more is not a candidate of its own."""


def distinct(regions: list[Region], most: int) -> list[int]:
    """Which of some regions, best first, to keep: none overlaps a better one by much."""
    kept: list[int] = []
    for i, region in enumerate(regions):
        if all(geo.region_overlap(region, regions[k]) <= MAX_OVERLAP for k in kept):
            kept.append(i)
            if len(kept) == most:
                break
    return kept


@dataclass
class _State:
    """What a localizer remembers since the start, or since the last interruption."""

    window: deque[tuple[Image, Codes]]
    keyframe_s: float | None = None
    searched_s: float | None = None
    searches: int = 0
    last_s: float | None = None
    belief: Belief | None = None
    ranked: RankedRegions | None = None
    guess: Position | None = None
    confidence: float = 0.0
    candidates: tuple[Candidate, ...] = field(default=())


class Localizer:
    """Follows one camera through one gallery.

    gallery, encoder: must belong together: the encoder made the gallery's codes.
    settings: see :class:`x2localizer.config.LocalizeSettings`.
    prior: what is known in advance of where the camera is.
    searcher: one that is shared by several localizers of the same gallery and settings.
    search: without a searcher: "exact", "approximate", or "auto": approximate where the gallery has an index.
    confidence: instead of the one that comes with the bundle.
    decoder: of the settings' matching "decoder"; by default the one in the bundle's folder.
    """

    def __init__(
        self,
        gallery: Gallery,
        encoder: Encoder,
        settings: LocalizeSettings | None = None,
        *,
        prior: Prior | None = None,
        searcher: Searcher | None = None,
        search: SearchMode = "auto",
        confidence: Confidence | None = None,
        decoder: TileDecoder | None = None,
    ) -> None:
        check_encoder(gallery, encoder)
        self.gallery, self.encoder = gallery, encoder
        self.settings = settings or LocalizeSettings()
        self._policy = policies.get(self.settings.policy)(self.settings)
        if not similarities.get(self.settings.similarity).suits(encoder.spec):
            raise ConfigError(
                f"This bundle cannot make what {self.settings.similarity} compares.",
                "Choose another similarity, such as s_path for image codes or s_g for set codes.",
            )
        self.searcher = searcher or open_searcher(
            gallery, self.settings.similarity, search, spacing_s=self.settings.keyframe_spacing_s,
            motion=self.settings.motion, threads=encoder.threads,
        )  # fmt: skip
        if self.searcher.similarity.name != self.settings.similarity:
            raise ConfigError(
                f"The searcher ranks by {self.searcher.similarity.name}, the settings say {self.settings.similarity}.",
                "Give both the same similarity.",
            )
        self._allowed = None if prior is None else prior.allowed(gallery.regions)
        self.confidence = confidence or self._own_confidence()
        self._decoder = self._checked(decoder) if self.settings.matching == "decoder" else None
        self._tiles = TileReader(gallery)
        self._gate = FrameGate(self.settings.gap_s)
        self._budget = min(self.settings.budget, encoder.spec.frames)
        self._state = self._fresh_state()

    def _own_confidence(self) -> Confidence:
        if not isinstance(self.encoder, Bundle):
            return NEVER_SURE
        manifest = self.gallery.manifest
        return Confidence.load(self.encoder.root, self.settings, (manifest.zoom, manifest.stride))

    def _checked(self, decoder: TileDecoder | None) -> TileDecoder:
        """The decoder, or the bundle's own; it must have been trained for the encoder."""
        if decoder is not None and decoder.encoder == self.encoder.fingerprint:
            return decoder
        if decoder is not None:
            raise ConfigError("The decoder was trained for another encoder.", "Train one for this: x2l train-decoder")
        if not isinstance(self.encoder, Bundle):
            raise ConfigError("Matching by a decoder needs one.", "Give the localizer a decoder, or a bundle with one.")
        return open_decoder(self.encoder.root, self.encoder.fingerprint, threads=self.encoder.threads)

    def _fresh_state(self) -> _State:
        return _State(deque(maxlen=self._budget))

    @property
    def frame_size(self) -> tuple[int, int]:
        """Height and width that frames are brought to; a video opened with this size saves that work."""
        return self.encoder.spec.frame_size

    def run(self, frames: Iterable[Frame]) -> Iterator[Fix]:
        """A fix for every frame of a source."""
        for frame in frames:
            yield self.update(frame)

    def update(self, frame: Frame) -> Fix:
        """Take in the next frame; its picture may have any size."""
        frame = self._resized(frame)
        if not self._gate.usable(frame):
            return Fix(frame.index, frame.time_s, "lost", candidates=self._state.candidates)
        if self._gate.interrupted(frame):
            self._state = self._fresh_state()
        state = self._state
        code = self.encoder.encode_frames(frame.image[None])[0]
        is_keyframe = (
            state.keyframe_s is None or frame.time_s - state.keyframe_s >= self.settings.keyframe_spacing_s - 1e-3
        )
        if is_keyframe:
            state.keyframe_s = frame.time_s
            state.window.append((frame.image, code))
        refreshed = is_keyframe and self._policy.is_due(self._moment(frame.time_s))
        if refreshed:
            self._search(frame.time_s)
        seconds = 0.0 if state.last_s is None else frame.time_s - state.last_s
        state.last_s = frame.time_s
        if state.belief is None:
            return Fix(frame.index, frame.time_s, "lost")
        match = state.belief.update(code, seconds)
        if self._policy.adds_regions and self._follow(state.belief, match):
            match = state.belief.best(code)
        return self._fix(frame, match, code, refreshed)

    def _resized(self, frame: Frame) -> Frame:
        """A frame at the size that the encoder takes."""
        image = frame.image
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
            raise ValueError(f"a frame is RGB bytes of shape (height, width, 3), not {image.dtype} {image.shape}")
        if image.shape[:2] == self.frame_size:
            return frame
        height, width = self.frame_size
        small = Pillow.fromarray(np.ascontiguousarray(image)).resize((width, height), Pillow.Resampling.BOX)
        return Frame(frame.index, frame.time_s, np.asarray(small))

    def _moment(self, time_s: float) -> SearchMoment:
        state = self._state
        since = None if state.searched_s is None else time_s - state.searched_s
        return SearchMoment(time_s, state.searches, since, len(state.window), self._budget, state.confidence)

    def _query(self) -> Query:
        images, codes = zip(*self._state.window, strict=True)
        return self.searcher.similarity.encode(self.encoder, images, codes)

    def _search(self, time_s: float) -> None:
        """Make the best regions for the window the candidates."""
        state, table = self._state, self.gallery.regions
        query = self._query()
        ranked = self.searcher.search(query, SEARCHED_PER_CANDIDATE * self.settings.candidates, self._allowed)
        state.searches += 1
        state.searched_s = time_s
        kept = distinct([table.region(int(row)) for row in ranked.rows], self.settings.candidates)
        if kept:
            self._adopt(self._with_own_region(query, ranked.take(kept)))

    def _adopt(self, ranked: RankedRegions, restart_share: float | None = None) -> None:
        """Make ranked regions the candidates, and carry the belief over to their tiles."""
        state = self._state
        regions = [self.gallery.regions.region(int(row)) for row in ranked.rows]
        grid, scores = self._tiles.grid(regions), ranked.scores.astype(np.float64)
        if not grid.valid.any():
            return
        if state.belief is None and self._decoder is not None:
            state.belief = DecodedBelief(grid, scores, self.settings, self._decoder)
        elif state.belief is None:
            state.belief = Belief(grid, scores, self.settings)
        else:
            state.belief = state.belief.carried_over(grid, scores, restart_share)
        state.ranked = ranked
        state.candidates = tuple(Candidate(r, float(s)) for r, s in zip(regions, ranked.scores, strict=True))

    def _with_own_region(self, query: Query, ranked: RankedRegions) -> RankedRegions:
        """The ranked regions and, along a path, the region around the last guess: a path continues where it was."""
        guess = self._state.guess
        if guess is None or self.settings.matching == "frame":
            return ranked
        row = self.gallery.regions.nearest(guess, self._allowed)
        if row is None or row in ranked.rows:
            return ranked
        return ranked.join(self.searcher.compare(query, np.array([row], np.int64)))

    def _follow(self, belief: Belief, match: Match) -> bool:
        """Where a path nears the border of its region, put the region around it among the candidates."""
        ranked = self._state.ranked
        assert ranked is not None
        m = belief.grid.valid.shape[1]
        inside = min(match.row, match.column, m - 1 - match.row, m - 1 - match.column)
        if self.settings.matching == "frame" or inside >= NEAR_BORDER:
            return False
        place = belief.grid.place(match.candidate, match.row, match.column)
        row = self.gallery.regions.nearest(place, self._allowed)
        if row is None or row in ranked.rows:
            return False
        kept = list(range(len(ranked.rows)))
        if len(kept) >= self.settings.candidates + 2:  # the one with the least belief makes room
            kept.remove(int(belief.mass.sum((0, 2, 3)).argmin()))
        here = self.searcher.compare(self._query(), np.array([row], np.int64))
        self._adopt(ranked.take(kept).join(here), restart_share=0.0)
        return True

    def _fix(self, frame: Frame, match: Match, code: Codes, refreshed: bool) -> Fix:
        state = self._state
        belief = state.belief
        assert belief is not None
        assert state.ranked is not None
        evidence = evidence_for(match, state.ranked, belief.frames)
        state.confidence = self.confidence.probability(evidence)
        state.guess = belief.grid.place(match.candidate, match.row, match.column)
        early = state.searches < self._budget or belief.frames < self.confidence.least_frames
        sure = state.confidence >= self.confidence.threshold
        grid, c = belief.grid, match.candidate
        view = View(frame, grid.regions[c], (grid.codes[c] @ code).max(-1), grid.valid[c])
        return Fix(
            frame.index, frame.time_s, "tracking" if sure else "locating" if early else "lost", state.guess,
            state.confidence, match.similarity, grid.regions[c], state.candidates, refreshed, evidence, view,
        )  # fmt: skip
