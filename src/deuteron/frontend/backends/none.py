"""The back end of a target without an NPU: ExecuTorch's rewrites of float models, and no partitions."""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from deuteron.arch.targets import Arch
from deuteron.builds.manifest import Partition
from deuteron.builds.options import BuildOptions
from deuteron.errors import DeuteronError
from deuteron.frontend.backends.interface import NpuBackend, OnTagged
from deuteron.frontend.backends.neutron import upstream
from deuteron.frontend.lowering_record import Recording


class NoNpuBackend(NpuBackend):
    """The back end of a target without an NPU, whose CPU runs all of a model."""

    backend = "ExecuTorch"
    has_npu = False

    def __init__(self, arch: Arch, options: BuildOptions) -> None:
        del arch
        self._options = options

    def imported(self) -> AbstractContextManager[object]:
        """A context in which ExecuTorch's NXP backend can be imported, whose rewrites are used."""
        return upstream.converter(self._options)

    @contextmanager
    def lowering(self, recording: Recording[Any]) -> Generator[None]:
        """The same context: there are no partitions to record."""
        del recording
        with upstream.converter(self._options):
            yield

    def write(self, model: fx.GraphModule) -> None:
        """Leave the model as it is."""

    def quantizer(self) -> Any:
        """A quantizer that rewrites models and annotates nothing."""
        return upstream.rewriting_quantizer(self._options.converter)

    @property
    def quantizes_for(self) -> str:
        """Empty: all CPUs have one quantizer."""
        return ""

    def partitioner(self, state: Callable[[], Mapping[str, Any]], on_tagged: OnTagged) -> Any:
        """None."""
        del state, on_tagged

    def keep(self, node: fx.Node, why: str) -> None:
        """Do nothing: all nodes are on the CPU."""

    def edge_config(self) -> Any:
        """ExecuTorch's configuration of edge programs."""
        return upstream.edge_config()

    def edge_passes(self, program: ExportedProgram, state: Mapping[str, Any]) -> Any:
        """No passes."""
        del program, state
        return []

    def last_passes(self) -> Any:
        """No passes."""
        return []

    def failure(self, recording: Recording[Any]) -> DeuteronError | None:
        """None: there is no compiler."""
        del recording

    def placed_in_memory(self, manager: Any, recording: Recording[Any]) -> Any:
        """The manager unchanged."""
        del recording
        return manager

    def describe(self, recording: Recording[Any]) -> tuple[Partition, ...]:
        """No partitions."""
        del recording
        return ()

    def files(self, recording: Recording[Any]) -> Mapping[str, bytes]:
        """No files."""
        del recording
        return {}
