"""Chooses kernels: a graph becomes a program of kernel calls."""

from dataclasses import dataclass, field

from deuteron.errors import InternalError, UnsupportedError
from deuteron.ir import ops
from deuteron.ir.graph import Graph
from deuteron.kernels.program import Program
from deuteron.passes.lowering import convolution, elementwise, movement, reduction
from deuteron.passes.lowering.builder import Builder


def select(graph: Graph) -> Program:
    """The program that computes the graph.

    Raises:
        UnsupportedError: when no kernel can run an op of this size or type; it names the op and its TFLite index.
    """
    outputs = _Outputs.of(graph)
    build = Builder(graph, outputs.homes)
    for op in graph.ops:
        try:
            _lower(build, op)
        except UnsupportedError as error:
            if error.where:
                raise
            raise build.unsupported(op, error.message, error.hint) from error
    for name, buffer in outputs.copies:
        source = build.tensor(name)
        op = ops.Reshape(inputs=(name,), outputs=(buffer,))
        movement.copy_whole(build, op, name, build.output(buffer, source.nbytes))
    return build.program(outputs.buffers)


def _lower(build: Builder, op: ops.Op) -> None:
    match op:
        case ops.Conv2D():
            convolution.conv2d(build, op)
        case ops.DepthwiseConv2D():
            convolution.depthwise_conv2d(build, op)
        case ops.FullyConnected():
            convolution.fully_connected(build, op)
        case ops.Add():
            elementwise.add(build, op)
        case ops.Mul():
            elementwise.mul(build, op)
        case ops.Unary() | ops.Quantize():
            elementwise.table(build, op)
        case ops.Softmax():
            elementwise.softmax(build, op)
        case ops.AveragePool2D():
            reduction.average_pool(build, op)
        case ops.MaxPool2D():
            reduction.max_pool(build, op)
        case ops.Mean():
            reduction.mean(build, op)
        case ops.Reshape():
            movement.reshape(build, op)
        case ops.Transpose():
            movement.transpose(build, op)
        case ops.Slice():
            movement.slice_(build, op)
        case ops.Pad():
            movement.pad(build, op)
        case ops.Concat():
            movement.concat(build, op)
        case _:
            raise InternalError(f"operator {type(op).__name__} has no lowering")


@dataclass(slots=True)
class _Outputs:
    """Where the graph's outputs live.

    Attributes:
        buffers: output buffers in argument order.
        homes: tensor -> output buffer, for outputs and for what reshapes turn into them.
        copies: (tensor, output buffer) where the tensor is an input or a constant.
    """

    buffers: tuple[str, ...] = ()
    homes: dict[str, str] = field(default_factory=dict[str, str])
    copies: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @classmethod
    def of(cls, graph: Graph) -> "_Outputs":
        """The homes of the graph's outputs."""
        found = cls()
        buffers: list[str] = []
        produced = graph.producers()
        for name in graph.outputs:
            if name in produced:
                found.homes[name] = name
                buffers.append(name)
            else:
                buffers.append(f"{name}/output")
                found.copies.append((name, buffers[-1]))
        found.buffers = tuple(buffers)
        for op in reversed(graph.ops):
            if isinstance(op, ops.Reshape) and op.outputs[0] in found.homes and op.inputs[0] in produced:
                found.homes.setdefault(op.inputs[0], found.homes[op.outputs[0]])
        return found
