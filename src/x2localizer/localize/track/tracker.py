"""The tracker: odometry and frames in, fixes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image as Pillow

from x2localizer import geo
from x2localizer.config import TrackSettings
from x2localizer.encoders import Bundle, Encoder
from x2localizer.errors import GalleryError
from x2localizer.gallery.store import check_encoder
from x2localizer.localize.frames import FrameGate
from x2localizer.localize.track.belief import PoseBelief, PoseEstimate
from x2localizer.localize.track.confidence import UNFITTED, TrackConfidence, track_confidence
from x2localizer.localize.track.ellipse import ellipse_of, stretched
from x2localizer.localize.track.fault_watch import FitWatch, SpeedWatch, TurnWatch
from x2localizer.localize.track.movements import onward
from x2localizer.localize.track.reckoning import Reckoning
from x2localizer.localize.track.starts import Starts
from x2localizer.localize.track.terms import RoadTerm, Term, TileOdds, TileTerm
from x2localizer.localize.track.track_map import TrackMap
from x2localizer.localize.track.view_watch import ViewWatch
from x2localizer.types import Codes, Fix, Frame, Movement, TrackEvidence, View

FIRST_SEARCH_M = 300.0
"""Distance that a belief is given before it can be in doubt."""
JUMP_M = 40.0
"""Distance between the guess and where odometry puts the last one, from which it has jumped."""
LOCATING_S = 60.0
"""Seconds after a start in which a guess that is not sure is locating, not lost."""


@dataclass
class _State:
    """What a tracker remembers since the start, or since the last restart."""

    reckoning: Reckoning
    start_s: float | None = None
    last_s: float | None = None
    driven_m: float = 0.0
    turned_deg: float = 0.0
    held_s: float = 0.0
    held_m: float = 0.0
    held_deg: float = 0.0
    searched_s: float | None = None
    guess: PoseEstimate | None = None


@dataclass
class _Search:
    """A second belief that started later, about the whole map.

    rival_evidence: what the belief has gained since, to compare with.
    """

    belief: PoseBelief
    reckoning: Reckoning
    start_s: float
    rival_evidence: float = 0.0
    driven_m: float = 0.0
    turned_deg: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What a tracker took in at one time: kept for a second pass."""

    index: int
    time_s: float
    movements: tuple[Movement, ...]
    code: Codes | None


class Tracker:
    """Follows one camera over one map.

    track_map: see :meth:`TrackMap.of`.
    encoder: that made the gallery's tiles; not needed for roads alone.
    scale_sd, bias_sd_deg_s: errors that all of the odometry shares; see :class:`MotionRecord`.
    confidence: instead of the one that comes with the bundle.
    keeps_steps: keep what was taken in, for a :func:`second_pass`; a tracker that runs for days must not.
    """

    def __init__(
        self, track_map: TrackMap, encoder: Encoder | None = None, settings: TrackSettings | None = None, *,
        scale_sd: float = 0.1, bias_sd_deg_s: float = 0.1, confidence: TrackConfidence | None = None,
        keeps_steps: bool = False,
    ) -> None:  # fmt: skip
        self.map, self.encoder, self.settings = track_map, encoder, settings or TrackSettings()
        s = self.settings
        self._odds: TileOdds | None = None
        if s.use_tiles and track_map.tiles is not None and encoder is not None:
            check_encoder(track_map.gallery, encoder)
            self._odds = TileOdds(track_map.tiles, s)
        self._roads = track_map.roads if s.use_roads else None
        if self._odds is None and self._roads is None:
            raise GalleryError(
                f"The gallery {track_map.gallery.address} has nothing that these settings use.",
                "Use its tiles with the bundle that made them, or add roads: x2l index --roads FILE --out GALLERY",
            )
        self._starts = Starts.on(track_map.patches, self._roads, track_map.tiles, track_map.prior)
        self._scale_sd, self._bias_sd_deg_s = scale_sd, bias_sd_deg_s
        self.searches = 0
        self.belief = self._new_belief()
        self._search: _Search | None = None
        self._searched = True
        self.confidence = (confidence or self._own_confidence()).for_map(track_map.km2)
        self._gate = FrameGate(math.inf)
        self._watch_anew()
        self._state = self._new_state()
        self.keeps_steps = keeps_steps
        self.steps: list[Step] = []

    def _new_belief(self) -> PoseBelief:
        """A belief that knows nothing yet: a search of the whole map."""
        s = self.settings
        terms: list[Term] = []
        if self._roads is not None:
            terms.append(RoadTerm(self._roads, s))
        if self._odds is not None:
            terms.append(TileTerm(self._odds, s))
        seeded = s.model_copy(update={"seed": s.seed + self.searches})
        self.searches += 1
        return PoseBelief(
            self.map.patches, self._roads, self._starts, terms, seeded, scale_sd=self._scale_sd,
            bias_sd_deg_s=self._bias_sd_deg_s,
        )  # fmt: skip

    def _new_state(self) -> _State:
        return _State(self.new_reckoning())

    def new_reckoning(self) -> Reckoning:
        """What is known of the place along the road at the start: nothing."""
        return Reckoning(self._scale_sd)

    def turn_back(self) -> None:
        """Go back the way it came: what is believed stays, what was noted on the way is noted anew."""
        self._state, self._search = _State(self._state.reckoning), None
        self._watch_anew()

    def _watch_anew(self) -> None:
        self._watch, self._fit = ViewWatch(), FitWatch()
        self._speeds, self._turns = SpeedWatch(), TurnWatch()

    def _own_confidence(self) -> TrackConfidence:
        if self._odds is None:
            return track_confidence(None, self.settings)
        return track_confidence(self.encoder.root, self.settings) if isinstance(self.encoder, Bundle) else UNFITTED

    @property
    def frame_size(self) -> tuple[int, int] | None:
        """Height and width that frames are brought to; None if no frame is looked at."""
        return None if self._odds is None or self.encoder is None else self.encoder.spec.frame_size

    def update(self, frame: Frame, movements: Sequence[Movement] = ()) -> Fix:
        """Take in a frame of any size, and how the camera has moved since the one before."""
        code = self._encode(frame)
        fix = self.advance(frame.index, frame.time_s, movements, code)
        return fix if code is None else self.with_view(fix, frame)

    def with_view(self, fix: Fix, frame: Frame) -> Fix:
        """The last fix with the region around it and how similar its tiles are to the frame, for drawing."""
        return fix if self._odds is None or fix.guess is None else _with_view(fix, frame, self.map, self._odds)

    def _encode(self, frame: Frame) -> Codes | None:
        size = self.frame_size
        if size is None or self.encoder is None or not self._gate.usable(frame):
            return None
        image = frame.image
        if image.shape[:2] != size:
            small = Pillow.fromarray(np.ascontiguousarray(image)).resize(size[::-1], Pillow.Resampling.BOX)
            image = np.asarray(small)
        code: Codes = self.encoder.encode_frames(image[None])[0]
        return code

    def advance(self, index: int, time_s: float, movements: Sequence[Movement] = (), code: Codes | None = None) -> Fix:
        """Take in how the camera has moved until a time, and the code of the frame taken then, if there is one."""
        state = self._state
        if self.keeps_steps:
            self.steps.append(Step(index, time_s, tuple(movements), code))
        known_s = sum(abs(m.end_s - m.start_s) for m in movements)
        gap_s = 0.0 if state.last_s is None else abs(time_s - state.last_s) - known_s
        unseen_s = self._watch.see(time_s, movements, code)
        code = None if self._watch.frozen else code
        if gap_s >= self.settings.gap_s or unseen_s:
            self.belief.bridge(max(gap_s, 0.0) + unseen_s)
            self._search = None
            self._state = state = self._new_state()
            self._speeds, self._fit = SpeedWatch(), FitWatch()
        elif gap_s > 0.25 and movements:
            movements = [*movements, onward(movements[-1], gap_s)]
        self._speeds.see(time_s, movements)
        self._turns.see(time_s, movements)
        state.start_s = time_s if state.start_s is None else state.start_s
        state.last_s = time_s
        state.driven_m += sum(abs(m.distance_m) for m in movements)
        state.turned_deg += sum(abs(m.turn_deg) for m in movements)
        before = self.belief.log_evidence
        self.belief.update(movements, code)
        self._reckon(state.reckoning, self.belief, movements, code)
        found = self._searched_too(self.belief.estimate(), self.belief.log_evidence - before, movements, code)
        self._note_jump(found, movements)
        self._fit.see(time_s, self.belief.margins)
        evidence = self._evidence(found, time_s)
        fix = self._fix(index, time_s, found, evidence, movements)
        self._fit.was_sure = self._fit.was_sure or fix.status == "tracking"
        self._search_if_in_doubt(found.share, time_s)
        return fix

    def _reckon(
        self, reckoning: Reckoning, belief: PoseBelief, movements: Sequence[Movement], code: Codes | None
    ) -> None:
        """Note what the last movements and the last frame tell about the place along the road."""
        for movement in movements:
            reckoning.move(movement, belief.fit)
        if self._odds is not None and code is not None and movements:
            s = self.settings
            reckoning.see(s.tile_weight * s.temperature / self._odds.temperature * belief.trusts_tiles)

    def _searched_too(
        self, found: PoseEstimate, gain: float, movements: Sequence[Movement], code: Codes | None
    ) -> PoseEstimate:
        """The estimate of the belief or, once a search explains the drive better, that of the search."""
        search = self._search
        if search is None:
            return found
        search.rival_evidence += gain
        search.belief.update(movements, code)
        other = search.belief.estimate()
        self._reckon(search.reckoning, search.belief, movements, code)
        search.driven_m += sum(abs(m.distance_m) for m in movements)
        search.turned_deg += sum(abs(m.turn_deg) for m in movements)
        better = search.belief.log_evidence > search.rival_evidence + self.settings.search_gain
        if not better or other.share < 0.5:
            return found
        self.belief, self._search = search.belief, None
        state = self._state
        state.driven_m, state.turned_deg, state.guess = search.driven_m, search.turned_deg, None
        state.reckoning = search.reckoning
        state.searched_s = state.last_s
        return other

    def _search_if_in_doubt(self, share: float, time_s: float) -> None:
        """Start a search while the belief is in doubt, and give it up when it has taken too long."""
        s, state = self.settings, self._state
        self._searched = False
        if self._search is not None:
            lasted = abs(time_s - self._search.start_s)
            if lasted >= (3 * s.search_s if self._search.belief.on_map > 0.5 else s.search_s):
                self._search = None
                state.searched_s = time_s
            return
        since = state.searched_s if state.searched_s is not None else state.start_s
        if (
            share >= s.search_below
            or since is None
            or abs(time_s - since) < s.search_pause_s
            or state.driven_m < FIRST_SEARCH_M
        ):
            return
        self._search = _Search(self._new_belief(), self.new_reckoning(), time_s)
        self._searched = True

    def _note_jump(self, found: PoseEstimate, movements: Sequence[Movement]) -> None:
        """Count how long the guess has moved as the odometry says."""
        state, last = self._state, self._state.guess
        state.guess = found
        seconds = sum(abs(m.end_s - m.start_s) for m in movements)
        if last is None:
            state.held_s = state.held_m = state.held_deg = 0.0
            return
        x, y, heading = last.x, last.y, last.heading_rad
        tile_m = float(self.map.patches.tile_m(np.array([y]))[0])
        for m in movements:
            middle = heading + 0.5 * math.radians(m.turn_deg)
            x += m.distance_m * last.scale * math.sin(middle) / tile_m
            y -= m.distance_m * last.scale * math.cos(middle) / tile_m
            heading += math.radians(m.turn_deg)
        world = self.map.patches.world
        east = (found.x - x + world / 2) % world - world / 2
        if math.hypot(east, found.y - y) * tile_m > JUMP_M:
            state.held_s = state.held_m = state.held_deg = 0.0
            return
        state.held_s += seconds
        state.held_m += sum(abs(m.distance_m) for m in movements)
        state.held_deg += sum(abs(m.turn_deg) for m in movements)

    def _evidence(self, found: PoseEstimate, time_s: float) -> TrackEvidence:
        margins, state = self.belief.margins, self._state
        doubts = (watch.doubts(time_s) for watch in (self._speeds, self._turns, self._fit))
        doubtful = self._watch.doubtful or any(doubts)
        a, _, b = found.covariance_m2
        return TrackEvidence(
            found.share, found.rival, found.on_map, math.sqrt(max(a + b, 0.0)), state.reckoning.sd_m, state.held_s,
            state.held_m, state.held_deg, state.driven_m, state.turned_deg, margins.get("tiles", 0.0),
            margins.get("roads", 0.0), "tiles" in margins, "roads" in margins, doubtful,
        )  # fmt: skip

    def _fix(
        self, index: int, time_s: float, found: PoseEstimate, evidence: TrackEvidence, movements: Sequence[Movement]
    ) -> Fix:
        confidence = self.confidence.probability(evidence)
        sure = self.confidence.is_sure(evidence, confidence)
        early = self._state.start_s is not None and abs(time_s - self._state.start_s) < LOCATING_S
        seconds = sum(abs(m.end_s - m.start_s) for m in movements)
        speed = found.scale * sum(abs(m.distance_m) for m in movements) / seconds if seconds > 0 else None
        return Fix(
            index, time_s, "tracking" if sure else "locating" if early else "lost",
            self.map.patches.position(found.x, found.y), confidence,
            0.0 if self._odds is None else self._odds.best, refreshed=self._searched, evidence=evidence,
            heading_deg=math.degrees(found.heading_rad) % 360.0, speed_m_s=speed,
            ellipse=ellipse_of(stretched(found, evidence.along_m)), on_map=self.confidence.on_map(evidence, confidence),
        )  # fmt: skip


def _with_view(fix: Fix, frame: Frame, track_map: TrackMap, tiles: TileOdds) -> Fix:
    """A fix with the region around it and how similar its tiles are to the frame, for drawing."""
    assert fix.guess is not None
    manifest = track_map.gallery.manifest
    region = geo.region_around(fix.guess, manifest.zoom, manifest.region_tiles)
    similarities, valid = tiles.around(region)
    return replace(fix, region=region, view=View(frame, region, similarities, valid))
