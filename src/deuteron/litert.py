"""LiteRT as a second opinion: a TFLite file on its interpreter, whole and one operator at a time.

`spec/rounding.md`, section 4, says how far it may be from the NPU, which rounds once where LiteRT rounds twice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deuteron.errors import FormatError, InputError, MissingToolError
from deuteron.ir import interpret, ops
from deuteron.ir.graph import Graph
from deuteron.ir.ops import Op
from deuteron.tflite.emit import emit
from deuteron.tflite.reader import op_names
from deuteron.tflite_model import TfliteModel

Array = npt.NDArray[np.generic]
Progress = Callable[[int, int], object]

EXACT = (
    ops.Maximum, ops.Minimum, ops.MaxPool2D, ops.ReduceMax, ops.ReduceMin, ops.ResizeNearest, ops.Pad, ops.MirrorPad,
    ops.Reshape, ops.Transpose, ops.Concat, ops.Slice,
)  # fmt: skip
"""Operators that round nothing."""


def distance_bound(op: Op, graph: Graph) -> int:
    """How many steps LiteRT may be from the correctly rounded result of the op."""
    if isinstance(op, EXACT):
        return 0
    if isinstance(op, ops.ResizeBilinear):
        # Positions have 10 fractional bits there: half of the last is lost per output row and column.
        _, rows, columns, _ = graph.type(op.outputs[0]).shape
        return 1 + 255 * (rows + columns + 1) // 2048
    return 1


def run(model: bytes, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a TFLite model in the order of its subgraph, computed by LiteRT's reference kernels.

    A model with a SUM is left to the other builtin kernels: the reference one returns -1 for int8 whatever it is given.

    Raises:
        MissingToolError: LiteRT is not installed.
        InputError: LiteRT does not take the model.
    """
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError as error:
        raise MissingToolError(
            "LiteRT is not installed", hint="install it with `pip install 'deuteron[litert]'`"
        ) from error
    summed = "SUM" in op_names(model)
    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if summed else OpResolverType.BUILTIN_REF
    try:
        interpreter: Any = Interpreter(model_content=model, experimental_op_resolver_type=resolver)
        interpreter.allocate_tensors()
        for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
    except (RuntimeError, ValueError) as error:
        raise InputError(f"LiteRT does not run the model: {error}") from error
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def one_op_graph(graph: Graph, op: Op) -> Graph:
    """A graph of this op alone, whose inputs are the op's operands that are not constant."""
    names = tuple(dict.fromkeys((*op.inputs, *op.outputs)))
    tensors = tuple(graph.tensor(name) for name in names)
    inputs = tuple(t.name for t in tensors if not t.is_const and t.name in op.inputs)
    return Graph("one_op", tensors, inputs, op.outputs, (op,))


def run_op(graph: Graph, op: Op, values: Mapping[str, Array]) -> Array:
    """The op's output in LiteRT, its operands taken from `values` by name."""
    alone = one_op_graph(graph, op)
    (output,) = run(emit(alone), [values[name] for name in alone.inputs])
    return output


@dataclass(slots=True)
class OperatorResult:
    """One TFLite operator on the interpreter's inputs: of `elements` results `mismatches` differ, by up to `largest`.

    `bound` is how far they may.
    """

    index: int
    op: str
    output: str
    bound: int
    elements: int = 0
    mismatches: int = 0
    largest: int = 0

    def add(self, difference: npt.NDArray[np.int64]) -> None:
        """Counts one sample's differences."""
        self.elements += difference.size
        self.mismatches += int(np.count_nonzero(difference))
        self.largest = max(self.largest, int(difference.max(initial=0)))


@dataclass(slots=True)
class OutputResult:
    """One output, end to end, in steps of its quantisation; the NPU may not differ from the interpreter."""

    name: str
    elements: int = 0
    npu_mismatches: int = 0
    mismatches: int = 0
    largest: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result; `passed` tells whether all bounds hold."""

    samples: int
    operators: tuple[OperatorResult, ...]
    outputs: tuple[OutputResult, ...]

    @property
    def passed(self) -> bool:
        """True when every bound holds."""
        return not self.failures()

    def failures(self) -> tuple[str, ...]:
        """One sentence for each bound that is broken."""
        found = [
            f"output `{out.name}`: {out.npu_mismatches} of {out.elements} results differ from the interpreter's"
            for out in self.outputs
            if out.npu_mismatches
        ]
        found += [
            f"op {op.index} {op.op}: up to {op.largest} steps from LiteRT, at most {op.bound} are allowed"
            for op in self.operators
            if op.largest > op.bound
        ]
        return tuple(found)

    def to_json(self) -> dict[str, object]:
        """The result as JSON values."""
        return {"schema": 1, "passed": self.passed, "failures": list(self.failures()), **asdict(self)}

    def text(self) -> str:
        """The result as lines for a terminal."""
        lines = [
            f"compared on {self.samples} samples",
            "",
            "operator by operator against LiteRT, in steps of the output",
        ]
        lines += [f"  {'operator':<28}{'output':<32}{'results':>12}{'differ':>10}{'largest':>9}{'allowed':>9}"]
        lines += [
            f"  {f'{op.index} {op.op}':<28}{op.output[-30:]:<32}{op.elements:>12,}{op.mismatches:>10,}"
            f"{op.largest:>9}{op.bound:>9}"
            for op in self.operators
        ]
        lines += ["", "end to end"]
        lines += [
            f"  output `{out.name}`: {out.npu_mismatches:,} of {out.elements:,} results of the NPU differ from the "
            f"interpreter, {out.mismatches:,} from LiteRT, the largest by {out.largest} steps"
            for out in self.outputs
        ]
        lines += ["", "all bounds hold" if self.passed else "bounds broken:", *(f"  {f}" for f in self.failures())]
        return "\n".join(lines)


def compare(model: TfliteModel, samples: Sequence[Sequence[Array]], progress: Progress | None = None) -> Comparison:
    """The model on the driver beside LiteRT on the file, on these inputs.

    Raises:
        FormatError: the file was converted before; LiteRT needs the one that it was made from.
    """
    graph = model.graph
    if graph is None:
        raise FormatError(
            "a converted file has no operators that LiteRT could run",
            hint="compare the file that it was converted from",
        )
    names = op_names(model.source)
    operators = {
        op: OperatorResult(op.origin[0], names[op.origin[0]], op.outputs[0], distance_bound(op, graph))
        for op in graph.ops
    }
    inside = _inside(model, graph)
    outputs = [OutputResult(name) for name in graph.outputs]
    for done, sample in enumerate(samples):
        stored = model.stored_inputs(sample)
        values = interpret.run(graph, stored)
        for result, found in zip(outputs, model.run_stored(stored), strict=True):
            result.elements += found.size
            result.npu_mismatches += int(np.count_nonzero(found != values[result.name].reshape(found.shape)))
        for op, result in operators.items():
            result.add(_difference(values[op.outputs[0]], run_op(graph, op, values)))
        for result, found in zip(outputs, run(inside, stored), strict=True):
            difference = _difference(values[result.name], found)
            result.mismatches += int(np.count_nonzero(difference))
            result.largest = max(result.largest, int(difference.max(initial=0)))
        if progress is not None:
            progress(done + 1, len(samples))
    return Comparison(len(samples), tuple(operators.values()), tuple(outputs))


def _inside(model: TfliteModel, graph: Graph) -> bytes:
    """What is inside the float edges as a TFLite file; the file itself when it has none."""
    has_edges = any(info.dtype != "int8" for info in (*model.inputs, *model.outputs))
    return emit(graph) if has_edges else model.source


def _difference(ours: Array, theirs: Array) -> npt.NDArray[np.int64]:
    return np.abs(ours.astype(np.int64) - theirs.reshape(ours.shape).astype(np.int64))
