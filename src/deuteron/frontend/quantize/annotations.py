"""Corrects annotations of ExecuTorch's NXP quantizer that would fail or lose values.

A quantizer annotates each node with a specification for each of its operands and for its result: a measured range, a
fixed one, or the range of another place.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torchao.quantization.pt2e import (
    FakeQuantize,
    FusedMovingAvgObsFakeQuantize,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
)
from torchao.quantization.pt2e.quantizer import (
    FixedQParamsQuantizationSpec,
    QuantizationSpec,
    SharedQuantizationSpec,
)

from deuteron.frontend.cortex_m.upstream import activation_spec
from deuteron.frontend.operators import reads_inputs

_KEY = "quantization_annotation"
_MARKS = ("quantizer_matched", "_arm_annotation_info")
"""Metadata that ExecuTorch's Arm and Cortex-M quantizers add to annotations; they skip nodes with the first key."""

_MUL = re.compile(r"\bmul\.")
_LAYER = re.compile(r"\b(conv\w*|linear)\.")
_OUT_OF_RANGE = re.compile(r"\b(exp|neg|sum)\.")
"""Operators that share the quantization of their input in the backend although their results exceed its range."""


def correct_annotations(model: fx.GraphModule, measured: object, *, any_factor: bool) -> fx.GraphModule:
    """Return the annotated model with corrected annotations.

    Args:
        model: annotated by the backend's quantizer.
        measured: the specification that measures a range.
        any_factor: whether the NPU multiplies values of any range. The backend gives all factors the range of -0.5 to
            0.5, which clamps most factors.
    """
    for node in model.graph.nodes:
        if (annotation := node.meta.get(_KEY)) is not None:
            _only_floats(node, annotation)
            if _LAYER.search(str(node.target)) and reads_inputs(node.args[1]):
                annotation.input_qspec_map[node.args[1]] = measured  # no kernel quantizes per channel at run time
            if any_factor and _MUL.search(str(node.target)):
                annotation.input_qspec_map = dict.fromkeys(annotation.input_qspec_map, measured)
            if isinstance(annotation.output_qspec, SharedQuantizationSpec):
                _correct_shared(node, annotation, measured)
    return model


def copy_shared_biases(model: fx.GraphModule) -> None:
    """Give each layer its own node for its bias, which calls of one module share.

    The scale of a bias depends on the layer's input, which differs between calls.
    """
    for node in model.graph.nodes:
        if node.op == "get_attr" and all(_adds(user, node) for user in node.users):
            for user in list(node.users)[1:]:
                with model.graph.inserting_before(user):
                    user.replace_input_with(node, model.graph.node_copy(node))
    model.recompile()


def _adds(layer: fx.Node, bias: fx.Node) -> bool:
    return _LAYER.search(str(layer.target)) is not None and len(layer.args) > 2 and layer.args[2] is bias


def _only_floats(node: fx.Node, annotation: Any) -> None:
    """Remove specifications of tensors that are not float32, such as indices and masks, and of missing biases."""
    wanted = annotation.input_qspec_map
    annotation.input_qspec_map = {arg: spec for arg, spec in wanted.items() if arg is not None and _is_float(arg)}
    annotation.output_qspec = annotation.output_qspec if _is_float(node) else None


def _is_float(node: fx.Node) -> bool:
    """True unless the node is a tensor of a dtype other than float32."""
    value: object = node.meta.get("val")
    return not isinstance(value, torch.Tensor) or value.dtype == torch.float32


def _correct_shared(node: fx.Node, annotation: Any, measured: object) -> None:
    """Correct an operator whose result shares the fixed quantization of a sigmoid, tanh or softmax.

    With one input, the backend lets readers of the result measure their own range, and then refuses to convert the
    operator because input and output differ. Results beyond the fixed range would be clamped.
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


def groups(model: fx.GraphModule) -> list[list[fx.Node]]:
    """Group annotated operators without quantization between them, such as a convolution and its activation."""
    grouped: dict[fx.Node, list[fx.Node]] = {}
    for node in model.graph.nodes:
        if node.op != "call_function" or (annotation := node.meta.get(_KEY)) is None:
            continue
        group = [node]
        for arg in node.all_input_nodes:
            if arg in grouped and arg.meta[_KEY].output_qspec is None and arg not in annotation.input_qspec_map:
                group = [*grouped[arg], *group] if grouped[arg] is not group else group
        for member in group:
            grouped[member] = group
    return list({id(group): group for group in grouped.values()}.values())


def clear(model: fx.GraphModule, nodes: Iterable[fx.Node] | None = None) -> None:
    """Remove the annotations of these nodes, or of all."""
    for node in model.graph.nodes if nodes is None else nodes:
        for key in (_KEY, *_MARKS):
            node.meta.pop(key, None)
        if (custom := node.meta.get("custom")) is not None:  # the Arm quantizer puts its mark there
            node.meta["custom"] = {key: value for key, value in custom.items() if key not in _MARKS}


def fake_quantize(model: fx.GraphModule) -> None:
    """Replace observers by fake quantization, so that training sees the rounding.

    The range of an activation is a moving average over training; that of a weight is always its current one.
    """
    for node in model.graph.nodes:
        if (annotation := node.meta.get(_KEY)) is not None:
            wanted = annotation.input_qspec_map
            annotation.input_qspec_map = {arg: _faked(spec, arg) for arg, spec in wanted.items()}
            annotation.output_qspec = _faked(annotation.output_qspec, node)


def _faked(spec: object, node: fx.Node) -> object:
    if not isinstance(spec, QuantizationSpec):
        return spec
    settings: dict[str, Any] = getattr(getattr(spec.observer_or_fake_quant_ctr, "p", None), "keywords", {})
    eps = {"eps": settings["eps"]} if "eps" in settings else {}
    moving: Any = MovingAverageMinMaxObserver
    fake: Any = FakeQuantize
    if node.op != "get_attr":
        fused: Any = FusedMovingAvgObsFakeQuantize
        limits = torch.iinfo(spec.dtype)  # explicit, because PT2E shares ranges between places with equal limits
        low, high = spec.quant_min, spec.quant_max
        spec = replace(
            spec, quant_min=limits.min if low is None else low, quant_max=limits.max if high is None else high
        )
        fake_quantizer = fused.with_args(observer=moving, **eps)
    elif spec.qscheme in (torch.per_channel_symmetric, torch.per_channel_affine):
        moving = MovingAveragePerChannelMinMaxObserver
        axis = settings.get("ch_axis", spec.ch_axis)
        fake_quantizer = fake.with_args(observer=moving.with_args(averaging_constant=1.0, **eps), ch_axis=axis)
    else:
        fake_quantizer = fake.with_args(observer=moving.with_args(averaging_constant=1.0, **eps))
    return replace(spec, observer_or_fake_quant_ctr=fake_quantizer)


def resolve_dangling(model: fx.GraphModule) -> None:
    """Let nodes measure their own range if their specification shares that of a place without one."""
    for node in model.graph.nodes:
        if (annotation := node.meta.get(_KEY)) is None:
            continue
        wanted = annotation.input_qspec_map
        for arg, spec in wanted.items():
            if isinstance(spec, SharedQuantizationSpec) and _source(spec) is None:
                wanted[arg] = activation_spec()
        if isinstance(annotation.output_qspec, SharedQuantizationSpec) and _source(annotation.output_qspec) is None:
            first = next(iter(wanted), None)
            annotation.output_qspec = activation_spec() if first is None else SharedQuantizationSpec((first, node))


def share_earlier(model: fx.GraphModule) -> None:
    """Let shared specifications refer to earlier places: PT2E makes observers in the order of the graph.

    Arm's quantizer lets an operator that moves unquantized values share the range of a later reader.
    """
    order = {node: index for index, node in enumerate(model.graph.nodes)}
    for node in model.graph.nodes:
        wanted: dict[fx.Node, object] = getattr(node.meta.get(_KEY), "input_qspec_map", {})
        for arg, spec in list(wanted.items()):
            place = _measured(spec)
            if place is None or order[place[1]] <= order[node]:
                continue
            operand, later = place[0], place[1].meta[_KEY]
            shared = SharedQuantizationSpec((arg, node))
            if operand is None:
                wanted[arg], later.output_qspec = later.output_qspec, shared
            else:
                wanted[arg], later.input_qspec_map[operand] = later.input_qspec_map[operand], shared


def _measured(spec: object) -> tuple[fx.Node | None, fx.Node] | None:
    """The place from which a shared specification has its range: an operand, None for the result, and the node.

    None for other specifications, and if the references are circular.
    """
    place: tuple[fx.Node | None, fx.Node] | None = None
    if isinstance(_source(spec), QuantizationSpec):
        while isinstance(spec, SharedQuantizationSpec):
            shared: Any = spec.edge_or_node
            place = (None, shared) if isinstance(shared, fx.Node) else (shared[0], shared[1])
            annotation: Any = place[1].meta[_KEY]
            spec = annotation.output_qspec if place[0] is None else annotation.input_qspec_map.get(place[0])
    return place


def _source(spec: object) -> object:
    """The specification that a shared one refers to; None if there is none, or if the references are circular."""
    seen: list[object] = []
    while isinstance(spec, SharedQuantizationSpec):
        place = spec.edge_or_node
        if place in seen:
            return None
        seen.append(place)
        node = place[1] if isinstance(place, tuple) else place
        if (annotation := node.meta.get(_KEY)) is None:
            return None
        spec = annotation.input_qspec_map.get(place[0]) if isinstance(place, tuple) else annotation.output_qspec
    return spec
