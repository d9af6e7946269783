"""Replaces the payloads of a finished program's partitions and emits it again.

ExecuTorch's memory plan does not depend on the bytes of a delegate, so nothing is lowered again.
"""
# ruff: noqa: SLF001

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from torch import fx
from torch.utils import _pytree as pytree

from deuteron.errors import InternalError
from deuteron.frontend import mutable_buffers
from deuteron.frontend.lowering_record import LoweredPartition, Recording
from deuteron.frontend.nodes import computing, name_of

P = TypeVar("P", bound=LoweredPartition)


def reemit(
    manager: Any, recording: Recording[P], partitions: Sequence[P], handles: Callable[[P], dict[Any, tuple[int, ...]]]
) -> Any:
    """Return the program manager of a program with these partitions, which also replace those in the recording.

    Args:
        manager: the program manager of a session; its delegates change.
        recording: the recording of the session.
        partitions: all of them, in order.
        handles: gives the debug handles of a partition's operations.
    """
    by_names = {partition.names: partition for partition in partitions}
    for module in _delegates(manager.exported_program().graph_module):
        partition = by_names.pop(_names(module), None)
        if partition is None:
            raise InternalError("a delegate of the program is none of the partitions that were converted")
        module._processed_bytes = partition.payload
        if module.meta["debug_handle_map"]:  # with profiling
            module.meta["debug_handle_map"] = handles(partition)
    if by_names:
        raise InternalError(f"{len(by_names)} of the partitions that were converted are no delegates of the program")
    recording.partitions[:] = partitions
    return _emitted(manager)


def _delegates(module: fx.GraphModule) -> Iterable[Any]:
    """The delegates of a program."""
    from executorch.exir.lowered_backend_module import LoweredBackendModule

    return [part for part in module.children() if isinstance(part, LoweredBackendModule)]


def _names(module: Any) -> tuple[str, ...]:
    """The names of a delegate's nodes, as the recording has them."""
    return tuple(map(name_of, computing(module.original_module.graph)))


def _emitted(manager: Any) -> Any:
    """A program manager of the same program, with the existing ETRecord."""
    programs, methods, named = manager._execution_programs, manager._config_methods, manager._named_data
    for program in programs.values():
        _restore_outputs(program)
    with mutable_buffers.emitted():
        emitted = type(manager)(programs, methods, program_config(), named)
    record = manager._etrecord
    if record is not None:
        record._delegate_map = emitted.delegate_map  # the rest is unchanged: emitting changes debug handles of nodes
        emitted._etrecord = record
    return emitted


def _restore_outputs(program: Any) -> None:
    """Put back the outputs for state, which come first; emission removes as many in place, whatever they are."""
    output = program.graph.output_node()
    kept = pytree.tree_leaves(output.args)
    lost = len(program.graph_signature.output_specs) - len(kept)
    if lost:
        output.args = ((*kept[:1] * lost, *kept),)


def program_config() -> Any:
    """ExecuTorch's configuration of programs: the flatbuffer has the bytes of delegates and the names of variables."""
    from executorch.exir import ExecutorchBackendConfig

    return ExecutorchBackendConfig(extract_delegate_segments=False, emit_mutable_buffer_names=True)
