"""Puts right what ExecuTorch's NXP quantiser asks for where it would fail or spoil the values.

A quantiser annotates each node with a specification for each tensor that it reads and for its result: to measure a
range, to take a fixed one, or to share that of another place.
"""

import re
from typing import Any

import torch
from torch import fx
from torchao.quantization.pt2e.quantizer import FixedQParamsQuantizationSpec, SharedQuantizationSpec

_KEY = "quantization_annotation"
_MUL = re.compile(r"\bmul\.")
_OUT_OF_RANGE = re.compile(r"\b(exp|neg|sum)\.")
"""Operators that the wheel lets share the quantisation of their input, and whose results leave its range."""


def mend(model: fx.GraphModule, measured: object, *, any_factor: bool) -> fx.GraphModule:
    """The annotated module with better annotations.

    Args:
        model: what the wheel's quantiser has annotated.
        measured: the specification that measures a range.
        any_factor: whether the NPU multiplies values of any range. The wheel gives factors the range of -0.5 to 0.5,
            whatever they are, and so cuts off most.
    """
    for node in model.graph.nodes:
        if (annotation := node.meta.get(_KEY)) is not None:
            _only_floats(node, annotation)
            if any_factor and _MUL.search(str(node.target)):
                annotation.input_qspec_map = dict.fromkeys(annotation.input_qspec_map, measured)
            if isinstance(annotation.output_qspec, SharedQuantizationSpec):
                _mend_shared(node, annotation, measured)
    return model


def _only_floats(node: fx.Node, annotation: Any) -> None:
    """Leaves tensors that are not float32 as they are: indices and masks have nothing to quantise."""
    wanted = annotation.input_qspec_map
    annotation.input_qspec_map = {arg: spec for arg, spec in wanted.items() if _is_float(arg)}
    annotation.output_qspec = annotation.output_qspec if _is_float(node) else None


def _is_float(node: fx.Node) -> bool:
    """True unless the node is known to be a tensor of another dtype than float32."""
    value: object = node.meta.get("val")
    return not isinstance(value, torch.Tensor) or value.dtype == torch.float32


def _mend_shared(node: fx.Node, annotation: Any, measured: object) -> None:
    """Mends an operator whose result shares the fixed quantisation of a sigmoid, tanh or softmax.

    With one input the wheel lets the place where that is read measure a range of its own, and then refuses to convert
    the operator because input and output differ. Results that leave the fixed range would be cut off.
    """
    shared = annotation.output_qspec
    fixed = _source(shared)
    if not isinstance(fixed, FixedQParamsQuantizationSpec):
        return
    inputs = list(annotation.input_qspec_map)
    if len(inputs) == 1:
        annotation.input_qspec_map[inputs[0]] = shared
        if _OUT_OF_RANGE.search(str(node.target)):
            annotation.output_qspec = measured
    elif any(_source(SharedQuantizationSpec(arg)) != fixed for arg in inputs):
        together = SharedQuantizationSpec((inputs[0], node))
        annotation.input_qspec_map = {inputs[0]: measured, **dict.fromkeys(inputs[1:], together)}
        annotation.output_qspec = together


def _source(spec: object) -> object:
    """The specification that a shared one comes down to."""
    while isinstance(spec, SharedQuantizationSpec):
        place = spec.edge_or_node
        if isinstance(place, tuple):
            spec = place[1].meta[_KEY].input_qspec_map[place[0]]
        else:
            spec = place.meta[_KEY].output_qspec if _KEY in place.meta else None
    return spec
