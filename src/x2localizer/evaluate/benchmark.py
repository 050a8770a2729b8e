"""The paper's tables on synthetic towns: runs are trained, and measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from x2localizer import geo
from x2localizer.config import TrainSettings, load_config
from x2localizer.datasets.dataset import open_dataset
from x2localizer.errors import UserError
from x2localizer.evaluate import protocols, tables
from x2localizer.evaluate.coarse import coarse
from x2localizer.evaluate.embed import Embeddings
from x2localizer.evaluate.entrants import Entrant, entrants
from x2localizer.evaluate.plan import PLAN, REFERENCE, STAGE_1, Planned, missing, seconds_of, variant_checkpoint
from x2localizer.files import write_text
from x2localizer.metrics import paired_difference
from x2localizer.show.plots import SeenRegion
from x2localizer.types import Progress

Values = dict[str, Any]


def take_stage_1(bundle: str, runs: Path) -> None:
    """Write the towers of a shipped bundle as stage 1 of the released recipe, unless that is there."""
    folder = (runs / STAGE_1).parent
    if (folder / "done.json").is_file():
        return
    from x2localizer.learn.bundle_weights import load_origin  # noqa: PLC0415 - torch is heavy
    from x2localizer.learn.checkpoint import load_start, save_checkpoint  # noqa: PLC0415
    from x2localizer.learn.model import Model  # noqa: PLC0415

    origin = load_origin(Path(bundle))
    state = {"stage": "image", "bundle": bundle, "metrics": {}}
    model = Model(origin.settings.model, pretrained=False)
    load_start(model, replace(origin, state=state))  # a start of stage 1: adapters stay as they begin
    save_checkpoint(runs / STAGE_1, model, origin.settings, state)
    write_text(folder / "done.json", json.dumps(state, indent=2) + "\n")


def train_missing(
    data: Path, runs: Path, plan: Sequence[Planned] = PLAN, report: Callable[[str], None] = lambda _: None,
    overrides: Sequence[str] = (),
) -> None:  # fmt: skip
    """Train what is missing, one run after the other; an interrupted one resumes. Overrides are of every run."""
    from x2localizer.learn.loop import train  # noqa: PLC0415 - torch is heavy

    for planned in missing(runs, plan):
        for needed in filter(None, (planned.start, planned.teacher)):
            if not (runs / needed).is_file():
                raise UserError(
                    f"{planned.name} starts from {runs / needed}, which is not there.",
                    f"Train that first: x2l benchmark town --only {needed.split('/')[0]}",
                )
        settings = load_config(TrainSettings, "train", planned.preset, planned.settings(str(runs), overrides))
        start = None if planned.start is None else runs / planned.start
        train(
            settings, data, runs / planned.name, planned.stages,
            lambda stage, step, steps, values, name=planned.name: report(  # type: ignore[misc]
                f"{name}: {stage} {step} of {steps}"
            ),
            start,
        )  # fmt: skip
        spent = seconds_of(runs, planned)
        report(f"{planned.name}: done" + ("" if spent is None else f" in {spent / 60:.1f} minutes"))


def variant(runs: Path, name: str, similarities: tuple[str, ...] = ("s_mix",)) -> Entrant | None:
    """The model of a variant, by some similarities; None if it was not trained."""
    checkpoint = runs / variant_checkpoint(name)
    if not checkpoint.with_name("done.json").is_file():
        return None
    (found,) = entrants(str(checkpoint))
    return replace(found, run=name, similarities=similarities)


def exported_garet(runs: Path) -> list[str]:
    """The bundle of GAReT's objective with the time of stage 3, exported if it was trained; a list of one, or none."""
    bundle, checkpoint = runs / "town-garet" / "bundle", runs / "town-garet" / "full" / "best.safetensors"
    if not (bundle / "bundle.json").is_file():
        if not checkpoint.is_file():
            return []
        from x2localizer.learn.checkpoint import load_checkpoint  # noqa: PLC0415 - torch is heavy
        from x2localizer.learn.export import export_bundle  # noqa: PLC0415

        export_bundle(load_checkpoint(checkpoint), bundle)
    return [str(bundle)]


def measure_variants(
    names: Sequence[str],
    similarities: tuple[str, ...],
    data: Path,
    split: str,
    runs: Path,
    work: Path,
    report: Progress,
) -> Values | None:
    """Prefix retrieval of those variants that were trained, beside the paper's objective; None if none was.

    ``gained`` in a row: the points of R@1 gained over the paper's objective, the mean over the budgets, and its 95%
    interval, paired by video.
    """
    found = {name: variant(runs, name, similarities) for name in (REFERENCE, *names)}
    models = [entrant for entrant in found.values() if entrant is not None]
    if found[REFERENCE] is None or len(models) == 1:
        return None
    source = open_dataset(data)
    rows, gallery = protocols.prefix_rows(models, source, split, work, report)
    gains = _gains(rows)
    cells = [
        {**cell, "gained": gains[cell["run"], cell["similarity"]]}
        for cell in tables.to_values(tables.prefix_cells(rows, gallery))
    ]
    videos = len(next(iter(rows[0].ranks.values())))
    return {"videos": videos, "gallery": gallery, "clips": source.clips_name(split), "rows": cells}


def _gains(rows: Sequence[protocols.PrefixRow]) -> dict[tuple[str, str], list[float] | None]:
    """Points of R@1 that runs gain over the paper's objective by the same similarity; None for that itself."""
    hits = {
        (row.run, row.similarity): np.mean([100.0 * (ranks <= 1) for ranks in row.ranks.values()], 0) for row in rows
    }
    return {
        (run, kind): None if run == REFERENCE else [*paired_difference(found, hits[REFERENCE, kind])]
        for (run, kind), found in hits.items()
    }


def measure_candidates(model: str, data: Path, split: str, work: Path, report: Progress) -> Values:
    """The table of SWRL: 5 and 10 candidates, found by s_g and by s_mix."""
    source = open_dataset(data)
    rows = []
    for similarity in ("s_g", "s_mix"):
        for count in (5, 10):
            found = protocols.fine_rows(
                [entrants(model)[-1]], source, split, work, report, budgets=(1, 2, 4), galleries=("gps",),
                candidates=count, similarity=similarity,
            )  # fmt: skip
            rows += [{"candidates": count, **cell} for cell in tables.to_values(tables.fine_cells(found))]
    return {"rows": rows}


def qualitative(model: str, data: Path, split: str, work: Path, report: Progress, videos: int = 4) -> list[SeenRegion]:
    """Some videos, drawn with seed 42, beside the similarities of their regions, each with the rank of its region."""
    entrant = entrants(model)[-1]
    assert entrant.encoder is not None
    seen = Embeddings(open_dataset(data), split, entrant.encoder, work, report)
    found = coarse(seen, max(protocols.BUDGETS), ["s_path"])["s_path"]
    rows, count = [], min(videos, len(seen.videos))
    for v in np.sort(np.random.default_rng(protocols.SEED).choice(len(seen.videos), count, replace=False)):
        region, frames = seen.regions[seen.region_of[v]], seen.frames[v]
        keys = seen.keyframes[v][:: max(1, len(seen.keyframes[v]) // 4)][:4]
        codes = np.asarray(seen.frame_codes[seen.first_frame[v] + np.array(keys)])
        x, y = geo.tile_coordinates(
            np.array([row.lat_deg for row in frames]), np.array([row.lon_deg for row in frames]), region.zoom
        )
        rows.append(SeenRegion(
            f"{seen.videos[v].video_id}: region {found.ranks[v]} of {len(seen.regions)}",
            seen.data.picture(region.image), np.stack([x - region.x, y - region.y], 1) / region.n,
            [seen.data.picture(frames[i].image) for i in keys],
            (np.asarray(seen.grid_codes[seen.region_of[v]]) @ codes.T).max(2).transpose(2, 0, 1).astype(np.float64),
        ))  # fmt: skip
    return rows
