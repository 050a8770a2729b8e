"""How a training tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

Report = Callable[[str, int, int, dict[str, float]], None]
"""Called with the stage, the step, the number of steps, and either the loss or the metrics of an evaluation.

While codes are computed before a stage: with what they are of, how many are done, how many there are, and no values."""


def quiet(stage: str, step: int, steps: int, values: dict[str, float]) -> None:
    """Report nothing."""
