"""What a build keeps of each partition for an Ethos-U: sizes, and the files that Vela got and wrote."""

import hashlib
from collections.abc import Iterable, Sequence

from deuteron.builds.manifest import Partition, TensorInfo, database_name, tosa_name
from deuteron.frontend.ethosu.seam import Lowered
from deuteron.npu.dataflow import Dataflow
from deuteron.npu.ethosu.blob import Tensor
from deuteron.npu.ethosu.program import program_of

_DTYPES = {1: "int8", 2: "int16", 4: "int32"}


def describe(index: int, partition: Lowered) -> Partition:
    """The manifest's entry for a partition."""
    blob = program_of(partition.payload, f"npu {index}").blob
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
        inputs=_tensors(blob.inputs),
        outputs=_tensors(blob.outputs),
        ops=(),
        kernels=(),
        dataflow=Dataflow(),
    )


def _tensors(tensors: Sequence[Tensor]) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo(tensor.shape, _DTYPES[tensor.element_bytes]) for tensor in tensors)


def files(partitions: Iterable[Lowered]) -> dict[str, bytes]:
    """Each partition in TOSA, which Vela compiled, and the database of what Vela made of it."""
    kept: dict[str, bytes] = {}
    for index, partition in enumerate(partitions):
        kept |= {tosa_name(index): partition.tosa, database_name(index): partition.database}
    return kept
