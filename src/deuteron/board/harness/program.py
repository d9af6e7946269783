"""A program on a board at the end of a line: checks that it is the right one, and runs samples."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from deuteron.board.arrays import Array, from_bytes, to_bytes
from deuteron.board.bundle import Value
from deuteron.board.harness.client import Area, Client, Identity, RestartedError, RunResult
from deuteron.board.host_executor import error_text
from deuteron.errors import BoardError, FormatError, InputError

RESTARTS = 3
"""Restarts of a board during samples, after which they are given up."""

_STEP = 1
_WRAP = 1 << 32


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
        return tuple((index, (stop - start) % _WRAP) for kind, index, start, stop in self.events if kind == _STEP)

    @property
    def ticks(self) -> int:
        """Return the ticks of the whole run, which may be longer than the counter's period."""
        ticks = (self.result.stop - self.result.start) % _WRAP
        rounds = max(0, sum(length for _, length in self.steps) - ticks + _WRAP - 1) // _WRAP
        return ticks + rounds * _WRAP


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
                f"the board runs the program with SHA-256 {identity.program_sha256[:12]}, that of the build has "
                f"{expected.program_sha256[:12]}",
                where=where,
                hint="load the firmware of this build, or give the build that the firmware was made from",
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
        result = self.checked(client.run())
        outputs = tuple(
            from_bytes(value, client.read(Area.OUTPUT, i, value.bytes)) for i, value in enumerate(self.expected.outputs)
        )
        return BoardRun(outputs, result, client.events(result))

    def write_inputs(self, sample: Sequence[Array]) -> None:
        """Write the inputs of a run."""
        for i, (value, array) in enumerate(zip(self.expected.inputs, sample, strict=True)):
            self.client.write(Area.INPUT, i, to_bytes(value, array))

    def checked(self, result: RunResult) -> RunResult:
        """Return the result of a run; BoardError if the run failed."""
        if not result.error:
            return result
        steps = self.expected.steps
        step = f"step {result.step}, {steps[result.step]}" if result.step < len(steps) else "its outputs"
        raise BoardError(
            f"the run failed at {step}: {error_text(result.error)}",
            where=self.client.line.name,
            hint="run it in the emulator with `--on an505` or another board to see whether the program is at fault",
        )

    def run_all(
        self,
        samples: Sequence[Sequence[Array]],
        resets: Collection[int] | None,
        progress: Callable[[int, int], object] | None = None,
    ) -> list[BoardRun]:
        """Run samples in order; after a restart of the board, go on from the last sample with the initial state.

        Args:
            samples: inputs of each run.
            resets: numbers of the samples that start from the initial state, the first always; None for all.
            progress: called with the number of complete samples and of all.

        Raises:
            BoardError: the board restarts more than RESTARTS times, or fails otherwise; the message has the number of
                finished samples.
        """
        runs: list[BoardRun] = []
        try:
            while len(runs) < len(samples):
                number = len(runs)
                if progress is not None:
                    progress(number, len(samples))
                is_reset = number == 0 or resets is None or number in resets
                try:
                    runs.append(self.run(samples[number], is_reset=is_reset))
                except RestartedError as e:
                    self.restarts += 1
                    if self.restarts > RESTARTS:
                        message = f"the board restarted {self.restarts} times, last in sample {number}"
                        raise BoardError(message, where=e.where, hint=e.hint) from e
                    self.connect()
                    while runs and not is_reset:
                        number = len(runs) - 1
                        is_reset = number == 0 or resets is None or number in resets
                        runs.pop()
        except (BoardError, FormatError) as e:
            if not runs:
                raise
            finished = f"{len(runs):,} of {len(samples):,} samples had finished"
            raise e.relocate(e.where, f"{e.message}; {finished}") from e
        return runs
