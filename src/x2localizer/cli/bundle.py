"""``x2l bundle``: what to do with bundles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from x2localizer.cli.common import JsonOption, needs_onnx, say, show_values
from x2localizer.config import RELEASED

app = typer.Typer(help="Look into bundles, and cut them down for small machines.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """What to do with bundles."""


@app.command(epilog="Example: x2l bundle info eye")
def info(
    bundle: Annotated[str, typer.Argument(help="A bundle: the name of a shipped one, or a folder.")] = RELEASED,
    as_json: JsonOption = False,
) -> None:
    """What is in a bundle: its sizes, its parts, its precision."""
    from x2localizer.encoders import open_bundle  # noqa: PLC0415

    opened = open_bundle(bundle)
    spec, size = opened.spec, sum(path.stat().st_size for path in opened.root.iterdir())
    values: dict[str, object] = {
        "fingerprint": opened.fingerprint, "precision": opened.precision, "parts": ", ".join(spec.parts),
        "bytes": size, "parameters": opened.parameters, "frame": f"{spec.frame_height} x {spec.frame_width}",
        "tile": f"{spec.tile_px} x {spec.tile_px}", "dim": spec.dim, "headings": spec.headings,
        "also accepts galleries of": ", ".join(opened.accepts),
    }  # fmt: skip
    show_values(f"bundle {opened.root}", values, as_json)


@app.command(epilog="Example: x2l bundle slim eye --out eye-slim")
def slim(
    bundle: Annotated[str, typer.Argument(help="A bundle: the name of a shipped one, or a folder.")],
    out: Annotated[Path, typer.Option(help="Folder of the slim bundle.")],
) -> None:
    """Keep what x2l localize needs and nothing else: the encoder of frames, and the confidence.

    It fits the galleries of the bundle it was made from. To index imagery, use that one.
    """
    needs_onnx()
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.learn.slim import slim_bundle  # noqa: PLC0415

    source = open_bundle(bundle)
    slimmed = slim_bundle(source, out)
    before, after = (sum(path.stat().st_size for path in root.iterdir()) for root in (source.root, slimmed.root))
    say(f"bundle {slimmed.fingerprint} in {out}, {after / 1e6:.1f} MB instead of {before / 1e6:.1f} MB")
    say(f"next: x2l localize VIDEO --gallery GALLERY --bundle {out}")
