"""``x2l bench``: measured speeds, as a table or as JSON."""

from __future__ import annotations

import typer

from x2localizer.cli.bench import drives, galleries, models

app = typer.Typer(help="Measure speeds. Every bench prints a table, or with --json one object.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Measure speeds."""


for part in (drives, models, galleries):
    app.add_typer(part.app)
