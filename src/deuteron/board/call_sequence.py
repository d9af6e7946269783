"""Converts the tables of a bundle to calls over blocks of memory, and back.

ExecuTorch's plan of a program gives each tensor an offset. This conversion keeps only the data flow: a step reads what
the last step wrote to those bytes, so tensors that share bytes become one block. The planner can then place the blocks
again and split steps into stripes of rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from deuteron.board.bundle import ALIGNMENT, MEMORY_CONSTANT, Bundle, ElementType, Memory, Step, StepKind, Value
from deuteron.board.row_dependencies import COPY, RECORDS, TRANSPOSED, CpuParams, Words
from deuteron.operators import catalogue
from deuteron.operators.kernel_params import CopyParams, KernelParams
from deuteron.operators.program import Buffer, Kernel, KernelCall, Program, Ref

NOTE = "inputs, outputs and intermediate tensors"
"""Description of the memory with all values."""

STATE = "state"
"""Name of the buffer of the state, which has its own memory: the planner does not place it."""

CALLER = (-1,)
"""Origin of the calls that represent the caller, which writes the inputs and reads the outputs."""


def program_of(bundle: Bundle) -> Program:
    """Return the steps as calls, between one that writes all inputs and one that reads all outputs."""
    blocks = _Blocks(bundle)
    calls = [_call(bundle, blocks, at, step) for at, step in enumerate(bundle.steps)]
    ends = [_opaque([blocks.refs[i] for i in indices], CALLER) for indices in (bundle.inputs, bundle.outputs)]
    used = sorted({value.memory - MEMORY_CONSTANT for value in bundle.values if value.memory >= MEMORY_CONSTANT})
    constants = [Buffer(_constant(k), len(bundle.constants[k]), bundle.constants[k]) for k in used]
    scratch = [Buffer(ref.buffer, ref.nbytes) for call in calls if call.kernel.workspace for ref in call.operands[-1:]]
    state = () if bundle.state is None else (Buffer(STATE, bundle.state_bytes),)
    buffers = (*constants, *(Buffer(*block) for block in blocks.sizes.items()), *scratch, *state)
    lasting = tuple(buffer.name for buffer in state)
    return Program(buffers, lasting, lasting, tuple(call for call in (ends[0], *calls, ends[1]) if call.operands))


def bundle_of(bundle: Bundle, program: Program, offsets: Mapping[str, int], nbytes: int) -> Bundle:
    """Return the bundle with all values but the state in one memory of `nbytes` bytes, at the offsets of a plan.

    Args:
        bundle: the argument of `program_of`.
        program: its result, possibly split into stripes.
        offsets: offset of each block.
        nbytes: size of the memory.
    """
    return _Tables(bundle, offsets).bundle(program, nbytes)


def _constant(index: int) -> str:
    return f"constant {index}"


def _opaque(refs: Sequence[Ref], origin: tuple[int, ...]) -> KernelCall:
    """Return a call with known reads and writes but unknown row dependencies."""
    kernel = Kernel(0, "", ("",) * (len(refs) - 1), CpuParams)
    return KernelCall(kernel, tuple(refs), CpuParams("", Words(()), tuple(ref.nbytes for ref in refs), 0), origin)


def _call(bundle: Bundle, blocks: "_Blocks", at: int, step: Step) -> KernelCall:
    refs = [blocks.refs[i] for i in (*step.inputs, *step.outputs)]
    function = bundle.operators[step.index] if step.kind is StepKind.OPERATOR else ""
    scratch = len(step.outputs) - 1
    most = 2 if function == TRANSPOSED else int(function in RECORDS)
    if not function or scratch > most or any(ref.buffer in blocks.whole for ref in refs):
        return _opaque(refs, (at,))
    reads, (*workspaces, output) = refs[: len(step.inputs)], refs[len(step.inputs) :]
    record: KernelParams = Words(step.params)
    if function in RECORDS:
        words = tuple(word - (word >> 31 << 32) for word in step.params)
        record = RECORDS[function].from_words(words[int(function == COPY) :])
        if isinstance(record, CopyParams):
            output = Ref(output.buffer, output.offset + words[0], output.nbytes - words[0])
    if workspaces:
        needed = catalogue.scratch(catalogue.BY_SYMBOL[function], record)
        workspaces = [
            Ref(f"scratch of step {at}", 0, min(count, ref.nbytes))
            for ref, (count, _) in zip(workspaces, needed, strict=True)
        ]
    operands = (*reads, output, *workspaces)
    params = CpuParams(function, record, tuple(ref.nbytes for ref in operands), len(reads))
    kernel = Kernel(0, function, tuple(map(str, range(len(reads)))), CpuParams, workspace=bool(workspaces))
    return KernelCall(kernel, operands, params, (at,))


class _Blocks:
    """Groups values that share bytes into blocks.

    Attributes:
        refs: each value's range in a block, a constant or the state.
        sizes: bytes of each block.
        whole: blocks whose calls are not split: those that hold several values one after the other at overlapping
            offsets, and the state.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._values = bundle.values
        self._state = None if bundle.state is None else bundle.state.memory
        self._parents = list(range(len(bundle.values)))
        self._owners: dict[int, list[tuple[int, int, int]]] = {}
        written = self._follow(bundle)
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        for index, value in enumerate(bundle.values):
            block = self._block(index)
            starts[block] = min(starts.get(block, value.offset), value.offset)
            ends[block] = max(ends.get(block, 0), value.offset + value.bytes)
        self.refs: dict[int, Ref] = {}
        self.sizes: dict[str, int] = {}
        for index, value in enumerate(bundle.values):
            name, start = _constant(value.memory - MEMORY_CONSTANT), 0
            if value.memory == self._state:
                name = STATE
            elif value.memory < MEMORY_CONSTANT:
                block = self._block(index)
                name, start = f"block {block}", starts[block]
                self.sizes[name] = ends[block] - start
            self.refs[index] = Ref(name, value.offset - start, value.bytes)
        several = [self.refs[index].buffer for index in written]
        self.whole = {STATE, *(name for name in several if several.count(name) > 1)}

    def _follow(self, bundle: Bundle) -> set[int]:
        """Unite the values that each step reads with those written before; return the written values."""
        written = set(bundle.inputs)
        for index in bundle.inputs:
            self._write(index)
        for step in bundle.steps:
            for index in step.inputs:
                self._read(index)
            for index in step.outputs:
                self._write(index)
                written.add(index)
        for index in bundle.outputs:
            self._read(index)
        return written

    def _write(self, index: int) -> None:
        value = self._values[index]
        first, last = value.offset, value.offset + value.bytes
        kept = [
            (a, b, owner)
            for start, stop, owner in self._owners.get(value.memory, [])
            for a, b in ((start, min(stop, first)), (max(start, last), stop))
            if a < b
        ]
        self._owners[value.memory] = [*kept, (first, last, index)]

    def _read(self, index: int) -> None:
        value = self._values[index]
        for start, stop, owner in self._owners.get(value.memory, []):
            if start < value.offset + value.bytes and value.offset < stop:
                low, high = sorted((self._block(owner), self._block(index)))
                self._parents[high] = low

    def _block(self, index: int) -> int:
        while self._parents[index] != index:
            index = self._parents[index]
        return index


class _Tables:
    """Builds the tables of a planned bundle."""

    def __init__(self, bundle: Bundle, offsets: Mapping[str, int]) -> None:
        self._old, self._offsets = bundle, offsets
        self._refs = _Blocks(bundle).refs
        self._values = [self._moved(index, value) for index, value in enumerate(bundle.values)]
        self._new: dict[Value, int] = {}
        self._operators = list(bundle.operators)

    def bundle(self, program: Program, nbytes: int) -> Bundle:
        """Return the bundle."""
        steps = [self._step(call) for call in program.calls if call.origin != CALLER]
        ends = (*self._old.inputs, *self._old.outputs)
        used = sorted({*ends, *chain.from_iterable((*step.inputs, *step.outputs) for step in steps)})
        number = {index: at for at, index in enumerate(used)}

        def renamed(indices: Iterable[int]) -> tuple[int, ...]:
            return tuple(number[index] for index in indices)

        return replace(
            self._old,
            values=tuple(self._values[index] for index in used),
            steps=tuple(replace(s, inputs=renamed(s.inputs), outputs=renamed(s.outputs)) for s in steps),
            inputs=renamed(self._old.inputs),
            outputs=renamed(self._old.outputs),
            memories=(Memory(nbytes, NOTE), *self._state_memories, self._old.memories[-1]),
            operators=tuple(self._operators),
            state=None if self._old.state is None else replace(self._old.state, memory=1),
        )

    @property
    def _state_memories(self) -> tuple[Memory, ...]:
        return () if self._old.state is None else (self._old.memories[self._old.state.memory],)

    def _moved(self, index: int, value: Value) -> Value:
        """Return a value at its planned offset; with no bytes if no other value precedes it there.

        A value that exists only in stripes has no offset, and no step names it.
        """
        ref = self._refs[index]
        if ref.buffer == STATE:
            return replace(value, memory=1)
        if value.memory < MEMORY_CONSTANT and not value.bytes:
            return replace(value, memory=0, offset=0)
        if value.memory >= MEMORY_CONSTANT or ref.buffer not in self._offsets:
            return value
        return replace(value, memory=0, offset=self._offsets[ref.buffer] + ref.offset)

    def _step(self, call: KernelCall) -> Step:
        step = self._old.steps[call.origin[0]]
        params = call.params
        if not isinstance(params, CpuParams) or not params.function:
            return step
        output = step.outputs[-1]
        workspaces = [self._part(ref, output, ElementType.U8) for ref in call.operands[params.output + 1 :]]
        if call.stripe is None:
            return replace(step, outputs=(*workspaces, output))
        templates = (output,) if call.stripe.kept else step.inputs
        reads = [self._part(ref, at) for ref, at in zip(call.operands, templates, strict=False)]
        words = params.words()
        if isinstance(params.record, CopyParams):
            ends = [self._start(ref) % ALIGNMENT for ref in call.operands]
            words = (ends[1], *replace(params.record, in_start=params.record.in_start + ends[0]).words())
        if params.function not in self._operators:
            self._operators.append(params.function)
        return replace(
            step,
            index=self._operators.index(params.function),
            inputs=tuple(reads),
            outputs=(*workspaces, self._part(call.operands[params.output], output)),
            params=tuple(word & 0xFFFFFFFF for word in words),
            title=f"{step.title}, {call.stripe}",
        )

    def _start(self, ref: Ref) -> int:
        """Return the start of an operand in its memory or its constant."""
        return self._offsets.get(ref.buffer, 0) + ref.offset

    def _part(self, ref: Ref, like: int, element: ElementType | None = None) -> int:
        """Return a value for an operand, a part of `like`, from the last allowed offset at or before its start."""
        whole = self._values[like]
        if ref == self._refs[like]:
            return like
        start = self._start(ref) // ALIGNMENT * ALIGNMENT
        size = self._start(ref) + ref.nbytes - start
        kind = whole.type if element is None else element
        memory = whole.memory if ref.buffer == self._refs[like].buffer and whole.memory >= MEMORY_CONSTANT else 0
        note = f"part of {whole.note}" if element is None else "scratch memory"
        value = Value(memory, start, size, kind, (size,), (0,), note)
        if value not in self._new:
            self._values.append(value)
            self._new[value] = len(self._values) - 1
        return self._new[value]
