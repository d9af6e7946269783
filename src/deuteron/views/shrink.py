"""Cuts a TFLite file into stripes of rows, so that runtimes need a smaller tensor arena, and verifies the result."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deuteron.board import image
from deuteron.board.host_executor import HostExecutor
from deuteron.builds.options import TfliteOptions
from deuteron.errors import CapacityError, DeuteronError, InternalError, UnsupportedError, counted
from deuteron.graph_stripes.liveness import Arena
from deuteron.graph_stripes.search import SegmentSearch, Shrunk
from deuteron.runtime import tflite_model
from deuteron.runtime.build_directory import build_directory
from deuteron.runtime.inputs import Array, seeded_inputs
from deuteron.runtime.litert import Litert
from deuteron.runtime.vela import PLAN
from deuteron.tflite.decode import Decoder, decode
from deuteron.tflite.encode import Encoder
from deuteron.tflite.flat_model import Buffer, FlatModel

SAMPLES = 2
"""Random inputs for which the outputs of both files are compared."""

_CPU = "cortex-m55"
"""The target whose program verifies a file where LiteRT does not run it."""


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
        verified_by: what has run both files with the same outputs; empty if they are the same.
    """

    file: bytes
    before: Arena
    after: Arena
    segments: tuple[CutSegment, ...]
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
            return Shrinking(bytes(source), search.before, search.before, (), "")
        found = search.within(limit)
        if found is None:
            raise _too_large(search, limit)
        file = _written(found.cut.model, model, source)
        return Shrinking(file, found.before, found.after, _segments(model, found), _verified(bytes(source), file))


def _model(source: Buffer) -> FlatModel:
    """Return the file as values; UnsupportedError for one that has more than these values."""
    model = decode(source)
    if not model.is_complete:
        raise UnsupportedError(
            "an operator has options that this schema of TFLite lacks; they would be lost",
            hint="write the file with an older exporter",
        )
    if len(_signatures(source)) > 1:
        raise UnsupportedError(
            "the file has several signatures; one is allowed", hint="export the model with one signature"
        )
    return model


def _signatures(source: Buffer) -> Sequence[Any]:
    root: Any = Decoder(source, partial=True).root.raw
    return [root.SignatureDefs(i) for i in range(root.SignatureDefsLength())]


class _Encoder(Encoder):
    """Writes a model with the signature of its source."""

    def __init__(self, model: FlatModel, source: FlatModel, signature: Any) -> None:
        super().__init__(model)
        self._source, self._signature = source, signature

    def signature(self, name: str, model: FlatModel, subgraph: int = 0) -> int:
        """Offset of the signature."""
        maps: dict[str, int] = {}
        for side, before, after in (
            ("Inputs", self._source.inputs, model.inputs),
            ("Outputs", self._source.outputs, model.outputs),
        ):
            given = [getattr(self._signature, side)(i) for i in range(getattr(self._signature, f"{side}Length")())]
            places = [after[before.index(one.TensorIndex())] for one in given]
            names = [self.text(one.Name().decode()) for one in given]
            entries = [self.table("TensorMap", Name=n, TensorIndex=i) for n, i in zip(names, places, strict=True)]
            maps[side] = self.offsets(entries)
        return self.table("SignatureDef", SignatureKey=self.text(name), SubgraphIndex=subgraph, **maps)


def _written(model: FlatModel, source: FlatModel, data: Buffer) -> bytes:
    """Return the bytes of the cut model, without a plan of memory for other tensors."""
    model = replace(model, metadata={name: value for name, value in model.metadata.items() if name != PLAN})
    signature = next(iter(_signatures(data)), None)
    if signature is None:
        return Encoder(model).finish()
    return _Encoder(model, source, signature).finish((signature.SignatureKey() or b"").decode())


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


def _verified(before: bytes, after: bytes) -> str:
    """Compare the outputs of both files for random inputs, and return what has run them.

    Raises:
        UnsupportedError: nothing here runs the file.
        InternalError: the outputs differ.
    """
    samples = seeded_inputs(_Inputs(before), SAMPLES)
    why: DeuteronError | None = None
    for name, runner in (("LiteRT", _by_litert), (f"our executor for {_CPU}", _by_executor)):
        try:
            first, second = runner(before), runner(after)
            results = [(first(sample), second(sample)) for sample in samples]
        except DeuteronError as error:
            why = why or error
            continue
        for expected, got in results:
            if any(a.tobytes() != b.tobytes() for a, b in zip(expected, got, strict=True)):
                raise InternalError(
                    f"{name} computes other outputs with the file in stripes",
                    hint="report the file with this text; nothing was written",
                )
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
        return HostExecutor(image.bundle_of(build)).run_from_reset


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
