"""``x2l evaluate``: the protocols of the benchmark, on a data set with its truth."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from x2localizer.cli.common import JsonOption, console, measured, progress_bar, say
from x2localizer.errors import UserError
from x2localizer.files import write_text

if TYPE_CHECKING:  # heavy, and not needed for --help
    from x2localizer.datasets.dataset import Dataset
    from x2localizer.evaluate.embed import Report
    from x2localizer.evaluate.entrants import Entrant

Protocol = Literal["coarse", "fine", "random-start", "long-range"]


def evaluate(
    models: Annotated[list[str], typer.Argument(help="Training runs, checkpoints, bundles, or rankings files.")],
    data: Annotated[Path, typer.Option(help="A data set.")],
    protocol: Annotated[Protocol, typer.Option(help="What is measured.")] = "coarse",
    split: Annotated[str, typer.Option(help="val while choosing settings, test for what is published.")] = "test",
    out: Annotated[Path | None, typer.Option(help="Folder for results.json, table.md and plots.")] = None,
    rankings: Annotated[Path | None, typer.Option(help="coarse: also write the first model's rankings.")] = None,
    work: Annotated[Path, typer.Option(help="Folder for embeddings and galleries, kept for the next run.")] = Path(
        "evaluation"
    ),
    keep_first: Annotated[
        bool, typer.Option("--keep-first", help="Rankings files: of an item that a query repeats, keep the first.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure models on a data set, side by side on the same videos and galleries.

    coarse: which region holds the video, seen its first 1, 2, 4 and 8 keyframes? With the paper's claims about the
    first run. fine: then each frame among the tiles of the 10 best regions. random-start: the same from anywhere in the
    video. long-range: drives that leave their first region, searched once or with SWRL, for one bundle.

    A rankings file (CSV or Parquet: query, item, score, and budget) is scored by the same code.

    Examples:

      x2l evaluate runs/town --data data/standard --split val

      x2l evaluate town their-rankings.csv --data data/standard

      x2l evaluate town --protocol long-range --data data/standard --out results
    """
    if rankings is not None and (rankings.suffix != ".parquet" or Path(models[0]).suffix in (".csv", ".parquet")):
        raise UserError(
            "Rankings are written as Parquet, of a first model that can encode.",
            "x2l evaluate MODEL --rankings ours.parquet ...",
        )
    from x2localizer.datasets.dataset import open_dataset  # noqa: PLC0415
    from x2localizer.evaluate.entrants import entrants  # noqa: PLC0415

    source = open_dataset(data)
    if protocol == "long-range":
        found = _long_range(models, source, split, work)
    else:
        run = {"coarse": _coarse, "fine": _fine, "random-start": _random_start}[protocol]
        with progress_bar("encoding") as progress:
            named = [replace(e, keep_first=keep_first) for model in models for e in entrants(model)]
            asked = Asked(named, source, split, work)
            found = run(asked, lambda _, done, total: progress(done, total))
    values = measured({"protocol": protocol, "split": split, **found.values})
    if out is not None:
        write_text(out / "results.json", json.dumps(values, indent=1) + "\n")
        write_text(out / "table.md", found.text + "\n")
        if found.panels:
            from x2localizer.show.plots import save_curves  # noqa: PLC0415 - matplotlib takes a second to load

            save_curves(out / "curves.png", found.panels, "seconds since the first frame", "% of frames within 80 m")
    if rankings is not None:
        _write_rankings(entrants(models[0])[-1], source, split, work, rankings)
    if as_json:
        typer.echo(json.dumps(values))
        return
    typer.echo(found.text)
    if out is not None:
        say(f"\n  {out / 'results.json'}, {out / 'table.md'}" + (f", {out / 'curves.png'}" if found.panels else ""))


@dataclass(frozen=True, slots=True)
class Asked:
    """Who takes part, on what."""

    entrants: list[Entrant]
    source: Dataset
    split: str
    work: Path


@dataclass(frozen=True, slots=True)
class Found:
    """What came out: for the results file, for people, and curves in panels."""

    values: dict[str, Any]
    text: str
    panels: dict[str, Any] = field(default_factory=dict)


def _coarse(asked: Asked, report: Report) -> Found:
    from x2localizer.evaluate import protocols, tables  # noqa: PLC0415

    rows, gallery = protocols.prefix_rows(asked.entrants, asked.source, asked.split, asked.work, report)
    cells, claims = tables.prefix_cells(rows, gallery), tables.check_claims(rows)
    videos = len(next(iter(rows[0].ranks.values())))
    values = {
        "videos": videos, "gallery": gallery, "rows": tables.to_values(cells), "claims": tables.to_values(claims),
    }  # fmt: skip
    text = _heading(asked.split, videos, gallery) + tables.prefix_text(cells)
    repeated = {row.run: row.repeated for row in rows if row.repeated}
    if repeated:
        values["repeated"] = repeated
        text += "".join(f"\n\n{run}: repeated items dropped: {count:,}" for run, count in repeated.items())
    return Found(values, text + ("\n\n" + tables.claims_text(claims) if claims else ""))


def _fine(asked: Asked, report: Report) -> Found:
    from x2localizer.evaluate import protocols, tables  # noqa: PLC0415

    rows = protocols.fine_rows(asked.entrants, asked.source, asked.split, asked.work, report)
    cells = tables.fine_cells(rows)
    videos, frames = len(rows[0].gate), len(rows[0].found.ranks)
    text = f"{asked.split}: {frames:,} frames of {videos:,} videos; 95% intervals by bootstrap over videos, seed 42\n\n"
    return Found({"videos": videos, "frames": frames, "rows": tables.to_values(cells)}, text + tables.fine_text(cells))


def _random_start(asked: Asked, report: Report) -> Found:
    from x2localizer.evaluate import protocols, tables  # noqa: PLC0415

    rows, fine, drawn, gallery = protocols.random_start_rows(
        asked.entrants, asked.source, asked.split, asked.work, report
    )
    if not rows:
        raise UserError("A random start needs a model that can encode.", "Name a run, a checkpoint or a bundle.")
    cells, fine_cells = tables.prefix_cells(rows, gallery), tables.fine_cells(fine)
    videos = len(next(iter(rows[0].ranks.values())))
    values = {
        "videos": videos, "gallery": gallery, "rows": tables.to_values(cells), "fine": tables.to_values(fine_cells),
        "starts": {str(budget): starts.tolist() for budget, starts in drawn.items()},
    }  # fmt: skip
    heading = _heading(asked.split, videos, gallery)
    return Found(values, heading + tables.prefix_text(cells) + "\n\n" + tables.fine_text(fine_cells))


def _long_range(models: list[str], source: Dataset, split: str, work: Path) -> Found:
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.evaluate import long_range  # noqa: PLC0415

    if len(models) > 1:
        raise UserError("The protocol long-range takes one bundle.", "Run the command once for each.")
    bundle = open_bundle(models[0])
    rides = long_range.long_rides(source, split)
    with console.status("indexing ...") as status:
        gallery = long_range.split_gallery(source, split, bundle, work, status.update)
    with progress_bar("rides") as progress:
        found = long_range.run_arms(source, rides, gallery, bundle, long_range.all_arms(), progress)
    result = long_range.summarize(rides, found)
    values = {"bundle": bundle.fingerprint, "gallery": len(gallery.regions), **asdict(result)}
    heading = f"{split}: {len(rides)} long drives, one gallery of {len(gallery.regions):,} regions; "
    text = heading + "95% intervals over drives\n\n" + long_range.table_text(result)
    return Found(values, text, long_range.panels(result))


def _write_rankings(model: Entrant, source: Dataset, split: str, work: Path, path: Path) -> None:
    from x2localizer.evaluate.protocols import score_parts  # noqa: PLC0415
    from x2localizer.evaluate.rankings import write_rankings  # noqa: PLC0415

    write_rankings(path, score_parts(model, source, split, work))
    say(f"rankings in {path}")


def _heading(split: str, videos: int, gallery: int) -> str:
    return f"{split}: {videos:,} videos, {gallery:,} regions; 95% intervals by bootstrap over videos, seed 42\n\n"
