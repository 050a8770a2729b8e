"""The graph of one node that the search multiplies bytes with."""

from __future__ import annotations

from importlib import resources

import onnx
from onnx import TensorProto, helper


def test_the_shipped_product_is_what_onnx_would_make() -> None:
    data = (resources.files("x2localizer") / "search" / "product.onnx").read_bytes()
    model = onnx.load_from_string(data)
    onnx.checker.check_model(model)
    expected = helper.make_node("MatMulInteger", ["a", "b"], ["c"])
    assert list(model.graph.node) == [expected]
    assert [item.type.tensor_type.elem_type for item in model.graph.input] == [TensorProto.UINT8, TensorProto.INT8]
