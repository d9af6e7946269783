"""Adapts ExecuTorch's Cortex-M backend: annotation for quantization, and lowering of edge programs."""

import copy
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from deuteron.builds.options import Activations
from deuteron.frontend import upstream_caches
from deuteron.frontend.cortex_m import program_checks, recurrent_lowering
from deuteron.frontend.cortex_m.custom_ops import decompositions, interpolation, lowering
from deuteron.frontend.cortex_m.elementwise import Tables, evaluate, operand
from deuteron.frontend.cortex_m.layout import remove_layout_copies
from deuteron.frontend.cortex_m.numerical_check import copy_mark
from deuteron.frontend.cortex_m.upstream import (
    activation_spec,
    int16_activation_spec,
    load,
    softmax_output_spec,
    weight_spec,
)
from deuteron.frontend.quantize import casts, float_joins
from deuteron.frontend.source_lines import not_lowered

_INT8_ONLY = frozenset(
    {
        torch.ops.aten.maximum.default,
        torch.ops.aten.minimum.default,
        torch.ops.aten.pad.default,
        torch.ops.aten.constant_pad_nd.default,
    }
)
"""Operators with the scale of their operands, as copies have, and without int16 kernels: they are quantized to int8."""


def prepare(model: fx.GraphModule, activations: Activations = Activations.INT8) -> fx.GraphModule:
    """Prepare a float model for `annotate` and the operators: means become pools, products become `bmm`."""
    load()
    if activations is Activations.INT16:
        interpolation.write(model)
    decompositions.write(model)
    from executorch.backends.cortex_m.passes.clamp_hardswish_pass import ClampHardswishPass
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager

    for step in CortexMPassManager.pass_list_transform_for_annotation:
        if step is not ClampHardswishPass:  # it belongs to a decomposition that tables replace
            result: Any = step()
            model = cast(fx.GraphModule, result.call(model).graph_module)
    return model


def annotate(
    model: fx.GraphModule, activations: Activations = Activations.INT8, int16_nodes: Collection[str] = ()
) -> None:
    """Annotate the nodes that the Cortex-M quantizes and that have no annotation yet, for activations of this dtype.

    Operators without int16 kernels are quantized to int8. With int8 activations, the nodes in `int16_nodes` get int16.
    """
    load()
    from executorch.backends.arm.quantizer.arm_quantizer_utils import mark_node_as_annotated
    from executorch.backends.cortex_m.quantizer.pattern_matcher import PatternMatcher
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
    from torchao.quantization.pt2e.quantizer.quantizer import (
        Q_ANNOTATION_KEY,
        QuantizationAnnotation,
        SharedQuantizationSpec,
    )

    if activations is Activations.INT16:
        _annotate_int16(model.graph.nodes)
    elif int16_nodes:
        _annotate_int16(node for node in model.graph.nodes if node.name in int16_nodes)
    spec = activation_spec()
    recurrent_lowering.annotate(model, spec)
    for node in model.graph.nodes:
        if node.op == "output" and Q_ANNOTATION_KEY in node.meta:  # of an NPU
            wanted = node.meta[Q_ANNOTATION_KEY].input_qspec_map
            node.meta[Q_ANNOTATION_KEY].input_qspec_map = {x: wanted[x] for x in wanted if not float_joins.is_left(x)}
        # An output has the quantization of the node that computes it.
        annotated = node.op == "output" or Q_ANNOTATION_KEY in node.meta
        if not annotated and (x := operand(node)) is not None and not _fuses(node, x):
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation({x: spec}, spec)
            mark_node_as_annotated(node)
            annotated = True
        if not annotated and node.target is torch.ops.aten.softmax.int:  # over any dimension
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation({node.args[0]: spec}, softmax_output_spec())
            mark_node_as_annotated(node)
            annotated = True
        if not annotated and float_joins.is_left(node):
            node.meta[Q_ANNOTATION_KEY], annotated = QuantizationAnnotation(), True
        if not annotated and casts.makes_float(node):  # in float, between its integers and the quantized result
            node.meta[Q_ANNOTATION_KEY], annotated = QuantizationAnnotation({}, spec), True
        if not annotated and _is_embedding(node):  # before the quantizer, which looks for annotated neighbours
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(
                {node.args[0]: spec}, SharedQuantizationSpec((node.args[0], node))
            )
            mark_node_as_annotated(node)
            annotated = True
        if not annotated and (ours := lowering.annotate(node, spec)) is not None:
            node.meta[Q_ANNOTATION_KEY], annotated = ours, True
        if annotated:
            node.meta[PatternMatcher.Q_PATTERN_MATCHED_KEY] = True
    with upstream_caches.annotating(), _without_output_paddings(model):
        CortexMQuantizer().annotate(model)
    _balance_weights(model)


def _is_embedding(node: fx.Node) -> bool:
    """True for rows of a constant table, which a model may return as they are."""
    is_choice = node.target in (torch.ops.aten.index_select.default, torch.ops.aten.index.Tensor)
    return is_choice and cast(fx.Node, node.args[0]).op == "get_attr" and node.meta["val"].is_floating_point()


def _balance_weights(model: fx.GraphModule) -> None:
    """Limit symmetric int8 weights to -127..127, so that int8 holds the largest weight of each channel exactly.

    With -128, the scale would be the largest weight divided by 127.5, and 127 steps would be less than that weight.
    """
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY, QuantizationSpec

    for node in model.graph.nodes:
        annotation: Any = node.meta.get(Q_ANNOTATION_KEY)
        specs: dict[fx.Node, Any] = annotation.input_qspec_map if annotation else {}
        for arg, spec in list(specs.items()):
            is_whole = isinstance(spec, QuantizationSpec) and spec.quant_min is None and spec.dtype == torch.int8
            if is_whole and spec.qscheme in (torch.per_channel_symmetric, torch.per_tensor_symmetric):
                specs[arg] = replace(spec, quant_min=-127, quant_max=127)


def int16_capable(model: fx.GraphModule) -> frozenset[str]:
    """The names of the nodes that have int16 kernels."""
    load()
    nodes: list[fx.Node] = list(copy.deepcopy(model).graph.nodes)  # `annotate_int16` marks them
    return frozenset(
        n.name for n in nodes if lowering.annotate_int16(n, int16_activation_spec(), weight_spec()) is not None
    )


def _annotate_int16(nodes: Iterable[fx.Node]) -> None:
    """Annotate the nodes with int16 kernels for int16, and the operators in `_INT8_ONLY` for int8."""
    from executorch.backends.arm.quantizer.arm_quantizer_utils import mark_node_as_annotated
    from torchao.quantization.pt2e.quantizer.quantizer import (
        Q_ANNOTATION_KEY,
        QuantizationAnnotation,
        SharedQuantizationSpec,
    )

    for node in nodes:
        if Q_ANNOTATION_KEY in node.meta:
            continue
        if (annotation := lowering.annotate_int16(node, int16_activation_spec(), weight_spec())) is not None:
            node.meta[Q_ANNOTATION_KEY] = annotation
        elif node.op == "call_function" and node.target in _INT8_ONLY:
            first, *others = node.all_input_nodes
            shared: Any = SharedQuantizationSpec((first, node))
            wanted = {first: activation_spec()} | dict.fromkeys(others, shared)
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(wanted, shared)
            mark_node_as_annotated(node)


@contextmanager
def _without_output_paddings(model: fx.GraphModule) -> Generator[None]:
    """Hide output paddings, which the backend's quantizer refuses although operator and kernels support them."""
    padded = [
        (node, node.args)
        for node in model.graph.nodes
        if node.target is torch.ops.aten.conv_transpose2d.input and len(node.args) > 5
    ]
    for node, args in padded:
        node.args = (*args[:5], [0, 0], *args[6:])
    try:
        yield
    finally:
        for node, args in padded:
            node.args = args


def _fuses(node: fx.Node, before: fx.Node) -> bool:
    """True for a clamp of an operator's result, which that operator can apply."""
    from executorch.backends.cortex_m.quantizer.quantizer_support import CORTEX_M_QUANTIZER_SUPPORT_DICT

    return len(before.users) == 1 and (before.target, node.target) in CORTEX_M_QUANTIZER_SUPPORT_DICT


def preserved() -> Collection[object]:
    """The ATen operators that must not be decomposed before `lower`."""
    from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config

    load()
    return (*cortex_m_edge_compile_config().preserve_ops, *lowering.preserved())


def lower(edge: Any, cpu: str) -> None:
    """Lower an edge program manager to the Cortex-M operators, for the instruction set of this core.

    Raises:
        UnsupportedError: for operators without an int8 implementation, and for failures of the backend.
    """
    load()
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
    from executorch.backends.cortex_m.passes.decompose_hardswish_pass import DecomposeHardswishPass
    from executorch.backends.cortex_m.passes.replace_quant_nodes_pass import ReplaceQuantNodesPass
    from executorch.backends.cortex_m.target_config import CortexMTargetConfig
    from executorch.backends.transforms.replace_scalar_with_tensor import ReplaceScalarWithTensorArgPass

    # No pass between folding and replacing may trace the graph again, see `_fold`.
    early, late = (ReplaceScalarWithTensorArgPass,), (ReplaceQuantNodesPass,)
    fold, base = _fold()
    others = (*early, *late, DecomposeHardswishPass)
    steps = [step for step in CortexMPassManager.legacy_pass_list if step not in others]
    passes = [*early, *(fold if step is base else step for step in steps), *late]
    programs: dict[str, ExportedProgram] = getattr(edge, "_edge_programs")  # noqa: B009
    for name, program in programs.items():
        lowering.lower(program, constants(program))
        _lower_to_tables(program)
        program_checks.check_scales(program)
        program_checks.check_dtypes(program)
        program_checks.check_dilations(program)
        target = CortexMTargetConfig.from_target_string(cpu)
        try:
            programs[name] = CortexMPassManager(program, passes, target).transform()
        except Exception as e:
            raise not_lowered("ExecuTorch's Cortex-M backend", e) from e
        remove_layout_copies(programs[name])
        program_checks.check_operators(programs[name])


def _fold() -> tuple[Any, Any]:
    """The pass that folds quantize and dequantize operators, with int8 results of linear layers, and its base class.

    PyTorch computes the results of int8 layers with an int32 bias in int32, and quotients of integers in float. A table
    reads int8. An integer has no scale; the pass that fuses activations into sums fails at its bounds.
    """
    from executorch.backends.arm._passes import FoldAndAnnotateQParamsPass
    from executorch.exir.dialects._ops import ops as dialects
    from executorch.exir.pass_base import ProxyValue

    base: Any = FoldAndAnnotateQParamsPass
    proxy: Any = ProxyValue
    call: Callable[..., Any] = base.call_operator
    ops: Any = dialects.edge

    class Fold(base):
        def call_operator(self, op: object, args: Any, *others: Any) -> Any:
            result = call(self, op, args, *others)
            if op in (ops.aten.linear.default, ops.aten.div.Tensor) and args[0].data.dtype == torch.int8:
                result = proxy(result.data.to(torch.int8), result.proxy)
                self.tracer.set_metadata(result.node, result.data)
            return result

        def call(self, graph_module: fx.GraphModule) -> Any:
            result = base.call(self, graph_module)
            for node in result.graph_module.graph.nodes:
                if node.target is ops.aten.clamp.default and not node.meta.get("output_qparams", True):
                    del node.meta["output_qparams"]
            return result

    return Fold, base


def _lower_to_tables(program: ExportedProgram) -> None:
    """Replace elementwise functions of one quantized tensor, and requantization, by table lookups.

    Such functions include clamps that the operator before them cannot apply by its own output range.
    """
    from executorch.backends.transforms.utils import create_constant_placeholder
    from executorch.exir.dialects._ops import ops as dialects
    from torch.export.graph_signature import InputKind

    ops: Any = dialects.edge
    graph = program.graph
    tables = Tables(program, constants(program))
    quantize = ops.quantized_decomposed.quantize_per_tensor.default
    dequantize = ops.quantized_decomposed.dequantize_per_tensor.default
    for activation, node in tables.clamps():
        before, scale = cast(fx.Node, activation.args[0]), node.args[1:]
        with graph.inserting_before(activation):
            whole = graph.call_function(quantize, (before, *scale))
            value = graph.call_function(dequantize, (whole, *scale))
        whole.meta, value.meta = dict(node.meta), dict(before.meta)
        activation.replace_input_with(before, value)
    for node, source, values in tables.functions():
        table = evaluate(node, {cast(fx.Node, node.args[0]): values})
        first = next(n for n in graph.nodes if n.op == "placeholder")
        with graph.inserting_before(first):
            entries = create_constant_placeholder(program, graph, f"{node.name}_table", InputKind.PARAMETER, table)
        with graph.inserting_before(node):
            lookup = graph.call_function(ops.cortex_m.quantized_activation.default, (source, entries))
        lookup.meta = dict(cast(fx.Node, node.args[0]).meta) | {"val": node.meta["val"]}
        copy_mark(node, lookup)
        node.replace_all_uses_with(lookup)
        program.graph_signature.replace_all_uses(node.name, lookup.name)
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def constants(program: ExportedProgram) -> dict[str, Tensor]:
    """The constants of one element in a program, by the names of their nodes."""
    signature = program.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    values = {node: program.state_dict[name] for node, name in names.items() if name in program.state_dict}
    lifted = {**signature.inputs_to_lifted_tensor_constants, **signature.inputs_to_buffers}
    values |= {node: program.constants[name] for node, name in lifted.items() if name in program.constants}
    return {node: value for node, value in values.items() if isinstance(value, Tensor) and value.numel() == 1}
