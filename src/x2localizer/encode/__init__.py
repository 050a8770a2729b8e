"""Run a trained model: the bundle and its four encoders on ONNX Runtime. No torch here."""

from x2localizer.encode.bundle import Bundle, Part, SetCode, open_bundle, shipped

__all__ = ["Bundle", "Part", "SetCode", "open_bundle", "shipped"]
