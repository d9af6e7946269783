"""Puts what the CPU computes over images into channels-last memory, which is all that its operators take.

The graph's tensors keep their logical shapes; copies into the wanted order are inserted where it changes, and nowhere
between two operators that both work in channels-last memory.
"""

from collections.abc import Collection
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch._guards import detect_fake_mode
from torch.fx.node import map_arg

from deuteron.frontend.elementwise import is_elementwise

aten = torch.ops.aten

WINDOWED = frozenset(
    {
        aten.conv2d.default,
        aten.conv2d.padding,
        aten.conv_transpose2d.input,
        aten.max_pool2d.default,
        aten.avg_pool2d.default,
        aten.adaptive_avg_pool2d.default,
        aten.upsample_nearest2d.vec,
    }
)
"""Operators over height and width."""

_FOLLOWS = frozenset({aten.cat.default, aten.dropout.default, aten.maximum.default, aten.minimum.default})
"""Operators that keep the order of their inputs, beside the elementwise ones."""


def is_channels_last(value: object) -> bool:
    """True when the memory of a tensor of rank 4 is in channels-last order, also where it is in both orders."""
    return isinstance(value, Tensor) and value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last)


def put_channels_last(model: fx.GraphModule, on_cpu: Collection[str]) -> None:
    """Nothing; changes the graph of a float model so that the named nodes work in channels-last memory.

    Nodes that are not named keep the order in which they were exported.
    """
    nodes = [node for node in model.graph.nodes if node.op == "call_function"]
    if not any(node.name in on_cpu and node.target in WINDOWED for node in nodes):
        return
    mode: Any = detect_fake_mode([node.meta.get("val") for node in model.graph.nodes])
    orders = _Orders(model.graph)
    for node in nodes:
        images = [arg for arg in node.all_input_nodes if _is_image(arg)]
        if node.name in on_cpu and _is_image(node) and images and _wants(node, images):
            wanted = dict.fromkeys(images, True)
        else:
            wanted = {arg: orders.exported[arg] for arg in images}
        for arg, last in wanted.items():
            node.replace_input_with(arg, orders.copy(arg, last, node))
        with mode:
            args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
            node.meta["val"] = node.target(*args, **kwargs)
    output = model.graph.output_node()
    for arg in output.all_input_nodes:
        if _is_image(arg):
            output.replace_input_with(arg, orders.copy(arg, orders.exported[arg], output))
    model.graph.lint()
    model.recompile()


def _is_image(node: fx.Node) -> bool:
    """True for a float activation of rank 4; weights are constants, and brought into order elsewhere."""
    value: object = node.meta.get("val")
    return node.op != "get_attr" and isinstance(value, Tensor) and value.dim() == 4 and value.is_floating_point()


def _wants(node: fx.Node, images: list[fx.Node]) -> bool:
    if node.target in WINDOWED or is_broadcast(node):
        return True
    flows = node.target in _FOLLOWS or is_elementwise(node.target)
    return flows and any(is_channels_last(arg.meta["val"]) for arg in images)


def is_broadcast(node: fx.Node) -> bool:
    """True for arithmetic that stretches one of two images of the same number of channels."""
    if node.target not in (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor):
        return False
    shapes = [cast(Tensor, arg.meta["val"]).shape for arg in node.all_input_nodes if "val" in arg.meta]
    return len(shapes) == 2 and all(len(s) == 4 for s in shapes) and shapes[0] != shapes[1]


class _Orders:
    """Copies of nodes in the one order or the other, each made once."""

    def __init__(self, graph: fx.Graph) -> None:
        self.exported = {node: is_channels_last(node.meta["val"]) for node in graph.nodes if _is_image(node)}
        self._graph = graph
        self._copies: dict[tuple[fx.Node, bool], fx.Node] = {}

    def copy(self, node: fx.Node, last: bool, before: fx.Node) -> fx.Node:
        """The node, or a copy of its value, whose memory is in channels-last order or not."""
        value = cast(Tensor, node.meta["val"])
        if is_channels_last(value) if last else (value.is_contiguous() or not is_channels_last(value)):
            return node
        if (node, last) not in self._copies:
            order = torch.channels_last if last else torch.contiguous_format
            with self._graph.inserting_before(before):
                copy = self._graph.call_function(aten.clone.default, (node,), {"memory_format": order})
            copy.meta = {
                key: node.meta[key] for key in ("stack_trace", "nn_module_stack", "source_fn_stack") if key in node.meta
            }
            copy.meta["val"] = value.contiguous(memory_format=order)
            self._copies[node, last] = copy
        return self._copies[node, last]
