"""AVERAGE_POOL_2D and MAX_POOL_2D."""

from collections.abc import Mapping
from types import MappingProxyType

from deuteron.operators.cortex_m import BY_OPERATOR
from deuteron.operators.kernel_params import MaxPoolParams
from deuteron.operators.tflite import BY_TFLITE_OPERATOR, PoolParams
from deuteron.tflite.cortex_m import float32_layers
from deuteron.tflite.cortex_m.call import CpuCall
from deuteron.tflite.cortex_m.lowering import ACTIVATIONS, Lowering, by_type
from deuteron.tflite.cortex_m.operator_view import Site
from deuteron.tflite.cortex_m.same_padding import padding_before


def _numbers(site: Site) -> tuple[int, ...]:
    """The fields that the records of pools have in common, in their order."""
    batches, in_h, in_w, channels = site.input().shape
    _, out_h, out_w, _ = site.output().shape
    kernel = site.option("FilterHeight", 1), site.option("FilterWidth", 1)
    stride = site.option("StrideH", 1), site.option("StrideW", 1)
    padding = site.option("Padding")
    pads = (
        padding_before(in_h, out_h, kernel[0], stride[0], 1, padding),
        padding_before(in_w, out_w, kernel[1], stride[1], 1, padding),
    )
    return (batches, in_h, in_w, channels, out_h, out_w, *kernel, *stride, *pads, *site.stored_activation())


def average(site: Site) -> tuple[CpuCall, ...]:
    """Lower AVERAGE_POOL_2D."""
    site.same_quant(site.input(), site.output())
    params = PoolParams(*_numbers(site), ties_up=int(site.op.is_unsigned))
    return (CpuCall(BY_TFLITE_OPERATOR["average_pool"], (site.ref(),), (site.out(),), params),)


def largest(site: Site) -> tuple[CpuCall, ...]:
    """Lower MAX_POOL_2D."""
    site.same_quant(site.input(), site.output())
    if site.input().dtype == "INT16":
        params = PoolParams(*_numbers(site))
        return (CpuCall(BY_TFLITE_OPERATOR["max_pool_s16"], (site.ref(),), (site.out(),), params),)
    narrow = MaxPoolParams(*_numbers(site))
    return (CpuCall(BY_OPERATOR["quantized_max_pool2d"], (site.ref(),), (site.out(),), narrow),)


OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "AVERAGE_POOL_2D": by_type(
            {**dict.fromkeys(ACTIVATIONS, average), "FLOAT32": float32_layers.pool(float32_layers.MEAN)}
        ),
        "MAX_POOL_2D": by_type(
            {**dict.fromkeys(ACTIVATIONS, largest), "FLOAT32": float32_layers.pool(float32_layers.LARGEST)}
        ),
    }
)
