"""Runs a build, or firmware, on a board at the end of a line (`spec/harness.md`)."""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from deuteron.board import firmware_record, image
from deuteron.board.bundle import Bundle
from deuteron.board.harness.client import Client
from deuteron.board.harness.line import open_line
from deuteron.board.harness.program import BoardProgram, BoardRun, Expected, UnfinishedError
from deuteron.board.harness.protocol import Area, Identity
from deuteron.board.tables import Tables
from deuteron.board.tensor_bytes import dtype_name
from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import TensorInfo
from deuteron.errors import BoardError, DeuteronError, FormatError, InputError, InternalError, OptionError
from deuteron.runtime.inputs import Array, Sample
from deuteron.views.compare.board import HostComparison, compare
from deuteron.views.run import first_difference, line_report
from deuteron.views.run.board import Model
from deuteron.views.run.host import BuildOnHost
from deuteron.views.run.line_report import Ran
from deuteron.views.run.step_difference import StepDifference
from deuteron.views.run.subjects import Progress, Subject
from deuteron.views.run.tflite import BundleOnHost

_LARGE = 16 << 10
"""Bytes from which the transfer of a tensor is reported in parts."""


@dataclass(frozen=True, slots=True)
class LineOptions:
    """Options of the connection to a board.

    Attributes:
        name: of the line: `serial:PORT` or `tcp:HOST:PORT`.
        baud: rate of a serial port in bits per second; None for the default.
        time_out: seconds after which a run counts as hung; None for the default.
    """

    name: str
    baud: int | None = None
    time_out: float | None = None


@contextmanager
def connected(options: LineOptions, expected: Expected) -> Generator[tuple[BoardProgram, Identity]]:
    """Yield the board with the expected program; raises the errors of `open_line` and of `BoardProgram.connect`."""
    line = open_line(options.name, options.baud)
    try:
        client = Client(line) if options.time_out is None else Client(line, run_seconds=options.time_out)
        program = BoardProgram(client, expected)
        yield program, program.connect()
    finally:
        line.close()


def expected_of_build(directory: Path, bundle: Bundle) -> Expected:
    """Return what a board must have for a build."""
    return Expected(
        program_sha256=manifests.read(directory).files[manifests.PROGRAM].sha256,
        inputs=tuple(bundle.values[i] for i in bundle.inputs),
        outputs=tuple(bundle.values[i] for i in bundle.outputs),
        steps=tuple(step.title for step in bundle.steps),
        tables_crc=Tables.of(bundle).crc,
    )


def _expected(build: Path | None, bundle: Bundle | None, firmware: firmware_record.Firmware | None) -> Expected:
    """Return what a board must have for a build, or for firmware whose build is not known."""
    if build is not None and bundle is not None:
        return expected_of_build(build, bundle)
    if firmware is None:
        raise InternalError("neither a build nor firmware is known")
    titles = tuple(step.title for step in firmware.steps)
    return Expected(firmware.program_sha256, firmware.inputs, firmware.outputs, titles, firmware.tables_crc)


@dataclass(frozen=True, slots=True)
class LineComparison:
    """Outputs of a board compared with the host's, with the first step that differs in the first wrong sample.

    Attributes:
        outputs: the comparison.
        first: the first step that differs; None if all bits are equal, or the search has failed.
        search_error: why the search has failed; None if it has not.
        sent_again: requests that were sent again in all runs.
        restarts: how often the board restarted in all runs.
    """

    outputs: HostComparison
    first: StepDifference | None
    search_error: DeuteronError | None = None
    sent_again: int = 0
    restarts: int = 0

    @property
    def passed(self) -> bool:
        """Return true if all bits are equal."""
        return self.outputs.passed

    def text(self) -> str:
        """Return the report."""
        parts = ["\n".join([self.outputs.text(), *line_report.lost_lines(self.sent_again, self.restarts)])]
        if self.first is not None:
            parts.append(self.first.text())
        if self.search_error is not None:
            parts.append(f"the search for the first step that differs has failed: {self.search_error}")
        return "\n\n".join(parts)

    def to_json(self) -> Mapping[str, object]:
        """Return the report as plain values."""
        first = None if self.first is None else self.first.to_json()
        error = None if self.search_error is None else str(self.search_error)
        line = {"sent_again": self.sent_again, "restarts": self.restarts}
        return {**self.outputs.to_json(), "first_difference": first, "search_error": error, **line}


class OnLine(Subject):
    """A build whose firmware is on a board, or that firmware."""

    def __init__(
        self, path: Path, options: LineOptions, origin: Path | None = None, host: Subject | None = None
    ) -> None:
        """Use a build or firmware directory; `origin` is the build of firmware, `host` that of a file on the host."""
        self._path = path
        self._options = options
        self._host = host
        self.is_compiled = host is None
        self._ran: Ran | None = None
        self._firmware: firmware_record.Firmware | None = None
        if (path / firmware_record.FILE.name).is_file():
            self._firmware = firmware_record.read(path)
            _check_serial(path, self._firmware)
            if origin is not None:
                image.check_origin(path, self._firmware, origin)
        elif origin is not None:
            raise OptionError(
                f"`--build` names the build of firmware, but `{path}` is a build itself", hint="leave out `--build`"
            )
        self._origin = origin if self._firmware else path
        self._bundle = None if self._origin is None else image.bundle_of(self._origin)
        self._expected = _expected(self._origin, self._bundle, self._firmware)

    @property
    def build(self) -> Path | None:
        """Return the build, if it is known."""
        return self._origin

    @property
    def board(self) -> str:
        """Return the name that the board gave itself in the last run."""
        return "" if self._ran is None else self._ran.identity.board

    @property
    def model(self) -> Model:
        """Return the inputs and outputs of the program."""
        inputs, outputs = (
            tuple(TensorInfo(value.shape, dtype_name(value)) for value in values)
            for values in (self._expected.inputs, self._expected.outputs)
        )
        return Model(inputs, outputs)

    def check(self, reference: str | None) -> None:
        """Reject other references than the host, and firmware without its build."""
        if reference in ("reference", "pytorch", "litert"):
            raise OptionError(
                f"a board is not compared with `{reference}`",
                hint="use `--compare host` for the same bits, or `--compare float` for the board's error",
            )
        if reference and self._origin is None:
            raise OptionError(
                f"`{self._path}` is firmware, which does not run on the host",
                hint="give the build that it was made from with `--build DIR`",
            )

    def run(
        self, samples: Sequence[Sample], progress: Progress | None = None, resets: Collection[int] | None = None
    ) -> list[Sample]:
        """Return the outputs for each sample; `resets` are used in place of the attribute unless None."""
        with connected(self._options, self._expected) as (program, identity):
            report = None if progress is None else _reporting(program, progress, f"on {identity.board}")
            return self._run(program, identity, samples, report, resets)

    def _run(
        self,
        program: BoardProgram,
        identity: Identity,
        samples: Sequence[Sample],
        progress: Callable[[int, int], object] | None,
        resets: Collection[int] | None,
    ) -> list[Sample]:
        resets = self.resets if resets is None else resets
        try:
            runs: Sequence[BoardRun] = program.run_all(samples, resets, progress)
        except UnfinishedError as e:
            self._ran = Ran(samples[: len(e.runs)], identity, e.runs, program.client.sent_again, program.restarts)
            raise
        self._ran = Ran(samples, identity, runs, program.client.sent_again, program.restarts)
        return self._ran.outputs

    def run_in_turn(self, samples: Iterable[Sample]) -> Iterator[list[Array]]:
        """Yield the outputs for one sample after the other; `text` reports on all."""
        runs: list[BoardRun] = []
        with connected(self._options, self._expected) as (program, identity):
            for run in program.run_each(samples, self.resets):
                runs.append(replace(run, outputs=()))
                self._ran = Ran((), identity, tuple(runs), program.client.sent_again, program.restarts)
                yield list(run.outputs)

    def compare(
        self, samples: Sequence[Sample], progress: Callable[[int, int], object] | None = None
    ) -> LineComparison:
        """Compare the board's outputs with the host's; in the first wrong sample, find the first step that differs.

        If the board fails in the search, the comparison of the outputs is returned with the error.
        """
        if self._origin is None or self._bundle is None:
            raise OptionError("the build of this firmware is not known", hint="name it with `--build DIR`")
        with connected(self._options, self._expected) as (program, identity):
            ran = self._ran
            if ran is not None and ran.samples is samples:
                ours, before = ran.outputs, (ran.sent_again, ran.restarts)
            else:
                ours, before = self._run(program, identity, samples, progress, None), (0, 0)
            theirs: list[Sample] = []
            for i, outputs in enumerate(self._reference(self._origin).run_each(samples)):
                if progress is not None:
                    progress(i, len(samples))
                theirs.append(tuple(outputs))
            compared = compare(identity.board, ours, theirs)

            def result(first: StepDifference | None, error: DeuteronError | None = None) -> LineComparison:
                sent_again, restarts = before[0] + program.client.sent_again, before[1] + program.restarts
                return LineComparison(compared, first, error, sent_again, restarts)

            if compared.passed:
                return result(None)
            number = compared.differences[0].sample
            history = samples[self._start(number) : number]
            try:
                first = first_difference.find(
                    self._bundle, program, history, samples[number], number, theirs[number], progress
                )
            except (BoardError, FormatError, InputError) as e:
                return result(None, e)
            return result(first)

    def _reference(self, build: Path) -> Subject:
        """Return the build on the host."""
        of_file = self._host is None and manifests.TFLITE in manifests.read(build).files
        host = self._host or (BundleOnHost(build) if of_file else BuildOnHost(build))
        host.resets = self.resets
        return host

    def _start(self, number: int) -> int:
        """Return the sample with the initial state that a sample's sequence starts from."""
        resets = self.resets
        return number if resets is None else max((i for i in resets if i <= number), default=0)

    def text(self) -> str:
        """Return the times of the first run by step, of preparation and of all runs, the stack and the line."""
        return "" if self._ran is None else "\n".join(line_report.lines(self._ran, self._expected))

    def to_json(self) -> Mapping[str, object]:
        """Return the times of every run by step, and the stack."""
        return {} if self._ran is None else line_report.to_json(self._ran, self._expected)


def _reporting(program: BoardProgram, progress: Progress, on: str) -> Callable[[int, int], None]:
    """Return a callback for the samples of a run; it also reports tenths of large tensors."""
    current = 0, 0

    def report(done: int, of: int) -> None:
        nonlocal current
        current = done, of
        progress(on, done, of)

    def report_block(area: Area, index: int, done: int, size: int) -> None:
        before = done - program.client.identity.block_bytes
        if size >= _LARGE and 10 * done // size != 10 * before // size:
            progress(f"{on}: {area.name.lower()} {index}, {done:,} of {size:,} B", *current)

    program.client.on_block = report_block
    return report


def _check_serial(path: Path, firmware: firmware_record.Firmware) -> None:
    if firmware.options.harness is not firmware_record.Harness.SERIAL:
        raise OptionError(
            f"`{path}` was built for semihosting: it has no harness for a serial line",
            hint=f"build it with `--harness serial`, or run it with `--on {firmware.board}`",
        )
