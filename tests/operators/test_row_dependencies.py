"""Rows of each kernel against brute force: an input row is changed, and the output's rows are compared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from deuteron.npu.neutron.kernels import catalogue
from deuteron.npu.neutron.kernels.catalogue import KERNELS
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.operators import kernel_params as p
from deuteron.operators import limits
from deuteron.operators.program import Buffer, Kernel, KernelCall, Program, Ref
from deuteron.operators.row_dependencies import ENTRIES, Rowwise, natural_rows, rowwise
from deuteron.operators.rules import form_problem, limit_problem, operand_bytes
from deuteron.planner import plan
from deuteron.runtime.driver import Driver

SEEDS = range(8)
CHANGES = 6
"""Other values that an input row gets."""

Rng = np.random.Generator
ROW = (1 << 30).to_bytes(4, "little") + (34).to_bytes(4, "little")
CLAMP = {"act_min": -128, "act_max": 127}


@dataclass(frozen=True, slots=True)
class Case:
    """A call, and the bytes of a row of its output; `exact` where each row that it depends on can be seen."""

    kernel: Kernel
    params: p.KernelParams
    nbytes: int
    exact: bool = True


def _windowed(rng: Rng, dilation: int) -> dict[str, int]:
    """Sizes of a map and of a window that touches it everywhere."""
    sizes: dict[str, int] = {"batches": 1}
    for axis, side in (("h", "top"), ("w", "left")):
        size, kernel, stride = (int(rng.integers(1, high)) for high in (12, 5, 4))
        span = (kernel - 1) * dilation + 1
        pad = int(rng.integers(0, span))
        most = (size - 1 + pad) // stride + 1
        out = int(rng.integers(1, most + 1))
        sizes |= {f"in_{axis}": size, f"kernel_{axis}": kernel, f"stride_{axis}": stride, f"out_{axis}": out}
        sizes[f"pad_{side}"] = pad
    return sizes


def _conv(rng: Rng) -> Case:
    dilation, filters = int(rng.integers(1, 3)), int(rng.integers(1, 5))
    pitch = filters + int(rng.integers(0, 3))
    params = p.Conv2DParams(
        **_windowed(rng, dilation), in_c=3, out_c=filters, dilation_h=dilation, dilation_w=dilation, requant_count=1,
        in_zp=int(rng.integers(-9, 9)), out_zp=0, out_pitch=pitch, **CLAMP,
    )  # fmt: skip
    return Case(catalogue.CONV2D, params, params.out_w * pitch, exact=dilation == 1)


def _depthwise(rng: Rng) -> Case:
    dilation = int(rng.integers(1, 3))
    params = p.DepthwiseConv2DParams(
        **_windowed(rng, dilation), in_c=2, out_c=4, multiplier=2, dilation_h=dilation, dilation_w=dilation,
        requant_count=1, in_zp=int(rng.integers(-9, 9)), out_zp=0, **CLAMP,
    )  # fmt: skip
    return Case(catalogue.DEPTHWISE_CONV2D, params, params.out_w * 4, exact=dilation == 1)


def _average(rng: Rng) -> Case:
    params = p.AveragePoolParams(
        **_windowed(rng, 1), channels=3, in_zp=1, mult=1 << 30, shift=29, out_zp=2, **CLAMP
    )  # fmt: skip
    return Case(catalogue.AVERAGE_POOL, params, params.out_w * 3)


def _maximum(rng: Rng) -> Case:
    params = p.MaxPoolParams(**_windowed(rng, 1), channels=3, **CLAMP)
    return Case(catalogue.MAX_POOL, params, params.out_w * 3)


def _resize(rng: Rng) -> Case:
    in_h, out_h, width = (int(rng.integers(1, 12)) for _ in range(3))
    start = int(rng.integers(-2 * in_h, 3))
    params = p.ResizeBilinearParams(
        batches=1, in_h=in_h, in_w=width, channels=2, out_h=out_h, out_w=width + 1, start_h=start, step_h=2 * in_h,
        unit_h=2 * out_h, start_w=0, step_w=width, unit_w=width + 1, zero_point=3,
    )  # fmt: skip
    return Case(catalogue.RESIZE_BILINEAR, params, params.out_w * 2, exact=False)


def _connected(rng: Rng) -> Case:
    params = p.FullyConnectedParams(int(rng.integers(1, 5)) * 2, 7, 5, 5, 1, 0, -128, 127)
    return Case(catalogue.FULLY_CONNECTED, params, 10)


def _matmul(rng: Rng) -> Case:
    batches = int(rng.integers(1, 4))
    params = p.MatMulParams(batches, 4, 5, 3, 1, -1, 1 << 30, 33, 0, -128, 127)
    return Case(catalogue.MATMUL, params, 6 if batches == 1 else 12)


def _sum(rng: Rng) -> Case:
    params = p.ReduceSumParams(6, int(rng.integers(1, 5)), 3, 1, 0, 1 << 30, 31, 0)
    return Case(catalogue.REDUCE_SUM, params, 3 * int(rng.integers(1, 4)))


def _largest(rng: Rng) -> Case:
    params = p.ReduceExtremumParams(6, int(rng.integers(1, 5)), 3, int(rng.integers(0, 2)))
    return Case(catalogue.REDUCE_EXTREMUM, params, 3 * int(rng.integers(1, 4)))


def _softmax(rng: Rng) -> Case:
    return Case(catalogue.SOFTMAX, p.SoftmaxParams(6, 4, 1 << 30, 16, -128), 4 * int(rng.integers(1, 4)))


def _table(rng: Rng) -> Case:
    return Case(catalogue.LUT, p.LutParams(60), int(rng.choice([1, 5, 12, 60])))


def _fill(rng: Rng) -> Case:
    return Case(catalogue.FILL, p.FillParams(60, 7), int(rng.choice([1, 5, 12, 60])))


def _strides(rng: Rng, dims: p.Dims5) -> p.Dims5:
    """The strides of an operand that repeats some dimensions, each of which may otherwise be separate."""
    strides, step = [0] * 5, 1
    for at in reversed(range(5)):
        if rng.random() < 0.7:
            strides[at] = step
            step *= dims[at]
    return (strides[0], strides[1], strides[2], strides[3], strides[4])


def _binary(rng: Rng, kernel: Kernel, *arguments: int) -> Case:
    dims: p.Dims5 = (1, 1, int(rng.integers(1, 3)) * 3, int(rng.integers(1, 4)), 4)
    params = kernel.params(dims, _strides(rng, dims), _strides(rng, dims), *arguments)  # pyright: ignore[reportCallIssue]
    nbytes = dims[-1] * dims[-2] * int(rng.choice([1, 3]))
    return Case(kernel, params, nbytes, exact=kernel is not catalogue.PRELU)  # alpha counts where x is negative alone


def _add(rng: Rng) -> Case:
    return _binary(rng, catalogue.ADD, 1, 2, 1 << 29, 1 << 29, 30, 0, -128, 127)


def _mul(rng: Rng) -> Case:
    return _binary(rng, catalogue.MUL, 3, 2, 1 << 28, 33, 0, -128, 127)


def _extremum(rng: Rng) -> Case:
    return _binary(rng, catalogue.EXTREMUM, int(rng.integers(0, 2)))


def _prelu(rng: Rng) -> Case:
    return _binary(rng, catalogue.PRELU, 0, 0, 1 << 30, 30, 1 << 28, 33, 0)


def _copy(rng: Rng) -> Case:
    """A part of a map, channels in another place, rows backwards, apart or repeated, or its planes as pixels."""
    height, width, channels = (int(rng.integers(2, 6)) for _ in range(3))
    dims = (1, 1, 1, height, width, channels)
    pitch = channels + int(rng.integers(0, 3))
    out = (0, 0, 0, width * pitch * int(rng.integers(1, 4)), pitch, 1)
    row = (width + 2) * (channels + 1)
    match int(rng.integers(4)):
        case 3:
            times = int(rng.integers(2, 4))
            dims = (1, height, times, width, times, channels)
            read = (0, width * channels, 0, channels, 0, 1)
            pixel = times * pitch
            out = (0, width * pixel * (times + int(rng.integers(0, 2))), width * pixel, pixel, pitch, 1)
            return Case(catalogue.COPY, p.CopyParams(0, dims, read, out), width * pixel)
        case 0:
            start, read = row * int(rng.integers(0, 3)) + int(rng.integers(0, 2)), (0, 0, 0, row, channels + 1, 1)
        case 1:
            start, read = (height - 1) * row, (0, 0, 0, -row, channels + 1, 1)
        case _:
            start, read = 0, (0, 0, 0, width, 1, height * width)
    return Case(catalogue.COPY, p.CopyParams(start, dims, read, out), width * pitch)


CASES: dict[str, Callable[[Rng], Case]] = {
    "conv2d_s8": _conv,
    "depthwise_conv2d_s8": _depthwise,
    "fully_connected_s8": _connected,
    "add_s8": _add,
    "mul_s8": _mul,
    "average_pool_s8": _average,
    "max_pool_s8": _maximum,
    "reduce_sum_s8": _sum,
    "softmax_s8": _softmax,
    "copy_s8": _copy,
    "fill_s8": _fill,
    "lut_s8": _table,
    "extremum_s8": _extremum,
    "reduce_extremum_s8": _largest,
    "matmul_s8": _matmul,
    "resize_bilinear_s8": _resize,
    "prelu_s8": _prelu,
}


def _constant(name: str, nbytes: int, rng: Rng) -> bytes:
    match name:
        case "requant":
            return ROW * (nbytes // len(ROW))
        case "table" if nbytes == limits.SOFTMAX_TABLE_BYTES:
            return b"".join(max(1, (1 << 30) >> k // 8).to_bytes(4, "little") for k in range(256))
        case "table":
            return rng.permutation(256).astype(np.uint8).tobytes()
        case "bias":
            return bytes(nbytes)
        case _:
            return (rng.choice([-90, -60, 60, 90], nbytes)).astype(np.int8).tobytes()


def _run(kernel: Kernel, params: p.KernelParams, operands: Sequence[bytes]) -> np.ndarray:
    """The output of one call, whose constants are `operands` of these names."""
    assert limit_problem(params) is None
    assert form_problem(params) is None
    constants = {"weights", "bias", "requant", "table"}
    sizes = operand_bytes(params)
    buffers = [
        Buffer(name, len(data), data if name in constants else None)
        for name, data in zip(kernel.reads, operands, strict=True)
    ]
    buffers += [Buffer(name, sizes[at]) for at, name in enumerate(kernel.operands) if at >= len(kernel.reads)]
    refs = tuple(Ref(buffer.name, 0, sizes[at]) for at, buffer in enumerate(buffers))
    inputs = tuple(name for name in kernel.reads if name not in constants)
    program = Program(tuple(buffers), inputs, ("output",), (KernelCall(kernel, refs, params, (0,)),))
    data = [block for name, block in zip(kernel.reads, operands, strict=True) if name not in constants]
    return np.frombuffer(Driver().run(encode(program, plan(program)), data)[0], np.int8)


def _operands(case: Case, rows: Rowwise, rng: Rng) -> list[bytes]:
    """Values of what the call reads, whole rows of it where it has rows."""
    operands: list[bytes] = []
    for at, (name, window) in enumerate(zip(case.kernel.reads, rows.reads, strict=True)):
        nbytes = operand_bytes(case.params)[at]
        data = _constant(name, nbytes, rng)
        operands.append(data)
        assert window is None or window.nbytes * (window.count - 1) < nbytes <= window.nbytes * window.count
    return operands


def _rows_of(output: np.ndarray, nbytes: int, rows: Rowwise) -> list[bytes]:
    step, high = nbytes * rows.every, nbytes * rows.high
    return [output[at * step : at * step + high].tobytes() for at in range(rows.count)]


def test_every_kernel_has_an_entry() -> None:
    assert set(ENTRIES) == {kernel.params for kernel in KERNELS}
    assert set(CASES) == {kernel.name for kernel in KERNELS}


@pytest.mark.parametrize("name", CASES)
def test_rows_depend_on_the_rows_that_are_said(name: str) -> None:
    seen = 0
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        case = CASES[name](rng)
        rows = rowwise(case.params, case.nbytes)
        if rows is None:
            continue
        operands = _operands(case, rows, rng)
        before = _rows_of(_run(case.kernel, case.params, operands), case.nbytes, rows)
        for at, window in enumerate(rows.reads):
            for row in range(0 if window is None else window.count):
                assert window is not None
                depends = {i for i in range(rows.count) if window.rows(i, i + 1)[0] <= row < window.rows(i, i + 1)[1]}
                changed = _changed(case, rows, operands, at, row, before, rng)
                assert changed <= depends, (seed, case, at, row)
                assert changed == depends or not case.exact, (seed, case, at, row)
                seen += len(changed)
    assert seen or name == "fill_s8"


def _changed(
    case: Case, rows: Rowwise, operands: Sequence[bytes], at: int, row: int, before: Sequence[bytes], rng: Rng
) -> set[int]:
    """The rows of the output that some other content of a row of operand `at` changes."""
    changed: set[int] = set()
    window = rows.reads[at]
    assert window is not None
    for low, high in ((-128, -127), (126, 127), *((-128, 127),) * (CHANGES - 2)):
        other = np.frombuffer(operands[at], np.int8).copy()
        target = other[row * window.nbytes : (row + 1) * window.nbytes]
        target[:] = rng.integers(low, high + 1, len(target))
        result = _run(case.kernel, case.params, [*operands[:at], other.tobytes(), *operands[at + 1 :]])
        after = _rows_of(result, case.nbytes, rows)
        changed |= {i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b}
    return changed


@pytest.mark.parametrize("name", CASES)
def test_a_narrowed_call_computes_the_same_rows(name: str) -> None:
    parts = apart = together = 0
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        case = CASES[name](rng)
        rows = rowwise(case.params, case.nbytes)
        if rows is None:
            continue
        operands = _operands(case, rows, rng)
        whole = _run(case.kernel, case.params, operands)
        first = int(rng.integers(0, rows.count))
        last = int(rng.integers(first + 1, rows.count + 1))
        params = rows.narrowed(first, last)
        some: list[bytes] = []
        for data, window, nbytes in zip(operands, rows.reads, operand_bytes(params), strict=False):
            low = 0 if window is None else window.rows(first, last)[0] * window.nbytes
            assert window is None or low + nbytes <= window.rows(first, last)[1] * window.nbytes
            some.append(data[low : low + nbytes] if window is not None else data)
        part = _run(case.kernel, params, some)
        expected = whole[first * rows.every * case.nbytes :][: len(part)]
        assert part.tobytes() == expected.tobytes(), (seed, case, first, last)
        parts += last - first < rows.count
        apart += rows.every > rows.high
        together += rows.high > 1
    assert parts
    assert (apart and together) or name != "copy_s8"


def test_the_parameters_of_a_window_say_what_its_rows_are() -> None:
    for name in ("conv2d_s8", "depthwise_conv2d_s8", "average_pool_s8", "max_pool_s8", "resize_bilinear_s8"):
        case = CASES[name](np.random.default_rng(0))
        assert natural_rows(case.params) == case.nbytes
        assert rowwise(case.params, case.nbytes + 1) is None
    assert natural_rows(p.LutParams(16)) is None


@pytest.mark.parametrize(
    ("params", "nbytes"),
    [
        (p.LutParams(60), 7),
        (p.CopyParams(0, (1, 1, 1, 1, 4, 6), (0, 0, 0, 0, 6, 1), (0, 0, 0, 0, 1, 4)), 6),
        (p.CopyParams(0, (1, 1, 1, 1, 4, 6), (0, 0, 0, 0, 6, 1), (0, 0, 0, 0, 12, 1)), 5),
        (p.ExtremumParams((1, 1, 1, 3, 4), (0, 0, 0, 1, 3), (0, 0, 0, 4, 1), 0), 4),
        (p.ExtremumParams((1, 1, 1, 1, 1), (0, 0, 0, 0, 0), (0, 0, 0, 0, 0), 0), 1),
        (p.MaxPoolParams(2, 4, 4, 1, 4, 4, 1, 1, 1, 1, 0, 0, -128, 127), 4),
    ],
    ids=["unequal rows", "between columns", "no rows", "reads across its rows", "one element", "two maps"],
)
def test_what_has_no_such_rows(params: p.KernelParams, nbytes: int) -> None:
    assert rowwise(params, nbytes) is None
