"""Which edge nodes a kernel call stands for, in ExecuTorch's terms: what its Inspector resolves profiles with."""

import json
from collections.abc import Iterable, Mapping, Sequence

from deuteron.convert import PROVENANCE_KEY, SourceOp, source_ops
from deuteron.tflite.neutron import unwrap

Handles = Mapping[int, set[int]]


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
    _, metadata = unwrap(converted)
    if PROVENANCE_KEY not in metadata:
        return {}
    by_op: dict[int, set[int]] = {}
    for handle, indices in handles.items():
        for index in indices:
            by_op.setdefault(index, set()).add(handle)
    whole = _with_neighbours(source_ops(tflite), by_op)
    kernels = json.loads(metadata[PROVENANCE_KEY])["kernels"]
    found = {int(k["index"]): tuple(sorted(set[int]().union(*(whole[op] for op in k["ops"])))) for k in kernels}
    return {**found, len(found): ()}


def _with_neighbours(ops: Sequence[SourceOp], handles: Handles) -> Handles:
    """The handles of every operator.

    ExecuTorch gives none to the transposes that it puts at the edges of a partition to change the order of channels:
    they belong to the nodes whose result they turn or, at an input, to those that read theirs.
    """
    writers: dict[str, set[int]] = {}
    for index, op in enumerate(ops):
        own = handles.get(index) or _union(writers, op.inputs)
        writers.update(dict.fromkeys(op.outputs, own))
    readers: dict[str, set[int]] = {}
    for index, op in reversed([*enumerate(ops)]):
        own = handles.get(index) or _union(readers, op.outputs)
        for name in op.inputs:
            readers[name] = readers.get(name, set()) | own
    return {
        index: handles.get(index) or _union(writers, op.outputs) or _union(readers, op.outputs)
        for index, op in enumerate(ops)
    }


def _union(by_name: Mapping[str, set[int]], names: Iterable[str]) -> set[int]:
    return set[int]().union(*(by_name.get(name, ()) for name in names))
