"""Finds the first step whose result on a board differs from the host's, and what explains it."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from deuteron.board.bundle import MEMORY_CONSTANT, Bundle, ElementType, StepKind, Value
from deuteron.board.harness.client import ChangedError, RestartedError
from deuteron.board.harness.program import BoardProgram
from deuteron.board.harness.protocol import Area
from deuteron.board.host_executor import HostExecutor
from deuteron.board.tensor_bytes import Array, from_bytes, to_bytes
from deuteron.errors import BoardError
from deuteron.views.run.step_difference import Finding, StepDifference

_LINE = 32
"""Bytes of a line of the data cache of a Cortex-M7, M55 and M85."""

_FLOATS = (ElementType.F32, ElementType.F64)


def find(
    bundle: Bundle,
    program: BoardProgram,
    history: Sequence[Sequence[Array]],
    sample: Sequence[Array],
    number: int,
    reference: Sequence[Array],
    progress: Callable[[int, int], object] | None = None,
) -> StepDifference:
    """Run a sample step by step on the board and on the host, and return the first difference.

    One run compares the checksum of each result that a later step or the caller reads. If all are equal, runs without
    pauses are bisected, because a late DMA may need them to show. After a restart of the board the search begins again.

    Args:
        bundle: the program.
        program: the board, connected.
        history: samples from the last initial state up to this one, for a program with state.
        sample: its inputs.
        number: its number.
        reference: the outputs that the board's differ from.
        progress: called with the number of compared steps and of all.

    Raises:
        BoardError: the board restarts too often, or fails otherwise.
    """
    search = _Search(bundle, program, history, sample, number, progress)
    while True:
        try:
            found = search.step_by_step() or search.uninterrupted()
            break
        except RestartedError as e:
            program.restart(e, f"the search for the first wrong step of sample {number}")
    if found.finding is Finding.NOT_AGAIN and not search.is_reference(reference):
        return StepDifference(number, Finding.HOST)
    return found


class _Search:
    """Search for the first difference of a sample."""

    def __init__(
        self,
        bundle: Bundle,
        program: BoardProgram,
        history: Sequence[Sequence[Array]],
        sample: Sequence[Array],
        number: int,
        progress: Callable[[int, int], object] | None,
    ) -> None:
        self._progress = progress
        self._bundle = bundle
        self._program = program
        self._history = history
        self._sample = sample
        self._number = number
        self._results = self._on_host()
        self._live = [live_outputs(bundle, index) for index in range(len(bundle.steps))]

    def _host(self) -> HostExecutor:
        """Return the host's executor in the state before the sample."""
        host = HostExecutor(self._bundle)
        host.reset()
        for before in self._history:
            host.run(before)
        return host

    def is_reference(self, reference: Sequence[Array]) -> bool:
        """Return true if the host's executor gives these outputs."""
        ours = self._host().run(self._sample)
        return all(a.tobytes() == b.tobytes() for a, b in zip(ours, reference, strict=True))

    def _on_host(self) -> list[dict[int, bytes]]:
        """Return the bytes that each step writes on the host, by value; keep the state before the sample."""
        values, steps = self._bundle.values, self._bundle.steps
        host = self._host()
        self._state = host.state_memory()
        return [
            {
                output: to_bytes(values[output], array)
                for output, array in zip(steps[result.index].outputs, result.outputs, strict=True)
            }
            for result in host.values(self._sample)
        ]

    def _start(self) -> None:
        """Bring the board to the state before the sample, and write its inputs."""
        self._program.client.reset()
        for before in self._history:
            self._program.write_inputs(before)
            self._program.checked(self._program.run_steps())
        self._program.write_inputs(self._sample)

    def step_by_step(self) -> StepDifference | None:
        """Compare each step's results right after it, or after the steps that the executor runs together with it."""
        self._start()
        done = 0
        for index, written in enumerate(self._results):
            if self._progress is not None:
                self._progress(index, len(self._results))
            if done <= index:
                done = self._run(index + 1, resume=done > 0)
            for output in self._live[index]:
                is_kept = done == index + 1 or done <= last_read(self._bundle, index, output)
                if is_kept and self._differs(output, written[output]):
                    return self._explained(index, output, done)
        return None

    def _run(self, stop: int, *, resume: bool = False) -> int:
        """Run until `stop` steps are complete; return how many are, which may be more."""
        done = self._program.checked(self._program.run_steps(stop=stop, resume=resume)).step
        if done < stop:
            raise BoardError(
                f"the board stopped after {done:,} steps, not {stop:,}", where=self._program.client.line.name
            )
        return done

    def uninterrupted(self) -> StepDifference:
        """Find the first point of a run without pauses where a live value differs, by bisection."""
        count = len(self._results)
        differing = self._differing_at(count)
        if differing is None:
            return StepDifference(self._number, Finding.NOT_AGAIN)
        low, high = 0, count  # all values are right after `low` steps, one is wrong after `high`
        while high - low > 1:
            middle = (low + high) // 2
            found = self._differing_at(middle)
            low, high, differing = (middle, high, differing) if found is None else (low, middle, found)
        again = self._differing_at(high)
        if again is None:
            return self._without_bytes(Finding.SOMETIMES, high - 1, differing[0])
        return self._difference(Finding.UNINTERRUPTED, high - 1, *again)

    def _differing_at(self, steps: int) -> tuple[int, bytes] | None:
        """Return a value that differs after a run of at least that many steps, and its bytes on the host."""
        self._start()
        steps = self._run(steps)
        for index in range(steps - 1, -1, -1):
            for output in self._live[index]:
                is_live = steps <= last_read(self._bundle, index, output)
                if is_live and self._differs(output, self._results[index][output]):
                    return output, self._results[index][output]
        return None

    def _explained(self, index: int, output: int, done: int) -> StepDifference:
        """Say whether a wrong result has wrong inputs; `done` steps are complete.

        Inputs are in memory until a step reuses it. Those that these steps overwrite are read in another run, which
        stops before the step.
        """
        result = self._difference(Finding.STEP, index, output, self._results[index][output])
        if result.finding is Finding.UNSTABLE:
            return result
        inputs = self._bundle.steps[index].inputs
        overwritten = [value for value in inputs if self._is_overwritten(value, index, done)]
        is_known = True
        for value in (*(value for value in inputs if value not in overwritten), *overwritten):
            if overwritten and value == overwritten[0]:
                self._start()
                if self._run(index) > index:
                    is_known = False
                    break
            wanted = self._wanted(index, value)
            if wanted is None:
                is_known = False
            elif self._differs(value, wanted):
                is_constant = self._bundle.values[value].memory >= MEMORY_CONSTANT
                return self._difference(Finding.CONSTANT if is_constant else Finding.INPUT, index, value, wanted)
        return result if is_known else replace(result, finding=Finding.RESULT)

    def _is_overwritten(self, value: int, index: int, done: int) -> bool:
        """Return true if steps from `index` on write to a value; a partition also writes to the working memory."""
        bundle = self._bundle
        place, steps = bundle.values[value], bundle.steps[index:done]
        in_working = place.memory == len(bundle.memories) - 1
        return any(
            (in_working and step.kind is StepKind.DELEGATE)
            or any(_overlap(bundle, place, output) for output in step.outputs)
            for step in steps
        )

    def _wanted(self, step: int, index: int) -> bytes | None:
        """Return the bytes that a value must have before a step; None if they are not known.

        A value may be a view: part of another value's bytes, or put together from several.
        """
        value = self._bundle.values[index]
        if value.memory >= MEMORY_CONSTANT:
            return self._bundle.constants[value.memory - MEMORY_CONSTANT][value.offset : value.offset + value.bytes]
        wanted, is_known = bytearray(value.bytes), np.zeros(value.bytes, bool)
        for other, data in self._written_before(step):
            place = self._bundle.values[other]
            start, stop = max(value.offset, place.offset), min(value.offset + value.bytes, place.offset + place.bytes)
            if place.memory != value.memory or start >= stop:
                continue
            for at in np.flatnonzero(~is_known[start - value.offset : stop - value.offset]) + start:
                wanted[at - value.offset] = data[at - place.offset]
            is_known[start - value.offset : stop - value.offset] = True
        state = self._bundle.state
        if state is not None and value.memory == state.memory:
            for at in np.flatnonzero(~is_known):
                wanted[at] = self._state[value.offset + at]
            is_known[:] = True
        return bytes(wanted) if is_known.all() else None

    def _written_before(self, step: int) -> Iterator[tuple[int, bytes]]:
        """Yield values and their bytes, the last written first: those of earlier steps, then the program's inputs."""
        for results in reversed(self._results[:step]):
            yield from results.items()
        for index, array in zip(self._bundle.inputs, self._sample, strict=True):
            yield index, to_bytes(self._bundle.values[index], array)

    def _writer(self, step: int, value: int) -> int:
        """Return the last step before `step` that writes to a value's bytes, -1 if there is none."""
        bundle = self._bundle
        place = bundle.values[value]
        return next(
            (
                i
                for i in range(step - 1, -1, -1)
                if any(_overlap(bundle, place, output) for output in bundle.steps[i].outputs)
            ),
            -1,
        )

    def _differs(self, value: int, wanted: bytes) -> bool:
        return self._program.client.checksum(Area.VALUE, value, len(wanted)) != zlib.crc32(wanted)

    def _difference(self, finding: Finding, index: int, value: int, wanted: bytes) -> StepDifference:
        info, step = self._bundle.values[value], self._bundle.steps[index]
        try:
            found = self._program.client.read(Area.VALUE, value, len(wanted))
        except ChangedError:
            found = wanted  # right at one of the two reads, or at none: it changes while no step runs
        raw = np.frombuffer(found, np.uint8) != np.frombuffer(wanted, np.uint8)
        if not raw.any():
            return self._without_bytes(Finding.UNSTABLE, index, value)
        ours, theirs = from_bytes(info, found), from_bytes(info, wanted)
        bits = np.dtype(f"u{ours.dtype.itemsize}")
        where = np.argwhere(np.ascontiguousarray(ours).view(bits) != np.ascontiguousarray(theirs).view(bits))
        first = tuple(int(i) for i in where[0])
        return StepDifference(
            sample=self._number,
            finding=finding,
            step=index,
            title=step.title,
            source=step.source,
            value=info.note,
            elements=len(where),
            of=ours.size,
            index=first,
            board=ours[first],
            host=theirs[first],
            written_by=self._writer(index, value) if finding is Finding.INPUT else -1,
            fills_lines=_fills_lines(raw, info.offset),
            is_npu=step.kind is StepKind.DELEGATE,
            is_float=any(self._bundle.values[v].type in _FLOATS for v in (*step.inputs, *step.outputs)),
        )

    def _without_bytes(self, finding: Finding, index: int, value: int) -> StepDifference:
        """Return a difference of a value whose wrong bytes are gone."""
        step = self._bundle.steps[index]
        return StepDifference(
            self._number,
            finding,
            step=index,
            title=step.title,
            source=step.source,
            value=self._bundle.values[value].note,
            is_npu=step.kind is StepKind.DELEGATE,
        )


def live_outputs(bundle: Bundle, index: int) -> tuple[int, ...]:
    """Return the outputs of a step that a later step or the caller reads.

    Scratch memory is none of them, nor is the status of the state, of which the executor writes only a word.
    """
    status = None if bundle.state is None else (bundle.state.memory, 0)
    return tuple(
        value
        for value in bundle.steps[index].outputs
        if (bundle.values[value].memory, bundle.values[value].offset) != status
        and last_read(bundle, index, value) > index
    )


def last_read(bundle: Bundle, index: int, value: int) -> int:
    """Return the last step that reads what step `index` writes to a value, the number of steps for an output.

    Reads through another value of the same bytes count, until a step writes there again; `index` if nothing reads it.
    """
    place = bundle.values[value]
    last = index
    for later in range(index + 1, len(bundle.steps)):
        step = bundle.steps[later]
        if any(_overlap(bundle, place, other) for other in step.inputs):
            last = later
        if any(_overlap(bundle, place, other) for other in step.outputs):
            return last
    return len(bundle.steps) if any(_overlap(bundle, place, output) for output in bundle.outputs) else last


def _overlap(bundle: Bundle, place: Value, other: int) -> bool:
    value = bundle.values[other]
    return (
        place.memory == value.memory
        and place.offset < value.offset + value.bytes
        and value.offset < place.offset + place.bytes
    )


def _fills_lines(differs: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]", offset: int) -> bool:
    """Return true if most bytes of the cache lines with differences differ, and other lines have none."""
    where = np.flatnonzero(differs) + offset
    lines = len(set((where // _LINE).tolist()))
    return len(where) > lines * _LINE // 2 and lines * _LINE < len(differs)
