"""Interface of passes, and shared rewrites."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Protocol

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Op


class Pass(Protocol):
    """A pure rewrite from a valid graph to a valid graph that computes the same outputs.

    Graph inputs and outputs keep their names. Without changes the result is the same object.
    """

    name: ClassVar[str]

    def apply(self, graph: Graph) -> Graph:
        """The rewritten graph."""
        ...


def merge_origins(*ops: Op) -> tuple[int, ...]:
    """Return the TFLite operators of all `ops`, ascending."""
    return tuple(sorted({index for op in ops for index in op.origin}))


def final_name(name: str, names: Mapping[str, str]) -> str:
    """Return the final name of a chain of renamings from `name`."""
    while name in names:
        name = names[name]
    return name


def rename_tensors(ops: Iterable[Op], names: Mapping[str, str]) -> tuple[Op, ...]:
    """Return `ops` with tensors renamed; `names` may contain chains."""

    def final(name: str) -> str:
        return final_name(name, names)

    def renamed(op: Op) -> Op:
        inputs, outputs = tuple(map(final, op.inputs)), tuple(map(final, op.outputs))
        return op if (inputs, outputs) == (op.inputs, op.outputs) else replace(op, inputs=inputs, outputs=outputs)

    return tuple(map(renamed, ops)) if names else tuple(ops)


def new_name(wanted: str, taken: set[str]) -> str:
    """Return `wanted` or its first unused numbered form, and mark it as used."""
    name, number = wanted, 1
    while name in taken:
        name, number = f"{wanted}#{number}", number + 1
    taken.add(name)
    return name
