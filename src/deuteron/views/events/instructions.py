"""What the instructions of a program stand for: how events that name instructions are told apart."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PartitionCalls:
    """The commands of a partition, as the driver reports them.

    Attributes:
        kernels: name of each kernel call.
        commands: of each command, the number of the kernel call, or None for fetches and waits.
        transfers: of each command, the bytes that it fetches; 0 for all but fetches.
    """

    kernels: tuple[str, ...]
    commands: tuple[int | None, ...]
    transfers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Instructions:
    """The instructions of a program by number.

    Attributes:
        sha256: of the program.
        partitions: instruction -> partition that it calls.
        operators: instruction -> name of the operator that it calls, and its index among those that the build lists on
            the CPU, -1 for one that it does not list.
        calls: what each partition does.
        others: instruction -> name of the delegate of another backend that it calls, and its index as of operators.
    """

    sha256: str
    partitions: Mapping[int, int]
    operators: Mapping[int, tuple[str, int]]
    calls: tuple[PartitionCalls, ...]
    others: Mapping[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
