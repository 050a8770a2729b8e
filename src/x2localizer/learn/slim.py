"""The part of a bundle that a camera needs: frames are encoded there, tiles were encoded when the gallery was made."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import onnx

from x2localizer.encoders import Bundle, Part, open_bundle
from x2localizer.encoders.bundle import BESIDE, files_fingerprint
from x2localizer.errors import BundleError
from x2localizer.files import write_text
from x2localizer.learn.graph_files import SharedWeights, new_bundle, write_graph


def slim_bundle(source: Bundle, out: Path, parts: tuple[Part, ...] = ("frame",)) -> Bundle:
    """Write a bundle with some parts of another and their weights alone, and open it.

    Its codes are those of the source, so it keeps the fingerprint, and fits the same galleries.
    """
    missing = [part for part in parts if part not in source.spec.parts]
    if missing:
        raise BundleError(f"The bundle {source.root} has no graph '{missing[0]}'.", "Use a bundle that has it.")
    manifest: dict[str, Any] = json.loads((source.root / "bundle.json").read_text(encoding="utf-8"))
    with new_bundle(out) as work:
        shared = SharedWeights()
        for part in parts:
            write_graph(onnx.load(source.root / f"{part}.onnx"), work / f"{part}.onnx", shared)
        (work / "weights.bin").write_bytes(bytes(shared.data))
        manifest.pop("weights", None)
        manifest.setdefault("source", source.fingerprint)
        manifest |= {
            "capabilities": asdict(replace(source.capabilities, parts=parts)),
            "files": files_fingerprint(work, parts),
        }
        write_text(work / "bundle.json", json.dumps(manifest, indent=2) + "\n")
        for name in BESIDE:
            if (source.root / name).is_file():
                shutil.copyfile(source.root / name, work / name)
        open_bundle(work, device="cpu")
    return open_bundle(out)
