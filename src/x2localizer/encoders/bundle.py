"""A bundle is a trained model ready to run.

    bundle.json     what it is: sizes, config, training, fingerprint
    frame.onnx      tile.onnx      pictures -> image codes
    prefix.onnx     region.onnx    sets of pictures -> set codes: one for each set, and one per picture
    weights.bin     the numbers of all graphs, each once
    README.md       the model card, if it has one

A bundle may be made from another: in another precision, or with fewer parts. Then bundle.json names its source.

A bundle has the graphs of the parts that its family of networks can do; most families can do all four. Pictures go in
as RGB bytes of the bundle's size; scaling to the towers' input is part of the graphs.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import onnxruntime as ort
from pydantic import TypeAdapter

from x2localizer.config import RELEASED, ModelSettings, validate
from x2localizer.encoders.area import encode_tile_by_tile
from x2localizer.encoders.device import CPU, Device, choose_device
from x2localizer.encoders.protocol import PARTS, Capabilities, EncoderSpec, Part, SetCodes
from x2localizer.errors import BundleError, ConfigError, DeviceError, lacks_memory
from x2localizer.files import read_json
from x2localizer.types import Bools, Codes, Floats, Image, Images

FORMAT = 1
BESIDE = ("README.md", "confidence.json", "track.json")
"""Files of a bundle beside its graphs, if it has them: the model card, and how sure fixes are."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bundle:
    """The four encoders. Sessions are opened when first used; a bundle may be used from several threads."""

    root: Path
    model: ModelSettings
    """The network that was exported."""
    training: dict[str, Any]
    """How it was made: the checkpoint, its stage, its metrics on validation."""
    fingerprint: str
    threads: int = 0
    parameters: int | None = None
    """How many numbers were trained; None for bundles that do not say."""
    tau_f: float = 0.01
    """The temperature of s_f that it was trained with."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    """What the network can do."""
    device: Device = CPU
    """Where it runs."""
    precision: str = "fp32"
    """What it computes in: fp32, fp16 or int8."""
    accepts: tuple[str, ...] = ()
    """Fingerprints of other bundles whose galleries it may be used with."""
    _sessions: dict[str, ort.InferenceSession] = field(default_factory=dict, repr=False, compare=False)
    _turn: Lock = field(default_factory=Lock, repr=False, compare=False)

    @cached_property
    def spec(self) -> EncoderSpec:
        """Sizes and abilities."""
        spec = spec_of(self.model, self.capabilities)
        return replace(spec, pixels_at_once=self.device.pixels_at_once, accepts=self.accepts)

    def weights_of(self, part: Part) -> str:
        """A name for exactly the weights of one encoder."""
        return self.fingerprint

    def encode_frames(self, images: Images) -> Codes:
        """Image codes of street frames: (n, h, w, 3) -> (n, d)."""
        self._insist(images, 4, self.spec.frame_height, self.spec.frame_width)
        return self._run("frame", images)[0]

    def encode_tiles(self, images: Images) -> Codes:
        """Image codes of aerial tiles: (n, t, t, 3) -> (n, d), or (n, headings, d) if there are several headings."""
        self._insist(images, 4, self.spec.tile_px, self.spec.tile_px)
        return self._run("tile", images)[0]

    def encode_area(self, image: Image, wanted: Bools | None = None) -> Codes:
        """Codes of cameras in an area at half stride: (a t, b t, 3) -> (2 a - 1, 2 b - 1, headings, d)."""
        return encode_tile_by_tile(self.encode_tiles, image, self.spec, wanted)

    def encode_prefixes(self, images: Images) -> SetCodes:
        """Set codes of prefixes of one length: (b, s, h, w, 3)."""
        if self.spec.poses:
            raise BundleError(
                f"The network of {self.root} needs to know how the camera moved between frames.",
                "Measure it on a dataset, which says so: x2l evaluate",
            )
        return self._prefixes(images)

    def encode_posed_prefixes(self, images: Images, poses: Floats) -> SetCodes:
        """The same with the poses of the cameras, (b, s, 3), for a network that needs them."""
        return self._prefixes(images, poses=np.asarray(poses, np.float32))

    def _prefixes(self, images: Images, **more: Codes) -> SetCodes:
        self._insist(images, 5, self.spec.frame_height, self.spec.frame_width)
        if not self.spec.accepts_prefix(images.shape[1]):
            raise ValueError(
                f"a prefix has {self.spec.shortest_prefix} to {self.spec.frames} frames, not {images.shape[1]}"
            )
        return _set_codes(self._run("prefix", images, **more))

    def encode_regions(self, images: Images) -> SetCodes:
        """Set codes of regions, tiles row by row: (b, n n, t, t, 3)."""
        self._insist(images, 5, self.spec.tile_px, self.spec.tile_px)
        most = self.spec.region_tiles**2
        if not (most if self.spec.whole_regions else 1) <= images.shape[1] <= most:
            few = "" if self.spec.whole_regions else "up to "
            raise ValueError(f"a region has {few}{most} tiles, not {images.shape[1]}")
        return _set_codes(self._run("region", images))

    def _insist(self, images: Images, axes: int, height: int, width: int) -> None:
        if images.dtype != np.uint8 or images.ndim != axes or images.shape[-3:] != (height, width, 3):
            raise ValueError(f"expected RGB bytes of {height} x {width}, got {images.dtype} {images.shape}")

    def _run(self, graph: Part, images: Images, **more: Codes) -> list[Codes]:
        if graph not in self.spec.parts:
            raise BundleError(
                f"The bundle {self.root} has no graph '{graph}': the family '{self.model.family}' does without it.",
                "Use a bundle of another family.",
            )
        if graph not in self._sessions:
            self._sessions[graph] = self._session(graph)
        inputs = {"images": np.ascontiguousarray(images), **more}
        try:
            with self._turn if self.device.one_at_a_time else nullcontext():
                out: list[Codes] = self._sessions[graph].run(None, inputs)
        except Exception as problem:  # ONNX Runtime has an error class for every occasion
            if lacks_memory(problem):
                raise MemoryError(str(problem)) from problem
            raise BundleError(
                f"{self.root / graph}.onnx cannot be run: {str(problem).splitlines()[0][:160]}",
                "Export the bundle again.",
            ) from problem
        if out[0].shape[-1] != self.spec.dim:
            raise BundleError(
                f"The graphs of {self.root} make codes of length {out[0].shape[-1]}, its bundle.json says "
                f"{self.spec.dim}.",
                "Export the bundle again.",
            )
        return out

    def _session(self, name: str) -> ort.InferenceSession:
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = self.threads or os.cpu_count() or 1
        options.enable_mem_pattern = not self.device.one_at_a_time  # DirectML wants it off
        providers: list[Any] = [(self.device.provider, dict(self.device.options))]
        if self.device.provider != CPU.provider:
            providers.append(CPU.provider)  # for nodes that the device does not know
        try:
            session = ort.InferenceSession(self.root / f"{name}.onnx", options, providers=providers)
        except Exception as problem:  # ONNX Runtime has an error class for every occasion
            if lacks_memory(problem):
                raise MemoryError(str(problem)) from problem
            raise BundleError(
                f"{self.root / name}.onnx is missing or damaged, or does not run on {self.device}.",
                "Try --device cpu; if that fails, export the bundle again.",
            ) from problem
        self._check_device(session.get_providers())
        return session

    def _check_device(self, used: list[str]) -> None:
        """ONNX Runtime falls back to the CPU without a word if a device does not work."""
        if self.device.provider in used:
            return
        if self.device.required:
            raise DeviceError(
                f"The device {self.device} does not work on this machine; ONNX Runtime would use {used[0]}.",
                f"It needs {self.device.needs or 'its driver'}. Or use --device cpu.",
            )
        logger.warning("The device %s does not work on this machine; encoding on the CPU.", self.device)


def _set_codes(outputs: list[Codes]) -> SetCodes:
    whole, *tokens = outputs
    return SetCodes(whole, tokens[0] if tokens else np.zeros((len(whole), 0, whole.shape[1]), np.float32))


def files_fingerprint(root: Path, parts: tuple[Part, ...] = PARTS) -> str:
    """A short name for exactly these graphs and weights."""
    digest = hashlib.sha256()
    for name in (*(f"{graph}.onnx" for graph in PARTS if graph in parts), "weights.bin"):
        digest.update(name.encode() + b"\0" + (root / name).read_bytes())
    return digest.hexdigest()[:16]


def shipped(name: str) -> Path | None:
    """The folder of a bundle that comes with the package, such as ``town``; None for any other name."""
    here = Path(str(resources.files("x2localizer"))) / "bundles" / name
    return here if name.isidentifier() and (here / "bundle.json").is_file() else None


def bundle_folder(name: Path) -> Path | None:
    """The folder of a bundle, if this is one or the name of a shipped one."""
    return shipped(str(name)) or (name if (name / "bundle.json").is_file() else None)


def shipped_for(fingerprint: str) -> str:
    """The name of the shipped bundle that has a fingerprint; of the released one if none has."""
    folder = Path(str(resources.files("x2localizer"))) / "bundles"
    for path in sorted(folder.glob("*/bundle.json")):
        if json.loads(path.read_text(encoding="utf-8"))["fingerprint"] == fingerprint:
            return path.parent.name
    return RELEASED


def open_bundle(
    root: str | Path, *, threads: int = 0, verify: bool = True, device: Device | str | None = None
) -> Bundle:
    """Open a bundle by its folder, or a shipped one by its name; a damaged one is a clear error.

    threads: on the CPU; 0 is one for each core.
    verify: compare the files with the fingerprint.
    device: where to run it: auto, cpu, cuda, tensorrt, coreml, openvino, directml; see
        :func:`x2localizer.encoders.device.choose_device`.
    """
    chosen = device if isinstance(device, Device) else choose_device(device)
    root = shipped(str(root)) or Path(root)
    path = root / "bundle.json"
    if not path.is_file():
        raise BundleError(
            f"{root} is not a bundle: it has no bundle.json.", "Make one: x2l export CHECKPOINT --out DIR"
        )
    try:
        manifest = read_json(path)
        version, fingerprint, training = manifest["format"], manifest["fingerprint"], manifest["training"]
        parameters, objective = manifest.get("parameters"), manifest.get("config", {}).get("objective", {})
        capabilities = TypeAdapter(Capabilities).validate_python(manifest.get("capabilities", {}))
        precision, accepts = str(manifest.get("precision", "fp32")), tuple(map(str, manifest.get("accepts", ())))
        files = str(manifest.get("files", fingerprint))
        model, tau_f = validate(ModelSettings, manifest["model"]), float(objective.get("tau_f", 0.01))
        if not 0.0 < tau_f < 1e3 or not capabilities.plausible:
            raise ValueError("some numbers cannot be")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, ConfigError) as problem:
        raise BundleError(f"{path} is damaged.", "Export the bundle again.") from problem
    if version != FORMAT:
        raise BundleError(f"{root} has format {version}, this version reads {FORMAT}.", "Export the bundle again.")
    try:
        if verify and files_fingerprint(root, capabilities.parts) != files:
            raise BundleError(f"{root} is damaged: its files do not match its fingerprint.", "Export it again.")
    except OSError as problem:
        raise BundleError(f"{root} is not whole: {problem.filename} is missing.", "Export it again.") from problem
    return Bundle(
        root, model, training, fingerprint, threads, parameters, tau_f, capabilities, chosen, precision, accepts
    )


def spec_of(model: ModelSettings, capabilities: Capabilities) -> EncoderSpec:
    """The sizes of a model, and what its family can do."""
    return EncoderSpec(
        model.frame_height, model.frame_width, model.tile_px, model.dim, model.frames, model.region_tiles,
        capabilities.parts, capabilities.shortest_prefix, capabilities.tokens, capabilities.headings,
        capabilities.ahead, capabilities.further, capabilities.whole_regions, capabilities.poses,
    )  # fmt: skip
