"""Converts the images that the CPU computes with to channels-last memory.

Tensors keep their logical shapes. Copies are inserted only where the memory format changes, so there is none between
two operators in channels-last memory.
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
from deuteron.frontend.nodes import COPY
from deuteron.frontend.operators import base_name
from deuteron.frontend.quantize import float_joins
from deuteron.frontend.quantize.decompositions import call, replace
from deuteron.frontend.quantize.indexing import upsampled
from deuteron.frontend.quantize.source_propagation import ORIGIN

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

_FOLLOWS = frozenset({aten.dropout.default, aten.group_norm.default, aten.maximum.default, aten.minimum.default})
"""Operators that keep the memory format of their inputs, as elementwise ones do. ExecuTorch's `cat` does not: it joins
images in channels-last memory as if they were contiguous."""


_ANY_ORDER = frozenset({aten.permute.default, aten.transpose.int})
"""Operators with kernels for any memory format and contiguous results."""

_IN_ORDER = _ANY_ORDER | {aten.upsample_bilinear2d.vec}
"""Operators with contiguous results: PyTorch may enlarge an image of one pixel, which has both formats, to
channels-last memory."""


_SELECTIONS = frozenset(
    {
        aten.flip.default,
        aten.index.Tensor,
        aten.index_select.default,
        aten.repeat.default,
        aten.select.int,
        aten.slice.Tensor,
    }
)
"""Operators that select or repeat elements; their results are contiguous."""


def is_channels_last(value: object) -> bool:
    """True for a tensor of rank 4 in channels-last memory, including tensors that are also contiguous."""
    return isinstance(value, Tensor) and value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last)


def give_strides(model: fx.GraphModule) -> None:
    """Set the stride of pools without one to their window, because ExecuTorch's NXP backend reads it."""
    for node in model.graph.nodes:
        if node.target in (aten.avg_pool2d.default, aten.max_pool2d.default) and not any(node.args[2:3]):
            node.args = (*node.args[:2], node.args[1], *node.args[3:])
    model.recompile()


def make_explicit(model: fx.GraphModule) -> None:
    """Convert adaptive pools with equal windows to pools, and set the stride of all pools."""
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
    """Change the graph of a float model so that the named nodes compute in channels-last memory.

    Other nodes keep the memory format of the exported model.
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
        images = [arg for arg in node.all_input_nodes if _is_image(arg) or _is_combined_with_images(arg, node)]
        if node.name not in on_cpu or node.target in _ANY_ORDER:
            # A result that is no image is the same in either format, and it may still move to the CPU, as views do.
            wanted = {arg: orders.exported[arg] and (_is_image(node) or not _is_in_order(arg)) for arg in images}
        else:
            # ExecuTorch's kernels view memory without regard to its format, and accept no mixed formats.
            wanted = dict.fromkeys(images, _is_image(node) and _wants(node, images))
        for arg, last in wanted.items():
            node.replace_input_with(arg, orders.copy(arg, last, node))
        if node.name in on_cpu and _needs_order(node):
            with mode:
                for arg, last in wanted.items():
                    if not last and _is_image(arg) and _has_both_orders(arg):
                        node.replace_input_with(arg, _in_order_of_shape(arg, node))
        with mode:
            _compute(node)
            if node.name in on_cpu and node.target in WINDOWED and not is_channels_last(node.meta["val"]):
                # An image of one channel has both formats; results follow its strides.
                for arg in images:
                    node.replace_input_with(arg, orders.copy(arg, True, node, mark=True))
                _compute(node)
    output = model.graph.output_node()
    for arg in output.all_input_nodes:
        if _is_image(arg):
            output.replace_input_with(arg, orders.copy(arg, orders.exported[arg], output))
    model.graph.lint()
    model.recompile()


def remove_layout_copies(program: ExportedProgram) -> None:
    """Remove copies into channels-last memory of values that are already in that format.

    They only served PyTorch's shape computation. ExecuTorch would give an image of one channel a dim order that its
    copy operator refuses. Constants are converted here instead of in each inference.
    """
    from executorch.backends.transforms.utils import create_constant_placeholder
    from torch.export.graph_signature import InputKind

    first = next(iter(program.graph.nodes))
    for node in list(program.graph.nodes):
        if "_clone_dim_order" not in str(node.target) or node.kwargs.get("dim_order") != [0, 2, 3, 1]:
            continue
        value, source = cast(Tensor, node.meta["val"]), cast(fx.Node, node.args[0])
        if source.op == "placeholder" and source.name not in program.graph_signature.user_inputs:
            converted = constant_of(program, source).detach().contiguous(memory_format=torch.channels_last)
            with program.graph.inserting_before(first):
                name = f"{node.name}_laid"
                source = create_constant_placeholder(program, program.graph, name, InputKind.PARAMETER, converted)
        elif not all(is_channels_last(x) and x.is_contiguous() for x in (value, source.meta["val"])):
            continue
        node.replace_all_uses_with(source)
        program.graph.erase_node(node)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def constant_of(program: ExportedProgram, node: fx.Node) -> Tensor:
    """The value of a parameter, buffer or constant of a program, or of its cast."""
    if node.op == "call_function" and base_name(node.target) == "_to_dim_order_copy":
        return constant_of(program, node.all_input_nodes[0]).to(node.meta["val"].dtype)
    signature = program.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    names |= signature.inputs_to_lifted_tensor_constants
    name = names[node.name]
    return cast(Tensor, program.state_dict[name] if name in program.state_dict else program.constants[name])


def _is_repeated(upsample: fx.Node) -> bool:
    """True if every element is repeated the same number of times.

    PyTorch selects source rows by the given factor, not by the sizes: 2 rows times 3.3 do not become 3 each.
    """
    (*_, h, w), (*_, high, wide) = upsample.all_input_nodes[0].meta["val"].shape, upsample.meta["val"].shape
    return not high % h and not wide % w and upsample.args[2] in (None, [high // h, wide // w])


def _repeat(upsample: fx.Node) -> None:
    """Repeat elements by concatenating copies of a tensor whose rows are the elements to repeat."""
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
    node.meta["val"] = value.contiguous() if node.target in _IN_ORDER else value


def _is_image(node: fx.Node) -> bool:
    """True for a float activation of rank 4; other code lays out weights, which are constants."""
    value: object = node.meta.get("val")
    return node.op != "get_attr" and isinstance(value, Tensor) and value.dim() == 4 and value.is_floating_point()


def _needs_order(node: fx.Node) -> bool:
    """True for an operator that does not take images with both formats in ExecuTorch's dim order for these.

    Splits have contiguous results as well. Views of values that are joined in float are operators.
    """
    has_order = _is_image(node) and not _has_both_orders(node)
    gives_several = isinstance(node.meta.get("val"), list | tuple)
    return has_order or gives_several or node.target in _SELECTIONS or float_joins.is_left(node)


def _is_combined_with_images(constant: fx.Node, node: fx.Node) -> bool:
    """True for a constant of rank 4 that arithmetic reads; other code lays out weights."""
    value: object = constant.meta.get("val")
    return constant.op == "get_attr" and is_elementwise(node) and isinstance(value, Tensor) and value.dim() == 4


def _is_in_order(image: fx.Node) -> bool:
    """True for contiguous memory."""
    return image.meta["val"].is_contiguous()


def _has_order(node: fx.Node) -> bool:
    """True for operators that require a memory format, and for those with an image that is not contiguous."""
    others = (arg for arg in node.all_input_nodes if _is_image(arg) and not arg.meta["val"].is_contiguous())
    return node.target in WINDOWED or any(others)


def _wants(node: fx.Node, images: list[fx.Node]) -> bool:
    if node.target in WINDOWED or is_broadcast(node):
        return True
    flows = node.target in _FOLLOWS or is_elementwise(node)
    return flows and any(is_channels_last(arg.meta["val"]) for arg in images)


def _has_both_orders(image: fx.Node) -> bool:
    """True for an image of one channel or of one pixel.

    ExecuTorch gives it another dim order, which kernels for contiguous images do not accept.
    """
    return is_channels_last(image.meta["val"]) and _is_in_order(image)


def _in_order_of_shape(image: fx.Node, before: fx.Node) -> fx.Node:
    """Mark an image with both memory formats as contiguous by a pair of reshapes; its elements do not move."""
    n, *others = shape = [*image.meta["val"].shape]
    rows = call(before, aten.reshape.default, image, [n, math.prod(others)])
    return call(before, aten.reshape.default, rows, shape)


def is_broadcast(node: fx.Node) -> bool:
    """True for arithmetic that broadcasts one of two images with the same number of channels."""
    if node.target not in (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor):
        return False
    shapes = [cast(Tensor, arg.meta["val"]).shape for arg in node.all_input_nodes if "val" in arg.meta]
    return is_channels_broadcast(shapes)


def is_channels_broadcast(shapes: Sequence[Sequence[int]]) -> bool:
    """True for the shapes of two images if one of them has one number per channel of the other."""
    if len(shapes) != 2 or not all(len(shape) == 4 for shape in shapes) or [*shapes[0]] == [*shapes[1]]:
        return False
    channels = [shape[1] for shape in shapes]
    return channels[0] == channels[1] and any(math.prod(shape) == shape[1] for shape in shapes)


class _Orders:
    """Copies of nodes in either memory format, each made once."""

    def __init__(self, graph: fx.Graph) -> None:
        self.exported = {
            node: node.target not in _ANY_ORDER and is_channels_last(node.meta["val"])
            for node in graph.nodes
            if node.op == "get_attr" or _is_image(node)
        }
        self._graph = graph
        self._copies: dict[tuple[fx.Node, bool], fx.Node] = {}

    def copy(self, node: fx.Node, last: bool, before: fx.Node, *, mark: bool = False) -> fx.Node:
        """Return the node or a copy in the requested format; `mark` forces a copy, which sets the strides."""
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
