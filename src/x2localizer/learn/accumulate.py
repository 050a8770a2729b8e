"""Large batches on small devices: gradients of a batch that is passed through the towers part by part.

A contrastive loss compares every row of a batch with every other, so the mean of the losses of its parts is another
loss. Here codes of all parts are computed first, without keeping what a gradient needs; then the loss of all codes, and
its gradient by each code; then each part again, with the gradients of its codes carried on to the weights. That is the
gradient of the full batch, for a second forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from x2localizer.learn.model import Model
from x2localizer.learn.objective import Losses
from x2localizer.learn.stages import Batch, Codes, Stage


def backward(
    stage: Stage[Batch],
    model: Model,
    batch: Batch,
    parts: int,
    carry: Callable[[Tensor], object],
    precision: Callable[[], AbstractContextManager[Any]],
    check: Callable[[Losses], None] = lambda losses: None,
) -> Losses:
    """Add the gradients of a batch to those of the weights; returns its losses.

    parts: how many parts of the batch go through the towers one after the other; 1 is the plain way.
    carry: carries gradients back from a scalar.
    precision: the context that towers and losses are computed in.
    check: looks at the losses before gradients are computed.
    """
    if parts == 1:
        with precision():
            losses = stage.loss(model, batch)
        check(losses)
        carry(losses.total)
        return losses
    pieces = list(parts_of(batch, parts))
    with torch.no_grad(), precision():
        found = [stage.embed(model, piece) for piece in pieces]
    codes = tuple(torch.cat(column).requires_grad_() for column in zip(*found, strict=True))
    with precision():
        losses = stage.compare(codes, batch)
    check(losses)
    carry(losses.total)
    start = 0
    for piece, rows in zip(pieces, found, strict=True):
        stop = start + len(rows[0])
        with precision():
            again = stage.embed(model, piece)
        carry(_carried(again, [None if code.grad is None else code.grad[start:stop] for code in codes]))
        start = stop
    return losses


def _carried(codes: Codes, gradients: list[Tensor | None]) -> Tensor:
    """A scalar whose gradient by each code is the given one."""
    terms = [
        (code.float() * gradient.float()).sum()
        for code, gradient in zip(codes, gradients, strict=True)
        if gradient is not None and code.requires_grad
    ]
    return torch.stack(terms).sum()


def parts_of(batch: Batch, parts: int) -> Iterator[Batch]:
    """A batch in parts of nearly equal sizes; fewer than asked for if it has fewer rows."""
    tensors = [getattr(batch, field.name) for field in fields(batch)]  # type: ignore[arg-type] # a dataclass of tensors
    for rows in zip(*(tensor.tensor_split(min(parts, len(tensor))) for tensor in tensors), strict=True):
        yield type(batch)(*rows)
