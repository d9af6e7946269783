"""Puts what the CPU computes over images into the form and the memory that its operators take: channels last.

The graph's tensors keep their logical shapes; copies into the wanted order are inserted where it changes, and nowhere
between two operators that both work in channels-last memory.
"""

import math
from collections.abc import Collection, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.fx.node import map_arg

from deuteron.frontend.cortex_m.elementwise import is_elementwise
from deuteron.frontend.quantise.decompositions import call, replace
from deuteron.frontend.quantise.indexing import upsampled
from deuteron.frontend.quantise.source_propagation import ORIGIN

aten = torch.ops.aten

WINDOWED = frozenset(
    {
        aten.conv2d.default,
        aten.conv_transpose2d.input,
        aten.max_pool2d.default,
        aten.avg_pool2d.default,
    }
)
"""Operators over height and width."""

COPY = "deuteron_copy"
"""Key among a node's custom metadata: it is a copy that was inserted here."""

_FOLLOWS = frozenset({aten.dropout.default, aten.group_norm.default, aten.maximum.default, aten.minimum.default})
"""Operators that keep the order of their inputs, beside the elementwise ones. ExecuTorch's `cat` is none of them: it
joins images in channels-last memory as if they lay in the order of their shape."""


_ANY_ORDER = frozenset({aten.permute.default, aten.transpose.int})
"""Operators whose kernels take any order of memory; what they give has that of its shape."""


def is_channels_last(value: object) -> bool:
    """True when the memory of a tensor of rank 4 is in channels-last order, also where it is in both orders."""
    return isinstance(value, Tensor) and value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last)


def give_strides(model: fx.GraphModule) -> None:
    """Write the stride of pools that move by their window, which ExecuTorch's NXP backend expects to find."""
    for node in model.graph.nodes:
        if node.target in (aten.avg_pool2d.default, aten.max_pool2d.default) and not any(node.args[2:3]):
            node.args = (*node.args[:2], node.args[1], *node.args[3:])
    model.recompile()


def make_explicit(model: fx.GraphModule) -> None:
    """Write adaptive pools whose windows are all alike as pools, and every pool's stride."""
    give_strides(model)
    for node in list(model.graph.nodes):
        if node.op != "call_function" or not _is_image(node):
            continue
        if node.target is aten.adaptive_avg_pool2d.default:
            x = cast(fx.Node, node.args[0])
            sizes = list(zip(x.meta["val"].shape[2:], node.meta["val"].shape[2:], strict=True))
            if all(size % out == 0 for size, out in sizes):
                window = [size // out for size, out in sizes]
                node.target, node.args = aten.avg_pool2d.default, (x, window, window)
    model.recompile()


def put_channels_last(model: fx.GraphModule, on_cpu: Collection[str]) -> None:
    """Change the graph of a float model so that the named nodes work in channels-last memory.

    Nodes that are not named keep the order in which they were exported.
    """
    mode: Any = detect_fake_mode([node.meta.get("val") for node in model.graph.nodes])
    for node in list(model.graph.nodes):
        if node.name in on_cpu and node.target is aten.upsample_nearest2d.vec:
            if _is_repeated(node):
                with mode:
                    _repeat(node)
            else:
                replace(model, node, upsampled)
    model.recompile()
    nodes = [node for node in model.graph.nodes if node.op == "call_function"]
    if not any(node.name in on_cpu and _has_order(node) for node in nodes):
        return
    orders = _Orders(model.graph)
    for node in nodes:
        images = [arg for arg in node.all_input_nodes if _is_image(arg) or _is_beside_images(arg, node)]
        if node.name not in on_cpu or node.target in _ANY_ORDER:
            # What gives no image is the same for either order, and may be left to the CPU in the end, as views are.
            wanted = {arg: orders.exported[arg] and (_is_image(node) or not _is_in_order(arg)) for arg in images}
        else:
            # ExecuTorch's kernels take views of the memory as it lies, and mix no orders.
            wanted = dict.fromkeys(images, _is_image(node) and _wants(node, images))
        for arg, last in wanted.items():
            node.replace_input_with(arg, orders.copy(arg, last, node))
        if node.name in on_cpu and _joins_one_channel(node):
            with mode:
                for arg in images:
                    if arg.meta["val"].shape[1] == 1:
                        node.replace_input_with(arg, _in_order_of_shape(arg, node))
        with mode:
            _compute(node)
            if node.name in on_cpu and node.target in WINDOWED and not is_channels_last(node.meta["val"]):
                # An image of one channel is in both orders; what is computed from it follows how it is marked.
                for arg in images:
                    node.replace_input_with(arg, orders.copy(arg, True, node, mark=True))
                _compute(node)
    output = model.graph.output_node()
    for arg in output.all_input_nodes:
        if _is_image(arg):
            output.replace_input_with(arg, orders.copy(arg, orders.exported[arg], output))
    model.graph.lint()
    model.recompile()


def drop_marks(program: ExportedProgram) -> None:
    """Take from an edge program the copies into channels-last memory of what lies so already.

    They were there for the shapes that PyTorch computes. ExecuTorch would give one channel an order of its own, which
    its copy then refuses. Constants are laid so here, and not in each inference.
    """
    from executorch.backends.transforms.utils import create_constant_placeholder
    from torch.export.graph_signature import InputKind

    first = next(iter(program.graph.nodes))
    for node in list(program.graph.nodes):
        if "_clone_dim_order" not in str(node.target) or node.kwargs.get("dim_order") != [0, 2, 3, 1]:
            continue
        value, source = cast(Tensor, node.meta["val"]), cast(fx.Node, node.args[0])
        if source.op == "placeholder" and source.name not in program.graph_signature.user_inputs:
            laid = constant_of(program, source).detach().contiguous(memory_format=torch.channels_last)
            with program.graph.inserting_before(first):
                name = f"{node.name}_laid"
                source = create_constant_placeholder(program, program.graph, name, InputKind.PARAMETER, laid)
        elif not all(is_channels_last(x) and x.is_contiguous() for x in (value, source.meta["val"])):
            continue
        node.replace_all_uses_with(source)
        program.graph.erase_node(node)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def constant_of(program: ExportedProgram, node: fx.Node) -> Tensor:
    """The value of a parameter, buffer or constant of a program."""
    signature = program.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    names |= signature.inputs_to_lifted_tensor_constants
    name = names[node.name]
    return cast(Tensor, program.state_dict[name] if name in program.state_dict else program.constants[name])


def _is_repeated(upsample: fx.Node) -> bool:
    """True where each element is repeated as often as any other.

    PyTorch finds a row's source by the factor that it is given, not by the sizes: 2 rows times 3.3 are no 3 each.
    """
    (*_, h, w), (*_, high, wide) = upsample.all_input_nodes[0].meta["val"].shape, upsample.meta["val"].shape
    return not high % h and not wide % w and upsample.args[2] in (None, [high // h, wide // w])


def _repeat(upsample: fx.Node) -> None:
    """Repeat elements by joining copies of a tensor whose rows are what is to be repeated."""
    x = cast(fx.Node, upsample.args[0])
    (n, c, h, w), (*_, high, wide) = x.meta["val"].shape, upsample.meta["val"].shape
    steps: list[tuple[object, tuple[object, ...]]] = [(aten.reshape.default, ([n * c * h * w, 1],))]
    steps += [(aten.cat.default, (wide // w,)), (aten.reshape.default, ([n * c * h, wide],))]
    steps += [(aten.cat.default, (high // h,)), (aten.reshape.default, ([n, c, high, wide],))]
    value = x
    with upsample.graph.inserting_before(upsample):
        for target, (argument,) in steps:
            args = ([value] * argument, 1) if isinstance(argument, int) else (value, argument)
            value = upsample.graph.call_function(cast(Any, target), cast(Any, args))
            value.meta = dict(upsample.meta)
            _compute(value)
    upsample.replace_all_uses_with(value)
    upsample.graph.erase_node(upsample)


def _compute(node: fx.Node) -> None:
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    value = cast(Any, node.target)(*args, **kwargs)
    node.meta["val"] = value.contiguous() if node.target in _ANY_ORDER else value


def _is_image(node: fx.Node) -> bool:
    """True for a float activation of rank 4; weights are constants, and brought into order elsewhere."""
    value: object = node.meta.get("val")
    return node.op != "get_attr" and isinstance(value, Tensor) and value.dim() == 4 and value.is_floating_point()


def _is_beside_images(constant: fx.Node, node: fx.Node) -> bool:
    """True for a constant of an image's size that arithmetic reads; weights are brought into order elsewhere."""
    value: object = constant.meta.get("val")
    return constant.op == "get_attr" and is_elementwise(node) and isinstance(value, Tensor) and value.dim() == 4


def _is_in_order(image: fx.Node) -> bool:
    """True when the memory lies in the order of the shape."""
    return image.meta["val"].is_contiguous()


def _has_order(node: fx.Node) -> bool:
    """True for what wants an order of memory, and what gets another than that of the shape."""
    others = (arg for arg in node.all_input_nodes if _is_image(arg) and not arg.meta["val"].is_contiguous())
    return node.target in WINDOWED or any(others)


def _wants(node: fx.Node, images: list[fx.Node]) -> bool:
    if node.target in WINDOWED or is_broadcast(node):
        return True
    flows = node.target in _FOLLOWS or is_elementwise(node)
    return flows and any(is_channels_last(arg.meta["val"]) for arg in images)


def _joins_one_channel(node: fx.Node) -> bool:
    """True for a concatenation that has images of one channel among others.

    ExecuTorch gives one channel an order of its own, which a concatenation takes for another than channels-last memory.
    """
    channels = {arg.meta["val"].shape[1] for arg in node.all_input_nodes if _is_image(arg)}
    return node.target is aten.cat.default and 1 in channels and len(channels) > 1


def _in_order_of_shape(image: fx.Node, before: fx.Node) -> fx.Node:
    """An image of one channel, whose elements lie in the order of the shape anyhow, as it is marked where a view is."""
    n, _, *sizes = shape = [*image.meta["val"].shape]
    planes = call(before, aten.reshape.default, image, [n, *sizes])
    return call(before, aten.reshape.default, planes, shape)


def is_broadcast(node: fx.Node) -> bool:
    """True for arithmetic that stretches one of two images of the same number of channels."""
    if node.target not in (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor):
        return False
    shapes = [cast(Tensor, arg.meta["val"]).shape for arg in node.all_input_nodes if "val" in arg.meta]
    return is_channels_broadcast(shapes)


def is_channels_broadcast(shapes: Sequence[Sequence[int]]) -> bool:
    """True for the shapes of two images of which one has a number for each channel of the other."""
    if len(shapes) != 2 or not all(len(shape) == 4 for shape in shapes) or [*shapes[0]] == [*shapes[1]]:
        return False
    channels = [shape[1] for shape in shapes]
    return channels[0] == channels[1] and any(math.prod(shape) == shape[1] for shape in shapes)


class _Orders:
    """Copies of nodes in the one order or the other, each made once."""

    def __init__(self, graph: fx.Graph) -> None:
        self.exported = {
            node: node.target not in _ANY_ORDER and is_channels_last(node.meta["val"])
            for node in graph.nodes
            if node.op == "get_attr" or _is_image(node)
        }
        self._graph = graph
        self._copies: dict[tuple[fx.Node, bool], fx.Node] = {}

    def copy(self, node: fx.Node, last: bool, before: fx.Node, *, mark: bool = False) -> fx.Node:
        """The node, or a copy of its value, whose memory is in channels-last order or not; always one to `mark` it."""
        value = cast(Tensor, node.meta["val"])
        fits = is_channels_last(value) if last else (value.is_contiguous() or not is_channels_last(value))
        if fits and not mark:
            return node
        if (node, last) not in self._copies:
            order = torch.channels_last if last else torch.contiguous_format
            with self._graph.inserting_before(before):
                copy = self._graph.call_function(aten.clone.default, (node,), {"memory_format": order})
            copy.meta = {key: node.meta[key] for key in ORIGIN if key in node.meta}
            copy.meta |= {"val": value.clone(memory_format=order), "custom": {COPY: True}}
            self._copies[node, last] = copy
        return self._copies[node, last]
