"""TFLite files as programs whose operators on the CPU are ExecuTorch's portable ones."""

import math
from collections.abc import Sequence

from deuteron.arch.cores import Work
from deuteron.builds.manifest import CpuOp, Node
from deuteron.errors import UnsupportedError
from deuteron.npu.neutron.tflite.operator_view import Names, Site
from deuteron.npu.neutron.tflite_partitioner import Mixed, Part
from deuteron.runtime.program import TensorSpec
from deuteron.runtime.pte_writer import CODES, Call, Contents, Delegated, Ref, refs
from deuteron.runtime.tflite_calls import DEQUANTIZE, QUANTIZE, call_of
from deuteron.runtime.tflite_nodes import nbytes
from deuteron.tflite.flat_model import FlatModel, FlatOperator

_BETWEEN = {
    QUANTIZE: (Work.QUANTIZE, "quantizes what integer operators read"),
    DEQUANTIZE: (Work.DEQUANTIZE, "turns integers into float for those who read them so"),
}


def with_portable_operators(
    mixed: Mixed, steps: Sequence[Part | int], payloads: Sequence[bytes]
) -> tuple[Contents, list[Node], list[CpuOp]]:
    """Return the program whose operators on the CPU are ExecuTorch's portable ones.

    Raises:
        UnsupportedError: a program cannot hold one of its tensors.
    """
    _check_tensors(mixed.model, steps)
    called = _called(mixed.model, [step for step in steps if isinstance(step, int)])
    delegated = map(_delegated, payloads, (step for step in steps if isinstance(step, Part)))
    calls = [next(delegated) if isinstance(step, Part) else called[step] for step in steps]
    return _contents(mixed.model, calls), *_on_cpu(mixed, steps, calls)


def ends_of(model: FlatModel, step: Part | int) -> Part | FlatOperator:
    """Return the operator or part of a step, which has its inputs and outputs."""
    return step if isinstance(step, Part) else model.operators[step]


def _called(model: FlatModel, operators: Sequence[int]) -> dict[int, Call]:
    """The calls of operators, by index."""
    names = Names(model)
    return {index: call_of(Site(model, names, index, [])) for index in operators}


def _check_tensors(model: FlatModel, steps: Sequence[Part | int]) -> None:
    """Raise UnsupportedError for tensors that a program cannot hold."""
    ends = (ends_of(model, step) for step in steps)
    for index in sorted({i for one in ends for i in (*one.inputs, *one.outputs) if i >= 0}):
        tensor = model.tensors[index]
        if tensor.is_variable:
            raise UnsupportedError(
                f"tensor `{tensor.name}` is the state of an operator that this target's CPU does not run",
                hint="name a target whose CPU has C operators, such as `imxrt700cm` or `cortex-m55`",
            )
        if tensor.problem or tensor.dtype.lower() not in CODES:
            raise UnsupportedError(
                tensor.problem or f"tensor `{tensor.name}` is {tensor.dtype}, which no program holds",
                hint="`deuteron run` leaves such operators to LiteRT; other commands need a model without them",
            )


def _delegated(payload: bytes, part: Part) -> Delegated:
    return Delegated(payload, (*part.inputs, *part.outputs))


def _contents(model: FlatModel, calls: Sequence[Call | Delegated]) -> Contents:
    """The program of these calls, with the tensors that they name and the file's inputs and outputs."""
    calls = [*calls, *(_written_back(model, *ends) for ends in model.state_ends)]
    named = {i for call in calls for i in (call.args if isinstance(call, Delegated) else refs(call.args))}
    used = sorted(named | {*model.inputs, *model.outputs})
    tensors = {i: model.tensors[i] for i in used}
    specs = {i: TensorSpec(t.shape, t.dtype.lower(), tuple(range(len(t.shape)))) for i, t in tensors.items()}
    constants = {i: t.data for i, t in tensors.items() if t.data is not None}
    states = {before: state for (before, _), state in zip(model.state_ends, model.states, strict=True)}
    return Contents(specs, constants, model.own_inputs, model.own_outputs, calls, states)


def _written_back(model: FlatModel, before: int, after: int) -> Call:
    """The call that copies the next value of a state over the present one."""
    return Call("aten::view_copy.out", (Ref(after), model.tensors[before].shape, Ref(before), Ref(before)))


def _on_cpu(
    mixed: Mixed, steps: Sequence[Part | int], calls: Sequence[Call | Delegated]
) -> tuple[list[Node], list[CpuOp]]:
    """The operators of the file that the CPU runs, but for those between integers and floats, and all their calls."""
    model, nodes, ops = mixed.model, list[Node](), list[CpuOp]()
    for number, (step, call) in enumerate(zip(steps, calls, strict=True)):
        if isinstance(step, Part) or isinstance(call, Delegated):
            continue
        op, operator = model.operators[step], call.operator
        name = model.tensors[op.outputs[0]].name if op.outputs else str(number)
        size, called = sum(math.prod(model.tensors[i].shape) for i in op.outputs), operator.partition(".")[0]
        if operator in _BETWEEN:
            work, why = _BETWEEN[operator]
            ops.append(CpuOp(called, name, (), "", why, work, size, (number,)))
            continue
        why = mixed.refused[step].message
        moved = sum(nbytes(model, i) for i in {*op.inputs, *op.outputs} if i >= 0)
        nodes.append(Node(name, op.title, "", (), None, why, Work.UNKNOWN, size, 0, moved))
        ops.append(CpuOp(called, name, (), name, why, Work.UNKNOWN, size, (number,)))
    return nodes, ops
