"""Maps operations of a command stream to operators of the TOSA graph, from Vela's debug database.

The database has the end of each scheduled operation in the commands, and the TOSA operators that it and fused
operations come from. It lacks others, such as the RESCALE after a convolution. A scheduled operation has the name of
the tensor that it writes, so the operator that writes this tensor belongs to it. An operator whose result is not in
memory belongs to the operations that read it.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from deuteron.errors import FormatError
from deuteron.npu.ethosu.database import Database
from deuteron.npu.ethosu.stream import Operation, Stream
from deuteron.npu.ethosu.tosa import CONSTANTS, Graph
from deuteron.npu.provenance import Fate, KernelOrigin, OpFate, Provenance

FREE = frozenset(("RESHAPE", "IDENTITY"))
"""Operators that change no byte."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """An operation of Vela's schedule.

    Attributes:
        number: its number in Vela's schedule.
        result: the tensor that it writes.
        ops: indices of the TOSA operators that it and fused operations come from.
        operations: indices of its operations in the command stream.
    """

    number: int
    result: str
    ops: tuple[int, ...]
    operations: tuple[int, ...]


def schedule(stream: Stream, database: Database) -> tuple[Scheduled, ...]:
    """Return the operations of Vela's schedule in a stream, in order; each kernel call of the stream belongs to one.

    A copy belongs to the operation that it is issued for. A constant result is copied at the end, for none.
    """
    keys = {row["id"]: database.number(row, "ext_key") for row in database.rows("source")}
    performed = {row["id"]: row for row in database.rows("perf")}
    fused: dict[str, list[str]] = {}
    for row in database.rows("group"):
        fused.setdefault(row["group_id"], []).append(row["id"])
    members: dict[str, list[int]] = {}
    for number, owner in enumerate(_owners(stream.operations, database)):
        members.setdefault(owner, []).append(number)
    scheduled: list[Scheduled] = []
    for owner, operations in members.items():
        if owner not in performed:
            raise FormatError(
                f"Vela's debug database does not know operation {owner}",
                where=database.where,
                hint="build the model again",
            )
        parts = [performed[part] for part in (owner, *fused.get(owner, ())) if part in performed]
        ops = dict.fromkeys(keys[part["source_id"]] for part in parts if part["source_id"] in keys)
        known = tuple(op for op in ops if op >= 0)
        scheduled.append(Scheduled(int(owner), parts[-1]["name"], known, tuple(operations)))
    return tuple(scheduled)


def _owners(operations: Sequence[Operation], database: Database) -> list[str]:
    """Return the scheduled operation of each operation of a stream: the first whose commands end after it.

    Vela does not schedule copies of constant results, which are the last operations. They have no owner.
    """
    ends = [(database.number(row, "offset"), row["scheduled_id"]) for row in database.rows("queue")]
    last = ends[-1][0] if ends else -1
    unscheduled = [operation for operation in operations if operation.offset > last]
    if sorted(ends) != ends or any(operation.kind != "copy" for operation in unscheduled):
        message = "Vela's debug database belongs to another command stream"
        raise FormatError(message, where=database.where, hint="build the model again")
    offsets = [offset for offset, _ in ends]
    scheduled = operations[: len(operations) - len(unscheduled)]
    return [ends[bisect_left(offsets, operation.offset)][1] for operation in scheduled]


def provenance(stream: Stream, graph: Graph, scheduled: Iterable[Scheduled]) -> Provenance:
    """Return the provenance: the operators of a graph by kernel calls, which are operations other than copies."""
    calls = [number for number, operation in enumerate(stream.operations) if operation.kind != "copy"]
    owner = {number: one for one in scheduled for number in one.operations}
    numbers: dict[int, list[int]] = {}
    for index, number in enumerate(calls):
        numbers.setdefault(owner[number].number, []).append(index)
    named: dict[int, set[int]] = {}
    writers: dict[str, set[int]] = {}
    for one in owner.values():
        own = numbers.get(one.number, ())
        writers.setdefault(one.result, set()).update(own)
        for op in one.ops:
            named.setdefault(op, set()).update(own)
    fates = _fates(graph, named, writers)
    by_call: dict[int, list[int]] = {}
    for fate in fates:
        for index in fate.kernels:
            by_call.setdefault(index, []).append(fate.index)
    kernels = tuple(
        KernelOrigin(index, stream.operations[number].kind, tuple(by_call.get(index, ())))
        for index, number in enumerate(calls)
    )
    return Provenance(kernels, fates)


def _fates(graph: Graph, named: Mapping[int, set[int]], writers: Mapping[str, set[int]]) -> tuple[OpFate, ...]:
    """Return the fate of each operator; `named` has its calls by Vela's record, `writers` the calls of each tensor."""
    walk = _Traversal(graph, writers)
    operators = [*enumerate(graph.operators)]
    calls: dict[int, set[int]] = {}
    for index, operator in reversed(operators):
        own = named.get(index, set()).union(*(writers.get(name, ()) for name in operator.outputs))
        if not own and index not in walk.constant and operator.name not in FREE:
            own = walk.onwards(index, calls)
        calls[index] = own
    for index, operator in operators:
        if operator.name in FREE and index not in walk.constant:
            calls[index] = named.get(index) or walk.back(index, calls) or walk.onwards(index, calls)
    return tuple(
        OpFate(
            index,
            operator.name,
            _fate(operator.name, calls[index], index in walk.constant),
            tuple(sorted(calls[index])),
        )
        for index, operator in operators
    )


def _fate(name: str, calls: set[int], is_constant: bool) -> Fate:
    if is_constant and not calls:
        return Fate.FOLDED
    return Fate.FREE if name in FREE else Fate.KERNELS if calls else Fate.UNUSED


class _Traversal:
    """Traversal of the graph that skips operators which change no byte.

    Attributes:
        constant: operators with constant results, which Vela may still compute on the NPU.
    """

    def __init__(self, graph: Graph, writers: Mapping[str, set[int]]) -> None:
        self._operators = graph.operators
        self._writers = writers
        self._readers: dict[str, list[int]] = {}
        self._sources: dict[str, int] = {}
        constants, self.constant = set[str](), set[int]()
        for index, operator in enumerate(graph.operators):
            if operator.name in CONSTANTS or (operator.inputs and constants.issuperset(operator.inputs)):
                constants.update(operator.outputs)
                self.constant.add(index)
            self._sources.update(dict.fromkeys(operator.outputs, index))
            for name in operator.inputs:
                self._readers.setdefault(name, []).append(index)

    def onwards(self, index: int, calls: Mapping[int, set[int]]) -> set[int]:
        """Return the calls that write an operator's result, or otherwise those of its readers."""
        found = set[int]()
        for name in self._operators[index].outputs:
            readers = (self._past(reader, calls, self.onwards) for reader in self._readers.get(name, ()))
            found |= self._writers.get(name) or set[int]().union(*readers)
        return found

    def back(self, index: int, calls: Mapping[int, set[int]]) -> set[int]:
        """Return the calls of the operators whose results an operator reads."""
        sources = [self._sources[name] for name in self._operators[index].inputs if name in self._sources]
        return set[int]().union(*(self._past(source, calls, self.back) for source in sources))

    def _past(self, index: int, calls: Mapping[int, set[int]], walk: Callable[..., set[int]]) -> set[int]:
        return walk(index, calls) if self._operators[index].name in FREE else calls.get(index, set())
