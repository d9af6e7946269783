"""`deuteron run`: runs a build or `.pte` in ExecuTorch's runtime on this computer, or a TFLite file without it."""

import re
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deuteron.board.flash import FlashOptions
from deuteron.cli.flash_options import flash_options
from deuteron.cli.options import PATH, Command, etrecord_option, note_missing_facts, target_note, tflite_options
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer
from deuteron.errors import BoardError, OptionError, counted

if TYPE_CHECKING:
    from deuteron.builds.options import TfliteOptions
    from deuteron.runtime.inputs import Sample
    from deuteron.views.run.subjects import Subject

SHOWN = 20
"""Number of samples that the text report lists."""

REFERENCES = ("reference", "pytorch", "litert", "host", "float")
"""Values of `--compare`, see `views.run.subjects`.

The value may be omitted for the first, which fits the model, and for the host where a board runs.
"""


_PAIR = re.compile(r"\d*=\d*")
_OWN_STATE = "own"
"""Value of a `--stream` without one."""


class _Command(Command):
    """The command, whose `--compare` and `--stream` may precede the path without a value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options and return the rest of the arguments."""
        fits = "host" if any(arg.partition("=")[0] == "--on" for arg in args) else REFERENCES[0]
        given: list[str] = []
        for arg, after in zip(args, (*args[1:], ""), strict=True):
            if arg == "--compare" and after not in REFERENCES:
                given.append(f"{arg}={fits}")
            elif arg == "--stream" and not _PAIR.fullmatch(after):
                given.append(f"--stream={_OWN_STATE}")
            else:
                given.append(arg)
        return super().parse_args(ctx, given)

    def hint_about_extra(self, ctx: click.Context, args: list[str], extra: str) -> str | None:
        """Return the hint about an argument too many: `--compare` takes its value only if it knows it."""
        values = [after for arg, after in pairwise(args) if arg.startswith("--compare=")]
        if any(not value.startswith("-") and not Path(value).exists() for value in values):
            return f"`--compare` is one of {', '.join(f'`--compare={name}`' for name in REFERENCES)}"
        return super().hint_about_extra(ctx, args, extra)


@partial(new_command, cls=_Command)
@click.argument("path", metavar="DIR|FILE", type=PATH)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="X.npy",
    type=PATH,
    help="One file per input of the model, in order; one more dimension than the input's means several samples.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="Y.npy",
    type=PATH,
    help="One file per output of the model, in order; several samples are stacked along a new first dimension.",
)
@click.option(
    "--samples",
    type=click.IntRange(1),
    metavar="N",
    help="Number of samples without `--input`, 1 by default: those stored in the build, then random ones like them.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random samples.")
@click.option(
    "--compare",
    type=click.Choice(REFERENCES),
    help="Compare with quantized PyTorch (a build), LiteRT (a file) or the host (a board); exit 1 beyond the "
    "bounds. Compares each operator on a Neutron, each partition on an Ethos-U, outputs on a CPU. `float`: "
    "error from the float model on the build's stored samples.",
)
@click.option(
    "--stream",
    multiple=True,
    metavar="[INPUT=OUTPUT]",
    help="Samples are windows of one stream: the state that a program keeps lasts from one to the next. Otherwise each "
    "starts from the initial state. With INPUT=OUTPUT, an input is a state: the previous window's output, "
    "first zeros. `--input` files are then for the other inputs.",
)
@click.option(
    "--reset",
    "resets",
    multiple=True,
    type=click.IntRange(0),
    metavar="N",
    help="With --stream: start a new stream, from the initial state, at sample N; may be repeated.",
)
@click.option(
    "--on",
    metavar="BOARD|LINE",
    help="Run on a board (`an500`, `an505`, `an547`) in an emulator, or on one at a line (`serial:/dev/ttyACM0`, "
    "`tcp:HOST:PORT`), not on the host.",
)
@click.option("--baud", type=click.IntRange(1), metavar="N", help="Rate of a serial port.  [default: 115200]")
@click.option(
    "--build", "origin", metavar="DIR", type=PATH, help="Build that the firmware was made from, for `--compare host`."
)
@click.option(
    "--time-out",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Time after which an emulator, or the run of one sample on a board, counts as hung.",
)
@flash_options
@click.option("--target", metavar="NAME", help="Target of a TFLite file that is not compiled yet.  [default: imxrt700]")
@etrecord_option
@tflite_options
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
    stream: tuple[str, ...],
    resets: tuple[int, ...],
    on: str | None,
    baud: int | None,
    origin: Path | None,
    time_out: float | None,
    flash: FlashOptions,
    target: str | None,
    etrecord: Path | None,
    tflite: "TfliteOptions",
    force: bool,
) -> int:
    """Run the build in DIR, or a .pte or TFLite file; without `--input`, on random samples.

    On the host, builds of PyTorch models and .pte files run in ExecuTorch's runtime. TFLite files and their builds run
    in the firmware's executor with its C operators; on `imxrt700`, NPU partitions run in the NPU driver, other
    operators in LiteRT. A file that Vela compiled for an Ethos-U runs as it is. With `--on`, give a build or a file,
    for which firmware is made, or a directory of `deuteron firmware`; the emulator counts instructions. A board at a
    line must have firmware with `--harness serial`.
    """
    from deuteron import api
    from deuteron.board.harness.program import UnfinishedError
    from deuteron.views.run import samples as files
    from deuteron.views.run import stream as streams

    if inputs and samples is not None:
        raise OptionError("`--samples` makes random samples, `--input` reads them", hint="leave one of them out")
    subject = api.subject(
        path,
        on=on,
        target=target,
        etrecord=etrecord,
        tflite=tflite,
        time_out=time_out,
        flash=flash,
        origin=origin,
        baud=baud,
    )
    subject.check(compare)
    if compare == "float" and (inputs or samples is not None):
        raise OptionError(
            "results of the float model exist for the build's stored samples only",
            hint="leave out `--input` and `--samples`; `deuteron build --evaluate` measures other data",
        )
    if stream and compare == "float":
        raise OptionError(
            "the build's stored samples are not a stream", hint="leave out `--compare float` or `--stream`"
        )
    if _OWN_STATE in stream:
        subject.resets = (0, *resets)
    elif resets:
        raise OptionError(
            "`--reset` starts a new stream, and `--stream` is not given without INPUT=OUTPUT",
            hint="add `--stream`; without it, each sample starts from the initial state",
        )
    pairs = streams.parse(pair for pair in stream if pair != _OWN_STATE)
    streamed = streams.Stream(subject, pairs) if pairs else None
    files.check_outputs(len(subject.model.outputs), outputs, force=force)
    if inputs:
        data = files.read_samples(streamed or subject.model, inputs, is_stream=streamed is not None)
    else:
        data = [*subject.kept_samples().inputs] if compare == "float" else subject.draw(samples or 1, seed)
        data = streamed.windows(data) if streamed else data
    if resets and max(resets) >= len(data):
        raise OptionError(
            f"`--reset {max(resets)}` is after the last sample: there are {counted(len(data), 'sample')}",
            hint=f"give the number of a sample, 0 to {len(data) - 1}",
        )
    for sample in data:
        api.check_inputs(streamed or subject.model, sample)
    if bad := files.not_finite(data):
        printer.warn(f"{len(bad)} of {len(data)} samples hold NaN or infinite values, the first is sample {bad[0]}")
    if on:
        note_missing_facts(printer, path, target, etrecord)
    # A board always runs here, where its samples are reported, and a comparison takes the outputs.
    if outputs or not compare or streamed or (on and compare == "host"):
        results: list[Sample] = []
        try:
            with printer.work("running") as progress:
                if streamed:
                    complete: list[Sample] = []
                    for sample, ran in streamed.run(data):
                        complete.append(sample)
                        results.append(tuple(ran))
                    data = complete
                else:
                    results = subject.run(data, progress)
        except BoardError as e:
            results = e.outputs if isinstance(e, UnfinishedError) else results
            if results:
                _write(printer, outputs, results, f" with the {counted(len(results), 'finished sample')}")
            raise
        _write(printer, outputs, results)
        if not compare:
            _report(printer, results, subject)
    code = _compare(printer, subject, None if compare == "float" else data) if compare else 0
    if subject.default_target:
        printer.note(target_note(subject.default_target, is_default=True))
    return code


def _write(printer: Printer, outputs: "Sequence[Path]", results: "Sequence[Sample]", which: str = "") -> None:
    """Write the outputs to their files, and say so; `which` ends the sentence."""
    from deuteron.views.run import samples as files

    files.write_outputs(outputs, results)
    for written in outputs:
        printer.note(f"wrote `{written}`{which}")


def _report(printer: Printer, results: "Sequence[Sample]", subject: "Subject") -> None:
    """Print every output in JSON; in text its range, the best of a row of scores, and further facts."""
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


def _compare(printer: Printer, subject: "Subject", data: "Sequence[Sample] | None") -> int:
    """Compare with the reference, or without data with the float model; return 1 if a bound is exceeded."""
    with printer.work("comparing") as progress:
        if data is None:
            comparison = subject.compare_floats(progress)
        else:
            comparison = subject.compare(data, lambda done, of: progress("comparison", done, of))
    if printer.as_json:
        printer.json(comparison.to_json())
    else:
        printer.data(comparison.text())
    return 0 if comparison.passed else 1
