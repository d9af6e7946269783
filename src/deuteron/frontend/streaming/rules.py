"""Operators that compute new frames from new frames and some earlier ones; all others need a whole window."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch
from torch import fx

from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.operators import arguments_of, called, reads_inputs
from deuteron.frontend.streaming.frame_alignment import Arguments, Frames, Step, dims_of, shape_of

aten = torch.ops.aten

END = 2**63 - 1
"""The end of a slice that takes all."""


class Operator(NamedTuple):
    """An operator with one operand that has frames.

    Attributes:
        node: the operator.
        given: its arguments by name.
        frames: of the operand.
    """

    node: fx.Node
    given: dict[str, Any]
    frames: Frames


Rule = Callable[[Operator], Step | None]
"""Returns the step of an operator; None if it needs a whole window."""


def step_of(node: fx.Node, operands: Mapping[fx.Node, Frames]) -> Step | None:
    """Return how an operator computes new frames; None if it needs a whole window.

    Args:
        node: the operator.
        operands: those of its operands that have frames; the others are constants.
    """
    name = called(node)
    if node.target is operator.getitem:
        return Step(next(iter(operands.values())))
    if name == "cat":
        return _cat(node, arguments_of(node), operands)
    if torch.Tag.pointwise in getattr(node.target, "tags", ()):
        return _aligned(node, operands, node.all_input_nodes)
    rule, first = _RULES.get(name), node.args[0] if node.args else None
    if name == "embedding":
        first = node.args[1]
    if name == "matmul" and first not in operands:
        rule, first = _matmul_of_constant, node.args[1]
    if rule is None or not isinstance(first, fx.Node) or set(operands) != {first}:
        return None
    return rule(Operator(node, arguments_of(node), operands[first]))


def _aligned(node: fx.Node, operands: Mapping[fx.Node, Frames], read: Sequence[fx.Node]) -> Step | None:
    """Return the step of an operator that reads the same frame of all operands: those that are ahead are delayed."""
    count, accounts = len(shape_of(node)), list(operands.values())
    places = {frames.axis - len(shape_of(one)) for one, frames in operands.items()}
    first = accounts[0]
    if len(places) > 1 or any((one.length, one.stride) != (first.length, first.stride) for one in accounts):
        return None
    (place,) = places
    for one in read:
        shape = shape_of(one)
        if one not in operands and len(shape) >= -place and shape[place] != 1:
            return None  # a constant of a window, such as a positional encoding
    lag = max(one.lag for one in accounts)
    frames = replace(
        first,
        axis=count + place,
        lag=lag,
        head=max(one.head for one in accounts),
        inexact=max(one.inexact for one in accounts),
        tail=max(one.tail for one in accounts),
        looks_ahead=next((one.looks_ahead for one in accounts if one.tail), None),
    )
    return Step(frames, {one: lag - of.lag for one, of in operands.items()}, is_delay=True)


def _cat(node: fx.Node, given: dict[str, Any], operands: Mapping[fx.Node, Frames]) -> Step | None:
    tensors, count = cast("list[fx.Node]", given["tensors"]), len(shape_of(node))
    axis = next(iter(operands.values())).axis
    if given["dim"] % count != axis:
        return _aligned(node, operands, tensors) if set(tensors) == set(operands) else None
    *constants, last = tensors
    if last not in operands or any(map(reads_inputs, constants)):
        return None
    before = sum(shape_of(one)[axis] for one in constants)
    return Step(_padded(node, operands[last], before, 0), is_identity=True)


def _padded(node: fx.Node, frames: Frames, before: int, after: int) -> Frames:
    """Return the account of a tensor with more constant frames: a stream has them as its first earlier frames."""
    return frames.windows(node, frames.length + before + after, 1, stride=1, dilation=1, before=before)


def _same(op: Operator) -> Step | None:
    return Step(op.frames)


def _pad(op: Operator) -> Step | None:
    pads, count = list(op.given["pad"]), len(shape_of(op.node))
    place = 2 * (count - 1 - op.frames.axis)
    before, after = pads[place : place + 2] or (0, 0)
    if op.given.get("mode", "constant") != "constant" and (before, after) != (0, 0):
        return None
    pads[place : place + 2] = [0, 0][: len(pads[place : place + 2])]
    return Step(
        _padded(op.node, op.frames, before, after), arguments=lambda _: {"pad": pads}, is_identity=not any(pads)
    )


def _slice(op: Operator) -> Step | None:
    if op.given["dim"] % len(shape_of(op.node)) != op.frames.axis:
        return Step(op.frames)
    start, _, step = slice(op.given["start"], op.given["end"], op.given["step"]).indices(op.frames.length)
    found = op.frames.windows(op.node, shape_of(op.node)[op.frames.axis], 1, stride=step, dilation=1, before=-start)
    return replace(
        _reading(op.node, op.frames, found, -start, lambda _: {"start": 0, "end": END}), is_identity=step == 1
    )


def _reading(node: fx.Node, frames: Frames, found: Frames, before: int, arguments: Callable[[int], Arguments]) -> Step:
    """Return the step of an operator that reads several frames for each result."""
    stride = found.stride // frames.stride
    earlier = found.lag * stride + before - frames.lag
    return Step(found, {cast(fx.Node, node.args[0]): earlier}, arguments)


def _conv(op: Operator) -> Step | None:
    kernel = shape_of(op.given["weight"])[2:]
    stride, dilation = _of_all(op.given["stride"], kernel), _of_all(op.given["dilation"], kernel)
    place = op.frames.axis - (len(shape_of(op.node)) - len(kernel))
    if place < 0:
        return Step(op.frames) if op.frames.axis == 0 and len(shape_of(op.node)) == len(kernel) + 2 else None
    if isinstance(op.given["padding"], str):
        totals = [(k - 1) * d if op.given["padding"] == "same" else 0 for k, d in zip(kernel, dilation, strict=True)]
        padding = [total // 2 for total in totals]
        if any(total % 2 for i, total in enumerate(totals) if i != place):
            return None
    else:
        padding = _of_all(op.given["padding"], kernel)
    before = padding[place]
    found = op.frames.windows(
        op.node,
        shape_of(op.node)[op.frames.axis],
        kernel[place],
        stride=stride[place],
        dilation=dilation[place],
        before=before,
    )
    padding[place] = 0
    step = _reading(op.node, op.frames, found, before, lambda _: {"padding": padding})
    return replace(step, target=aten.conv1d.default if len(kernel) == 1 else aten.conv2d.default)


def _conv_transpose(op: Operator) -> Step | None:
    """Return the step of a transposed convolution with one result for each frame, which is a convolution over time."""
    kernel = shape_of(op.given["weight"])[2:]
    place = op.frames.axis - (len(shape_of(op.node)) - len(kernel))
    if place < 0:
        return Step(op.frames) if op.frames.axis == 0 and len(shape_of(op.node)) == len(kernel) + 2 else None
    stride, dilation, padding, output_padding = (
        _of_all(op.given[name], kernel) for name in ("stride", "dilation", "padding", "output_padding")
    )
    if stride[place] != 1 or output_padding[place]:
        return None
    reach = (kernel[place] - 1) * dilation[place]
    before = reach - padding[place]
    found = op.frames.windows(
        op.node,
        shape_of(op.node)[op.frames.axis],
        kernel[place],
        stride=1,
        dilation=dilation[place],
        before=before,
    )
    padding[place] = reach
    return _reading(op.node, op.frames, found, before, lambda _: {"padding": padding})


def _of_all(value: object, kernel: Sequence[int]) -> list[int]:
    """Return a number per dimension of a window."""
    listed = [value] if isinstance(value, int) else list(cast("Sequence[int]", value))
    return [int(one) for one in (listed * len(kernel) if len(listed) == 1 else listed)]


def _pool(op: Operator) -> Step | None:
    if op.given.get("ceil_mode"):  # the last window of each hop would have fewer elements
        return None
    spatial = 1 if called(op.node).endswith("1d") else 2
    kernel = _of_all(op.given["kernel_size"], range(spatial))
    stride = _of_all(op.given["stride"] or kernel, kernel)
    dilation, padding = _of_all(op.given.get("dilation", 1), kernel), _of_all(op.given["padding"], kernel)
    place = op.frames.axis - (len(shape_of(op.node)) - spatial)
    if place < 0:
        return Step(op.frames)
    before = padding[place]
    if before and not _pads_with_zeros(op.node, op.given):
        return None
    found = op.frames.windows(
        op.node,
        shape_of(op.node)[op.frames.axis],
        kernel[place],
        stride=stride[place],
        dilation=dilation[place],
        before=before,
    )
    padding[place] = 0
    return _reading(op.node, op.frames, found, before, lambda _: {"padding": padding})


def _pads_with_zeros(node: fx.Node, given: dict[str, Any]) -> bool:
    """Tell whether padding of a pool is as if its operand had zeros there."""
    if called(node).startswith("avg"):
        return bool(given["count_include_pad"]) and given.get("divisor_override") is None
    return called(cast(fx.Node, node.args[0])) in ("relu", "relu6", "sigmoid")


def _adaptive(op: Operator) -> Step | None:
    spatial = 1 if called(op.node).endswith("1d") else 2
    size = _of_all(op.given["output_size"], range(spatial))
    place = op.frames.axis - (len(shape_of(op.node)) - spatial)
    if place < 0:
        return Step(op.frames)
    if size[place] != op.frames.length:
        return None
    return Step(op.frames, arguments=lambda count: {"output_size": [*size[:place], count, *size[place + 1 :]]})


def _along(op: Operator) -> Step | None:
    """Operators along one dimension whose results have the same dimensions."""
    count = len(shape_of(cast(fx.Node, op.node.args[0])))
    return None if op.given["dim"] % count == op.frames.axis else Step(op.frames)


def _reduction(op: Operator) -> Step | None:
    count = len(shape_of(cast(fx.Node, op.node.args[0])))
    dims = dims_of(op.given.get("dim"), count)
    if op.frames.axis in dims:
        return None
    gone = 0 if op.given.get("keepdim") else sum(dim < op.frames.axis for dim in dims)
    return Step(op.frames.moved(op.frames.axis - gone))


def _select(op: Operator) -> Step | None:
    dim = op.given["dim"] % len(shape_of(cast(fx.Node, op.node.args[0])))
    return None if dim == op.frames.axis else Step(op.frames.moved(op.frames.axis - (dim < op.frames.axis)))


def _unsqueeze(op: Operator) -> Step | None:
    return Step(op.frames.moved(op.frames.axis + (op.given["dim"] % len(shape_of(op.node)) <= op.frames.axis)))


def _squeeze(op: Operator) -> Step | None:
    shape = shape_of(cast(fx.Node, op.node.args[0]))
    gone = [dim for dim in dims_of(op.given.get("dim"), len(shape)) if shape[dim] == 1]
    if op.frames.axis in gone:
        return None
    moved = op.frames.moved(op.frames.axis - sum(dim < op.frames.axis for dim in gone))
    return Step(moved, arguments=lambda _: {"dim": gone}, target=aten.squeeze.dims)


def _permute(op: Operator) -> Step | None:
    dims = dims_of(op.given["dims"], len(shape_of(op.node)))
    return Step(op.frames.moved(dims.index(op.frames.axis)))


def _transpose(op: Operator) -> Step | None:
    count = len(shape_of(op.node))
    swapped = [op.given["dim0"] % count, op.given["dim1"] % count] if "dim0" in op.given else [0, 1]
    is_moved = op.frames.axis in swapped and count > 1
    return Step(op.frames.moved(swapped[1 - swapped.index(op.frames.axis)]) if is_moved else op.frames)


def _reshape(op: Operator) -> Step | None:
    before, after = shape_of(cast(fx.Node, op.node.args[0])), shape_of(op.node)
    outer = math.prod(before[: op.frames.axis])
    fits = (axis for axis, size in enumerate(after) if size == op.frames.length and math.prod(after[:axis]) == outer)
    axis = next(fits, None)
    if axis is None:
        return None

    def arguments(count: int) -> Arguments:
        shape = [*after[:axis], count, *after[axis + 1 :]]
        return {"size": shape, "shape": shape}

    return Step(op.frames.moved(axis), arguments=arguments, target=aten.reshape.default)


def _expand(op: Operator) -> Step | None:
    size, added = list(op.given["size"]), len(shape_of(op.node)) - len(shape_of(cast(fx.Node, op.node.args[0])))
    if shape_of(op.node)[op.frames.axis + added] != op.frames.length:
        return None  # one frame, repeated
    size[op.frames.axis + added] = -1
    return Step(op.frames.moved(op.frames.axis + added), arguments=lambda _: {"size": size})


def _linear(op: Operator) -> Step | None:
    return None if op.frames.axis == len(shape_of(cast(fx.Node, op.node.args[0]))) - 1 else Step(op.frames)


def _matmul(op: Operator) -> Step | None:
    return _linear(op) if len(shape_of(op.given["other"])) == 2 else None


def _matmul_of_constant(op: Operator) -> Step | None:
    count = len(shape_of(op.given["other"]))
    is_row = op.frames.axis == count - 2 or count < 2
    return None if is_row or len(shape_of(op.given["self"])) != 2 else Step(op.frames)


def _norm(op: Operator) -> Step | None:
    kept = len(shape_of(op.node)) - len(op.given["normalized_shape"])
    return Step(op.frames) if op.frames.axis < kept else None


def _batch_norm(op: Operator) -> Step | None:
    return None if op.frames.axis == 1 or op.given["training"] else Step(op.frames)


def _prelu(op: Operator) -> Step | None:
    has_one_slope = math.prod(shape_of(cast(fx.Node, op.given["weight"]))) == 1
    return Step(op.frames) if has_one_slope or op.frames.axis != 1 else None


def _recurrent(op: Operator) -> Step | None:
    """A recurrent layer; its states depend on all frames before."""
    if op.frames.axis != (1 if op.given["batch_first"] else 0) or op.given["bidirectional"]:
        return None
    states = [one for one in flat(op.given["hx"]) if isinstance(one, fx.Node)]
    if any(map(reads_inputs, states)) or len({*states}) < len(states):
        return None
    inexact = 0 if op.frames.lag == 0 and not op.frames.inexact else op.frames.length
    found = replace(op.frames, head=op.frames.length, inexact=inexact)
    return Step(found, states={one: index for index, one in enumerate(states, start=1)})


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("contiguous", "clone", "alias", "detach", "dropout", "lift_fresh_copy", "embedding"), _same),
    **dict.fromkeys(("softmax", "_softmax", "log_softmax", "_log_softmax", "glu", "cumsum"), _along),
    **dict.fromkeys(("split", "split_with_sizes", "chunk"), _along),
    **dict.fromkeys(
        ("mean", "sum", "amax", "amin", "max", "min", "argmax", "argmin", "var", "std", "any", "all"), _reduction
    ),
    **dict.fromkeys(("linalg_vector_norm", "logsumexp"), _reduction),
    **dict.fromkeys(("view", "reshape", "flatten", "unflatten"), _reshape),
    **dict.fromkeys(("conv1d", "conv2d"), _conv),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d"), _conv_transpose),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "max_pool1d", "max_pool2d"), _pool),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d"), _adaptive),
    **dict.fromkeys(("pad", "constant_pad_nd"), _pad),
    **dict.fromkeys(("gru", "lstm", "rnn_tanh", "rnn_relu"), _recurrent),
    **dict.fromkeys(("layer_norm", "rms_norm"), _norm),
    **dict.fromkeys(("transpose", "t"), _transpose),
    "permute": _permute,
    "slice": _slice,
    "select": _select,
    "unbind": _select,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "expand": _expand,
    "linear": _linear,
    "matmul": _matmul,
    "batch_norm": _batch_norm,
    "prelu": _prelu,
}
