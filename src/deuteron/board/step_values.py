"""Values of a model's tensors in a run of a bundle, by their names."""

from collections.abc import Iterator, Mapping, Sequence

from deuteron.board.bundle import Bundle, StepKind
from deuteron.board.host_executor import HostExecutor
from deuteron.board.tensor_bytes import Array
from deuteron.builds.manifest import CpuOp, Partition


class StepValues:
    """Runs a bundle step by step.

    Args:
        bundle: the program, in which every step computes whole tensors.
        partitions: what a manifest says of its partitions.
        cpu_ops: the same of operators on the CPU.
    """

    def __init__(self, bundle: Bundle, partitions: Sequence[Partition], cpu_ops: Sequence[CpuOp]) -> None:
        self._executor = HostExecutor(bundle)
        self._names: Mapping[int, Sequence[str]] = dict(_names(bundle, partitions, cpu_ops))

    def reset(self) -> None:
        """Give the program its initial state."""
        self._executor.reset()

    def outputs(self) -> list[Array]:
        """Return the program's outputs for the last sample."""
        return self._executor.outputs()

    def of(self, sample: Sequence[Array]) -> dict[str, Array]:
        """Return the values of tensors that steps write, for one sample."""
        values: dict[str, Array] = {}
        for result in self._executor.values(sample):
            names = self._names.get(result.index, ())
            values |= zip(names, result.outputs[len(result.outputs) - len(names) :], strict=True)
        return values


def _names(
    bundle: Bundle, partitions: Sequence[Partition], cpu_ops: Sequence[CpuOp]
) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the tensors that each step writes last, by the step's number."""
    called = {number: (op.node,) for op in cpu_ops for number in op.instructions}
    for at, step in enumerate(bundle.steps):
        if step.kind is StepKind.DELEGATE:
            yield at, tuple(info.name for info in partitions[step.index].outputs)
        else:
            yield at, called.get(step.instruction, ())
