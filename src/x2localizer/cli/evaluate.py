"""``x2l evaluate``: the protocols of the benchmark, on a data set with its truth."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from x2localizer.cli.common import JsonOption, console, machine, progress_bar, say, today
from x2localizer.errors import UserError
from x2localizer.files import write_text

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
    run: Callable[[list[str], Path, str, Path], tuple[dict[str, Any], str, dict[str, Any]]]
    run = {"coarse": _coarse, "fine": _fine, "random-start": _random_start, "long-range": _long_range}[protocol]
    values, text, curves = run(models, data, split, work)
    values = {"protocol": protocol, "split": split, "seed": 42, "machine": machine(), "date": today(), **values}
    if out is not None:
        write_text(out / "results.json", json.dumps(values, indent=1) + "\n")
        write_text(out / "table.md", text + "\n")
        if curves:
            from x2localizer.show.plots import save_curves  # noqa: PLC0415 - matplotlib takes a second to load

            save_curves(out / "curves.png", curves, "seconds since the first frame", "% of frames within 80 m")
    if rankings is not None:
        _write_rankings(models[0], data, split, work, rankings)
    if as_json:
        typer.echo(json.dumps(values))
        return
    typer.echo(text)
    if out is not None:
        say(f"\n  {out / 'results.json'}, {out / 'table.md'}" + (f", {out / 'curves.png'}" if curves else ""))


def _coarse(models: list[str], data: Path, split: str, work: Path) -> tuple[dict[str, Any], str, dict[str, Any]]:
    from x2localizer.datasets.dataset import open_dataset  # noqa: PLC0415
    from x2localizer.evaluate import protocols, tables  # noqa: PLC0415
    from x2localizer.evaluate.entrants import entrants  # noqa: PLC0415

    source = open_dataset(data)
    with _progress() as report:
        rows, gallery = protocols.prefix_rows([e for m in models for e in entrants(m)], source, split, work, report)
    cells, claims = tables.prefix_cells(rows, gallery), tables.check_claims(rows)
    videos = len(next(iter(rows[0].ranks.values())))
    values = {
        "videos": videos, "gallery": gallery, "rows": tables.to_values(cells), "claims": tables.to_values(claims),
    }  # fmt: skip
    text = _heading(split, videos, gallery) + tables.prefix_text(cells)
    return values, text + ("\n\n" + tables.claims_text(claims) if claims else ""), {}


def _fine(models: list[str], data: Path, split: str, work: Path) -> tuple[dict[str, Any], str, dict[str, Any]]:
    from x2localizer.datasets.dataset import open_dataset  # noqa: PLC0415
    from x2localizer.evaluate import protocols, tables  # noqa: PLC0415
    from x2localizer.evaluate.entrants import entrants  # noqa: PLC0415

    source = open_dataset(data)
    with _progress() as report:
        rows = protocols.fine_rows([e for m in models for e in entrants(m)], source, split, work, report)
    cells = tables.fine_cells(rows)
    videos, frames = len(rows[0].gate), len(rows[0].found.ranks)
    values = {"videos": videos, "frames": frames, "rows": tables.to_values(cells)}
    text = f"{split}: {frames:,} frames of {videos:,} videos; 95% intervals by bootstrap over videos, seed 42\n\n"
    return values, text + tables.fine_text(cells), {}


def _random_start(models: list[str], data: Path, split: str, work: Path) -> tuple[dict[str, Any], str, dict[str, Any]]:
    from x2localizer.datasets.dataset import open_dataset  # noqa: PLC0415
    from x2localizer.evaluate import protocols, tables  # noqa: PLC0415
    from x2localizer.evaluate.entrants import entrants  # noqa: PLC0415

    source = open_dataset(data)
    with _progress() as report:
        rows, fine, drawn, gallery = protocols.random_start_rows(
            [e for m in models for e in entrants(m)], source, split, work, report
        )
    if not rows:
        raise UserError("A random start needs a model that can encode.", "Name a run, a checkpoint or a bundle.")
    cells, fine_cells = tables.prefix_cells(rows, gallery), tables.fine_cells(fine)
    videos = len(next(iter(rows[0].ranks.values())))
    values = {
        "videos": videos, "gallery": gallery, "rows": tables.to_values(cells), "fine": tables.to_values(fine_cells),
        "starts": {str(budget): starts.tolist() for budget, starts in drawn.items()},
    }  # fmt: skip
    text = _heading(split, videos, gallery) + tables.prefix_text(cells) + "\n\n" + tables.fine_text(fine_cells)
    return values, text, {}


def _long_range(models: list[str], data: Path, split: str, work: Path) -> tuple[dict[str, Any], str, dict[str, Any]]:
    from x2localizer.datasets.dataset import open_dataset  # noqa: PLC0415
    from x2localizer.encode import open_bundle  # noqa: PLC0415
    from x2localizer.evaluate import long_range  # noqa: PLC0415

    if len(models) > 1:
        raise UserError("The protocol long-range takes one bundle.", "Run the command once for each.")
    source, bundle = open_dataset(data), open_bundle(models[0])
    rides = long_range.long_rides(source, split)
    with console.status("indexing ...") as status:
        gallery = long_range.split_gallery(source, split, bundle, work, status.update)
    with progress_bar("rides") as progress:
        found = long_range.run_arms(source, rides, gallery, bundle, long_range.all_arms(), progress)
    result = long_range.summarize(rides, found)
    values = {"bundle": bundle.fingerprint, "gallery": len(gallery.regions), **asdict(result)}
    heading = f"{split}: {len(rides)} long drives, one gallery of {len(gallery.regions):,} regions"
    return (
        values,
        f"{heading}; 95% intervals over drives\n\n" + long_range.table_text(result),
        long_range.panels(result),
    )


def _write_rankings(model: str, data: Path, split: str, work: Path, path: Path) -> None:
    from x2localizer.datasets.dataset import open_dataset  # noqa: PLC0415
    from x2localizer.evaluate.entrants import entrants  # noqa: PLC0415
    from x2localizer.evaluate.protocols import score_parts  # noqa: PLC0415
    from x2localizer.evaluate.rankings import write_rankings  # noqa: PLC0415

    write_rankings(path, score_parts(entrants(model)[-1], open_dataset(data), split, work))
    say(f"rankings in {path}")


def _heading(split: str, videos: int, gallery: int) -> str:
    return f"{split}: {videos:,} videos, {gallery:,} regions; 95% intervals by bootstrap over videos, seed 42\n\n"


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    with progress_bar("encoding") as progress:
        yield lambda _, done, total: progress(done, total)
