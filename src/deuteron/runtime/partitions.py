"""The NPU's partitions in a program: its delegates that belong to an NPU family."""

from dataclasses import dataclass, field

from deuteron.npu import families
from deuteron.npu.families import Family
from deuteron.npu.program import NpuProgram
from deuteron.runtime.program import Method


@dataclass(frozen=True, slots=True)
class NpuPartition:
    """One partition.

    Attributes:
        number: index among the partitions of the method, as in `build.json`.
        delegate: index among the delegates of the method.
        family: NPU family that runs it.
        payload: its bytes in the program.
    """

    number: int
    delegate: int
    family: Family
    payload: bytes = field(repr=False)

    def program(self) -> NpuProgram:
        """Return the NPU's program; FormatError when it is damaged."""
        return self.family.program(self.payload, f"delegate {self.number}")


def partitions_of(method: Method) -> tuple[NpuPartition, ...]:
    """Return the NPU partitions of a method, in order; delegates of other backends are left out."""
    known = [(i, families.family_of(delegate.id), delegate.payload) for i, delegate in enumerate(method.delegates)]
    ours = [(i, family, payload) for i, family, payload in known if family is not None]
    return tuple(NpuPartition(number, i, family, payload) for number, (i, family, payload) in enumerate(ours))
