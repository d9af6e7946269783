"""Checks of every program with int8 operators on the CPU, whose mistakes would otherwise be wrong values on a device.

ExecuTorch's Cortex-M backend trusts that what it lowers was quantised as its own quantiser does it, in the order of
memory that its kernels take. What breaks that trust is an error that names the line of the model.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from deuteron.errors import InternalError, UnsupportedError, all_refused
from deuteron.frontend import saved
from deuteron.frontend.cortex_m import is_quantised
from deuteron.frontend.layout import is_channels_last
from deuteron.frontend.operators import MOVES, base_name, is_qdq, operator_name
from deuteron.frontend.provenance import source_of

_SHARED = MOVES | {"avg_pool2d", "max_pool2d", "maximum", "minimum"}
"""Operators without a scale of their own: results have that of the inputs."""

_WINDOWED = frozenset({"quantized_avg_pool2d", "quantized_max_pool2d"}) | {
    f"quantized_{kind}conv2d" for kind in ("", "depthwise_", "transpose_")
}
"""Operators that take images in channels-last memory only."""

TOLERANCE = 4
"""Steps of the output by which a program may differ from the quantised model: each of several operators may by one."""

_PORTABLE = "write it with other operators, or build for a target whose CPU runs portable operators: `imxrt700`"


def check_scales(program: ExportedProgram) -> None:
    """Checks, before quantise and dequantise operators are folded away, that no scale is lost with them.

    Raises:
        UnsupportedError: naming each operator that has no scale of its own, and whose input and result differ in it.
    """
    refused: list[UnsupportedError] = []
    for node in program.graph.nodes:
        if node.op == "call_function" and is_quantised(node) and _base(node) in _SHARED:
            scales = list(dict.fromkeys(_scales(node)))
            if len(scales) > 1:
                listed = " and ".join(f"scale {scale:g}, zero point {zero}" for scale, zero in scales)
                refused.append(_refusal(node, f"would mix values of {listed}", "give both sides the same range"))
    _raise(refused)


def check_operators(program: ExportedProgram) -> None:
    """Checks that every operator between the inputs' and outputs' quantisation is an int8 one, and gets images right.

    Raises:
        UnsupportedError: naming each operator that would compute in float, that would take int8 values for numbers, or
            whose kernel would refuse the order of its memory.
    """
    refused: list[UnsupportedError] = []
    for node in program.graph.nodes:
        if node.op != "call_function" or is_qdq(node) or "::" not in operator_name(node.target):
            continue
        values = [value for arg in (node, *node.all_input_nodes) for value in _tensors(arg)]
        name = operator_name(node.target)
        if any(value.is_floating_point() for value in values):
            refused.append(_refusal(node, "has no int8 form on the CPU, and the NPU does not take it", _PORTABLE))
        elif name.startswith("cortex_m::"):
            if _base(node) in _WINDOWED and not all(map(is_channels_last, _images(node))):
                refused.append(_refusal(node, "gets or gives an image that is not in channels-last memory", _PORTABLE))
        elif any(value.dtype == torch.int8 for value in values) and _base(node) not in MOVES:
            refused.append(_refusal(node, "would take int8 values for the numbers that they stand for", _PORTABLE))
    _raise(refused)


def check_values(program: ExportedProgram, module: fx.GraphModule, inputs: Sequence[Tensor]) -> None:
    """Checks that the lowered program computes what the quantised model does, both run by PyTorch.

    Raises:
        InternalError: when an output differs by more than `TOLERANCE` steps.
    """
    for index, steps in enumerate(differences(program, module, inputs)):
        if steps > TOLERANCE:
            raise InternalError(
                f"output {index} of the program differs from the quantised model by {steps} steps of its scale, "
                f"at most {TOLERANCE} are rounding",
                hint="report the model; until then keep what runs on the CPU on the NPU, or the other way round",
            )


def differences(program: ExportedProgram, module: fx.GraphModule, inputs: Sequence[Tensor]) -> list[int]:
    """By how many steps of its scale each output of a program is off the quantised model; 0 for those without one."""
    steps: list[int] = []
    graph = module.graph
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    results = _flat(graph.output_node().args[0])
    quantised = {
        index: affine
        for index, (node, spec) in enumerate(zip(placeholders, _user_inputs(program), strict=True))
        if spec.dtype == torch.int8 and (affine := saved.input_affine(node)) is not None
    }
    given = [quantised[i].stored(x).to(torch.int8) if i in quantised else x for i, x in enumerate(inputs)]
    with torch.no_grad():
        found = _flat(program.module(check_guards=False)(*given))
        wanted = _flat(module(*inputs))
    for node, ours, theirs in zip(results, found, wanted, strict=True):
        affine = saved.output_affine(node) if isinstance(node, fx.Node) else None
        if affine is None or not isinstance(ours, Tensor) or not isinstance(theirs, Tensor):
            steps.append(0)
            continue
        real = affine.real(ours) if ours.dtype == torch.int8 else ours
        steps.append(round(float((real - theirs).abs().max()) / affine.scale) if ours.numel() else 0)
    return steps


def _scales(node: fx.Node) -> Iterator[tuple[float, int]]:
    """Scale and zero point of every quantised value that a node reads or writes."""
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


def _base(node: fx.Node) -> str:
    """The operator's name without namespace, overload and layout."""
    return base_name(node.target).removesuffix("_nhwc")


def _tensors(node: fx.Node) -> list[Tensor]:
    value: object = node.meta.get("val")
    return [item for item in _flat(value) if isinstance(item, Tensor)]


def _images(node: fx.Node) -> list[object]:
    """The images that a node reads and writes: weights are constants in an order of their own."""
    first = cast(fx.Node, node.args[0])
    return [value for value in (*_tensors(first), *_tensors(node)) if value.dim() == 4]


def _user_inputs(program: ExportedProgram) -> list[Any]:
    nodes = {node.name: node for node in program.graph.nodes}
    return [nodes[str(name)].meta["val"] for name in program.graph_signature.user_inputs]


def _flat(value: object) -> list[object]:
    return list(cast("Iterable[object]", value)) if isinstance(value, list | tuple) else [value]


def _refusal(node: fx.Node, what: str, hint: str) -> UnsupportedError:
    source = source_of(node)
    at = f", at `{source.code}`" if source else ""
    where = str(source) if source else node.name
    return UnsupportedError(f"`{operator_name(node.target)}` {what}{at}", where=where, hint=hint)


def _raise(refused: Sequence[UnsupportedError]) -> None:
    if refused:
        raise all_refused(refused)
