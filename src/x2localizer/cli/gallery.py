"""``x2l gallery``: look after galleries."""

from __future__ import annotations

import typer

from x2localizer.cli import share

app = typer.Typer(help="Look after galleries.", no_args_is_help=True)
app.command("export")(share.export)
app.command("import")(share.import_file)
app.command("merge")(share.merge)
app.command("cut")(share.cut)
