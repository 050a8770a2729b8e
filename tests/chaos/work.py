"""The commands that are disturbed, on material that is made once, and a digest of what each leaves behind."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.small_model import SETTINGS
from helpers.small_world import TINY
from helpers.tiny_bundle import TINY_BUNDLE
from x2localizer.config import Settings, SplitSettings, TownSettings
from x2localizer.town.folder import save_drive, save_town
from x2localizer.town.town import build_town

TESTS = Path(__file__).parent.parent
POSES = [
    word
    for name, poses in (("start_poses", 4000), ("most_poses", 4000), ("unclear_poses", 2000), ("least_poses", 1000))
    for word in ("--set", f"{name}={poses}")
]  # fmt: skip
"""Few poses: what is tested is what survives, not how well it localizes."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that is disturbed.

    words: of the command line, given the folder of the material and the one to write to.
    digest: of what it leaves in that folder; runs that nothing disturbed agree on it.
    torch: needs the extra [train].
    """

    name: str
    words: Callable[[Path, Path], list[str]]
    digest: Callable[[Path], str]
    torch: bool = False


def _index(material: Path, out: Path) -> list[str]:
    return [
        "index", str(material / "aerial.tif"), "--roads", str(material / "roads.geojson"), "--bundle", str(TINY_BUNDLE),
        "--out", str(out / "gallery"), "--codes", "tiles,regions",
    ]  # fmt: skip


def _dataset(material: Path, out: Path) -> list[str]:
    return ["town", "dataset", "--preset", str(material / "dataset.toml"), "--out", str(out / "data"), "--workers", "1"]


def _localize(material: Path, out: Path) -> list[str]:
    return [
        "localize", str(material / "drive.mp4"), "--gallery", str(material / "gallery"), "--bundle", str(TINY_BUNDLE),
        "--out", str(out / "track"), "--formats", "jsonl,csv,gpx,geojson", *POSES,
    ]  # fmt: skip


def _train(material: Path, out: Path) -> list[str]:
    words = [
        "train",
        "--preset",
        str(material / "train.toml"),
        "--data",
        str(material / "data"),
        "--out",
        str(out / "run"),
    ]
    return [*words, "--stages", "image,full"]


def gallery_digest(out: Path) -> str:
    """Everything that a gallery answers, in an order that does not depend on how it was written."""
    from x2localizer.gallery import open_gallery

    gallery = open_gallery(out / "gallery")
    digest = hashlib.sha256()
    for block in sorted(gallery.tile_blocks(), key=lambda block: (block.y, block.x)):
        digest.update(f"{block.x},{block.y}".encode() + block.codes.tobytes() + block.valid.tobytes())
    digest.update(gallery.roads().points_deg.tobytes())
    digest.update(repr([(len(part.whole), part.whole.tobytes()) for part in gallery.region_sets()]).encode())
    digest.update(repr((len(gallery.regions), gallery.manifest.unfinished())).encode())
    return digest.hexdigest()


def files_digest(out: Path) -> str:
    """All files of a folder, but for locks and what is named after the moment or the folder."""
    digest = hashlib.sha256()
    for path in sorted(path for path in out.rglob("*") if path.is_file() and path.name != ".lock"):
        if path.name != "dataset.json":  # it says which command made it, with its folder
            digest.update(str(path.relative_to(out)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _run_digest(out: Path) -> str:
    from x2localizer.learn.checkpoint import load_checkpoint

    last = load_checkpoint(out / "run" / "full" / "last.safetensors")
    best = load_checkpoint(out / "run" / "full" / "best.safetensors")
    return last.fingerprint + best.fingerprint


COMMANDS = (
    Command("index", _index, gallery_digest),
    Command("dataset", _dataset, files_digest),
    Command("localize", _localize, files_digest),
    Command("train", _train, _run_digest, torch=True),
)


def prepare(material: Path) -> None:
    """Make what the commands read: a town, a drive, a gallery, a dataset."""
    from x2localizer.datasets.town import make_dataset
    from x2localizer.encoders import open_bundle
    from x2localizer.gallery import index

    town = build_town(5, TownSettings(tiles=16, pixels_per_tile=64))
    save_town(town, material)
    save_drive(town, material, 1, 12.0, fps=5, height=96, width=160)
    index(material / "aerial.tif", open_bundle(TINY_BUNDLE), material / "gallery", roads=[material / "roads.geojson"])
    few = SplitSettings(towns=1, first_seed=0, grid=False, videos_per_town=2)
    small = TINY.model_copy(update={
        "train": few.model_copy(update={"towns": 2}), "val": few.model_copy(update={"first_seed": 5000}),
        "test": few.model_copy(update={"first_seed": 9000}),
    })  # fmt: skip
    (material / "dataset.toml").write_text(to_toml(small))
    (material / "train.toml").write_text(to_toml(SETTINGS))
    make_dataset(small, material / "data", "chaos", workers=1)


def to_toml(settings: Settings) -> str:
    """Settings as a preset."""
    return "\n".join(_lines(settings.model_dump(mode="json", exclude_none=True), "")) + "\n"


def _lines(values: dict[str, Any], path: str) -> list[str]:
    plain = {key: value for key, value in values.items() if not isinstance(value, dict)}
    lines = [f"[{path}]"] if path and plain else []
    lines += [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
    for key, value in values.items():
        if isinstance(value, dict):
            lines += _lines(value, f"{path}.{key}" if path else key)
    return lines


def environment(**more: str) -> dict[str, str]:
    """For a process that runs this checkout's package."""
    paths = [str(TESTS / "chaos" / "site"), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(paths), **more}


X2L = [sys.executable, "-c", "from x2localizer.cli import main; main()"]
