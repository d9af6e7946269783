"""`deuteron run`: a build on this machine, through ExecuTorch's own runtime, or a TFLite file on the driver alone."""

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import click

from deuteron.board.flash import FlashOptions
from deuteron.cli.flash import flash_options
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer, Report
from deuteron.errors import InputError, OptionError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from deuteron.api import Signature
    from deuteron.views.agreement.board import Agreement
    from deuteron.views.agreement.litert import Comparison as LitertComparison
    from deuteron.views.agreement.pytorch import Comparison as PytorchComparison

    Array = npt.NDArray[np.generic]
    Sample = tuple[Array, ...]
    Run = Callable[[Sequence[Array]], list[Array]]
    Comparison = PytorchComparison | LitertComparison | Agreement

    class Model(Signature, Protocol):
        """What a program takes and gives."""

        @property
        def outputs(self) -> Sequence[object]:
            """One entry per output."""
            ...


SHOWN = 20
"""Samples that the text report lists."""

REFERENCES = ("reference", "pytorch", "litert", "host")
"""What `--compare` may name; the first, the one that fits the model, need not be."""


class _Command(click.Command):
    """The command, whose `--compare` may stand before the path without a value of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """What is left of the arguments when the options are read."""
        following = (*args[1:], "")
        named = (arg == "--compare" and after not in REFERENCES for arg, after in zip(args, following, strict=True))
        return super().parse_args(
            ctx, [f"{arg}={REFERENCES[0]}" if bare else arg for arg, bare in zip(args, named, strict=True)]
        )


@partial(new_command, cls=_Command)
@click.argument("path", metavar="DIR|FILE.tflite", type=Path)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="X.npy",
    type=Path,
    help="One file per input of the model, in order; one dimension more than the input means several samples.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="Y.npy",
    type=Path,
    help="One file per output of the model, in order; several samples are stacked along a new first dimension.",
)
@click.option(
    "--samples",
    type=click.IntRange(1),
    metavar="N",
    help="Number of random samples when no input is given; 1 by default.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random samples.")
@click.option(
    "--compare",
    type=click.Choice(REFERENCES),
    help="Compare every operator with quantised PyTorch (a build) or LiteRT (a file), or a board with the host; "
    "exit 1 beyond the bounds.",
)
@click.option("--on", metavar="BOARD", help="Run on a board (`an505` or `an547`) in an emulator, not on the host.")
@click.option(
    "--build", "origin", metavar="DIR", type=Path, help="What firmware was made from, for `--compare host` with it."
)
@click.option(
    "--time-out",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="When an emulator counts as hung.",
)
@flash_options
@click.option(
    "--target", metavar="NAME", help="What a TFLite file is converted for, unless it has been.  [default: imxrt700]"
)
@click.option("--force", is_flag=True, help="Replace output files that exist.")
def command(
    printer: Printer,
    *,
    path: Path,
    inputs: tuple[Path, ...],
    outputs: tuple[Path, ...],
    samples: int | None,
    seed: int,
    compare: str | None,
    on: str | None,
    origin: Path | None,
    time_out: float | None,
    flash: FlashOptions,
    target: str | None,
    force: bool,
) -> int:
    """Run the build in DIR, or FILE.tflite; with no `--input`, on random samples.

    On the host, a build runs through ExecuTorch's own runtime; a TFLite file is converted, unless it has been already,
    and runs on the NPU driver alone. With `--on`, DIR is a build, for which firmware is made, or firmware that
    `deuteron firmware` has written; instructions are counted then.
    """
    from deuteron import api

    if inputs and samples is not None:
        raise OptionError("`--samples` makes random samples, `--input` reads them", hint="leave one of them out")
    has_flash = flash != FlashOptions()
    for what, given in (
        ("`--build` is", origin),
        ("`--time-out` is", time_out),
        ("the options about the flash are", has_flash),
    ):
        if given and not on:
            raise OptionError(f"{what} for emulators", hint="name a board with `--on`")
    if on:
        from deuteron.cli.run_on import OnBoard

        subject = OnBoard(path, on, time_out, flash, origin)
    else:
        subject = _File(path, target or api.DEFAULT_TARGET) if path.is_file() else _Directory(path)
    if target and subject.is_compiled:
        raise OptionError(f"`{path}` has been compiled for its target already", hint="leave out `--target`")
    subject.check(compare)
    _check_outputs(len(subject.model.outputs), outputs, force=force)
    data = read_samples(subject.model, inputs) if inputs else api.seeded_inputs(subject.model, samples or 1, seed)
    for sample in data:
        api.check_inputs(subject.model, sample)
    _warn_of_nan(printer, data)
    if outputs or not compare:
        with printer.work("running") as progress:
            results = subject.run(data, progress)
        _write(printer, outputs, results)
        if not compare:
            _report(printer, results, subject)
    return _compare(printer, subject, data) if compare else 0


class Subject(Protocol):
    """What is run, and where."""

    is_compiled: bool

    @property
    def model(self) -> "Model":
        """What it takes and gives."""
        ...

    def check(self, compare: str | None) -> None:
        """Refuses the wrong reference."""
        ...

    def run(self, data: "Sequence[Sample]", progress: Report) -> "list[Sample]":
        """The outputs for each sample."""
        ...

    def compare(self, data: "Sequence[Sample]", progress: "Callable[[int, int], object]") -> "Comparison":
        """The comparison with the reference."""
        ...

    def text(self) -> str:
        """What there is to tell of the last run beside its outputs."""
        ...

    def to_json(self) -> "Mapping[str, object]":
        """The same as entries of the report."""
        ...


class _OnHost:
    """What runs sample by sample on this machine and gives outputs only."""

    def runner(self) -> "Run":
        """What runs one sample."""
        raise NotImplementedError

    def run(self, data: "Sequence[Sample]", progress: Report) -> "list[Sample]":
        """The outputs for each sample."""
        run = self.runner()
        results: list[Sample] = []
        for i, sample in enumerate(data):
            progress(f"sample {i}", i, len(data))
            results.append(tuple(run(sample)))
        return results

    def text(self) -> str:
        """Nothing."""
        return ""

    def to_json(self) -> "Mapping[str, object]":
        """Nothing."""
        return {}


class _Directory(_OnHost):
    """A build directory, which ExecuTorch's runtime runs."""

    def __init__(self, path: Path) -> None:
        from deuteron import api

        self.path = path
        self.model = api.read_manifest(path)
        self.is_compiled = True

    def check(self, compare: str | None) -> None:
        """Refuses the wrong reference."""
        if compare == "host":
            raise OptionError("this runs on the host already", hint="name a board with `--on`")
        if compare == "litert":
            raise OptionError(
                "a build is compared with PyTorch, not with LiteRT",
                hint="use `--compare`, or run one of its TFLite files, `npu_0.tflite` and so on",
            )

    def runner(self) -> "Run":
        """What runs one sample."""
        from deuteron.runtime.host import HostRunner

        return HostRunner(self.path / "model.pte").run

    def compare(self, data: "Sequence[Sample]", progress: "Callable[[int, int], object]") -> "Comparison":
        """The comparison with the quantised PyTorch model."""
        from deuteron.views.agreement.pytorch import compare

        return compare(self.path, data, progress)


class _File(_OnHost):
    """A TFLite file, which the driver runs."""

    def __init__(self, path: Path, target: str) -> None:
        from deuteron.runtime import tflite_model

        self.path = path
        self.model = tflite_model.load(path, target)
        self.is_compiled = self.model.conversion is None

    def check(self, compare: str | None) -> None:
        """Refuses the wrong reference."""
        if compare == "host":
            raise OptionError("this runs on the host already", hint="use `--compare litert`")
        if compare == "pytorch":
            raise OptionError("a TFLite file is compared with LiteRT, not with PyTorch", hint="use `--compare litert`")

    def runner(self) -> "Run":
        """What runs one sample."""
        return self.model.run

    def compare(self, data: "Sequence[Sample]", progress: "Callable[[int, int], object]") -> "Comparison":
        """The comparison with LiteRT."""
        from deuteron.views.agreement.litert import compare

        return compare(self.model, data, progress)


def _check_outputs(count: int, outputs: Sequence[Path], *, force: bool) -> None:
    """Refuse output files that cannot be written, before any work is done."""
    from deuteron.api import check_file

    if outputs and len(outputs) != count:
        raise OptionError(f"the model has {count} outputs, `--output` is given {len(outputs)} times")
    for path in outputs:
        if outputs.count(path) > 1:
            raise OptionError(
                f"`--output` names `{path}` {outputs.count(path)} times", hint="one file takes one output"
            )
        check_file(path, force=force)


def read_samples(model: "Signature", paths: Sequence[Path]) -> "list[Sample]":
    """The samples that the input files hold: one, or as many as their extra first dimension says."""
    if len(paths) != len(model.inputs):
        raise OptionError(f"the model has {len(model.inputs)} inputs, `--input` is given {len(paths)} times")
    columns: list[list[Array]] = []
    for path, wanted in zip(paths, model.inputs, strict=True):
        array = _read_array(path)
        columns.append(list(array) if array.ndim == len(wanted.shape) + 1 else [array])
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        raise InputError(f"the input files hold different numbers of samples: {', '.join(map(str, sorted(counts)))}")
    if counts == {0}:
        raise InputError("the input files hold no sample")
    return list(zip(*columns, strict=True))


def _warn_of_nan(printer: Printer, data: "Sequence[Sample]") -> None:
    import numpy as np

    if bad := [i for i, sample in enumerate(data) if not all(np.isfinite(value).all() for value in sample)]:
        printer.warn(f"{len(bad)} of {len(data)} samples hold NaN or infinite values, the first is sample {bad[0]}")


def _read_array(path: Path) -> "Array":
    import numpy as np

    try:
        array: object = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"`{path}` does not exist") from None
    except (ValueError, EOFError, OSError) as e:
        raise InputError(f"`{path}` is not a .npy file: {e}", hint="write it with `numpy.save`") from e
    if not isinstance(array, np.ndarray):
        raise InputError(f"`{path}` is not a .npy file but an archive", hint="write one array with `numpy.save`")
    return cast("Array", array)


def _write(printer: Printer, paths: Sequence[Path], results: "Sequence[Sample]") -> None:
    import numpy as np

    from deuteron.api import write_files

    files: dict[Path, bytes] = {}
    for i, path in enumerate(paths):
        data = io.BytesIO()
        np.save(data, results[0][i] if len(results) == 1 else np.stack([outputs[i] for outputs in results]))
        files[path] = data.getvalue()
    if files:
        write_files(files)
    for path in files:
        printer.note(f"wrote `{path}`")


def _report(printer: Printer, results: "Sequence[Sample]", subject: Subject) -> None:
    """Every output in JSON; in text its range and, for a row of scores, the best; then what else there is to tell."""
    if printer.as_json:
        samples = [[{"shape": list(y.shape), "dtype": y.dtype.name, "values": y.tolist()} for y in s] for s in results]
        printer.json({"schema": 1, "samples": samples, **subject.to_json()})
        return
    for i, sample in enumerate(results[:SHOWN]):
        for j, y in enumerate(sample):
            printer.data(
                f"sample {i}  output {j}  {y.dtype} {list(y.shape)}  min {y.min():g}  max {y.max():g}  "
                f"argmax {int(y.argmax())}"
            )
    if len(results) > SHOWN:
        printer.data(f"[{len(results) - SHOWN} others]")
    if text := subject.text():
        printer.data(text)


def _compare(printer: Printer, subject: Subject, data: "Sequence[Sample]") -> int:
    """Compare with the reference and report it; 1 when a bound is exceeded."""
    with printer.work("comparing") as progress:
        comparison = subject.compare(data, lambda done, of: progress("samples", done, of))
    if printer.as_json:
        printer.json(comparison.to_json())
    else:
        printer.data(comparison.text())
    return 0 if comparison.passed else 1
