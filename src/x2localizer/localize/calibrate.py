"""Fit the confidence of a bundle on drives through towns that the model was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from x2localizer import geo
from x2localizer.config import LocalizeSettings, TownSettings
from x2localizer.encoders import Bundle, open_bundle
from x2localizer.errors import UserError
from x2localizer.gallery import Gallery, index
from x2localizer.localize.confidence import Confidence, choose_threshold, features_of, fit, reliability
from x2localizer.localize.localizer import Localizer
from x2localizer.localize.summary import error_m
from x2localizer.search import BoxPrior, Searcher
from x2localizer.similarity import CodeKind
from x2localizer.town.drive import draw_drive, open_film
from x2localizer.town.folder import save_town
from x2localizer.town.town import Town, build_town
from x2localizer.types import Bools, Evidence, Fix, Floats, Frame, Position

DRIVE_S = 150.0


def town_gallery(town: Town, bundle: Bundle, work: Path, codes: Sequence[CodeKind] = ("tiles",)) -> Gallery:
    """A gallery with a town in it, beside the towns that were put there before."""
    folder = work / f"town-{town.seed}"
    if not (folder / "town.json").is_file():
        save_town(town, folder)
    return index(folder / "aerial.tif", bundle, work / f"gallery-{bundle.fingerprint}", codes=codes)


def drive_frames(
    town: Town, number: int, bundle: Bundle, seconds: float = DRIVE_S, spacing_s: float = 1.0, *, night: bool = False
) -> tuple[Iterator[Frame], list[Position]] | None:
    """The frames of a drive through a town, and where the camera is at each; None if there is no road."""
    drive = draw_drive(town, number, seconds, night=night)
    if drive is None:
        return None
    times = np.arange(0.0, seconds, spacing_s)
    film = open_film(town, drive, bundle.spec.frame_height, bundle.spec.frame_width)
    lats, lons = town.place.to_degrees(*drive.places(times)[:2])
    return film.frames(times), [Position(float(a), float(b)) for a, b in zip(lats, lons, strict=True)]


def is_right(fix: Fix, truth: Position) -> bool:
    """Whether the guess is within 80 m."""
    return error_m(fix, truth) <= geo.RIGHT_WITHIN_M


def calibrate(
    root: Path,
    seeds: range,
    drives: int,
    work: Path,
    report: Callable[[str], None] = lambda _: None,
    *,
    settings: TownSettings | None = None,
    seconds: float = DRIVE_S,
) -> list[str]:
    """Fit the confidence and store it in the bundle; returns lines that say how well it holds.

    Each drive is followed twice: in a gallery of all the towns, and with the prior that it is in its own, as in a
    gallery of one town. Of four drives two are at night, which is hard. Every second drive is fitted on; the
    reliability curve is of the others.
    """
    bundle = open_bundle(root)
    for seed in seeds:
        report(f"town {seed}: indexing ...")
        gallery = town_gallery(build_town(seed, settings or TownSettings()), bundle, work)
    usual = LocalizeSettings()
    searcher = Searcher.over(gallery, usual.similarity, spacing_s=usual.keyframe_spacing_s, threads=bundle.threads)
    rows: dict[bool, list[tuple[Evidence, bool]]] = {True: [], False: []}
    for seed in seeds:
        town = build_town(seed, settings or TownSettings())
        for number in range(drives):
            report(f"town {seed}: drive {number} ...")
            drive = drive_frames(town, 70_000 + number, bundle, seconds, night=number % 4 in (2, 3))
            if drive is None:
                continue
            frames = list(drive[0])
            for prior in (None, town_box(town)):
                localizer = Localizer(gallery, bundle, usual, prior=prior, searcher=searcher, confidence=Confidence())
                for frame, truth in zip(frames, drive[1], strict=True):
                    fix = localizer.update(frame)
                    if isinstance(fix.evidence, Evidence):
                        rows[number % 2 == 0].append((fix.evidence, is_right(fix, truth)))
    if not rows[True] or not rows[False]:
        raise UserError("There were too few drives to calibrate on.", "Give at least 2 --drives and other --towns.")
    features, right = _arrays(rows[True])
    least = float(np.percentile([evidence.recent for evidence, ok in rows[True] if ok] or [0.0], 1))
    draft = Confidence(fit(features, right), least_recent=least)
    p_fit = np.array([draft.probability(evidence) for evidence, _ in rows[True]])
    threshold = choose_threshold(p_fit, right)
    where = f"{len(right)} frames of drives through towns {seeds.start} to {seeds.stop - 1}"
    grid = (gallery.manifest.zoom, gallery.manifest.stride)
    final = replace(draft, threshold=threshold, fitted_on=where, settings=usual, grid=grid)
    final.save(bundle.root)
    held, true = np.array([final.probability(e) for e, _ in rows[False]]), _arrays(rows[False])[1]
    lines = [
        f"fitted on {where}; {100 * right.mean():.0f}% of their guesses within 80 m",
        f"tracking from a confidence of {threshold:.2f}",
        f"on {len(true)} other frames of the same towns: {100 * true.mean():.0f}% within 80 m, "
        f"{100 * (held >= threshold).mean():.0f}% tracking, of these {_percent(true[held >= threshold])} within 80 m",
        "| confidence | within 80 m | frames |", "|---|---|---|",
    ]  # fmt: skip
    return lines + [f"| {p:.2f} | {share:.2f} | {count} |" for p, share, count in reliability(held, true)]


def town_box(town: Town) -> BoxPrior:
    """The bounds of a town, as a prior."""
    size = town.place.size_m
    lats, lons = town.place.to_degrees(np.array([0.0, size]), np.array([size, 0.0]))
    return BoxPrior(float(lons[0]), float(lats.min()), float(lons[1]), float(lats.max()))


def _arrays(rows: list[tuple[Evidence, bool]]) -> tuple[Floats, Bools]:
    return np.stack([features_of(evidence) for evidence, _ in rows]), np.array([right for _, right in rows], np.bool_)


def _percent(right: Bools) -> str:
    return f"{100 * right.mean():.0f}%" if len(right) else "none"
