"""Quantises what becomes one of our operators, and puts these into the edge program."""

import operator
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from deuteron.frontend.cortex_m.added import int16, int16_functions, layout, library
from deuteron.frontend.cortex_m.added.catalogue import FORMS
from deuteron.frontend.cortex_m.added.lowering_pattern import Affine, Call, Form, Result, Site, value_of
from deuteron.frontend.cortex_m.elementwise import LIMITS, Tables, aten_operator, call_on
from deuteron.frontend.cortex_m.layout import constant_of
from deuteron.frontend.cortex_m.lowering_check import copy_mark
from deuteron.frontend.cortex_m.refusals import mixes
from deuteron.operators.added import NAMESPACE

_MARK = "deuteron_added"
"""Key among a node's custom metadata: the dtype that it was quantised to for becoming one of ours."""

_INT8, _INT16 = "int8", "int16"
_FORMS = {_INT8: FORMS, _INT16: int16.FORMS}
_DTYPES = {_INT8: torch.int8, _INT16: torch.int16}


def preserved() -> Collection[object]:
    """The ATen operators that must reach `put` as they are."""
    return [target for target, form in FORMS.items() if form.whole]


def annotate(node: fx.Node, measured: object) -> Any:
    """How a node of the float model is quantised that becomes one of ours, and is marked so; None for any other."""
    form = _form(node, FORMS)
    return None if form is None else _annotation(node, form, measured, _INT8)


def annotate_wide(node: fx.Node, measured: Any, weights: Any) -> Any:
    """The same with activations of int16; None for what int16 lacks.

    Args:
        node: of the float model.
        measured: measures the range of an activation.
        weights: the specification of weights.
    """
    from torchao.quantization.pt2e.quantizer.quantizer import QuantizationAnnotation

    if node.op == "placeholder" or _cuts_off(node):
        return QuantizationAnnotation({}, measured) if _is_float(node) else None
    if int16_functions.takes(node):
        return QuantizationAnnotation(dict.fromkeys(int16_functions.operands(node), measured), measured)
    form = _form(node, int16.FORMS)
    annotation = None if form is None else _annotation(node, form, measured, _INT16)
    if annotation is None:
        return None
    if node.target in int16.LAYERS:
        annotation.input_qspec_map[node.args[1]] = weights
    if len(node.users) == 1 and _cuts_off(next(iter(node.users))):
        annotation.output_qspec = None
    return annotation


def _is_float(node: fx.Node) -> bool:
    value: object = node.meta.get("val")
    return isinstance(value, Tensor) and value.dtype == torch.float32


def _cuts_off(node: fx.Node) -> bool:
    """True for what an operator with int16 results before it does, too."""
    if node.op != "call_function" or node.target not in LIMITS:
        return False
    before = cast(fx.Node, node.args[0])
    form = _form(before, int16.FORMS) if len(before.users) == 1 and before.target in int16.LIMITED else None
    return form is not None and form.takes(before)


def _annotation(node: fx.Node, form: Form, measured: object, dtype: str) -> Any:
    from torchao.quantization.pt2e.quantizer.quantizer import QuantizationAnnotation, SharedQuantizationSpec

    if not form.takes(node):
        return None
    operands = form.operands(node)
    if not operands or any(value_of(arg).dtype != torch.float32 for arg in operands):
        return None
    node.meta["custom"] = {**node.meta.get("custom", {}), _MARK: dtype}
    first, *others = dict.fromkeys(operands)
    shared: Any = SharedQuantizationSpec((first, node))
    wanted: dict[fx.Node, Any] = {first: measured}
    wanted |= dict.fromkeys(others, measured if form.result is Result.MEASURED else shared)
    results = {Result.MEASURED: measured, Result.SHARED: shared, Result.INTEGER: None}
    return QuantizationAnnotation(wanted, cast(Any, results[form.result]))


def put(program: ExportedProgram, constants: Mapping[str, Tensor]) -> None:
    """Let our operators compute what lies between quantisations and has a form.

    `constants` are those of the program that hold one number.

    Raises:
        UnsupportedError: for an operator whose result must have the scale of its operands and has another, and for a
            function that lines between values of int16 do not come close to.
    """
    library.load()
    for node in list(program.graph.nodes):
        dtype = node.meta.get("custom", {}).get(_MARK)
        if dtype is not None and (form := _form(node, _FORMS[dtype])) is not None:
            _replace(program, node, form, _DTYPES[dtype])
    for node, source, values in Tables(program, constants, torch.int16).found():
        _put(program, int16_functions.call(node, values), cast(fx.Node, node.args[0]), [node], (source,))
    for node in list(program.graph.nodes):
        if (before := _requantised(node)) is not None:
            call = int16.requantisation(value_of(node), _affine(before), _affine(node))
            _put(program, call, node, [node], before.all_input_nodes)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def _requantised(node: fx.Node) -> fx.Node | None:
    """The dequantise node before a quantise node of another dtype, None for any other node."""
    before = node.args[0] if _is_affine(node, "quantize") else None
    if not isinstance(before, fx.Node) or not _is_affine(before, "dequantize"):
        return None
    return before if before.args[5] != node.args[5] else None


def _form(node: fx.Node, forms: Mapping[object, Form]) -> Form | None:
    return forms.get(aten_operator(node.target)) if node.op == "call_function" else None


def _replace(program: ExportedProgram, node: fx.Node, form: Form, dtype: torch.dtype) -> None:
    """Put one of ours instead of a node that is quantised on all sides; any other is left as it is."""
    operands = [arg for arg in node.args if isinstance(arg, fx.Node) and _is_affine(arg, "dequantize", dtype)]
    if form.result is Result.INTEGER:
        ends, limit = [node], None
    else:
        ends, limit = _ends(node, dtype)
        if not all(_is_affine(user, "quantize", dtype) and user.args[1:] == ends[0].args[1:] for user in ends):
            return
    if not operands or not ends:
        return
    stored = tuple(cast(fx.Node, arg.args[0]) for arg in operands)
    is_last = [layout.is_last(value_of(arg)) for arg in stored if value_of(arg).shape == value_of(ends[0]).shape]
    if any(layout.strides_of(x) is None or not (form.any_order or x.is_contiguous()) for x in map(value_of, stored)):
        return
    scales = tuple(map(_affine, operands))
    result = scales[0] if form.result is Result.INTEGER else _affine(ends[0])
    if form.result is Result.SHARED and any(scale != result for scale in scales):
        raise mixes(node, dict.fromkeys((scale.scale, scale.zero_point) for scale in (*scales, result)))
    constant = partial(constant_of, program)
    limits = (-128, 127) if limit is None else _limits(limit, ends[0])
    call = form.call(Site(node, scales, result, constant, stored, tuple(ends), limits, any(is_last)))
    if call is not None:
        _put(program, call, node, ends, stored)


def _ends(node: fx.Node, dtype: torch.dtype) -> tuple[list[fx.Node], fx.Node | None]:
    """What reads the result of a node, and what lies between: the operator that cuts off values, or the node itself.

    Results of int8 have their limits cut off by tables. Of pools with indices the values alone are read.
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
    """The least and the largest stored value of int16 that an operator lets through."""
    low, high = -int16.MOST, int16.MOST
    if aten_operator(limit.target) not in LIMITS:
        return low, high
    real = torch.tensor([low, high]) * torch.tensor(_affine(end).scale)
    stored = call_on(end, {limit: call_on(limit, {cast(fx.Node, limit.args[0]): real})})
    return int(stored[0]), int(stored[1])


def _put(
    program: ExportedProgram, call: Call, node: fx.Node, ends: Sequence[fx.Node], stored: Sequence[fx.Node]
) -> None:
    """Put a call instead of what `ends` give, as what a node computes."""
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
    """True for a node that quantises to, or dequantises from, one of these dtypes, int8 and int16, with one scale."""
    target = getattr(torch.ops.quantized_decomposed, f"{does}_per_tensor").default
    wanted = dtypes or tuple(_DTYPES.values())
    return node.op == "call_function" and aten_operator(node.target) is target and node.args[5] in wanted


def _affine(node: fx.Node) -> Affine:
    scale, zero_point = node.args[1:3]
    return Affine(float(cast(float, scale)), int(cast(int, zero_point)))
