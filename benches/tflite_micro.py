"""TFLite files on a Cortex-M, compared with TensorFlow Lite Micro and CMSIS-NN: counted instructions, memory and code.

The counts of TensorFlow Lite Micro (commit 90b983c2, its own Makefile, gcc 12.2.1, -O3, one resolver entry per operator
of the file) are of `Invoke()` alone on the same emulated cores. Its arena is what `arena_used_bytes` says. Its code is
text and constants without the model, with an application of 2 to 4 KB. Deuteron's instructions are of a whole run with
the copies of inputs and outputs, its arena has inputs, outputs and state.

The folder has the files by any name; their SHA-256 tells which they are.

make bench-tflite-micro ARGS=FOLDER
"""

import math
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import Results, main, option, progress, table
from public_tflite import Worker, digest

TIME_LIMIT = 300
"""Seconds per file."""

CORES = ("cortex-m55", "cortex-m33")

COUNTED = ("instructions", "arena", "code")
Counts = tuple[int, int, int]
"""Instructions, arena in bytes, code in bytes."""


# SHA-256 of the file: name, counts of TensorFlow Lite Micro on CORES.
MICRO: dict[str, tuple[str, Counts, Counts]] = {
    "aeea436800704fce17b17292e4412630ad856e9d777c044c64ef748a880bd0ae": (
        "kws",
        (1_785_128, 27_348, 52_744),
        (7_800_925, 22_820, 61_268),
    ),
    "597a384c8c2c8a1276f04702f25013b7838f2f814f1ca7c174d295b73e3d6b7b": (
        "vww",
        (6_433_107, 100_772, 52_744),
        (24_541_660, 100_708, 61_268),
    ),
    "3c002613d1b2475eb51dd78dfb85a546c8ae658dee71cf6ade43b022fe205415": (
        "resnet",
        (4_812_954, 55_028, 51_256),
        (29_935_746, 54_996, 60_456),
    ),
    "87cf24194ef93d1d9b11a591d805526b98008e351655d29883c825c9c106ba24": (
        "ad",
        (149_889, 9_268, 25_368),
        (582_446, 2_580, 32_976),
    ),
    "3af8550895ba7d5c584277102b5075c52dcfa63ba9d2b2240f37c4e6abd5dd2b": (
        "str_ww",
        (410_991, 19_956, 49_296),
        (2_220_271, 16_596, 58_500),
    ),
    "808cfdfc0cf3a6fa6f6fa26bfa379ea97c16d5db7334637766e39c3408502e9d": (
        "person_detect",
        (6_382_845, 82_356, 46_376),
        (23_343_911, 82_308, 50_356),
    ),
    "09e5e2a9dfb2d8ed78802bf18ce297bff54281a66ca18e0c23d69ca14f822a83": (
        "micro_speech",
        (837_200, 7_812, 47_072),
        (1_481_869, 6_836, 51_304),
    ),
    "0689abe1912a95a3318a0d8cb2e67bad0cbcfe3e24dd6e050c75debddfb6f891": (
        "okay_nabu",
        (69_722, 27_748, 72_728),
        (188_391, 19_268, 79_332),
    ),
    "7aa4db6d5fb7c5358609f6931e7847d303c16a43d178638bc14104f50d7eff5f": (
        "vad",
        (31_424, 14_740, 70_232),
        (93_580, 10_052, 77_516),
    ),
    "a44e4d8a6c051db582414915ee28ee0462bd47e9f150e4a095fb5a126b88d885": (
        "mnist_lstm",
        (254_935, 4_100, 43_784),
        (561_714, 4_052, 50_416),
    ),
    "91e94316d1a4747dd3bddcf58423927e97213913a9b4210edca3f9402b2ff0fe": (
        "dtln",
        (285_935, 14_356, 40_368),
        (757_399, 14_356, 47_424),
    ),
    "2335faf0a066193cfbd499ebabcce06629c223ec24afbd1f27aaaf0a4273b1a1": (
        "keyword_scrambled",
        (62_099, 15_012, 41_160),
        (135_707, 13_332, 46_900),
    ),
    "1d5e0e5c9a7369ca34543fefb46e3047cd6db281adcd8bb8a96aba0a48e88757": (
        "keyword_scrambled_8bit",
        (52_964, 9_892, 41_160),
        (119_521, 8_212, 46_900),
    ),
    "505ee4fae7fa46ab67bea4c08b4969eb3eb8b9114c50595ec4a29d9a27993202": (
        "hello_world",
        (2_103, 916, 25_368),
        (3_491, 772, 32_976),
    ),
}

WORKER = Worker(TIME_LIMIT, boards=True)
ALONE = Worker(TIME_LIMIT, boards=True, compared=False)

LARGEST_RATIO = 0.95
"""Limit for the ratio of instructions of a file."""
MEAN_INSTRUCTIONS = {"cortex-m55": 0.65, "cortex-m33": 0.70}
MEAN_ARENA = 0.75
"""Largest geometric means of the ratios."""


@dataclass(frozen=True, slots=True)
class Row:
    """A file on a core, and the counts as ratios to TensorFlow Lite Micro's; None where Deuteron refuses the file."""

    model: str
    core: str
    instructions: int | None
    arena: int | None
    code: int | None
    equal: bool | None
    refusal: str
    instructions_ratio: float | None = None
    arena_ratio: float | None = None
    code_ratio: float | None = None


def measure(path: Path) -> Iterator[Row]:
    """The rows of a file."""
    model, *counts = MICRO[digest(path)]
    found_rows = WORKER.rows(path, CORES)
    if any("crash" in found for found in found_rows):  # LiteRT ends the process with one of the files
        found_rows = ALONE.rows(path, CORES)
    for found, micro in zip(found_rows, counts, strict=True):
        yield Row(
            model=model,
            core=found["target"],
            **{name: found.get(name) for name in COUNTED},
            **{f"{name}_ratio": found[name] / of for name, of in zip(COUNTED, micro, strict=True) if name in found},
            equal=found.get("equal"),
            refusal=next((found[key] for key in ("refusal", "board_refusal", "crash") if key in found), ""),
        )


def mean(ratios: Iterator[float | None]) -> float:
    """The geometric mean of those that are there."""
    logs = [math.log(ratio) for ratio in ratios if ratio is not None]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def problems(rows: list[Row]) -> Iterator[str]:
    """The bounds that do not hold."""
    for row in rows:
        if row.equal is False:
            yield f"{row.model} on {row.core} differs from LiteRT"
        for what, ratio, largest in (
            ("instructions", row.instructions_ratio, LARGEST_RATIO),
            ("arena", row.arena_ratio, 1.0),
        ):
            if ratio is not None and ratio > largest:
                yield f"{row.model} on {row.core} has {ratio:.2f} of the {what}; at most {largest} are allowed"
    for core in CORES:
        for what, ratio, largest in (
            ("instructions", mean(r.instructions_ratio for r in rows if r.core == core), MEAN_INSTRUCTIONS[core]),
            ("arena", mean(r.arena_ratio for r in rows if r.core == core), MEAN_ARENA),
        ):
            if ratio > largest:
                yield f"the geometric mean of the {what} on {core} is {ratio:.2f}; at most {largest} is allowed"


def results(args: Namespace) -> Results:
    """Measure the files of the folder that have counts."""
    paths = [path for path in sorted(args.folder.glob("**/*.tflite")) if digest(path) in MICRO]
    rows = [progress(row) for path in paths for row in measure(path)]
    columns = {
        "model": "model", "core": "core", "instructions": "instructions", "ratio": "instructions_ratio:.2f",
        "arena (B)": "arena", "arena ratio": "arena_ratio:.2f", "code (B)": "code", "code ratio": "code_ratio:.2f",
        "equals LiteRT": "equal", "refusal": "refusal",
    }  # fmt: skip
    notes = [f"{core}: geometric means of the ratios: {_means(rows, core)}" for core in CORES]
    return Results("counted", rows, [table(rows, columns)], list(problems(rows)), notes)


def _means(rows: list[Row], core: str) -> str:
    means = {name: mean(getattr(r, f"{name}_ratio") for r in rows if r.core == core) for name in COUNTED}
    return ", ".join(f"{name} {value:.2f}" for name, value in means.items())


if __name__ == "__main__":
    sys.exit(main(results, option("folder", type=Path, help="TFLite files, also in folders below")))
