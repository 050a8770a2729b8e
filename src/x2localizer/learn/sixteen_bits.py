"""Training in 16 bits on a CPU: which processors are made for it, and how attention is fastest there."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from x2localizer.config import TrainSettings


def fast_attention(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """A context in which attention is computed the fastest way.

    On CPUs the gradient of torch's fused attention is slow in 16 bits: it took a third of a step of small towers.
    Plain matrix products give the same numbers up to rounding.
    """
    if device.type == "cpu" and precision == "bf16-mixed":
        return sdpa_kernel(SDPBackend.MATH)
    return nullcontext()


def is_emulated(settings: TrainSettings) -> bool:
    """Whether 16 bits were asked of a processor that only emulates them: a step takes ten times as long as in 32."""
    gpu = torch.cuda.is_available() or torch.backends.mps.is_available()
    on_cpu = settings.accelerator == "cpu" or (settings.accelerator == "auto" and not gpu)
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # older versions do not tell
    if settings.precision != "bf16-mixed" or not on_cpu or capabilities.get("architecture") != "x86_64":
        return False
    return not (capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
