"""The interface of an NPU back end: the steps of a build that depend on ExecuTorch's backend for the NPU."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from deuteron.builds.manifest import Partition, StripedSegment
from deuteron.errors import DeuteronError
from deuteron.frontend.lowering_record import Recording

OnTagged = Callable[[ExportedProgram], None]
"""Called with a program after the partitioner has tagged it."""


class NpuBackend(ABC):
    """The steps of a build over ExecuTorch's unmodified backend for one NPU.

    Attributes:
        backend: the name of that backend in errors.
        has_npu: whether there is an NPU.
        decomposes_layers: whether attention, recurrent layers and signals are decomposed as for a Cortex-M.
        keeps_float_layers: whether layers without a kernel stay in the model, in float on a CPU without int8 operators:
            convolutions with computed weights, unpools, layers over three dimensions, and dilated pools.
        measures_softmax: whether results of a softmax on the NPU have the scale of their range, in place of 1/256.
    """

    backend: str
    has_npu: bool = True
    decomposes_layers: bool = False
    keeps_float_layers: bool = False
    measures_softmax: bool = False

    @abstractmethod
    def imported(self) -> AbstractContextManager[object]:
        """A context in which the backend can be imported; MissingToolError if a package is not installed."""

    @abstractmethod
    def lowering(self, recording: Recording[Any]) -> AbstractContextManager[object]:
        """A context for lowering: the backend finds its compiler, and `recording` records the partitions."""

    @abstractmethod
    def write(self, model: fx.GraphModule) -> None:
        """Replace operators of a float model that the backend would leave to the CPU."""

    @abstractmethod
    def quantizer(self) -> Any:
        """PT2E's quantizer for the NPU."""

    @property
    @abstractmethod
    def quantizes_for(self) -> str:
        """The properties of the NPU that the quantizer and the rewrites before it depend on, as text."""

    @abstractmethod
    def partitioner(self, state: Callable[[], Mapping[str, Any]], on_tagged: OnTagged) -> Any:
        """ExecuTorch's partitioner for the NPU; it calls `on_tagged` with each tagged program.

        `state` returns the state dict of the quantized module, once there is one.
        """

    @abstractmethod
    def keep(self, node: fx.Node, why: str) -> None:
        """Mark a node so that the partitioner leaves it to the CPU, with the reason."""

    @abstractmethod
    def edge_config(self) -> Any:
        """ExecuTorch's configuration of edge programs."""

    @abstractmethod
    def edge_passes(self, program: ExportedProgram, state: Mapping[str, Any]) -> Any:
        """The passes that prepare an edge program for the partitioner.

        `state` is the state dict of the quantized module.
        """

    @abstractmethod
    def last_passes(self) -> Any:
        """The passes over an edge program after delegation."""

    @abstractmethod
    def failure(self, recording: Recording[Any]) -> DeuteronError | None:
        """The reason for a failed lowering, as the backend or its compiler reports it; None if neither does."""

    def left_to_cpu(self, recording: Recording[Any]) -> Mapping[str, str]:
        """Nodes that ended a lowering and that a CPU with int8 operators can compute.

        Returns:
            Why the NPU's backend cannot compile them, by their names at quantization.
        """
        del recording
        return {}

    @abstractmethod
    def placed_in_memory(self, manager: Any, recording: Recording[Any]) -> Any:
        """ExecuTorch's program manager, with partitions that fit together into the target's memory.

        Raises:
            CapacityError: the partitions do not fit.
        """

    @abstractmethod
    def describe(self, recording: Recording[Any]) -> tuple[Partition, ...]:
        """The manifest's entry for each partition."""

    @abstractmethod
    def files(self, recording: Recording[Any]) -> Mapping[str, bytes]:
        """The files of the partitions that a build keeps, by name."""

    def warnings(self, recording: Recording[Any], partitions: Sequence[Partition]) -> tuple[str, ...]:
        """Warnings about compiled partitions."""
        del recording, partitions
        return ()

    def stripes(self, recording: Recording[Any]) -> tuple[StripedSegment, ...]:
        """The segments of partitions that were cut before another compiler got them."""
        del recording
        return ()

    def tag(self, program: ExportedProgram, partitioner: Any, state: Mapping[str, Any]) -> None:
        """Run a partitioner on the edge program of an exported program with the state dict `state`."""
        from executorch.exir import to_edge_transform_and_lower

        passes: Sequence[Any] | Any = self.edge_passes(program, state)
        to_edge_transform_and_lower(
            program, transform_passes=passes or None, partitioner=[partitioner], compile_config=self.edge_config()
        )
