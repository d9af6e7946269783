"""Compares a lowered program with the quantized model, operator by operator.

Errors of one step can grow: the difference of two tensors may have a much smaller scale than the tensors. So each
operator gets the quantized model's own values, and its result is compared with the model's.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from deuteron.errors import InternalError, UnsupportedError
from deuteron.frontend import saved
from deuteron.frontend.cortex_m.custom_ops import catalogue
from deuteron.frontend.inputs import copies
from deuteron.frontend.operators import base_name, is_delegate, is_qdq, operator_name
from deuteron.frontend.source_lines import source_of

VALUE = "deuteron_value"
"""Key of a node's custom metadata: the name of the model's quantized value that it computes."""

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
"""Operators that may be one step off: they round twice, or in fixed point (`spec/rounding.md`)."""

_FLIPPED = 0.01
"""The share of a partition's result that may be off by more than one step.

PyTorch runs the partition's operators in float32, in another order than the model's. A sum half-way between two steps
may round differently, and so may everything that depends on it. Other checks compare the NPU's results bit for bit.
"""

_HINT = "report the model; until then move operators from the CPU to the NPU, or the other way round"


def mark(module: fx.GraphModule) -> None:
    """Record at the nodes of a quantized model which quantized value they compute, for `check`."""
    for node in module.graph.nodes:
        if _is_quantize(node):
            _note(node, node.name)
            before = node.args[0]
            while isinstance(before, fx.Node) and before.op == "call_function" and not is_qdq(before):
                _note(before, node.name)
                inputs = before.all_input_nodes
                before = inputs[0] if len(inputs) == 1 and len(inputs[0].users) == 1 else None


def copy_mark(source: fx.Node, target: fx.Node) -> None:
    """Copy the record of a node's quantized value to another node."""
    if name := _noted(source):
        _note(target, name)


def check(program: ExportedProgram, module: fx.GraphModule, inputs: Sequence[Tensor]) -> None:
    """Check that each operator of the program computes the same as the quantized model, which PyTorch runs.

    Raises:
        UnsupportedError: a divisor of the quantized model is 0, which the program and PyTorch divide by unlike.
        InternalError: naming the first operator or output that is off by more than its rounding.
    """
    values = _QuantizedRun(module)
    wanted = flat(values.run(*copies(inputs)))
    steps = _ComparedRun(program.module(check_guards=False), values.found)
    outputs = flat(steps.run(*program_inputs(program, module, inputs)))
    if steps.by_zero:
        _refuse_zero(steps.by_zero[0])
    for node, off, most in steps.off:
        if off > most:
            source = source_of(node)
            raise InternalError(
                f"{_described(node)} is {_counted(off)} of its scale off the quantized model, "
                f"{'at most 1 is' if most else 'and does no'} rounding{f', at `{source.code}`' if source else ''}",
                where=str(source) if source else node.name,
                hint=_HINT,
            )
    for index, off in enumerate(_output_steps(module, outputs, wanted)):
        if off:
            raise InternalError(
                f"output {index} of the program is {_counted(off)} of its scale off the quantized model, though each "
                "operator of the CPU is right",
                hint=_HINT,
            )


def _refuse_zero(division: fx.Node) -> None:
    source = source_of(division)
    raise UnsupportedError(
        f"a divisor rounds to 0 in int8{f', at `{source.code}`' if source else ''}",
        where=str(source) if source else division.name,
        hint="keep the divisor away from 0: add at least 1/100 of its largest value, or scale its operands",
    )


def differences(program: ExportedProgram, module: fx.GraphModule, inputs: Sequence[Tensor]) -> list[int]:
    """Return by how many steps of its scale each output differs from the quantized model; 0 for outputs without one."""
    with torch.no_grad():
        outputs = flat(program.module(check_guards=False)(*program_inputs(program, module, inputs)))
        return _output_steps(module, outputs, flat(module(*copies(inputs))))


class _QuantizedRun(fx.Interpreter):
    """Runs a quantized model and stores the results of its quantize operators by name."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[str, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        with torch.no_grad():
            value = super().run_node(n)
        if _is_quantize(n):
            self.found[n.name] = value
        return value


class _ComparedRun(fx.Interpreter):
    """Runs a lowered program, each operator on the quantized model's values.

    Attributes:
        off: each operator with a known result, its difference in steps, and the difference that rounding allows.
        by_zero: divisions whose result differs where the divisor is 0.
    """

    def __init__(self, module: fx.GraphModule, values: Mapping[str, Tensor]) -> None:
        super().__init__(module)
        self.off: list[tuple[fx.Node, int, int]] = []
        self.by_zero: list[fx.Node] = []
        self._values = values
        parts = [(name, node) for node in module.graph.nodes if (name := _noted(node)) is not None]
        # An operator of the model may become several nodes; the last one has its result.
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
        steps, on_npu = (value.int() - wanted.int()).abs().flatten(), _is_of_npu(n)
        if base_name(n.target) == "quantized_div":
            divisor, zero_point = self.fetch_args_kwargs_from_env(n)[0][2:4]
            is_zero = (divisor == zero_point).flatten()
            if (steps[is_zero] > 1).any():
                self.by_zero.append(n)
        if base_name(n.target) == "quantized_activation" and _is_tie(self.fetch_args_kwargs_from_env(n)[0][0], steps):
            steps = torch.zeros_like(steps)
        spared = int(_FLIPPED * len(steps)) if on_npu else 0
        off = int(steps.topk(spared + 1).values[-1]) if len(steps) else 0
        self.off.append((n, off, int(on_npu or name in self._rounded)))
        return torch.empty_like(value).copy_(wanted)


def _is_tie(stored: Tensor, steps: Tensor) -> bool:
    """Return True if a table differs from PyTorch's function by one step, for one number that it is given.

    PyTorch computes the last elements of a tensor by another approximation than those before them, which fill vectors.
    If their results are on both sides of a value half-way between two steps, these round differently.
    """
    if stored.numel() != len(steps) or not len(steps) or int(steps.max()) > 1:
        return False
    moved = stored.flatten()[steps > 0]
    return bool((moved == moved[:1]).all())


def _is_of_npu(node: fx.Node) -> bool:
    """True for a result of a partition."""
    call = node.args[0] if base_name(node.target) == "getitem" else node
    return isinstance(call, fx.Node) and is_delegate(call)


def _counted(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"


def _described(node: fx.Node) -> str:
    return "what the NPU computes" if _is_of_npu(node) else f"`{operator_name(node.target)}`"


def _is_quantize(node: fx.Node) -> bool:
    return node.op == "call_function" and ".quantize_per_tensor" in str(node.target)


def _note(node: fx.Node, name: str) -> None:
    node.meta["custom"] = {**node.meta.get("custom", {}), VALUE: name}


def _noted(node: fx.Node) -> str | None:
    custom: Mapping[str, str] = node.meta.get("custom", {})
    return custom.get(VALUE)


def program_inputs(program: ExportedProgram, module: fx.GraphModule, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Quantize the inputs of a model where its program takes quantized inputs; variables may be left out."""
    nodes = {node.name: node for node in program.graph.nodes}
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    quantized: list[Tensor] = []
    names = program.graph_signature.user_inputs
    for node, name, x in zip(placeholders[: len(names)], names, inputs[: len(names)], strict=True):
        dtype = nodes[str(name)].meta["val"].dtype
        affine = saved.input_affine(node) if dtype in (torch.int8, torch.int16) else None
        quantized.append(affine.stored(x).to(dtype) if affine else x)
    return quantized


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
    """Return the items of a list or tuple; another value as a list of one."""
    return list(cast("Iterable[object]", value)) if isinstance(value, list | tuple) else [value]
