"""Graphs of bundles on disk: each in a file of its own, their numbers together in one. Needs onnx, not torch."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from onnx import TensorProto

SHARED_FROM = 256
"""Bytes from which on a tensor is stored in weights.bin."""


class SharedWeights:
    """The contents of ``weights.bin``: bytes of tensors, equal ones once."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.places: dict[bytes, int] = {}
        """Where each tensor begins."""

    def place(self, data: bytes) -> int:
        """Where some bytes lie; they are added unless they are there."""
        if data not in self.places:
            self.data.extend(b"\0" * (-len(self.data) % 64))
            self.places[data] = len(self.data)
            self.data.extend(data)
        return self.places[data]


def write_graph(proto: onnx.ModelProto, path: Path, shared: SharedWeights) -> None:
    """Write a graph. Large tensors go to ``shared``."""
    for tensor in proto.graph.initializer:
        data = onnx.numpy_helper.to_array(tensor).tobytes()
        if len(data) < SHARED_FROM:
            continue
        tensor.raw_data = data  # where set_external_data wants it
        onnx.external_data_helper.set_external_data(tensor, "weights.bin", shared.place(data), len(data))
        tensor.data_location = TensorProto.EXTERNAL
        for field in ("raw_data", "float_data", "int32_data", "int64_data"):
            tensor.ClearField(field)
    del proto.graph.value_info[:]
    for node in proto.graph.node:
        del node.metadata_props[:]  # the exporter stores paths of this machine there
        node.doc_string = ""
    path.write_bytes(proto.SerializeToString(deterministic=True))


@contextmanager
def new_bundle(out: Path) -> Iterator[Path]:
    """A folder to write a bundle to, which replaces ``out`` when the block ends without an error."""
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}-writing-", dir=out.parent))
    try:
        yield work
        work.chmod(0o755)
        if out.exists():
            shutil.rmtree(out)
        work.rename(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)
