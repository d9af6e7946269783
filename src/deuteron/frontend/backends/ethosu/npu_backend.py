"""The back end of an Ethos-U: ExecuTorch's unmodified Arm backend."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from deuteron.arch.targets import Arch
from deuteron.builds import hazards
from deuteron.builds.manifest import Partition, StripedSegment
from deuteron.builds.options import BuildOptions
from deuteron.errors import DeuteronError
from deuteron.frontend.backends.ethosu import decompositions, integers, upstream, vela
from deuteron.frontend.backends.ethosu.partition_manifest import describe, files
from deuteron.frontend.backends.ethosu.sram_budget import fitted
from deuteron.frontend.backends.ethosu.upstream import Recording
from deuteron.frontend.backends.interface import NpuBackend, OnTagged
from deuteron.frontend.executorch_release import check_executorch
from deuteron.frontend.quantize import indexed_writes
from deuteron.npu.ethosu.program import program_of


class EthosUNpuBackend(NpuBackend):
    """The back end of a target with an Ethos-U."""

    backend = upstream.BACKEND
    measures_softmax = True

    def __init__(self, arch: Arch, options: BuildOptions) -> None:
        self._npu = arch.need_ethosu()
        self._options = options

    @contextmanager
    def imported(self) -> Generator[None]:
        """A context in which the backend can be imported."""
        check_executorch()
        vela.check(self._npu, self._options.vela)
        yield

    @contextmanager
    def lowering(self, recording: Recording) -> Generator[None]:
        """A context in which the partitions are recorded."""
        with self.imported(), upstream.observed(recording, self._options.vela.vela_config):
            yield

    def write(self, model: fx.GraphModule) -> None:
        """Decompose operators of a float model that the backend would leave to the CPU; refuse wide integers."""
        integers.check(model)
        indexed_writes.check_sums(model)
        decompositions.write(model)

    def quantizer(self) -> Any:
        """ExecuTorch's quantizer."""
        return upstream.quantizer(self._npu, self._options)

    @property
    def quantizes_for(self) -> str:
        """The TOSA profile of the NPU."""
        with self.imported():
            return str(upstream.compile_spec(self._npu, self._options.vela).tosa_spec)

    def partitioner(self, state: Callable[[], Mapping[str, Any]], on_tagged: OnTagged) -> Any:
        """ExecuTorch's partitioner, which records reasons."""
        del state
        return upstream.partitioner(self._npu, self._options, on_tagged)

    def keep(self, node: fx.Node, why: str) -> None:
        """Mark a node so that the partitioner leaves it to the CPU, with the reason."""
        upstream.keep(node, why)

    def edge_config(self) -> Any:
        """ExecuTorch's configuration of edge programs."""
        return upstream.edge_config()

    def edge_passes(self, program: ExportedProgram, state: Mapping[str, Any]) -> Any:
        """The pass that keeps bounds of activations."""
        return [upstream.keep_bounds]

    def last_passes(self) -> Any:
        """No passes."""
        return []

    def failure(self, recording: Recording) -> DeuteronError | None:
        """None: errors of Vela are raised where they occur."""
        return None

    def placed_in_memory(self, manager: Any, recording: Recording) -> Any:
        """The manager; with a budget, partitions that do not fit are compiled in stripes."""
        return fitted(manager, recording, self._npu, self._options)

    def describe(self, recording: Recording) -> tuple[Partition, ...]:
        """The manifest's entry for each partition."""
        return tuple(describe(index, partition, self._npu) for index, partition in enumerate(recording.partitions))

    def warnings(self, recording: Recording, partitions: Sequence[Partition]) -> tuple[str, ...]:
        """Hazards in Vela's command streams."""
        warnings = [note for partition in recording.partitions for note in partition.notes]
        for number, (lowered, entry) in enumerate(zip(recording.partitions, partitions, strict=True)):
            program = program_of(lowered.payload, f"npu {number}")
            warnings += hazards.warnings(number, program, entry, program.hazards(entry.dataflow))
        return tuple(warnings)

    def stripes(self, recording: Recording) -> tuple[StripedSegment, ...]:
        """The segments of partitions that are in stripes."""
        return tuple(segment for partition in recording.partitions for segment in partition.stripes)

    def files(self, recording: Recording) -> Mapping[str, bytes]:
        """The TOSA file of each partition, and Vela's debug database."""
        return files(recording.partitions)
