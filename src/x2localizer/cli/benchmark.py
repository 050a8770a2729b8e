"""``x2l benchmark``: train what is missing, measure, and write the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from x2localizer.cli.common import console, measured, needs_training, progress_bar, say
from x2localizer.cli.evaluate import evaluate
from x2localizer.errors import UserError
from x2localizer.files import write_text

app = typer.Typer(help="The paper's tables, from training to page.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The paper's tables."""


@app.command(epilog="Example: x2l benchmark town --data data/standard")
def town(
    data: Annotated[Path, typer.Option(help="The standard data set.")] = Path("data/standard"),
    runs: Annotated[Path, typer.Option(help="Folder of the training runs.")] = Path("runs"),
    out: Annotated[Path, typer.Option(help="Folder for benchmark.md and results/.")] = Path("docs"),
    work: Annotated[Path, typer.Option(help="Folder for embeddings and galleries.")] = Path("evaluation"),
    train: Annotated[bool, typer.Option(help="Train what is missing: hours. Else measure what is there.")] = True,
    dry: Annotated[bool, typer.Option("--dry", help="Only tell what is missing, as commands.")] = False,
    page_only: Annotated[bool, typer.Option("--page-only", help="Only write the page from the results.")] = False,
) -> None:
    """The paper's tables on the embedded towns: runs whatever is missing, resumable, and writes docs/benchmark.md."""
    from x2localizer.evaluate import benchmark, page  # noqa: PLC0415

    results = out / "results"
    if dry:
        for planned in benchmark.missing(runs):
            say(planned.command(str(data), str(runs)))
        return
    if not page_only:
        needs_training()
        if train:
            with console.status("training ...") as status:
                benchmark.train_missing(data, runs, report=status.update)
        _measure(data, runs, results, work)
    page.write_page(results, out / "benchmark.md")
    say(f"page: {out / 'benchmark.md'}")


def _measure(data: Path, runs: Path, results: Path, work: Path) -> None:
    """Every protocol; embeddings that are there are not made again."""
    from x2localizer.evaluate import benchmark  # noqa: PLC0415

    main = [
        str(runs / planned.name)
        for planned in benchmark.MAIN[1:]
        if (runs / planned.name / planned.stages[-1] / "best.safetensors").is_file()
    ]
    released = str(runs / "town" / "progressive" / "best.safetensors")
    if not Path(released).is_file():
        raise UserError(f"There is no {released}.", "Train it: the same command without --no-train.")
    controls = [str(runs / "town" / "full" / "best.safetensors"), released]
    say("prefix retrieval")
    evaluate(main, data, "coarse", out=results / "coarse", work=work)
    say("coarse to fine")
    evaluate(controls, data, "fine", out=results / "fine", work=work)
    say("random start")
    evaluate(controls, data, "random-start", out=results / "random-start", work=work)
    with progress_bar("variants") as progress:
        report = lambda _, done, total: progress(done, total)  # noqa: E731
        found = {
            "ablations": benchmark.measure_variants(
                list(benchmark.ABLATIONS), ("s_mix",), data, "test", runs, work, report
            ),
            "sensitivity": benchmark.measure_variants(
                list(benchmark.SENSITIVITY), ("s_mix",), data, "test", runs, work, report
            ),
            "beyond": benchmark.measure_variants(
                list(benchmark.BEYOND), ("s_mix", "s_best"), data, "test", runs, work, report
            ),
            "candidates": benchmark.measure_candidates(released, data, "test", work, report),
        }
    for name, values in found.items():
        if values is not None:
            _write(results / name / "results.json", values)
    from x2localizer.show.plots import save_heatmaps  # noqa: PLC0415 - matplotlib takes a second to load

    save_heatmaps(
        results / "heatmaps" / "heatmaps.png", benchmark.qualitative(released, data, "test", work, lambda *_: None)
    )
    _write(results / "heatmaps" / "results.json", {"model": "X²Localizer"})
    say("long range")
    evaluate(["town"], data, "long-range", out=results / "long-range", work=work)


def _write(path: Path, values: dict[str, Any]) -> None:
    write_text(path, json.dumps(measured({"split": "test", **values}), indent=1) + "\n")
