"""Networks of operators that Deuteron adds are int8 between their quantizations, and ExecuTorch's runtime agrees."""

from pathlib import Path

import pytest
import torch
from tests import full
from tests.frontend.custom_op_networks import NETWORKS
from tests.frontend.export_sessions import check_runtime, edge_of

from deuteron.arch import targets
from deuteron.builds.options import BuildOptions
from deuteron.frontend.cortex_m import numerical_check
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.inputs import check_module
from deuteron.frontend.operators import is_delegate, operator_name
from deuteron.frontend.pipeline import Flow

pytestmark = pytest.mark.slow

EDGES = {"quantize_per_tensor", "dequantize_per_tensor"}
"""Operators that turn float32 into int8 and back."""


@pytest.mark.parametrize("target", full.first(["cortex-m33", "imxrt700cm"], 1))
@pytest.mark.parametrize("name", full.first(NETWORKS, 2))
def test_a_network_is_int8_and_computes_what_its_definitions_say(name: str, target: str, tmp_path: Path) -> None:
    module, inputs, _ = NETWORKS[name]()
    flow = Flow(targets.load(target), BuildOptions(), lambda: [inputs], inputs)
    edge = edge_of(flow, check_module(module), inputs)
    program = edge.exported_program()
    for node in program.graph.nodes:
        if node.op == "call_function" and "::" in operator_name(node.target) and not is_delegate(node):
            is_edge = any(edge in operator_name(node.target) for edge in EDGES)
            values_of = [value for value in flat(node.meta["val"]) if isinstance(value, torch.Tensor)]
            assert is_edge or not any(value.is_floating_point() for value in values_of), node.format_node()
    assert all(steps <= 1 for steps in numerical_check.differences(program, flow.module, inputs))
    if any(map(is_delegate, program.graph.nodes)):
        return  # PyTorch computes in float32 what the NPU gets
    check_runtime(edge, inputs, tmp_path / "model.pte")
