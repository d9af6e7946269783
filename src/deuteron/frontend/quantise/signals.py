"""Writes operators over one dimension of space as those over images of one row, which quantisers and kernels have.

A signal [samples, channels, length] is the image [samples, channels, 1, length]. What lies between two such operators
works on images too, so that nothing is viewed as a signal and back.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.cortex_m.elementwise import is_elementwise
from deuteron.frontend.operators import changes_operand
from deuteron.frontend.quantise.forms import call, constant, numbers, value_of

aten = torch.ops.aten

_RANK = 3
_VIEWS = frozenset({aten.reshape.default, aten.view.default})
_FOLLOWS = frozenset({aten.dropout.default, aten.maximum.default, aten.minimum.default})
"""Operators that compute each element from those at its place, beside the elementwise ones."""


def write(model: fx.GraphModule) -> None:
    """Write convolutions, pools and changes of length of signals, and what joins them, as operators over images."""
    images = _Images(model)
    for node in list(model.graph.nodes):
        if node.op == "call_function":
            images.take(node)
    model.graph.eliminate_dead_code()
    model.recompile()


class _Images:
    """The images that signals of a model are, as far as they are known."""

    def __init__(self, model: fx.GraphModule) -> None:
        self._model = model
        self._known: dict[fx.Node, fx.Node] = {}

    def take(self, node: fx.Node) -> None:
        """Write a node as one over images where it is one over signals."""
        value: object = node.meta.get("val")
        if not isinstance(value, Tensor):
            return
        if node.target in _VIEWS:
            self._look_through(node, value)
        elif value.dim() == _RANK and (image := self._image_of(node)) is not None:
            signal = call(node, aten.reshape.default, image, [*value.shape])
            node.replace_all_uses_with(signal)
            self._model.graph.erase_node(node)
            self._known[signal] = image

    def _look_through(self, view: fx.Node, value: Tensor) -> None:
        """Note which image a view makes a signal of, or leave out one that makes a signal the image that it is."""
        before = cast(fx.Node, view.args[0])
        if value.dim() == _RANK and _is_row(before, value):
            self._known[view] = before
        elif (image := self._known.get(before)) is not None and image.meta["val"].shape == value.shape:
            view.replace_all_uses_with(image)

    def _image_of(self, node: fx.Node) -> fx.Node | None:
        """The image that an operator's result is; None for operators that stay as they are."""
        if (form := _FORMS.get(node.target)) is not None:
            x = cast(fx.Node, node.args[0])
            known = self._known.get(x)
            if known is None:
                samples, channels, length = x.meta["val"].shape
                known = call(node, aten.reshape.default, x, [samples, channels, 1, length])
            return form(self._model, node, known)
        activations = [arg for arg in node.all_input_nodes if not _is_number(arg)]
        if not activations or any(arg not in self._known for arg in activations):
            return None
        if node.target is aten.cat.default:
            signals, dim = cast("tuple[list[fx.Node], int]", (*node.args, 0)[:2])
            if any(x not in self._known for x in signals):
                return None
            return call(node, aten.cat.default, [self._known[x] for x in signals], _beyond(dim))
        if node.target is aten.pad.default and len(pads := cast("list[int]", node.args[1])) == 2:
            return call(node, aten.pad.default, self._known[activations[0]], [*pads, 0, 0], *node.args[2:])
        if node.target in _FOLLOWS or is_elementwise(node):
            if changes_operand(node) and len(activations[0].users) > 1:  # others read what it changes
                return None
            args = [self._known.get(arg, arg) if isinstance(arg, fx.Node) else arg for arg in node.args]
            return call(node, _new(node.target), *args, **node.kwargs)
        return None


def _is_row(image: fx.Node, signal: Tensor) -> bool:
    value: object = image.meta.get("val")
    samples, channels, length = signal.shape
    return isinstance(value, Tensor) and value.shape == (samples, channels, 1, length)


def _is_number(node: fx.Node) -> bool:
    return node.op == "get_attr" and node.meta["val"].numel() == 1


def _schema(target: object) -> Any:
    return cast(Any, target)._schema  # noqa: SLF001 - the one way to it


def _new(target: object) -> object:
    """The operator that gives a new tensor where this one changes its input: what it reads may be a view."""
    schema = _schema(target)
    if not schema.is_mutable:
        return target
    packet = getattr(aten, schema.name.removeprefix("aten::").removesuffix("_"))
    return getattr(packet, schema.overload_name or "default")


def _beyond(dim: int) -> int:
    """The dimension of an image that one of its signal is."""
    return dim + 1 if dim >= 2 else dim if dim >= 0 or dim == -1 else dim - 1


def _row(values: object, before: int) -> object:
    """Numbers for height and width of those for a length; what is no number, as the word `same`, stays."""
    return values if isinstance(values, str) else [before, *numbers(values, 1)]


def _convolution(model: fx.GraphModule, node: fx.Node, x: fx.Node) -> fx.Node | None:
    _, weight, bias, stride, padding, dilation, groups = (*node.args, *(None, 1, 0, 1, 1)[len(node.args) - 2 :])
    if (weights := _weights(model, cast(fx.Node, weight))) is None:
        return None
    operator = aten.conv2d.padding if isinstance(padding, str) else aten.conv2d.default
    return call(node, operator, x, weights, bias, _row(stride, 1), _row(padding, 0), _row(dilation, 1), groups)


def _transposed(model: fx.GraphModule, node: fx.Node, x: fx.Node) -> fx.Node | None:
    defaults = (None, 1, 0, 0, 1, 1)[len(node.args) - 2 :]
    _, weight, bias, stride, padding, more, groups, dilation = (*node.args, *defaults)
    if (weights := _weights(model, cast(fx.Node, weight))) is None:
        return None
    rows = _row(stride, 1), _row(padding, 0), _row(more, 0)
    return call(node, aten.conv_transpose2d.input, x, weights, bias, *rows, groups, _row(dilation, 1))


def _weights(model: fx.GraphModule, weight: fx.Node) -> fx.Node | None:
    """The weights for images; None for those that are computed."""
    if weight.op != "get_attr":
        return None
    value = value_of(model, weight)
    return constant(model, weight, f"{weight.target}_row", value.unsqueeze(2), like=value)


def _max_pool(_: fx.GraphModule, node: fx.Node, x: fx.Node) -> fx.Node:
    window, stride, padding, dilation, up = cast("Any", (*node.args[1:], *((), 0, 1, False)[len(node.args) - 2 :]))
    rows = _row(window, 1), _row(stride or window, 1), _row(padding, 0), _row(dilation, 1)
    return call(node, aten.max_pool2d.default, x, *rows, up)


def _average_pool(_: fx.GraphModule, node: fx.Node, x: fx.Node) -> fx.Node:
    window, stride, padding, *rest = cast("Any", (*node.args[1:], *((), 0)[len(node.args) - 2 :]))
    return call(node, aten.avg_pool2d.default, x, _row(window, 1), _row(stride or window, 1), _row(padding, 0), *rest)


def _adaptive_pool(_: fx.GraphModule, node: fx.Node, x: fx.Node) -> fx.Node:
    return call(node, aten.adaptive_avg_pool2d.default, x, _row(node.args[1], 1))


def _larger(operator: object) -> "_Form":
    """A change of the length: the sizes, or the factors, of one row more; the one row stays."""

    def form(_: fx.GraphModule, node: fx.Node, x: fx.Node) -> fx.Node:
        _, size, *corners, factors = cast("Any", node.args)
        return call(
            node,
            operator,
            x,
            None if size is None else [1, *size],
            *corners,
            None if factors is None else [1.0, *factors],
        )

    return form


_Form = Callable[[fx.GraphModule, fx.Node, fx.Node], fx.Node | None]

_FORMS: Mapping[object, _Form] = {
    aten.conv1d.default: _convolution,
    aten.conv1d.padding: _convolution,
    aten.conv_transpose1d.default: _transposed,
    aten.max_pool1d.default: _max_pool,
    aten.avg_pool1d.default: _average_pool,
    aten.adaptive_avg_pool1d.default: _adaptive_pool,
    aten.upsample_nearest1d.vec: _larger(aten.upsample_nearest2d.vec),
    aten.upsample_linear1d.vec: _larger(aten.upsample_bilinear2d.vec),
}
