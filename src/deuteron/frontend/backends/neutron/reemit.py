"""Replaces the converted partitions of a finished program and emits it again.

ExecuTorch's memory plan does not depend on the bytes of a delegate, so nothing is lowered again.
"""
# ruff: noqa: SLF001

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from torch import fx

from deuteron.errors import InternalError
from deuteron.frontend import mutable_buffers
from deuteron.frontend.backends.neutron.handles import debug_handle_map
from deuteron.frontend.backends.neutron.upstream import NeutronPartition, Recording, program_config
from deuteron.frontend.nodes import computing, name_of
from deuteron.npu.neutron.convert import Conversion, to_tflite
from deuteron.npu.provenance import payload_mark


def reemit(manager: Any, recording: Recording, conversions: Sequence[Conversion]) -> Any:
    """Return the program manager of a program with these conversions, which also replace those in the recording.

    Args:
        manager: the program manager of a session; its delegates change.
        recording: the recording of the session.
        conversions: of all partitions, in order.
    """
    partitions = [_converted(p, c) for p, c in zip(recording.partitions, conversions, strict=True)]
    by_names = {partition.names: partition for partition in partitions}
    for module in _delegates(manager.exported_program().graph_module):
        partition = by_names.pop(_names(module), None)
        if partition is None:
            raise InternalError("a delegate of the program is none of the partitions that were converted")
        module._processed_bytes = partition.payload
        if module.meta["debug_handle_map"]:  # with profiling
            own = debug_handle_map(partition.tflite, partition.converted, partition.handles)
            module.meta["debug_handle_map"] = {**own, payload_mark(partition.payload): ()}
    if by_names:
        raise InternalError(f"{len(by_names)} of the partitions that were converted are no delegates of the program")
    recording.partitions[:] = partitions
    return _emitted(manager)


def _converted(partition: NeutronPartition, conversion: Conversion) -> NeutronPartition:
    """A partition with another conversion."""
    from executorch.backends.nxp.nxp_backend import PayloadComposer

    composer: Any = PayloadComposer()
    converted = to_tflite(partition.tflite, conversion)
    return replace(
        partition,
        converted=converted,
        payload=composer.get_binary_payload(partition.formats, converted),
        kernel_selection=conversion.selection.to_c().encode("ascii") if partition.kernel_selection else b"",
    )


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
    with mutable_buffers.emitted():
        emitted = type(manager)(programs, methods, program_config(), named)
    record = manager._etrecord
    if record is not None:
        record._delegate_map = emitted.delegate_map  # the rest is unchanged: emitting changes debug handles of nodes
        emitted._etrecord = record
    return emitted
