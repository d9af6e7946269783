"""Maps the instructions of a program to partitions and operators, for events that name instructions."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PartitionCalls:
    """The commands of a partition, as the driver reports them.

    Attributes:
        kernels: name of each kernel call.
        commands: for each command, the number of the kernel call, or None for fetches and waits.
        transfers: for each command, the bytes that it fetches; 0 for others.
    """

    kernels: tuple[str, ...]
    commands: tuple[int | None, ...]
    transfers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Instructions:
    """The instructions of a program by number.

    Attributes:
        sha256: hash of the program.
        partitions: instruction -> partition that it calls.
        operators: instruction -> name of the operator that it calls, and its index among the build's CPU operators, -1
            if the build does not list it.
        calls: the commands of each partition.
        others: instruction -> name of the delegate of another backend that it calls, and its index as of operators.
    """

    sha256: str
    partitions: Mapping[int, int]
    operators: Mapping[int, tuple[str, int]]
    calls: tuple[PartitionCalls, ...]
    others: Mapping[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
