"""Batches made ahead of time, in other processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import torch.utils.data

from x2localizer.errors import DatasetError, UserError

Batch = TypeVar("Batch")
PATIENCE_S = 300
"""Seconds without a batch after which the loader counts as dead."""


class _Steps(torch.utils.data.Dataset["Batch | _Failure"]):
    """Steps start to stop - 1 as a dataset of torch whose items are whole batches."""

    def __init__(self, make: Callable[[int], Batch], start: int, stop: int) -> None:
        self.make, self.start, self.stop = make, start, stop

    def __len__(self) -> int:
        return max(0, self.stop - self.start)

    def __getitem__(self, item: int) -> Batch | _Failure:
        try:
            return self.make(self.start + item)
        except UserError as problem:  # torch would rebuild the error from its text alone
            return _Failure(problem.what, problem.remedy)


@dataclass(frozen=True, slots=True)
class _Failure:
    what: str
    remedy: str


def ahead(make: Callable[[int], Batch], start: int, stop: int, workers: int = 1) -> Iterator[tuple[int, Batch]]:
    """Steps start to stop - 1 with their batches, in order; batches are made while earlier ones are in use.

    make: the batch of a step.
    workers: processes that make batches. Where processes cannot be forked, batches are made in this one. Threads would
        not help: decoding holds up the training thread at each of its thousands of small calls.
    """
    forks = workers > 0 and "fork" in multiprocessing.get_all_start_methods()
    loader = torch.utils.data.DataLoader(
        _Steps(make, start, stop), batch_size=None, collate_fn=_unchanged, num_workers=workers if forks else 0,
        prefetch_factor=2 if forks else None, multiprocessing_context="fork" if forks else None,
        timeout=PATIENCE_S if forks else 0,
    )  # fmt: skip
    batches = iter(loader)
    for step in range(start, stop):
        try:
            batch = next(batches)
        except RuntimeError as problem:  # the process died, or could not hand the batch over
            raise DatasetError(
                f"Batch {step} was not loaded: {str(problem).splitlines()[0]}",
                "Check free memory and the size of /dev/shm (in a container: --shm-size), then run the command again.",
            ) from problem
        if isinstance(batch, _Failure):
            raise DatasetError(batch.what, batch.remedy)
        yield step, batch


def _unchanged(batch: Batch) -> Batch:
    return batch
