"""Where encoders run: the execution providers of ONNX Runtime by short names, and which of them is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from x2localizer.errors import DeviceError, nearest

VARIABLE = "X2L_DEVICE"
"""Environment variable with the device that is used where none is named; processes that are started inherit it."""
CPU_PIXELS = 1 << 19
"""Pixels of a batch on a CPU: 128 tiles of 64 x 64, with which the shipped towers are fastest."""
GPU_PIXELS = 1 << 23
"""Pixels of a batch on other devices, which need more work at a time; a choice that was not measured."""


@dataclass(frozen=True, slots=True)
class Device:
    """A kind of device.

    name: what users call it.
    provider: what ONNX Runtime calls it.
    package: what brings it, for pip.
    needs: what else it needs.
    options: settings of the provider.
    pixels_at_once: of a batch of pictures.
    one_at_a_time: whether a graph must not run in two threads at once.
    required: whether it is an error if the device does not work; otherwise the CPU takes over.
    """

    name: str
    provider: str
    package: str = "onnxruntime"
    needs: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    pixels_at_once: int = GPU_PIXELS
    one_at_a_time: bool = False
    required: bool = True

    def __str__(self) -> str:
        return f"{self.name} ({self.provider})"


CPU = Device("cpu", "CPUExecutionProvider", pixels_at_once=CPU_PIXELS)
DEVICES = {
    device.name: device
    for device in (
        CPU,
        # Codes of a GPU must fit galleries of a CPU, so no 19-bit floats; and no search for the fastest convolution at
        # each new batch size, which takes longer than it saves.
        Device(
            "cuda", "CUDAExecutionProvider", "onnxruntime-gpu", "an NVIDIA GPU with CUDA and cuDNN",
            {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"},
        ),
        Device("tensorrt", "TensorrtExecutionProvider", "onnxruntime-gpu", "an NVIDIA GPU with CUDA and TensorRT"),
        Device("coreml", "CoreMLExecutionProvider", needs="macOS"),
        Device(
            "openvino", "OpenVINOExecutionProvider", "onnxruntime-openvino", "an Intel CPU, GPU or NPU",
            pixels_at_once=CPU_PIXELS,
        ),
        Device("directml", "DmlExecutionProvider", "onnxruntime-directml", "Windows", one_at_a_time=True),
    )
}  # fmt: skip
AUTO = ("cuda", "directml", "openvino")
"""What ``auto`` takes if it is there, in this order, before the CPU. Who installs a package with these wants to use it.

TensorRT is not among them, because it takes minutes to build its engines; nor is CoreML, which comes with every
onnxruntime for macOS and computes in 16 bits.
"""


def available_providers() -> list[str]:
    """What this installation of ONNX Runtime can run on."""
    import onnxruntime as ort  # noqa: PLC0415 - not needed to name devices

    found: list[str] = ort.get_available_providers()
    return found


def choose_device(name: str | None = None, available: Callable[[], Sequence[str]] | None = None) -> Device:
    """The device of a name: ``auto``, a key of ``DEVICES``, or a provider as ONNX Runtime calls it.

    name: None is what the environment variable X2L_DEVICE says, or ``auto``.
    available: lists the providers that are there; by default those of ONNX Runtime.
    """
    name = name or os.environ.get(VARIABLE) or "auto"
    there = list((available or available_providers)())
    if name == "auto":
        found = next((DEVICES[key] for key in AUTO if DEVICES[key].provider in there), CPU)
        return replace(found, required=found is CPU)
    device = DEVICES.get(name)
    if device is None and name in there:
        known = next((device for device in DEVICES.values() if device.provider == name), None)
        return known or Device(name, name)
    if device is None:
        raise DeviceError(f"There is no device '{name}'.", nearest(name, ["auto", *DEVICES]))
    if device.provider not in there:
        raise missing_device(device, there)
    return device


def missing_device(device: Device, there: Sequence[str]) -> DeviceError:
    """The error about a device that this installation of ONNX Runtime does not have."""
    names = [key for key, other in DEVICES.items() if other.provider in there]
    install = (
        f"pip uninstall onnxruntime && pip install {device.package}"
        if device.package != "onnxruntime"
        else f"pip install {device.package}"
    )
    return DeviceError(
        f"This installation of ONNX Runtime cannot use the device '{device.name}'; it has: {', '.join(names)}.",
        f"It needs {device.needs}, and: {install}. Or use --device auto.",
    )
