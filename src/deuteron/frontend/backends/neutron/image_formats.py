"""Corrects the formats that ExecuTorch's NXP backend gives to images.

The backend makes images channels last inside a partition. It forgets so of an image that a permutation, a reshape or a
reduction reads or computes, and so of an input in channels-last memory if its optimiser removes a permutation of it.
Rows whose permutation to an image it removes would be read as if they were that image.
Elements of inputs and outputs would be in another order, and slices of another dimension.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.export import ExportedProgram

from deuteron.frontend.upstream import private_apis
from deuteron.frontend.upstream.access import replaced


@contextmanager
def corrected() -> Generator[None]:
    """Convert partitions with correct formats in this context."""
    from executorch.backends.nxp.backend.data_format import DataFormat

    images: dict[str, tuple[int, ...]] = {}

    def converting(original: Callable[..., Any]) -> Callable[..., Any]:
        def convert(self: Any, edge_program: ExportedProgram, *args: Any, **kwargs: Any) -> Any:
            images.clear()
            images.update(_images(edge_program))
            tflite, formats, handles = original(self, edge_program, *args, **kwargs)
            last = _in_channels_last_memory(edge_program)
            for side in formats.values():
                side.update(dict.fromkeys(side.keys() - images.keys(), DataFormat.FORMATLESS))
                side.update(dict.fromkeys(side.keys() & last, DataFormat.CHANNELS_LAST))
            return tflite, formats, handles

        return convert

    def appending(original: Callable[..., Any]) -> Callable[..., Any]:
        def append(self: Any, ops_to_add: list[Any]) -> None:
            original(self, ops_to_add)
            for op in ops_to_add:
                for tensor in (*op.tmp_inputs, *op.tmp_outputs):
                    if tuple(tensor.shape.vector) == images.get(tensor.name):
                        tensor.tensor_format = DataFormat.CHANNELS_LAST

        return append

    with replaced(private_apis.NXP_TO_TFLITE, converting), replaced(private_apis.NXP_APPEND_OPERATORS, appending):
        yield


def _images(program: ExportedProgram) -> dict[str, tuple[int, ...]]:
    """Return the tensors that the converter makes channels last, with their shapes in that order."""
    from executorch.backends.nxp.backend.data_format import NXP_NODE_FORMAT

    shapes: dict[str, tuple[int, ...]] = {}
    for node in program.graph.nodes:
        value, found = node.meta.get("val"), node.meta.get(NXP_NODE_FORMAT)
        if isinstance(value, Tensor) and value.dim() > 2 and found is not None and found.is_channels_first():
            shapes[node.name] = (value.shape[0], *value.shape[2:], value.shape[1])
    return shapes


def _in_channels_last_memory(program: ExportedProgram) -> set[str]:
    """Return the tensors in channels-last memory, which the converter reads and writes as they are."""
    from executorch.backends.nxp.backend.edge_helper import is_channels_last_dim_order

    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    return {
        name
        for name, value in values.items()
        if isinstance(value, Tensor) and is_channels_last_dim_order([*value.dim_order()])
    }
