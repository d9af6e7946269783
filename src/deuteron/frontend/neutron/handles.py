"""Which edge nodes a kernel call stands for, in ExecuTorch's terms: what its Inspector resolves profiles with."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from deuteron.npu.neutron.convert import metadata_of, source_ops

_T = TypeVar("_T")


class NamedOperator(Protocol):
    """An operator of a partition: the names of the tensors that it reads and writes."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Those that it reads."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """Those that it writes."""
        ...


def debug_handle_map(
    tflite: bytes, converted: bytes, handles: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    """Kernel call -> debug handles of the edge nodes that it computes; one call more for the profile's last record.

    Nothing where the vendor's converter was used, which leaves no provenance.

    Args:
        tflite: the partition, whose operators `handles` names.
        converted: what our converter made of it, with the provenance among its metadata.
        handles: debug handle -> TFLite operators (indices).
    """
    calls = metadata_of(converted).provenance.kernels
    if not calls:
        return {}
    by_op: dict[int, tuple[int, ...]] = {}
    for handle, indices in handles.items():
        for index in indices:
            by_op[index] = (*by_op.get(index, ()), handle)
    whole = with_neighbours(source_ops(tflite), by_op)
    by_call = {call.index: tuple(sorted({handle for op in call.ops for handle in whole[op]})) for call in calls}
    return {**by_call, len(by_call): ()}


def with_neighbours(ops: Sequence[NamedOperator], known: Mapping[int, Sequence[_T]]) -> dict[int, tuple[_T, ...]]:
    """What every operator (by index) stands for: edge nodes, or their debug handles.

    ExecuTorch knows nothing of the transposes that it puts at the edges of a partition to change the order of channels:
    they belong to the nodes whose result they turn or, at an input, to those that read theirs.

    Args:
        ops: the operators of a partition.
        known: what ExecuTorch tells of them.
    """
    writers: dict[str, tuple[_T, ...]] = {}
    for index, op in enumerate(ops):
        own = known.get(index) or _union(writers, op.inputs)
        writers.update(dict.fromkeys(op.outputs, tuple(own)))
    readers: dict[str, tuple[_T, ...]] = {}
    for index, op in reversed([*enumerate(ops)]):
        own = known.get(index) or _union(readers, op.outputs)
        for name in op.inputs:
            readers[name] = (*own, *readers.get(name, ()))
    return {
        index: tuple(known.get(index) or _union(writers, op.outputs) or _union(readers, op.outputs))
        for index, op in enumerate(ops)
    }


def _union(by_name: Mapping[str, Sequence[_T]], names: Iterable[str]) -> tuple[_T, ...]:
    """Each once, in order."""
    return tuple(dict.fromkeys(item for name in names for item in by_name.get(name, ())))
