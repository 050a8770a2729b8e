"""Long drives that leave their first region: the first window decides (once) against windows that slide (SWRL).

Two galleries. Of a deployment: the imagery of all areas of the split, indexed as a user would; the localizer does not
know in which area a drive is. Of the dataset (:mod:`x2localizer.evaluate.linked_clips`): its own regions and tiles, as
in the paper, for datasets that have no imagery. Every arm gets the same frames and the same gallery.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from x2localizer import geo
from x2localizer.config import LocalizeSettings
from x2localizer.datasets.dataset import Dataset
from x2localizer.datasets.rides import linked
from x2localizer.datasets.tables import VideoRow
from x2localizer.encoders import Bundle, Encoder
from x2localizer.encoders.tile_decoder import TileDecoder
from x2localizer.errors import DatasetError
from x2localizer.evaluate.tables import markdown
from x2localizer.gallery import Gallery, index
from x2localizer.localize.confidence import Confidence, reliability
from x2localizer.localize.localizer import Localizer
from x2localizer.localize.summary import error_m
from x2localizer.metrics import bootstrap_interval, paired_difference
from x2localizer.search import Searcher
from x2localizer.similarity import CodeKind
from x2localizer.types import Bools, Codes, Floats, Frame, Images, Position, Progress, Region

Curve = list[tuple[float, float, int]]
"""Steps of time: the middle of each, percent of frames within 80 m, and how many frames there are."""
BIN_S = 10.0
"""Width of a step of the curves."""
AS_IN = ", as in the paper"
PAPER = {"matching": "frame", "similarity": "s_mix"}
"""Each frame by itself, regions by the paper's similarity."""
GARET = {"matching": "frame", "similarity": "s_g"}
"""Each frame by itself, regions by their set codes as wholes, as GAReT ranks them."""
OURS, RIVAL = "X²Localizer", "GAReT's objective"
WINDOWS = {"1 frame": 1, "5 s": 2, "20 s": 4}
"""Windows of SWRL that the paper compares, in keyframes; ours is 8, 40 s."""


@dataclass(frozen=True, slots=True, eq=False)
class Ride:
    """A long drive on one clock.

    videos: its parts, perhaps with gaps between them.
    times_s, truth: of every frame: seconds from the first one, and where the camera was.
    """

    ride_id: str
    first_region: Region
    videos: tuple[VideoRow, ...]
    times_s: Floats
    truth: tuple[Position, ...]
    has_gap: bool

    @property
    def left(self) -> Bools:
        """At which frames the first region has been left for the first time, (f,)."""
        lats, lons = (np.array([getattr(place, name) for place in self.truth]) for name in ("lat_deg", "lon_deg"))
        return np.asarray(np.maximum.accumulate(~geo.region_contains(self.first_region, lats, lons)), np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """One arm on one ride, by frame, (f,) each.

    errors_m: of the guess, in metres; NaN without one.
    confidence: of the fix.
    sure: whether a position was stated.
    """

    errors_m: Floats
    confidence: Floats
    sure: Bools

    @property
    def right(self) -> Bools:
        """Whether the guess is within 80 m."""
        return np.asarray(np.nan_to_num(self.errors_m, nan=np.inf) <= geo.RIGHT_WITHIN_M, np.bool_)


@dataclass(frozen=True, slots=True)
class ArmRow:
    """One arm over all rides.

    within, before, after: percent of frames within 80 m, in all, before and after the first region is left; low and
        high are 95% intervals over rides.
    median_m: median error in metres.
    sure, sure_within: percent of frames with a position, and of these the percent within 80 m.
    first_right_s, first_sure_s: median seconds to the first guess within 80 m, and to the first position within 80 m;
        None if most rides have none.
    """

    arm: str
    rides: int
    frames: int
    within: float
    within_low: float
    within_high: float
    before: float
    after: float
    after_low: float
    after_high: float
    median_m: float
    sure: float
    sure_within: float | None
    first_right_s: float | None = None
    first_sure_s: float | None = None


def long_rides(data: Dataset, split: str) -> list[Ride]:
    """The long drives of a split, and clips of one ride that follow each other within two minutes."""
    regions = {row.region_id: row.region for row in data.regions(split)}
    by_ride: dict[str, list[VideoRow]] = {}
    for video in data.videos(split, role="long"):
        by_ride.setdefault(video.ride_id, []).append(video)
    chains = [tuple(sorted(found, key=lambda row: row.start_time)) for found in by_ride.values()]
    rides = [_ride(data, videos, regions) for videos in chains + linked(data.videos(split))]
    if not rides:
        raise DatasetError(
            f"The dataset has no long drives in its {split} split.", "Make one with the standard preset."
        )
    return rides


def _ride(data: Dataset, videos: tuple[VideoRow, ...], regions: dict[str, Region]) -> Ride:
    times, places = [], []
    for video in videos:
        late = (video.start_time - videos[0].start_time).total_seconds()
        for row in data.frames(video.video_id):
            times.append(late + row.time_s)
            places.append(row.position)
    name, first = videos[0].ride_id, regions[videos[0].region_id]
    return Ride(name, first, videos, np.array(times), tuple(places), len(videos) > 1)


def imagery_of(data: Dataset, split: str) -> list[Path]:
    """The imagery of a split's areas; empty for datasets that have none, such as GAMa."""
    return sorted((data.root / "imagery" / split).glob("*.tif"))


def split_gallery(
    data: Dataset, split: str, bundle: Bundle, work: Path, report: Progress,
    codes: Sequence[CodeKind] = ("tiles", "regions"),
) -> Gallery:  # fmt: skip
    """One gallery of the imagery of all areas of a split, made once for each bundle."""
    files = imagery_of(data, split)
    if not files:
        raise DatasetError(
            f"The dataset has no imagery of its {split} split.",
            f"Use its own regions with --gallery dataset, or put GeoTIFFs into {data.root / 'imagery' / split}.",
        )
    address = work / f"{split}-{data.contents[:8]}-{bundle.fingerprint[:8]}"
    for number, file in enumerate(files):
        report(f"indexing {file.name}", number + 1, len(files))
        gallery = index(file, bundle, address, codes=codes)
    return gallery


def ride_frames(data: Dataset, ride: Ride, size: tuple[int, int] | None = None) -> Iterator[Frame]:
    """The frames of a ride on its own clock, at a size (height, width)."""
    at = 0
    for video in ride.videos:
        for row in data.frames(video.video_id):
            yield Frame(at, float(ride.times_s[at]), data.picture(row.image, size))
            at += 1


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


def arm_row(arm: str, rides: list[Ride], followed: list[Followed]) -> ArmRow:
    """The figures of an arm; intervals are over rides, which count alike."""
    right = [found.right for found in followed]
    shares = np.array([100.0 * found.mean() for found in right])
    after = after_shares(rides, followed)
    errors = np.concatenate([found.errors_m for found in followed])
    sure, every = np.concatenate([found.sure for found in followed]), np.concatenate(right)
    left = np.concatenate([ride.left for ride in rides])
    return ArmRow(
        arm, len(rides), len(every), float(shares.mean()), *bootstrap_interval(shares),
        100.0 * float(every[~left].mean()), float(after.mean()), *bootstrap_interval(after),
        float(np.nanmedian(errors)), 100.0 * float(sure.mean()),
        100.0 * float(every[sure].mean()) if sure.any() else None,
        median_first_s(rides, right), median_first_s(rides, [found.right & found.sure for found in followed]),
    )  # fmt: skip


def median_first_s(rides: list[Ride], right: list[Bools]) -> float | None:
    """Seconds to the first right frame, the median over rides; one that has none takes longer than any that has."""
    firsts = [
        float(ride.times_s[good][0] - ride.times_s[0]) if good.any() else np.inf
        for ride, good in zip(rides, right, strict=True)
    ]
    middle = float(np.percentile(firsts, 50, method="higher"))
    return middle if np.isfinite(middle) else None


def after_shares(rides: list[Ride], followed: list[Followed]) -> Floats:
    """Percent of frames within 80 m after the first region was left, for each ride that leaves it."""
    return np.array([
        100.0 * found.right[ride.left].mean() for ride, found in zip(rides, followed, strict=True) if ride.left.any()
    ])  # fmt: skip


def swrl_gain(rides: list[Ride], better: list[Followed], other: list[Followed]) -> tuple[float, float, float]:
    """One arm over another after the first region is left, in points: the mean over rides and its paired interval."""
    return paired_difference(after_shares(rides, better), after_shares(rides, other))


def curve(rides: list[Ride], followed: list[Followed]) -> Curve:
    """Over time in steps of 10 s: the step's middle, percent of frames within 80 m, and how many frames there are."""
    times = np.concatenate([ride.times_s for ride in rides])
    right = np.concatenate([found.right for found in followed])
    steps = (times / BIN_S).astype(int)
    return [
        (BIN_S * (step + 0.5), 100.0 * float(right[steps == step].mean()), int((steps == step).sum()))
        for step in range(int(steps.max()) + 1)
        if (steps == step).any()
    ]


@dataclass(frozen=True, slots=True)
class LongRange:
    """All results of a run.

    gains: after the first region is left, with their intervals, by pair of arms: SWRL over once, and ours over GAReT's
        objective with the same refresh and matching.
    curves: share of frames within 80 m over time, by arm.
    reliability: of the first arm: mean confidence, share within 80 m, frames.
    """

    rows: tuple[ArmRow, ...]
    gains: dict[str, tuple[float, float, float]]
    curves: dict[str, list[tuple[float, float, int]]]
    reliability: list[tuple[float, float, int]]


def summarize(rides: list[Ride], found: dict[str, list[Followed]]) -> LongRange:
    """Figures, gains and curves of all arms."""
    rows = tuple(arm_row(arm, rides, followed) for arm, followed in found.items())
    pairs = [(arm, once_of(arm)) for arm in found] + [(ours_of(arm, found), arm) for arm in found]
    gains = {
        f"{better} over {other}": swrl_gain(rides, found[better], found[other])
        for better, other in pairs
        if better != other and better in found and other in found
    }
    curves = {arm: curve(rides, followed) for arm, followed in found.items()}
    first = next(iter(found.values()))
    sure_of = reliability(
        np.concatenate([one.confidence for one in first]), np.concatenate([one.right for one in first])
    )
    return LongRange(rows, gains, curves, sure_of)


def ours_of(arm: str, arms: Iterable[str]) -> str:
    """The arm of our objective that one of GAReT's is compared with; any other arm itself."""
    options = (arm.replace(f", {RIVAL}", ""), arm.replace(RIVAL, OURS))
    return next((name for name in options if RIVAL in arm and name in arms), arm)


def once_of(arm: str) -> str:
    """The arm that searches once with the same model and matching."""
    model = next((part for part in arm.removesuffix(AS_IN).split(", ")[1:] if part not in WINDOWS), None)
    return "once" + (f", {model}" if model else "") + (AS_IN if AS_IN in arm else "")


def panels(result: LongRange) -> dict[str, dict[str, list[tuple[float, float, int]]]]:
    """The curves for a plot: our matching beside the paper's."""
    ours = {arm: points for arm, points in result.curves.items() if AS_IN not in arm}
    paper = {arm.replace(AS_IN, ""): points for arm, points in result.curves.items() if AS_IN in arm}
    both = {"regions by s_path, frames along the path": ours, "regions by s_mix, each frame by itself": paper}
    return {title: curves for title, curves in both.items() if curves}


def table_text(result: LongRange) -> str:
    """As Markdown tables."""
    rows = (
        (row.arm, _percent(row.within, row.within_low, row.within_high), f"{row.before:.1f}%",
         _percent(row.after, row.after_low, row.after_high), f"{row.median_m:.0f} m", _seconds(row.first_right_s),
         f"{row.sure:.1f}%", "-" if row.sure_within is None else f"{row.sure_within:.1f}%", _seconds(row.first_sure_s))
        for row in result.rows
    )  # fmt: skip
    arms = markdown(
        ["arm", "within 80 m (95%)", "before leaving", "after leaving (95%)", "median error", "first right", "sure",
         "of these right", "first sure and right"],
        rows,
    )  # fmt: skip
    gains = markdown(
        ["after the first region is left", "gain in points (95%)"],
        ((what, f"{mean:+.1f} ({low:+.1f} to {high:+.1f})") for what, (mean, low, high) in result.gains.items()),
    )
    sure = markdown(
        ["confidence", "within 80 m", "frames"],
        ((f"{p:.2f}", f"{share:.2f}", f"{count:,}") for p, share, count in result.reliability),
    )
    return "\n\n".join([arms, gains, sure])


def _percent(mean: float, low: float, high: float) -> str:
    return f"{mean:.1f}% ({low:.1f} to {high:.1f})"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} s"
