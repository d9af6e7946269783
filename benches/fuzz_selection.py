"""A million damaged kernel selection files through the reader, which must refuse each or find that it is undamaged.

Counts which line the refusals name, and findings: any other error, a refusal that names no line, or a file that is read
as a selection that would be written differently. Deterministic: `--first SEED --runs 1` repeats a finding.

make bench-fuzz-selection
"""

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from fuzzing import FIRST, MAX_FINDINGS, RUNS, Tally
from harness import SCHEDULER, Results, main, option

from deuteron.errors import FormatError
from deuteron.npu.neutron.kernels.catalogue import KERNELS
from deuteron.npu.neutron.kernels.selection import Selection, parse
from deuteron.sweeps.campaign import PYTHON, REPORT, Part, campaign

CHUNK = 20_000
CHECKOUT = Path(__file__).resolve().parents[1]
NAME = "f.c"
PLACED = re.compile(rf"{re.escape(NAME)}:[1-9]\d*")
SOURCES = tuple(
    Selection(converter, microcode, tuple(kernels)).to_c().encode()
    for converter, microcode, kernels in (
        ("0.1.0", (1, 0), KERNELS),
        ("0.1.0", (1, 0), ()),
        ("12.0.3rc1+local", (3, 12), KERNELS[2:9]),
    )
)
WORDS = tuple(dict.fromkeys(word for source in SOURCES for word in re.findall(rb"\w+|\W", source)))


def damaged(draw: random.Random) -> bytes:
    """A valid file with one to three changes of any size."""
    data = draw.choice(SOURCES)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        data = _change(data, draw)
    return data


def _change(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    lines = data.splitlines(keepends=True)
    line, other = (draw.randrange(len(lines) + 1) for _ in range(2))
    match draw.randrange(9):
        case 0:
            return data[:at] + bytes((draw.randrange(256),)) + data[at + 1 :]
        case 1:
            return data[:at] + draw.randbytes(draw.randrange(1, 20)) + data[at:]
        case 2:
            return data[:at]
        case 3:
            return data[:at] + data[at + draw.randrange(1, 200) :]
        case 4:
            return b"".join((*lines[:line], *lines[line + 1 :]))
        case 5:
            return b"".join((*lines[:line], *lines[other : other + draw.randrange(1, 4)], *lines[line:]))
        case 6:
            words = re.findall(rb"\w+|\W", data) or [b""]
            words[draw.randrange(len(words))] = draw.choice(WORDS)
            return b"".join(words)
        case 7:
            splice = draw.choice(SOURCES)
            return data[:at] + splice[draw.randrange(len(splice)) :]
        case _:
            return data.replace(b"\n", draw.choice((b"\r\n", b"\r", b"\n\n", b"")), draw.choice((-1, 1)))


def fuzz(seed: int, tally: Tally) -> None:
    """Add one run to the tally."""
    data = damaged(random.Random(seed))  # noqa: S311 - not for secrets
    try:
        found = parse(data, NAME)
    except FormatError as error:
        if error.where is None or not PLACED.fullmatch(error.where):
            tally.findings.append((seed, f"a refusal that names no line: {error!r}"))
        tally.outcomes["refused"] += 1
    except Exception as error:  # noqa: BLE001 - what this looks for
        tally.findings.append((seed, f"{type(error).__name__}: {error}"))
    else:
        if found.to_c().encode() != data.replace(b"\r\n", b"\n"):
            tally.findings.append((seed, "read as something else"))
        tally.outcomes["undamaged"] += 1


def fuzzed(seeds: Sequence[int], scheduler: str | None, tally: Tally) -> Iterator[None]:
    """Take in what becomes of the files of these seeds, which follow each other, a step at a time."""
    if scheduler is None:
        for seed in seeds:
            yield fuzz(seed, tally)
        return
    command = (PYTHON, "benches/fuzz_selection.py", "--json", REPORT)
    chunks = (seeds[begin : begin + CHUNK] for begin in range(0, len(seeds), CHUNK))
    parts = [Part(f"{c[0]}", (*command, "--first", f"{c[0]}", "--runs", f"{len(c)}"), CHECKOUT) for c in chunks]
    for part, ended in campaign(parts, scheduler):
        part_report = json.loads(ended.checked(part).report)
        tally.outcomes.update(part_report["outcomes"])
        yield tally.findings.extend((seed, "reported by a worker") for seed in part_report["findings"])


def results(options: argparse.Namespace) -> Results:
    """So many files; a finding is a problem."""
    tally, began = Tally(), time.perf_counter()
    for _ in fuzzed(range(options.first, options.first + options.runs), options.scheduler, tally):
        if len(tally.findings) >= MAX_FINDINGS:
            break
    found = [f"finding with seed {seed}: {what}" for seed, what in tally.findings]
    return tally.results(found, time.perf_counter() - began)


if __name__ == "__main__":
    count = option("--runs", type=int, default=RUNS, help=f"how many files (default {RUNS})")
    sys.exit(main(results, count, FIRST, SCHEDULER))
