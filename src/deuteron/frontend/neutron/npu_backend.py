"""A Neutron's side of a build: ExecuTorch's NXP backend, and the converter that it calls."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from deuteron.arch import targets
from deuteron.arch.targets import Arch
from deuteron.builds.error_locations import with_lines
from deuteron.builds.manifest import Partition, Source
from deuteron.builds.options import BuildOptions
from deuteron.errors import DeuteronError, FormatError, InternalError, UnsupportedError, all_refused
from deuteron.frontend.lowering_record import EdgeNode
from deuteron.frontend.neutron import decompositions, delegation_reasons, upstream
from deuteron.frontend.neutron.partition import describe, intermediate_files, kernel_selection_files, tflite_files
from deuteron.frontend.neutron.reemit import emit_again
from deuteron.frontend.neutron.refusals import BACKEND
from deuteron.frontend.neutron.sram_allocation import needs_sharing, shared
from deuteron.frontend.neutron.upstream import Recording
from deuteron.frontend.npu_backend import Side, Tell
from deuteron.npu.neutron import sdk


class NeutronSide(Side):
    """That of a target with a Neutron, or without an NPU: what its CPU runs takes the same forms."""

    backend = BACKEND

    def __init__(self, arch: Arch, options: BuildOptions) -> None:
        self._arch = arch
        self._options = options
        self._target = (arch if arch.npu else targets.load(targets.neutron_names()[0])).need_neutron().target
        self._session: sdk.Session | None = None

    def imported(self) -> AbstractContextManager[object]:
        """A context in which the converter is where the backend looks for it."""
        return upstream.converter(self._options)

    @contextmanager
    def lowering(self, recording: Recording) -> Generator[None]:
        """A context in which the converter is there, and what passes through it is recorded."""
        with upstream.converter(self._options) as self._session, upstream.observed(recording):
            yield

    def write(self, model: fx.GraphModule) -> None:
        """Write what the NPU would have in other forms; without one nothing."""
        if self._arch.npu is not None:
            decompositions.write(model)

    def quantizer(self) -> Any:
        """The wheel's quantiser, whose annotations are put right."""
        return upstream.quantizer(self._target, self._options.converter, keeps_groups=self._arch.npu is None)

    def partitioner(self, state: Callable[[], Mapping[str, Any]], tell: Tell) -> Any:
        """The wheel's partitioner, which tells."""
        return upstream.partitioner(state, self._target, self._options, tell)

    def keep(self, node: fx.Node, why: str) -> None:
        """Tell the partitioner to leave a node, for this reason."""
        delegation_reasons.keep(node, why)

    def edge_config(self) -> Any:
        """How edge programs are made."""
        return upstream.edge_config()

    def edge_passes(self, program: ExportedProgram, state: Mapping[str, Any]) -> Any:
        """The passes that bring an edge program into the form that the partitioner wants."""
        return upstream.edge_passes(program, state, self._options)

    def last_passes(self) -> Any:
        """The passes over what is left of an edge program after delegation."""
        return upstream.last_passes()

    def failure(self, recording: Recording) -> DeuteronError | None:
        """What the converter, or the wheel, has refused."""
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
        return all_refused([_badly_quantised(node) for node in recording.refused]) if recording.refused else None

    def placed_in_memory(self, manager: Any, recording: Recording) -> Any:
        """The manager, whose partitions are converted together where they do not fit beside ExecuTorch's tensors."""
        tensors = sum(manager.executorch_program.execution_plan[0].non_const_buffer_sizes)
        if not needs_sharing(recording, tensors, self._arch, self._options):
            return manager
        program = bytes(manager.buffer)
        return emit_again(manager, recording, shared(recording, program, tensors, self._arch, self._options))

    def describe(self, recording: Recording) -> tuple[Partition, ...]:
        """The manifest's entry for each partition."""
        return tuple(map(describe, recording.partitions))

    def files(self, recording: Recording) -> Mapping[str, bytes]:
        """The TFLite file of each partition, and what the options ask for besides."""
        files = tflite_files(recording.partitions)
        if self._options.intermediates:
            files |= intermediate_files(recording.partitions)
        if self._options.dump_kernel_selection_code:
            files |= kernel_selection_files(recording.partitions)
        return files


def _with_source(failure: DeuteronError, recording: Recording) -> DeuteronError:
    """The converter's error, with the lines of the model that its TFLite operators came from.

    A file that cannot be read is none of the user's: the backend wrote it.
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
            hint="report the model with this text; it is sound, and what was made of it is not",
        )
    if refused and isinstance(failure, UnsupportedError):
        return UnsupportedError(placed.message, hint=_keep_on_cpu(refused), where=placed.where)
    return placed


def _badly_quantised(node: EdgeNode) -> UnsupportedError:
    """The error for an operator that the wheel quantised and then cannot convert."""
    code = f", at `{node.source.code}`" if node.source else ""
    return UnsupportedError(
        f"ExecuTorch's NXP backend quantised `{node.operator}` in a way that it cannot convert{code}",
        where=str(node.source) if node.source else node.name,
        hint=_keep_on_cpu([[node]]),
    )


def _keep_on_cpu(operators: Iterable[Sequence[EdgeNode]]) -> str:
    """The option that leaves these operators, each given by its edge nodes, to the CPU: the last node computes it."""
    names = {nodes[-1].operator.partition(".")[0] for nodes in operators if nodes}
    return f"keep it on the CPU with `--operators-not-to-delegate {','.join(sorted(names))}`"
