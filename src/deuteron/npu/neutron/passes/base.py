"""What a pass is, and the two rewrites that several of them share."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Protocol

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Op


class Pass(Protocol):
    """A pure rewrite: takes a valid graph and returns a valid graph that computes the same outputs.

    Graph inputs and outputs keep their names, and the same object comes back when there was nothing to do.
    """

    name: ClassVar[str]

    def apply(self, graph: Graph) -> Graph:
        """The rewritten graph."""
        ...


def merge_origins(*ops: Op) -> tuple[int, ...]:
    """The TFLite operators of all of `ops`, ascending."""
    return tuple(sorted({index for op in ops for index in op.origin}))


def final_name(name: str, names: Mapping[str, str]) -> str:
    """The name at the end of the chain of renamings that begins at `name`."""
    while name in names:
        name = names[name]
    return name


def rename_tensors(ops: Iterable[Op], names: Mapping[str, str]) -> tuple[Op, ...]:
    """`ops` with tensors renamed; chains in `names` are followed."""

    def final(name: str) -> str:
        return final_name(name, names)

    def renamed(op: Op) -> Op:
        inputs, outputs = tuple(map(final, op.inputs)), tuple(map(final, op.outputs))
        return op if (inputs, outputs) == (op.inputs, op.outputs) else replace(op, inputs=inputs, outputs=outputs)

    return tuple(map(renamed, ops)) if names else tuple(ops)


def new_name(wanted: str, taken: set[str]) -> str:
    """`wanted`, or the first numbered form of it that is not taken; it is from now on."""
    name, number = wanted, 1
    while name in taken:
        name, number = f"{wanted}#{number}", number + 1
    taken.add(name)
    return name
