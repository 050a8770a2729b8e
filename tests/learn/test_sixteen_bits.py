"""Training in 16 bits on a CPU: the faster attention against torch's own choice, and processors that lack them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from x2localizer.config import TrainSettings
from x2localizer.learn.geoadapter import attend
from x2localizer.learn.sixteen_bits import fast_attention, is_emulated


def _gradients(precision: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    inputs = [torch.randn(3, 2, 18, 32, generator=generator).bfloat16().requires_grad_() for _ in range(3)]
    with fast_attention(torch.device("cpu"), precision):
        out = attend(*inputs)
        grads = torch.autograd.grad(out.square().sum(), inputs)
    return [out.detach(), *grads]


def test_the_faster_attention_gives_the_same_gradients() -> None:
    for fast, usual in zip(_gradients("bf16-mixed"), _gradients("32-true"), strict=True):
        torch.testing.assert_close(fast.float(), usual.float(), rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    "asked", [{"is_causal": True}, {"scale": 0.5}, {"attn_mask": torch.ones(18, 18, dtype=torch.bool).tril()}]
)
def test_attention_that_is_not_plain_is_left_to_torch(asked: dict[str, Any]) -> None:
    q, k, v = torch.randn(3, 2, 4, 18, 32, generator=torch.Generator().manual_seed(1))
    with fast_attention(torch.device("cpu"), "bf16-mixed"):
        out = F.scaled_dot_product_attention(q, k, v, **asked)
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v, **asked))
    assert not torch.allclose(out, F.scaled_dot_product_attention(q, k, v))


@pytest.mark.parametrize(("precision", "plain"), [("bf16-mixed", True), ("32-true", False)])
def test_only_training_in_16_bits_leaves_the_fused_one(precision: str, plain: bool) -> None:
    usual = fast_attention(torch.device("cpu"), precision)
    assert isinstance(usual, nullcontext) != plain


@pytest.mark.parametrize(
    ("precision", "accelerator", "capabilities", "emulated"),
    [
        ("bf16-mixed", "cpu", {"architecture": "x86_64", "avx512_bf16": False, "amx_bf16": False}, True),
        ("bf16-mixed", "cpu", {"architecture": "x86_64", "avx512_bf16": True, "amx_bf16": False}, False),
        ("32-true", "cpu", {"architecture": "x86_64", "avx512_bf16": False, "amx_bf16": False}, False),
        ("bf16-mixed", "cuda", {"architecture": "x86_64", "avx512_bf16": False, "amx_bf16": False}, False),
        ("bf16-mixed", "cpu", {"architecture": "aarch64"}, False),
        ("bf16-mixed", "cpu", {}, False),
    ],
)
def test_processors_that_emulate_16_bits_are_known(
    precision: str, accelerator: str, capabilities: dict[str, object], emulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    settings = TrainSettings.model_validate({"precision": precision, "accelerator": accelerator})
    assert is_emulated(settings) == emulated
