"""With `marks`, the one place that touches private names of ExecuTorch's Cortex-M backend."""

import copy
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from deuteron.builds.options import Activations
from deuteron.frontend.cortex_m import program_checks
from deuteron.frontend.cortex_m.added import decompositions, int16_functions
from deuteron.frontend.cortex_m.added import lowering as added
from deuteron.frontend.cortex_m.elementwise import Tables, call_on, operand
from deuteron.frontend.cortex_m.layout import drop_marks
from deuteron.frontend.cortex_m.lowering_check import copy_mark
from deuteron.frontend.cortex_m.upstream import load, measured, measured_wide, share, weights
from deuteron.frontend.quantise import casts
from deuteron.frontend.source_lines import not_lowered

_NARROW = frozenset(
    {
        torch.ops.aten.maximum.default,
        torch.ops.aten.minimum.default,
        torch.ops.aten.pad.default,
        torch.ops.aten.constant_pad_nd.default,
    }
)
"""What has the scale of its operands, as copies have: in int8 where int16 does not take it."""


def prepare(model: fx.GraphModule, activations: Activations = Activations.INT8) -> fx.GraphModule:
    """The float model in the form that `annotate` and the operators want: means as pools, products as `bmm`."""
    load()
    if activations is Activations.INT16:
        int16_functions.write(model)
    decompositions.write(model)
    from executorch.backends.cortex_m.passes.clamp_hardswish_pass import ClampHardswishPass
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager

    for step in CortexMPassManager.pass_list_transform_for_annotation:
        if step is not ClampHardswishPass:  # it serves a decomposition that tables replace
            result: Any = step()
            model = cast(fx.GraphModule, result.call(model).graph_module)
    return model


def annotate(model: fx.GraphModule, activations: Activations = Activations.INT8, wide: Collection[str] = ()) -> None:
    """Mark what the Cortex-M quantises, of the nodes that nobody has marked yet, for activations of this dtype.

    What int16 lacks is quantised to int8 as without it. Where activations are int8, nodes named in `wide` have int16.
    """
    load()
    from executorch.backends.arm.quantizer.arm_quantizer_utils import mark_node_as_annotated
    from executorch.backends.cortex_m.quantizer.pattern_matcher import PatternMatcher
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY, QuantizationAnnotation

    if activations is Activations.INT16:
        _annotate_wide(model.graph.nodes)
    elif wide:
        _annotate_wide(node for node in model.graph.nodes if node.name in wide)
    spec = measured()
    for node in model.graph.nodes:
        # An output needs no quantisation of its own: the node that computes it has one.
        taken = node.op == "output" or Q_ANNOTATION_KEY in node.meta
        if not taken and (x := operand(node)) is not None and not _fuses(node, x):
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation({x: spec}, spec)
            mark_node_as_annotated(node)
            taken = True
        if not taken and node.target is torch.ops.aten.softmax.int:  # over any dimension
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation({node.args[0]: spec}, share())
            mark_node_as_annotated(node)
            taken = True
        if not taken and casts.makes_float(node):  # in float, between its integers and what quantises its result
            node.meta[Q_ANNOTATION_KEY], taken = QuantizationAnnotation({}, spec), True
        if not taken and (ours := added.annotate(node, spec)) is not None:
            node.meta[Q_ANNOTATION_KEY], taken = ours, True
        if taken:
            node.meta[PatternMatcher.Q_PATTERN_MATCHED_KEY] = True
    with _without_output_paddings(model):
        CortexMQuantizer().annotate(model)
    _balance_weights(model)


def _balance_weights(model: fx.GraphModule) -> None:
    """Let weights be from -127 to 127, so that the largest of a channel is what int8 holds exactly.

    From -128 on, its scale would be the largest by 127.5, and 127 steps of that are less than the weight.
    """
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY, QuantizationSpec

    for node in model.graph.nodes:
        annotation: Any = node.meta.get(Q_ANNOTATION_KEY)
        specs: dict[fx.Node, Any] = annotation.input_qspec_map if annotation else {}
        for arg, spec in list(specs.items()):
            is_whole = isinstance(spec, QuantizationSpec) and spec.quant_min is None and spec.dtype == torch.int8
            if is_whole and spec.qscheme in (torch.per_channel_symmetric, torch.per_tensor_symmetric):
                specs[arg] = replace(spec, quant_min=-127, quant_max=127)


def has_wide(model: fx.GraphModule) -> frozenset[str]:
    """The names of the nodes that int16 has."""
    load()
    nodes: list[fx.Node] = list(copy.deepcopy(model).graph.nodes)  # the question marks them
    return frozenset(n.name for n in nodes if added.annotate_wide(n, measured_wide(), weights()) is not None)


def _annotate_wide(nodes: Iterable[fx.Node]) -> None:
    """Mark what int16 has of these, and what would otherwise be copied as int16 and cannot be."""
    from executorch.backends.arm.quantizer.arm_quantizer_utils import mark_node_as_annotated
    from torchao.quantization.pt2e.quantizer.quantizer import (
        Q_ANNOTATION_KEY,
        QuantizationAnnotation,
        SharedQuantizationSpec,
    )

    for node in nodes:
        if Q_ANNOTATION_KEY in node.meta:
            continue
        if (annotation := added.annotate_wide(node, measured_wide(), weights())) is not None:
            node.meta[Q_ANNOTATION_KEY] = annotation
        elif node.op == "call_function" and node.target in _NARROW:
            first, *others = node.all_input_nodes
            shared: Any = SharedQuantizationSpec((first, node))
            wanted = {first: measured()} | dict.fromkeys(others, shared)
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(wanted, shared)
            mark_node_as_annotated(node)


@contextmanager
def _without_output_paddings(model: fx.GraphModule) -> Generator[None]:
    """Hides output paddings for a while: the backend's quantiser refuses what its operator and our kernels take."""
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
    """True for what cuts off values of an operator that can do that itself."""
    from executorch.backends.cortex_m.quantizer.quantizer_support import CORTEX_M_QUANTIZER_SUPPORT_DICT

    return len(before.users) == 1 and (before.target, node.target) in CORTEX_M_QUANTIZER_SUPPORT_DICT


def preserved() -> Collection[object]:
    """The ATen operators that must reach `lower` as they are."""
    from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config

    load()
    return (*cortex_m_edge_compile_config().preserve_ops, *added.preserved())


def lower(edge: Any, cpu: str) -> None:
    """Put the backend's operators into an edge program manager, for this core's instruction set.

    Raises:
        UnsupportedError: for operators that have no int8 form, see `lints`, and for what the backend fails at.
    """
    load()
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
    from executorch.backends.cortex_m.passes.decompose_hardswish_pass import DecomposeHardswishPass
    from executorch.backends.cortex_m.passes.replace_quant_nodes_pass import ReplaceQuantNodesPass
    from executorch.backends.cortex_m.target_config import CortexMTargetConfig
    from executorch.backends.transforms.replace_scalar_with_tensor import ReplaceScalarWithTensorArgPass

    # Between folding and replacing nothing may be traced again, see `_fold`.
    early, late = (ReplaceScalarWithTensorArgPass,), (ReplaceQuantNodesPass,)
    fold, base = _fold()
    others = (*early, *late, DecomposeHardswishPass)
    steps = [step for step in CortexMPassManager.legacy_pass_list if step not in others]
    passes = [*early, *(fold if step is base else step for step in steps), *late]
    programs: dict[str, ExportedProgram] = getattr(edge, "_edge_programs")  # noqa: B009
    for name, program in programs.items():
        added.put(program, constants(program))
        _put_tables(program)
        program_checks.check_scales(program)
        program_checks.check_dtypes(program)
        program_checks.check_dilations(program)
        target = CortexMTargetConfig.from_target_string(cpu)
        try:
            programs[name] = CortexMPassManager(program, passes, target).transform()
        except Exception as e:
            raise not_lowered("ExecuTorch's Cortex-M backend", e) from e
        drop_marks(programs[name])
        program_checks.check_operators(programs[name])


def _fold() -> tuple[Any, Any]:
    """The pass that folds quantise and dequantise operators away, with int8 for linear layers' results, and its base.

    PyTorch gives what is computed from int8 values with a bias of int32 the dtype of the bias, and quotients of
    integers that of floats. A table reads int8.
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

    return Fold, base


def _put_tables(program: ExportedProgram) -> None:
    """Compute elementwise functions of one quantised tensor, and requantisation, by tables.

    Activations that an operator before them cannot compute by the range of its result are such functions too.
    """
    from executorch.backends.transforms.utils import create_constant_placeholder
    from executorch.exir.dialects._ops import ops as dialects
    from torch.export.graph_signature import InputKind

    ops: Any = dialects.edge
    graph = program.graph
    tables = Tables(program, constants(program))
    quantise = ops.quantized_decomposed.quantize_per_tensor.default
    dequantise = ops.quantized_decomposed.dequantize_per_tensor.default
    for activation, node in tables.limits():
        before, scale = cast(fx.Node, activation.args[0]), node.args[1:]
        with graph.inserting_before(activation):
            whole = graph.call_function(quantise, (before, *scale))
            value = graph.call_function(dequantise, (whole, *scale))
        whole.meta, value.meta = dict(node.meta), dict(before.meta)
        activation.replace_input_with(before, value)
    for node, source, values in tables.found():
        table = call_on(node, {cast(fx.Node, node.args[0]): values})
        first = next(n for n in graph.nodes if n.op == "placeholder")
        with graph.inserting_before(first):
            entries = create_constant_placeholder(program, graph, f"{node.name}_table", InputKind.PARAMETER, table)
        with graph.inserting_before(node):
            looked_up = graph.call_function(ops.cortex_m.quantized_activation.default, (source, entries))
        looked_up.meta = dict(cast(fx.Node, node.args[0]).meta) | {"val": node.meta["val"]}
        copy_mark(node, looked_up)
        node.replace_all_uses_with(looked_up)
        program.graph_signature.replace_all_uses(node.name, looked_up.name)
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def constants(program: ExportedProgram) -> dict[str, Tensor]:
    """The constants of a program that hold one number, by the names of their nodes."""
    signature = program.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    values = {node: program.state_dict[name] for node, name in names.items() if name in program.state_dict}
    lifted = {**signature.inputs_to_lifted_tensor_constants, **signature.inputs_to_buffers}
    values |= {node: program.constants[name] for node, name in lifted.items() if name in program.constants}
    return {node: value for node, value in values.items() if isinstance(value, Tensor) and value.numel() == 1}
