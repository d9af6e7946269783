"""Runs a build, or firmware, on a board in an emulator."""

import tempfile
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from deuteron.board import boards, firmware_record, image, qemu
from deuteron.board.bundle import Value
from deuteron.board.flash import FlashOptions
from deuteron.board.tensor_bytes import dtype_name
from deuteron.board.toolchain import Toolchain
from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import TensorInfo
from deuteron.errors import OptionError
from deuteron.runtime.inputs import Array, Sample
from deuteron.views.compare.board import HostComparison, compare
from deuteron.views.run.host import BuildOnHost
from deuteron.views.run.subjects import Progress, Subject
from deuteron.views.run.tflite import BundleOnHost

NAMES = {
    qemu.EventKind.COPY_IN: "copy of input",
    qemu.EventKind.STEP: "step",
    qemu.EventKind.COPY_OUT: "copy of output",
}


@dataclass(frozen=True, slots=True)
class Model:
    """Inputs and outputs of a program."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


@dataclass(frozen=True, slots=True)
class _Run:
    """The last run: the samples, the firmware, and the emulator's report."""

    samples: Sequence[Sample]
    firmware: firmware_record.Firmware
    report: qemu.EmulatorReport

    @property
    def outputs(self) -> list[Sample]:
        """Return the outputs of each sample."""
        return [run.outputs for run in self.report.runs]


class OnBoard(Subject):
    """A build, for which firmware is made, or firmware, on a board."""

    def __init__(
        self,
        path: Path,
        board: str,
        time_out: float | None,
        flash: FlashOptions,
        origin: Path | None = None,
        host: Subject | None = None,
    ) -> None:
        """Attributes as of the class; `host` is the origin of `path` if that runs on the host and is not a build."""
        self._path = path
        self._host = host
        self.is_compiled = host is None
        self._origin = origin
        self._time_out = time_out or qemu.TIME_OUT
        self._flash = flash
        self._firmware: firmware_record.Firmware | None = None
        self._ran: _Run | None = None
        if path.is_file():
            raise OptionError(
                f"`{path}` is a file, but a board needs a directory",
                hint="give a directory of `deuteron build` or `deuteron firmware`",
            )
        self._is_firmware = (path / firmware_record.FILE.name).is_file()
        if self._is_firmware:
            self._firmware = firmware_record.read(path)
            if self._firmware.board not in boards.names():
                raise boards.not_emulated(self._firmware.board)
        self._board = boards.load_emulated(board)
        if firmware := self._firmware:
            if firmware.board != board:
                raise OptionError(
                    f"`{path}` is firmware for the board `{firmware.board}`, not for `{board}`",
                    hint=f"run it with `--on {firmware.board}`, or build it for `{board}`",
                )
            self._model = Model(_tensors(firmware.inputs), _tensors(firmware.outputs))
        else:
            build = manifests.read(path)
            self._model = Model(build.inputs, build.outputs)
            if origin:
                raise OptionError(
                    f"`--build` names the build of firmware, but `{path}` is a build itself",
                    hint="leave out `--build`",
                )

    @property
    def build(self) -> Path | None:
        """Return the build itself, or the named build of firmware."""
        return self._origin if self._is_firmware else self._path

    @property
    def board(self) -> str:
        """Return the name of the emulated board."""
        return self._board.name

    @property
    def model(self) -> Model:
        """Return the inputs and outputs of the program."""
        return self._model

    def check(self, reference: str | None) -> None:
        """Reject other references than the host, and firmware of another build than the named one."""
        if reference in ("reference", "pytorch", "litert"):
            raise OptionError(
                f"a board is not compared with `{reference}`",
                hint="use `--compare host` for the same bits, or `--compare float` for the board's error",
            )
        if reference and self._firmware:
            if self._origin is None:
                raise OptionError(
                    f"`{self._path}` is firmware, which does not run on the host",
                    hint="give the build that it was made from with `--build DIR`",
                )
            image.check_origin(self._path, self._firmware, self._origin)

    def run(
        self, samples: Sequence[Sample], progress: Progress | None = None, resets: Collection[int] | None = None
    ) -> list[Sample]:
        """Return the outputs for each sample; `resets` are used in place of the attribute unless None."""
        progress = progress or _ignore_progress
        resets = self.resets if resets is None else resets
        progress(f"firmware for {self._board.name}", 0, 2)
        with self._linked() as (directory, firmware):
            progress(f"on {self._board.machine}", 1, 2)
            report = qemu.run(directory, firmware, self._board, samples, time_out=self._time_out, resets=resets)
        self._ran = _Run(samples, firmware, report)
        return self._ran.outputs

    def run_in_turn(self, samples: Iterable[Sample]) -> Iterator[list[Array]]:
        """Yield the outputs for one sample after the other, each in its own emulator; `text` reports on all.

        A program that keeps state first repeats the samples since its initial state: an emulator starts with that.
        """
        counted: list[qemu.EmulatorRun] = []
        history: list[Sample] = []
        with self._linked() as (directory, firmware):
            for number, sample in enumerate(samples):
                if self.resets is None or number in self.resets or firmware.state is None:
                    history.clear()
                history.append(sample)
                report = qemu.run(directory, firmware, self._board, history, time_out=self._time_out, resets=(0,))
                run = report.runs[-1]
                counted.append(replace(run, outputs=()))
                self._ran = _Run((), firmware, replace(report, runs=tuple(counted)))
                yield list(run.outputs)

    @contextmanager
    def _linked(self) -> Generator[tuple[Path, firmware_record.Firmware]]:
        """Yield the firmware and its directory, which is temporary unless it exists."""
        if self._firmware is not None:
            yield self._path, self._running(self._firmware)
            return
        with tempfile.TemporaryDirectory(prefix="deuteron-run-") as scratch:
            built = image.build(
                self._path, self._board, firmware_record.FirmwareOptions(), Toolchain.find(image.OBJECTS)
            )
            directory = Path(scratch) / "firmware"
            image.write(built, directory, force=False)
            yield directory, self._running(built.record)

    def _running(self, firmware: firmware_record.Firmware) -> firmware_record.Firmware:
        """Return the firmware with the requested flash."""
        return replace(firmware, flash=self._flash.of(firmware.flash))

    def compare(
        self, samples: Sequence[Sample], progress: Callable[[int, int], object] | None = None
    ) -> HostComparison:
        """Compare the board's outputs with the host's."""
        ours = self._ran.outputs if self._ran and self._ran.samples is samples else self.run(samples)
        theirs: list[Sample] = []
        origin = self._origin or self._path
        of_file = self._host is None and manifests.TFLITE in manifests.read(origin).files
        host = self._host or (BundleOnHost(origin) if of_file else BuildOnHost(origin))
        host.resets = self.resets
        for i, outputs in enumerate(host.run_each(samples)):
            if progress is not None:
                progress(i, len(samples))
            theirs.append(tuple(outputs))
        return compare(self._board.name, ours, theirs)

    def text(self) -> str:
        """Return the instructions of the first run by event, of preparation and of all runs, and the stack."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self._ran is None:
            return
        firmware, report = self._ran.firmware, self._ran.report
        run = report.runs[0]
        rows = [(_title(firmware, event), event.instructions) for event in run.events]
        rows += [("executor", run.instructions - sum(n for _, n in rows)), ("run", run.instructions)]
        width = max(len(f"{count:,}") for _, count in rows)
        yield f"\ninstructions of sample 0 on {self._board.name} (counted)"
        yield from (f"  {count:>{width},}  {title}" for title, count in rows)
        yield f"once before the first run: {report.init_instructions:,} to check and prepare the program"
        totals = [run.instructions for run in report.runs]
        if len(totals) > 1:
            yield f"samples 0 to {len(totals) - 1}: {min(totals):,} to {max(totals):,} a run"
        yield f"stack: {run.stack:,} B used of {report.stack_bytes:,} B"
        flash = firmware.flash
        rate = f"{flash.bandwidth:,} B/s" if flash.bandwidth else "all at once"
        yield f"flash: {flash.latency_ns:,} ns, then {rate}"

    def to_json(self) -> Mapping[str, object]:
        """Return the instructions of every run by event, and the stack."""
        if self._ran is None:
            return {}
        firmware, report = self._ran.firmware, self._ran.report
        runs = [
            {
                "instructions": run.instructions,
                "stack_bytes": run.stack,
                "events": [
                    {
                        "kind": event.kind.name.lower(),
                        "index": event.index,
                        "title": _title(firmware, event),
                        "instructions": event.instructions,
                    }
                    for event in run.events
                ],
            }
            for run in report.runs
        ]
        counts = {
            "kind": "counted",
            "unit": "instructions",
            "init": report.init_instructions,
            "stack_bytes_available": report.stack_bytes,
            "flash": asdict(firmware.flash),
            "runs": runs,
        }
        return {"board": self._board.name, "counts": counts}


def _title(firmware: firmware_record.Firmware, event: qemu.EmulatorEvent) -> str:
    name = f"{NAMES[event.kind]} {event.index}"
    return f"{name}: {firmware.steps[event.index].title}" if event.kind is qemu.EventKind.STEP else name


def _ignore_progress(step: str, index: int, count: int) -> None:
    """Ignore a progress report."""


def _tensors(values: Sequence[Value]) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo(value.shape, dtype_name(value)) for value in values)
