"""Describes an Ethos-U partition for the manifest and lists its files."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from deuteron.arch.targets import EthosU
from deuteron.builds.manifest import Partition, PartitionOp, TensorInfo, database_name, tosa_name
from deuteron.errors import UnsupportedError
from deuteron.frontend.backends.ethosu.origins import by_operator
from deuteron.frontend.backends.ethosu.upstream import EthosUPartition
from deuteron.npu.ethosu.blob import Tensor
from deuteron.npu.ethosu.program import program_of


def describe(index: int, partition: EthosUPartition, npu: EthosU) -> Partition:
    """The manifest's entry for a partition.

    Raises:
        UnsupportedError: its commands are for another NPU, or lack results.
    """
    program = program_of(partition.payload, f"npu {index}")
    if (compiled_for := program.stream.config.name) != npu.target:
        raise UnsupportedError(
            f"the commands are for `{compiled_for}`, the build is for `{npu.target}`",
            where=f"npu {index}",
            hint="install the releases that `deuteron doctor` names",
        )
    blob = program.blob
    record = partition.record
    if len(blob.outputs) != len(record.graph.outputs):
        raise UnsupportedError(
            f"Vela gives {len(blob.outputs)} of the {len(record.graph.outputs)} results of a partition",
            where=f"npu {index}",
            hint="build for a target without an NPU, and report the model",
        )
    return Partition(
        payload_sha256=hashlib.sha256(partition.payload).hexdigest(),
        microcode_bytes=len(blob.command_data),
        weights_bytes=len(blob.weights),
        kernels_bytes=0,
        scratch_bytes=blob.scratch_bytes,
        scratch_proven_optimal=False,
        prefetch_bytes=0,
        prefetch_bound=0,
        prefetch_proven_optimal=False,
        inputs=_tensors(blob.inputs, record.graph.inputs, record.graph.dtypes),
        outputs=_tensors(blob.outputs, record.graph.outputs, record.graph.dtypes),
        ops=tuple(_ops(partition)),
        kernels=record.provenance.kernels,
        dataflow=record.values,
        schedule=record.schedule,
    )


def _tensors(tensors: Sequence[Tensor], names: Sequence[str], dtypes: Mapping[str, str]) -> tuple[TensorInfo, ...]:
    pairs = zip(tensors, names, strict=True)
    return tuple(TensorInfo(tensor.shape, dtypes[name], name) for tensor, name in pairs)


def _ops(partition: EthosUPartition) -> Iterator[PartitionOp]:
    """Yield the operators of the partition's TOSA graph."""
    graph = partition.record.graph
    origins = by_operator(partition.nodes, graph)
    for index, operator in enumerate(graph.operators):
        nodes = [origin.node for origin in origins[index]]
        sources = dict.fromkeys(node.source for node in nodes if node.source)
        yield PartitionOp(index, operator.name, operator.outputs, tuple(node.name for node in nodes), tuple(sources))


def files(partitions: Iterable[EthosUPartition]) -> dict[str, bytes]:
    """The TOSA file of each partition, and Vela's debug database."""
    kept: dict[str, bytes] = {}
    for index, partition in enumerate(partitions):
        vela_files = partition.files
        kept |= {tosa_name(index): vela_files.tosa, database_name(index): vela_files.database.encode()}
    return kept
