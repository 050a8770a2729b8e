"""``x2l benchmark``: train what is missing, measure, and write the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from x2localizer.cli.common import SetOption, measured, needs_training, progress_bar, say, status_lines
from x2localizer.errors import UserError
from x2localizer.files import read_json, write_text
from x2localizer.types import Progress

if TYPE_CHECKING:  # heavy, and not needed for --help
    from x2localizer.evaluate.run import LongRangeGallery, Protocol

TABLES = (
    "coarse", "fine", "random-start", "ablations", "beyond", "sensitivity", "candidates", "heatmaps", "long-range",
    "long-range-dataset", "tracking", "seeds"
)  # fmt: skip
app = typer.Typer(help="The paper's tables, from training to page.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The paper's tables."""


@app.command(epilog="Example: x2l benchmark town --data data/standard")
def town(
    data: Annotated[Path, typer.Option(help="The standard dataset.")] = Path("data/standard"),
    foreign: Annotated[
        Path, typer.Option(help="The foreign dataset: drives off the map, for tracking. Left out if it is not there.")
    ] = Path("data/foreign"),
    runs: Annotated[Path, typer.Option(help="Folder of the training runs.")] = Path("runs"),
    out: Annotated[Path, typer.Option(help="Folder for benchmark.md and results/.")] = Path("docs"),
    work: Annotated[Path, typer.Option(help="Folder for embeddings and galleries.")] = Path("evaluation"),
    train: Annotated[bool, typer.Option(help="Train what is missing: hours. Else measure what is there.")] = True,
    dry: Annotated[bool, typer.Option("--dry", help="Only print what is missing, as commands.")] = False,
    again: Annotated[list[str] | None, typer.Option(help="Measure this table again, such as coarse.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Train only this run, such as 'tau_f 0.005' or town-seed-43, and measure its table again."),
    ] = None,
    from_bundle: Annotated[
        bool, typer.Option("--from-bundle", help="Take stage 1 from the bundle town, instead of training it for hours.")
    ] = False,
    overrides: SetOption = None,
    page_only: Annotated[bool, typer.Option("--page-only", help="Only write the page from the results.")] = False,
) -> None:
    """The paper's tables on synthetic towns: trains and measures what is missing, and writes docs/benchmark.md.

    A training that was stopped resumes. With --only, one after the other can be trained when there is time for it: rows
    that were measured before on the same clips are kept. --set applies to all trainings of this command.
    """
    from x2localizer.evaluate import benchmark, page, plan  # noqa: PLC0415

    results = out / "results"
    unknown = sorted(set(again or []) - set(TABLES))
    if unknown:
        raise UserError(f"There is no table {unknown[0]}.", f"They are: {', '.join(TABLES)}.")
    chosen = plan.PLAN if not only else tuple(plan.planned_as(name) for name in only)
    if dry:
        for planned in plan.missing(runs, chosen, stage_1=from_bundle):
            spent = plan.expected_s(runs, planned)
            say(
                planned.command(str(data), str(runs), overrides or [])
                + (f"  # {spent / 60:.0f} minutes" if spent else "")
            )
        return
    if not page_only:
        needs_training()
        if from_bundle:
            benchmark.take_stage_1("town", runs)
        if train:
            with status_lines("training ...") as report:
                benchmark.train_missing(data, runs, chosen, report, overrides or [])
            for planned in chosen if only else ():
                say(f"{planned.name}: trained in {(plan.seconds_of(runs, planned) or 0.0) / 60:.1f} minutes")
        _measure(
            data, foreign, runs, results, work, [*(again or []), *(plan.table_of(run) for run in chosen if only)],
            [plan.table_of(run) for run in chosen] if only else TABLES,
        )  # fmt: skip
    page.write_page(results, out / "benchmark.md")
    say(f"page: {out / 'benchmark.md'}")


def _measure(
    data: Path, foreign: Path, runs: Path, results: Path, work: Path, again: list[str], wanted: Sequence[str]
) -> None:
    """The wanted tables that are not there yet; embeddings that are there are not made again."""
    from x2localizer.datasets.dataset import open_dataset  # noqa: PLC0415
    from x2localizer.evaluate import benchmark, page_clips, plan, seeds  # noqa: PLC0415
    from x2localizer.evaluate.completed import completed  # noqa: PLC0415
    from x2localizer.evaluate.run import run_protocol  # noqa: PLC0415
    from x2localizer.show.plots import save_heatmaps  # noqa: PLC0415 - matplotlib takes a second to load

    main = plan.trained(runs, (*plan.MAIN[1:], *plan.REGION_BASELINES))
    released = str(runs / "town" / "progressive" / "best.safetensors")
    ours = [file for file in (str(runs / plan.STAGE_2), released) if Path(file).is_file()]
    frames = [*ours, *plan.trained_frame_baselines(runs)]
    needed = [name for name in wanted if name not in ("coarse", "fine", "seeds")]
    if needed and not Path(released).is_file():
        raise UserError(f"There is no {released}.", "Train it: the same command without --no-train.")
    mix = ("s_mix",)
    garet = benchmark.exported_garet(runs)

    elsewhere = open_dataset(foreign) if foreign.exists() else None

    order = [*(run.name for run in plan.PLAN), plan.HIERARCHICAL_RUN]

    def protocol(name: Protocol, models: list[str], gallery: LongRangeGallery = "auto") -> Callable[[], None]:
        def step() -> None:
            with progress_bar("encoding") as progress:
                result = run_protocol(
                    name, models, open_dataset(data), "test", work,
                    lambda what, done, total: progress(done, total, what), gallery=gallery, tracked=False,
                    foreign=elsewhere,
                )  # fmt: skip
            folder = results / (f"{name}-dataset" if gallery == "dataset" else name)
            values = measured({"protocol": name, "split": "test", **result.values})
            values = completed(values, folder / "results.json", order)
            rows = {"coarse": page_clips.prefix_table, "fine": page_clips.fine_tables}
            text = rows[name](values) if name in rows else result.text
            replace(result, text=text).save(folder, values)

        return step

    def table(
        name: str, measure: Callable[[Progress], dict[str, Any] | None], *, by_run: bool = False
    ) -> Callable[[], None]:
        def step() -> None:
            with progress_bar("encoding") as progress:
                values = measure(lambda what, done, total: progress(done, total, what))
            if values is not None:
                path = results / name / "results.json"
                values = measured({"split": "test", **values})
                if by_run:
                    values = completed(values, path, plan.VARIANT_ORDER)
                write_text(path, json.dumps(values, indent=1) + "\n")

        return step

    def variants(names: list[str], kinds: tuple[str, ...]) -> Callable[[Progress], dict[str, Any] | None]:
        return lambda report: benchmark.measure_variants(names, kinds, data, "test", runs, work, report)

    def heatmaps(report: Progress) -> dict[str, Any]:
        seen = benchmark.qualitative(released, data, "test", work, report)
        save_heatmaps(results / "heatmaps" / "heatmaps.png", seen)
        return {"drawn": [row.title for row in seen]}

    steps = {
        "coarse": protocol("coarse", main),
        "fine": protocol("fine", frames),
        "random-start": protocol("random-start", ours),
        "ablations": table("ablations", variants([plan.WITHOUT, *plan.ABLATIONS], mix), by_run=True),
        "beyond": table("beyond", variants(list(plan.BEYOND), (*mix, "s_best")), by_run=True),
        "sensitivity": table("sensitivity", variants(list(plan.SENSITIVITY), mix), by_run=True),
        "candidates": table(
            "candidates", lambda report: benchmark.measure_candidates(released, data, "test", work, report)
        ),
        "heatmaps": table("heatmaps", heatmaps),
        "long-range": protocol("long-range", ["town", *garet]),
        "long-range-dataset": protocol("long-range", ["town", *garet], "dataset"),
        "tracking": protocol("tracking", ["town"]),
        "seeds": table(
            "seeds",
            lambda report: seeds.measure_seeds(
                data, "test", runs, work, report, _read(results / "seeds" / "results.json")
            ),
        ),
    }
    for name in (name for name in TABLES if name in wanted):
        if (results / name / "results.json").is_file() and name not in again:
            say(f"{name}: measured already")
            continue
        say(name)
        steps[name]()


def _read(path: Path) -> dict[str, Any] | None:
    return dict(read_json(path)) if path.is_file() else None
