"""Fits the partitions of an Ethos-U into a budget of SRAM: cuts them into stripes of rows before Vela compiles them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import fx

from deuteron.arch.targets import EthosU
from deuteron.arch.vela import VelaOptions
from deuteron.board.vela_search import Candidate, TooSmallError, VelaSearch, is_limited, payload_difference
from deuteron.builds.options import BuildOptions
from deuteron.errors import CapacityError, DeuteronError, InternalError
from deuteron.frontend.backends.ethosu import stripe_writer
from deuteron.frontend.backends.ethosu.origins import by_operator
from deuteron.frontend.backends.ethosu.row_graph import rows_of
from deuteron.frontend.backends.ethosu.upstream import (
    EthosUPartition,
    LoweredProgram,
    Recording,
    compiled_again,
    handle_map,
)
from deuteron.frontend.backends.reemit import reemit
from deuteron.graph_stripes.rows import StripesError
from deuteron.graph_stripes.search import VELA, SegmentSearch, Tried
from deuteron.graph_stripes.tflite_writer import PlanWriter
from deuteron.npu.ethosu.device import Device
from deuteron.npu.ethosu.partition_record import VelaFiles, cycles_of, record_of
from deuteron.npu.ethosu.program import program_of


def fitted(manager: Any, recording: Recording, npu: EthosU, options: BuildOptions) -> Any:
    """Return the program manager of a program within the budget; the recording gets the new partitions.

    Args:
        manager: the program manager of a session.
        recording: the partitions of the session.
        npu: the NPU.
        options: of the build.

    Raises:
        CapacityError: a partition does not fit; the error names the least that was found.
    """
    if not is_limited(options.memory):
        return manager
    tensors = sum(manager.executorch_program.execution_plan[0].non_const_buffer_sizes)
    budget = options.memory.sram_budget
    if budget is not None and tensors > budget:
        raise CapacityError(
            f"the CPU's tensors, inputs and outputs take {tensors:,} bytes of SRAM, the budget is {budget:,}",
            hint=f"give `--sram-budget` more than {tensors}",
        )
    partitions: list[EthosUPartition] = []
    errors: list[TooSmallError] = []
    for number, partition in enumerate(recording.partitions):
        compiler = PartitionCompiler(partition, npu, number, tensors)
        search = VelaSearch(compiler, options.memory, options.vela, share=len(recording.partitions))
        try:
            found = search.chosen()
        except TooSmallError as error:
            errors.append(error)
            continue
        partitions.append(replace(found.candidate.made, stripes=found.stripes, notes=found.notes))
    if errors:
        raise max(errors, key=lambda error: error.least)
    return reemit(manager, recording, partitions, handle_map)


class PartitionCompiler:
    """A partition, as the search compiles it.

    Args:
        partition: as Vela compiles it by itself.
        npu: the NPU.
        number: the partition's.
        tensors: bytes of SRAM of the CPU's tensors, inputs and outputs.
    """

    workers = 1

    def __init__(self, partition: EthosUPartition, npu: EthosU, number: int, tensors: int) -> None:
        if partition.lowered is None:
            raise InternalError(f"partition {number} has not been lowered")
        self._partition, self._lowered, self._npu = partition, partition.lowered, npu
        self._number, self._tensors = number, tensors
        self._rows = rows_of(self._lowered.module, _inputs(self._lowered))
        self._made: dict[tuple[VelaOptions, tuple[Tried, ...]], Candidate] = {}

    def candidate(self, options: VelaOptions, segments: tuple[Tried, ...] = ()) -> Candidate:
        """Return the program of the partition, or of the partition with these segments in stripes."""
        if (options, segments) not in self._made:
            self._made[options, segments] = self._candidate(options, segments)
        return self._made[options, segments]

    def _candidate(self, options: VelaOptions, segments: tuple[Tried, ...]) -> Candidate:
        module = stripe_writer.copied(self._lowered.module)
        stripes, work = (), ()
        if segments:
            rows = rows_of(module, _inputs(self._lowered))
            stripes, work = stripe_writer.cut(module, rows, [one.cut for one in segments])
        payload, files = self._compiled(module, options, is_cut=bool(segments))
        record = record_of(payload, files, self._where)
        made = replace(self._partition, payload=payload, files=files, record=record)
        blob = program_of(payload, self._where).blob
        scratch = blob.scratch_bytes + Device(blob, self._where).fast_scratch_bytes()
        cycles = cycles_of(files.summary, self._where)
        return Candidate(self._tensors + scratch, scratch, cycles, segments, stripes, work, made)

    def _compiled(self, module: fx.GraphModule, options: VelaOptions, *, is_cut: bool) -> tuple[bytes, VelaFiles]:
        try:
            return compiled_again(self._lowered, module, self._npu, options, self._number)
        except DeuteronError:
            raise
        except Exception as error:
            if not is_cut:
                raise
            raise StripesError(f"ExecuTorch cannot write the stripes: {type(error).__name__}: {error}") from error

    @property
    def _where(self) -> str:
        return f"npu {self._number}"

    def segments(self, uncut: Candidate) -> SegmentSearch:
        """Return the search over the operators of the partition."""
        del uncut
        return SegmentSearch(self._rows.model, VELA, graph=self._rows.graph, writer=PlanWriter)

    def difference(self, uncut: Candidate, one: Candidate) -> str | None:
        """Return what is wrong with a cut program: its ends, hazards or outputs."""
        graph = self._partition.record.graph
        types = [graph.dtypes[name] for name in graph.inputs]
        return payload_difference(uncut.made.payload, one.made.payload, one.made.record.values, types)

    def names(self, first: int, last: int) -> tuple[str, ...]:
        """Return the names of the model's nodes, or those of TOSA operators that no node has become."""
        graph = self._partition.record.graph
        origins = by_operator(self._partition.nodes, graph)
        known = {
            name: [origin.node.name for origin in origins[index]]
            for index, operator in enumerate(graph.operators)
            for name in operator.outputs
        }
        nodes = (node for op in self._rows.operators[first:last] for node in op.nodes)
        named = (known.get(node.name, [node.name]) for node in nodes)
        return tuple(dict.fromkeys(name for names in named for name in names))


def _inputs(lowered: LoweredProgram) -> Sequence[str]:
    return [str(name) for name in lowered.program.graph_signature.user_inputs]
