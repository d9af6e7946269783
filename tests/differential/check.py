"""One graph through everything: the TFLite file and back, the compiler, the driver, LiteRT, and the provenance."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np
import numpy.typing as npt
from tests.differential import budgets, litert, provenance

from deuteron.npu.neutron.convert import ConvertOptions, convert
from deuteron.npu.neutron.ir import interpret, ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.printer import format_op, op_name
from deuteron.npu.neutron.ir.verify import verify
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.npu.neutron.tflite.reader import graph_of
from deuteron.tflite.decode import decode as decode_tflite
from deuteron.views.compare.litert import distance_bound

TARGET = "imxrt700"
Array = npt.NDArray[np.generic]


class Driver(Protocol):
    """Runs a container: `deuteron.runtime.driver.Driver`, or a stand-in."""

    name: str

    def run(self, container: Container, inputs: Sequence[bytes]) -> list[bytes]:
        """The outputs of one run."""
        ...


class Kind(Enum):
    """Kinds of failures of a graph; the value is the spelling in reports."""

    ERROR = "error"
    FILE = "file"
    DRIVER = "driver"
    LITERT = "litert"
    PROVENANCE = "provenance"
    BUDGET = "budget"
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure of a graph."""

    kind: Kind
    text: str


@dataclass(slots=True)
class OpTally:
    """An operator over many graphs: its number of occurrences, and its elements compared with LiteRT's."""

    count: int = 0
    elements: int = 0
    compared: int = 0
    apart: int = 0
    largest: int = 0

    def add(self, other: "OpTally") -> None:
        """Take the other's counts in."""
        self.count += other.count
        self.elements += other.elements
        self.compared += other.compared
        self.apart += other.apart
        self.largest = max(self.largest, other.largest)


@dataclass(slots=True)
class Checked:
    """The result of a graph's checks.

    Attributes:
        failures: one of each kind at most.
        kernels: calls of the program, per kernel.
        operators: tally by the operator's name.
        striped: of its programs in part of their memory, those that compute some rows at a time.
    """

    failures: list[Failure] = field(default_factory=list[Failure])
    operators: dict[str, OpTally] = field(default_factory=dict[str, OpTally])
    kernels: list[str] = field(default_factory=list[str])
    striped: int = 0

    def fail(self, kind: Kind, text: str) -> None:
        """Note a failure."""
        self.failures.append(Failure(kind, text))


def check(graph: Graph, inputs: Sequence[Array], drivers: Sequence[Driver], shares: Sequence[float] = ()) -> Checked:
    """Check the graph on these inputs; exceptions are failures, too.

    Args:
        graph: the graph.
        inputs: its inputs.
        drivers: they run the program.
        shares: of the memory that it takes layer by layer, in which it must compute the same.
    """
    checked = Checked()
    kind = Kind.ERROR
    try:
        _check(graph, inputs, drivers, checked)
        kind = Kind.BUDGET
        if shares:
            found = budgets.check(emit(graph), TARGET, [value.tobytes() for value in inputs], shares)
            checked.striped = found.striped
            if found.problems:
                checked.fail(Kind.BUDGET, found.problems[0])
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        checked.fail(kind, f"{type(error).__name__}: {error}")
    return checked


def _check(graph: Graph, inputs: Sequence[Array], drivers: Sequence[Driver], checked: Checked) -> None:
    tflite = emit(graph)
    source = graph_of(decode_tflite(tflite))
    verify(source)
    if source.ops != graph.ops:
        pairs = zip(source.ops, graph.ops, strict=True)
        found, wanted = next(pair for pair in pairs if pair[0] != pair[1])
        checked.fail(Kind.FILE, f"`{format_op(wanted, graph)}` is read back as `{format_op(found, source)}`")
        return
    values = interpret.run(source, inputs)
    seed = len(tflite)  # any number that is the same in every run
    conversion = convert(tflite, TARGET, ConvertOptions(profiling=seed % 7 == 0, verify_each=seed % 5 == 0))
    if conversion.container is not None:
        checked.kernels = [call.kernel.name for call in conversion.program.calls]
        decode(conversion.container)
        for driver in drivers:
            if text := _different(source, values, driver.run(conversion.container, [x.tobytes() for x in inputs])):
                checked.fail(Kind.DRIVER, f"`{driver.name}`, {text}")
                break
    _compare_with_litert(source, values, checked)
    if text := "; ".join(provenance.problems(source, conversion, values)):
        checked.fail(Kind.PROVENANCE, text)


def _different(graph: Graph, values: dict[str, Array], outputs: list[bytes]) -> str:
    """Where the driver's outputs are not the interpreter's, empty where they are."""
    for name, data in zip(graph.outputs, outputs, strict=True):
        found = np.frombuffer(data, np.int8).reshape(graph.type(name).shape)
        wrong = np.argwhere(found != values[name])
        if len(wrong):
            at = tuple(map(int, wrong[0]))
            return (
                f"output `{name}`: {len(wrong)} of {found.size} elements differ, "
                f"first at {at}: {found[at]} instead of {values[name][at]}"
            )
    return ""


def _compare_with_litert(graph: Graph, values: dict[str, Array], checked: Checked) -> None:
    chosen = tuple(op for op in graph.ops if litert.computes(op, graph))
    found = litert.results(graph, chosen, values)
    worst = ""
    for op in graph.ops:
        (name,) = op.outputs
        tally = OpTally(1, values[name].size)
        if name in found:
            mask = litert.compared(op, graph, values)
            distance = np.abs(found[name].astype(np.int64) - values[name].astype(np.int64))[mask]
            tally.compared, tally.apart = distance.size, int((distance > 0).sum())
            tally.largest = int(distance.max(initial=0))
            if tally.largest > distance_bound(op, graph):
                worst = worst or f"`{format_op(op, graph)}` is {tally.largest} apart from LiteRT"
        checked.operators.setdefault(spelling(op), OpTally()).add(tally)
    if worst:
        checked.fail(Kind.LITERT, worst)


def spelling(op: ops.Op) -> str:
    """The operator's name in tables; unary operators by their function."""
    return op.function.value if isinstance(op, ops.Unary) else op_name(type(op))
