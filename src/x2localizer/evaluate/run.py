"""The protocols by name: models and a dataset in, figures, tables and curves out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from x2localizer.config import TrackSettings
from x2localizer.datasets.dataset import Dataset
from x2localizer.encoders import open_bundle
from x2localizer.encoders.tile_decoder import TileDecoder, open_decoder
from x2localizer.errors import UserError
from x2localizer.evaluate import (
    compression,
    fault_table,
    linked_clips,
    long_range,
    long_range_table,
    protocols,
    recordings,
    streams,
    tables,
    tracking,
    tracking_tables,
    variants,
)
from x2localizer.evaluate.embed import Embeddings
from x2localizer.evaluate.entrants import Entrant, entrants
from x2localizer.evaluate.faults import ONSETS, Onset
from x2localizer.evaluate.rides import Followed, imagery_of, long_rides, split_gallery
from x2localizer.evaluate.tracked import arms_named
from x2localizer.files import write_text
from x2localizer.similarity import CodeKind, similarities
from x2localizer.types import Progress

Protocol = Literal[
    "coarse", "fine", "random-start", "long-range", "tracking", "faults", "streams", "compression", "variants"
]  # fmt: skip
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
LongRangeGallery = Literal["auto", "imagery", "dataset"]


@dataclass(frozen=True, slots=True)
class ProtocolResult:
    """What a protocol measured.

    values: for the results file.
    text: tables in Markdown.
    panels: curves for a plot, by panel and name.
    axes: what the plot shows across and up.
    """

    values: dict[str, Any]
    text: str
    panels: dict[str, Any] = field(default_factory=dict)
    axes: tuple[str, str] = ("seconds since the first frame", "% of frames within 80 m")

    def with_tracking(self, other: ProtocolResult) -> ProtocolResult:
        """The arms of both, windows before tracking."""
        return ProtocolResult(
            {**self.values, "tracking": other.values}, f"{self.text}\n\n## Tracking\n\n{other.text}",
            {**self.panels, **{f"tracking {title}": curves for title, curves in other.panels.items()}},
        )  # fmt: skip

    def save(self, folder: Path, values: dict[str, Any]) -> list[Path]:
        """Write results.json (with ``values``, which may say more than our own), table.md and curves.png."""
        files = [folder / "results.json", folder / "table.md"]
        write_text(files[0], json.dumps(values, indent=1) + "\n")
        write_text(files[1], self.text + "\n")
        if self.panels:
            from x2localizer.show.plots import save_curves  # noqa: PLC0415 - matplotlib takes a second to load

            files.append(folder / "curves.png")
            save_curves(files[2], self.panels, *self.axes)
        return files


@dataclass(frozen=True, slots=True)
class DriveOptions:
    """Which long drives are followed, and how; see :func:`run_protocol`."""

    foreign: Dataset | None
    arms: Sequence[str]
    foreign_arms: Sequence[str]
    most_rides: int | None
    workers: int
    settings: TrackSettings | None


def run_protocol(
    protocol: Protocol,
    models: Sequence[str],
    data: Dataset,
    split: str,
    work: Path,
    report: Progress = lambda what, done, total: None,
    *,
    gallery: LongRangeGallery = "auto",
    tracked: bool = True,
    keep_first: bool = False,
    foreign: Dataset | None = None,
    arms: Sequence[str] = (),
    foreign_arms: Sequence[str] = (),
    most_rides: int | None = None,
    workers: int = 2,
    decoder: Path | None = None,
    onset: Literal["both", "start", "halfway"] = "both",
    budgets: Sequence[int] = protocols.BUDGETS,
    similarity: str | None = None,
    settings: TrackSettings | None = None,
) -> ProtocolResult:
    """Measure models on a dataset, side by side on the same videos and galleries.

    models: training runs, checkpoints, bundles, or rankings files.
    gallery: of the protocol long-range: the imagery of the split's areas, or the dataset's own regions and tiles; auto
        takes the imagery if there is any.
    tracked: of the protocol long-range on imagery: also measure tracking, with the first model, if the dataset has
        odometry.
    keep_first: of rankings files: where an item is listed twice, the first counts.
    onset: of faults: when they begin in a drive.
    foreign, arms, foreign_arms, most_rides, workers: of tracking; see
        :func:`x2localizer.evaluate.tracking.run_tracking` and :func:`x2localizer.evaluate.tracked.arms_named`.
    budgets: of the protocols coarse, fine and variants: keyframes of a prefix.
    similarity: of the protocol variants: by which all models are ranked; s_path where they can by default.
    decoder: of the protocols fine and long-range: a temporal decoder's folder, for the model it was trained for.
    settings: of the tracker, in the protocols tracking, faults and long-range.
    """
    chooser = None if decoder is None else open_decoder(decoder)
    drives = DriveOptions(foreign, arms, foreign_arms, most_rides, workers, settings)
    if protocol == "tracking":
        return _tracking(models, data, split, work, report, drives)
    if protocol == "faults":
        onsets = ONSETS if onset == "both" else (onset,)
        return _faults(models, data, split, work, report, drives, onsets)
    if protocol == "long-range":
        if gallery == "auto":
            gallery = "imagery" if imagery_of(data, split) else "dataset"
        if gallery == "dataset":
            return _on_dataset(models, data, split, work, report)
        windows = _on_imagery(models, data, split, work, report, arms, chooser)
        drives = replace(drives, arms=[name for name in arms if name not in long_range.window_arms(decoder=True)])
        if not tracked or not recordings.sources_of(data, recordings.tracked_rides(data, split)):
            return windows
        return windows.with_tracking(_tracking(models[:1], data, split, work, report, drives))
    if protocol == "compression":
        return _compression(models, data, split, work, report)
    if protocol == "variants":
        return _variants(models, data, split, work, report, budgets, similarity)
    chosen = [replace(entrant, keep_first=keep_first) for model in models for entrant in entrants(model)]
    if protocol == "fine":
        return _fine(chosen, data, split, work, report, chooser, budgets)
    if protocol == "coarse":
        return _coarse(chosen, data, split, work, report, budgets)
    measure = {"random-start": _random_start, "streams": _streams}[protocol]
    return measure(chosen, data, split, work, report)


def _coarse(
    chosen: list[Entrant], data: Dataset, split: str, work: Path, report: Progress, budgets: Sequence[int]
) -> ProtocolResult:
    rows, gallery = protocols.prefix_rows(chosen, data, split, work, report, budgets)
    cells = tables.prefix_cells(rows, gallery)
    claims = tables.check_claims(rows) if max(protocols.BUDGETS) in budgets else []  # some are about the full video
    videos = len(next(iter(rows[0].ranks.values())))
    values: dict[str, Any] = {
        "videos": videos, "gallery": gallery, "clips": data.clips_name(split), "rows": tables.to_values(cells),
        "claims": tables.to_values(claims),
    }  # fmt: skip
    text = _heading(split, videos, gallery) + tables.prefix_text(cells)
    repeated = {row.run: row.repeated for row in rows if row.repeated}
    if repeated:
        values["repeated"] = repeated
        text += "".join(f"\n\n{run}: repeated items dropped: {count:,}" for run, count in repeated.items())
    return ProtocolResult(values, text + ("\n\n" + tables.claims_text(claims) if claims else ""))


def _fine(
    chosen: list[Entrant], data: Dataset, split: str, work: Path, report: Progress, decoder: TileDecoder | None,
    budgets: Sequence[int],
) -> ProtocolResult:  # fmt: skip
    if decoder is not None and all(
        entrant.encoder is None or entrant.encoder.fingerprint != decoder.encoder for entrant in chosen
    ):
        raise UserError("The decoder was trained for none of these models.", "Name the bundle it was trained for.")
    rows = protocols.fine_rows(chosen, data, split, work, report, decoder=decoder, budgets=budgets, timed=True)
    cells = tables.fine_cells(rows)
    videos, frames = len(rows[0].gate), len(rows[0].found.ranks)
    text = f"{split}: {frames:,} frames of {videos:,} videos; 95% intervals by bootstrap over videos, seed 42\n\n"
    values = {"videos": videos, "frames": frames, "clips": data.clips_name(split), "rows": tables.to_values(cells)}
    return ProtocolResult(values, text + tables.fine_text(cells))


def _random_start(chosen: list[Entrant], data: Dataset, split: str, work: Path, report: Progress) -> ProtocolResult:
    rows, fine, drawn, gallery = protocols.random_start_rows(chosen, data, split, work, report)
    if not rows:
        raise UserError("A random start needs a model that can encode.", "Name a run, a checkpoint or a bundle.")
    cells, fine_cells = tables.prefix_cells(rows, gallery), tables.fine_cells(fine)
    videos = len(next(iter(rows[0].ranks.values())))
    values = {
        "videos": videos, "gallery": gallery, "rows": tables.to_values(cells), "fine": tables.to_values(fine_cells),
        "starts": {str(budget): starts.tolist() for budget, starts in drawn.items()},
    }  # fmt: skip
    text = _heading(split, videos, gallery) + tables.prefix_text(cells) + "\n\n" + tables.fine_text(fine_cells)
    return ProtocolResult(values, text)


def _streams(chosen: list[Entrant], data: Dataset, split: str, work: Path, report: Progress) -> ProtocolResult:
    found = [streams.stream_rows(entrant, data, split, work, report) for entrant in streams.able(chosen)]
    rows = [row for part in found for row in part]
    videos, gallery = len(data.videos(split)), len(data.regions(split))
    values = {"videos": videos, "gallery": gallery, "rows": [asdict(row) for row in rows]}
    return ProtocolResult(
        values, _heading(split, videos, gallery) + streams.table_text(rows), streams.panels(rows),
        ("frames encoded per clip", "R@1 in %"),
    )  # fmt: skip


def _compression(models: Sequence[str], data: Dataset, split: str, work: Path, report: Progress) -> ProtocolResult:
    rows = compression.measure_compression(models, data, split, work, report)
    videos, gallery = len(data.videos(split)), len(data.regions(split))
    values = {"videos": videos, "gallery": gallery, "rows": compression.to_values(rows)}
    return ProtocolResult(values, _heading(split, videos, gallery) + compression.table_text(rows))


def _variants(
    models: Sequence[str], data: Dataset, split: str, work: Path, report: Progress, budgets: Sequence[int],
    similarity: str | None,
) -> ProtocolResult:  # fmt: skip
    rows = variants.measure_variants(models, data, split, work, report, budgets, similarity)
    videos, gallery = len(data.videos(split)), len(data.regions(split))
    values = {"videos": videos, "gallery": gallery, "rows": variants.to_values(rows)}
    return ProtocolResult(values, _heading(split, videos, gallery) + variants.table_text(rows))


def _on_imagery(
    models: Sequence[str], data: Dataset, split: str, work: Path, report: Progress, names: Sequence[str],
    decoder: TileDecoder | None,
) -> ProtocolResult:  # fmt: skip
    """Long range as deployed: the localizer over one gallery of all areas.

    The first bundle runs every arm, or those of some names; further ones run those that GAReT's objective is compared
    by.
    """
    if decoder is not None and open_bundle(models[0]).fingerprint != decoder.encoder:
        raise UserError("The decoder was trained for another bundle.", "Name first the bundle it was trained for.")
    rides = long_rides(data, split)
    followed: dict[str, list[Followed]] = {}
    sizes = []
    for number, name in enumerate(models):
        bundle = open_bundle(name)
        windows = long_range.window_arms(names, decoder=decoder is not None)
        arms = windows if number == 0 else long_range.garet_arms()
        by_tiles = all(similarities.get(arm.similarity).codes == "tiles" for arm in arms.values())
        codes: tuple[CodeKind, ...] = ("tiles",) if by_tiles else ("tiles", "regions")
        gallery = split_gallery(data, split, bundle, work, report, codes)
        followed |= long_range.run_arms(
            data, rides, gallery, bundle, arms, lambda done, total: report("drives", done, total), decoder
        )
        sizes.append((bundle.fingerprint, len(gallery.regions)))
    result = long_range_table.summarize(rides, followed)
    values = {"bundles": [fingerprint for fingerprint, _ in sizes], "gallery": sizes[0][1], **asdict(result)}
    heading = (
        f"{split}: {len(rides)} long drives, one gallery of {sizes[0][1]:,} regions; 95% intervals over drives\n\n"
    )
    return ProtocolResult(values, heading + long_range_table.table_text(result), long_range_table.panels(result))


def _on_dataset(models: Sequence[str], data: Dataset, split: str, work: Path, report: Progress) -> ProtocolResult:
    """Long range as in the paper: the dataset's own regions, and tiles centred on the places where cameras were."""
    rides = long_rides(data, split)
    videos = [video for ride in rides for video in ride.videos]
    followed: dict[str, list[Followed]] = {}
    regions = 0
    chosen = [entrant for model in models for entrant in entrants(model)[-1:]]
    names = [entrant.model for entrant in chosen]
    if len(set(names)) < len(names):  # several of one kind are told apart by their runs
        names = [entrant.run for entrant in chosen]
    for entrant, name in zip(chosen, names, strict=True):
        if entrant.encoder is None:
            raise UserError(f"{entrant.run} is a rankings file: it has no frames.", "Score it with --protocol coarse.")
        clips = Embeddings(data, split, entrant.encoder, work, report)
        drives = Embeddings(data, split, entrant.encoder, work, report, videos=videos)
        arms = linked_clips.run_clip_arms(entrant, clips, drives, rides, "gps")
        label = "" if len(models) == 1 else f", {name}"
        followed |= {f"{arm}{label}": found for arm, found in arms.items()}
        regions = len(clips.regions)
    result = long_range_table.summarize(rides, followed)
    values = {"gallery": regions, "kind": "dataset", **asdict(result)}
    heading = (
        f"{split}: {len(rides)} long sequences, {regions:,} regions of the dataset and tiles centred on the cameras' "
        "places; 95% intervals over sequences\n\n"
    )
    panels = long_range_table.panels_by_model(result, names)
    return ProtocolResult(values, heading + long_range_table.table_text(result), panels)


def _tracking(
    models: Sequence[str], data: Dataset, split: str, work: Path, report: Progress, drives: DriveOptions
) -> ProtocolResult:
    """Long drives followed by the tracker, over one gallery of all areas."""
    if len(models) != 1:
        raise UserError("Tracking is measured with one bundle at a time.", "Name one: x2l evaluate town ...")
    bundle = open_bundle(models[0])
    found = tracking.run_tracking(
        bundle, data, split, work, report, foreign=drives.foreign, arms=arms_named(drives.arms),
        foreign_arms=arms_named(drives.foreign_arms), most_rides=drives.most_rides, workers=drives.workers,
        settings=drives.settings,
    )  # fmt: skip
    rows = tracking_tables.track_rows(found)
    values = {
        "bundle": bundle.fingerprint, "rides": len(found.rides), "foreign_rides": len(found.foreign_night),
        "rows": tracking_tables.to_values(rows), **_overridden(drives.settings),
    }  # fmt: skip
    off = f", {len(found.foreign_night)} off the map" if found.foreign_night else ""
    heading = f"{split}: {len(found.rides)} long drives on one map of all areas{off}; 95% intervals over drives\n\n"
    return ProtocolResult(values, heading + tracking_tables.table_text(rows), tracking_tables.panels(rows))


def _faults(
    models: Sequence[str], data: Dataset, split: str, work: Path, report: Progress, drives: DriveOptions,
    onsets: Sequence[Onset],
) -> ProtocolResult:  # fmt: skip
    """Long drives with faults upstream of the tracker, over one gallery of all areas."""
    if len(models) != 1:
        raise UserError("Faults are measured with one bundle at a time.", "Name one: x2l evaluate eye ...")
    bundle = open_bundle(models[0])
    rows = fault_table.run_faults(
        bundle, data, split, work, report, onsets=onsets, most_rides=drives.most_rides, workers=drives.workers,
        settings=drives.settings,
    )  # fmt: skip
    heading = f"{split}: {rows[0].drives} long drives on one map of all areas, tiles and roads\n\n"
    values = {
        "bundle": bundle.fingerprint, "rides": rows[0].drives, **fault_table.to_values(rows),
        **_overridden(drives.settings),
    }  # fmt: skip
    return ProtocolResult(values, heading + fault_table.table_text(rows))


def _overridden(settings: TrackSettings | None) -> dict[str, Any]:
    """The settings of the tracker that are not the usual ones, to be stored with what was measured."""
    usual = TrackSettings().model_dump()
    changed = {key: value for key, value in (settings or TrackSettings()).model_dump().items() if value != usual[key]}
    return {"settings": changed} if changed else {}


def _heading(split: str, videos: int, gallery: int) -> str:
    return f"{split}: {videos:,} videos, {gallery:,} regions; 95% intervals by bootstrap over videos, seed 42\n\n"
