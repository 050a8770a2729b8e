"""Long drives that leave their first region: the first window decides (once) against windows that slide (SWRL).

Two galleries. Of a deployment: the imagery of all areas of the split, indexed as a user would; the localizer does not
know in which area a drive is. Of the dataset (:mod:`x2localizer.evaluate.linked_clips`): its own regions and tiles, as
in the paper, for datasets that have no imagery. Every arm gets the same frames and the same gallery.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from x2localizer.config import LocalizeSettings
from x2localizer.datasets.dataset import Dataset
from x2localizer.encoders import Bundle, Encoder
from x2localizer.encoders.tile_decoder import TileDecoder
from x2localizer.evaluate.rides import Followed, Ride, ride_frames
from x2localizer.gallery import Gallery
from x2localizer.localize.confidence import Confidence
from x2localizer.localize.localizer import Localizer
from x2localizer.localize.summary import error_m
from x2localizer.search import Searcher
from x2localizer.types import Codes, Frame, Images, Position

AS_IN = ", as in the paper"
PAPER = {"matching": "frame", "similarity": "s_mix"}
"""Each frame by itself, regions by the paper's similarity."""
GARET = {"matching": "frame", "similarity": "s_g"}
"""Each frame by itself, regions by their set codes as wholes, as GAReT ranks them."""
OURS, RIVAL = "X²Localizer", "GAReT's objective"
WINDOWS = {"1 frame": 1, "5 s": 2, "20 s": 4}
"""Windows of SWRL that the paper compares, in keyframes; ours is 8, 40 s."""


def follow(localizer: Localizer, frames: Iterator[Frame], truth: tuple[Position, ...]) -> Followed:
    """Localize frames and compare each guess with the truth."""
    errors, confidence, sure = np.full(len(truth), np.nan), np.zeros(len(truth)), np.zeros(len(truth), np.bool_)
    for i, (frame, place) in enumerate(zip(frames, truth, strict=True)):
        fix = localizer.update(frame)
        errors[i], confidence[i], sure[i] = error_m(fix, place), fix.confidence, fix.position is not None
    return Followed(errors, confidence, sure)


class _Remembering:
    """An encoder that keeps the image codes of a ride's frames: every arm needs the same."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._codes: dict[bytes, Codes] = {}
        self.spec, self.fingerprint, self.threads = encoder.spec, encoder.fingerprint, encoder.threads
        self.weights_of = encoder.weights_of
        self.encode_tiles, self.encode_area = encoder.encode_tiles, encoder.encode_area
        self.encode_prefixes, self.encode_regions = encoder.encode_prefixes, encoder.encode_regions

    def encode_frames(self, images: Images) -> Codes:
        """Image codes of street frames."""
        key = hashlib.sha256(images.tobytes()).digest()
        if key not in self._codes:
            self._codes[key] = self._encoder.encode_frames(images)
        return self._codes[key]

    def forget(self) -> None:
        """Start with the next ride."""
        self._codes.clear()


def all_arms() -> dict[str, LocalizeSettings]:
    """SWRL with windows of four lengths and once, with our matching and with the paper's."""
    arms = {}
    for suffix, changes in (("", {}), (AS_IN, PAPER)):
        arms[f"SWRL{suffix}"] = LocalizeSettings.model_validate(changes)
        arms[f"once{suffix}"] = LocalizeSettings.model_validate({"policy": "once", **changes})
        for name, budget in WINDOWS.items():
            arms[f"SWRL, {name}{suffix}"] = LocalizeSettings.model_validate({"budget": budget, **changes})
    return arms


def decoder_arms() -> dict[str, LocalizeSettings]:
    """The temporal decoder with SWRL and without, and single frames on the same candidates.

    Beside our regions also the paper's, so that it is compared with matching as in the paper.
    """
    return {
        "SWRL, decoder": LocalizeSettings(matching="decoder"),
        "once, decoder": LocalizeSettings(matching="decoder", policy="once"),
        "SWRL, single frames": LocalizeSettings(matching="frame"),
        f"SWRL, decoder{AS_IN}": LocalizeSettings.model_validate({**PAPER, "matching": "decoder"}),
        f"once, decoder{AS_IN}": LocalizeSettings.model_validate({**PAPER, "matching": "decoder", "policy": "once"}),
    }


def window_arms(names: Sequence[str] = (), *, decoder: bool = False) -> dict[str, LocalizeSettings]:
    """The arms of some names; all of them if none of the names is one of theirs. Those of a decoder if there is one."""
    every = all_arms() | (decoder_arms() if decoder else {})
    return {name: settings for name, settings in every.items() if name in names} or every


def garet_arms() -> dict[str, LocalizeSettings]:
    """What the paper's figure compares with: GAReT's objective, ranked as GAReT does, once and with SWRL."""
    return {
        f"{policy}, {RIVAL}{AS_IN}": LocalizeSettings.model_validate({"policy": policy.lower(), **GARET})
        for policy in ("SWRL", "once")
    }


def run_arms(
    data: Dataset,
    rides: list[Ride],
    gallery: Gallery,
    bundle: Bundle,
    arms: dict[str, LocalizeSettings],
    progress: Callable[[int, int], None] = lambda done, total: None,
    decoder: TileDecoder | None = None,
) -> dict[str, list[Followed]]:
    """Every arm on every ride; ``decoder`` is that of the arms that need one."""
    searchers = {
        name: Searcher.over(gallery, name, threads=bundle.threads, temperature=bundle.tau_f)
        for name in sorted({settings.similarity for settings in arms.values()})
    }
    out: dict[str, list[Followed]] = {arm: [] for arm in arms}
    encoder = _Remembering(bundle)
    grid = (gallery.manifest.zoom, gallery.manifest.stride)
    for number, ride in enumerate(rides):
        encoder.forget()
        frames = list(ride_frames(data, ride, bundle.spec.frame_size))
        for arm, settings in arms.items():
            localizer = Localizer(
                gallery, encoder, settings, searcher=searchers[settings.similarity],
                confidence=Confidence.load(bundle.root, settings, grid), decoder=decoder,
            )  # fmt: skip
            out[arm].append(follow(localizer, iter(frames), ride.truth))
        progress(number + 1, len(rides))
    return out
