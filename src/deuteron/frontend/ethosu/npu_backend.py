"""An Ethos-U's side of a build: ExecuTorch's unmodified Arm backend."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from deuteron.arch.targets import EthosU
from deuteron.builds import hazards
from deuteron.builds.manifest import Partition
from deuteron.builds.options import BuildOptions
from deuteron.errors import DeuteronError
from deuteron.frontend.ethosu import decompositions, upstream, vela
from deuteron.frontend.ethosu.partition import describe, files
from deuteron.frontend.ethosu.upstream import Recording
from deuteron.frontend.executorch_release import check_executorch
from deuteron.frontend.npu_backend import Side, Tell
from deuteron.npu.ethosu.program import program_of


class EthosUSide(Side):
    """That of a target with an Ethos-U."""

    backend = upstream.BACKEND

    def __init__(self, npu: EthosU, options: BuildOptions) -> None:
        self._npu = npu
        self._options = options

    @contextmanager
    def imported(self) -> Generator[None]:
        """A context in which the backend can be imported."""
        check_executorch()
        vela.check(self._npu, self._options.vela)
        yield

    @contextmanager
    def lowering(self, recording: Recording) -> Generator[None]:
        """A context in which what passes through the backend is recorded."""
        with self.imported(), upstream.observed(recording, self._options.vela.vela_config):
            yield

    def write(self, model: fx.GraphModule) -> None:
        """Write operators of a float model otherwise that the backend would leave to the CPU."""
        decompositions.write(model)

    def quantizer(self) -> Any:
        """The wheel's quantiser."""
        return upstream.quantizer(self._npu, self._options)

    def partitioner(self, state: Callable[[], Mapping[str, Any]], tell: Tell) -> Any:
        """The wheel's partitioner, which tells."""
        del state
        return upstream.partitioner(self._npu, self._options, tell)

    def keep(self, node: fx.Node, why: str) -> None:
        """Tell the partitioner to leave a node, for this reason."""
        upstream.keep(node, why)

    def edge_config(self) -> Any:
        """How edge programs are made."""
        return upstream.edge_config()

    def edge_passes(self, program: ExportedProgram, state: Mapping[str, Any]) -> Any:
        """The pass that keeps bounds of layers' results; otherwise the partitioner takes edge programs as they are."""
        return [upstream.keep_bounds]

    def last_passes(self) -> Any:
        """None."""
        return []

    def failure(self, recording: Recording) -> DeuteronError | None:
        """None: what Vela refuses is an error of its own."""
        return None

    def placed_in_memory(self, manager: Any, recording: Recording) -> Any:
        """The manager as it is: Vela has planned the memory of each partition by itself."""
        return manager

    def describe(self, recording: Recording) -> tuple[Partition, ...]:
        """The manifest's entry for each partition."""
        return tuple(describe(index, partition, self._npu) for index, partition in enumerate(recording.partitions))

    def warnings(self, recording: Recording, partitions: Sequence[Partition]) -> tuple[str, ...]:
        """Where Vela's commands do not wait for what they need."""
        warnings: list[str] = []
        for number, (lowered, entry) in enumerate(zip(recording.partitions, partitions, strict=True)):
            program = program_of(lowered.payload, f"npu {number}")
            warnings += hazards.warnings(number, program, entry, program.hazards(entry.dataflow))
        return tuple(warnings)

    def files(self, recording: Recording) -> Mapping[str, bytes]:
        """Each partition as Vela got it, and what Vela tells of it."""
        return files(recording.partitions)
