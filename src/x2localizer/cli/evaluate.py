"""``x2l evaluate``: the protocols of the benchmark, on a dataset with its truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from x2localizer.cli.common import DeviceOption, JsonOption, measured, progress_bar, say, split_words
from x2localizer.errors import ConfigError, UserError


def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(help="Training runs, checkpoints, bundles, or rankings files. A+B: regions by A, frames by B."),
    ],
    data: Annotated[Path, typer.Option(help="A dataset.")],
    protocol: Annotated[
        Literal[
            "coarse", "fine", "random-start", "long-range", "tracking", "faults", "streams", "compression", "variants"
        ],
        typer.Option(help="What to measure."),
    ] = "coarse",
    split: Annotated[str, typer.Option(help="val while choosing settings, test for published figures.")] = "test",
    out: Annotated[Path | None, typer.Option(help="Folder for results.json, table.md and plots.")] = None,
    rankings: Annotated[Path | None, typer.Option(help="coarse: also write the first model's rankings.")] = None,
    gallery: Annotated[
        Literal["auto", "imagery", "dataset"],
        typer.Option(help="long-range: the split's imagery, or the dataset's own regions and tiles."),
    ] = "auto",
    tracked: Annotated[
        bool, typer.Option("--tracking/--no-tracking", help="long-range: also measure tracking by odometry.")
    ] = True,
    keep_first: Annotated[
        bool, typer.Option("--keep-first", help="Rankings files: of an item that is listed twice, the first counts.")
    ] = False,
    foreign: Annotated[
        Path | None, typer.Option(help="tracking: a dataset of other ground, whose drives are off the map.")
    ] = None,
    arms: Annotated[
        list[str] | None,
        typer.Option(help="tracking: only arms with this in their name; long-range: these; may be repeated."),
    ] = None,
    foreign_arms: Annotated[
        list[str] | None, typer.Option(help="tracking: arms off the map; all by default; may be repeated.")
    ] = None,
    rides: Annotated[
        int | None, typer.Option(help="tracking, faults: only so many drives, to try it out.", min=1)
    ] = None,
    onset: Annotated[
        Literal["both", "start", "halfway"], typer.Option(help="faults: when they begin in a drive.")
    ] = "both",
    workers: Annotated[int, typer.Option(help="tracking, faults: processes.", min=1)] = 2,
    budgets: Annotated[
        str | None, typer.Option(help="coarse, fine, variants: so many keyframes, such as 1,8; else 1,2,4,8.")
    ] = None,
    similarity: Annotated[
        str | None, typer.Option(help="variants: rank by this one, such as s_mix; s_path where models can by default.")
    ] = None,
    decoder: Annotated[
        Path | None, typer.Option(help="fine, long-range: also match by this decoder; see x2l train-decoder.")
    ] = None,
    work: Annotated[Path, typer.Option(help="Folder for codes and galleries, kept for the next run.")] = Path(
        "evaluation"
    ),
    device: DeviceOption = "auto",
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="tracking, faults: override a setting of the tracker."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure models on a dataset, side by side on the same videos and galleries.

    coarse: which region holds the video, given its first 1, 2, 4 and 8 keyframes? With the paper's claims about the
    first run. fine: then each frame among the tiles of the 10 best regions. random-start: the same from anywhere in the
    video. long-range: drives that leave their first region, searched once, with SWRL, and followed by odometry, tiles
    and roads. tracking: only the last of these. faults: the same with frames that freeze, odometry that lies or imagery
    that is shifted: how often is a position stated that is wrong? streams: the regions again, by other frames than the
    8 keyframes: more of them, or those that add something. compression: smaller bundles against the first one: recall,
    milliseconds, bytes. variants: models against the first one: the regions they find, and what each gains.

    A rankings file (CSV or Parquet: query, item, score, and budget) is scored by the same code.

    Examples:

      x2l evaluate runs/town --data data/standard --split val

      x2l evaluate town their-rankings.csv --data data/standard

      x2l evaluate town --protocol long-range --data data/standard --out results

      x2l evaluate town --protocol fine --decoder decoders/town --data data/standard --split val

      x2l evaluate town --protocol tracking --data data/standard --foreign data/foreign --split val

      x2l evaluate town --protocol tracking --data data/standard --arms "sensors, tiles"

      x2l evaluate eye --protocol tracking --data data/standard --split val --set tile_weight=0.7

      x2l evaluate town town-int8 --protocol compression --data data/standard --split val

      x2l evaluate runs/mine runs/without-nights --protocol variants --data data/standard --split val

      x2l evaluate eye --protocol faults --data data/standard --rides 18
    """
    if rankings is not None and (rankings.suffix != ".parquet" or Path(models[0]).suffix in (".csv", ".parquet")):
        raise UserError(
            "Rankings are written as Parquet, for a first model that can encode.",
            "x2l evaluate MODEL --rankings ours.parquet ...",
        )
    from x2localizer.config import TrackSettings, from_overrides  # noqa: PLC0415
    from x2localizer.datasets.dataset import open_dataset  # noqa: PLC0415
    from x2localizer.evaluate.entrants import entrants  # noqa: PLC0415
    from x2localizer.evaluate.protocols import BUDGETS, score_parts  # noqa: PLC0415
    from x2localizer.evaluate.rankings import write_rankings  # noqa: PLC0415
    from x2localizer.evaluate.run import run_protocol  # noqa: PLC0415

    source = open_dataset(data)
    with progress_bar("encoding", quiet=as_json) as progress:
        result = run_protocol(
            protocol, models, source, split, work, lambda what, done, total: progress(done, total, what),
            gallery=gallery, tracked=tracked, keep_first=keep_first,
            foreign=None if foreign is None else open_dataset(foreign), arms=arms or (),
            foreign_arms=foreign_arms or (), most_rides=rides, workers=workers, onset=onset, decoder=decoder,
            budgets=BUDGETS if budgets is None else _budgets(budgets), similarity=similarity,
            settings=from_overrides(TrackSettings, overrides or []),
        )  # fmt: skip
    values = measured({"protocol": protocol, "data": data.name, "split": split, **result.values})
    files = [] if out is None else result.save(out, values)
    if rankings is not None:
        write_rankings(rankings, score_parts(entrants(models[0])[-1], source, split, work))
        say(f"rankings in {rankings}")
    if as_json:
        typer.echo(json.dumps(values))
        return
    typer.echo(result.text)
    if files:
        say("\n  " + ", ".join(str(file) for file in files))


def _budgets(text: str) -> tuple[int, ...]:
    """Numbers of keyframes from '1,8'."""
    words = split_words(text)
    if not words or not all(word.isdigit() and int(word) > 0 for word in words):
        raise ConfigError(f"'{text}' is not a list of budgets.", "Write numbers of keyframes, such as 1,8.")
    return tuple(sorted({int(word) for word in words}))
