"""What takes part in a benchmark: every stage of a training run, a checkpoint, a bundle, or a rankings file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from x2localizer.config import STAGES, ModelSettings
from x2localizer.encoders import Encoder, open_bundle, shipped
from x2localizer.encoders.protocol import encode_prefixes
from x2localizer.errors import UserError
from x2localizer.evaluate.rankings import SUFFIXES
from x2localizer.metrics import times_s
from x2localizer.similarity import similarities

# What the best checkpoint of a stage is called, with adapters and without.
NAMES = {
    ("image", True): "stage-1 towers", ("full", True): "GAReT's objective", ("progressive", True): "X²Localizer",
    ("image", False): "stage-1 towers", ("full", False): "DeiT", ("progressive", False): "DeiT*",
}  # fmt: skip
# By which similarities it is ranked; the last is the one that finds its candidates.
SIMILARITIES = {
    "image": ("s_f", "s_best"), "full": ("s_best", "s_g", "s_mix"),
    "progressive": ("s_half", "s_sum", "s_path", "s_best", "s_g", "s_mix"),
}  # fmt: skip
TILE_SIMILARITIES = ("s_half", "s_sum", "s_path")
# What tables call the families of the paper's other rows.
BASELINES = {
    "timesformer": "TimeSformer", "videoswin": "VideoSwin", "cvlnet": "CVLNet", "screening": "GAMa (screening)",
    "gamanet": "GAMa-Net", "dsm": "Shi et al. (DSM)", "l2ltr": "L2LTR", "seqgeo": "SeqGeo",
}  # fmt: skip
HIERARCHICAL = "GAMa*"
"""A screening network that finds regions, and GAMa-Net for the frames among their tiles."""


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
    """Of a rankings file: where an item is listed twice, the first counts."""
    screen: Encoder | None = None
    """Another encoder that finds the regions; ``encoder`` then compares frames with their tiles."""
    whole_gallery: bool = False
    """Frames are compared with all tiles, as the paper does with methods for single pictures: no regions come first."""

    @property
    def searching(self) -> Encoder | None:
        """The encoder that finds regions."""
        return self.screen or self.encoder


def entrants(name: str) -> list[Entrant]:
    """What a user named: a run's folder, a checkpoint, a rankings file, or a bundle by name or folder.

    Two of them with a plus sign, ``REGIONS+FRAMES``, are one: the first finds regions, the second frames in them.
    """
    path = Path(name)
    if "+" in name and not path.exists():
        first, _, second = name.partition("+")
        return [_joined(entrants(first)[-1], entrants(second)[-1])]
    if path.suffix in SUFFIXES:
        if not path.is_file():
            raise UserError(f"There is no file {path}.", "Name a rankings file, a run, a checkpoint or a bundle.")
        return [Entrant(path.stem, "rankings", ("score",), None, None, path)]
    if path.suffix == ".safetensors":
        return [_of_checkpoint(path.parent.parent.name or path.stem, path)]
    checkpoints = [path / stage / "best.safetensors" for stage in STAGES]
    if any(file.is_file() for file in checkpoints):
        found = [_of_checkpoint(path.name, file) for file in checkpoints if file.is_file()]
        return [entrant for entrant in found if entrant.similarities] or found  # stage 1 of a family of sets has none
    if shipped(name) is None and path.is_dir() and not (path / "bundle.json").is_file():
        raise UserError(f"{path} holds no checkpoint and is no bundle.", "Train one: x2l train --data DATA --out RUN")
    bundle = open_bundle(name)
    stage = str(bundle.training.get("stage", "progressive"))
    return [_entrant(path.name, stage, bundle, bundle.model, bundle.parameters, bundle.tau_f)]


def _entrant(
    run: str, stage: str, encoder: Encoder, settings: ModelSettings, parameters: int | None, tau_f: float
) -> Entrant:
    """A model with the similarities it can be ranked by.

    Image codes are those of stage 1: without adapters the later stages train the towers themselves, for set codes.
    Towers without set codes have no others.
    """
    alone = "prefix" not in encoder.spec.parts
    asked = TILE_SIMILARITIES if alone else SIMILARITIES.get(stage, SIMILARITIES["progressive"])
    names = [
        name
        for name in asked
        if similarities.get(name).suits(encoder.spec)
        and (settings.adapters or similarities.get(name).codes == "regions" or asked is TILE_SIMILARITIES)
    ]
    ours = settings.family == "deit"
    model = NAMES.get((stage, settings.adapters), "X²Localizer") if ours else f"{settings.family}, stage {stage}"
    known = BASELINES.get(settings.family)
    whole = known is not None and alone
    return Entrant(run, known or model, tuple(names), encoder, parameters, tau_f=tau_f, whole_gallery=whole)


def _joined(regions: Entrant, frames: Entrant) -> Entrant:
    """The hierarchical entrant of two: regions by the set codes of one, frames by the image codes of the other."""
    if regions.encoder is None or frames.encoder is None or "frame" not in frames.encoder.spec.parts:
        raise UserError(
            f"{regions.run}+{frames.run} cannot work together.",
            "Name a model that finds regions, a plus sign, and a model that encodes single frames.",
        )
    parameters = (regions.parameters or 0) + (frames.parameters or 0)
    model = HIERARCHICAL if frames.model == BASELINES["gamanet"] else f"{regions.model} + {frames.model}"
    return replace(
        frames, run=f"{regions.run}+{frames.run}", model=model, similarities=regions.similarities,
        parameters=parameters or None, tau_f=regions.tau_f, screen=regions.encoder, whole_gallery=False,
    )  # fmt: skip


def _of_checkpoint(run: str, path: Path) -> Entrant:
    try:
        from x2localizer.learn.checkpoint import load_checkpoint  # noqa: PLC0415 - torch is heavy
        from x2localizer.learn.encoder import CheckpointEncoder  # noqa: PLC0415
    except ImportError as problem:
        raise UserError(
            "A checkpoint needs torch, which is not installed.",
            "pip install 'x2localizer[train]', or name a bundle: x2l export CHECKPOINT --out BUNDLE",
        ) from problem
    checkpoint = load_checkpoint(path)
    stage = str(checkpoint.state.get("stage", "progressive"))
    encoder = CheckpointEncoder(checkpoint, adapt=stage != "image")
    return _entrant(run, stage, encoder, checkpoint.settings.model, encoder.parameters, encoder.tau_f)


def latency_ms(encoder: Encoder, budget: int, times: int = 7) -> float:
    """The median time to encode one prefix of noise, or its frames one by one if the encoder has no prefixes."""
    return _median_ms(lambda: _encode_noise(encoder, budget, alone="prefix" not in encoder.spec.parts), times)


def frame_latency_ms(encoder: Encoder, times: int = 7) -> float:
    """The median time to encode one frame of noise by itself."""
    return _median_ms(lambda: _encode_noise(encoder, 1, alone=True), times)


def _encode_noise(encoder: Encoder, budget: int, *, alone: bool) -> None:
    m = encoder.spec
    image = np.random.default_rng(0).integers(0, 256, (1, budget, m.frame_height, m.frame_width, 3), dtype=np.uint8)

    if alone:
        encoder.encode_frames(image[0])
        return
    step = np.arange(budget, dtype=np.float64)
    straight = np.stack([0.0 * step, 50.0 * step, 0.0 * step], -1)[None]
    encode_prefixes(encoder, image, lambda: straight)


def _median_ms(work: Callable[[], None], times: int) -> float:
    return 1000.0 * float(np.median(times_s(work, times)))
