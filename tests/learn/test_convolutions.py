"""Convolutions in 16 bits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from x2localizer.learn.convolutions import VideoResNet18


def leave_rubbish_in_memory(*_: object) -> None:
    for numbers in (100, 1_000, 10_000, 100_000, 1_000_000):
        rubbish = [torch.full((numbers,), torch.nan) for _ in range(20)]
        del rubbish


def test_gradients_of_clips_do_not_depend_on_what_memory_held_before() -> None:
    torch.manual_seed(0)
    network = VideoResNet18(16, "group")

    def watch(module: nn.Module, given: object, out: Tensor) -> None:
        leave_rubbish_in_memory()
        out.register_hook(leave_rubbish_in_memory)  # type: ignore[no-untyped-call]

    for module in network.modules():
        if isinstance(module, nn.Conv3d):
            module.weight.data = module.weight.data.contiguous(memory_format=torch.channels_last_3d)
            module.register_forward_hook(watch)
    clips = torch.randn(16, 3, 1, 64, 128).expand(-1, -1, 8, -1, -1)
    with torch.autocast("cpu", torch.bfloat16):
        vectors = network(clips)
    vectors.float().square().mean().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in network.parameters() if parameter.grad is not None)
