"""What a build asks of an NPU's backend in ExecuTorch, whichever it is; `sides.py` says which a target has."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from deuteron.builds.manifest import Partition
from deuteron.errors import DeuteronError
from deuteron.frontend.lowering_record import Recording

Tell = Callable[[ExportedProgram], None]
"""Is called with a program that has been tagged."""


class Side(ABC):
    """An NPU's side of a build, over ExecuTorch's unmodified backend for it.

    Attributes:
        backend: what errors call that backend.
    """

    backend: str

    @abstractmethod
    def imported(self) -> AbstractContextManager[object]:
        """A context in which the backend can be imported; MissingToolError when something is not installed."""

    @abstractmethod
    def lowering(self, recording: Recording[Any]) -> AbstractContextManager[object]:
        """A context in which models are lowered: the backend finds its compiler, and what it does is recorded."""

    @abstractmethod
    def write(self, model: fx.GraphModule) -> None:
        """Write operators of a float model otherwise that the backend would leave to the CPU."""

    @abstractmethod
    def quantizer(self) -> Any:
        """PT2E's quantiser for the NPU."""

    @abstractmethod
    def partitioner(self, state: Callable[[], Mapping[str, Any]], tell: Tell) -> Any:
        """What picks the nodes that the NPU takes, and tells of them.

        `state` gives the quantised module's state dict when it is known.
        """

    @abstractmethod
    def keep(self, node: fx.Node, why: str) -> None:
        """Tell the partitioner to leave a node, for this reason."""

    @abstractmethod
    def edge_config(self) -> Any:
        """How edge programs are made."""

    @abstractmethod
    def edge_passes(self, program: ExportedProgram, state: Mapping[str, Any]) -> Any:
        """The passes that bring an edge program into the form that the partitioner wants.

        `state` is the quantised module's state dict.
        """

    @abstractmethod
    def last_passes(self) -> Any:
        """The passes over what is left of an edge program after delegation."""

    @abstractmethod
    def failure(self, recording: Recording[Any]) -> DeuteronError | None:
        """What the backend or its compiler has refused, when lowering has failed; None when they do not say."""

    @abstractmethod
    def placed_in_memory(self, manager: Any, recording: Recording[Any]) -> Any:
        """ExecuTorch's program manager, with partitions that fit into the target's memory together.

        Raises:
            CapacityError: there are none.
        """

    @abstractmethod
    def describe(self, recording: Recording[Any]) -> tuple[Partition, ...]:
        """The manifest's entry for each partition."""

    @abstractmethod
    def files(self, recording: Recording[Any]) -> Mapping[str, bytes]:
        """The files that a build keeps of its partitions, by name."""

    def warnings(self, recording: Recording[Any], partitions: Sequence[Partition]) -> tuple[str, ...]:
        """Sentences about what is wrong with described partitions as their compiler made them."""
        del recording, partitions
        return ()

    def ask(self, program: ExportedProgram, partitioner: Any, state: Mapping[str, Any]) -> None:
        """Let a partitioner see the edge program of an exported one, whose module's state dict is `state`."""
        from executorch.exir import to_edge_transform_and_lower

        passes: Sequence[Any] | Any = self.edge_passes(program, state)
        to_edge_transform_and_lower(
            program, transform_passes=passes or None, partitioner=[partitioner], compile_config=self.edge_config()
        )
