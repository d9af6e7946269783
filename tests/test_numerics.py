"""The fixed-point arithmetic against rational numbers and the vectors that the C tests read too."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuteron import numerics
from deuteron.errors import UnsupportedError
from deuteron.npu.neutron.ir.ops import Function
from deuteron.tflite.quantization import Quant

ROOT = Path(__file__).resolve().parents[1]
VECTORS = ROOT / "spec" / "vectors"

scales = st.floats(2**-40, 2**20, width=32).map(Fraction)


def vectors(name: str) -> Iterator[tuple[int, ...]]:
    for line in (VECTORS / name).read_text().splitlines():
        if not line.startswith("#"):
            yield tuple(int(word) for word in line.split())


def test_vectors_are_those_of_the_generator() -> None:
    check = subprocess.run(
        [sys.executable, ROOT / "tools" / "gen_vectors.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (check.returncode, check.stderr) == (0, "")


def test_requant_vectors() -> None:
    acc, multiplier, shift, expected = np.array([*vectors("requant.txt")], np.int64).T
    assert len(acc) > 2000
    np.testing.assert_array_equal(numerics.rne_shift(acc * multiplier, shift), expected)


def test_divide_vectors() -> None:
    numerator, denominator, expected = np.array([*vectors("divide.txt")], np.int64).T
    assert len(numerator) > 1900
    assert denominator.max() == 2**62
    assert {*np.sign(numerator)} == {-1, 0, 1}
    np.testing.assert_array_equal(numerics.rne_divide(numerator, denominator), expected)


@given(st.integers(-(2**62) + 1, 2**62 - 1), st.integers(1, 62))
def test_rne_shift_is_pythons_round(value: int, shift: int) -> None:
    assert numerics.rne_shift(np.array([value]), shift).tolist() == [round(Fraction(value, 2**shift))]


@given(st.integers(-(2**62) + 1, 2**62 - 1), st.integers(1, 2**62))
def test_rne_divide_is_pythons_round(numerator: int, denominator: int) -> None:
    assert numerics.rne_divide(np.array([numerator]), np.array([denominator])).tolist() == [
        round(Fraction(numerator, denominator))
    ]


@given(scales)
def test_a_factor_uses_31_bits_and_one_rounding(factor: Fraction) -> None:
    row = numerics.requant(factor)
    assert 1 <= row.shift <= 62
    assert row.multiplier == round(factor * 2**row.shift) < 2**31
    if row.shift < 62:
        assert round(factor * 2 ** (row.shift + 1)) >= 2**31
        assert abs(Fraction(row.multiplier, 2**row.shift) - factor) <= factor / 2**31


@given(st.lists(scales, min_size=1, max_size=4))
def test_factors_share_the_shift_of_the_largest(factors: list[Fraction]) -> None:
    multipliers, shift = numerics.requants(factors)
    assert shift == numerics.requant(max(factors)).shift
    assert multipliers == tuple(round(factor * 2**shift) for factor in factors)


@pytest.mark.parametrize(
    ("factor", "multiplier", "shift"),
    [
        (Fraction(1), 2**30, 30),
        (Fraction(1, 2), 2**30, 31),
        (Fraction(2**30) - Fraction(1, 2), 2**31 - 1, 1),
        (1 - Fraction(1, 2**40), 2**30, 30),  # 2^31 - 2^-9 would round to 32 bits
        (Fraction(1, 2**70), 0, 62),
    ],
)
def test_factors_at_the_edges(factor: Fraction, multiplier: int, shift: int) -> None:
    assert numerics.requant(factor) == numerics.Requant(multiplier, shift)


@given(scales, st.integers(1, 2**23))
def test_a_mean_leaves_room_for_its_count(factor: Fraction, count: int) -> None:
    row = numerics.mean_requant(factor, count)
    assert row.shift <= numerics.requant(factor).shift
    assert row.multiplier == round(factor * 2**row.shift) < 2**31
    assert count << row.shift <= 2**61
    if row.shift < numerics.requant(factor).shift:
        assert count << row.shift > 2**60
    if 256 * factor > Fraction(1, 2):  # smaller ones round every mean of stored values to 0
        assert abs(Fraction(row.multiplier, 2**row.shift) - factor) <= factor / 2**30


@pytest.mark.parametrize(
    ("factor", "count", "multiplier", "shift"),
    [
        (Fraction(1), 3, 2**30, 30),
        (Fraction(1), 2**23, 2**30, 30),
        (Fraction(1, 2**20), 2**11, 2**30, 50),
        (Fraction(1, 2**20), 2**11 + 1, 2**29, 49),
        (Fraction(3, 2**22), 2**23, 3 * 2**16, 38),
    ],
)
def test_factors_of_means(factor: Fraction, count: int, multiplier: int, shift: int) -> None:
    assert numerics.mean_requant(factor, count) == numerics.Requant(multiplier, shift)


@pytest.mark.parametrize("bits", [24, 29, 31])
def test_a_multiplier_may_have_fewer_bits(bits: int) -> None:
    row = numerics.mean_requant(Fraction(1, 3), 9, bits)
    assert row.multiplier.bit_length() == bits
    assert abs(Fraction(row.multiplier, 2**row.shift) - Fraction(1, 3)) <= Fraction(1, 2**row.shift)
    with pytest.raises(UnsupportedError, match=rf"is outside 0\.\.2\^{bits - 1}"):
        numerics.mean_requant(Fraction(2 ** (bits - 1)), 1, bits)


@pytest.mark.parametrize(("factor", "text"), [(Fraction(2**30), "1.07374e+09"), (Fraction(2**70), "1.18059e+21")])
def test_a_factor_out_of_range(factor: Fraction, text: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        numerics.requant(factor)
    assert str(error.value) == (
        f"requantization factor {text} is outside 0..2^30\n\n"
        "hint: check the scales of this operator's tensors; the calibration data may be degenerate"
    )


@pytest.mark.parametrize(
    ("scale", "pair"),
    [
        (0.00390625, (256 << 16, 16)),
        (1.0, (1 << 16, 16)),
        (2.0**-16, (1 << 30, 14)),
        (2.0**-30, (1 << 30, 0)),
        (2.0**16, (1, 16)),
    ],
)
def test_softmax_multiplier(scale: float, pair: tuple[int, int]) -> None:
    assert numerics.softmax_multiplier(scale) == pair


@pytest.mark.parametrize(("scale", "text"), [(2.0**-32, "2.32831e-10"), (2.0**18, "262144")])
def test_softmax_scale_out_of_range(scale: float, text: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        numerics.softmax_multiplier(scale)
    assert str(error.value) == f"softmax output scale {text} is outside 2^-31..2^16"


def test_softmax_table() -> None:
    table = numerics.softmax_table(0.0625, 1.0)
    assert table.dtype == np.uint32
    assert (table[0], table[16], table[255]) == (1 << 30, 395007542, 129)
    assert (np.diff(table.astype(np.int64)) < 0).all()
    np.testing.assert_array_equal(numerics.softmax_table(0.0625, 2.0)[:128], table[::2])
    assert numerics.softmax_table(100.0, 1.0)[1:].max() == 0


def test_every_unary_function_has_its_real_function() -> None:
    assert set(numerics.REAL_FUNCTIONS) == {function.value for function in Function}


quants = st.builds(
    lambda scale, zero_point: Quant((scale,), (zero_point,)),
    st.floats(2**-20, 2**10, width=32),
    st.integers(-128, 127),
)


PIECEWISE_LINEAR: dict[Function | None, Callable[[Fraction], Fraction]] = {
    None: lambda x: x,
    Function.ABS: abs,
    Function.RELU: lambda x: max(x, Fraction(0)),
    Function.RELU6: lambda x: min(max(x, Fraction(0)), Fraction(6)),
    Function.RELU_0_TO_1: lambda x: min(max(x, Fraction(0)), Fraction(1)),
    Function.RELU_N1_TO_1: lambda x: min(max(x, Fraction(-1)), Fraction(1)),
}


@given(st.sampled_from(list(PIECEWISE_LINEAR)), quants, quants)
def test_unary_tables_are_exact(function: Function | None, source: Quant, target: Quant) -> None:
    real_function = None if function is None else numerics.REAL_FUNCTIONS[function.value]
    table = numerics.unary_table(real_function, source, target)
    for stored in range(-128, 128):
        real = PIECEWISE_LINEAR[function]((stored - source.zero_point) * Fraction(source.scale))
        exact = round(real / Fraction(target.scale)) + target.zero_point
        assert table[stored + 128] == min(max(exact, -128), 127)


def test_true_ties_of_products_round_to_even() -> None:
    source, one = Quant((0.5,), (0,)), Quant((1.0,), (0,))
    leaky = numerics.unary_table(numerics.leaky_relu(0.5), source, one)
    assert leaky[[128 - 2, 128 - 6, 128 - 10, 128 + 1, 128 + 3]].tolist() == [0, -2, -2, 0, 2]
    swish = numerics.unary_table(numerics.REAL_FUNCTIONS["hard_swish"], Quant((1.0,), (0,)), one)
    assert swish[[128 - 1, 128 + 1, 128 + 2, 128 + 3]].tolist() == [0, 1, 2, 3]
    halves = numerics.unary_table(numerics.REAL_FUNCTIONS["hard_swish"], source, Quant((0.25,), (0,)))
    assert halves[128 + 3] == 4  # 1.5 * 4.5 / 6 = 4.5 steps


def test_accumulators_below_the_limit_pass() -> None:
    weights = np.array([[-128, 127], [1, 1]], np.int8)
    numerics.check_accumulators(weights, np.array([-(2**31) + 255 * 255 + 1, 0], np.int64))
    with pytest.raises(UnsupportedError, match=r"output channel 0 can reach 2147483648; the NPU's is below 2\^31"):
        numerics.check_accumulators(weights, np.array([-(2**31) + 255 * 255, 0], np.int64))
