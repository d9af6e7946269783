"""Activations of 16 bits: what is lowered, what of it ExecuTorch's runtime computes, and what is refused."""

import inspect
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from tests import full
from tests.frontend.export_sessions import check_runtime, edge_of
from tests.frontend.int16_networks import NETWORKS, OPTIONS
from torch import Tensor, nn

from deuteron import api
from deuteron.arch import targets
from deuteron.arch.cores import Work
from deuteron.errors import UnsupportedError
from deuteron.frontend import saved
from deuteron.frontend.cortex_m import numerical_check
from deuteron.frontend.cortex_m.custom_ops.catalogue import PATTERNS
from deuteron.frontend.cortex_m.custom_ops.lowering_pattern import Affine, Site
from deuteron.frontend.cpu import cpu_ops
from deuteron.frontend.inputs import check_module
from deuteron.frontend.pipeline import Flow
from deuteron.operators.int16 import ReduceSumS16Params


@pytest.mark.parametrize("operator", [torch.ops.aten.mean.dim, torch.ops.aten.sum.dim_IntList])
@pytest.mark.parametrize(("side", "bits"), [(256, 31), (257, 30), (512, 29)])
def test_sums_of_many_elements_have_a_factor_of_fewer_bits(operator: object, side: int, bits: int) -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(1, 1, side, side, device="meta")
    node = graph.call_function(cast(Any, operator), (x, [2, 3]))
    site = Site(node, (Affine(1.5, 0),), Affine(1.0, 0), lambda _: torch.empty(0), (x,), dtype=torch.int16)
    call = PATTERNS[torch.int16][operator].call(site)
    assert call is not None
    assert call.operator == "reduce_sum_s16"
    params = cast(ReduceSumS16Params, call.params)
    assert params.mult.bit_length() == bits
    assert params.reduced * params.mult < 2**47
    assert params.mult == 1.5 * 2**params.shift


@pytest.mark.slow
@pytest.mark.parametrize("name", full.only(NETWORKS, "mixed"))
def test_a_network_computes_what_its_definitions_say(name: str, tmp_path: Path) -> None:
    module, inputs, options = NETWORKS[name]()
    flow = Flow(targets.load("cortex-m33"), options, lambda: [inputs], inputs)
    edge = edge_of(flow, check_module(module), inputs)
    program = edge.exported_program()
    assert all(steps <= 1 for steps in numerical_check.differences(program, flow.module, inputs))
    operators = Counter(op.op for op in cpu_ops(program.graph))
    wide = sum(count for name, count in operators.items() if name.endswith("_s16"))
    ours = ("cortex_m::", "deuteron::")
    edges = ("quantize_per_tensor", "transpose", "_s16")
    narrow = sum(count for name, count in operators.items() if name.startswith(ours) and not name.endswith(edges))
    assert (wide > 20, narrow == 0) == ((True, True) if name != "mixed" else (False, False)), operators
    check_runtime(edge, inputs, tmp_path / "model.pte")


@pytest.mark.parametrize("activations", [api.Activations.INT8, api.Activations.INT16])
def test_a_program_without_float_edges_gives_what_a_table_does(activations: api.Activations, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model, inputs = nn.Sequential(nn.Linear(4, 3), nn.Sigmoid()), (torch.randn(8, 4),)
    outputs: list[Tensor] = []
    for stored in (False, True):
        options, path = api.BuildOptions(activations=activations, remove_quant_io_ops=stored), tmp_path / str(stored)
        built = api.build(model, inputs, target="cortex-m33", options=options, calibration=[inputs], output=path)
        wide = activations is api.Activations.INT16
        layer, table = (Work.INT16_LAYER, Work.INT16_TABLE) if wide else (Work.LINEAR, Work.TABLE)
        assert [node.work for node in built.manifest.nodes] == [layer, table]
        reference = saved.load(path / "reference.pt2")
        x = inputs[0]
        if stored and (affine := reference.inputs[0]) is not None:
            assert built.manifest.inputs[0].dtype == activations.value
            x = affine.stored(x).to(getattr(torch, activations.value))
        y = torch.from_numpy(api.run(path, [x.numpy()])[0])
        affine = reference.outputs[0]
        outputs.append(affine.real(y) if stored and affine else y)
    torch.testing.assert_close(*outputs, rtol=0, atol=0)


class Ringing(nn.Module):
    """A function that no few straight lines come close to."""

    def forward(self, x: Tensor) -> Tensor:
        return (200 * x).sin()


def test_what_bends_too_much_is_refused_with_its_line() -> None:
    inputs = (torch.linspace(-40, 40, 64),)
    flow = Flow(targets.load("cortex-m33"), OPTIONS, lambda: [inputs], inputs)
    with pytest.raises(UnsupportedError) as caught:
        edge_of(flow, check_module(Ringing()), inputs)
    line = inspect.getsourcelines(Ringing.forward)[1] + 1
    assert str(caught.value) == (
        f"{__file__}:{line}: `aten::sin` curves too much for int16 activations: linear interpolation over 16 "
        "steps is off by more than a step, at `return (200 * x).sin()`\n\nhint: give this operator's input a "
        "narrower range, or build with int8 activations"
    )
