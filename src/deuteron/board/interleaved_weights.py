"""Interleaves the weights of a bundle for cores with DSP instructions, whose inner loops are faster with them.

The results stay the same, and the bytes too but for layers with an odd number of elements in a row of the kernel.
"""

from deuteron.arch import cores, targets
from deuteron.arch.cores import InnerWork
from deuteron.board.bundle import Bundle, Step
from deuteron.board.row_dependencies import INTERLEAVED, LINEAR
from deuteron.board.weight_layouts import Weights, with_layout
from deuteron.operators import interleaved_weights
from deuteron.operators.cortex_m import QuantizedConvolutionParams, QuantizedLinearParams

Shape = tuple[int, int, int]
"""Output channels, rows of the kernel, and elements of such a row."""


def interleaved(bundle: Bundle, inner: InnerWork) -> Bundle:
    """Return the bundle with interleaved weights in all layers that inner loops are faster with."""
    return with_layout(bundle, INTERLEAVED, _shape, _converted) if inner is InnerWork.DSP else bundle


def inner_of(target: str) -> InnerWork:
    """Return the inner loops of a target's CPU."""
    return cores.load(targets.load(target).cpu.name).inner


def constant_bytes(bundle: Bundle, inner: InnerWork) -> int:
    """Return the bytes of a bundle's constants, as they are in flash."""
    return sum(map(len, interleaved(bundle, inner).constants))


def _shape(function: str, step: Step) -> Shape | None:
    words = tuple(word - (word >> 31 << 32) for word in step.params)
    if function == LINEAR:
        linear = QuantizedLinearParams.from_words(words)
        return (linear.out_features, 1, linear.in_features) if interleaved_weights.fits(linear) else None
    p = QuantizedConvolutionParams.from_words(words)
    return (p.out_c, p.kernel_h, p.kernel_w * p.in_c) if interleaved_weights.fits(p) else None


def _converted(shape: Shape, weights: Weights) -> Weights:
    return interleaved_weights.interleaved(weights.reshape(shape))
