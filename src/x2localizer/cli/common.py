"""What several verbs share: progress bars, sizes, JSON."""

from __future__ import annotations

import json
import os
import platform
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from x2localizer.errors import ConfigError, UserError

if TYPE_CHECKING:  # heavy, and not needed for --help
    from x2localizer.gallery.checksums import Verify
    from x2localizer.sources.imagery import Access

console = Console(highlight=False)
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
FovOption = Annotated[
    str | None,
    typer.Option(
        help="Horizontal field of view in degrees, or auto to estimate it; by default what the file says, or 65."
    ),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a config key; may be repeated.")
]

NetworkOption = Annotated[
    bool, typer.Option("--network", help="Imagery may be on the network, or name servers (VRT, WMS).")
]
AllowPathOption = Annotated[
    list[Path] | None,
    typer.Option("--allow-path", metavar="DIR", help="A VRT may name files in this folder, too; may be repeated."),
]
VerifyOption = Annotated[
    str, typer.Option(help="Compare the gallery's files with their checksums: used, full (all of them now), or none.")
]


def access_of(network: bool, allow_path: list[Path] | None) -> Access:
    """What imagery may reach, from the command line; it is decoded in a process of its own."""
    from x2localizer.sources.imagery.access import Access  # noqa: PLC0415

    return Access(network, tuple(allow_path or ()), own_process=True)


def verify_of(text: str) -> Verify:
    """How to check a gallery, from the command line."""
    if text not in ("used", "full", "none"):
        raise ConfigError(f"A gallery cannot be verified '{text}'.", "Use --verify used, full or none.")
    return text  # type: ignore[return-value]


def _use_device(context: typer.Context, name: str) -> str:
    """Choose the device for everything that this process and those it starts encode, and say which one it is."""
    if context.resilient_parsing:  # completion of a command line
        return name
    from x2localizer.encoders.device import CPU, VARIABLE, choose_device  # noqa: PLC0415

    device = choose_device(name)
    if name != "auto":
        os.environ[VARIABLE] = name
    if name != "auto" or device.provider != CPU.provider:
        announce(f"encoding on {device}")
    return name


DeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        envvar="X2L_DEVICE",
        callback=_use_device,
        help="Where encoders run: auto, cpu, cuda, tensorrt, coreml, openvino or directml.",
    ),
]


def fov_of(text: str | None) -> float | Literal["auto"] | None:
    """A field of view from the command line."""
    if text is None or text == "auto":
        return text  # type: ignore[return-value]
    try:
        return float(text)
    except ValueError as problem:
        raise ConfigError(f"A field of view of '{text}' is no number.", "Use degrees, or --fov auto.") from problem


def progress_columns() -> tuple[ProgressColumn, ...]:
    """What every bar shows: name, bar, count, time spent and time left."""
    return (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip


FIRST_LINE_S = 2.0
"""Seconds until a log shows that work has begun."""
Advance = Callable[..., None]
"""Called with (done, total) and, where the work has several parts, the name of the part."""


@contextmanager
def progress_bar(what: str, *, quiet: bool = False) -> Iterator[Advance]:
    """A bar with count and time left on a terminal, else a line now and then; call it with (done, total)."""
    terminal = Console(stderr=True)
    if quiet:
        yield lambda done, total, part=what: None
    elif terminal.is_terminal:
        with Progress(*progress_columns(), console=terminal) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total, part=what: bar.update(task, completed=done, total=total, description=part)
    else:
        # Opening a gallery or loading a model may take long before the first step; a wrong name is answered at once.
        first = threading.Timer(FIRST_LINE_S, lambda: terminal.print(f"{what}: starting", highlight=False))
        first.daemon = True
        first.start()
        try:
            yield _line_now_and_then(what, terminal, first.cancel)
        finally:
            first.cancel()


def _line_now_and_then(what: str, console: Console, begun: Callable[[], None]) -> Advance:
    """In a log a bar is noise: a line every 10 s, and one at the end of each part; ``begun`` is called at each step."""
    last = time.monotonic() - 9.0

    def report(done: int, total: int | None, part: str = what) -> None:
        nonlocal last
        begun()
        if done == total or time.monotonic() - last >= 10.0:
            last = time.monotonic()
            console.print(f"{part} {done:,}" + (f" of {total:,}" if total else ""), highlight=False)

    return report


@contextmanager
def status_lines(first: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A spinner with a line of text; call it to change the text. Without a terminal, each text is printed as a line."""
    terminal = Console(stderr=True, highlight=False, quiet=quiet)
    if not terminal.is_terminal:
        terminal.print(first, markup=False, soft_wrap=True)
        yield lambda text: terminal.print(text, markup=False, soft_wrap=True)
        return
    with terminal.status(escape(first)) as status:
        yield lambda text: status.update(escape(text))


def announce(text: str) -> None:
    """A line about what comes, beside the results that go to standard output."""
    Console(stderr=True, highlight=False).print(text, markup=False, soft_wrap=True)


def split_words(text: str) -> list[str]:
    """Words from a list like 'gpx,report'."""
    return [word.strip() for word in text.split(",") if word.strip()]


def parse_size(text: str) -> tuple[int, int]:
    """Height and width from '216x384'."""
    match = re.fullmatch(r"(\d{2,4})x(\d{2,4})", text.strip())
    fits = match is not None and not int(match[1]) % 2 and not int(match[2]) % 2
    if match is None or not fits or int(match[1]) > 2160 or int(match[2]) > 3840:
        raise ConfigError(f"'{text}' is not a size.", "Write height x width in even pixels, 16x16 to 2160x3840.")
    return int(match[1]), int(match[2])


def show_values(title: str, values: dict[str, object], as_json: bool, notes: dict[str, str] | None = None) -> None:
    """Values as a table, or as one JSON object."""
    if as_json:
        typer.echo(json.dumps(values))
        return
    table = Table(title=escape(title), title_justify="left", show_header=False)
    for name, value in values.items():
        shown = f"{value:,.4g}" if isinstance(value, float) else str(value)
        cells = (escape(name), escape(shown))
        table.add_row(*cells, *([notes.get(name, "")] if notes else []))
    console.print(table)


def show_rows(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Labels and values as a table."""
    table = Table(title=escape(title), title_justify="left", show_header=False)
    for name, value in rows:
        table.add_row(escape(name), escape(value))
    console.print(table)


def command_line(*words: object) -> str:
    """A command as a user would type it, to be stored with what it makes."""
    return " ".join(["x2l", *(str(word) for word in words)])


def machine() -> str:
    """What this machine is, for figures that depend on it."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        found = re.search(r"model name\s*:\s*(.+)", info.read_text(encoding="utf-8", errors="replace"))
        name = found[1] if found else name
    return f"{os.cpu_count()} cores {name}"


def today() -> str:
    """The date of a measurement."""
    return datetime.now(UTC).date().isoformat()


def measured(values: dict[str, Any]) -> dict[str, Any]:
    """Results with what they depend on: the seed, the machine, the date."""
    return {"seed": 42, "machine": machine(), "date": today(), **values}


def say(text: str) -> None:
    """A line for people; paths in it are never broken, so that they can be copied."""
    console.print(text, markup=False, soft_wrap=True)


def needs_training() -> None:
    """A clear word where the extra is missing."""
    try:
        import torch  # noqa: F401, PLC0415
    except ImportError as problem:
        raise UserError(
            "Training needs torch, which is not installed.", "pip install 'x2localizer[train]'"
        ) from problem


def needs_onnx() -> None:
    """A clear word where the extra is missing."""
    try:
        import onnx  # noqa: F401, PLC0415
    except ImportError as problem:
        raise UserError(
            "Changing bundles needs onnx, which is not installed.", "pip install 'x2localizer[quantize]'"
        ) from problem
