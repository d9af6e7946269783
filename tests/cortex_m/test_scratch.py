"""Scratch memory: what the wheel plans on a Cortex-M33 and M55 is what the convolution is fast with."""

import importlib
from itertools import product

import numpy as np
import pytest
from tests.cortex_m.convolutions import call_of
from tests.cortex_m.operator_library import OperatorLibrary

from deuteron.frontend.cortex_m import upstream
from deuteron.operators.cortex_m import QuantizedConvolutionParams, gather_bytes

BACKENDS = {"cortex-m33": "DSP", "cortex-m55": "MVE"}


def planned(p: QuantizedConvolutionParams, backend: str) -> int:
    """Bytes that the wheel plans for a convolution."""
    upstream.load()
    cmsis_nn = importlib.import_module("executorch.backends.cortex_m.library.cmsis_nn")
    return cmsis_nn.convolve_wrapper_buffer_size(
        getattr(cmsis_nn.Backend, backend),
        cmsis_nn.DataType.A8W8,
        input_nhwc=[p.batches, p.in_h, p.in_w, p.in_c],
        filter_nhwc=[p.out_c, p.kernel_h, p.kernel_w, p.in_c // p.groups],
        output_nhwc=[p.batches, p.out_h, p.out_w, p.out_c],
        padding_hw=[p.pad_h, p.pad_w],
        stride_hw=[p.stride_h, p.stride_w],
        dilation_hw=[p.dilation_h, p.dilation_w],
    )


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
def test_planned_memory_is_enough(backend: str) -> None:
    generator = np.random.default_rng(31)
    kernels = ((1, 1), (1, 3), (3, 1), (3, 3), (10, 4))
    for kernel, inputs, stride, pad, dilation, groups in product(
        kernels, (1, 3, 4, 16), (1, 2), (0, 1), (1, 2), (1, 2)
    ):
        channels = (inputs * groups, 4 * groups)
        p = call_of(
            generator, "quantized_conv2d", 1, (32, 32), channels, kernel, (stride,) * 2, (pad,) * 2, (dilation,) * 2,
            groups,
        ).params  # fmt: skip
        assert gather_bytes(p) <= planned(p, backend), p


def test_rows_of_one_line_have_less_on_vectors(c_operators: OperatorLibrary) -> None:
    """CMSIS-NN's vectors need one window for these: the convolution then reads its windows where they lie."""
    call = call_of(np.random.default_rng(32), "quantized_conv2d", 1, (1, 40), (8, 8), (1, 9), pad=(0, 4))
    p = call.params
    assert planned(p, "MVE") < gather_bytes(p) <= planned(p, "DSP")
    np.testing.assert_array_equal(call.run(c_operators, [planned(p, "MVE")]), call.run(c_operators, [gather_bytes(p)]))
