"""Training in 16 bits on a CPU: which processors are made for it, and how attention is fastest there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from x2localizer.config import TrainSettings


def fast_attention(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """A context in which attention is computed the fastest way.

    On CPUs the gradient of torch's fused attention is slow in 16 bits, and its own plain way guards against rows that
    are masked as a whole, in passes of their own: a quarter of a step of small towers. Two products and a softmax
    give the same numbers up to rounding.
    """
    if device.type == "cpu" and precision == "bf16-mixed":
        return _PlainAttention()
    return nullcontext()


class _PlainAttention(TorchFunctionMode):
    """Attention without masks or dropout as two products and a softmax, whoever asks torch for it."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        asked = kwargs or {}
        if func is not F.scaled_dot_product_attention or len(args) != 3:
            return func(*args, **asked)
        special = any(isinstance(value, Tensor) or value for value in asked.values())
        return func(*args, **asked) if special else _plainly(*args)


def _plainly(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(..., n, d), (..., m, d) and (..., m, e) -> (..., n, e)."""
    out: Tensor = ((q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)).softmax(-1) @ v
    return out


def is_emulated(settings: TrainSettings) -> bool:
    """Whether 16 bits were asked of a processor that only emulates them: a step takes ten times as long as in 32."""
    gpu = torch.cuda.is_available() or torch.backends.mps.is_available()
    on_cpu = settings.accelerator == "cpu" or (settings.accelerator == "auto" and not gpu)
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # older versions do not tell
    if settings.precision != "bf16-mixed" or not on_cpu or capabilities.get("architecture") != "x86_64":
        return False
    return not (capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
