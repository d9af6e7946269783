"""Annotates operators of PyTorch that become ours for quantization, and replaces them in the edge program."""

import operator
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from deuteron.frontend.cortex_m.custom_ops import broadcast_binary, interpolation, layers, layout, library, requantize
from deuteron.frontend.cortex_m.custom_ops.catalogue import PATTERNS
from deuteron.frontend.cortex_m.custom_ops.lowering_pattern import (
    INT16_MOST,
    Affine,
    LoweredCall,
    LoweringPattern,
    Result,
    Site,
    value_of,
)
from deuteron.frontend.cortex_m.elementwise import LIMITS, Tables, aten_operator, evaluate
from deuteron.frontend.cortex_m.layout import constant_of
from deuteron.frontend.cortex_m.numerical_check import copy_mark
from deuteron.frontend.cortex_m.refusals import mixes
from deuteron.operators.custom_ops import NAMESPACE

_MARK = "deuteron_added"
"""Key of a node's custom metadata: the dtype for which it was annotated."""

_DTYPES = {"int8": torch.int8, "int16": torch.int16}
_INT16_CLAMPED = layers.WEIGHTED | broadcast_binary.CLAMPED


def preserved() -> Collection[object]:
    """The ATen operators that must not be decomposed before `lower`."""
    return [target for target, pattern in PATTERNS[torch.int8].items() if pattern.whole]


def annotate(node: fx.Node, activations: object) -> Any:
    """Return the int8 annotation of a node that becomes one of ours, and mark the node; None for other nodes.

    `activations` is the specification of activations.
    """
    return _annotation(node, "int8", activations)


def annotate_int16(node: fx.Node, activations: Any, weights: Any) -> Any:
    """Return the int16 annotation of a node that becomes one of ours, and mark the node; None for other nodes.

    `activations` and `weights` are the specifications of activations and weights.
    """
    from torchao.quantization.pt2e.quantizer.quantizer import QuantizationAnnotation

    if node.op == "placeholder" or _is_fused_clamp(node):
        return QuantizationAnnotation({}, activations) if _is_float(node) else None
    if interpolation.takes(node):
        return QuantizationAnnotation(dict.fromkeys(interpolation.operands(node), activations), activations)
    annotation = _annotation(node, "int16", activations)
    if annotation is None:
        return None
    if node.target in layers.WEIGHTED:
        annotation.input_qspec_map[node.args[1]] = weights
    if len(node.users) == 1 and _is_fused_clamp(next(iter(node.users))):
        annotation.output_qspec = None
    return annotation


def _is_float(node: fx.Node) -> bool:
    value: object = node.meta.get("val")
    return isinstance(value, Tensor) and value.dtype == torch.float32


def _is_fused_clamp(node: fx.Node) -> bool:
    """True for a clamp that the int16 operator before it applies."""
    if node.op != "call_function" or node.target not in LIMITS:
        return False
    before = cast(fx.Node, node.args[0])
    is_clamped = len(before.users) == 1 and before.target in _INT16_CLAMPED
    pattern = _pattern(before, torch.int16) if is_clamped else None
    return pattern is not None and pattern.takes(before)


def _annotation(node: fx.Node, dtype: str, activations: object) -> Any:
    from torchao.quantization.pt2e.quantizer.quantizer import QuantizationAnnotation, SharedQuantizationSpec

    pattern = _pattern(node, _DTYPES[dtype])
    if pattern is None or not pattern.takes(node):
        return None
    operands = pattern.operands(node)
    if not operands or any(value_of(arg).dtype != torch.float32 for arg in operands):
        return None
    node.meta["custom"] = {**node.meta.get("custom", {}), _MARK: dtype}
    first, *others = dict.fromkeys(operands)
    shared: Any = SharedQuantizationSpec((first, node))
    wanted: dict[fx.Node, Any] = {first: activations}
    wanted |= dict.fromkeys(others, activations if pattern.result is Result.MEASURED else shared)
    results = {Result.MEASURED: activations, Result.SHARED: shared, Result.INTEGER: None}
    return QuantizationAnnotation(wanted, cast(Any, results[pattern.result]))


def lower(program: ExportedProgram, constants: Mapping[str, Tensor]) -> None:
    """Replace marked operators between quantizations by ours.

    `constants` are the constants of one element.

    Raises:
        UnsupportedError: the scale of a result differs from the operands' although they must be equal, or linear
            interpolation of a function is not accurate enough.
    """
    library.load()
    for node in list(program.graph.nodes):
        dtype = _DTYPES.get(node.meta.get("custom", {}).get(_MARK))
        if dtype is not None and (pattern := _pattern(node, dtype)) is not None:
            _replace(program, node, pattern, dtype)
    for node, source, values in Tables(program, constants, torch.int16).functions():
        _insert_call(program, interpolation.call(node, values), cast(fx.Node, node.args[0]), [node], (source,))
    for node in list(program.graph.nodes):
        if (before := _requantized(node)) is not None:
            call = requantize.requantization(value_of(node), _affine(before), _affine(node))
            _insert_call(program, call, node, [node], before.all_input_nodes)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def _requantized(node: fx.Node) -> fx.Node | None:
    """The dequantize node before a quantize node of another dtype; None for other nodes."""
    before = node.args[0] if _is_affine(node, "quantize") else None
    if not isinstance(before, fx.Node) or not _is_affine(before, "dequantize"):
        return None
    return before if before.args[5] != node.args[5] else None


def _pattern(node: fx.Node, dtype: torch.dtype) -> LoweringPattern | None:
    return PATTERNS[dtype].get(aten_operator(node.target)) if node.op == "call_function" else None


def _replace(program: ExportedProgram, node: fx.Node, pattern: LoweringPattern, dtype: torch.dtype) -> None:
    """Replace a node by one of our operators if its operands and results are quantized."""
    operands = [arg for arg in node.args if isinstance(arg, fx.Node) and _is_affine(arg, "dequantize", dtype)]
    if pattern.result is Result.INTEGER:
        ends, limit = [node], None
    else:
        ends, limit = _ends(node, dtype)
        if not all(_is_affine(user, "quantize", dtype) and user.args[1:] == ends[0].args[1:] for user in ends):
            return
    if not operands or not ends:
        return
    stored = tuple(cast(fx.Node, arg.args[0]) for arg in operands)
    is_last = [layout.is_last(value_of(arg)) for arg in stored if value_of(arg).shape == value_of(ends[0]).shape]
    if any(layout.strides_of(x) is None or not (pattern.any_order or x.is_contiguous()) for x in map(value_of, stored)):
        return
    scales = tuple(map(_affine, operands))
    result = scales[0] if pattern.result is Result.INTEGER else _affine(ends[0])
    if pattern.result is Result.SHARED and any(scale != result for scale in scales):
        raise mixes(node, dict.fromkeys((scale.scale, scale.zero_point) for scale in (*scales, result)))
    constant = partial(constant_of, program)
    limits = (-128, 127) if limit is None else _limits(limit, ends[0])
    call = pattern.call(Site(node, scales, result, constant, stored, tuple(ends), limits, any(is_last), dtype))
    if call is not None:
        _insert_call(program, call, node, ends, stored)


def _ends(node: fx.Node, dtype: torch.dtype) -> tuple[list[fx.Node], fx.Node | None]:
    """The readers of a node's result, and the operator that limits it: a clamp after the node, or the node itself.

    Tables apply the limits of int8 results. For pools with indices, the readers are those of the values.
    """
    users = list(node.users)
    if dtype != torch.int16:
        return users, None
    if len(users) == 1 and users[0].target is operator.getitem:
        return list(users[0].users), node
    if len(users) == 1 and users[0].op == "call_function" and aten_operator(users[0].target) in LIMITS:
        return list(users[0].users), users[0]
    return users, node


def _limits(limit: fx.Node, end: fx.Node) -> tuple[int, int]:
    """The least and the largest int16 value after a clamp."""
    low, high = -INT16_MOST, INT16_MOST
    if aten_operator(limit.target) not in LIMITS:
        return low, high
    real = torch.tensor([low, high]) * torch.tensor(_affine(end).scale)
    stored = evaluate(end, {limit: evaluate(limit, {cast(fx.Node, limit.args[0]): real})})
    return int(stored[0]), int(stored[1])


def _insert_call(
    program: ExportedProgram, call: LoweredCall, node: fx.Node, ends: Sequence[fx.Node], stored: Sequence[fx.Node]
) -> None:
    """Insert a call before a node and replace the nodes `ends` by it."""
    from executorch.backends.transforms.utils import create_constant_placeholder
    from executorch.exir.dialects._ops import ops as dialects
    from torch.export.graph_signature import InputKind

    graph = program.graph
    first = next(n for n in graph.nodes if n.op == "placeholder")
    with graph.inserting_before(first):
        constants = [
            create_constant_placeholder(program, graph, f"{node.name}_{i}", InputKind.PARAMETER, value)
            for i, value in enumerate(call.constants)
        ]
    value = value_of(ends[0])
    target = getattr(getattr(cast(Any, dialects).edge, NAMESPACE), call.operator).default
    with graph.inserting_before(node):
        args = (*(stored if call.inputs is None else call.inputs), *constants, [*value.shape], [*call.params.words()])
        ours = graph.call_function(target, args)
    ours.meta = dict(node.meta) | {"val": value}
    for end in ends:
        copy_mark(end, ours)
        end.replace_all_uses_with(ours)
        program.graph_signature.replace_all_uses(end.name, ours.name)


def _is_affine(node: fx.Node, does: str, *dtypes: torch.dtype) -> bool:
    """True for a per-tensor quantize or dequantize node with one of these dtypes; int8 and int16 by default."""
    target = getattr(torch.ops.quantized_decomposed, f"{does}_per_tensor").default
    wanted = dtypes or tuple(_DTYPES.values())
    return node.op == "call_function" and aten_operator(node.target) is target and node.args[5] in wanted


def _affine(node: fx.Node) -> Affine:
    scale, zero_point = node.args[1:3]
    return Affine(float(cast(float, scale)), int(cast(int, zero_point)))
