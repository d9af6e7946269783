"""`reference.pt2`: the quantised PyTorch program."""

import importlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram

from deuteron.errors import FormatError
from deuteron.frontend.inputs import copies
from deuteron.frontend.quiet import quiet


@dataclass(frozen=True, slots=True)
class Affine:
    """Quantisation of a value at the program's boundary: real = scale * (stored - zero_point).

    Stored values lie from `least` to `most`.
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
    """What the user evaluates in PyTorch, as the build froze it.

    Attributes:
        module: the quantised program; float32 in and out.
        inputs: quantisation of each input, None where an input is not quantised at once.
        outputs: the same for each output.
    """

    module: nn.Module
    inputs: tuple[Affine | None, ...]
    outputs: tuple[Affine | None, ...]

    def run(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The program's outputs."""
        with torch.no_grad():
            outputs: Tensor | tuple[Tensor, ...] = self.module(*copies(inputs))
        return outputs if isinstance(outputs, tuple) else (outputs,)


def save(program: ExportedProgram) -> bytes:
    """The file for a quantised program."""
    stream = io.BytesIO()
    with quiet():
        torch.export.save(program, stream)
    return stream.getvalue()


def load(path: Path) -> Reference:
    """The content of a file that `save` made.

    Raises:
        FormatError: when it is damaged.
    """
    with quiet():
        importlib.import_module("torch.ao.quantization.fx._decomposed")  # defines the operators in the program
        try:
            program = torch.export.load(path)
        except (RuntimeError, ValueError, KeyError, AssertionError) as e:
            raise FormatError(
                f"`{path.name}` cannot be read: {type(e).__name__}", where=str(path), hint="build the model again"
            ) from e
    nodes = {node.name: node for node in program.graph.nodes}
    return Reference(
        program.module(check_guards=False),
        tuple(input_affine(nodes[str(name)]) for name in program.graph_signature.user_inputs),
        tuple(output_affine(nodes[str(name)]) for name in program.graph_signature.user_outputs),
    )


def input_affine(node: fx.Node) -> Affine | None:
    """The quantisation of an input of a quantised program, if it is quantised at once."""
    return next((affine for user in node.users if (affine := _affine(user, ".quantize_per_tensor"))), None)


def output_affine(node: fx.Node) -> Affine | None:
    """The quantisation of an output of a quantised program, if it is one."""
    return _affine(node, ".dequantize_per_tensor")


def _affine(node: fx.Node, operator: str) -> Affine | None:
    """The quantisation in a node, if it is that operator."""
    if operator not in str(node.target):
        return None
    scale, zero_point, least, most = node.args[1:5]
    return Affine(float(str(scale)), int(str(zero_point)), int(str(least)), int(str(most)))
