"""The back end of a Neutron: ExecuTorch's NXP backend, and the converter that it calls."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from deuteron.arch.targets import Arch
from deuteron.builds.error_locations import with_lines
from deuteron.builds.manifest import Partition, Source
from deuteron.builds.options import BuildOptions
from deuteron.errors import DeuteronError, FormatError, InternalError, UnsupportedError, all_refused
from deuteron.frontend.backends.interface import NpuBackend, OnTagged
from deuteron.frontend.backends.neutron import decompositions, delegation_reasons, image_formats, upstream
from deuteron.frontend.backends.neutron.handles import debug_handle_map
from deuteron.frontend.backends.neutron.partition import (
    describe,
    intermediate_files,
    kernel_selection_files,
    tflite_files,
)
from deuteron.frontend.backends.neutron.refusals import BACKEND
from deuteron.frontend.backends.neutron.sram_allocation import needs_joint_plan, plan_jointly
from deuteron.frontend.backends.neutron.upstream import NeutronPartition, Recording
from deuteron.frontend.backends.reemit import reemit
from deuteron.frontend.lowering_record import EdgeNode
from deuteron.npu.neutron import sdk
from deuteron.npu.neutron.convert import Conversion, to_tflite
from deuteron.npu.provenance import payload_mark

_IDLE = "the NPU has nothing to compute for it"
_REFUSED = "the NPU's backend cannot convert its quantization, which neighbours share"


class NeutronNpuBackend(NpuBackend):
    """The back end of a target with a Neutron."""

    backend = BACKEND
    decomposes_layers = True
    keeps_float_layers = True

    def __init__(self, arch: Arch, options: BuildOptions) -> None:
        self._arch = arch
        self._options = options
        self._target = arch.need_neutron().target
        self._session: sdk.Session | None = None

    def imported(self) -> AbstractContextManager[object]:
        """A context in which the backend can import the converter."""
        return upstream.converter(self._options)

    @contextmanager
    def lowering(self, recording: Recording) -> Generator[None]:
        """A context with the converter installed and the partitions recorded."""
        converter = upstream.converter(self._options)
        with converter as self._session, image_formats.corrected(), upstream.observed(recording):
            yield

    def write(self, model: fx.GraphModule) -> None:
        """Decompose operators that the NPU supports in another form only."""
        decompositions.write(model)

    def quantizer(self) -> Any:
        """ExecuTorch's quantizer with corrected annotations."""
        return upstream.quantizer(self._target, self._options.converter)

    @property
    def quantizes_for(self) -> str:
        """ExecuTorch's name of the target."""
        return self._target

    def partitioner(self, state: Callable[[], Mapping[str, Any]], on_tagged: OnTagged) -> Any:
        """ExecuTorch's partitioner, which records reasons."""
        return upstream.partitioner(state, self._target, self._options, on_tagged)

    def keep(self, node: fx.Node, why: str) -> None:
        """Mark a node so that the partitioner leaves it to the CPU, with the reason."""
        delegation_reasons.keep(node, why)

    def edge_config(self) -> Any:
        """ExecuTorch's configuration of edge programs."""
        return upstream.edge_config()

    def edge_passes(self, program: ExportedProgram, state: Mapping[str, Any]) -> Any:
        """The passes that prepare an edge program for the partitioner."""
        return upstream.edge_passes(program, state, self._options)

    def last_passes(self) -> Any:
        """The passes over an edge program after delegation."""
        return upstream.last_passes()

    def failure(self, recording: Recording) -> DeuteronError | None:
        """The error of the converter or of the backend."""
        try:
            if self._session is not None:
                self._session.raise_failure()
        except DeuteronError as failure:
            return _with_source(failure, recording)
        if recording.partitions and recording.partitions[-1].is_empty:
            return UnsupportedError(
                f"partition {len(recording.partitions) - 1} computes nothing: all its operators were optimised away",
                hint=_keep_on_cpu(recording.partitions[-1].nodes.values()),
            )
        return all_refused([_badly_quantized(node) for node in recording.refused]) if recording.refused else None

    def left_to_cpu(self, recording: Recording) -> Mapping[str, str]:
        """Nodes of a partition without operators, which only give memory another shape, and refused quantizations."""
        last = recording.partitions[-1:]
        idle = last[0].marks if last and last[0].is_empty else ()
        refused = [node.mark for node in recording.refused if node.mark]
        return dict.fromkeys(idle, _IDLE) | dict.fromkeys(refused, _REFUSED)

    def placed_in_memory(self, manager: Any, recording: Recording) -> Any:
        """The manager; partitions that do not fit together with ExecuTorch's tensors are planned jointly."""
        tensors = sum(manager.executorch_program.execution_plan[0].non_const_buffer_sizes)
        if not needs_joint_plan(recording, tensors, self._arch, self._options):
            return manager
        program = bytes(manager.buffer)
        conversions = plan_jointly(recording, program, tensors, self._arch, self._options)
        partitions = [_converted(p, c) for p, c in zip(recording.partitions, conversions, strict=True)]
        return reemit(manager, recording, partitions, _handles)

    def describe(self, recording: Recording) -> tuple[Partition, ...]:
        """The manifest's entry for each partition."""
        return tuple(map(describe, recording.partitions))

    def files(self, recording: Recording) -> Mapping[str, bytes]:
        """The TFLite file of each partition, and the files that options request."""
        files = tflite_files(recording.partitions)
        if self._options.intermediates:
            files |= intermediate_files(recording.partitions)
        if self._options.dump_kernel_selection_code:
            files |= kernel_selection_files(recording.partitions)
        return files


def _converted(partition: NeutronPartition, conversion: Conversion) -> NeutronPartition:
    """Return a partition with another conversion."""
    from executorch.backends.nxp.nxp_backend import PayloadComposer

    composer: Any = PayloadComposer()
    converted = to_tflite(partition.tflite, conversion)
    return replace(
        partition,
        converted=converted,
        payload=composer.get_binary_payload(partition.formats, converted),
        kernel_selection=conversion.selection.to_c().encode("ascii") if partition.kernel_selection else b"",
    )


def _handles(partition: NeutronPartition) -> dict[Any, tuple[int, ...]]:
    own = debug_handle_map(partition.tflite, partition.converted, partition.handles)
    return {**own, payload_mark(partition.payload): ()}


def _with_source(failure: DeuteronError, recording: Recording) -> DeuteronError:
    """Add the lines of the model to an error of the converter.

    An unreadable file is not the user's error: the backend wrote it.
    """
    refused: list[Sequence[EdgeNode]] = []

    def source_of(op: int) -> Source | None:
        nodes = recording.partitions[-1].nodes.get(op, ()) if recording.partitions else ()
        source = next((node.source for node in nodes if node.source), None)
        if source is not None:
            refused.append(nodes)
        return source

    placed = with_lines(failure, source_of)
    if isinstance(failure, FormatError):
        return InternalError(
            f"{BACKEND} wrote partition {len(recording.partitions) - 1} wrong: {placed.message}",
            where=placed.where,
            hint="report the model with this text; the model is valid, and the backend's file is not",
        )
    if refused and isinstance(failure, UnsupportedError):
        return UnsupportedError(placed.message, hint=_keep_on_cpu(refused), where=placed.where)
    return placed


def _badly_quantized(node: EdgeNode) -> UnsupportedError:
    """Return the error for an operator that the backend quantized and cannot convert."""
    code = f", at `{node.source.code}`" if node.source else ""
    return UnsupportedError(
        f"ExecuTorch's NXP backend quantized `{node.operator}` in a way that it cannot convert{code}",
        where=str(node.source) if node.source else node.name,
        hint=_keep_on_cpu([[node]]),
    )


def _keep_on_cpu(operators: Iterable[Sequence[EdgeNode]]) -> str:
    """Return the option that keeps these operators on the CPU; the last edge node of each computes it."""
    names = {nodes[-1].operator.partition(".")[0] for nodes in operators if nodes}
    return f"keep it on the CPU with `--operators-not-to-delegate {','.join(sorted(names))}`"
