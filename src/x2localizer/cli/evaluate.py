"""``x2l evaluate``: the protocols of the benchmark, on a data set with its truth."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from x2localizer.cli.common import JsonOption, console, machine, needs_training, progress_bar, say, today
from x2localizer.errors import UserError
from x2localizer.files import write_text


def evaluate(
    models: Annotated[list[str], typer.Argument(help="coarse: folders of training runs; long-range: a bundle.")],
    data: Annotated[Path, typer.Option(help="A data set.")],
    protocol: Annotated[Literal["coarse", "long-range"], typer.Option(help="What is measured.")] = "coarse",
    split: Annotated[str, typer.Option(help="val while choosing settings, test for what is published.")] = "test",
    out: Annotated[Path | None, typer.Option(help="Also write the results as JSON; long-range: and a curve.")] = None,
    work: Annotated[Path, typer.Option(help="long-range: folder for the gallery.")] = Path("evaluation"),
    as_json: JsonOption = False,
) -> None:
    """Measure models on a data set.

    coarse: which region holds the video? R@1/5/10/1% at 1, 2, 4 and 8 frames for every stage of some runs, side by
    side, and the paper's claims about the first. long-range: drives that leave their first region, searched once or
    with SWRL.

    Examples:

      x2l evaluate runs/town --data data/standard --split val

      x2l evaluate runs/town runs/town-garet runs/town-deit --data data/standard

      x2l evaluate town --protocol long-range --data data/standard --out long-range.json
    """
    if protocol == "coarse":
        _coarse([Path(model) for model in models], data, split, out, as_json)
        return
    if len(models) > 1:
        raise UserError("The protocol long-range takes one bundle.", "Run the command once for each.")
    _long_range(models[0], data, split, out, work, as_json)


def _coarse(runs: list[Path], data: Path, split: str, out: Path | None, as_json: bool) -> None:
    needs_training()
    from x2localizer.learn import coarse  # noqa: PLC0415

    with console.status("encoding ...") as status:
        rows, gallery = coarse.coarse_rows(runs, data, split, [1, 2, 4, 8], status.update)
    cells, claims = coarse.coarse_table(rows, gallery), coarse.check_claims(rows)
    queries = len(next(iter(rows[0].ranks.values())))
    values = {
        "split": split, "videos": queries, "gallery": gallery, "seed": 42, "machine": machine(), "date": today(),
        "rows": coarse.to_values(cells), "claims": coarse.to_values(claims),
    }  # fmt: skip
    if out is not None:
        write_text(out, json.dumps(values, indent=1) + "\n")
    if as_json:
        typer.echo(json.dumps(values))
        return
    say(f"{split}: {queries} videos, {gallery} regions; 95% bootstrap intervals over videos, seed 42\n")
    typer.echo(coarse.table_text(cells))
    if claims:
        typer.echo("\n" + coarse.claims_text(claims))


def _long_range(model: str, data: Path, split: str, out: Path | None, work: Path, as_json: bool) -> None:
    from x2localizer.config import LocalizeSettings  # noqa: PLC0415
    from x2localizer.datasets.dataset import open_dataset  # noqa: PLC0415
    from x2localizer.encode import open_bundle  # noqa: PLC0415
    from x2localizer.evaluate import long_range  # noqa: PLC0415
    from x2localizer.show.plots import save_curves  # noqa: PLC0415

    source, bundle = open_dataset(data), open_bundle(model)
    rides = long_range.long_rides(source, split)
    with console.status("indexing ...") as status:
        gallery = long_range.split_gallery(source, split, bundle, work, status.update)
    arms = {
        name: LocalizeSettings(policy=policy, matching=matching)
        for matching, suffix in (("path", ""), ("frame", ", frame by frame"))
        for policy, name in (("swrl", f"SWRL{suffix}"), ("once", f"once{suffix}"))
    }
    with progress_bar("rides") as progress:
        found = long_range.run_arms(source, rides, gallery, bundle, arms, progress)
    result = long_range.summarize(rides, found)
    values = {
        "protocol": "long-range", "split": split, "bundle": bundle.fingerprint, "gallery": len(gallery.regions),
        "machine": machine(), "date": today(), **asdict(result),
    }  # fmt: skip
    if out is not None:
        write_text(out, json.dumps(values, indent=1) + "\n")
        save_curves(out.with_suffix(".png"), result.curves, "seconds since the first frame", "% of frames within 80 m")
    if as_json:
        typer.echo(json.dumps(values))
        return
    say(
        f"{split}: {len(rides)} long drives, one gallery of {len(gallery.regions)} regions; 95% intervals over drives\n"
    )
    typer.echo(long_range.table_text(result))
    if out is not None:
        say(f"  {out}\n  {out.with_suffix('.png')}")
