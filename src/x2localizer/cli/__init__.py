"""One command, ``x2l``, with verbs; each verb calls one function that is as easy to call from Python."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from rich.console import Console

from x2localizer import __version__
from x2localizer.cli import (
    bench,
    benchmark,
    bundle,
    check,
    demo,
    evaluate,
    gallery,
    inspect,
    learn,
    live,
    localize,
    odometry,
    prepare,
    serve,
    town,
)
from x2localizer.errors import UserError, lacks_memory

INTERRUPTED = 130
"""The exit code of Ctrl-C; typer turns the interrupt into it."""

OUT_OF_MEMORY = (
    b"error: There is not enough memory.\n  next: Close other programs, or try smaller sizes or fewer --workers.\n"
)

app = typer.Typer(
    help="Where is the camera? Cross-view video geo-localization, without GPS.\n\n"
    "First steps: x2l demo, then x2l town build --out town.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(town.app, name="town")
app.add_typer(prepare.app, name="prepare")
app.add_typer(bench.app, name="bench")
app.add_typer(benchmark.app, name="benchmark")
app.add_typer(gallery.app, name="gallery")
app.add_typer(bundle.app, name="bundle")
app.command("check")(check.check)
app.command("inspect")(inspect.inspect)
app.command("index")(localize.index)
app.command("localize")(localize.localize)
app.command("odometry")(odometry.odometry)
app.command("calibrate")(localize.calibrate)
app.command("serve")(serve.serve)
app.command("live")(live.live)
app.command("demo")(demo.demo)
app.command("train")(learn.train)
app.command("train-decoder")(learn.train_decoder)
app.command("import")(learn.import_weights)
app.command("export")(learn.export)
app.command("evaluate")(evaluate.evaluate)
app.command("encode")(learn.encode)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"x2l {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options before the verb."""
    if debug:
        os.environ["X2L_DEBUG"] = "1"


def main() -> None:
    """Run the command line; errors become two lines and an exit code."""
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:
            _fail("Interrupted.", "Run the same command again; where work can resume, it does.", INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)
    except UserError as problem:
        _fail(problem.what, problem.remedy, problem.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _fail("Interrupted.", "Run the same command again; where work can resume, it does.", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as problem:
        where = "" if problem.filename is None else f": {problem.filename}"
        _fail(f"{problem.strerror or problem}{where}.", "Check the disk and the path.", 2)
    except MemoryError:
        _fail_without_memory()
    except Exception as problem:
        if lacks_memory(problem):
            _fail_without_memory()
        if hasattr(problem, "show") and hasattr(problem, "exit_code"):  # a wrong option explains itself
            problem.show()
            sys.exit(problem.exit_code)
        _fail(f"Unexpected {type(problem).__name__}: {problem}", "This is a bug; x2l --debug ... shows where.", 1)


def _fail_without_memory() -> None:
    """Say so by bytes that are there already: what formats text may be what there is no memory for."""
    if os.environ.get("X2L_DEBUG"):
        raise  # noqa: PLE0704 - called from the handlers above
    os.write(2, OUT_OF_MEMORY)
    sys.exit(2)


def _fail(what: str, remedy: str, code: int) -> None:
    if os.environ.get("X2L_DEBUG") and sys.exc_info()[0] is not None:
        raise  # noqa: PLE0704 - called from the handlers above
    console = Console(stderr=True, highlight=False)
    console.print("error: ", style="bold red", end="")
    console.print(what, markup=False, soft_wrap=True)
    console.print("  next: ", style="bold", end="")
    console.print(remedy, markup=False, soft_wrap=True)
    sys.exit(code)
