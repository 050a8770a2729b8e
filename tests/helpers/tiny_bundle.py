"""The recipe of tests/data/tiny-bundle: small untrained towers, exported once so that most tests need no torch.

Run ``make tiny-bundle`` to export it again, for example after a change to the bundle format.
"""

from __future__ import annotations

from pathlib import Path

from x2localizer.config import BackboneSettings, ModelSettings, TrainSettings

TINY_BUNDLE = Path(__file__).parent.parent / "data" / "tiny-bundle"
TINY_MODEL = ModelSettings(
    backbone=BackboneSettings(width=24, depth=2, heads=2, patch=16), frame_height=32, frame_width=64, tile_px=32,
    dim=16, adapter_ratio=0.5,
)  # fmt: skip


def save_tiny_checkpoint(path: Path) -> Path:
    """Write a checkpoint of towers with random weights, the same on every run; returns ``path``. Needs torch."""
    import torch

    from x2localizer.learn.checkpoint import save_checkpoint
    from x2localizer.learn.model import Model

    torch.manual_seed(0)
    save_checkpoint(path, Model(TINY_MODEL), TrainSettings(model=TINY_MODEL), {"stage": "image"})
    return path


def export_tiny_bundle(checkpoint: Path, out: Path) -> None:
    """Export the checkpoint as a bundle into the folder ``out``, replacing what was there. Needs torch."""
    from x2localizer.learn.checkpoint import load_checkpoint
    from x2localizer.learn.export import export_bundle

    export_bundle(load_checkpoint(checkpoint), out)


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        export_tiny_bundle(save_tiny_checkpoint(Path(folder) / "tiny.safetensors"), TINY_BUNDLE)
