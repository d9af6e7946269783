"""Compares what a lowered program computes with the quantised model: each operator of the CPU by itself.

Errors of one step grow on their way: a difference of two tensors can have a scale far below theirs. So each operator
gets the quantised model's own values, and what it makes of them is compared with what the model makes of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from deuteron.errors import InternalError
from deuteron.frontend import saved
from deuteron.frontend.cortex_m.added import catalogue
from deuteron.frontend.inputs import copies
from deuteron.frontend.operators import base_name, is_delegate, is_qdq, operator_name
from deuteron.frontend.source_lines import source_of

VALUE = "deuteron_value"
"""Key among a node's custom metadata: the quantised value of the model that it computes."""

ROUNDED = frozenset(
    {
        "quantized_add",
        "quantized_mul",
        "quantized_div",
        "quantized_linear",
        "quantized_batch_matmul",
        "quantized_conv2d",
        "quantized_depthwise_conv2d",
        "quantized_transpose_conv2d",
        "quantized_avg_pool2d",
        "softmax",
        *catalogue.ROUNDED,
    }
)
"""The operators whose results may be one step off: they round twice, or in fixed point (`spec/rounding.md`)."""

_FLIPPED = 0.01
"""The share of what a part on the NPU gives that may be further off than one step.

PyTorch runs its many operators in float32, in another order than the model's: where a sum lies half-way between two
steps in either, all that depends on it moves. What the NPU really gives is compared bit for bit elsewhere.
"""

_HINT = "report the model; until then keep what runs on the CPU on the NPU, or the other way round"


def mark(module: fx.GraphModule) -> None:
    """Note at the nodes of a quantised model which quantised value they compute, for `check`."""
    for node in module.graph.nodes:
        if _is_quantise(node):
            _note(node, node.name)
            before = node.args[0]
            while isinstance(before, fx.Node) and before.op == "call_function" and not is_qdq(before):
                _note(before, node.name)
                inputs = before.all_input_nodes
                before = inputs[0] if len(inputs) == 1 and len(inputs[0].users) == 1 else None


def copy_mark(source: fx.Node, target: fx.Node) -> None:
    """Note at the target that it computes what the source is noted to."""
    if name := _noted(source):
        _note(target, name)


def check(program: ExportedProgram, module: fx.GraphModule, inputs: Sequence[Tensor]) -> None:
    """Checks that each operator of the program computes what the quantised model does, run by PyTorch.

    Raises:
        InternalError: naming the first operator that is off by more than its rounding, or the output.
    """
    values = _Values(module)
    wanted = flat(values.run(*copies(inputs)))
    steps = _Steps(program.module(check_guards=False), values.found)
    outputs = flat(steps.run(*given(program, module, inputs)))
    for node, off, most in steps.off:
        if off > most:
            source = source_of(node)
            raise InternalError(
                f"{_told(node)} is {_counted(off)} of its scale off the quantised model, "
                f"{'at most 1 is' if most else 'and does no'} rounding{f', at `{source.code}`' if source else ''}",
                where=str(source) if source else node.name,
                hint=_HINT,
            )
    for index, off in enumerate(_output_steps(module, outputs, wanted)):
        if off:
            raise InternalError(
                f"output {index} of the program is {_counted(off)} of its scale off the quantised model, though each "
                "operator of the CPU is right",
                hint=_HINT,
            )


def differences(program: ExportedProgram, module: fx.GraphModule, inputs: Sequence[Tensor]) -> list[int]:
    """By how many steps of its scale each output of a program is off the quantised model; 0 for those without one."""
    with torch.no_grad():
        outputs = flat(program.module(check_guards=False)(*given(program, module, inputs)))
        return _output_steps(module, outputs, flat(module(*copies(inputs))))


class _Values(fx.Interpreter):
    """Runs a quantised model and keeps what its quantise operators give, by their names."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[str, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        with torch.no_grad():
            value = super().run_node(n)
        if _is_quantise(n):
            self.found[n.name] = value
        return value


class _Steps(fx.Interpreter):
    """Runs a lowered program, each operator on the quantised model's values.

    Attributes:
        off: the operators that compute such a value, by how many steps theirs differs, and how many are rounding.
    """

    def __init__(self, module: fx.GraphModule, values: Mapping[str, Tensor]) -> None:
        super().__init__(module)
        self.off: list[tuple[fx.Node, int, int]] = []
        self._values = values
        parts = [(name, node) for node in module.graph.nodes if (name := _noted(node)) is not None]
        # Of the nodes that one operator of the model became, the last has its result.
        self._last = dict(parts)
        self._rounded = {name for name, node in parts if base_name(node.target).removesuffix("_nhwc") in ROUNDED}

    def run_node(self, n: fx.Node) -> Any:
        with torch.no_grad():
            value = super().run_node(n)
        name = _noted(n)
        wanted = self._values.get(name) if name is not None and self._last[name] is n else None
        if wanted is None or not isinstance(value, Tensor):
            return value
        if (value.dtype, value.shape) != (wanted.dtype, wanted.shape):
            return value
        steps, on_npu = (value.int() - wanted.int()).abs().flatten(), _is_npus(n)
        spared = int(_FLIPPED * len(steps)) if on_npu else 0
        off = int(steps.topk(spared + 1).values[-1]) if len(steps) else 0
        self.off.append((n, off, int(on_npu or name in self._rounded)))
        return torch.empty_like(value).copy_(wanted)


def _is_npus(node: fx.Node) -> bool:
    """True for a result of a part on the NPU."""
    call = node.args[0] if base_name(node.target) == "getitem" else node
    return isinstance(call, fx.Node) and is_delegate(call)


def _counted(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"


def _told(node: fx.Node) -> str:
    return "what the NPU computes" if _is_npus(node) else f"`{operator_name(node.target)}`"


def _is_quantise(node: fx.Node) -> bool:
    return node.op == "call_function" and ".quantize_per_tensor" in str(node.target)


def _note(node: fx.Node, name: str) -> None:
    node.meta["custom"] = {**node.meta.get("custom", {}), VALUE: name}


def _noted(node: fx.Node) -> str | None:
    custom: Mapping[str, str] = node.meta.get("custom", {})
    return custom.get(VALUE)


def given(program: ExportedProgram, module: fx.GraphModule, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The inputs of a quantised model as its program takes them: quantised where it does."""
    nodes = {node.name: node for node in program.graph.nodes}
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    quantised: list[Tensor] = []
    for node, name, x in zip(placeholders, program.graph_signature.user_inputs, inputs, strict=True):
        dtype = nodes[str(name)].meta["val"].dtype
        affine = saved.input_affine(node) if dtype in (torch.int8, torch.int16) else None
        quantised.append(affine.stored(x).to(dtype) if affine else x)
    return quantised


def _output_steps(module: fx.GraphModule, outputs: Iterable[object], wanted: Iterable[object]) -> list[int]:
    steps: list[int] = []
    for node, ours, theirs in zip(flat(module.graph.output_node().args[0]), outputs, wanted, strict=True):
        affine = saved.output_affine(node) if isinstance(node, fx.Node) else None
        if affine is None or not isinstance(ours, Tensor) or not isinstance(theirs, Tensor):
            steps.append(0)
            continue
        real = ours if ours.is_floating_point() else affine.real(ours)
        steps.append(round(float((real - theirs).abs().max()) / affine.scale) if ours.numel() else 0)
    return steps


def flat(value: object) -> list[object]:
    """The items of a list or tuple, any other value as a list of one."""
    return list(cast("Iterable[object]", value)) if isinstance(value, list | tuple) else [value]
