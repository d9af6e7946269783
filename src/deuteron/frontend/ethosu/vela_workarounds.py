"""Keeps operators of a partition apart that Vela 5.1.0 would join wrong, by a pool of one value between them.

Vela lets a layer read a slice, or write into what is padded or concatenated, where it stands in the greater tensor. A
layer that it has to take to pieces may then go wrong: of a convolution or a pool that reads a slice it forgets the pads
above and left, and the results of a depthwise convolution with several channels for each of its input's it writes to
the start of the greater tensor. On an Ethos-U55 and -U65 it also takes transposes to pieces: where an activation
follows one, and then pads, its rows are written as far apart as they would be without the pads. A pool with a window of
one value changes nothing and is never taken to pieces; nor is the greater of a value and itself, for integers of 32
bits, nor either of a truth and itself, which pools lack.

On an Ethos-U85 an operator of one tensor is chained to the one before, so that what lies between them needs no memory.
Vela gives it the shape of that operator's results, so that what is padded or concatenated has its rows as far apart as
they would be without the pads and the other parts.

An activation of several samples it takes to pieces, as it does one of more than four axes, and when it gives the bounds
or the table to the operator before, that one gets the activation's shape for its results, too, but not for what it
reads. The two may differ by a reshape, because Vela gives a layer whose window is one value a shape of its own, or
because reductions, products of matrices and what moves values have other pieces. So such an activation has one sample,
unless it follows an operator of single values, which is taken to the same pieces.

Greatest and smallest values it takes to pieces, too, and on an Ethos-U55 and -U65 products of matrices: of a slice it
forgets where it begins. Greatest and smallest values also overwrite what they are padded or concatenated with. Where an
accelerator has no smallest values it writes `-1 - x`, the greatest values of that, and `-1 - x` again, and gives both
subtractions the shapes of tensors instead of the operator's. A tensor has the shape of the last reshape that reads it,
of which a transpose that moves only axes of one value is another: where one follows the smallest values, or reads what
they are of, the subtraction spreads some of its values over the others. Of more than four axes the process ends, so
that these have four.
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
_OF_OTHER_PIECES = (*_RESHAPES, "REVERSE", "MATMUL", "REDUCE_SUM", *_REDUCTIONS)
_OF_ONE = ("ABS", "BITWISE_NOT", "LOGICAL_NOT")
"""Operators of one tensor that Vela has as such; a negation is a subtraction there."""
_AXES = 4
"""Of what a pool takes: samples, rows, columns and channels."""
_OF_POOLS = frozenset({torch.int8, torch.int16})
_CONVOLUTIONS, _POOLS = ("CONV2D", "DEPTHWISE_CONV2D"), ("AVG_POOL2D", "MAX_POOL2D")
_MOST_STRIDE, _MOST_DILATION, _MOST_WINDOW = 3, 2, 8
"""Beyond these Vela takes layers to pieces; the last is of average pools with pads."""


def keep_apart(module: fx.GraphModule, *, chains: bool) -> None:
    """Put such pools into a partition in TOSA's operators, as ExecuTorch's passes leave it.

    Args:
        module: the partition.
        chains: whether the accelerator is one that chains operators.
    """
    for node in list(module.graph.nodes):
        if _kind(node) == "REDUCE_MIN" and len(node.meta["val"].shape) > _AXES:
            _flatten(module, node)
        if _kind(node) in _ACTIVATIONS and _is_in_pieces(node) and _may_have_another_shape(node):
            _put_together(module, node)
    wanted = [pair for node in module.graph.nodes for pair in _joined(node, chains=chains)]
    for source, reader in wanted:
        with module.graph.inserting_before(reader):
            reader.replace_input_with(source, _again(source))
    module.recompile()


def _is_in_pieces(activation: fx.Node) -> bool:
    """Whether it has several samples, or more axes than operators have there."""
    shape = activation.meta["val"].shape
    return len(shape) > _AXES or any(size > 1 for size in shape[:1])


def _may_have_another_shape(activation: fx.Node) -> bool:
    """Whether Vela may give the operator before it another shape than the activation's."""
    before = activation.all_input_nodes[0]
    while _kind(before) == "RESCALE":
        before = before.all_input_nodes[0]
    return _kind(before) in (*_OF_OTHER_PIECES, *_CONVOLUTIONS)


def _put_together(module: fx.GraphModule, activation: fx.Node) -> None:
    """Let an activation of several samples be of one that has their rows."""
    source, shape = activation.all_input_nodes[0], activation.meta["val"].shape
    together = (1, math.prod(shape[:-2]), *shape[-2:])
    with module.graph.inserting_before(activation):
        activation.replace_input_with(source, _reshaped(source, together))
    activation.meta = activation.meta | {"val": activation.meta["val"].reshape(together)}
    with module.graph.inserting_before(activation.next):
        apart = _reshaped(activation, shape)
    activation.replace_all_uses_with(apart, delete_user_cb=lambda user: user is not apart)


def _flatten(module: fx.GraphModule, least: fx.Node) -> None:
    """Let smallest values be of four axes, the axis with what lies before and behind it."""
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


def _again(source: fx.Node) -> fx.Node:
    """The node's values behind an operator that changes none."""
    dtype = source.meta["val"].dtype
    if dtype in _OF_POOLS:
        return _pooled(source)
    either = _tosa().LOGICAL_OR if dtype is torch.bool else _tosa().MAXIMUM
    result = source.graph.call_function(either.default, (source, source))
    result.meta = dict(source.meta)
    return result


def _pooled(source: fx.Node) -> fx.Node:
    """The node's values behind a pool, which takes four axes: others are reshaped to four, and back again."""
    shape = source.meta["val"].shape
    planes = (*[1] * (_AXES - len(shape)), *shape)
    if len(shape) > _AXES:
        planes = (1, math.prod(shape[:-2]), *shape[-2:])
    reshaped = source if planes == (*shape,) else _reshaped(source, planes)
    pool = source.graph.call_function(_tosa().MAX_POOL2D.default, (reshaped, [1, 1], [1, 1], [0, 0, 0, 0]))
    pool.meta = dict(reshaped.meta)
    return pool if reshaped is source else _reshaped(pool, shape)


def _reshaped(source: fx.Node, shape: Sequence[int]) -> fx.Node:
    from executorch.backends.arm.tosa.mapping import TosaSpecialDtype

    sizes = source.graph.call_function(_tosa().CONST_SHAPE.default, ([*shape],))
    sizes.meta = source.meta | {"val": [*shape], TosaSpecialDtype.meta_key(): TosaSpecialDtype.SHAPE}
    result = source.graph.call_function(_tosa().RESHAPE.default, (source, sizes))
    result.meta = source.meta | {"val": source.meta["val"].reshape(shape)}
    return result


def _joined(node: fx.Node, *, chains: bool) -> Iterator[tuple[fx.Node, fx.Node]]:
    """What is to be kept apart from the node, and the node, or the one before it that reads that."""
    kind = _kind(node)
    if kind in (*_CONVOLUTIONS, *_POOLS):
        reader, has_pads = node, any(_geometry(node)[1])
        source = reader.all_input_nodes[0]
        while _kind(source) == "PAD":  # which Vela may make the layer's own
            reader, source, has_pads = source, source.all_input_nodes[0], True
        if _kind(source) == "SLICE" and has_pads and _is_taken_to_pieces(node):
            yield source, reader
    elif kind in _REDUCTIONS:
        source = node.all_input_nodes[0]
        if _kind(source) == "SLICE" or (kind == "REDUCE_MIN" and _has_other_readers(source)):
            yield source, node
    elif kind == "MATMUL" and not chains:
        yield from ((source, node) for source in node.all_input_nodes if _kind(source) == "SLICE")
    elif kind in _RESHAPES and _kind(node.all_input_nodes[0]) == "REDUCE_MIN":
        yield node.all_input_nodes[0], node
    elif kind in ("PAD", "CONCAT"):
        for source in node.all_input_nodes:
            before = next(iter(source.all_input_nodes), source)
            is_turned = kind == "PAD" and _kind(source) in _ACTIVATIONS and _kind(before) == "TRANSPOSE"
            is_multiplied = _kind(source) == "RESCALE" and _multiplies(before)
            is_chained = chains and _kind(before if _kind(source) == "RESCALE" else source) in _OF_ONE
            if is_turned or is_multiplied or is_chained or _kind(source) in _REDUCTIONS:
                yield source, node


def _has_other_readers(source: fx.Node) -> bool:
    """Whether something else reads the tensor, before or behind its reshapes."""
    while len(source.users) == 1 and _kind(source) in _RESHAPES:
        source = source.all_input_nodes[0]
    return len(source.users) > 1


def _is_taken_to_pieces(layer: fx.Node) -> bool:
    strides, _, last = _geometry(layer)
    if max(strides) > _MOST_STRIDE or _multiplies(layer):
        return True
    most = {"AVG_POOL2D": _MOST_WINDOW, "MAX_POOL2D": max(last)}.get(_kind(layer), _MOST_DILATION)
    return max(last) > most


def _multiplies(node: fx.Node) -> bool:
    """Whether it is a depthwise convolution with several channels for each of several of its input's."""
    if _kind(node) != "DEPTHWISE_CONV2D":
        return False
    *_, depth, times = node.all_input_nodes[1].meta["val"].shape
    return depth > 1 and times > 1


def _geometry(layer: fx.Node) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Strides, pads, and the dilations of a convolution or the window of a pool."""
    lists = [cast("Sequence[int]", arg) for arg in layer.args if isinstance(arg, Sequence)]
    if _kind(layer) in _POOLS:
        window, strides, pads = lists
        return strides, pads, window
    strides, pads, dilations = lists
    return strides, pads, dilations


def _kind(node: fx.Node) -> str:
    """The name of the TOSA operator; empty for what is none."""
    return base_name(node.target) if node.op == "call_function" else ""


def _tosa() -> Any:
    from executorch.exir.dialects._ops import ops

    return ops.backend.tosa
