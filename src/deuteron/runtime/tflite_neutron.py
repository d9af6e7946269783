"""Partitions of TFLite files for a Neutron: their payloads, and what a manifest says of them."""

import hashlib
from collections.abc import Iterator

from deuteron.builds.manifest import Node, Partition, PartitionOp, TensorInfo
from deuteron.errors import InternalError
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.layout import read_header
from deuteron.npu.neutron.payload import Payload, compose
from deuteron.npu.neutron.tflite_partitioner import Part
from deuteron.npu.provenance import Fate
from deuteron.runtime.tflite_nodes import node_of
from deuteron.tflite.decode import decode
from deuteron.tflite.flat_model import FlatModel


def payload(part: Part) -> bytes:
    """Return the partition as a delegate takes it: every argument as it is, in its own order of memory."""
    container = _container(part)
    inputs, outputs = len(part.inputs), len(part.outputs)
    plain = (False,) * inputs, (False,) * outputs
    version = int(read_header(container.microcode).profiling)
    return compose(Payload(inputs, *plain, tuple(range(inputs)), tuple(range(outputs)), version, container))


def _container(part: Part) -> Container:
    if part.conversion.container is None:
        raise InternalError("a partition that computes nothing")
    return part.conversion.container


def partition(whole: FlatModel, part: Part, payload: bytes) -> Partition:
    """Return what a manifest says of a partition of the file `whole`."""
    model, conversion, container = decode(part.source), part.conversion, _container(part)
    header, known = read_header(container.microcode), conversion.plan.known
    inputs, outputs = (
        tuple(TensorInfo(t.shape, t.dtype.lower(), t.name) for t in (whole.tensors[i] for i in side))
        for side in (part.inputs, part.outputs)
    )
    return Partition(
        payload_sha256=hashlib.sha256(payload).hexdigest(),
        microcode_bytes=len(container.microcode),
        weights_bytes=len(container.weights),
        kernels_bytes=len(container.kernels),
        scratch_bytes=header.scratch_bytes,
        scratch_proven_optimal=known.scratch_proven_optimal,
        prefetch_bytes=header.prefetch_bytes,
        prefetch_bound=known.prefetch_bound,
        prefetch_proven_optimal=known.prefetch_proven_optimal,
        inputs=inputs,
        outputs=outputs,
        ops=tuple(
            PartitionOp(i, op.name, tuple(model.tensors[t].name for t in op.outputs), (_name(model, i),), ())
            for i, op in enumerate(model.operators)
        ),
        kernels=conversion.provenance.kernels,
        dataflow=conversion.dataflow,
        whole_scratch_bytes=known.whole_scratch_bytes,
        planned_cycles=known.planned_cycles,
        cycles_bound=known.cycles_bound,
    )


def _name(model: FlatModel, operator: int) -> str:
    """The name of an operator: the tensor that it writes."""
    outputs = model.operators[operator].outputs
    return model.tensors[outputs[0]].name if outputs else str(operator)


def nodes(part: Part, number: int) -> Iterator[Node]:
    """Yield the operators of a partition."""
    model = decode(part.source)
    for fate in part.conversion.provenance.ops:
        if fate.fate is not Fate.EDGE:
            yield node_of(model, fate.index, _name(model, fate.index), model.operators[fate.index].name, number)
