"""Maps kernel calls to debug handles of edge nodes, with which ExecuTorch's Inspector resolves profiles."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from deuteron.npu.neutron.convert import metadata_of, source_ops

_T = TypeVar("_T")


class NamedOperator(Protocol):
    """An operator with the names of the tensors that it reads and writes."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the tensors that it reads."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the tensors that it writes."""
        ...


def debug_handle_map(
    tflite: bytes, converted: bytes, handles: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    """Map each kernel call to the debug handles of its edge nodes; one more call is for the profile's last record.

    The map is empty for the vendor's converter, which records no provenance.

    Args:
        tflite: the partition, to whose operators `handles` refers.
        converted: the converted partition, with the provenance in its metadata.
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
    """Map each operator (by index) to its edge nodes or their debug handles.

    ExecuTorch records no nodes for the transposes that it adds at the edges of a partition. They belong to the nodes
    whose result they transpose, or, at an input, to the nodes that read their result.

    Args:
        ops: the operators of a partition.
        known: the nodes or handles that ExecuTorch recorded.
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
    """Merge the items of these names in order, without repeats."""
    return tuple(dict.fromkeys(item for name in names for item in by_name.get(name, ())))
