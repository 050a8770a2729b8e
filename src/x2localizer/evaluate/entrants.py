"""What takes part in a benchmark: every stage of a training run, a checkpoint, a bundle, or a rankings file."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from x2localizer.config import STAGES
from x2localizer.encoders import Encoder, open_bundle, shipped
from x2localizer.errors import UserError
from x2localizer.evaluate.coarse import BY_PHI
from x2localizer.evaluate.rankings import SUFFIXES

# What the best checkpoint of a stage is called, with adapters and without.
NAMES = {
    ("image", True): "stage-1 towers", ("full", True): "GAReT's objective", ("progressive", True): "X²Localizer",
    ("image", False): "stage-1 towers", ("full", False): "DeiT", ("progressive", False): "DeiT*",
}  # fmt: skip
# By which similarities it is ranked; the last is the one that finds its candidates.
SIMILARITIES = {
    "image": ("s_f", "s_best"), "full": ("s_best", "s_g", "s_mix"),
    "progressive": (*BY_PHI, "s_best", "s_g", "s_mix"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Entrant:
    """One model with the similarities it is ranked by, or one rankings file."""

    run: str
    model: str
    similarities: tuple[str, ...]
    encoder: Encoder | None
    parameters: int | None
    rankings: Path | None = None
    tau_f: float = 0.01
    """The temperature of s_f that it was trained with."""
    keep_first: bool = False
    """Of a rankings file: whether the first of repeated items counts, instead of an error."""


def entrants(name: str) -> list[Entrant]:
    """What a user named: a run's folder, a checkpoint, a rankings file, or a bundle by name or folder."""
    path = Path(name)
    if path.suffix in SUFFIXES:
        if not path.is_file():
            raise UserError(f"There is no file {path}.", "Name a rankings file, a run, a checkpoint or a bundle.")
        return [Entrant(path.stem, "rankings", ("score",), None, None, path)]
    if path.suffix == ".safetensors":
        return [_of_checkpoint(path.parent.parent.name or path.stem, path)]
    found = [path / stage / "best.safetensors" for stage in STAGES if (path / stage / "best.safetensors").is_file()]
    if found:
        return [_of_checkpoint(path.name, file) for file in found]
    if shipped(name) is None and path.is_dir() and not (path / "bundle.json").is_file():
        raise UserError(f"{path} holds no checkpoint and is no bundle.", "Train one: x2l train --data DATA --out RUN")
    bundle = open_bundle(name)
    stage = str(bundle.training.get("stage", "progressive"))
    model = NAMES.get((stage, bundle.model.adapters), "X²Localizer")
    weights = (bundle.root / "weights.bin").stat().st_size // 4
    return [Entrant(path.name, model, _kinds(stage, adapters=bundle.model.adapters), bundle, weights)]


def _kinds(stage: str, *, adapters: bool) -> tuple[str, ...]:
    """By which similarities a model is ranked; those of phi are of towers that no later stage trains."""
    kinds = SIMILARITIES.get(stage, SIMILARITIES["progressive"])
    return kinds if adapters else tuple(kind for kind in kinds if kind not in BY_PHI)


def _of_checkpoint(run: str, path: Path) -> Entrant:
    try:
        from x2localizer.learn.checkpoint import load_checkpoint  # noqa: PLC0415 - torch is heavy
        from x2localizer.learn.encoder import CheckpointEncoder  # noqa: PLC0415
    except ImportError as problem:
        raise UserError(
            "A checkpoint needs torch, which is not installed.",
            "pip install 'x2localizer[train]', or name a bundle: x2l export CHECKPOINT --out BUNDLE",
        ) from problem
    found = load_checkpoint(path)
    stage = str(found.state.get("stage", "progressive"))
    encoder = CheckpointEncoder(found, adapt=stage != "image")
    model = NAMES[stage, found.settings.model.adapters]
    kinds = _kinds(stage, adapters=found.settings.model.adapters)
    return Entrant(run, model, kinds, encoder, encoder.parameters, tau_f=encoder.tau_f)


def latency_ms(encoder: Encoder, budget: int, times: int = 7) -> float:
    """The median time to encode one prefix of noise."""
    m = encoder.spec
    image = np.random.default_rng(0).integers(0, 256, (1, budget, m.frame_height, m.frame_width, 3), dtype=np.uint8)
    encoder.encode_prefixes(image)
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        encoder.encode_prefixes(image)
        spent.append(time.perf_counter() - start)
    return 1000.0 * float(np.median(spent))
