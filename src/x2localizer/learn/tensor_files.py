"""Tensors from files that others wrote, read without running code from them."""

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
"""Keys under which training scripts store the weights, next to epochs and optimizers."""


def numpy_numbers() -> list[Any]:
    """What unpickling a numpy scalar calls: its constructor, under both of its names, and the dtypes of numbers.

    Training scripts store their best accuracy as such a scalar. None of these runs code from the file.
    """
    scalar = np.float64(0).__reduce__()[0]
    names = ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar")  # before and since numpy 2
    kinds = {type(np.dtype(code)) for code in "?bhilqBHILQefd"}
    return [*((scalar, name) for name in names), np.dtype, *kinds]


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors or a PyTorch file, by name. A file that would run code is refused."""
    if not path.is_file():
        raise CheckpointError(f"There is no weights file {path}.", "Check the path.")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with torch.serialization.safe_globals(numpy_numbers()):
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, SafetensorError) as problem:
        raise CheckpointError(f"{path} is damaged, or not a weights file.", "Download it again.") from problem
    except Exception as problem:  # torch raises pickle's errors for anything but tensors
        raise CheckpointError(
            f"{path} holds more than tensors and was not opened: it could run code.",
            "If you trust it, convert it to safetensors.",
        ) from problem
    for inner in WRAPPERS:
        if isinstance(loaded, dict) and isinstance(loaded.get(inner), dict):
            loaded = loaded[inner]
    if not isinstance(loaded, dict) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise CheckpointError(f"{path} holds no state dict.", "Save the state_dict of the model.")
    return loaded
