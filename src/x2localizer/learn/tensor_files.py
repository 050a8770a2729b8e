"""Tensors from files that others wrote, opened without running any code that is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from x2localizer.errors import CheckpointError

WRAPPERS = ("state_dict", "model_state_dict", "model")
"""Keys under which training scripts put the weights, beside epochs, optimizers and the like."""


def numpy_numbers() -> list[Any]:
    """What unpickling a number of numpy calls: its constructor, under both of its names, and the types of numbers.

    Training scripts save their best accuracy as such a number. None of these calls anything else.
    """
    scalar = np.float64(0).__reduce__()[0]
    names = ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar")  # before and since numpy 2
    kinds = {type(np.dtype(code)) for code in "?bhilqBHILQefd"}
    return [*((scalar, name) for name in names), np.dtype, *kinds]


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors or a PyTorch file; a file that wants to run code is refused."""
    if not path.is_file():
        raise CheckpointError(f"There is no weights file {path}.", "Check the path.")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with torch.serialization.safe_globals(numpy_numbers()):
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, SafetensorError) as problem:
        raise CheckpointError(f"{path} is damaged or no weights file.", "Download it again.") from problem
    except Exception as problem:  # torch raises pickle's errors for anything but tensors
        raise CheckpointError(
            f"{path} holds more than tensors and was not opened: it could run code.",
            "Convert it to safetensors where you trust it.",
        ) from problem
    for inner in WRAPPERS:
        if isinstance(loaded, dict) and isinstance(loaded.get(inner), dict):
            loaded = loaded[inner]
    if not isinstance(loaded, dict) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise CheckpointError(f"{path} holds no table of tensors.", "Save the model's state_dict.")
    return loaded
