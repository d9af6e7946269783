"""Operators of decoders in one chain of stripes: rows of each from rows of the one before it, the same bytes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tests.board.host import HostFirmware

from deuteron.arch.memory import DepthFirst, MemoryOptions
from deuteron.board.arena import planned
from deuteron.board.bundle import ALIGNMENT, MEMORY_CONSTANT, Bundle, ElementType, Memory, Step, StepKind, Value
from deuteron.frontend.cortex_m.custom_ops.resize import positions
from deuteron.operators.cortex_m import PadParams, QuantizedConvolutionParams, QuantizedSoftmaxParams
from deuteron.operators.kernel_params import KernelParams, MaxPoolParams, ResizeBilinearParams
from deuteron.runtime.inputs import Array


class _Chain:
    """Operators one after the other, each on what the one before it has written."""

    def __init__(self, size: int) -> None:
        self.values: list[Value] = []
        self.constants: list[bytes] = []
        self.steps: list[Step] = []
        self.functions: list[str] = []
        self.end = 0
        self.last = self._value(size)

    def _value(self, size: int, element: ElementType = ElementType.S8) -> int:
        self.values.append(Value(0, self.end, size, element, (size,), (0,), "a value"))
        self.end += size + -size % ALIGNMENT
        return len(self.values) - 1

    def add(self, name: str, record: KernelParams, size: int, constants: Sequence[Array] = (), rooms: int = 0) -> None:
        """An operator that writes so many bytes."""
        inputs = [self.last]
        for array in constants:
            kind = ElementType.S8 if array.dtype == np.int8 else ElementType.S32
            memory, order = MEMORY_CONSTANT + len(self.constants), tuple(range(array.ndim))
            self.values.append(Value(memory, 0, array.nbytes, kind, array.shape, order, "a constant"))
            self.constants.append(array.tobytes())
            inputs.append(len(self.values) - 1)
        scratch = [self._value(0, ElementType.U8) for _ in range(rooms)]
        self.last = self._value(size)
        words = tuple(word & 0xFFFFFFFF for word in record.words())
        self.functions.append(f"dtn_cm_{name}")
        at = len(self.steps)
        self.steps.append(Step(StepKind.OPERATOR, at, tuple(inputs), (*scratch, self.last), words, name, "", at))

    def bundle(self) -> Bundle:
        """All of them."""
        memories = (Memory(self.end, "values"), Memory(0, "nothing"))
        ends = (0,), (self.last,)
        tables = tuple(self.values), tuple(self.steps), *ends, memories, tuple(self.functions), tuple(self.constants)
        return Bundle("chain", *tables, ())


def test_operators_of_decoders_run_in_stripes(firmware: HostFirmware, tmp_path: Path) -> None:
    """Transposed convolution, pad, resize and softmax, each reading the rows of the one before it."""
    rng = np.random.default_rng(23)
    chain = _Chain(12 * 12 * 16)
    layer = QuantizedConvolutionParams(
        1, 12, 12, 16, 26, 26, 8, 1, 3, 3, 2, 2, 0, 0, 1, 1, 5, -3, -128, 127, 1, 0
    )  # fmt: skip
    factors = np.full(8, 1 << 30, np.int32), np.full(8, -8, np.int32), np.arange(8, dtype=np.int32)
    weights = rng.integers(-128, 128, (8, 3, 3, 16)).astype(np.int8)
    chain.add("quantized_transpose_conv2d", layer, 26 * 26 * 8, (weights, *factors), rooms=2)
    chain.add("pad", PadParams((1, 26, 26, 8), (0, 1, 1, 0), (0, 1, 1, 0), -7), 28 * 28 * 8)
    axes = positions(28, 40, None, align_corners=False)
    chain.add("resize_bilinear", ResizeBilinearParams(1, 28, 28, 8, 40, 40, *axes, *axes, 0), 40 * 40 * 8)
    chain.add("softmax", QuantizedSoftmaxParams(40 * 40, 8, 1, 1 << 30, 21), 40 * 40 * 8)
    chain.add("quantized_max_pool2d", MaxPoolParams(1, 40, 40, 8, 8, 8, 5, 5, 5, 5, 0, 0, -128, 127), 8 * 8 * 8)
    bundle = chain.bundle()
    arena = planned(bundle, MemoryOptions(depth_first=DepthFirst.ALWAYS), "cortex-m55")
    (cut,) = arena.chains
    assert cut.ops == tuple(range(len(bundle.steps)))
    assert (arena.memory.nbytes, arena.whole_bytes) == (5_504, 25_600)
    x = rng.integers(-128, 128, 12 * 12 * 16).astype(np.int8).tobytes()
    stripes, whole = (firmware.load(b, tmp_path / n).run([x]) for b, n in ((arena.bundle, "cut"), (bundle, "whole")))
    assert stripes == whole
