"""What ExecuTorch's Ethos-U tests compile beside TOSA's reference model: the same bytes, for random inputs.

The tests themselves allow steps of quantisation. A folder holds what was compiled, as the plugin keeps it
(`site/deuteron_conformance.py`): `NAME.tosa`, the program that Vela got, and `NAME.partition`, what it made of it;
`tests.jsonl` says for which test, and `equal.jsonl` which were compared and gave the same bytes: names are those of the
content, so that these need not be compared again before their tests run again, or what compares them changes.
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
from deuteron.frontend.quiet import overheard
from deuteron.native import library
from deuteron.npu.ethosu import blob
from deuteron.runtime.ethosu import Partition

Array = npt.NDArray[np.generic]
_TESTS = "tests.jsonl"
_EQUAL = "equal.jsonl"
_DTYPES = {1: np.int8, 2: np.int16, 4: np.int32}
_WIDE = 1000
"""Integers of 32 bits mostly are counts or sums: larger ones overflow in both, each in its way."""
_SHIFT = 3
"""Values up to this can be shifted by each other and stay in 8 bits. TOSA gives shifts beyond a type no meaning; of
what a shift takes out of its type TOSA keeps the low bits, where the NPU keeps to the type's ends."""

CRASHING = frozenset(
    f"ops/test_index_put.py::test_index_put_u85_INT[{case}]" for case in ("rank3_zeros_int8", "rank4_rand")
)
"""Tests that end the reference model's process by a signal, for all of our inputs: their programs scatter to sums of
several indices, and it checks neither their range nor that none is there twice."""


class Drawn(StrEnum):
    """What inputs a partition is compared for: the first of these that the reference model takes."""

    WIDE = "wide"
    """Of their whole type."""
    COUNTING = "counting"
    """So, but those of 32 bits count from 0: they are indices, which have to be in range and differ."""
    SMALL = "small"
    """From 0 to 3."""


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
        narrow: how many of them were compared for inputs from 0 to 3 alone.
        crashing: those that are known to end the reference model's process.
        differences: those that differ, or cannot be compared.
    """

    tests: int
    partitions: int
    values: int
    counting: int
    narrow: int
    crashing: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def passed(self) -> bool:
        """Whether any were compared, and all gave the reference's bytes."""
        return self.partitions > len(self.crashing) and not self.differences

    def lines(self) -> Iterator[str]:
        """The report."""
        if not self.partitions:
            yield (
                "nothing was compared with TOSA's reference model: no selected test compiled anything for an Ethos-U "
                "with `--tosa`"
            )
            return
        yield (
            f"{counted(self.partitions, 'partition')} of {counted(self.tests, 'test')} beside TOSA's reference model: "
            f"{self.values:,} outputs, "
            f"{sum(d.values for d in self.differences):,} of them differ"
        )
        if self.counting:
            yield f"  {self.counting} of them with indices that count from 0: the reference model refuses others"
        if self.narrow:
            yield f"  {self.narrow} of them with inputs from 0 to {_SHIFT} alone: the reference model refuses others"
        if self.crashing:
            names = ", ".join(self.crashing)
            yield f"  {len(self.crashing)} of them not compared: they are known to end the model's process: {names}"
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
    """What these tests compiled beside the reference model, which is among `packages`; equal ones are reported."""
    if str(packages) not in sys.path:
        sys.path.append(str(packages))
    compiled = [row for row in _rows(folder / _TESTS) if row["test"] in tests]
    known = _equal(folder)
    if (folder / _EQUAL).is_file():  # without what others compared, and what was not written to its end
        _write(folder / _EQUAL, map(asdict, known.values()))
    names = sorted({row["partition"] for row in compiled})
    crash = {row["partition"] for row in compiled if row["test"] in CRASHING}
    compared, crashing, differences = list[_Compared](), list[str](), list[Difference]()
    for name in names:
        one = known.get(name)
        if one is None:
            program, payload = (folder / f"{name}.{suffix}" for suffix in ("tosa", "partition"))
            try:
                one = _compare(program.read_bytes(), payload.read_bytes(), name)
            except BrokenProcessPool:
                if name in crash:
                    crashing.append(name)
                else:
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
        drawn[Drawn.COUNTING], drawn[Drawn.SMALL], tuple(crashing), tuple(differences),
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
    """What compares: the model of the NPU, TOSA's reference model, and this file, which draws the inputs."""
    files = (library("ethosu_driver"), Path(__file__))
    hashes = (hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in files)
    return " ".join((*hashes, version("tosa-tools")))


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _compare(program: bytes, payload: bytes, name: str) -> _Compared:
    """A partition beside the reference."""
    parsed = blob.parse(payload, name)
    shapes = _input_shapes(program)
    counts = any(tensor.element_bytes == 4 for tensor in parsed.inputs)
    for drawn in Drawn if counts else (Drawn.WIDE, Drawn.SMALL):
        generator = np.random.default_rng(0)
        pairs = zip(shapes, parsed.inputs, strict=True)
        inputs = [draw(generator, shape, tensor.element_bytes, drawn) for shape, tensor in pairs]
        if expected := _in_its_own_process(program, inputs):
            break
    else:
        raise ValueError("the reference model refuses the program for all inputs")
    results = Partition(parsed, name).run([value.tobytes() for value in inputs])
    outputs = [(np.frombuffer(data, value.dtype), value) for data, value in zip(results, expected, strict=True)]
    different = sum(int(np.sum(ours != value.ravel())) for ours, value in outputs)
    return _Compared(name, sum(value.size for value in expected), different, drawn, _by())


def _in_its_own_process(program: bytes, inputs: Sequence[Array]) -> Sequence[Array]:
    """The reference model's outputs; none when it refuses the inputs, BrokenProcessPool when it ends its process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(_reference, program, inputs).result()


def _reference(program: bytes, inputs: Sequence[Array]) -> Sequence[Array]:
    import tosa_reference_model

    with overheard():  # it warns of each program's version
        outputs, status = tosa_reference_model.run(program, inputs, verbosity="LOW")
    return outputs if status == tosa_reference_model.GraphStatus.TOSA_VALID else ()


def draw(generator: np.random.Generator, shape: tuple[int, ...], element_bytes: int, drawn: Drawn) -> Array:
    """Values of an input."""
    dtype = _DTYPES[element_bytes]
    info = np.iinfo(dtype)
    if drawn is Drawn.COUNTING and element_bytes == 4:
        return np.broadcast_to(np.arange(shape[-1] if shape else 1, dtype=dtype), shape).copy()
    low, high = (info.min, info.max) if element_bytes < 4 else (-_WIDE, _WIDE)
    if drawn is Drawn.SMALL:
        low, high = 0, _SHIFT
    return generator.integers(low, high, shape, dtype, endpoint=True)


def _input_shapes(program: bytes) -> list[tuple[int, ...]]:
    """The shapes of a TOSA program's inputs."""
    from tosa import TosaGraph

    block: Any = TosaGraph.TosaGraph.GetRootAs(program, 0).Regions(0).Blocks(0)
    tensors = {tensor.Name(): tensor for tensor in map(block.Tensors, range(block.TensorsLength()))}
    inputs = (tensors[block.Inputs(i)] for i in range(block.InputsLength()))
    return [tuple(tensor.ShapeAsNumpy().tolist()) if tensor.ShapeLength() else () for tensor in inputs]
