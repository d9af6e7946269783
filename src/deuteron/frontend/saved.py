"""Reads and writes the quantized PyTorch program: `reference.pt2` files and ETRecords."""

import copy
import importlib
import io
import pickle
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram

from deuteron.errors import FormatError, InputError
from deuteron.frontend import upstream_caches
from deuteron.frontend.cortex_m.custom_ops import library
from deuteron.frontend.inputs import copies
from deuteron.frontend.log_suppression import quiet
from deuteron.frontend.operators import is_quantize
from deuteron.frontend.source_lines import first_line
from deuteron.records import DAMAGED

_PARTS = ("", "_state_dict", "_constants", "_example_inputs")
_DEFINITIONS = ("torch.ao.quantization.fx._decomposed", "executorch.exir.passes.dim_order_ops_registry")
"""Modules that define operators of saved programs."""

_UNREADABLE = (*DAMAGED, OSError, AssertionError, pickle.UnpicklingError)
"""Exceptions that PyTorch and ExecuTorch raise for damaged files and for unknown operators."""


@dataclass(frozen=True, slots=True)
class Affine:
    """Quantization of a value at the program's boundary: real = scale * (stored - zero_point).

    Stored values range from `least` to `most`.
    """

    scale: float
    zero_point: int
    least: int = -128
    most: int = 127

    def real(self, stored: Tensor) -> Tensor:
        """The real values, float32."""
        return (stored.float() - self.zero_point) * self.scale

    def stored(self, real: Tensor) -> Tensor:
        """The nearest stored values."""
        return torch.clamp(torch.round(real / self.scale) + self.zero_point, self.least, self.most)


@dataclass(frozen=True, slots=True)
class Reference:
    """The quantized PyTorch program that a build saved for comparison.

    Attributes:
        module: the quantized program; float32 in and out. Each run starts from the initial values of its variables.
        stepping: the same, but its variables live from run to run; None without variables.
        inputs: quantization of each input; None for an input that no quantize operator reads.
        outputs: the same for each output.
    """

    module: nn.Module
    inputs: tuple[Affine | None, ...]
    outputs: tuple[Affine | None, ...]
    stepping: nn.Module | None = None

    @property
    def has_int16(self) -> bool:
        """True if any value is int16."""
        module: Any = self.module
        return any(is_quantize(node) and torch.int16 in node.args for node in module.graph.nodes)

    def run(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The program's outputs."""
        return _run(self.module, inputs)

    def steps(self, samples: Iterable[Sequence[Tensor]]) -> Iterator[tuple[Tensor, ...]]:
        """Yield the program's outputs for one sample after the other, the first one from the initial state."""
        module = _copied(self.stepping or self.module)
        for inputs in samples:
            yield copies(_run(module, inputs))  # an output may be a variable, which the next run changes


def _run(module: nn.Module, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    with torch.no_grad():
        outputs: Tensor | tuple[Tensor, ...] = module(*copies(inputs))
    return outputs if isinstance(outputs, tuple) else (outputs,)


def save(program: ExportedProgram) -> bytes:
    """Return the bytes of the file for a quantized program."""
    stream = io.BytesIO()
    with quiet():
        torch.export.save(program, stream)
    return stream.getvalue()


def load(path: Path) -> Reference:
    """Read a file that `save` wrote.

    Raises:
        FormatError: when it is damaged.
    """
    with quiet():
        for name in _DEFINITIONS:
            importlib.import_module(name)
        library.load()
        try:
            with upstream_caches.loading():
                program = torch.export.load(path)
            module = program.module(check_guards=False)
        except _UNREADABLE as e:
            raise FormatError(
                f"`{path.name}` cannot be read: {type(e).__name__}", where=str(path), hint="build the model again"
            ) from e
    return _reference(program, module)


def read(path: Path) -> ExportedProgram:
    """Read the program in a file that `torch.export.save` wrote.

    Raises:
        InputError: it is damaged, or of another release of PyTorch.
    """
    with quiet(), upstream_caches.loading():
        try:
            return torch.export.load(path)
        except _UNREADABLE as e:
            raise InputError(
                f"`{path.name}` cannot be read: {type(e).__name__}: {first_line(e)}",
                where=str(path),
                hint="write it with `torch.export.save` of the release of PyTorch that is installed here",
            ) from e


def recorded(path: Path, method: str = "forward") -> Reference:
    """Read the edge program of an ETRecord; its nodes have the names that `runtime.etrecord` returns.

    Raises:
        FormatError: when it is damaged, or has undefined operators.
    """
    with quiet():
        from executorch.exir.serde.export_serialize import SerializedArtifact
        from executorch.exir.serde.serialize import deserialize

        importlib.import_module("torch.ao.quantization.fx._decomposed")
        try:
            with zipfile.ZipFile(path) as archive:
                parts = [archive.read(f"edge_dialect_exported_program/{method}{part}") for part in _PARTS]
            program = deserialize(SerializedArtifact(*parts))
            module = program.module(check_guards=False)
        except _UNREADABLE as e:
            raise FormatError(
                f"PyTorch cannot read the program in the ETRecord: {type(e).__name__}: {str(e).partition(chr(10))[0]}",
                hint="read it with the release of ExecuTorch that saved it, or have it saved again by this one",
            ) from e
    return _reference(program, module)


def _reference(program: ExportedProgram, module: nn.Module) -> Reference:
    """Return the reference; raise FormatError if the signature names nodes that the graph does not have."""
    nodes = {node.name: node for node in program.graph.nodes}
    signature = program.graph_signature
    inputs, outputs = ([str(name) for name in names] for names in (signature.user_inputs, signature.user_outputs))
    for name in (*inputs, *outputs):
        if name not in nodes:
            raise FormatError(
                f"the program has no node `{name}`, which is one of its inputs or outputs",
                hint="have it saved again: the file is damaged",
            )
    changes = bool(program.graph_signature.buffers_to_mutate)
    return Reference(
        _without_changes(module) if changes else module,
        tuple(input_affine(nodes[name]) for name in inputs),
        tuple(output_affine(nodes[name]) for name in outputs),
        module if changes else None,
    )


def _copied(module: nn.Module) -> nn.Module:
    with quiet():  # PyTorch warns when it copies the graph of an exported program
        return copy.deepcopy(module)


def _without_changes(module: nn.Module) -> nn.Module:
    """Return the module of a program without the operators at its end that change its buffers."""
    made: Any = _copied(module)
    for node in reversed(made.graph.nodes):
        if node.target is torch.ops.aten.copy_.default and node.args[0].op == "get_attr":
            node.replace_all_uses_with(node.args[1])
            made.graph.erase_node(node)
    made.recompile()
    return made


def input_affine(node: fx.Node) -> Affine | None:
    """The quantization of a program's input; None if no quantize operator reads it."""
    return next((affine for user in node.users if (affine := _affine(user, ".quantize_per_tensor"))), None)


def output_affine(node: fx.Node) -> Affine | None:
    """The quantization of a program's output; None if it is not quantized."""
    return _affine(node, ".dequantize_per_tensor")


def _affine(node: fx.Node, operator: str) -> Affine | None:
    """The quantization parameters of a node; None for another operator."""
    if operator not in str(node.target):
        return None
    scale, zero_point, least, most = node.args[1:5]
    return Affine(float(str(scale)), int(str(zero_point)), int(str(least)), int(str(most)))
