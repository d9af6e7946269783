"""Separates operators that Vela 5.1.0 would combine wrongly, by an operator without effect between them.

The separating operator is a pool over a single value. It changes no value, and Vela never decomposes it. Pools do not
support int32 and bools: these use the maximum of a value and itself, or the logical or of a value and itself.

Slices. Vela lets a layer read a slice, or write into a padded or concatenated tensor, in place. Layers that it
decomposes may then be wrong. A convolution or pool that reads a slice loses its top and left pads. A layer of several
samples, or a transposed convolution, reads a slice as if it was the whole tensor. A depthwise convolution with several
output channels per input channel writes to the start of the larger tensor.

Transposes. Ethos-U55 and -U65 also decompose transposes. If an activation and then pads follow one, its rows are
written with the stride of the tensor without pads.

Chains. Ethos-U85 chains an operator of one tensor to the operator before it, without memory between them. Vela gives it
the shape of the first operator's results. A padded or concatenated tensor then has the row stride of its part, and so
has what follows a reshape of a sum.

Activations of several samples. Vela decomposes an activation of several samples or more than four axes. If it fuses the
activation's bounds or table with the operator before, that operator's results get the activation's shape, but its
operands do not. The shapes may differ by a reshape: Vela reshapes layers whose window is one value, and reductions,
matrix products and data movement are decomposed otherwise. Such an activation is reshaped to one sample, unless it
follows an elementwise operator, which Vela decomposes in the same way.

Outputs. Vela drops an output that a transpose gives and another transpose reads. The second one reads the operand of
the first instead. Vela also drops reshaped outputs that a transpose reads, of layers and reductions for example. An
operator separates such an output, also one between two transposes, from its reader.

Minima and maxima. Vela decomposes these, and on Ethos-U55 and -U65 also matrix products: they lose the offset of a
slice, also of a reshaped one. They also overwrite the tensor that they are padded or concatenated with. Those of a sum
read it with the shape of the summed tensor. Those of a layer or pool of one channel, without the axis of the channels,
make this write its results beyond their end. On Ethos-U85, sums lose that offset too.
An accelerator without minima computes `-1 - x`, the maximum of that, and `-1 - x` again. Vela gives both subtractions
the shapes of tensors instead of the operator's. A tensor has the shape of the last reshape that reads it, and a
transpose that only moves axes of size 1 counts as a reshape. If one follows the minimum or reads its operand, the
subtraction broadcasts some values over others. Vela crashes for minima with more than four axes, so these are reshaped
to four.

Choices. Vela writes a choice as three logical operators with the shapes of tensors. An operand that a reshape reads too
would have the shape of that reshape. The condition is -1 where it is true, but Vela makes it 1 if it is an output too.

Biases. Vela gives a layer the weights of an earlier one with the same values, and its biases too if both have the same
scales. A layer whose results several operators rescale has none. If the biases differ, each reader gets a copy of the
layer with scales that differ in the last bit.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.operators import base_name

_ACTIVATIONS = ("CLAMP", "TABLE")
_RESHAPES = ("RESHAPE", "TRANSPOSE")
_REDUCTIONS = ("REDUCE_MAX", "REDUCE_MIN")
_DECOMPOSED_OTHERWISE = (*_RESHAPES, "REVERSE", "MATMUL", "REDUCE_SUM", *_REDUCTIONS)
_OF_ONE = ("ABS", "BITWISE_NOT", "LOGICAL_NOT")
"""Operators of one tensor that Vela does not convert to another; it converts a negation to a subtraction."""
_AXES = 4
"""The axes of a pool: samples, rows, columns and channels."""
_OF_POOLS = frozenset({torch.int8, torch.int16})
_CONVOLUTIONS, _POOLS = ("CONV2D", "DEPTHWISE_CONV2D"), ("AVG_POOL2D", "MAX_POOL2D")
_LAST_BIT = 2.0**-30
"""A multiplier has 31 bits."""
_MOST_STRIDE, _MOST_DILATION, _MOST_WINDOW = 3, 2, 8
"""Vela decomposes layers beyond these limits; the last one is for average pools with pads."""


def separate(module: fx.GraphModule, *, chains: bool) -> None:
    """Insert the separating operators into a partition of TOSA operators, after ExecuTorch's passes.

    Args:
        module: the partition.
        chains: whether the accelerator chains operators.
    """
    for node in list(module.graph.nodes):
        if kind_of(node) == "TRANSPOSE" and _is_transposed_output(node.all_input_nodes[0]):
            _join_transposes(node)
        if kind_of(node) == "REDUCE_MIN" and len(node.meta["val"].shape) > _AXES:
            _flatten(module, node)
        if kind_of(node) in _ACTIVATIONS and _is_decomposed_shape(node) and _may_have_another_shape(node):
            _merge_samples(module, node)
    wanted = [pair for node in module.graph.nodes for pair in _wrongly_combined(node, chains=chains)]
    if chains:
        wanted += [pair for node in module.graph.nodes for pair in _wrongly_chained(node)]
    for source, reader in wanted:
        with module.graph.inserting_before(reader):
            reader.replace_input_with(source, _identity(source))
    _separate_biases(module)
    module.recompile()


def _separate_biases(module: fx.GraphModule) -> None:
    """Give layers with the weights of an earlier layer, but other biases, scales that this one does not have."""
    biases: dict[fx.Node, list[fx.Node]] = {}
    for layer in list(module.graph.nodes):
        if kind_of(layer) not in (*_CONVOLUTIONS, "TRANSPOSE_CONV2D"):
            continue
        _, weights, bias = layer.all_input_nodes
        known = biases.setdefault(weights, [])
        if bias not in known:
            known.append(bias)
        if (number := known.index(bias)) == 0:
            continue
        for reader in list(layer.users):
            with module.graph.inserting_before(reader):
                reader.replace_input_with(layer, module.graph.node_copy(layer))
            if kind_of(reader) == "RESCALE":
                scales = cast("Sequence[float]", reader.args[2])
                reader.args = (
                    *reader.args[:2],
                    [scale * (1 + number * _LAST_BIT) for scale in scales],
                    *reader.args[3:],
                )
        module.graph.erase_node(layer)


def _is_transposed_output(node: fx.Node) -> bool:
    return kind_of(node) == "TRANSPOSE" and _is_output(node)


def _is_output(node: fx.Node) -> bool:
    return any(user.op == "output" for user in node.users)


def _join_transposes(second: fx.Node) -> None:
    """Let a transpose of a transpose read the operand of the first one, or give its readers that operand."""
    first = second.all_input_nodes[0]
    source, inner = cast("tuple[fx.Node, Sequence[int]]", first.args)
    joined = [inner[axis] for axis in cast("Sequence[int]", second.args[1])]
    second.args = (source, joined)
    if joined == sorted(joined):
        second.replace_all_uses_with(source)
        second.graph.erase_node(second)


def _is_decomposed_shape(node: fx.Node) -> bool:
    """Return True if a result has several samples, or more axes than Vela's operators."""
    shape = node.meta["val"].shape
    return len(shape) > _AXES or any(size > 1 for size in shape[:1])


def _must_not_reshape(source: fx.Node, reshape: fx.Node) -> bool:
    """Return True for a minimum, and for a slice of more axes than Vela's operators, reshaped to several samples."""
    is_deep = kind_of(source) == "SLICE" and len(source.meta["val"].shape) > _AXES
    return kind_of(source) == "REDUCE_MIN" or (is_deep and _is_decomposed_shape(reshape))


def _may_have_another_shape(activation: fx.Node) -> bool:
    """Return True if Vela may give the operator before an activation another shape than the activation's."""
    before = activation.all_input_nodes[0]
    while kind_of(before) == "RESCALE":
        before = before.all_input_nodes[0]
    return kind_of(before) in (*_DECOMPOSED_OTHERWISE, *_CONVOLUTIONS)


def _merge_samples(module: fx.GraphModule, activation: fx.Node) -> None:
    """Reshape an activation of several samples to one sample with all rows."""
    source, shape = activation.all_input_nodes[0], activation.meta["val"].shape
    merged = (1, math.prod(shape[:-2]), *shape[-2:])
    with module.graph.inserting_before(activation):
        activation.replace_input_with(source, _reshaped(source, merged))
    activation.meta = activation.meta | {"val": activation.meta["val"].reshape(merged)}
    with module.graph.inserting_before(activation.next):
        restored = _reshaped(activation, shape)
    activation.replace_all_uses_with(restored, delete_user_cb=lambda user: user is not restored)


def _flatten(module: fx.GraphModule, least: fx.Node) -> None:
    """Reshape the operand of a minimum to four axes: the reduced axis, those before and those after it."""
    source, axis = least.all_input_nodes[0], cast(int, least.kwargs["axis"])
    shape, result = source.meta["val"].shape, least.meta["val"].shape
    planes = (1, math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    with module.graph.inserting_before(least):
        least.replace_input_with(source, _reshaped(source, planes))
    least.kwargs = {**least.kwargs, "axis": 2}
    least.meta = least.meta | {"val": least.meta["val"].reshape(1, planes[1], 1, planes[3])}
    with module.graph.inserting_before(least.next):
        deep = _reshaped(least, result)
    least.replace_all_uses_with(deep, delete_user_cb=lambda user: user is not deep)


def _identity(source: fx.Node) -> fx.Node:
    """Insert an operator after a node that changes no value."""
    dtype = source.meta["val"].dtype
    if dtype in _OF_POOLS:
        return _pooled(source)
    either = tosa().LOGICAL_OR if dtype is torch.bool else tosa().MAXIMUM
    result = source.graph.call_function(either.default, (source, source))
    result.meta = dict(source.meta)
    return result


def _pooled(source: fx.Node) -> fx.Node:
    """Insert a pool over single values after a node, with reshapes to and from four axes if necessary."""
    shape = source.meta["val"].shape
    planes = (*[1] * (_AXES - len(shape)), *shape)
    if len(shape) > _AXES:
        planes = (1, math.prod(shape[:-2]), *shape[-2:])
    reshaped = source if planes == (*shape,) else _reshaped(source, planes)
    pool = source.graph.call_function(tosa().MAX_POOL2D.default, (reshaped, [1, 1], [1, 1], [0, 0, 0, 0]))
    pool.meta = dict(reshaped.meta)
    return pool if reshaped is source else _reshaped(pool, shape)


def _reshaped(source: fx.Node, shape: Sequence[int]) -> fx.Node:
    result = source.graph.call_function(tosa().RESHAPE.default, (source, constant_shape(source, shape)))
    result.meta = source.meta | {"val": source.meta["val"].reshape(shape)}
    return result


def _wrongly_combined(node: fx.Node, *, chains: bool) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Yield pairs of an operator and its reader, the node or a pad before it, that Vela would combine wrongly."""
    kind = kind_of(node)
    if kind in (*_CONVOLUTIONS, *_POOLS):
        reader, has_pads = node, any(_geometry(node)[1])
        while kind_of(reader.all_input_nodes[0]) == "PAD":  # Vela may fuse it with the layer
            reader, has_pads = reader.all_input_nodes[0], True
        if _has_samples(node) or (has_pads and _is_decomposed(node)):
            yield from _sliced(reader.all_input_nodes[0], reader)
    elif kind == "TRANSPOSE_CONV2D":
        yield from _sliced(node.all_input_nodes[0], node)
    elif kind in _REDUCTIONS:
        source = node.all_input_nodes[0]
        is_shared = kind == "REDUCE_MIN" and _has_other_readers(source)
        if is_shared or _has_another_shape(source):
            yield source, node
    elif kind == "MATMUL" and not chains:
        for operand in node.all_input_nodes:
            yield from _sliced(operand, node)
    elif kind in _RESHAPES and _must_not_reshape(node.all_input_nodes[0], node):
        yield node.all_input_nodes[0], node
    elif kind == "TRANSPOSE":
        yield from _reshaped_outputs(node)
    elif kind in ("PAD", "CONCAT"):
        for source in node.all_input_nodes:
            before = next(iter(source.all_input_nodes), source)
            is_transposed = kind == "PAD" and kind_of(source) in _ACTIVATIONS and kind_of(before) == "TRANSPOSE"
            is_multiplied = kind_of(source) == "RESCALE" and _multiplies(before)
            is_chained = chains and kind_of(before if kind_of(source) == "RESCALE" else source) in _OF_ONE
            is_product = not chains and _is_product(source)
            if is_transposed or is_multiplied or is_chained or is_product or kind_of(source) in _REDUCTIONS:
                yield source, node


def _sliced(source: fx.Node, reader: fx.Node) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Yield the slice that an operator reads, also through reshapes, and the node that reads this slice."""
    while kind_of(source) == "RESHAPE":
        reader, source = source, source.all_input_nodes[0]
    if kind_of(source) == "SLICE":
        yield source, reader


def _reshaped_outputs(transpose: fx.Node) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Yield the reshaped outputs that a transpose reads, and the transposed one behind reshapes."""
    reader, source, found = transpose, transpose.all_input_nodes[0], list[tuple[fx.Node, fx.Node]]()
    while kind_of(source) == "RESHAPE":
        found += [(source, reader)] if _is_output(source) else []
        reader, source = source, source.all_input_nodes[0]
    yield from found
    if kind_of(source) == "TRANSPOSE" and _is_output(source):
        yield source, reader


def _wrongly_chained(node: fx.Node) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Yield such pairs for an Ethos-U85 alone."""
    kind = kind_of(node)
    if node.op == "output":
        bools = [one for one in node.all_input_nodes if one.meta["val"].dtype is torch.bool]
        yield from ((one, node) for one in bools if _has_other_readers(one))
    elif kind == "SELECT":
        yield from ((source, node) for source in node.all_input_nodes if _has_other_readers(source))
    elif kind == "RESHAPE" and kind_of(node.all_input_nodes[0]) == "REDUCE_SUM":
        yield from ((node, user) for user in node.users)
    elif kind == "REDUCE_SUM":
        reader, source = node, node.all_input_nodes[0]
        while kind_of(source) == "RESCALE":
            reader, source = source, source.all_input_nodes[0]
        if kind_of(source) == "SLICE":
            yield source, reader


def _is_product(source: fx.Node) -> bool:
    """Return True for the result of a matrix product, rescaled or reshaped."""
    while kind_of(source) in ("RESCALE", "RESHAPE"):
        source = source.all_input_nodes[0]
    return kind_of(source) == "MATMUL"


def _has_another_shape(source: fx.Node) -> bool:
    """Return True if Vela may read a value with the shape of a sum, a slice or a layer, which it does not have."""
    given = _behind(source)
    if kind_of(given) in (*_CONVOLUTIONS, *_POOLS):
        return given.meta["val"].shape[-1] == 1 and given is not _behind(source, ())
    return kind_of(given) in ("REDUCE_SUM", "SLICE")


def _behind(source: fx.Node, reshapes: Sequence[str] = ("RESHAPE",)) -> fx.Node:
    """Return what gives a value, before rescales, activations and reshapes."""
    while kind_of(source) in ("RESCALE", *_ACTIVATIONS, *reshapes):
        source = source.all_input_nodes[0]
    return source


def _has_other_readers(source: fx.Node) -> bool:
    """Return True if another node reads the tensor, before or after its reshapes."""
    while len(source.users) == 1 and kind_of(source) in _RESHAPES:
        source = source.all_input_nodes[0]
    return len(source.users) > 1


def _has_samples(node: fx.Node) -> bool:
    """Return True for a result of several samples."""
    return node.meta["val"].shape[0] > 1


def _is_decomposed(layer: fx.Node) -> bool:
    strides, _, last = _geometry(layer)
    if max(strides) > _MOST_STRIDE or _multiplies(layer):
        return True
    most = {"AVG_POOL2D": _MOST_WINDOW, "MAX_POOL2D": max(last)}.get(kind_of(layer), _MOST_DILATION)
    return max(last) > most


def _multiplies(node: fx.Node) -> bool:
    """Return True if it is a depthwise convolution of several input channels with several outputs for each."""
    if kind_of(node) != "DEPTHWISE_CONV2D":
        return False
    *_, depth, times = node.all_input_nodes[1].meta["val"].shape
    return depth > 1 and times > 1


def _geometry(layer: fx.Node) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Strides, pads, and the dilations of a convolution or the window of a pool."""
    lists = [cast("Sequence[int]", arg) for arg in layer.args if isinstance(arg, Sequence)]
    if kind_of(layer) in _POOLS:
        window, strides, pads = lists
        return strides, pads, window
    strides, pads, dilations = lists
    return strides, pads, dilations


def kind_of(node: fx.Node) -> str:
    """Return the name of a TOSA operator; empty for other nodes."""
    return base_name(node.target) if node.op == "call_function" else ""


def constant_shape(source: fx.Node, shape: Sequence[int]) -> fx.Node:
    """Insert a constant shape for an operator of the same origin as a node."""
    from executorch.backends.arm.tosa.mapping import TosaSpecialDtype

    sizes = source.graph.call_function(tosa().CONST_SHAPE.default, ([*shape],))
    sizes.meta = source.meta | {"val": [*shape], TosaSpecialDtype.meta_key(): TosaSpecialDtype.SHAPE}
    return sizes


def tosa() -> Any:
    """Return ExecuTorch's TOSA operators."""
    from executorch.exir.dialects._ops import ops

    return ops.backend.tosa
