"""Write `spec/vectors/`, which the tests of the Python and of the C arithmetic both read.

The expected numbers come from `fractions.Fraction` alone: nothing of Deuteron computes them. Run without arguments to
write the files, with `--check` to fail when a committed one is stale.
"""

import random
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

VECTORS = Path(__file__).parent.parent / "spec" / "vectors"

REQUANT_HEADER = """\
# acc multiplier shift expected
# expected = acc * multiplier / 2^shift, rounded to nearest, ties to even; spec/rounding.md section 2.
# acc: signed 32 bits; multiplier: 0..2^31-1; shift: 1..62; expected: signed 64 bits, before zero point and saturation.
# Made by tools/gen_vectors.py; do not edit.
"""
DIVIDE_HEADER = """\
# numerator denominator expected
# expected = numerator / denominator, rounded to nearest, ties to even; spec/rounding.md section 2.
# numerator: -(2^62 - 1)..2^62 - 1; denominator: 1..2^62.
# Made by tools/gen_vectors.py; do not edit.
"""

ACC_EDGES = (0, 1, -1, 2, -2, 3, -3, 127, -128, 255, -255, 2**15, 2**30, 2**31 - 1, -(2**31 - 1), -(2**31))
MULTIPLIER_EDGES = (0, 1, 2, 3, 2**30, 2**30 + 1, 2**31 - 2, 2**31 - 1)
SHIFT_EDGES = (1, 2, 30, 31, 32, 61, 62)


def requant_cases(rng: random.Random) -> Iterator[tuple[int, int, int]]:
    """(acc, multiplier, shift): all edges, exact ties and their neighbours, then random ones."""
    for acc in ACC_EDGES:
        for multiplier in MULTIPLIER_EDGES:
            yield from ((acc, multiplier, shift) for shift in SHIFT_EDGES)
    for steps in (*range(-9, 10, 2), 255, -255, 257, -257):  # acc * 2^30 / 2^31 = steps / 2
        yield from ((steps + near, 2**30, 31) for near in (-1, 0, 1))
    for _ in range(300):  # ties: acc * multiplier is an odd multiple of 2^(shift - 1)
        shift = rng.randint(2, 50)
        zeros = rng.randint(max(0, shift - 1 - 30), min(shift - 1, 30))
        acc = rng.choice((-1, 1)) * ((rng.randrange(0, 2 ** (31 - zeros)) | 1) << zeros)
        multiplier = (rng.randrange(0, 2 ** (31 - (shift - 1 - zeros))) | 1) << (shift - 1 - zeros)
        yield acc, multiplier, shift
    for _ in range(1000):  # like real layers: results within a few hundred
        shift = rng.randint(31, 46)
        yield rng.randint(-(2 ** min(31, shift - 22)), 2 ** min(31, shift - 22) - 1), rng.randrange(2**30, 2**31), shift
    for _ in range(300):
        yield rng.randrange(-(2**31), 2**31), rng.randrange(2**31), rng.randint(1, 62)


def divide_cases(rng: random.Random) -> Iterator[tuple[int, int]]:
    """(numerator, denominator): those of `magnitudes` and their negatives."""
    for numerator, denominator in magnitudes(rng):
        yield numerator, denominator
        if numerator:
            yield -numerator, denominator


def magnitudes(rng: random.Random) -> Iterator[tuple[int, int]]:
    """(numerator, denominator): small ones in full, exact ties and their neighbours at every size, then random ones."""
    for denominator in range(1, 9):
        yield from ((numerator, denominator) for numerator in range(2 * denominator + 2))
    yield from ((0, 2**62), (2**61, 2**62), (2**61 - 1, 2**62), (2**61 + 1, 2**62), (2**62 - 1, 2**62), (2**62 - 1, 1))
    yield from ((2**61, 1), (2**61, 2**61 + 1), (2**61, 3), (2**62 - 1, 2**61 - 1), (2**62 - 1, 2), (2**62 - 3, 2))
    for _ in range(200):
        half = rng.randrange(1, 2 ** rng.randint(1, 52))
        odd = 2 * rng.randrange(0, 128) + 1
        yield from ((half * odd + near, 2 * half) for near in (-1, 0, 1))
    for _ in range(300):
        yield rng.randrange(2**62), rng.randrange(1, 2 ** rng.randint(1, 62) + 1)


def nearest_even(value: Fraction) -> int:
    """The nearest integer, the even one at a tie."""
    below = value.numerator // value.denominator
    rest = value - below
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1)
    return below + up


def generate() -> dict[str, str]:
    """File name -> text."""
    requants = [
        f"{acc} {multiplier} {shift} {nearest_even(Fraction(acc * multiplier, 2**shift))}\n"
        for acc, multiplier, shift in requant_cases(random.Random(1))  # noqa: S311
    ]
    quotients = [
        f"{numerator} {denominator} {nearest_even(Fraction(numerator, denominator))}\n"
        for numerator, denominator in divide_cases(random.Random(2))  # noqa: S311
    ]
    return {
        "requant.txt": REQUANT_HEADER + "".join(requants),
        "divide.txt": DIVIDE_HEADER + "".join(quotients),
    }


def main(arguments: list[str]) -> int:
    """Exit status: 0 when the files are (now) current."""
    VECTORS.mkdir(parents=True, exist_ok=True)
    for name, text in generate().items():
        path = VECTORS / name
        if arguments != ["--check"]:
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            print(f"error: spec/vectors/{name} is stale\n\nhint: run tools/gen_vectors.py", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
