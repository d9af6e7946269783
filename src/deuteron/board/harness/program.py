"""A program on a board at the end of a line: checks that it is the right one, and runs samples."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from deuteron.board.bundle import Value
from deuteron.board.harness.client import Client, FaultError, RestartedError
from deuteron.board.harness.protocol import ALL_STEPS, STEP_EVENT, Area, Identity, RunResult, TickUnit
from deuteron.board.host_executor import error_text
from deuteron.board.tensor_bytes import Array, from_bytes, to_bytes
from deuteron.errors import BoardError, FormatError, InputError

RESTARTS = 3
"""Restarts of a board during samples, after which they are given up."""

_WRAP = 1 << 32
_MISSING_PERIODS = 0.75
"""Periods of the counter that the host's clock must show in addition: its rate and the board's differ by percents."""


class UnfinishedError(BoardError):
    """Some samples have finished, and a later one has not.

    Attributes:
        runs: those of the finished samples, in order.
    """

    runs: Sequence["BoardRun"] = ()

    @property
    def outputs(self) -> list[tuple[Array, ...]]:
        """Return the outputs of the finished samples."""
        return [run.outputs for run in self.runs]


@dataclass(frozen=True, slots=True)
class Expected:
    """The program that the board must have.

    Attributes:
        program_sha256: hash of its `.pte`.
        inputs, outputs: its values.
        steps: descriptions of its steps.
        tables_crc: checksum of its tables; None if they are not known.
    """

    program_sha256: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    steps: tuple[str, ...]
    tables_crc: int | None = None


@dataclass(frozen=True, slots=True)
class BoardRun:
    """One run on the board.

    Attributes:
        outputs: in their logical shapes.
        result: what the board says about the run.
        events: kind, index, start and stop in ticks, in order.
    """

    outputs: tuple[Array, ...]
    result: RunResult
    events: tuple[tuple[int, int, int, int], ...]

    @property
    def steps(self) -> tuple[tuple[int, int], ...]:
        """Return the number and the ticks of each step."""
        return tuple((index, (stop - start) % _WRAP) for kind, index, start, stop in self.events if kind == STEP_EVENT)

    @property
    def ticks(self) -> int:
        """Return the ticks of the whole run, which may be longer than the counter's period."""
        ticks = (self.result.stop - self.result.start) % _WRAP
        rounds = max(0, sum(length for _, length in self.steps) - ticks + _WRAP - 1) // _WRAP
        return ticks + rounds * _WRAP

    def untimed(self, identity: Identity) -> str | None:
        """Return why the ticks of the run are not its time, or None.

        A step that is longer than a period of the counter is measured modulo the period. The host's clock shows it,
        except for emulated cores, whose ticks are not time.
        """
        if identity.counts_instructions:
            return None
        missing = self.result.seconds - self.ticks / identity.ticks_hz
        period = _WRAP / identity.ticks_hz
        if missing < _MISSING_PERIODS * period:
            return None
        return (
            f"the run took {self.result.seconds:.1f} s by the host's clock, and its steps {missing:.1f} s less: a step "
            f"is longer than the {period:.1f} s in which the board's counter wraps, or the line was silent for so long"
        )


@dataclass(slots=True)
class BoardProgram:
    """A connected board with the expected program.

    Attributes:
        client: its session.
        expected: the program.
        restarts: how often the board has restarted.
    """

    client: Client
    expected: Expected
    restarts: int = field(default=0, init=False)

    def connect(self) -> Identity:
        """Start a session.

        Raises:
            InputError: the board has another program.
            BoardError: it does not answer, or cannot run the program.
        """
        identity = self.client.connect()
        where, expected = self.client.line.name, self.expected
        if identity.program_sha256 != expected.program_sha256:
            raise InputError(
                f"the board `{identity.board}` runs the program with SHA-256 {identity.program_sha256[:12]}, that of "
                f"the build has {expected.program_sha256[:12]}",
                where=where,
                hint="load the firmware of this build (`deuteron firmware BUILD --board NAME --harness serial`), or "
                "give the build that the loaded firmware was made from; for a TFLite file, give its `--target`, too",
            )
        if identity.tick_unit is TickUnit.NONE:
            raise BoardError(
                f"the emulator of the board `{identity.board}` does not count instructions as its firmware expects",
                where=where,
                hint="start QEMU with `-icount shift=6,sleep=off`",
            )
        if expected.tables_crc not in (None, identity.crc):
            raise InputError(
                f"the tables of the program on the board have checksum 0x{identity.crc:08X}, those of this build "
                f"0x{expected.tables_crc:08X}",
                where=where,
                hint="build the firmware with this version of Deuteron and load it",
            )
        counts = (identity.inputs, identity.outputs, identity.steps)
        wanted = (len(expected.inputs), len(expected.outputs), len(expected.steps))
        if counts != wanted:
            raise FormatError(
                f"the program on the board has {counts[0]:,} inputs, {counts[1]:,} outputs and {counts[2]:,} steps, "
                f"that of the build has {wanted[0]:,}, {wanted[1]:,} and {wanted[2]:,}",
                where=where,
                hint="build the firmware with this version of Deuteron and load it",
            )
        if identity.init_error:
            raise BoardError(
                f"the executor on the board rejects the program: {error_text(identity.init_error)}",
                where=where,
                hint="load the image again: damaged or incompletely written flash is the usual cause; then build it "
                "again",
            )
        return identity

    def run(self, sample: Sequence[Array], *, is_reset: bool) -> BoardRun:
        """Run one sample, from the initial state if `is_reset`; raises the errors of the client."""
        client = self.client
        if is_reset:
            client.reset()
        self.write_inputs(sample)
        result = self.checked(self.run_steps())
        outputs = tuple(
            from_bytes(value, client.read(Area.OUTPUT, i, value.bytes)) for i, value in enumerate(self.expected.outputs)
        )
        return BoardRun(outputs, result, client.events(result))

    def run_steps(self, *, stop: int = ALL_STEPS, resume: bool = False) -> RunResult:
        """Run steps, as `Client.run` does; a fault names the step."""
        try:
            return self.client.run(stop=stop, resume=resume)
        except FaultError as e:
            if e.step is None:
                raise
            message = f"{e.message}; it happened at {self._step(e.step)}"
            raise BoardError(message, where=e.where, hint=e.hint) from e

    def _step(self, step: int) -> str:
        steps = self.expected.steps
        return f"step {step}, {steps[step]}" if step < len(steps) else "its outputs"

    def write_inputs(self, sample: Sequence[Array]) -> None:
        """Write the inputs of a run."""
        for i, (value, array) in enumerate(zip(self.expected.inputs, sample, strict=True)):
            self.client.write(Area.INPUT, i, to_bytes(value, array))

    def checked(self, result: RunResult) -> RunResult:
        """Return the result of a run; BoardError if the run failed."""
        if not result.error:
            return result
        raise BoardError(
            f"the run failed at {self._step(result.step)}: {error_text(result.error)}",
            where=self.client.line.name,
            hint="run it in the emulator with `--on an505` or another board to see whether the program is at fault",
        )

    def restart(self, error: RestartedError, place: str) -> None:
        """Start a new session after a restart of the board.

        Raises:
            BoardError: the board has restarted more than RESTARTS times; `place` says where it did so last.
        """
        self.restarts += 1
        if self.restarts > RESTARTS:
            message = f"the board restarted {self.restarts} times, last in {place}"
            raise BoardError(message, where=error.where, hint=error.hint) from error
        self.connect()

    def run_each(self, samples: Iterable[Sequence[Array]], resets: Collection[int] | None) -> Iterator[BoardRun]:
        """Yield the run of one sample after the other; after a restart of the board, repeat the samples of its state.

        Args:
            samples: inputs of each run; the next one is read after the run of the one before.
            resets: numbers of the samples that start from the initial state, the first always; None for all.

        Raises:
            BoardError: the board restarts more than RESTARTS times, or fails otherwise.
        """
        history: list[Sequence[Array]] = []  # samples since the initial state, which a program without state ignores
        for number, sample in enumerate(samples):
            if resets is None or number in resets or not self.client.identity.state_bytes:
                history.clear()
            history.append(sample)
            yield self._run_last(history, number)

    def _run_last(self, history: Sequence[Sequence[Array]], number: int) -> BoardRun:
        """Return the run of the last sample; after a restart, run the others before it again."""
        done = len(history) - 1
        while True:
            try:
                run = self.run(history[done], is_reset=done == 0)
                done += 1
                if done == len(history):
                    return run
            except RestartedError as e:
                self.restart(e, f"sample {number}")
                done = 0

    def run_all(
        self,
        samples: Sequence[Sequence[Array]],
        resets: Collection[int] | None,
        progress: Callable[[int, int], object] | None = None,
    ) -> list[BoardRun]:
        """Return the runs of samples, as `run_each` gives them.

        Args:
            samples: inputs of each run.
            resets: as of `run_each`.
            progress: called with the number of complete samples and of all.

        Raises:
            UnfinishedError: the board fails.
            FormatError, InputError: what it says at the first sample is damaged, or it runs another program.
        """
        runs: list[BoardRun] = []

        def reported() -> Iterator[Sequence[Array]]:
            for number, sample in enumerate(samples):
                if progress is not None:
                    progress(number, len(samples))
                yield sample

        try:
            runs.extend(self.run_each(reported(), resets))  # which keeps the finished ones after an error
        except (BoardError, FormatError, InputError) as e:
            if not runs and not isinstance(e, BoardError):
                raise
            finished = f"{len(runs):,} of {len(samples):,} samples had finished"
            error = UnfinishedError(f"{e.message}; {finished}", where=e.where, hint=e.hint)
            error.runs = runs
            raise error from e
        return runs
