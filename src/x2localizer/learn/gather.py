"""Several processes as one large batch: each row is compared with the columns of all processes."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn import functional as grad_dist


def rank_and_world() -> tuple[int, int]:
    """The number of this process, and how many there are."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def wait_for_all() -> None:
    """Wait until every process is here."""
    if dist.is_available() and dist.is_initialized():
        dist.barrier()


def gather_rows(own: Tensor) -> Tensor:
    """The rows of all processes, in the order of their numbers: (b, ...) -> (world b, ...).

    Gradients flow back to the process that a row came from, summed over all processes that used it. Averaged over
    processes, that is the gradient of the mean loss of the joint batch.
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

    torch's wrapper around a model does not fit: a step makes several passes through both towers, and trains only some
    of the weights.
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
    """The column of each own row among the gathered rows, (b,)."""
    rank, _ = rank_and_world()
    return torch.arange(len(own), device=own.device) + rank * len(own)


def allowed_columns(places: Tensor, reach: float) -> Tensor:
    """Which gathered columns each row is compared with, (b, world b): its own, and those that show other ground.

    places: column and row on the tile grid, (b, 2).
    reach: tiles. Columns that are less than this away on both axes show the same ground and are no negatives.
    """
    near = ((places[:, None] - gather_rows(places)[None]).abs() < reach).all(-1)
    own = torch.zeros_like(near)
    own[torch.arange(len(places)), targets(places)] = True
    return ~near | own
