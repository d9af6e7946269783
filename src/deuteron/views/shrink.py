"""Cuts a TFLite file into stripes of rows, so that runtimes need a smaller tensor arena, and verifies the result."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deuteron.board import image
from deuteron.board.build_directory import build_directory
from deuteron.board.host_executor import HostExecutor
from deuteron.builds.options import TfliteOptions
from deuteron.errors import CapacityError, DeuteronError, FormatError, InternalError, UnsupportedError, counted
from deuteron.graph_stripes.liveness import Arena
from deuteron.graph_stripes.search import SegmentSearch, Shrunk
from deuteron.graph_stripes.tflite_rows import ITEM_BYTES, nbytes
from deuteron.runtime import tflite_model
from deuteron.runtime.inputs import Array, seeded_inputs
from deuteron.runtime.litert import Litert
from deuteron.tflite.decode import HINT, decode
from deuteron.tflite.flat_model import Buffer, FlatModel
from deuteron.views.shrink_file import written

SAMPLES = 3
"""Random inputs for which the outputs of both files are compared; a state goes from one to the next."""

_CPU = "cortex-m55"
"""The target whose program verifies a file where LiteRT does not run it."""

_REPORT = "report the file with this text; nothing was written"


@dataclass(frozen=True, slots=True)
class CutSegment:
    """Operators that run in stripes.

    Attributes:
        operators: index of the first, and of the one after the last.
        names: the first and the last operator.
        stripes: number of stripes.
        height: rows of the last operator in a stripe.
        macs: multiply-accumulates that are computed again.
        kept: bytes of rows that are copied for the next stripe.
        halo: largest number of rows of one operator that two neighbouring stripes compute.
    """

    operators: tuple[int, int]
    names: tuple[str, str]
    stripes: int
    height: int
    macs: int
    kept: int
    halo: int


@dataclass(frozen=True, slots=True)
class Shrinking:
    """A file in stripes.

    Attributes:
        file: the TFLite file; the given one if it fits as it is.
        before: arena of the given file.
        after: arena of this one.
        segments: what runs in stripes.
        dropped: what the file does not have any more, one sentence each.
        verified_by: what has run both files with the same outputs; empty if they are the same.
    """

    file: bytes
    before: Arena
    after: Arena
    segments: tuple[CutSegment, ...]
    dropped: tuple[str, ...]
    verified_by: str


def shrink(path: Path, limit: int) -> Shrinking:
    """Return a file with the same outputs whose tensor arena is within a limit, with the least added work found.

    The arena is estimated by liveness: the tensors that are live at the same time, in the order of the operators.
    Runtimes add their own bytes and what their placement of tensors loses.

    Raises:
        FormatError: the file is damaged.
        UnsupportedError: it cannot be written again as it is.
        CapacityError: no cut within the limit is found; the error names the least.
    """
    source = tflite_model.read(path)
    with tflite_model.told_where(path):
        model = _model(source)
        search = SegmentSearch(model)
        if search.before.nbytes <= limit:
            return Shrinking(bytes(source), search.before, search.before, (), (), "")
        found = search.within(limit)
        if found is None:
            raise _too_large(search, limit)
        file, dropped = written(found.cut.model, model, source)
        by = verified(bytes(source), file)
        return Shrinking(file, found.before, found.after, _segments(model, found), dropped, by)


def _model(source: Buffer) -> FlatModel:
    """Return the file as values; UnsupportedError for one that has more than these values."""
    names = {op.name for op in decode(source, partial=True).operators}
    if state := sorted(names & {"ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE"}):
        raise UnsupportedError(
            f"the file keeps state in variables ({', '.join(state)}); `shrink` takes files without variables",
            hint="`deuteron build` takes them, and `--sram-budget` runs chains of layers in stripes",
        )
    model = decode(source)
    if not model.is_complete:
        raise UnsupportedError(
            "an operator has options that this schema of TFLite lacks; they would be lost",
            hint="write the file with an older exporter",
        )
    for tensor in model.tensors:
        if tensor.data and tensor.dtype in ITEM_BYTES and len(tensor.data) != nbytes(tensor):
            has, needs = len(tensor.data), nbytes(tensor)
            raise FormatError(f"constant `{tensor.name}` has {has:,} bytes, its shape needs {needs:,}", hint=HINT)
    return model


def _segments(model: FlatModel, found: Shrunk) -> tuple[CutSegment, ...]:
    return tuple(
        CutSegment(
            (cut.first, cut.last),
            (model.operators[cut.first].title, model.operators[cut.last - 1].title),
            stripes,
            cut.height,
            work.macs,
            work.copied,
            work.halo,
        )
        for cut, stripes, work in zip(found.cuts, found.cut.stripes, found.cut.work, strict=True)
    )


def verified(before: bytes, after: bytes) -> str:
    """Compare the outputs of both files for random inputs, one run after the other, and return what has run them.

    Raises:
        UnsupportedError: nothing here runs the given file.
        InternalError: the outputs differ, or what runs the given file refuses the other one.
    """
    samples = seeded_inputs(_Inputs(before), SAMPLES)
    why: DeuteronError | None = None
    for name, runner in (("LiteRT", _by_litert), (f"our executor for {_CPU}", _by_executor)):
        try:
            expected = list(map(runner(before), samples))
        except DeuteronError as error:
            why = why or error
            continue
        try:
            got = list(map(runner(after), samples))
        except DeuteronError as error:
            raise InternalError(
                f"{name} runs the given file and refuses the one in stripes: {error.message}", hint=_REPORT
            ) from error
        for first, second in zip(expected, got, strict=True):
            if any(a.tobytes() != b.tobytes() for a, b in zip(first, second, strict=True)):
                raise InternalError(f"{name} computes other outputs with the file in stripes", hint=_REPORT)
        return name
    raise UnsupportedError(
        f"the file in stripes cannot be compared with the given one: {why.message if why else ''}",
        hint="install LiteRT with `pip install 'deuteron[litert]'`",
    )


class _Inputs:
    """The inputs of a file."""

    def __init__(self, source: bytes) -> None:
        model = decode(source, partial=True)
        self.inputs = tflite_model.infos(model, model.inputs)


def _by_litert(file: bytes) -> Callable[[Sequence[Array]], list[Array]]:
    interpreter = Litert(file)
    return lambda sample: [np.array(value) for value in interpreter.run(sample)]


def _by_executor(file: bytes) -> Callable[[Sequence[Array]], list[Array]]:
    with tempfile.TemporaryDirectory(prefix="deuteron-shrink-") as scratch:
        path = Path(scratch) / "model.tflite"
        path.write_bytes(file)
        build = build_directory(path, _CPU, tflite=TfliteOptions(keep_dead_channels=True))
        return HostExecutor(image.bundle_of(build)).run


def _too_large(search: SegmentSearch, limit: int) -> CapacityError:
    """Return the error for a limit that is too small, with the least that is found and what stands in the way."""
    best = search.least(limit)
    least = search.before if best is None else best.after
    uncut = [at for at, op in enumerate(search.graph.operators) if op is None]
    most = max(uncut, key=lambda at: search.live[at], default=None)
    where = None
    if most is not None and search.live[most] > limit:
        where = f"operator {search.model.operators[most].number(most)} ({search.model.operators[most].title})"
    message = f"the tensor arena needs {search.before.nbytes:,} bytes, and {least.nbytes:,} with "
    message += f"{counted(len(best.cuts), 'segment')} in stripes" if best else "no segment in stripes"
    return CapacityError(
        f"{message}; the limit is {limit:,}",
        where=f"{where} needs {search.live[most]:,} bytes and cannot be cut" if where and most is not None else None,
        hint=f"give `--arena {least.nbytes}` or more, or make the input smaller",
    )
