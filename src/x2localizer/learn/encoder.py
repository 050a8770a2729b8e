"""A checkpoint as an encoder: the same four functions as a bundle, on torch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from x2localizer.config import ModelSettings
from x2localizer.encode import Part, SetCode
from x2localizer.learn.batches import to_input
from x2localizer.learn.checkpoint import Checkpoint, fingerprint_of, load_weights
from x2localizer.learn.model import Model, is_adapter
from x2localizer.learn.towers import SetEmbedding

Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.float32]


class CheckpointEncoder:
    """Encodes with a checkpoint. ``adapt=False`` leaves the adapters out: the untouched towers of stage 1."""

    def __init__(self, found: Checkpoint, *, adapt: bool = True) -> None:
        self.model: ModelSettings = found.settings.model
        self.tau_f = found.settings.objective.tau_f
        self._tensors = found.tensors
        self._adapt = adapt and found.settings.model.adapters
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._towers = Model(found.settings.model).eval()
        load_weights(self._towers, found.tensors)
        self._towers.to(self._device)
        used = [p for name, p in self._towers.named_parameters() if self._adapt or not is_adapter(name)]
        self.parameters = sum(parameter.numel() for parameter in used)

    def weights_of(self, part: Part) -> str:
        """A name for the weights of one function: a tower, with its adapters for prefixes and regions."""
        tower, adapted = ("ground." if part in ("frame", "prefix") else "aerial."), part in ("prefix", "region")
        used = {
            name: tensor for name, tensor in self._tensors.items()
            if name.startswith(tower) and (adapted or not is_adapter(name))
        }  # fmt: skip
        skip = "-skip" if adapted and self.model.adapter_skip else ""  # the same numbers, used in another way
        return fingerprint_of(used) + skip + ("-phi" if adapted and not self._adapt else "")

    def _input(self, images: Bytes) -> torch.Tensor:
        return to_input(images).to(self._device)

    @torch.no_grad()
    def encode_frames(self, images: Bytes) -> Codes:
        """phi of street frames: (n, h, w, 3) -> (n, d)."""
        return _numpy(self._towers.ground(self._input(images)))

    @torch.no_grad()
    def encode_tiles(self, images: Bytes) -> Codes:
        """phi of aerial tiles: (n, t, t, 3) -> (n, d)."""
        return _numpy(self._towers.aerial(self._input(images)))

    @torch.no_grad()
    def encode_prefixes(self, images: Bytes) -> SetCode:
        """Phi of prefixes of one length: (b, s, h, w, 3)."""
        budget = images.shape[1]
        return _set_code(self._towers.prefixes(self._input(images), [budget], adapt=self._adapt)[budget])

    @torch.no_grad()
    def encode_regions(self, images: Bytes) -> SetCode:
        """Phi of regions, tiles row by row: (b, n n, t, t, 3)."""
        return _set_code(self._towers.regions(self._input(images), adapt=self._adapt))


def _set_code(found: SetEmbedding) -> SetCode:
    return SetCode(_numpy(found.whole), _numpy(found.tokens))


def _numpy(values: torch.Tensor) -> Codes:
    return np.asarray(values.cpu().numpy(), np.float32)
