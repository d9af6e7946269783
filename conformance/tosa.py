"""Compares programs of ExecuTorch's Ethos-U tests with TOSA's reference model: the same bytes, for random inputs.

The tests themselves allow steps of quantization. The plugin (`site/deuteron_conformance.py`) keeps the programs in a
folder: `NAME.tosa` is Vela's input, and `NAME.partition` its output. `tests.jsonl` names their tests, and `equal.jsonl`
those that gave the same bytes. Names are hashes of the content, so equal ones are not compared again until their tests
or the comparison change.
"""

import hashlib
import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deuteron.errors import DeuteronError, counted
from deuteron.frontend.log_suppression import captured_output
from deuteron.native import library
from deuteron.npu.ethosu import blob
from deuteron.npu.ethosu import tosa as tosa_program
from deuteron.runtime.ethosu import Partition

Array = npt.NDArray[np.generic]
_TESTS = "tests.jsonl"
_EQUAL = "equal.jsonl"
_DTYPES = {"bool": np.int8, "int8": np.int8, "int16": np.int16, "int32": np.int32}
_WIDE = 1000
"""Integers of 32 bits mostly are counts or sums: larger ones overflow in both, each in its way."""
_SHIFT = 3
"""Values up to this can be shifted by each other, and by what the tests shift by, and stay in 8 bits. TOSA gives shifts
beyond a type no meaning; of what a shift takes out of its type TOSA keeps the low bits, the NPU keeps to the type's
ends."""


class Drawn(StrEnum):
    """Kinds of inputs; a partition is compared for the first that the reference model accepts."""

    WIDE = "wide"
    """The whole range of their type."""
    COUNTING = "counting"
    """So, but those of 32 bits count from 0: they are indices, which have to be in range and differ."""
    LAST = "last"
    """So, but of those of 32 bits only the last counts, the others are 0: they are indices along several axes."""
    SMALL = "small"
    """From 1 to 3."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A partition that does not give the reference's bytes: how many values differ, or what went wrong."""

    name: str
    values: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Compared:
    """How many outputs a partition has, how many differ from the reference's, for what inputs, and by what."""

    partition: str
    values: int
    different: int
    drawn: str
    by: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """All partitions that some tests compiled.

    Attributes:
        tests: how many tests compiled any.
        partitions: how many there are.
        values: how many outputs those have.
        counting: how many of the partitions were compared for inputs of 32 bits that count alone.
        narrow: how many of them were compared for inputs from 1 to 3 alone.
        differences: those that differ, or cannot be compared.
    """

    tests: int
    partitions: int
    values: int
    counting: int
    narrow: int
    differences: tuple[Difference, ...]

    @property
    def passed(self) -> bool:
        """True if some were compared and all gave the reference's bytes."""
        return self.partitions > 0 and not self.differences

    def lines(self) -> Iterator[str]:
        """The report."""
        if not self.partitions:
            yield (
                "nothing was compared with TOSA's reference model: no selected test compiled anything for an Ethos-U "
                "with `--tosa`"
            )
            return
        yield (
            f"{counted(self.partitions, 'partition')} of {counted(self.tests, 'test')} compared with TOSA's reference "
            f"model: {self.values:,} outputs, "
            f"{sum(d.values for d in self.differences):,} of them differ"
        )
        if self.counting:
            yield f"  {self.counting} of them with indices that count from 0: the reference model refuses others"
        if self.narrow:
            yield (
                f"  {self.narrow} of them with inputs from 1 to {_SHIFT} alone: the reference model refuses others, or "
                "they are shifted out of their type"
            )
        yield from (f"  {d.name}: {d.why or f'{d.values:,} outputs differ'}" for d in self.differences)


def forget(folder: Path, tests: Collection[str]) -> None:
    """Forget what these tests compiled, which run again."""
    if not folder.is_dir():
        return
    rows = _rows(folder / _TESTS)
    again = {row["partition"] for row in rows if row["test"] in tests}
    _write(folder / _TESTS, (row for row in rows if row["test"] not in tests))
    _write(folder / _EQUAL, (asdict(one) for name, one in _equal(folder).items() if name not in again))


def compare(folder: Path, packages: Path, tests: Collection[str], report_equal: Callable[[str], object]) -> Comparison:
    """Compare programs of these tests with the reference model in `packages`; equal ones are reported."""
    if str(packages) not in sys.path:
        sys.path.append(str(packages))
    compiled = [row for row in _rows(folder / _TESTS) if row["test"] in tests]
    known = _equal(folder)
    if (folder / _EQUAL).is_file():  # without what others compared, and what was not written to its end
        _write(folder / _EQUAL, map(asdict, known.values()))
    names = sorted({row["partition"] for row in compiled})
    compared, differences = list[_Compared](), list[Difference]()
    for name in names:
        one = known.get(name)
        if one is None:
            program, payload = (folder / f"{name}.{suffix}" for suffix in ("tosa", "partition"))
            try:
                one = _compare(program.read_bytes(), payload.read_bytes(), name)
            except BrokenProcessPool:
                differences.append(Difference(name, 0, "not compared: it ends the reference model's process"))
                continue
            except (DeuteronError, RuntimeError, ValueError) as error:
                differences.append(Difference(name, 0, f"{type(error).__name__}: {error}".splitlines()[0]))
                continue
            if one.different:
                differences.append(Difference(name, one.different))
            else:
                with (folder / _EQUAL).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(one)) + "\n")
                report_equal(name)
        compared.append(one)
    drawn = Counter(one.drawn for one in compared)
    return Comparison(
        len({row["test"] for row in compiled}), len(names), sum(one.values for one in compared),
        drawn[Drawn.COUNTING] + drawn[Drawn.LAST], drawn[Drawn.SMALL], tuple(differences),
    )  # fmt: skip


def _rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, if it is there."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def _equal(folder: Path) -> dict[str, _Compared]:
    """The partitions that were compared by what compares them now; a line that was not written to its end is none."""
    path, rows = folder / _EQUAL, list[dict[str, Any]]()
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return {row["partition"]: _Compared(**row) for row in rows if row.get("by") == _by()}


@cache
def _by() -> str:
    """Versions of the comparison: the NPU's model, TOSA's reference model, and this file, which draws the inputs."""
    files = (library("ethosu_driver"), Path(__file__))
    hashes = (hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in files)
    return " ".join((*hashes, version("tosa-tools")))


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _compare(program: bytes, payload: bytes, name: str) -> _Compared:
    """Compare a partition with the reference."""
    parsed, graph = blob.parse(payload, name), tosa_program.read(program, name)
    tensors = [(graph.shapes[tensor], graph.dtypes[tensor]) for tensor in graph.inputs]
    crash: BrokenProcessPool | None = None
    for drawn in _drawn(graph):
        inputs = draw(np.random.default_rng(0), tensors, drawn)
        try:
            if expected := _in_its_own_process(program, inputs):
                break
        except BrokenProcessPool as error:  # it checks neither what is divided by nor where values are scattered to
            crash = error
    else:
        raise crash or ValueError("the reference model refuses the program for all inputs")
    results = Partition(parsed, name).run([value.tobytes() for value in inputs])
    outputs = [(np.frombuffer(data, value.dtype), value) for data, value in zip(results, expected, strict=True)]
    different = sum(int(np.sum(ours != value.ravel())) for ours, value in outputs)
    return _Compared(name, sum(value.size for value in expected), different, drawn, _by())


def _drawn(graph: tosa_program.Graph) -> Sequence[Drawn]:
    """Return the kinds of inputs to try, in order."""
    if any(operator.name == "LOGICAL_LEFT_SHIFT" for operator in graph.operators) and "int32" not in (
        graph.dtypes[tensor] for tensor in graph.outputs
    ):
        return (Drawn.SMALL,)
    counts = "int32" in (graph.dtypes[tensor] for tensor in graph.inputs)
    return tuple(Drawn) if counts else (Drawn.WIDE, Drawn.SMALL)


def _in_its_own_process(program: bytes, inputs: Sequence[Array]) -> Sequence[Array]:
    """The reference model's outputs; none when it refuses the inputs, BrokenProcessPool when it ends its process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(_reference, program, inputs).result()


def _reference(program: bytes, inputs: Sequence[Array]) -> Sequence[Array]:
    import tosa_reference_model

    with captured_output():  # it warns of each program's version
        outputs, status = tosa_reference_model.run(program, inputs, verbosity="LOW")
    return outputs if status == tosa_reference_model.GraphStatus.TOSA_VALID else ()


def draw(generator: np.random.Generator, tensors: Sequence[tuple[tuple[int, ...], str]], drawn: Drawn) -> list[Array]:
    """Values of inputs of these shapes and types."""
    indices = [number for number, (_, dtype) in enumerate(tensors) if dtype == "int32"]
    values: list[Array] = []
    for number, (shape, dtype) in enumerate(tensors):
        kind = _DTYPES[dtype]
        if drawn in (Drawn.COUNTING, Drawn.LAST) and number in indices:
            counts = drawn is Drawn.COUNTING or number == indices[-1]
            row = np.arange(shape[-1] if shape else 1, dtype=kind) if counts else kind(0)
            values.append(np.broadcast_to(row, shape).copy())
            continue
        low, high = (-_WIDE, _WIDE) if number in indices else (np.iinfo(kind).min, np.iinfo(kind).max)
        if dtype == "bool":
            low, high = 0, 1
        elif drawn is Drawn.SMALL:
            low, high = 1, _SHIFT
        values.append(generator.integers(low, high, shape, kind, endpoint=True))
    return values
