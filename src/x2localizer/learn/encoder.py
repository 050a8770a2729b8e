"""A checkpoint as an encoder, on torch; what a bundle is on ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from x2localizer.config import ModelSettings
from x2localizer.encoders import EncoderSpec, Part, SetCodes
from x2localizer.encoders.area import encode_tile_by_tile
from x2localizer.encoders.bundle import spec_of
from x2localizer.encoders.device import CPU_PIXELS, GPU_PIXELS
from x2localizer.encoders.protocol import IMAGE_PARTS
from x2localizer.learn.augment import to_input
from x2localizer.learn.checkpoint import Checkpoint, fingerprint_of, restore
from x2localizer.learn.towers import SetEmbedding
from x2localizer.types import Bools, Codes, Floats, Image, Images


class CheckpointEncoder:
    """Encodes with a checkpoint. ``adapt=False`` leaves the adapters out: the towers as they were after stage 1."""

    def __init__(self, checkpoint: Checkpoint, *, adapt: bool = True) -> None:
        self.model: ModelSettings = checkpoint.settings.model
        self.fingerprint, self.threads = checkpoint.fingerprint, 0
        self.tau_f = checkpoint.settings.objective.tau_f
        self._tensors = checkpoint.tensors
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._towers = restore(checkpoint).to(self._device)
        self._adapt = adapt and self._towers.family.has_adapters(checkpoint.settings.model)
        pixels = GPU_PIXELS if self._device.type == "cuda" else CPU_PIXELS
        spec = spec_of(checkpoint.settings.model, self._towers.capabilities)
        self.spec: EncoderSpec = replace(spec, pixels_at_once=pixels)
        used = [p for name, p in self._towers.named_parameters() if self._adapt or not self._towers.is_adapter(name)]
        self.parameters = sum(parameter.numel() for parameter in used)

    def weights_of(self, part: Part) -> str:
        """A name for the weights of one part: a tower, with its adapters for prefixes and regions."""
        view, sets = ("ground" if part in ("frame", "prefix") else "aerial"), part not in IMAGE_PARTS
        tower = self._towers.ground if view == "ground" else self._towers.aerial
        used = {
            name: tensor for name, tensor in self._tensors.items()
            if name.startswith(f"{view}.") and (sets or not self._towers.is_adapter(name))
        }  # fmt: skip
        # The suffix -phi is in the names of codes that benchmarks have stored.
        return fingerprint_of(used) + tower.variant(sets=sets) + ("-phi" if sets and not self._adapt else "")

    def _input(self, images: Images) -> torch.Tensor:
        return to_input(images).to(self._device)

    @torch.no_grad()
    def encode_frames(self, images: Images) -> Codes:
        """Image codes of street frames: (n, h, w, 3) -> (n, d)."""
        return _numpy(self._towers.ground(self._input(images)))

    @torch.no_grad()
    def encode_tiles(self, images: Images) -> Codes:
        """Image codes of aerial tiles: (n, t, t, 3) -> (n, d)."""
        return _numpy(self._towers.aerial(self._input(images)))

    @torch.no_grad()
    def encode_area(self, image: Image, wanted: Bools | None = None) -> Codes:
        """Codes of cameras in an area at half stride: (a t, b t, 3) -> (2 a - 1, 2 b - 1, headings, d)."""
        return encode_tile_by_tile(self.encode_tiles, image, self.spec, wanted)

    @torch.no_grad()
    def encode_prefixes(self, images: Images) -> SetCodes:
        """Set codes of prefixes of one length: (b, s, h, w, 3)."""
        budget = images.shape[1]
        return _set_codes(self._towers.prefixes(self._input(images), [budget], adapt=self._adapt)[budget])

    @torch.no_grad()
    def encode_posed_prefixes(self, images: Images, poses: Floats) -> SetCodes:
        """The same with the poses of the cameras, (b, s, 3), for a network that needs them."""
        budget, moved = images.shape[1], torch.from_numpy(np.asarray(poses, np.float32)).to(self._device)
        return _set_codes(self._towers.prefixes(self._input(images), [budget], poses=moved)[budget])

    @torch.no_grad()
    def encode_regions(self, images: Images) -> SetCodes:
        """Set codes of regions, tiles row by row: (b, n n, t, t, 3)."""
        return _set_codes(self._towers.regions(self._input(images), adapt=self._adapt))


def _set_codes(codes: SetEmbedding) -> SetCodes:
    return SetCodes(_numpy(codes.whole), _numpy(codes.tokens))


def _numpy(values: torch.Tensor) -> Codes:
    return np.asarray(values.cpu().numpy(), np.float32)
