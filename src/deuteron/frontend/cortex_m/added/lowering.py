"""Quantises what becomes one of our operators, and puts these into the edge program."""

from collections.abc import Collection
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from deuteron.board.operators.added import NAMESPACE
from deuteron.frontend.cortex_m.added import layout, library
from deuteron.frontend.cortex_m.added.families import FORMS
from deuteron.frontend.cortex_m.added.form import Affine, Form, Result, Site, value_of
from deuteron.frontend.cortex_m.elementwise import aten_operator
from deuteron.frontend.cortex_m.values import copy_mark

_MARK = "deuteron_added"
"""Key among a node's custom metadata: it was quantised to become one of ours."""


def preserved() -> Collection[object]:
    """The ATen operators that must reach `put` as they are."""
    return [target for target, form in FORMS.items() if form.whole]


def annotate(node: fx.Node, measured: object) -> Any:
    """How a node of the float model is quantised that becomes one of ours, and is marked so; None for any other."""
    from torchao.quantization.pt2e.quantizer.quantizer import QuantizationAnnotation, SharedQuantizationSpec

    form = _form(node)
    if form is None or not form.takes(node):
        return None
    operands = form.operands(node)
    if not operands or any(value_of(arg).dtype != torch.float32 for arg in operands):
        return None
    node.meta["custom"] = {**node.meta.get("custom", {}), _MARK: True}
    first, *others = dict.fromkeys(operands)
    shared: Any = SharedQuantizationSpec((first, node))
    wanted: dict[fx.Node, Any] = {first: measured}
    wanted |= dict.fromkeys(others, measured if form.result is Result.MEASURED else shared)
    results = {Result.MEASURED: measured, Result.SHARED: shared, Result.INTEGER: None}
    return QuantizationAnnotation(wanted, cast(Any, results[form.result]))


def put(program: ExportedProgram) -> None:
    """Let our operators compute what lies between quantisations and has a form."""
    library.load()
    for node in list(program.graph.nodes):
        if (form := _form(node)) is not None and _MARK in node.meta.get("custom", {}):
            _replace(program, node, form)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def _form(node: fx.Node) -> Form | None:
    return FORMS.get(aten_operator(node.target)) if node.op == "call_function" else None


def _replace(program: ExportedProgram, node: fx.Node, form: Form) -> None:
    """Put one of ours instead of a node that is quantised on all sides; any other is left as it is."""
    from executorch.backends.transforms.utils import create_constant_placeholder
    from executorch.exir.dialects._ops import ops as dialects
    from torch.export.graph_signature import InputKind

    graph = program.graph
    operands = [arg for arg in node.args if isinstance(arg, fx.Node) and _is_affine(arg, "dequantize")]
    if form.result is Result.INTEGER:
        ends = [node]
    else:
        ends = list(node.users)
        if not all(_is_affine(user, "quantize") and user.args[1:] == ends[0].args[1:] for user in ends):
            return
    if not operands or not ends:
        return
    stored = tuple(cast(fx.Node, arg.args[0]) for arg in operands)
    is_last = [layout.is_last(value_of(arg)) for arg in stored if value_of(arg).shape == value_of(ends[0]).shape]
    if any(layout.strides_of(x) is None or not (form.any_order or x.is_contiguous()) for x in map(value_of, stored)):
        return
    scales = tuple(map(_affine, operands))
    result = scales[0] if form.result is Result.INTEGER else _affine(ends[0])
    constant = partial(_constant, program)
    call = form.call(Site(node, scales, result, constant, stored, any(is_last)))
    if call is None:
        return
    first = next(n for n in graph.nodes if n.op == "placeholder")
    with graph.inserting_before(first):
        constants = [
            create_constant_placeholder(program, graph, f"{node.name}_{i}", InputKind.PARAMETER, value)
            for i, value in enumerate(call.constants)
        ]
    value = value_of(ends[0])
    operator = getattr(getattr(cast(Any, dialects).edge, NAMESPACE), call.operator).default
    with graph.inserting_before(node):
        args = (*(stored if call.inputs is None else call.inputs), *constants, [*value.shape], [*call.params.words()])
        ours = graph.call_function(operator, args)
    ours.meta = dict(node.meta) | {"val": value}
    for end in ends:
        copy_mark(end, ours)
        end.replace_all_uses_with(ours)
        program.graph_signature.replace_all_uses(end.name, ours.name)


def _is_affine(node: fx.Node, does: str) -> bool:
    """True for a node that quantises to, or dequantises from, int8 with one scale."""
    operator = getattr(torch.ops.quantized_decomposed, f"{does}_per_tensor").default
    return node.op == "call_function" and aten_operator(node.target) is operator and node.args[5] == torch.int8


def _affine(node: fx.Node) -> Affine:
    scale, zero_point = node.args[1:3]
    return Affine(float(cast(float, scale)), int(cast(int, zero_point)))


def _constant(program: ExportedProgram, node: fx.Node) -> Tensor:
    """The value of a parameter, buffer or constant of a program."""
    signature = program.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    names |= signature.inputs_to_lifted_tensor_constants
    name = names[node.name]
    return cast(Tensor, program.state_dict[name] if name in program.state_dict else program.constants[name])
