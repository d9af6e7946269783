"""From a program to a bundle: the plan of a `.pte` followed step by step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deuteron.board import operators
from deuteron.board.bundle import CONTEXT_BYTES, MEMORY_CONSTANT, Bundle, Memory, Quantisation, Step, StepKind, Value
from deuteron.board.io_in_scratch import placed
from deuteron.board.operators import Argument, RefusedError, Tensor
from deuteron.board.partition import Matrices, delegate_of, matrices_of
from deuteron.board.sources import Origin, Origins
from deuteron.board.tensor_places import TensorPlaces
from deuteron.builds.manifest import Manifest
from deuteron.errors import CapacityError, FormatError, InputError, UnsupportedError, all_refused
from deuteron.native import CORTEX_M
from deuteron.npu.firmware import FirmwarePort
from deuteron.runtime.program import DelegateCall, Instruction, KernelCall, Method, Program, TensorList, TensorValue

_MOST_BYTES = 0xFFFFFFF0
"""Of a memory: sizes are words."""


def translate(program: Program, manifest: Manifest | None = None, *, name: str, method: str = "forward") -> Bundle:
    """The bundle of one method.

    Args:
        program: what `deuteron.runtime.pte.read` gave.
        manifest: of the build that wrote it: errors and the C file then name lines of the model.
        name: what the bundle is called, for readers.
        method: which method.

    Raises:
        UnsupportedError: for operators or tensors that firmware does not have, naming them and the lines.
        FormatError: for a damaged partition or plan.
        InputError: when the program has no such method.
    """
    for candidate in program.methods:
        if candidate.name == method:
            return _with_quantisation(placed(_Translator(candidate, manifest).bundle(name)), program)
    known = ", ".join(f"`{candidate.name}`" for candidate in program.methods)
    raise InputError(f"the program has no method `{method}`", hint=f"its methods are {known}")


def _with_quantisation(bundle: Bundle, program: Program) -> Bundle:
    """The bundle with what ExecuTorch says of quantised inputs and outputs: in a method for each number."""
    numbers = {m.name: m.values[m.outputs[0]] for m in program.methods if len(m.outputs) == 1 and not m.inputs}
    values = list(bundle.values)
    for side, indices in (("input", bundle.inputs), ("output", bundle.outputs)):
        for i, index in enumerate(indices):
            match numbers.get(f"{side}{i}_scale"), numbers.get(f"{side}{i}_zp"):
                case float(scale), int(zero_point):
                    values[index] = replace(values[index], quantisation=Quantisation(scale, zero_point))
                case _:
                    pass
    return replace(bundle, values=tuple(values))


@dataclass(frozen=True, slots=True)
class _End:
    """A tensor of a partition: the program's value, the NPU's own, and how the one becomes the other if they differ."""

    port: FirmwarePort
    value: int
    own: int
    matrices: Matrices | None


class _Translator:
    """One method on its way."""

    def __init__(self, method: Method, manifest: Manifest | None) -> None:
        self._method = method
        self._origins = Origins(manifest)
        is_recorded = manifest is not None and manifest.options.use_profiling
        self._places = TensorPlaces(method)
        self._delegates = tuple(
            delegate_of(delegate, i, is_recorded=is_recorded) for i, delegate in enumerate(method.delegates)
        )
        self._functions: list[str] = []
        self._steps: list[Step] = []
        self._number = 0

    def bundle(self, name: str) -> Bundle:
        """The whole."""
        inputs = tuple(
            self._places.value(v, f"input {i}", may_be_unplanned=True)
            for i, v in enumerate(self._method.inputs)
            # What an exported program is given as a number is a part of it.
            if not isinstance(self._method.values[v], int | float)
        )
        outputs = tuple(
            self._places.value(v, f"output {i}", may_be_unplanned=True) for i, v in enumerate(self._method.outputs)
        )
        for i, index in enumerate(inputs):
            if self._places.values[index].memory >= MEMORY_CONSTANT:
                raise UnsupportedError(f"input {i} is a constant", hint="export the model without it")
        refused: list[UnsupportedError] = []
        for number, instruction in enumerate(self._instructions()):
            self._number = number
            where = f"instruction {number} of `{self._method.name}`"
            try:
                self._instruction(instruction, where)
            except UnsupportedError as error:
                refused.append(UnsupportedError(error.message, where=error.where or where, hint=error.hint))
        if refused:
            raise all_refused(refused)
        return Bundle(
            name=name,
            values=self._places.values,
            steps=tuple(self._steps),
            inputs=inputs,
            outputs=outputs,
            memories=self._memories(),
            operators=tuple(self._functions),
            constants=self._places.constants,
            delegates=self._delegates,
            planned_bytes=sum(self._method.arenas),
        )

    def _instructions(self) -> Sequence[Instruction]:
        chains = self._method.chains
        if len(chains) != 1:
            message = f"`{self._method.name}` has {len(chains)} lists of instructions, firmware runs one"
            raise UnsupportedError(message, hint="export the model with the ExecuTorch that Deuteron installs")
        return chains[0]

    def _instruction(self, instruction: Instruction, where: str) -> None:
        match instruction:
            case KernelCall(operator, args):
                self._kernel_call(self._method.operators[operator], args, where)
            case DelegateCall(delegate, args):
                self._delegate_call(delegate, args, where)
            case _:
                message = f"firmware calls operators and partitions, it has no `{type(instruction).__name__}`"
                hint = "write the model without branches on values, and export it with fixed shapes"
                raise UnsupportedError(message, where=where, hint=hint)

    def _kernel_call(self, operator: str, args: Sequence[int], where: str) -> None:
        origin = self._origins.operator(self._number)
        try:
            calls = operators.lower(operator, tuple(self._argument(arg) for arg in args))
        except RefusedError as refusal:
            raise _refused(operator, str(refusal), origin, where) from refusal
        title = f"{operator}, node {origin.node}" if origin.node else operator
        for call in calls:
            inputs = [self._place(x, f"the tensor read by {operator}") for x in call.inputs]
            outputs = [self._place(y, f"the tensor written by {operator}") for y in call.outputs]
            self._operator(call.function, inputs, outputs, call.params, title, origin)
            self._places.end_of_step()

    def _place(self, tensor: Tensor, what: str) -> int:
        """The index in the bundle."""
        if tensor.index is None and tensor.value.constant is None:
            return self._places.temporary(tensor.spec, tensor.bytes, what)
        if tensor.index is None:
            return self._places.prepared(tensor.value, what)
        return self._places.value(tensor.index, what)

    def _argument(self, index: int) -> Argument:
        """A value of the method as lowerings take it."""
        match self._method.values[index]:
            case TensorValue() as value:
                return Tensor(index, value)
            case TensorList(items):
                members = [(i, self._method.values[i]) for i in items if i is not None]
                tensors = tuple(Tensor(i, value) for i, value in members if isinstance(value, TensorValue))
                return tensors if len(tensors) == len(items) else None
            case value:
                return value

    def _delegate_call(self, index: int, args: Sequence[int], where: str) -> None:
        partition = self._delegates[index].partition
        origin = self._origins.delegate(self._method.delegates[index].payload)
        if len(args) != partition.arguments:
            message = f"{partition.name} takes {partition.arguments} arguments, the program gives {len(args)}"
            raise _damaged(message, where)
        inputs = [self._bind(port, args[port.argument]) for port in partition.inputs]
        outputs = [self._bind(port, args[port.argument]) for port in partition.outputs]
        self._places.end_of_step()
        for end in inputs:
            if end.matrices:
                title = f"{end.port.name}: channels last"
                self._operator(operators.TRANSPOSE, [end.value], [end.own], end.matrices, title, origin)
        title = f"{partition.name}: {partition.work}"
        if origin.operators:
            title += f" for {origin.operators} operator{'s' if origin.operators > 1 else ''}"
        own = [end.own for end in inputs], [end.own for end in outputs]
        self._step(StepKind.DELEGATE, index, *own, (), title, origin)
        for end in outputs:
            if end.matrices:
                batches, channels, positions = end.matrices
                title, params = f"{end.port.name}: channels first", (batches, positions, channels)
                self._operator(operators.TRANSPOSE, [end.own], [end.value], params, title, origin)

    def _bind(self, port: FirmwarePort, arg: int) -> _End:
        """The tensor of the program for a tensor of the NPU, and a place for the NPU's own where it needs one."""
        tensor = self._places.tensor(arg, port.name)
        matrices = matrices_of(port, tensor)
        value = self._places.value(arg, port.name)
        if matrices is None:
            return _End(port, value, value, None)
        spec = replace(tensor.spec, dim_order=(0, *range(2, len(tensor.spec.shape)), 1))
        own = self._places.temporary(spec, tensor.bytes, f"{port.name} in the NPU's order")
        return _End(port, value, own, matrices)

    def _operator(
        self,
        function: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        params: tuple[int, ...],
        title: str,
        origin: Origin,
    ) -> None:
        if function not in self._functions:
            self._functions.append(function)
        self._step(StepKind.OPERATOR, self._functions.index(function), inputs, outputs, params, title, origin)

    def _step(
        self,
        kind: StepKind,
        index: int,
        inputs: Sequence[int],
        outputs: Sequence[int],
        params: tuple[int, ...],
        title: str,
        origin: Origin,
    ) -> None:
        step = Step(kind, index, tuple(inputs), tuple(outputs), params, title, str(origin), self._number)
        _check_outputs(step, self._places.values)
        self._steps.append(step)

    def _memories(self) -> tuple[Memory, ...]:
        """Those of the values, and the working memory, for which `bundle.h` has the formula."""
        contexts = CONTEXT_BYTES * len(self._delegates)
        most = max((delegate.partition.working_bytes for delegate in self._delegates), default=0)
        working = Memory(contexts + most, "working memory of the partitions")
        for memory in (*self._places.memories, working):
            if memory.bytes > _MOST_BYTES:
                message = f"{memory.note} has {memory.bytes} bytes, at most {_MOST_BYTES} are possible"
                raise CapacityError(message, hint="make the model smaller: firmware runs on 32-bit processors")
        return (*self._places.memories, working)


def _check_outputs(step: Step, values: Sequence[Value]) -> None:
    """Checks that no output of a step is a constant or overlaps another of its values: what the executor asks for."""
    used = [values[i] for i in (*step.inputs, *step.outputs)]
    for position, output in enumerate(used[len(step.inputs) :], len(step.inputs)):
        if output.memory >= MEMORY_CONSTANT:
            raise _damaged(f"{output.note} would be written, which is a constant", step.title)
        for other in (*used[:position], *used[position + 1 :]):
            apart = output.offset + output.bytes <= other.offset or other.offset + other.bytes <= output.offset
            if output.memory == other.memory and not apart:
                raise _damaged(f"the plan lets {output.note} overlap {other.note}", step.title)


def _refused(operator: str, why: str, origin: Origin, where: str) -> UnsupportedError:
    if operator.startswith("tflite::"):
        from deuteron.runtime.tflite_calls import on_boards  # what reads TFLite files takes a while to load

        name = operator.partition("::")[2].partition(".")[0]
        listed = ", ".join(f"`{known}`" for known in on_boards())
        return UnsupportedError(
            f"of `{name}` firmware has no form for its types and options",
            where=f"tensor `{origin.node}`",
            hint=f"of what the NPU leaves of a TFLite file boards have {listed}: write the model with these, or run it "
            "on this computer with `deuteron run`",
        )
    code = f", at `{origin.lines[0].code}`" if origin.lines else ""
    known = ", ".join(f"`{name}`" for name in operators.supported() if not name.startswith(CORTEX_M))
    return UnsupportedError(
        f"the operator `{operator}` {why}{code}",
        where=origin.where or where,
        hint=f"beside the NPU's operators firmware has those of ExecuTorch's Cortex-M backend, and {known}: write the "
        "model so that the NPU takes the others, or run the program with ExecuTorch's runtime on the device",
    )


def _damaged(message: str, where: str) -> FormatError:
    return FormatError(message, where=where, hint="the program is damaged: build the model again")
