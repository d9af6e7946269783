"""Describes a Neutron partition for the manifest and lists its files."""

import hashlib
from collections.abc import Iterable, Sequence

from deuteron.builds.manifest import Partition, PartitionOp, TensorInfo, tflite_name
from deuteron.errors import UnsupportedError
from deuteron.frontend.lowering_record import EdgeNode
from deuteron.frontend.neutron.handles import with_neighbours
from deuteron.frontend.neutron.upstream import NeutronPartition
from deuteron.npu.neutron.convert import metadata_of, source_ops
from deuteron.npu.neutron.kernels.selection import FILE_NAME
from deuteron.npu.neutron.microcode.layout import read_header
from deuteron.npu.neutron.tflite.neutron_graph import unwrap
from deuteron.tflite.decode import decode
from deuteron.tflite.flat_model import FlatModel


def describe(partition: NeutronPartition) -> Partition:
    """The manifest's entry for a partition."""
    container, _ = unwrap(partition.converted)
    metadata = metadata_of(partition.converted)
    model = decode(partition.tflite)
    header = read_header(container.microcode)
    nodes = with_neighbours(source_ops(partition.tflite), partition.nodes)
    return Partition(
        payload_sha256=hashlib.sha256(partition.payload).hexdigest(),
        microcode_bytes=len(container.microcode),
        weights_bytes=len(container.weights),
        kernels_bytes=len(container.kernels),
        scratch_bytes=header.scratch_bytes,
        scratch_proven_optimal=metadata.known.scratch_proven_optimal,
        prefetch_bytes=header.prefetch_bytes,
        prefetch_bound=metadata.known.prefetch_bound,
        prefetch_proven_optimal=metadata.known.prefetch_proven_optimal,
        inputs=_tensors(model, model.inputs),
        outputs=_tensors(model, model.outputs),
        ops=tuple(_op(model, index, nodes[index]) for index in range(len(model.operators))),
        kernels=metadata.provenance.kernels,
        dataflow=metadata.dataflow,
        whole_scratch_bytes=metadata.known.whole_scratch_bytes,
        planned_cycles=metadata.known.planned_cycles,
        cycles_bound=metadata.known.cycles_bound,
    )


def _tensors(model: FlatModel, indices: Iterable[int]) -> tuple[TensorInfo, ...]:
    tensors = [model.tensors[index] for index in indices]
    return tuple(TensorInfo(tensor.shape, tensor.dtype.lower(), tensor.name) for tensor in tensors)


def _op(model: FlatModel, index: int, nodes: Sequence[EdgeNode]) -> PartitionOp:
    operator = model.operators[index]
    return PartitionOp(
        index,
        operator.custom_code or operator.name,
        tuple(model.tensors[tensor].name for tensor in operator.outputs),
        tuple(node.name for node in nodes),
        tuple(dict.fromkeys(node.source for node in nodes if node.source)),
    )


def tflite_files(partitions: Iterable[NeutronPartition]) -> dict[str, bytes]:
    """The TFLite file of each partition, as the converter receives it."""
    return {tflite_name(index): partition.tflite for index, partition in enumerate(partitions)}


def intermediate_files(partitions: Iterable[NeutronPartition]) -> dict[str, bytes]:
    """The files of `--intermediates`: each converted partition, and its microcode, weights and kernels."""
    files: dict[str, bytes] = {}
    for index, partition in enumerate(partitions):
        container, _ = unwrap(partition.converted)
        files |= {
            f"npu_{index}.converted.tflite": partition.converted,
            f"npu_{index}.microcode": container.microcode,
            f"npu_{index}.weights": container.weights,
            f"npu_{index}.kernels": container.kernels,
        }
    return files


def kernel_selection_files(partitions: Iterable[NeutronPartition]) -> dict[str, bytes]:
    """The files of `--dump-kernel-selection-code`, one per partition.

    Raises:
        UnsupportedError: the vendor's converter wrote none for a partition.
    """
    files: dict[str, bytes] = {}
    for index, partition in enumerate(partitions):
        if not partition.kernel_selection:
            raise UnsupportedError(
                f"the converter wrote no kernel selection file for partition {index}",
                hint="build without `--dump-kernel-selection-code`",
            )
        files[f"npu_{index}{FILE_NAME}"] = partition.kernel_selection
    return files
