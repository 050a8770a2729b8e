"""Averages of weights over the steps of a stage: smoother than the weights themselves, and often better.

They lie in the optimizer's state, beside its moments, so that a checkpoint keeps them and a run resumes with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

NAME = "average"
"""Of an average in the state of a parameter."""


@torch.no_grad()
def add_to_averages(optimizer: torch.optim.Optimizer, decay: float, step: int) -> None:
    """Count the weights after a step in: a plain mean at first, then one that forgets by ``decay``."""
    share = max(1.0 - decay, 1.0 / (step + 1))
    for parameter, state in optimizer.state.items():
        if NAME in state:
            state[NAME].lerp_(parameter, share)
        elif state:  # weights without one have had no gradient yet
            state[NAME] = parameter.clone()


@contextmanager
def averaged(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """A model with its averages in place of its weights, as long as the context lasts; without averages as it is."""
    _exchange(optimizer)
    try:
        yield
    finally:
        _exchange(optimizer)


@torch.no_grad()
def _exchange(optimizer: torch.optim.Optimizer) -> None:
    for parameter, state in optimizer.state.items():
        if NAME in state:
            own = parameter.clone()
            parameter.copy_(state[NAME])
            state[NAME].copy_(own)
