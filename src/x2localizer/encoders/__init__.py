"""Encoders: what they promise, and the one that runs a trained bundle on ONNX Runtime."""

from x2localizer.encoders.bundle import Bundle, open_bundle, shipped, shipped_for
from x2localizer.encoders.device import Device, choose_device
from x2localizer.encoders.protocol import Encoder, EncoderSpec, Part, SetCodes

__all__ = [
    "Bundle", "Device", "Encoder", "EncoderSpec", "Part", "SetCodes", "choose_device", "open_bundle", "shipped",
    "shipped_for",
]  # fmt: skip
