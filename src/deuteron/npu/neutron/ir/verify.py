"""The rules of the IR as tables: a rule is a function whose docstring is the sentence that users read.

A rule returns what it found when it is broken, else None.
"""

from collections import Counter
from collections.abc import Callable

from deuteron.errors import VerifyError
from deuteron.npu.neutron.ir import ops, shapes
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.printer import format_op
from deuteron.npu.neutron.ir.tables import ENTRIES
from deuteron.npu.neutron.ir.types import DType
from deuteron.tflite.quantization import Quant

GraphRule = Callable[[Graph], str | None]
OpRule = Callable[[ops.Op, Graph], str | None]

CONTEXT_OPS = 2
"""Operators printed before and after the one at fault."""

BIAS_SCALE_TOLERANCE = 2.0**-22
"""Relative; a float32 product of float32 scales and a rounding or two of its factors stay below it."""


def verify(graph: Graph) -> None:
    """Check every rule.

    Raises:
        VerifyError: naming the broken rule, the op, what was found, and the ops around it.
    """
    place = f"graph `{graph.name}`" if graph.name else "the graph"  # the backend's partitions have no name
    for rule in GRAPH_RULES:
        problem = rule(graph)
        if problem is not None:
            raise VerifyError(f"{_sentence(rule)}; {problem}", where=place, hint=_HINT)
    for index, op in enumerate(graph.ops):
        for kinds, rule in OP_RULES:
            problem = rule(op, graph) if isinstance(op, kinds) else None
            if problem is not None:
                where = f"{place}, op {index} (`{op.outputs[0]}`)"
                raise VerifyError(f"{_sentence(rule)}; {problem}\n\n{_around(graph, index)}", where=where, hint=_HINT)


_HINT = "the step that made this graph broke the rule; report it with this text"


def _sentence(rule: GraphRule | OpRule) -> str:
    """A rule's docstring as the start of a message."""
    text = str(rule.__doc__).rstrip(".")
    return text[0].lower() + text[1:]


def _around(graph: Graph, index: int) -> str:
    first = max(0, index - CONTEXT_OPS)
    lines = enumerate(graph.ops[first : index + CONTEXT_OPS + 1], first)
    return "\n".join(f"{'>' if at == index else ' '} {at}: {format_op(op, graph)}" for at, op in lines)


# Rules of a graph. Later ones, and the rules of operators, rely on earlier ones.


def _named(graph: Graph) -> str | None:
    """Every name that inputs, outputs and operators use is a tensor of the graph."""
    known = {tensor.name for tensor in graph.tensors}
    used = [*graph.inputs, *graph.outputs, *(name for op in graph.ops for name in (*op.inputs, *op.outputs))]
    return next((f"found no tensor `{name}`" for name in used if name not in known), None)


def _arity(graph: Graph) -> str | None:
    """An operator has as many operands as its class says, and one result."""
    for index, op in enumerate(graph.ops):
        wanted = next((count for kinds, count in _OPERANDS if isinstance(op, kinds)), 1)
        if len(op.outputs) != 1 or (len(op.inputs) != wanted if wanted else not op.inputs):
            return f"op {index} ({type(op).__name__}) has {len(op.inputs)} operands and {len(op.outputs)} results"
    return None


def _single_assignment(graph: Graph) -> str | None:
    """Every tensor is exactly one of: a graph input, a constant, the result of one operator."""
    constants = [tensor.name for tensor in graph.tensors if tensor.is_const]
    defined = Counter([*graph.inputs, *constants, *(name for op in graph.ops for name in op.outputs)])
    for tensor in graph.tensors:
        if defined[tensor.name] != 1:
            return f"`{tensor.name}` is defined {defined[tensor.name]} times"
    return None


def _order(graph: Graph) -> str | None:
    """An operator stands after those whose results it reads."""
    pending = {name for op in graph.ops for name in op.outputs}
    for index, op in enumerate(graph.ops):
        early = next((name for name in op.inputs if name in pending), None)
        if early is not None:
            return f"op {index} (`{op.outputs[0]}`) reads `{early}`, which is not computed before it"
        pending.difference_update(op.outputs)
    return None


def _outputs(graph: Graph) -> str | None:
    """The graph has outputs, and no tensor is an output twice."""
    if not graph.outputs:
        return "found none"
    return next((f"`{name}` is repeated" for name in graph.outputs if graph.outputs.count(name) > 1), None)


def _zero_points(graph: Graph) -> str | None:
    """Zero points of i8 tensors are within -128..127, of i32 tensors 0."""
    for tensor in graph.tensors:
        limits = {DType.INT8: (-128, 127), DType.INT32: (0, 0)}.get(tensor.type.dtype)
        if tensor.type.quant is None or limits is None:
            continue
        outside = [zero for zero in tensor.type.quant.zero_points if not limits[0] <= zero <= limits[1]]
        if outside:
            return f"`{tensor.name}` has zero point {outside[0]}"
    return None


# Rules of operators.


def _int8(op: ops.Op, graph: Graph) -> str | None:
    """Operands and results are i8 with quantization."""
    count = 2 if isinstance(op, WEIGHTED) else len(op.inputs)
    for name in (*op.inputs[:count], *op.outputs):
        kind = graph.type(name)
        if kind.dtype is not DType.INT8 or kind.quant is None:
            return f"`{name}` is {kind.dtype.value} {'without' if kind.quant is None else 'with'} quantization"
    return None


def _bias_type(op: ops.Op, graph: Graph) -> str | None:
    """A bias is i32."""
    dtype = graph.type(op.inputs[2]).dtype
    return None if dtype is DType.INT32 else f"`{op.inputs[2]}` is {dtype.value}"


def _shape(op: ops.Op, graph: Graph) -> str | None:
    """The result has the shape that the operator gives."""
    declared = graph.type(op.outputs[0]).shape
    try:
        shape = shapes.output_shape(op, tuple(graph.type(name).shape for name in op.inputs), declared)
    except VerifyError as error:
        return error.message
    return None if shape == declared else f"declared {list(declared)}, the operator gives {list(shape)}"


def _per_tensor(op: ops.Op, graph: Graph) -> str | None:
    """Quantization is per tensor, but for weights and their biases."""
    names = op.inputs[:1] if isinstance(op, WEIGHTED) else op.inputs
    for name in (*names, *op.outputs):
        if graph.type(name).q.axis is not None:
            return f"`{name}` has {len(graph.type(name).q.scales)} scales along axis {graph.type(name).q.axis}"
    return None


def _weights_axis(op: ops.Op, graph: Graph) -> str | None:
    """Weights quantized per channel have one scale per output channel."""
    axis = graph.type(op.inputs[1]).q.axis
    wanted = 3 if isinstance(op, ops.DepthwiseConv2D) else 0
    return None if axis in (None, wanted) else f"`{op.inputs[1]}` has its scales along axis {axis} instead of {wanted}"


def _weights_symmetric(op: ops.Op, graph: Graph) -> str | None:
    """Weights have zero point 0."""
    zero = next((zero for zero in graph.type(op.inputs[1]).q.zero_points if zero != 0), 0)
    return f"`{op.inputs[1]}` has {zero}" if zero else None


def _bias_scale(op: ops.Op, graph: Graph) -> str | None:
    """The scale of a bias is input scale times weight scale."""
    bias = graph.type(op.inputs[2]).quant
    if bias is None:
        return None
    weights, x = graph.type(op.inputs[1]).q, graph.type(op.inputs[0]).q.scale
    channels = graph.type(op.inputs[2]).numel
    pairs = zip(_per_channel(weights, channels), _per_channel(bias, channels), strict=True)
    for channel, (w_scale, scale) in enumerate(pairs):
        wanted = x * w_scale  # exact: two float32 values in a float64 product
        if abs(scale - wanted) > wanted * BIAS_SCALE_TOLERANCE:
            return f"`{op.inputs[2]}` has {scale!r} in channel {channel} instead of {wanted!r}"
    return None


def _per_channel(quant: Quant, channels: int) -> tuple[float, ...]:
    return quant.scales if quant.axis is not None else quant.scales * channels


def _shared(op: ops.Op, graph: Graph) -> str | None:
    """An operator that moves values keeps their quantization."""
    target = graph.type(op.outputs[0]).q
    for name in op.inputs:
        quant = graph.type(name).q
        if quant != target:
            return f"`{name}` has {_quant_text(quant)}, `{op.outputs[0]}` has {_quant_text(target)}"
    return None


def _quant_text(quant: Quant) -> str:
    return f"({quant.scale!r}:{quant.zero_point})"


def _clamp(op: ops.Op, _: Graph) -> str | None:
    """A clamp is an interval within -128..127."""
    clamp = ops.clamp_of(op)
    return None if -128 <= clamp.lo <= clamp.hi <= 127 else f"found {clamp.lo}..{clamp.hi}"


def _positive(op: ops.Op, _: Graph) -> str | None:
    """Windows, strides, dilations and multipliers are at least 1."""
    for field in ("window", "stride", "dilation", "multiplier"):
        value: int | ops.Pair = getattr(op, field, 1)
        if min(value if isinstance(value, tuple) else (value,)) < 1:
            return f"{field} is {value}"
    return None


def _pads(op: ops.Op, graph: Graph) -> str | None:
    """Pads are at least 0 and below the extent of the window."""
    match op:
        case ops.Conv2D() | ops.DepthwiseConv2D():
            _, kernel_h, kernel_w, _ = graph.type(op.inputs[1]).shape
            extents = shapes.extent(kernel_h, op.dilation[0]), shapes.extent(kernel_w, op.dilation[1])
        case ops.AveragePool2D() | ops.MaxPool2D():
            extents = op.window
        case ops.TransposeConv():
            _, kernel_h, kernel_w, _ = graph.type(op.inputs[1]).shape
            extents = kernel_h, kernel_w
        case _:
            return None
    rows, columns = (op.pads.top, op.pads.bottom), (op.pads.left, op.pads.right)
    if isinstance(op, ops.TransposeConv):  # what the kernel does not reach may be added below and right
        rows, columns = (op.pads.top, max(0, op.pads.bottom)), (op.pads.left, max(0, op.pads.right))
    inside = all(0 <= pad < extent for pads, extent in zip((rows, columns), extents, strict=True) for pad in pads)
    return None if inside else f"found rows {rows} and columns {columns} round a window of {extents[0]}x{extents[1]}"


def _pad_value(op: ops.Op, _: Graph) -> str | None:
    """The value of a padding is within -128..127."""
    return None if not isinstance(op, ops.Pad) or -128 <= op.value <= 127 else f"found {op.value}"


def _entries(op: ops.Op, _: Graph) -> str | None:
    """A table has 256 entries within -128..127."""
    if not isinstance(op, ops.Lookup) or (len(op.entries) == ENTRIES and all(-128 <= n <= 127 for n in op.entries)):
        return None
    outside = next((entry for entry in op.entries if not -128 <= entry <= 127), None)
    return f"found {len(op.entries)} entries" if outside is None else f"found {outside}"


def _centres(op: ops.Op, _: Graph) -> str | None:
    """A resize has aligned corners or half-pixel centres, not both."""
    return "found both" if isinstance(op, ops.ResizeBilinear) and op.align_corners and op.half_pixel_centers else None


WEIGHTED = (ops.Conv2D, ops.DepthwiseConv2D, ops.TransposeConv, ops.FullyConnected)
SPATIAL = (ops.Conv2D, ops.DepthwiseConv2D, ops.TransposeConv, ops.AveragePool2D, ops.MaxPool2D)
SAME_QUANTIZATION = (
    ops.MaxPool2D, ops.ReduceMax, ops.ReduceMin, ops.ResizeBilinear, ops.ResizeNearest, ops.Pad, ops.MirrorPad,
    ops.Reshape, ops.Transpose, ops.Concat, ops.Slice,
)  # fmt: skip

_OPERANDS = ((WEIGHTED, 3), ((ops.BatchMatMul, ops.BinaryOp), 2), (ops.Concat, 0))
"""Operands of each class: 1 when not listed, 0 for one or more."""

GRAPH_RULES: tuple[GraphRule, ...] = (_named, _arity, _single_assignment, _order, _outputs, _zero_points)

OP_RULES: tuple[tuple[type[ops.Op] | tuple[type[ops.Op], ...], OpRule], ...] = (
    (ops.Op, _int8),
    (WEIGHTED, _bias_type),
    (SPATIAL, _positive),
    (ops.Op, _shape),
    (ops.Op, _per_tensor),
    (WEIGHTED, _weights_axis),
    (WEIGHTED, _weights_symmetric),
    (WEIGHTED, _bias_scale),
    (SAME_QUANTIZATION, _shared),
    (ops.Op, _clamp),
    (SPATIAL, _pads),
    (ops.Pad, _pad_value),
    (ops.Lookup, _entries),
    (ops.ResizeBilinear, _centres),
)
