"""TFLite files for an Ethos-U: Vela's partitions, and between them what Vela leaves to the CPU."""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from deuteron.arch import targets
from deuteron.arch.engine import engine
from deuteron.arch.targets import Arch, EthosU
from deuteron.builds.manifest import Node, Partition, PartitionOp, TensorInfo
from deuteron.errors import UnsupportedError
from deuteron.npu.ethosu import blob, origins
from deuteron.npu.ethosu import database as databases
from deuteron.npu.ethosu.database import Database
from deuteron.npu.ethosu.program import EthosUProgram, program_of
from deuteron.npu.neutron.tflite.operator_view import Names
from deuteron.npu.provenance import KernelOrigin
from deuteron.runtime import vela_hidden
from deuteron.runtime.tflite_nodes import LAYERS, node_of, with_origins
from deuteron.runtime.tflite_program import Step
from deuteron.runtime.vela import PLAN, VelaPartition, is_partition, partitions_of
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import NO_TENSOR, Buffer, FlatModel, FlatOperator
from deuteron.tflite.variables import with_states_of

NPU_STEPS = 1
"""Largest difference between a result of an NPU's operator and LiteRT's, from rounding."""

_PART = re.compile(r"/(rows|apart)_\d+'*$")
"""The end of the name of a tensor that is a part or a copy of another one."""


@dataclass(frozen=True, slots=True)
class EthosUFile:
    """A file that Vela compiled.

    Attributes:
        source: the model that Vela was given; the compiled one itself where that is not known.
        model: Vela's result.
        partitions: by the index of their operator.
        database: Vela's debug database, if it compiled the file now.
        given: the name of the tensor that each operator of the database writes first.
    """

    source: FlatModel
    model: FlatModel
    partitions: Mapping[int, VelaPartition]
    database: Database | None = None
    given: tuple[str, ...] = ()

    def steps(self) -> tuple[Step, ...]:
        """Return the operators in their order."""
        return tuple(
            (blob.compose(part.blob), part.inputs, part.outputs) if (part := self.partitions.get(i)) else i
            for i in range(len(self.model.operators))
        )

    def described(self, arch: Arch) -> tuple[Partition, ...]:
        """Return what a manifest says of the partitions; UnsupportedError for commands of another NPU."""
        inside = self.inside()
        names = Names(self.source).of
        return tuple(
            self._partition(number, part, arch, [(i, names) for i in inside[number]])
            for number, part in enumerate(self.partitions.values())
        )

    def nodes(self) -> Iterator[Node]:
        """Yield the operators that run on the NPU."""
        names = Names(self.source).of
        for number, operators in enumerate(self.inside()):
            for index in operators:
                op = self.source.operators[index]
                yield node_of(self.source, index, names[op.outputs[0]], op.title, number)

    def _partition(
        self, number: int, part: VelaPartition, arch: Arch, operators: Sequence[tuple[int, tuple[str, ...]]]
    ) -> Partition:
        payload = blob.compose(part.blob)
        program = program_of(payload, f"npu {number}")
        if isinstance(arch.npu, EthosU) and (compiled_for := program.stream.config.name) != arch.npu.target:
            raise UnsupportedError(
                f"the commands are for `{compiled_for}`, the target is `{arch.name}`",
                where=f"npu {number}",
                hint="give the file that Vela compiled, or name the target that it was compiled for",
            )
        own = list[PartitionOp]()
        for index, names in operators:
            op = self.source.operators[index]
            outputs = tuple(names[i] for i in op.outputs)
            own.append(PartitionOp(len(own), op.title, outputs, outputs[:1], ()))
        numbers = {
            self.source.tensors[self.source.operators[i].outputs[0]].name: n for n, (i, _) in enumerate(operators)
        }
        kernels = list[KernelOrigin]()
        for i, (call, results) in enumerate(zip(program.calls, self._results(number, program), strict=True)):
            whole = (name if name in numbers else _PART.sub("", name) for name in results)
            ops = tuple(dict.fromkeys(numbers[name] for name in whole if name in numbers))
            if not ops:
                ops = (len(own),)
                own.append(PartitionOp(len(own), call.kernel, (), (f"npu {number} operation {i}",), ()))
            kernels.append(KernelOrigin(i, call.kernel, ops))
        return Partition(
            payload_sha256=hashlib.sha256(payload).hexdigest(),
            microcode_bytes=len(part.blob.command_data),
            weights_bytes=len(part.blob.weights),
            kernels_bytes=0,
            scratch_bytes=part.blob.scratch_bytes,
            scratch_proven_optimal=False,
            prefetch_bytes=0,
            prefetch_bound=0,
            prefetch_proven_optimal=False,
            inputs=self._infos(part.inputs),
            outputs=self._infos(part.outputs),
            ops=tuple(own),
            kernels=tuple(kernels),
            dataflow=program.traced(),
            schedule=program.least(engine(arch)),
        )

    def _results(self, number: int, program: EthosUProgram) -> list[tuple[str, ...]]:
        """Return the first results of the operators that each kernel call of a partition computes; none if unknown."""
        operations = program.stream.operations
        found = dict[int, tuple[str, ...]]()
        if self.database is not None:
            for one in origins.schedule(program.stream, self.database.of_stream(number)):
                names = tuple(self.given[op] for op in one.ops if op < len(self.given))
                found |= dict.fromkeys(one.operations, names)
        return [found.get(i, ()) for i, operation in enumerate(operations) if operation.kind != "copy"]

    def _infos(self, tensors: Sequence[int]) -> tuple[TensorInfo, ...]:
        named = (self.model.tensors[i] for i in tensors)
        return tuple(TensorInfo(t.shape, t.dtype.lower(), t.name) for t in named)

    def inside(self) -> list[list[int]]:
        """Return the source's operators that each partition computes: what its outputs depend on, up to the CPU."""
        if self.source is self.model:
            return [[] for _ in self.partitions]
        on_cpu = {
            self.model.tensors[i].name
            for index, op in enumerate(self.model.operators)
            if index not in self.partitions
            for i in op.outputs
        }
        writers = {self.source.tensors[i].name: n for n, op in enumerate(self.source.operators) for i in op.outputs}
        taken: set[int] = set()
        inside: list[list[int]] = []
        for part in self.partitions.values():
            own: set[int] = set()
            todo = [self.model.tensors[i].name for i in part.outputs]
            while todo:
                name = todo.pop()
                index = writers.get(name)
                if index is None or name in on_cpu or index in taken or index in own:
                    continue
                own.add(index)
                todo += (self.source.tensors[i].name for i in self.source.operators[index].inputs if i >= 0)
            taken |= own
            inside.append(sorted(own))
        return inside


def for_vela(source: FlatModel, file: Buffer, on_cpu: Collection[str] = ()) -> Buffer:
    """Return a file for Vela.

    It has no memory plan of its converter: Vela adds one under the same name. Operators that keep a state are custom
    operators in it, so that they stay on the CPU. So are operators whose commands are wrong, and those that write the
    tensors `on_cpu`. Transposed convolutions are apart from slices.
    """
    operators = tuple(vela_hidden.kept(source, number, on_cpu) for number in range(len(source.operators)))
    shown = vela_hidden.apart(replace(source, tensors=vela_hidden.tensors_of(source), operators=operators))
    if PLAN not in source.metadata and shown.operators == source.operators:
        return file
    metadata = {name: data for name, data in source.metadata.items() if name != PLAN}
    return encode(replace(shown, metadata=metadata))


def compiled(
    source: FlatModel | None,
    model: FlatModel,
    given: FlatModel | None = None,
    database: str = "",
    names: tuple[str, ...] = (),
) -> EthosUFile:
    """Return a file that Vela compiled; FormatError where a partition is damaged.

    Args:
        source: the file before.
        model: the compiled file.
        given: the source in stripes, if Vela was given that.
        database: Vela's debug database, of operators that write the tensors `names` first.
    """
    if source:
        model = with_states_of(_restored(source, vela_hidden.shown(given or source, model)), source)
    partitions = iter(partitions_of(model))
    found = {i: next(partitions) for i, op in enumerate(model.operators) if is_partition(op)}
    return EthosUFile(source or model, model, found, databases.read(database, "Vela") if database else None, names)


def _restored(source: FlatModel, model: FlatModel) -> FlatModel:
    """Give operators on the CPU the form that they had before Vela.

    It gives layers an int32 bias of zeros, even float ones.
    """
    given = {source.tensors[i].name: op for op in source.operators for i in op.outputs}
    operators: list[FlatOperator] = []
    for op in model.operators:
        before = given.get(model.tensors[op.outputs[0]].name) if op.outputs else None
        if before is not None and before.name == op.name and op.name in LAYERS:
            wanted = (*before.inputs, *(NO_TENSOR for _ in op.inputs))
            inputs = (i if given_to >= 0 else NO_TENSOR for i, given_to in zip(op.inputs, wanted, strict=False))
            operators.append(replace(op, inputs=tuple(inputs)[: len(before.inputs)]))
        else:
            operators.append(op)
    return with_origins(replace(model, operators=tuple(operators)), source)


def target_of(model: FlatModel) -> str | None:
    """Return the target that Vela compiled a file for; None for a file without partitions."""
    for part in partitions_of(model):
        accelerator = program_of(blob.compose(part.blob), "npu 0").stream.config.name
        for name in targets.npu_names():
            npu = targets.load(name).npu
            if isinstance(npu, EthosU) and npu.target == accelerator:
                return name
    return None
