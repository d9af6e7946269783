"""A wrong kernel, put into the driver's place, is caught and shrinks to the operator that calls it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.differential import regressions
from tests.differential.check import Kind, check
from tests.differential.shrink import shrink
from tests.graphs import random_graph, random_inputs

from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.verify import verify
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import Call, decode
from deuteron.runtime.driver import Driver

RIGHT = Driver("driver")


class BrokenDriver:
    """The driver, but that the last byte of each output is off by one when the microcode calls a certain kernel."""

    def __init__(self, kernel: str) -> None:
        self.name = "broken"
        self._kernel = kernel

    def run(self, container: Container, inputs: Sequence[bytes]) -> list[bytes]:
        outputs = RIGHT.run(container, inputs)
        calls = [command for command in decode(container).commands if isinstance(command, Call)]
        if all(call.kernel.name != self._kernel for call in calls):
            return outputs
        return [bytes([*data[:-1], data[-1] ^ 1]) for data in outputs]


@pytest.mark.parametrize(
    ("kernel", "kinds", "elements"),
    [
        ("prelu_s8", (ops.Prelu,), 32),
        ("softmax_s8", (ops.Softmax,), 1),
        ("matmul_s8", (ops.BatchMatMul,), 200),
        ("lut_s8", (ops.Unary, ops.LeakyRelu, ops.Quantize), 1),
    ],
)
def test_a_wrong_kernel_is_found_and_shrinks_to_its_operator(
    kernel: str, kinds: tuple[type[ops.Op], ...], elements: int, tmp_path: Path
) -> None:
    broken = BrokenDriver(kernel)

    def fails(graph: Graph, inputs: Sequence[np.ndarray]) -> bool:
        return any(failure.kind is Kind.DRIVER for failure in check(graph, inputs, [broken]).failures)

    cases = (
        (graph, random_inputs(graph, seed)) for seed in range(200) if (graph := random_graph(seed, 12, stock=True))
    )
    graph, inputs = next(case for case in cases if len(case[0].ops) >= 12 and fails(*case))
    graph, inputs = shrink(graph, inputs, fails)
    verify(graph)
    assert len(graph.ops) == len(graph.outputs) == 1
    assert isinstance(graph.ops[0], kinds)
    assert sum(value.size for value in inputs) <= elements

    path = tmp_path / "case.ir"
    regressions.save(path, graph, inputs, "driver: what was found\nin two lines")
    again, same_inputs = regressions.load(path)
    assert again == graph
    assert all(np.array_equal(a, b) for a, b in zip(inputs, same_inputs, strict=True))
    assert fails(again, same_inputs)
    assert not check(again, same_inputs, [RIGHT]).failures


def test_what_failed_only_together_stays_together() -> None:
    def fails(candidate: Graph, _: Sequence[np.ndarray]) -> bool:
        kinds = [type(op) for op in candidate.ops]
        return ops.Concat in kinds and kinds.count(ops.Unary) >= 2

    seed, graph = next(
        (s, g) for s in range(100) if len((g := random_graph(s, 14, stock=True)).ops) > 12 and fails(g, ())
    )
    smaller, inputs = shrink(graph, random_inputs(graph, seed), fails)
    verify(smaller)
    assert sorted(type(op).__name__ for op in smaller.ops) == ["Concat", "Unary", "Unary"]
    assert [value.shape for value in inputs] == [smaller.type(name).shape for name in smaller.inputs]
