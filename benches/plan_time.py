"""Planning time for networks of 10 to 1,000 layers, and for MobileNetV2 1.0 224, at `--effort fast`.

`residual` networks are like MobileNetV2 (pointwise, depthwise, pointwise, sum). `branched` ones have cells of four
concatenated paths of two convolutions, which leave a choice of order. Times are of the order of calls, the packing, and
the whole plan with weights fetched, in memory for half of them or for those of one call. Processor time, one run each.

make bench-plan-time
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from harness import Results, main, progress, table

from deuteron import api
from deuteron.arch import targets
from deuteron.arch.engine import engine
from deuteron.arch.memory import FetchPolicy
from deuteron.npu.neutron.convert import convert
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Add, Concat, Conv2D, DepthwiseConv2D, Op, Pads
from deuteron.npu.neutron.ir.types import DType, Tensor, TensorType
from deuteron.npu.neutron.kernels.processor import NeutronProcessor
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.operators.program import Program
from deuteron.planner import Budget, plan, plan_within, reorder_calls
from deuteron.planner.weight_chunks import chunks
from deuteron.planner.weight_residency import min_area
from deuteron.planner.weight_tiling import unshare_constants
from deuteron.tflite.quantization import Quant

TARGET = "imxrt700"
LAYERS = (10, 30, 100, 300, 1000)
LIMIT_MODEL = "mobilenet_v2"
LIMIT_S = 10
CHANNELS = 32
SIDE = 28

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Row:
    """One network: kernel calls, bytes in use at once before and after ordering, of scratch, and seconds."""

    network: str
    calls: int
    given: int
    bound: int
    scratch: int
    proven: bool
    order_s: float
    plan_s: float
    prefetch_s: float

    @property
    def total_s(self) -> float:
        """Planning as a build does it: `prefetch_s` includes a separate plan."""
        return self.order_s + self.prefetch_s


class Network:
    """A graph that grows layer by layer; weights are zeros, which no plan depends on."""

    def __init__(self) -> None:
        self.tensors = [self._tensor("in", (1, SIDE, SIDE, CHANNELS))]
        self.ops: list[Op] = []

    def pointwise(self, source: str, channels: int) -> str:
        """The output of a convolution of one pixel."""
        return self._window(Conv2D(inputs=(source,), outputs=("",)), channels, (channels, 1, 1, self._channels(source)))

    def depthwise(self, source: str) -> str:
        """The output of a 3 x 3 convolution of each channel."""
        channels = self._channels(source)
        pads = Pads(1, 1, 1, 1)
        return self._window(DepthwiseConv2D(inputs=(source,), outputs=("",), pads=pads), channels, (1, 3, 3, channels))

    def join(self, op: Op, channels: int) -> str:
        """The output of an operator without weights."""
        name = f"t{len(self.ops)}"
        self.tensors.append(self._tensor(name, (1, SIDE, SIDE, channels)))
        self.ops.append(replace(op, outputs=(name,), origin=(len(self.ops),)))
        return name

    def program(self) -> Program:
        """The kernel calls of the network, in the order in which it grew."""
        output = self.ops[-1].outputs[0]
        return select(Graph("network", tuple(self.tensors), ("in",), (output,), tuple(self.ops)))

    def _window(self, op: Op, channels: int, shape: tuple[int, ...]) -> str:
        at = len(self.ops)
        weights = self._tensor(f"w{at}", shape)
        bias = Tensor(f"b{at}", TensorType((channels,), DType.INT32, Quant((0.0625,), (0,))), bytes(4 * channels))
        self.tensors += [replace(weights, data=bytes(weights.type.nbytes)), bias]
        return self.join(replace(op, inputs=(*op.inputs, weights.name, bias.name)), channels)

    def _channels(self, name: str) -> int:
        return next(tensor.type.shape[-1] for tensor in reversed(self.tensors) if tensor.name == name)

    @staticmethod
    def _tensor(name: str, shape: tuple[int, ...]) -> Tensor:
        return Tensor(name, TensorType(shape, DType.INT8, Quant((0.25,), (0,))))


def residual(layers: int) -> Program:
    """Blocks as in MobileNetV2 until there are so many layers."""
    net, at = Network(), "in"
    while len(net.ops) < layers:
        inside = net.pointwise(net.depthwise(net.pointwise(at, 3 * CHANNELS)), CHANNELS)
        at = net.join(Add(inputs=(at, inside), outputs=("",)), CHANNELS)
    return net.program()


def branched(layers: int) -> Program:
    """Cells of four paths, grown side by side, until there are so many layers."""
    net, at = Network(), "in"
    while len(net.ops) < layers:
        wide = [net.pointwise(at, CHANNELS * (1 + path)) for path in range(4)]
        ends = [net.pointwise(path, CHANNELS // 4) for path in wide]
        at = net.join(Concat(inputs=tuple(ends), outputs=("",), axis=3), CHANNELS)
    return net.program()


def mobilenet() -> Program:
    """The largest partition of the model that has a limit."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        api.build_model(LIMIT_MODEL, output=output)
        parts = [convert(path.read_bytes(), TARGET).program for path in output.glob("npu_?.tflite")]
    return max(parts, key=lambda program: len(program.calls))


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Return the result of the work, and its processor time."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def measure(network: str, program: Program) -> Row:
    """The numbers of one network."""
    given = plan(program)
    ordered, order_s = timed(lambda: reorder_calls(program))
    linked, plan_s = timed(lambda: plan(ordered))
    area = max(len(linked.weights) // 2, min_area(chunks(unshare_constants(ordered))))
    budget = Budget(
        NeutronProcessor(engine(targets.load(TARGET))), linked.scratch_bytes + area, policy=FetchPolicy.ALWAYS
    )
    _, prefetch_s = timed(lambda: plan_within(ordered, budget))
    packing = linked.packing
    return Row(
        network,
        len(program.calls),
        given.packing.bound,
        packing.bound,
        packing.nbytes,
        packing.proven,
        order_s,
        plan_s,
        prefetch_s,
    )


def results(_: argparse.Namespace) -> Results:
    """Each network; the model that has a limit must not take longer."""
    kinds = {"residual": residual, "branched": branched}
    rows = [progress(measure(name, build(layers))) for name, build in kinds.items() for layers in LAYERS]
    rows.append(measure(LIMIT_MODEL, mobilenet()))
    columns = {"network": "network", "calls": "calls", "given peak": "given", "with order": "bound"}
    columns |= {"scratch": "scratch", "smallest": "proven", "order s": "order_s:.2f", "plan s": "plan_s:.2f"}
    columns |= {"prefetch s": "prefetch_s:.2f"}
    over = rows[-1].total_s > LIMIT_S
    problems = [f"{LIMIT_MODEL}: {rows[-1].total_s:.2f} s, limit {LIMIT_S} s"] if over else []
    return Results("measured", rows, [table(rows, columns)], problems)


if __name__ == "__main__":
    sys.exit(main(results))
