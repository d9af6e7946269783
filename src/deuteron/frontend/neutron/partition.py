"""What a build keeps of each partition: sizes, operators with their source, kernel calls, and the files themselves."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from deuteron.builds.manifest import Partition, PartitionKernel, PartitionOp, TensorInfo
from deuteron.errors import UnsupportedError
from deuteron.frontend.neutron.handles import with_neighbours
from deuteron.frontend.neutron.seam import EdgeNode, Lowered
from deuteron.npu.neutron.convert import DATAFLOW_KEY, PLAN_KEY, PROVENANCE_KEY, source_ops
from deuteron.npu.neutron.kernels.dataflow import Constant, Dataflow
from deuteron.npu.neutron.kernels.selection import FILE_NAME
from deuteron.npu.neutron.microcode.layout import read_header
from deuteron.npu.neutron.tflite.decode import decode
from deuteron.npu.neutron.tflite.flat import FlatModel
from deuteron.npu.neutron.tflite.neutron import unwrap


def describe(partition: Lowered) -> Partition:
    """The manifest's entry for a partition."""
    container, metadata = unwrap(partition.converted)
    model = decode(partition.tflite)
    header = read_header(container.microcode)
    known = cast("dict[str, int]", json.loads(metadata.get(PLAN_KEY, b"{}")))  # a vendor's converter tells nothing
    nodes = with_neighbours(source_ops(partition.tflite), partition.nodes)
    return Partition(
        payload_sha256=hashlib.sha256(partition.payload).hexdigest(),
        microcode_bytes=len(container.microcode),
        weights_bytes=len(container.weights),
        kernels_bytes=len(container.kernels),
        scratch_bytes=header.scratch_bytes,
        scratch_proven_optimal=bool(known.get("scratch_proven_optimal", False)),
        prefetch_bytes=header.prefetch_bytes,
        prefetch_bound=int(known.get("prefetch_bound", 0)),
        prefetch_proven_optimal=bool(known.get("prefetch_proven_optimal", False)),
        inputs=_tensors(model, model.inputs),
        outputs=_tensors(model, model.outputs),
        ops=tuple(_op(model, index, nodes[index]) for index in range(len(model.operators))),
        kernels=_kernels(metadata),
        dataflow=_dataflow(metadata),
    )


def _kernels(metadata: Mapping[str, bytes]) -> tuple[PartitionKernel, ...]:
    """The kernel calls as our converter left them in the file; a vendor's converter leaves nothing."""
    if PROVENANCE_KEY not in metadata:
        return ()
    data = cast("dict[str, list[dict[str, Any]]]", json.loads(metadata[PROVENANCE_KEY]))
    return tuple(PartitionKernel(k["index"], k["kernel"], tuple(k["ops"])) for k in data["kernels"])


def _dataflow(metadata: Mapping[str, bytes]) -> Dataflow:
    """The values of the partition's program; none when a vendor's converter made it."""
    if DATAFLOW_KEY not in metadata:
        return Dataflow((), (), (), ())
    data = cast("dict[str, list[Any]]", json.loads(metadata[DATAFLOW_KEY]))
    return Dataflow(
        tuple(data["inputs"]),
        tuple(data["outputs"]),
        tuple(Constant(c["name"], c["offset"], c["nbytes"]) for c in data["constants"]),
        tuple(tuple(call) for call in data["calls"]),
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


def intermediate_files(partitions: Iterable[Lowered]) -> dict[str, bytes]:
    """The files that `--intermediates` adds: of each partition the TFLite file and the three blocks made of it."""
    files: dict[str, bytes] = {}
    for index, partition in enumerate(partitions):
        container, _ = unwrap(partition.converted)
        files |= {
            f"npu_{index}.tflite": partition.tflite,
            f"npu_{index}.converted.tflite": partition.converted,
            f"npu_{index}.microcode": container.microcode,
            f"npu_{index}.weights": container.weights,
            f"npu_{index}.kernels": container.kernels,
        }
    return files


def kernel_selection_files(partitions: Iterable[Lowered]) -> dict[str, bytes]:
    """The files that `--dump-kernel-selection-code` adds, one for each partition.

    Raises:
        UnsupportedError: when the converter, a vendor's, wrote none for one.
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
