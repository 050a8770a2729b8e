"""Several processes as one large batch: each row sees the columns of all processes, with correct gradients."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn import functional as grad_dist


def rank_and_world() -> tuple[int, int]:
    """This process's number and how many there are."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def wait_for_all() -> None:
    """Wait until every process is here."""
    if dist.is_available() and dist.is_initialized():
        dist.barrier()


def gather_rows(own: Tensor) -> Tensor:
    """The rows of all processes, in the order of their numbers: (b, ...) -> (world b, ...).

    Gradients flow back to the process a row came from, summed over all that used it; together with gradients averaged
    over processes that is the gradient of the mean loss over the joint batch.
    """
    _, world = rank_and_world()
    if world == 1:
        return own
    if own.requires_grad:
        return torch.cat(grad_dist.all_gather(own))  # type: ignore[no-untyped-call]
    parts = [torch.empty_like(own) for _ in range(world)]
    dist.all_gather(parts, own.contiguous())
    return torch.cat(parts)


def average_gradients(gradients: Iterable[Tensor]) -> None:
    """Average gradients over processes, in place, in one message.

    By hand instead of a wrapper around the model: a step makes several passes through both towers, and trains only
    some of the weights.
    """
    _, world = rank_and_world()
    every = list(gradients)
    if world == 1 or not every:
        return
    flat = torch.cat([gradient.flatten() for gradient in every])
    dist.all_reduce(flat)
    flat /= world
    start = 0
    for gradient in every:
        gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
        start += gradient.numel()


def targets(own: Tensor) -> Tensor:
    """The column of each own row among the gathered ones."""
    rank, _ = rank_and_world()
    return torch.arange(len(own), device=own.device) + rank * len(own)


def allowed_columns(places: Tensor, reach: float) -> Tensor:
    """Which gathered columns count as negatives of each own row: (b, 2) places -> (b, world b).

    Columns less than ``reach`` away on both axes show the same ground and do not count, except a row's own.
    """
    everyone = gather_rows(places)
    near = ((places[:, None] - everyone[None]).abs() < reach).all(-1)
    mine = torch.zeros_like(near)
    mine[torch.arange(len(places)), targets(places)] = True
    return ~near | mine
