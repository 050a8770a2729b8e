"""Long range on a dataset's own regions and tiles: the paper's setting, which needs no imagery.

Sequences are clips of one ride that follow each other within two minutes (and long drives, where a dataset has them).
At each search the window's prefix ranks all regions of the split; until the next search every frame is matched with the
tiles of the 10 best. Only the past counts: the first window is searched at every keyframe until it is full. After a
gap SWRL starts a new window; ``once`` never searches again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from x2localizer.config import LocalizeSettings
from x2localizer.evaluate.coarse import KEPT, RegionScorer, best_rows
from x2localizer.evaluate.embed import Embeddings
from x2localizer.evaluate.entrants import Entrant
from x2localizer.evaluate.fine import GalleryKind, fine, tile_gallery
from x2localizer.evaluate.long_range import WINDOWS
from x2localizer.evaluate.rides import Followed, Ride
from x2localizer.localize.refresh import RefreshPolicy, SearchMoment, policies
from x2localizer.similarity import CodeKind, Query
from x2localizer.types import Floats, Ints


def clip_arms() -> dict[str, LocalizeSettings]:
    """Once with a full first window, and SWRL with windows of the lengths that the paper compares."""
    arms = {"once": LocalizeSettings(policy="once"), "SWRL": LocalizeSettings()}
    return arms | {f"SWRL, {name}": LocalizeSettings(budget=budget) for name, budget in WINDOWS.items()}


def run_clip_arms(
    entrant: Entrant, clips: Embeddings, drives: Embeddings, rides: Sequence[Ride], gallery: GalleryKind
) -> dict[str, list[Followed]]:
    """Every arm on every ride, for one model.

    clips: all clips of the split: their regions and tiles are the gallery.
    drives: the videos of the rides, in their order.
    gallery: tiles centred on the places where cameras were (gps), as in the paper, or of the map's grid (grid).
    """
    name = entrant.similarities[-1]
    scorer = RegionScorer(clips, [name], entrant.tau_f)
    tiles = tile_gallery(clips, gallery)
    rows = {video.video_id: v for v, video in enumerate(drives.videos)}
    out: dict[str, list[Followed]] = {}
    for arm, settings in clip_arms().items():
        frames, candidates = [], []
        for ride in rides:
            sequence = _Sequence(drives, ride, [rows[video.video_id] for video in ride.videos])
            frames.append(sequence.frames)
            candidates.append(_candidates(sequence, scorer, name, settings))
        found = fine(drives, tiles, frames, candidates)
        out[arm] = [_followed(found.errors_m[found.video == number]) for number in range(len(rides))]
    return out


def _followed(errors_m: Floats) -> Followed:
    """Errors as an arm that states no confidence; a frame without any tile has no guess."""
    errors = np.where(np.isfinite(errors_m), errors_m, np.nan)
    return Followed(errors, np.zeros(len(errors)), np.zeros(len(errors), np.bool_))


class _Sequence:
    """The frames of a ride on one clock, and which of them are keyframes."""

    def __init__(self, drives: Embeddings, ride: Ride, videos: Sequence[int]) -> None:
        first = drives.first_frame
        self.drives, self.times_s = drives, ride.times_s
        self.frames: Ints = np.concatenate([np.arange(first[v], first[v + 1]) for v in videos])
        keys = [np.array(drives.keyframes[v], np.int64) + first[v] for v in videos]
        place = {int(row): i for i, row in enumerate(self.frames)}
        self.keyframes: Ints = np.array([place[int(row)] for part in keys for row in part], np.int64)

    def query(self, keyframes: Sequence[int], kinds: Sequence[CodeKind]) -> dict[CodeKind, Query]:
        """Some keyframes as a query for each kind of codes."""
        rows = self.frames[list(keyframes)]
        out: dict[CodeKind, Query] = {}
        if "tiles" in kinds:
            out["tiles"] = Query(np.asarray(self.drives.frame_codes[rows]))
        if "regions" in kinds:
            codes = self.drives.encoder.encode_prefixes(
                np.stack([self.drives.frame_image(int(row)) for row in rows])[None]
            )
            out["regions"] = Query(codes.tokens[0], codes.whole[0])
        return out


def _candidates(sequence: _Sequence, scorer: RegionScorer, name: str, settings: LocalizeSettings) -> list[Ints]:
    """The best regions for every frame of a sequence."""
    spec = sequence.drives.encoder.spec
    budget = min(settings.budget, spec.frames)
    policy: RefreshPolicy = policies.get(settings.policy)(settings)
    window: list[int] = []
    best, searches, searched_s = np.zeros(0, np.int64), 0, None
    keyframes = set(sequence.keyframes.tolist())
    out: list[Ints] = []
    for frame, time_s in enumerate(sequence.times_s.tolist()):
        gap = frame > 0 and time_s - sequence.times_s[frame - 1] > settings.gap_s
        if gap and policy.adds_regions:
            window, searches, searched_s = [], 0, None
        if frame in keyframes:
            window = [*window, frame][-budget:]
            since = None if searched_s is None else time_s - searched_s
            moment = SearchMoment(time_s, searches, since, len(window), budget)
            if spec.accepts_prefix(len(window)) and policy.is_due(moment):
                scores = scorer.scores(sequence.query(window, scorer.kinds))[name]
                best, searches, searched_s = best_rows(scores, KEPT), searches + 1, time_s
        out.append(best)
    return out
