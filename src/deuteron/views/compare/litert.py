"""Compares a TFLite file with LiteRT, as a whole and one operator at a time.

The NPU rounds once where LiteRT rounds twice; `spec/rounding.md`, section 4, bounds the difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from deuteron.errors import FormatError, counted
from deuteron.npu.neutron.ir import interpret, ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Op
from deuteron.npu.neutron.ir.verify import SAME_QUANTIZATION
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.runtime.litert import run
from deuteron.runtime.tflite_model import TfliteModel
from deuteron.tflite.flat_model import Buffer
from deuteron.tflite.quantization import Quant
from deuteron.views.compare.result_counts import (
    Array,
    BestScores,
    BoundedComparison,
    Progress,
    Steps,
    count,
    steps_apart,
)

EXACT = (*(kind for kind in SAME_QUANTIZATION if kind is not ops.ResizeBilinear), ops.Maximum, ops.Minimum)
"""Operators without rounding."""

_RESULTS = {
    ops.Function.LOGISTIC: Quant((1 / 256,), (-128,)),
    ops.Function.TANH: Quant((1 / 128,), (0,)),
}
"""The only quantization of these results that LiteRT supports."""


def computes(op: Op, graph: Graph) -> bool:
    """Return true if LiteRT's reference kernel runs this operator with the same meaning.

    It rejects some other operators, computes some by another rule, and some crash the process.
    """
    x, out = graph.type(op.inputs[0]).q, graph.type(op.outputs[0]).q
    match op:
        case ops.Add() | ops.Sub():
            # Crashes if a step of the result is below 2^-19 of an operand's: it can scale up by 20 bits only.
            return 2 * max(graph.type(name).q.scale for name in op.inputs) < 2**20 * out.scale
        case ops.Lookup():
            return False
        case ops.Softmax():
            # Crashes if the input's factor is not above 1, or the exponentials of a row sum to 512.
            short = graph.type(op.inputs[0]).shape[-1] < 512
            return out == Quant((1 / 256,), (-128,)) and op.beta * x.scale * 2**26 > 1 and short
        case ops.Unary(function=ops.Function.LOGISTIC | ops.Function.TANH):
            return out == _RESULTS[op.function]
        case ops.Unary(function=ops.Function.HARD_SWISH):
            return x.scale < 128 * out.scale  # its factor must not exceed 1
        case ops.Unary(function=ops.Function.RSQRT):
            # Rejects operands that are not positive; the comparison avoids them unless the operand is constant.
            return x.zero_point < 127 and not graph.tensor(op.inputs[0]).is_const
        case _:
            return True


def compared(op: Op, graph: Graph, values: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
    """Return the mask of defined results: logarithms and roots are undefined at 0 and below."""
    shape = values[op.outputs[0]].shape
    if isinstance(op, ops.Unary) and op.function in (ops.Function.LOG, ops.Function.RSQRT):
        return values[op.inputs[0]].astype(np.int64) > graph.type(op.inputs[0]).q.zero_point
    return np.ones(shape, np.bool_)


def distance_bound(op: Op, graph: Graph) -> int:
    """Return the maximum steps between LiteRT's result and the correctly rounded one."""
    if isinstance(op, EXACT):
        return 0
    if isinstance(op, ops.ResizeBilinear):
        # Positions have 10 fraction bits: half of the last is lost per output row and column.
        _, rows, columns, _ = graph.type(op.outputs[0]).shape
        return 1 + 255 * (rows + columns + 1) // 2048
    return 1


def one_op_graph(graph: Graph, op: Op) -> Graph:
    """Return a graph of this op alone, whose inputs are the op's non-constant operands."""
    names = tuple(dict.fromkeys((*op.inputs, *op.outputs)))
    tensors = tuple(graph.tensor(name) for name in names)
    inputs = tuple(t.name for t in tensors if not t.is_const and t.name in op.inputs)
    return Graph("one_op", tensors, inputs, op.outputs, (op,))


def run_op(graph: Graph, op: Op, values: Mapping[str, Array]) -> Array:
    """Return the op's output in LiteRT, with operands from `values` by name."""
    alone = one_op_graph(graph, op)
    (output,) = run(emit(alone), [values[name] for name in alone.inputs])
    return output


@dataclass(slots=True)
class OperatorResult:
    """One TFLite operator on the interpreter's inputs: of `elements` results `mismatches` differ, by up to `largest`.

    `bound` is the allowed difference; None if LiteRT does not compute the operator, or by another rule, so that it is
    not compared.
    """

    index: int
    op: str
    output: str
    bound: int | None
    elements: int = 0
    mismatches: int = 0
    largest: int = 0


@dataclass(slots=True)
class OutputResult:
    """One output, end to end, in steps of its quantization; the NPU may not differ from the interpreter.

    `npu_mismatches` is None if the model computes nothing and no NPU runs. `mismatches` and `largest` are differences
    from LiteRT; None if it does not run the whole model. `best` are best scores against LiteRT's.
    """

    name: str
    elements: int = 0
    npu_mismatches: int | None = 0
    mismatches: int | None = None
    largest: int | None = None
    best: BestScores = field(default_factory=BestScores)

    def add(self, ours: Array, theirs: Array) -> None:
        """Count one sample's differences from LiteRT."""
        difference = steps_apart(ours, theirs)
        self.best.add(ours, theirs)
        self.mismatches = (self.mismatches or 0) + int(np.count_nonzero(difference))
        self.largest = max(self.largest or 0, int(difference.max(initial=0)))


@dataclass(frozen=True, slots=True)
class LitertComparison(BoundedComparison):
    """Result of the comparison; `passed` is true if all bounds hold."""

    samples: int
    operators: tuple[OperatorResult, ...]
    outputs: tuple[OutputResult, ...]

    def failures(self) -> tuple[str, ...]:
        """Return one sentence for each broken bound."""
        broken = [
            f"output `{out.name}`: {out.npu_mismatches} of {out.elements} results differ from the interpreter's"
            for out in self.outputs
            if out.npu_mismatches
        ]
        broken += [
            f"op {op.index} {op.op}: up to {op.largest} steps from LiteRT, at most {op.bound} are allowed"
            for op in self.operators
            if op.bound is not None and op.largest > op.bound
        ]
        return tuple(broken)

    def text(self) -> str:
        """Return the result as lines for a terminal."""
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the lines."""
        lines = [
            f"compared on {counted(self.samples, 'sample')}",
            "",
            "operator by operator against LiteRT, in steps of the output",
        ]
        lines += [f"  {'operator':<28}{'output':<32}{'results':>12}{'differ':>10}{'largest':>9}{'allowed':>9}"]
        lines += [
            f"  {f'{op.index} {op.op}':<28}{_tail(op.output):<32}"
            + (
                "not compared: LiteRT does not compute this"
                if op.bound is None
                else f"{op.elements:>12,}{op.mismatches:>10,}{op.largest:>9}{op.bound:>9}"
            )
            for op in self.operators
        ]
        lines += ["", "end to end"]
        lines += [
            f"  output `{out.name}`: "
            + (
                "an input under another name, nothing runs on the NPU"
                if out.npu_mismatches is None
                else f"{out.npu_mismatches:,} of {out.elements:,} results of the NPU differ from the interpreter"
            )
            + (
                "; LiteRT does not run the whole model"
                if out.mismatches is None
                else f", {out.mismatches:,} of {out.elements:,} from LiteRT, the largest by {out.largest} steps"
                f"{out.best.text if out.mismatches else ''}"
            )
            for out in self.outputs
        ]
        lines += self.verdict()
        if skipped := sum(op.bound is None for op in self.operators):
            lines.append(f"not compared with LiteRT: {skipped} of {len(self.operators)} operators")
        return lines


def compare(
    model: TfliteModel, samples: Sequence[Sequence[Array]], progress: Progress | None = None
) -> LitertComparison:
    """Compare the model on the driver with LiteRT on the file, for these inputs.

    Raises:
        FormatError: the file is already converted; LiteRT needs the original.
    """
    if model.conversion is None:
        raise FormatError(
            "LiteRT does not run the NPU operators of a converted file",
            hint="compare the original file",
        )
    source = model.conversion.source
    graph = source.without_dead_ops()  # the NPU may not support dead ones
    names = [op.op for op in model.conversion.provenance.ops]
    operators = {
        op: OperatorResult(
            op.origin[0],
            names[op.origin[0]],
            op.outputs[0],
            distance_bound(op, graph) if computes(op, graph) else None,
        )
        for op in graph.ops
    }
    inside = _inside(model, graph) if all(computes(op, source) and not _is_root(op) for op in source.ops) else None
    outputs = [OutputResult(name, npu_mismatches=None if model.container is None else 0) for name in graph.outputs]
    for done, sample in enumerate(samples):
        stored = model.stored_inputs(sample)
        values = interpret.run(graph, stored)
        for result, ours in zip(outputs, model.run_stored(stored), strict=True):
            result.elements += ours.size
            if result.npu_mismatches is not None:
                result.npu_mismatches += int(np.count_nonzero(ours != values[result.name].reshape(ours.shape)))
        for op, result in operators.items():
            if result.bound is not None:
                count(result, _operator_difference(graph, op, values))
        for result, ours in zip(outputs, run(inside, stored) if inside else (), strict=inside is not None):
            result.add(values[result.name], ours)
        if progress is not None:
            progress(done + 1, len(samples))
    return LitertComparison(len(samples), tuple(operators.values()), tuple(outputs))


def _inside(model: TfliteModel, graph: Graph) -> Buffer:
    """Return the graph between the float inputs and outputs as a TFLite file; the file itself if it has none."""
    has_edges = any(info.dtype != "int8" for info in (*model.inputs, *model.outputs))
    return emit(graph) if has_edges else model.source


def _is_root(op: Op) -> bool:
    return isinstance(op, ops.Unary) and op.function is ops.Function.RSQRT


def _operator_difference(graph: Graph, op: Op, values: Mapping[str, Array]) -> Steps:
    """Return the differences of LiteRT's defined results; a root's other operands are raised above 0."""
    fed = dict(values)
    if _is_root(op):
        name = op.inputs[0]
        fed[name] = np.maximum(values[name], np.int8(graph.type(name).q.zero_point + 1))
    apart = steps_apart(values[op.outputs[0]], run_op(graph, op, fed))
    return apart[compared(op, graph, values)]


def _tail(name: str) -> str:
    """Return the name, or the end of a long one, where exporters' names differ."""
    return name if len(name) <= 30 else f"...{name[-27:]}"
