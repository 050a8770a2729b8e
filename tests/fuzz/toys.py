"""Readers that do what none may do. Each is sound on its seed, and fails on anything else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from x2localizer.errors import TrackError

SOUND = b"sound\n"


def _raises(path: Path) -> None:
    if path.read_bytes() != SOUND:
        raise KeyError("x")


def _refuses(path: Path) -> None:
    if path.read_bytes() != SOUND:
        raise TrackError("It is broken.", "Mend it.")


def _crashes(path: Path) -> None:
    if path.read_bytes() != SOUND:
        os.abort()


def _hangs(path: Path) -> None:
    if path.read_bytes() != SOUND:
        time.sleep(3600.0)


def _takes_all(path: Path) -> None:
    if path.read_bytes() != SOUND:
        np.ones(1_700_000_000, np.uint8).sum()


TOYS: dict[str, Callable[[Path], None]] = {
    "raises": _raises, "refuses": _refuses, "crashes": _crashes, "hangs": _hangs, "takes all memory": _takes_all,
}  # fmt: skip
