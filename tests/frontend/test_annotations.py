"""Corrections of the annotations of ExecuTorch's NXP quantizer."""

import torch
from torch import fx
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation

from deuteron.frontend.quantize import annotations


def test_what_a_call_leaves_out_is_not_quantized() -> None:
    graph = fx.Graph()
    x, weights = graph.placeholder("x"), graph.placeholder("weights")
    layer = graph.call_function(torch.ops.aten.linear.default, (x, weights, None))
    graph.output(layer)
    spec = object()
    wanted = {x: spec, weights: spec, None: spec}  # as the wheel annotates a bias that is written as None
    layer.meta["quantization_annotation"] = QuantizationAnnotation(wanted, spec)  # type: ignore[arg-type]
    model = annotations.correct_annotations(fx.GraphModule({}, graph), spec, any_factor=True)
    (annotated,) = model.graph.find_nodes(op="call_function", target=torch.ops.aten.linear.default)
    assert [*annotated.meta["quantization_annotation"].input_qspec_map] == [x, weights]
