"""Lists the nodes of an edge program before CPU lowering, with the processor and the amount of work of each."""

import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.utils import flop_counter

from deuteron.arch.cores import Work
from deuteron.builds.manifest import Node
from deuteron.frontend.cortex_m.elementwise import LIMITS, aten_operator, is_elementwise
from deuteron.frontend.operators import MOVES, base_name, is_dequantize, is_qdq, is_quantize, operator_name
from deuteron.frontend.source_lines import source_of

KEY = "deuteron_node"
"""Key of a node's metadata: the node's name before lowering. Lowered nodes keep it."""

QUANTIZED = "deuteron_name"
"""Key of a node's custom metadata: the name at quantization, which every build of a model reproduces."""

MARK = "deuteron_npu"
"""Key of a node's custom metadata: the name of a node that was quantized for the NPU."""

CPU_ONLY = "deuteron_cpu_only"
"""Key of a node's custom metadata: the reason why the node is quantized for the CPU, which divides more exactly."""

COPY = "deuteron_copy"
"""Key of a node's custom metadata: the node is a copy into another memory format."""

SATURATES = "deuteron_saturates"
"""Key of a node's custom metadata: only functions that are constant beyond the range of its result read it."""

WHY = "deuteron_why"
"""Key of a node's metadata: the reason why the NPU does not run it."""

aten = torch.ops.aten
_VIEWS = frozenset({"view_copy", "squeeze_copy", "unsqueeze_copy", "alias_copy", "clone", "expand_copy"})
_POOLS: Mapping[str, Work] = {
    "avg_pool2d": Work.AVERAGE,
    "_adaptive_avg_pool2d": Work.AVERAGE,
    "mean": Work.TOTAL,
    "sum": Work.TOTAL,
    "argmax": Work.PLACE,
    "argmin": Work.PLACE,
    "max_pool2d": Work.LARGEST,
    "max_pool2d_with_indices": Work.LARGEST,
    "amax": Work.LARGEST,
    "amin": Work.LARGEST,
}
_SUMS = frozenset({"add", "sub", "maximum", "minimum"})
_BY_ELEMENTS: Mapping[str, Work] = {
    "_softmax": Work.SOFTMAX,
    "softmax": Work.SOFTMAX,
    "_masked_softmax": Work.MASKED,
    **dict.fromkeys(("_log_softmax", "log_softmax"), Work.SHARE),
    **dict.fromkeys(("layer_norm", "native_layer_norm", "group_norm", "native_group_norm", "rms_norm"), Work.NORM),
    "cumsum": Work.RUNNING,
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), Work.COMPARE),
    "where": Work.CHOICE,
    "upsample_bilinear2d": Work.RESIZE,
    "table": Work.TABLE,
}
_RECURRENT = frozenset({"gru", "lstm", "rnn"})
"""Layers of our own whose operands are the input, all weights, and what both sums of each gate start from."""

_INT16: Mapping[Work, Work] = {
    **dict.fromkeys((Work.CONVOLUTION, Work.POINTS, Work.LINEAR), Work.INT16_LAYER),
    **dict.fromkeys((Work.DEPTHWISE, Work.APART), Work.INT16_DEPTHWISE),
    **dict.fromkeys((Work.AVERAGE, Work.LARGEST), Work.INT16_POOL),
    Work.SUM: Work.INT16_SUM,
    Work.PRODUCT: Work.INT16_PRODUCT,
    Work.TABLE: Work.INT16_TABLE,
}
"""The kind of work for int16 activations."""


def cpu_only_reason(node: fx.Node) -> str:
    """Return the reason why a node is quantized for the CPU; empty for other nodes."""
    custom: Mapping[str, str] = node.meta.get("custom", {})
    return custom.get(CPU_ONLY, "")


def nodes_of(program: ExportedProgram, why: str = "") -> tuple[Node, ...]:
    """List the computing nodes of an edge program in order, all on the CPU, and mark each for `name_of`.

    `why` is the reason for nodes without a reason of their own.
    """
    listed: list[Node] = []
    constants = _constants(program)
    for node in computing(program.graph):
        custom = node.meta.get("custom", {})
        if COPY in custom:
            continue  # the model has no such operator
        node.meta[KEY] = node.name
        source = source_of(node)
        work, elements, terms = (Work.NOTHING, 0, 0) if node.name in constants else _work_of(node, constants)
        listed.append(
            Node(
                name=node.name,
                op=operator_name(node.target),
                quantised=custom.get(QUANTIZED, ""),
                source=(source,) if source else (),
                partition=None,
                why=node.meta.get(WHY, why),
                work=work,
                elements=elements,
                terms=terms,
                nbytes=sum(_nbytes(value) for value in (*map(_read, node.all_input_nodes), _written(node))),
            )
        )
    return tuple(listed)


def _constants(program: ExportedProgram) -> set[str]:
    """The names of nodes with values that are known at build time."""
    variable = set(program.graph_signature.user_inputs)
    constants: set[str] = set()
    for node in program.graph.nodes:
        inputs = node.all_input_nodes
        known = all(arg.name in constants for arg in inputs) if inputs else node.name not in variable
        if known and node.op in ("placeholder", "call_function"):
            constants.add(node.name)
    return constants


def computing(graph: fx.Graph) -> Iterator[fx.Node]:
    """Yield the operators of the model in an edge graph: no `getitem`, no quantize or dequantize operators."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target is not operator.getitem and not is_qdq(node):
            yield node


def name_of(node: fx.Node) -> str:
    """The name in `nodes_of` of the node that a lowered node came from; empty for nodes that lowering added."""
    return node.meta.get(KEY, "")


def _work_of(node: fx.Node, constants: Collection[str]) -> tuple[Work, int, int]:
    """The kind of work of a node on a CPU core, and its numbers of elements and terms."""
    work, elements, terms = _narrow_work_of(node, constants)
    is_int16 = any(_read(arg).dtype == torch.int16 for arg in node.all_input_nodes if arg.name not in constants)
    return _INT16.get(work, work) if is_int16 else work, elements, terms


def _narrow_work_of(node: fx.Node, constants: Collection[str]) -> tuple[Work, int, int]:
    """The same for int8 activations."""
    base = base_name(node.target)
    results, moved = _value(node).numel(), _nbytes(_written(node))
    if multiplies := _macs(node):
        return _matrix_work(node), results, multiplies
    if base in _RECURRENT:
        x, weights, starts = (_value(arg) for arg in node.all_input_nodes[:3])
        rows = x.numel() // x.shape[-1]
        return Work.RECURRENT, rows * starts.numel() // 2, rows * weights.numel()
    if base in _POOLS:
        first = _value(node.all_input_nodes[0])
        window = cast("Sequence[int]", node.args[1]) if base.endswith(("pool2d", "indices")) else ()
        terms = results * math.prod(window) if base in ("avg_pool2d", "max_pool2d_with_indices") else first.numel()
        return _POOLS[base], results, terms
    if base in _BY_ELEMENTS:
        return _BY_ELEMENTS[base], results, 0
    if base in ("_clone_dim_order", "_to_dim_order_copy", "permute_copy", "transpose_copy"):
        return _copy_work(node), moved, 0
    if base in _VIEWS:
        return Work.NOTHING, 0, 0
    if is_elementwise(node):
        if _fuses(node):
            return Work.NOTHING, 0, 0
        if sum(arg.name not in constants for arg in node.all_input_nodes) > 1:
            return (Work.SUM if base in _SUMS else Work.PRODUCT), results, 0
        return Work.TABLE, results, 0
    return (Work.MOVE, moved, 0) if base in MOVES or "pad" in base else (Work.UNKNOWN, results, 0)


def _fuses(node: fx.Node) -> bool:
    """True for a clamp of an operator's result, which the operator itself can apply."""
    before = node.all_input_nodes[0]
    return aten_operator(node.target) in LIMITS and before.op == "call_function" and not is_qdq(before)


def _copy_work(node: fx.Node) -> Work:
    """The work of a copy: none if the order of the elements does not change."""
    before, after = _value(node.all_input_nodes[0]), _value(node)
    orders = [cast("tuple[int, ...]", value.dim_order()) for value in (before, after)]
    kept = before.shape == after.shape and orders[0] == orders[1]
    return Work.NOTHING if kept else Work.TRANSPOSE


def _matrix_work(node: fx.Node) -> Work:
    if aten_operator(node.target) is not aten.convolution.default:
        return Work.LINEAR
    groups, kernel = cast(int, node.args[8]), _value(node.all_input_nodes[1]).shape[2:]
    if groups == 1 or groups != _value(node.all_input_nodes[0]).shape[1]:
        return Work.POINTS if set(kernel) == {1} else Work.CONVOLUTION
    stride = cast("list[int]", node.args[3])
    return Work.DEPTHWISE if kernel[-1] == 3 and set(stride) == {1} else Work.APART


def _macs(node: fx.Node) -> int:
    """Multiply-accumulates as PyTorch counts them; 0 for operators without a formula."""
    target = aten_operator(node.target)
    if target is aten.linear.default:
        return _value(node).numel() * _value(node.all_input_nodes[0]).shape[-1]
    formula = cast("Mapping[object, Callable[..., int]]", flop_counter.flop_registry).get(
        getattr(target, "overloadpacket", None)
    )
    if formula is None:
        return 0
    args = cast("tuple[Any, ...]", fx.map_arg(node.args, lambda arg: arg.meta["val"]))
    return formula(*args, out_val=_value(node)) // 2


def _read(node: fx.Node) -> Tensor:
    """The stored value that a reader of this node reads: before a dequantize operator, the quantized value."""
    return _value(node.all_input_nodes[0] if is_dequantize(node) else node)


def _written(node: fx.Node) -> Tensor:
    """The stored value that a node writes: after a quantize operator, the quantized value."""
    return _value(next((user for user in node.users if is_quantize(user)), node))


def _nbytes(value: Tensor) -> int:
    return value.numel() * value.element_size()


def _value(node: fx.Node) -> Tensor:
    """The tensor of a node; the first of several."""
    value: object = node.meta["val"]
    return cast(Tensor, cast("Sequence[Tensor]", value)[0] if isinstance(value, list | tuple) else value)
