"""Settings of a small model and of a short training through all stages."""

from __future__ import annotations

from helpers.tiny_bundle import TINY_MODEL
from x2localizer.config import StageSettings, TrainSettings

MODEL = TINY_MODEL
SHORT = StageSettings(steps=6, batch=4, lr=1e-3, warmup=2, evaluate_every=3, towns_per_batch=2)
SETTINGS = TrainSettings(
    model=MODEL, image=SHORT, full=SHORT, progressive=SHORT.model_copy(update={"augment": False}), threads=1
)
