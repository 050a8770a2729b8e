"""One loop for all stages: steps, evaluation on held-out videos, and checkpoints from which a run resumes exactly."""

from __future__ import annotations

import csv
import json
import math
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from lightning_fabric.utilities.exceptions import MisconfigurationException
from torch.utils.tensorboard.writer import SummaryWriter

from x2localizer.config import STAGES, StageSettings, TrainSettings
from x2localizer.datasets.dataset import open_dataset
from x2localizer.encoders.bundle import bundle_folder
from x2localizer.errors import CheckpointError, ConfigError, UserError
from x2localizer.files import only_writer, write_text
from x2localizer.learn.accumulate import backward
from x2localizer.learn.averaging import add_to_averages, averaged
from x2localizer.learn.batches import Videos, rng_for
from x2localizer.learn.bundle_weights import load_origin
from x2localizer.learn.checkpoint import (
    load_checkpoint,
    load_optimizer,
    load_start,
    load_weights,
    restore,
    save_checkpoint,
)
from x2localizer.learn.checks import check_clips, check_stages, stages_of
from x2localizer.learn.families.headings import HeadingTower
from x2localizer.learn.frozen import freeze
from x2localizer.learn.gather import average_gradients, rank_and_world
from x2localizer.learn.loader import ahead
from x2localizer.learn.memory import keep_freed_memory
from x2localizer.learn.model import Model
from x2localizer.learn.optimizer import build_optimizer
from x2localizer.learn.report import Report, quiet
from x2localizer.learn.sixteen_bits import fast_attention
from x2localizer.learn.stages import Batch, Stage, full_stage, heading_stage, image_stage, progressive_stage


def learning_rate(settings: StageSettings, step: int) -> float:
    """The learning rate of a step: a linear warm-up, then a cosine down to a hundredth."""
    if step < settings.warmup:
        return settings.lr * (step + 1) / settings.warmup
    share = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    return settings.lr * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(share, 1.0))))


def train(
    settings: TrainSettings,
    data: Path,
    out: Path,
    stages: tuple[str, ...] = STAGES,
    report: Report = quiet,
    start: Path | None = None,
) -> Path:
    """Run stages one after the other, or resume a run; returns the path of the last stage's best checkpoint.

    data: the folder of a dataset with the splits train and val.
    out: the folder of the run, with one folder for each stage. Stages that are done are not run again.
    start: a checkpoint of another run, or a bundle, to start from. Without it, each stage starts from the best
        checkpoint of the stage before, so that runs which differ only in a later stage can share the earlier ones.
    """
    check_stages(settings, stages)
    source = open_dataset(data)
    check_clips(source, settings.model.frames, stages)
    origin = None if start is None else load_origin(start)
    fabric = _launch(settings)
    with only_writer(out) if fabric.is_global_zero else nullcontext():
        torch.manual_seed(settings.seed)
        videos = Videos(source, "train", settings.model), Videos(source, "val", settings.model)
        begun = any((out / name / "last.safetensors").is_file() for name in STAGES)
        stem = settings.model.backbone.stem
        fresh = not begun and (origin is None or origin.settings.model.backbone.stem != stem)
        model = Model(settings.model, pretrained=fresh).to(fabric.device)
        model.set_checkpointing(settings.checkpointing)
        model.arrange()
        if origin is not None:
            load_start(model, origin)
        # Frozen codes are kept next to the model that made them: runs that start from it share the work.
        own = start is None or "full" in stages or bundle_folder(start) is not None
        beside = out / "full" if start is None or own else start.parent

        own_report = report if fabric.is_global_zero else quiet

        def run(stage: Stage[Batch]) -> None:
            with fast_attention(fabric.device, settings.precision):
                run_stage(stage, model, settings, out / stage.name, own_report, fabric)

        last = max(STAGES.index(stage) for stage in stages)
        before = ["image"] if "image" in stages or (out / "image" / "best.safetensors").is_file() else []
        for name in dict.fromkeys([*before, *stages_of(settings)]):
            if STAGES.index(name) > last or (start is not None and name not in stages):
                continue
            best = out / name / "best.safetensors"
            if name in stages and not (out / name / "done.json").is_file():
                if name == "image" and isinstance(model.aerial, HeadingTower):
                    run(heading_stage(settings, *videos))
                elif name == "image":
                    run(image_stage(settings, *videos, _teacher(settings, model, fabric.device)))
                elif name == "full":
                    run(full_stage(settings, *videos))
                else:
                    run(progressive_stage(settings, *videos, freeze(model, videos[0], beside, own_report)))
            load_weights(model, load_checkpoint(best).tensors)
    return best


def _teacher(settings: TrainSettings, model: Model, device: torch.device) -> Model | None:
    """The teacher of stage 1, if the settings name one whose codes the model can learn."""
    if not settings.image_teacher:
        return None
    teacher = restore(load_origin(Path(settings.image_teacher))).requires_grad_(False).to(device)
    shapes = []
    for some in (model, teacher):
        m = some.settings
        with torch.no_grad():
            frame = torch.zeros(1, 3, m.frame_height, m.frame_width, device=device)
            codes = some.pairs(frame, torch.zeros(1, 3, m.tile_px, m.tile_px, device=device))
        shapes.append([code.shape for code in codes])
    if shapes[0] != shapes[1]:
        raise ConfigError(
            f"The codes of this model have another shape than those of {settings.image_teacher}.",
            f"Set model.dim={teacher.settings.dim}, or leave out image_teacher.",
        )
    return teacher


def _launch(settings: TrainSettings) -> Fabric:
    """Fabric with the device, the precision and the processes of the settings."""
    if settings.threads:
        torch.set_num_threads(settings.threads)
    keep_freed_memory()
    # The others wait while the first process encodes all regions, which may take longer than the usual ten minutes.
    strategy = DDPStrategy(timeout=timedelta(hours=6)) if settings.devices * settings.nodes > 1 else "auto"
    try:
        fabric = Fabric(
            accelerator=settings.accelerator, devices=settings.devices, num_nodes=settings.nodes,
            strategy=strategy, precision=settings.precision,
        )  # fmt: skip
        fabric.launch()
    except (RuntimeError, ValueError, MisconfigurationException) as problem:
        raise UserError(
            f"Cannot train on {settings.devices} devices of the kind '{settings.accelerator}': {problem}",
            "Set accelerator and devices to what this machine has, such as accelerator=cpu and devices=1.",
        ) from problem
    return fabric


@dataclass(slots=True)
class _Progress:
    """How far a stage has come; stored in its checkpoint.

    step: steps done.
    best: the best value so far of the metric that selects models.
    stale: evaluations since then.
    seconds: time spent on the stage, over all processes that resumed it.
    """

    step: int = 0
    best: float = -1.0
    stale: int = 0
    seconds: float = 0.0


def run_stage(
    stage: Stage[Batch], model: Model, settings: TrainSettings, folder: Path, report: Report, fabric: Fabric
) -> None:
    """Train one stage until its steps or its patience run out. Only the first process writes files."""
    model.set_trainable(stage.trains)
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = build_optimizer(model, stage.settings)
    progress = _resume(folder / "last.safetensors", model, optimizer, settings)
    log = _Log(folder) if fabric.is_global_zero else None
    rank, _ = rank_and_world()
    clock = time.monotonic() - progress.seconds
    recent: list[float] = []
    batches = ahead(
        lambda step: stage.draw(rng_for(settings.seed, stage.name, step, rank)),
        progress.step,
        stage.settings.steps,
        settings.workers,
    )
    for step, batch in batches:
        model.train()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(stage.settings, step) * group.get("share", 1.0)
        optimizer.zero_grad(set_to_none=True)
        losses = backward(
            stage, model, batch.to(fabric.device), stage.settings.accumulate, fabric.backward, fabric.autocast,
            lambda found, step=step: _insist_finite(stage.name, step, found.terms, folder),  # type: ignore[misc]
        )  # fmt: skip
        average_gradients(p.grad for p in wanted if p.grad is not None)
        torch.nn.utils.clip_grad_norm_(wanted, 1.0)
        optimizer.step()
        if stage.settings.average:
            add_to_averages(optimizer, stage.settings.average, step)
        recent.append(float(losses.total.detach()))
        report(stage.name, step + 1, stage.settings.steps, {"loss": sum(recent[-50:]) / len(recent[-50:])})
        if (step + 1) % stage.settings.evaluate_every == 0 or step + 1 == stage.settings.steps:
            progress.step, progress.seconds = step + 1, time.monotonic() - clock
            with averaged(optimizer):
                metrics = stage.judge(model)
                score = stage.select(metrics)
                better = score > progress.best
                progress.stale = 0 if better else progress.stale + 1
                progress.best = max(score, progress.best)
                state = {"stage": stage.name, "metrics": metrics, **asdict(progress)}
                if better and fabric.is_global_zero:
                    save_checkpoint(folder / "best.safetensors", model, settings, state)
            if fabric.is_global_zero:
                save_checkpoint(folder / "last.safetensors", model, settings, state, optimizer)
            if log is not None:
                log.write(step + 1, progress.seconds, {"loss": sum(recent) / len(recent), **metrics})
            report(stage.name, step + 1, stage.settings.steps, metrics)
            recent.clear()
            if progress.stale >= stage.settings.patience:
                break
    if fabric.is_global_zero:
        best = load_checkpoint(folder / "best.safetensors")
        write_text(folder / "done.json", json.dumps(best.state, indent=2) + "\n")
    fabric.barrier()


def _resume(path: Path, model: Model, optimizer: torch.optim.Optimizer, settings: TrainSettings) -> _Progress:
    """Load the last checkpoint of a stage, if there is one, and return how far it had come."""
    if not path.is_file():
        return _Progress()
    checkpoint = load_checkpoint(path)
    if _comparable(checkpoint.settings) != _comparable(settings):
        raise CheckpointError(
            f"{path.parent} was started with another config.", "Choose a new --out, or delete that folder."
        )
    load_weights(model, checkpoint.tensors)
    load_optimizer(optimizer, checkpoint.optimizer)
    state = checkpoint.state
    return _Progress(state["step"], state["best"], state["stale"], state["seconds"])


def _comparable(settings: TrainSettings) -> TrainSettings:
    """Settings without those that may change when a run is resumed: lengths of stages, reading, and saving memory."""
    same = {"steps": 1, "evaluate_every": 1, "patience": 1, "accumulate": 1}
    stages = {name: getattr(settings, name).model_copy(update=same) for name in STAGES}
    return settings.model_copy(update={**stages, "workers": 1, "checkpointing": False})


def _insist_finite(stage: str, step: int, terms: dict[str, torch.Tensor], folder: Path) -> None:
    """Stop at a loss that is not finite, and name it."""
    for name, value in terms.items():
        if not torch.isfinite(value.detach()).all():
            raise UserError(
                f"Stage {stage}: the term '{name}' is {float(value.detach())} in batch {step}.",
                f"Lower the learning rate; the last good checkpoint is in {folder}.",
            )


class _Log:
    """Metrics as a CSV file and as TensorBoard events, one row for each evaluation."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "log.csv"
        folder.mkdir(parents=True, exist_ok=True)
        self.board: Any = SummaryWriter(folder / "tensorboard")

    def write(self, step: int, seconds: float, values: dict[str, float]) -> None:
        """Append a row."""
        for name, value in values.items():
            self.board.add_scalar(name, value, step)
        self.board.flush()
        fresh = not self.path.is_file()
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if fresh:
                writer.writerow(["step", "seconds", *values])
            writer.writerow([step, round(seconds, 1), *(round(value, 4) for value in values.values())])
