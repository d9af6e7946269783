"""Checks programs with int8 operators on the CPU for errors that would cause wrong values on a device.

ExecuTorch's Cortex-M backend assumes that its own quantizer quantized the program and that images are in the memory
format of its kernels. A violation is an error that names the line of the model.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from deuteron.builds.manifest import CpuOp
from deuteron.errors import InternalError, UnsupportedError, all_refused
from deuteron.frontend.cortex_m.elementwise import is_elementwise
from deuteron.frontend.cortex_m.layout import is_channels_last
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.cortex_m.refusals import mixes, refusal
from deuteron.frontend.cortex_m.upstream import is_quantized
from deuteron.frontend.nodes import COPY, WHY
from deuteron.frontend.operators import MOVES, base_name, called, is_qdq, operator_name, reads_inputs
from deuteron.frontend.quantize import float_joins
from deuteron.frontend.unsupported_hints import BUILD, REWRITES
from deuteron.native import CORTEX_M

_IMAGE = 4

_STORED = (torch.int8, torch.int16)
"""Dtypes of quantized values."""

_SHARED = MOVES | {"avg_pool2d", "max_pool2d", "maximum", "minimum"}
"""Operators without their own scale: results have the scale of the inputs."""

_CASTS = ("_to_copy", "_to_dim_order_copy")

_WINDOWED = frozenset({"quantized_avg_pool2d", "quantized_max_pool2d"}) | {
    f"quantized_{kind}conv2d" for kind in ("", "depthwise_", "transpose_")
}
"""Operators that accept images in channels-last memory only."""

_IN_ORDER = frozenset({"cat", "squeeze_copy", "stack", "unsqueeze_copy", "view_copy"})
"""Operators that ExecuTorch's runtime computes wrongly for images in channels-last memory, without an error."""

_ANY_ORDER = frozenset({"maximum", "minimum", "transpose"})
"""Cortex-M operators that accept tensors of different memory formats."""

_DILATION = {"max_pool2d_with_indices": 4}
"""Operators without dilated kernels, with the index of the dilation among their arguments."""

_EARLIER = f"compute it before the model and pass it as float32, or {BUILD}"
_PORTABLE = f"write it with other operators, or {BUILD}"
_INDICES = f"leave out `return_indices=True`, or {BUILD}"
_WEIGHTS = (
    "make them a parameter or a buffer of the module, or build for a target with float operators and a Neutron, such "
    "as `imxrt700`"
)
_SLICES = f"write it as `torch.maximum` of slices, or {BUILD}"


def check_scales(program: ExportedProgram) -> None:
    """Check that folding quantize and dequantize operators loses no scale.

    Raises:
        UnsupportedError: naming each operator without its own scale whose inputs and result have different scales.
    """
    refused: list[UnsupportedError] = []
    for node in program.graph.nodes:
        if node.op == "call_function" and is_quantized(node) and _base(node) in _SHARED:
            scales = list(dict.fromkeys(_scales(node)))
            if len(scales) > 1:
                refused.append(mixes(node, scales))
    _raise(refused)


def check_dtypes(program: ExportedProgram) -> None:
    """Check that arithmetic on quantized values reads no other numbers, before int8 operators replace it.

    Raises:
        UnsupportedError: naming each operator, and its operands that are not float32.
    """
    refused: list[UnsupportedError] = []
    for node in program.graph.nodes:
        if node.op == "call_function" and is_elementwise(node):
            listed = _numbers(map(_converted, node.all_input_nodes))
            if listed and any(value.is_floating_point() for arg in node.all_input_nodes for value in _tensors(arg)):
                refused.append(refusal(node, f"reads {listed} and float32: both operands must be float32", _EARLIER))
    _raise(refused)


def check_dilations(program: ExportedProgram) -> None:
    """Check that max-pools have no dilation, before int8 operators replace them.

    Raises:
        UnsupportedError: naming each operator and its dilation.
    """
    refused: list[UnsupportedError] = []
    for node in program.graph.nodes:
        place = _DILATION.get(_base(node)) if node.op == "call_function" else None
        steps = cast("Sequence[int]", node.args[place]) if place is not None and len(node.args) > place else ()
        if any(step != 1 for step in steps):
            refused.append(refusal(node, f"with dilation {[*steps]} {_no_int8_kernel(node)}", _SLICES))
    _raise(refused)


def check_operators(program: ExportedProgram) -> None:
    """Check that all operators between the input and output quantization are int8, with the right memory formats.

    Raises:
        UnsupportedError: naming each operator that would compute in float, treat quantized values as plain numbers, or
            read an unsupported memory format.
    """
    refused: list[UnsupportedError] = []
    copies: list[UnsupportedError] = []  # inserted for other operators, which cause the error if they are in float
    for node in program.graph.nodes:
        if node.op != "call_function" or is_qdq(node) or "::" not in operator_name(node.target):
            continue
        values = [value for arg in (node, *node.all_input_nodes) for value in _tensors(arg)]
        name = operator_name(node.target)
        if _base(node) in _CASTS and len({value.is_floating_point() for value in values}) == 2:
            continue  # between integers and what dequantizes or quantizes values
        if any(value.is_floating_point() for value in values) and not float_joins.is_left(node):
            (copies if COPY in node.meta.get("custom", {}) else refused).append(_in_float(node))
        elif name.startswith(CORTEX_M):
            if _base(node) in _WINDOWED and not all(map(is_channels_last, _images(node))):
                refused.append(refusal(node, "gets or gives an image that is not in channels-last memory", _PORTABLE))
        elif _base(node) in _IN_ORDER and not all(value.is_contiguous() for value in values):
            hint = "give it tensors in the order of their shapes, with `.contiguous()`"
            refused.append(refusal(node, "would read images in channels-last memory as contiguous ones", hint))
        elif _base(node) not in MOVES and (stored := [value.dtype for value in values if value.dtype in _STORED]):
            what = f"would read {_named(stored[0])} values as real numbers"
            refused.append(refusal(node, what, _PORTABLE))
    _raise(refused or copies)


def check_orders(plan: Any, ops: Sequence[CpuOp]) -> None:
    """Check that each image in a finished program has a memory format that its operator accepts.

    Args:
        plan: the execution plan that will be written.
        ops: the operators on the CPU.

    Raises:
        InternalError: naming the operator and the line of the model.
    """
    by_number = {number: op for op in ops for number in op.instructions}
    for number, op in by_number.items():
        call = plan.chains[0].instructions[number].instr_args
        name = cast(str, plan.operators[call.op_index].name)
        if not name.startswith(CORTEX_M):
            continue
        tensors = [value for i in call.args if hasattr(value := plan.values[i].val, "dim_order")]
        wrong = _wrong_order(name.partition("::")[2], [t for t in tensors if len(t.sizes) == _IMAGE])
        if wrong is not None:
            source = op.source[0] if op.source else None
            raise InternalError(
                f"`{name}` would get or give an image of shape {tuple(wrong.sizes)} in the order of memory "
                f"{tuple(wrong.dim_order)}{f', at `{source.code}`' if source else ''}",
                where=str(source) if source else op.node,
                hint="report the model; until then give it images in another memory format",
            )


def _wrong_order(operator: str, images: Sequence[Any]) -> Any:
    """Return the first image with a dim order that the operator does not accept; None if there is none."""
    base = operator.removesuffix("_nhwc")
    if base in _ANY_ORDER or not images:
        return None
    if base in _WINDOWED:
        wanted = (0, 1, 2, 3) if operator != base else (0, 2, 3, 1)
        checked = (images[0], images[-1])  # the operands between them are weights
    else:
        wanted = tuple(images[-1].dim_order)
        # Smaller operands are broadcast, except in a pad.
        checked = [image for image in images if base == "pad" or list(image.sizes) == list(images[-1].sizes)]
    return next((image for image in checked if not _is_in_order(image, wanted)), None)


def _is_in_order(image: Any, wanted: Sequence[int]) -> bool:
    """True for an equivalent dim order: dimensions of size 1 do not count."""
    sizes = image.sizes
    return [d for d in image.dim_order if sizes[d] != 1] == [d for d in wanted if sizes[d] != 1]


def _scales(node: fx.Node) -> Iterator[tuple[float, int]]:
    """Yield scale and zero point of every quantized value that a node reads or writes."""
    for arg in node.all_input_nodes:
        if "dequantize_per_tensor" in str(arg.target):
            yield _scale(arg)
    users = [user for one in node.users for user in (one.users if "getitem" in str(one.target) else [one])]
    for user in users:
        if ".quantize_per_tensor" in str(user.target):
            yield _scale(user)


def _scale(node: fx.Node) -> tuple[float, int]:
    scale, zero_point = node.args[1:3]
    return float(cast(float, scale)), int(cast(int, zero_point))


def check_indices(model: fx.GraphModule) -> None:
    """Check that no max-pool of an exported model returns indices, which the backend would confuse with values.

    Raises:
        UnsupportedError: for the first that returns them.
    """
    for node in model.graph.find_nodes(op="call_function", target=torch.ops.aten.max_pool2d_with_indices.default):
        raise refusal(node, "gives indices, which no operator for int8 on the CPU does", _INDICES)


def check_weights(model: fx.GraphModule) -> None:
    """Check that the weights of all convolutions are known at build time.

    Raises:
        UnsupportedError: for the first with other weights.
    """
    for node in model.graph.nodes:
        if called(node).startswith("conv") and reads_inputs(cast(fx.Node, node.args[1])):
            raise refusal(node, "has weights that depend on the model's inputs", _WEIGHTS)


def _base(node: fx.Node) -> str:
    """The operator's name without namespace, overload and layout suffix."""
    return base_name(node.target).removesuffix("_nhwc")


def _tensors(node: fx.Node) -> list[Tensor]:
    value: object = node.meta.get("val")
    return [item for item in flat(value) if isinstance(item, Tensor)]


def _images(node: fx.Node) -> list[object]:
    """The images that a node reads and writes, without weights."""
    first = cast(fx.Node, node.args[0])
    return [value for value in (*_tensors(first), *_tensors(node)) if value.dim() == 4]


def _in_float(node: fx.Node) -> UnsupportedError:
    """Return the error for an operator without an int8 implementation, with the NPU's reason if there is one."""
    what = _no_int8_kernel(node)
    listed = _numbers(node.all_input_nodes)
    if listed and _base(node) in _CASTS:
        return refusal(node, f"makes float32 of {listed}, which has no int8 kernel on the CPU", _EARLIER)
    if listed:
        return refusal(node, f"reads {listed} and {what}", _EARLIER)
    rewrite = REWRITES.get(base_name(node.target))
    return refusal(node, what, rewrite.hint if rewrite else _PORTABLE)


def _no_int8_kernel(node: fx.Node) -> str:
    return "has no int8 kernel on the CPU" + (f"; {node.meta[WHY]}" if WHY in node.meta else "")


def _converted(node: fx.Node) -> fx.Node:
    """The source of a copy in another dtype, which ExecuTorch inserts for mixed dtypes; other nodes unchanged."""
    is_copy = node.op == "call_function" and _base(node) in _CASTS
    return node.all_input_nodes[0] if is_copy else node


def _numbers(args: Iterable[fx.Node]) -> str:
    """List the integer and bool tensors that are no quantized values, with their dtypes."""
    numbers = [(arg.name, value.dtype) for arg in args for value in _tensors(arg) if _counts(value)]
    return " and ".join(f"`{name}` of {_named(dtype)}" for name, dtype in numbers)


def _named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _counts(value: Tensor) -> bool:
    """True for integers and bools that are no quantized values."""
    return not value.is_floating_point() and value.dtype not in _STORED


def _raise(refused: Sequence[UnsupportedError]) -> None:
    if refused:
        raise all_refused(refused)
