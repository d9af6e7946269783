"""The cycle model: dense products agree with SCALE-Sim, and each other form is what its array and ports allow."""

from dataclasses import dataclass

import pytest

from deuteron.arch import targets
from deuteron.arch.engine import engine
from deuteron.npu.neutron.kernels.cost import cost
from deuteron.operators import kernel_params as p

ENGINE = engine(targets.load("imxrt700"))


@dataclass(frozen=True, slots=True)
class Rates:
    """A hardware of other numbers than the target's."""

    rows: int = 4
    columns: int = 2
    elementwise: int = 3
    sram_port: int = 1_000_000


def pointwise(height: int, width: int, depth: int, filters: int) -> p.Conv2DParams:
    """A 1x1 convolution."""
    return p.Conv2DParams(
        batches=1, in_h=height, in_w=width, in_c=depth, out_h=height, out_w=width, out_c=filters, kernel_h=1,
        kernel_w=1, stride_h=1, stride_w=1, dilation_h=1, dilation_w=1, pad_top=0, pad_left=0, requant_count=1,
        in_zp=0, out_zp=0, act_min=-128, act_max=127, out_pitch=filters,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("params", "scale_sim"),
    [(pointwise(25, 5, 64, 64), 9_983), (pointwise(7, 7, 256, 256), 60_479)],
    ids=["25x5x64 to 64", "7x7x256 to 256"],
)
def test_dense_convolution_agrees_with_scale_sim(params: p.Conv2DParams, scale_sim: int) -> None:
    """Cycles that SCALE-Sim 3.0.0 reports for an 8 x 8 output stationary array, which counts from 0."""
    assert (ENGINE.rows, ENGINE.columns) == (8, 8)
    found = cost(params, ENGINE)
    assert found.compute == scale_sim + 1
    assert found.macs == params.out_h * params.out_w * params.out_c * params.in_c
    assert found.cycles == found.compute >= found.sram


def test_a_convolution_is_the_matrix_product_that_it_is() -> None:
    """Kernel positions and channels are one reduction; a fully connected layer is a 1x1 convolution of its rows."""
    conv = cost(pointwise(6, 1, 50, 10), ENGINE)
    linear = cost(p.FullyConnectedParams(6, 50, 10, 1, 0, 0, -128, 127), ENGINE)
    assert (conv.macs, conv.compute) == (linear.macs, linear.compute)
    assert linear.compute == 1 * 2 * (8 + 8 + 50 - 2)


def test_a_depthwise_filter_has_one_column_of_the_array() -> None:
    """Its sum is over no channels: per channel and eight positions the nine products, and seven cycles to fill rows."""
    params = p.DepthwiseConv2DParams(
        batches=1, in_h=10, in_w=10, in_c=16, out_h=10, out_w=10, out_c=16, multiplier=1, kernel_h=3, kernel_w=3,
        stride_h=1, stride_w=1, dilation_h=1, dilation_w=1, pad_top=1, pad_left=1, requant_count=16, in_zp=0, out_zp=0,
        act_min=-128, act_max=127,
    )  # fmt: skip
    found = cost(params, ENGINE)
    assert found.compute == 16 * 13 * (9 + 7)
    assert found.macs == 16 * 100 * 9
    assert found.macs / found.compute < ENGINE.rows


@pytest.mark.parametrize(
    ("params", "cycles"),
    [
        (p.LutParams(100), 34),
        (p.FillParams(9, 0), 3),
        (p.MatMulParams(2, 5, 7, 3, 0, 0, 1, 31, 0, -128, 127), 2 * 2 * 2 * (4 + 2 + 7 - 2)),
    ],
    ids=["table", "fill", "matrix product"],
)
def test_other_arrays_and_rates(params: p.KernelParams, cycles: int) -> None:
    assert cost(params, Rates()).cycles == cycles


def test_no_call_is_faster_than_its_bytes() -> None:
    found = cost(p.LutParams(4096), ENGINE)
    assert found.sram_bytes == 4096 + 256 + 4096
    assert found.sram == -(-found.sram_bytes // ENGINE.sram_port)
    assert found.cycles == max(found.compute, found.sram) == found.sram
