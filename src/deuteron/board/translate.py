"""Translates a program to a bundle, step by step with the memory plan of the `.pte`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deuteron.board import operators, state, state_changes
from deuteron.board.bundle import CONTEXT_BYTES, MEMORY_CONSTANT, Bundle, Memory, Quantization, Step, StepKind, Value
from deuteron.board.io_in_scratch import placed
from deuteron.board.operators import Argument, RefusedError, Tensor
from deuteron.board.packed_weights import packed
from deuteron.board.partition import Matrices, delegate_of, matrices_of
from deuteron.board.sources import Origin, Origins
from deuteron.board.tensor_places import TensorPlaces
from deuteron.builds.manifest import Manifest
from deuteron.errors import CapacityError, FormatError, InputError, UnsupportedError, all_refused
from deuteron.native import CORTEX_M
from deuteron.npu.firmware import FirmwarePort
from deuteron.runtime.program import (
    Constant,
    DelegateCall,
    Instruction,
    KernelCall,
    Method,
    Program,
    TensorList,
    TensorSpec,
    TensorValue,
)

_MOST_BYTES = 0xFFFFFFF0
"""Maximum size of a memory: sizes are 32-bit words."""


def translate(program: Program, manifest: Manifest | None = None, *, name: str, method: str = "forward") -> Bundle:
    """Return the bundle of one method.

    Args:
        program: result of `deuteron.runtime.pte.read`.
        manifest: manifest of its build: errors and the C file then name lines of the model.
        name: name of the bundle, for comments.
        method: method to translate.

    Raises:
        UnsupportedError: firmware lacks operators or tensor types; names them and the lines.
        FormatError: a partition or the plan is damaged.
        InputError: the program has no such method.
    """
    for candidate in program.methods:
        if candidate.name == method:
            return _with_quantization(packed(placed(_Translator(candidate, manifest).bundle(name))), program)
    known = ", ".join(f"`{candidate.name}`" for candidate in program.methods)
    raise InputError(f"the program has no method `{method}`", hint=f"its methods are {known}")


def _with_quantization(bundle: Bundle, program: Program) -> Bundle:
    """Return the bundle with quantized inputs and outputs, which ExecuTorch describes in methods of constants."""
    numbers = {m.name: m.values[m.outputs[0]] for m in program.methods if len(m.outputs) == 1 and not m.inputs}
    values = list(bundle.values)
    for side, indices in (("input", bundle.inputs), ("output", bundle.outputs)):
        for i, index in enumerate(indices):
            match numbers.get(f"{side}{i}_scale"), numbers.get(f"{side}{i}_zp"):
                case float(scale), int(zero_point):
                    values[index] = replace(values[index], quantisation=Quantization(scale, zero_point))
                case _:
                    pass
    return replace(bundle, values=tuple(values))


@dataclass(frozen=True, slots=True)
class _BoundPort:
    """A tensor of a partition: the program's value, the NPU's own, and the transpose between them if they differ."""

    port: FirmwarePort
    value: int
    own: int
    matrices: Matrices | None


class _Translator:
    """Translates one method."""

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
        """Return the bundle."""
        inputs = tuple(
            self._places.value(v, f"input {i}", may_be_unplanned=True)
            for i, v in enumerate(self._method.inputs)
            # A constant that the exported program has as an input is a part of the program.
            if not isinstance(self._method.values[v], int | float)
        )
        outputs = tuple(
            self._places.value(v, f"output {i}", may_be_unplanned=True) for i, v in enumerate(self._method.outputs)
        )
        own = self._places.state
        for i, index in enumerate(inputs):
            memory = self._places.values[index].memory
            if memory >= MEMORY_CONSTANT or (own is not None and memory == own.memory):
                kind = "a constant" if memory >= MEMORY_CONSTANT else "a tensor that keeps its content between runs"
                raise UnsupportedError(f"input {i} is {kind}", hint="export the model without it")
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
        self._check_reads(inputs)
        steps = self._with_state()
        return Bundle(
            name=name,
            values=self._places.values,
            steps=tuple(steps),
            inputs=inputs,
            outputs=outputs,
            memories=self._memories(),
            operators=tuple(self._functions),
            constants=self._places.constants,
            delegates=self._delegates,
            planned_bytes=self._places.planned_bytes,
            state=self._places.state,
        )

    def _check_reads(self, inputs: Sequence[int]) -> None:
        """Reject a tensor that a step reads and a later one writes first: state without an initial value."""
        own = self._places.state
        known, read = set(inputs), set[int]()
        for step in self._steps:
            read.update(index for index in step.inputs if index not in known)
            for index in read.intersection(step.outputs):
                value = self._places.values[index]
                if own is None or value.memory != own.memory:
                    raise UnsupportedError(
                        f"{value.note} is read before it is written: it keeps its content between runs, and the file "
                        "has no initial value for it",
                        where=step.source or f"instruction {step.instruction} of `{self._method.name}`",
                        hint="build the model with `deuteron build`, or export it with ExecuTorch's "
                        "`InitializedMutableBufferPass`",
                    )
            known.update(step.outputs)

    def _with_state(self) -> Sequence[Step]:
        """Return the steps, with the steps that begin and end a change of the state if there is any."""
        own = self._places.state
        if own is None:
            return self._steps
        before, change = state_changes.at_end(self._steps, self._functions, self._places, own, self._function)
        layout, size = self._places.layout, self._places.layout.nbytes - state.STATUS_BYTES
        status = self._places.state_part(0, state.STATUS_BYTES, "status of the state")
        tensors = self._places.state_part(state.STATUS_BYTES, size, "all tensors of the state")
        constant: list[int] = []
        if data := layout.constant:
            spec = TensorSpec((len(data),), "uint8", (0,))
            value = TensorValue(spec, len(data), None, Constant(data, 0, len(data)), dynamic=False, external=False)
            constant = [self._places.prepared(value, "initial values of the state")]
        begin = state.begin(self._function(state.BEGIN), constant, status, tensors, layout.filled)
        end = state.end(self._function(state.END), status, tensors)
        return [*before, begin, *change, end]

    def _instructions(self) -> Sequence[Instruction]:
        chains = self._method.chains
        if len(chains) != 1:
            message = f"`{self._method.name}` has {len(chains)} lists of instructions, firmware supports one"
            raise UnsupportedError(message, hint="export the model with the ExecuTorch that Deuteron installs")
        return chains[0]

    def _instruction(self, instruction: Instruction, where: str) -> None:
        match instruction:
            case KernelCall(operator, args):
                self._kernel_call(self._method.operators[operator], args, where)
            case DelegateCall(delegate, args):
                self._delegate_call(delegate, args, where)
            case _:
                message = f"firmware does not support the instruction `{type(instruction).__name__}`"
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
        """Return the index in the bundle."""
        if tensor.index is None and tensor.value.constant is None:
            return self._places.temporary(tensor.spec, tensor.bytes, what)
        if tensor.index is None:
            return self._places.prepared(tensor.value, what)
        return self._places.value(tensor.index, what)

    def _argument(self, index: int) -> Argument:
        """Return a value of the method as an argument of lowerings."""
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
            message = f"{partition.name} has {partition.arguments} arguments, the program passes {len(args)}"
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

    def _bind(self, port: FirmwarePort, arg: int) -> _BoundPort:
        """Match a tensor of the program with one of the NPU, and add the NPU's own tensor if it needs one."""
        tensor = self._places.tensor(arg, port.name)
        matrices = matrices_of(port, tensor)
        value = self._places.value(arg, port.name)
        if matrices is None:
            return _BoundPort(port, value, value, None)
        spec = replace(tensor.spec, dim_order=(0, *range(2, len(tensor.spec.shape)), 1))
        own = self._places.temporary(spec, tensor.bytes, f"{port.name} in the NPU's order")
        return _BoundPort(port, value, own, matrices)

    def _operator(
        self,
        function: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        params: tuple[int, ...],
        title: str,
        origin: Origin,
    ) -> None:
        self._step(StepKind.OPERATOR, self._function(function), inputs, outputs, params, title, origin)

    def _function(self, name: str) -> int:
        """Return the index of a C function."""
        if name not in self._functions:
            self._functions.append(name)
        return self._functions.index(name)

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
        """Return the memories of the values, and the working memory, by the formula of `bundle.h`."""
        contexts = CONTEXT_BYTES * len(self._delegates)
        most = max((delegate.partition.working_bytes for delegate in self._delegates), default=0)
        working = Memory(contexts + most, "working memory of the partitions")
        for memory in (*self._places.memories, working):
            if memory.bytes > _MOST_BYTES:
                message = f"{memory.note} has {memory.bytes} bytes, the maximum is {_MOST_BYTES}"
                raise CapacityError(message, hint="make the model smaller: firmware uses 32-bit addresses")
        return (*self._places.memories, working)


def _check_outputs(step: Step, values: Sequence[Value]) -> None:
    """Check that no output of a step is a constant or overlaps another of its values, as the executor requires."""
    used = [values[i] for i in (*step.inputs, *step.outputs)]
    for position, output in enumerate(used[len(step.inputs) :], len(step.inputs)):
        if output.memory >= MEMORY_CONSTANT:
            raise _damaged(f"{output.note} is an output but a constant", step.title)
        for other in (*used[:position], *used[position + 1 :]):
            are_disjoint = output.offset + output.bytes <= other.offset or other.offset + other.bytes <= output.offset
            if output.memory == other.memory and not are_disjoint:
                raise _damaged(f"the plan lets {output.note} overlap {other.note}", step.title)


def _refused(operator: str, why: str, origin: Origin, where: str) -> UnsupportedError:
    if operator.startswith("tflite::"):
        from deuteron.runtime.tflite_calls import on_boards  # imported here because it loads slowly

        name = operator.partition("::")[2].partition(".")[0]
        listed = ", ".join(f"`{known}`" for known in on_boards())
        return UnsupportedError(
            f"firmware does not support `{name}` with its types and options",
            where=f"tensor `{origin.node}`",
            hint=f"for TFLite operators that the NPU leaves to the CPU, boards support {listed}, with some types: "
            "build for a target whose CPU has C operators, such as `imxrt700cm`, or use these",
        )
    code = f", at `{origin.lines[0].code}`" if origin.lines else ""
    known = ", ".join(f"`{name}`" for name in operators.supported() if not name.startswith(CORTEX_M))
    return UnsupportedError(
        f"the operator `{operator}` {why}{code}",
        where=origin.where or where,
        hint="build for a target whose CPU has int8 operators, such as `imxrt700cm` and `ethos-u55-128cm`, or run the "
        f"program with ExecuTorch's runtime on the device; of portable operators firmware has {known}",
    )


def _damaged(message: str, where: str) -> FormatError:
    return FormatError(message, where=where, hint="the program is damaged: build the model again")
