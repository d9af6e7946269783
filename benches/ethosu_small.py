"""Ethos-U in small SRAM: programs that Vela alone makes, and programs that are cut into stripes before Vela.

Networks of our own that branch, as TFLite files. For each network, accelerator and memory mode there are rows for what
Vela makes for performance and for size, and for the fastest program within parts of the latter's SRAM. SRAM is that of
the whole program, with inputs and outputs. Cycles are Vela's estimates. Every cut program has computed the outputs of
the uncut one in the executor, and none may be slower than a program of Vela alone that fits, too.

make bench-ethosu-small ARGS="unet --accelerators ethos-u55-128"
"""

import argparse
import resource
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import NAMES, Results, Rows, main, option, progress, table
from tests.graph_stripes.networks import NETWORKS

from deuteron.arch.memory import MemoryOptions
from deuteron.arch.vela import Optimise, VelaOptions
from deuteron.board import vela_budget, vela_search
from deuteron.builds.manifest import Manifest
from deuteron.builds.options import BuildOptions
from deuteron.errors import CapacityError
from deuteron.tflite.encode import encode

ACCELERATORS = ("ethos-u55-128", "ethos-u55-256", "ethos-u65-512", "ethos-u85-256")
MODES = ("Shared_Sram", "Sram_Only")
PARTS = (0.92, 0.75, 0.5, 0.35)
"""Budgets, as parts of the SRAM that Vela needs alone."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program: bytes of SRAM, of weights and commands, and Vela's cycles."""

    sram: int
    cycles: int
    flash: int


def searched(path: Path, target: str, mode: str, memory: MemoryOptions, optimise: Optimise) -> tuple[Manifest, Program]:
    """Return the manifest of a search, and the program."""
    taken: list[vela_search.Candidate] = []
    options = BuildOptions(memory=memory, vela=VelaOptions(memory_mode=mode, optimise=optimise))

    def chosen(builder: vela_budget.VelaBuilder) -> vela_budget.VelaBuild:
        compiler = vela_budget.TfliteCompiler(builder)
        found = vela_search.VelaSearch(compiler, memory, options.vela).chosen()
        taken.append(found.candidate)
        return found.candidate.made.noted(found.stripes, found.notes)

    manifest, _ = vela_budget.tflite_build.build_of(path, target, options, None, chosen)
    flash = sum(part.weights_bytes + part.microcode_bytes for part in manifest.partitions)
    return manifest, Program(taken[0].sram, taken[0].cycles, flash)


def rows(name: str, target: str, mode: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a network: Vela's for performance and size, then each budget."""
    path = folder / f"{name}.tflite"
    path.write_bytes(encode(NETWORKS[name]()))
    alone = {
        each: searched(path, target, mode, MemoryOptions(sram_budget=1 << 28), each)[1]
        for each in (Optimise.PERFORMANCE, Optimise.SIZE)
    }
    head = {"network": name, "accelerator": target, "mode": mode}
    for each, program in alone.items():
        yield head | _figures(f"Vela, {each.value}", program, alone) | {"stripes": "", "seconds": 0.0}
    for part in PARTS:
        budget = int(part * alone[Optimise.SIZE].sram)
        began = _seconds()
        try:
            manifest, program = searched(path, target, mode, MemoryOptions(sram_budget=budget), Optimise.PERFORMANCE)
        except CapacityError as error:
            yield head | {"program": f"{budget:,} B", "refused": error.message}
            continue
        stripes = "; ".join(f"{len(one.operators)} operators x {one.stripes}" for one in manifest.stripes)
        row = head | _figures(f"{budget:,} B", program, alone)
        yield row | {"budget": budget, "stripes": stripes, "seconds": _seconds() - began}


def _figures(title: str, program: Program, alone: Mapping[Optimise, Program]) -> dict[str, Any]:
    fast, small = alone[Optimise.PERFORMANCE], alone[Optimise.SIZE]
    return {
        "program": title,
        "sram": program.sram,
        "sram_part": program.sram / small.sram,
        "cycles": program.cycles,
        "of_size": program.cycles / small.cycles,
        "of_performance": program.cycles / fast.cycles,
        "flash": program.flash,
    }


def _seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def problems(found: list[dict[str, Any]]) -> list[str]:
    """Return programs above their budget, and programs slower than one of Vela alone that fits."""
    alone = [row for row in found if "budget" not in row and "refused" not in row]
    wrong: list[str] = []
    for row in found:
        if "budget" not in row:
            continue
        same = [one for one in alone if all(one[key] == row[key] for key in ("network", "accelerator", "mode"))]
        fitting = [one["cycles"] for one in same if one["sram"] <= row["budget"]]
        title = f"{row['network']} {row['accelerator']} {row['mode']} {row['program']}"
        if row["sram"] > row["budget"]:
            wrong.append(f"{title}: {row['sram']:,} bytes")
        if fitting and row["cycles"] > min(fitting):
            wrong.append(f"{title}: {row['cycles']:,} cycles, Vela alone {min(fitting):,}")
    return wrong or ([] if found else ["no network was built"])


def results(options: argparse.Namespace) -> Results:
    """Return the rows of the chosen networks."""
    kept, found = Rows(options.resume), list[dict[str, Any]]()
    names = [name for name in NETWORKS if not options.names or any(name.startswith(each) for each in options.names)]
    for target in options.accelerators:
        for mode in options.modes:
            for name in names:
                key = f"{name} {target} {mode}"
                if key not in kept:
                    with tempfile.TemporaryDirectory() as folder:
                        kept[key] = progress(list(rows(name, target, mode, Path(folder))))
                found += kept[key]
    columns = {
        "network": "network", "accelerator": "accelerator", "mode": "mode", "program": "program", "SRAM": "sram:,",
        "of Vela's": "sram_part:.2f", "cycles": "cycles:,", "of Size": "of_size:.2f",
        "of Performance": "of_performance:.2f", "flash": "flash:,", "stripes": "stripes", "CPU s": "seconds:.0f",
    }  # fmt: skip
    shown = table([row for row in found if "refused" not in row], columns)
    notes = [
        f"{row['network']} {row['accelerator']} {row['mode']}: {row['refused']}" for row in found if "refused" in row
    ]
    return Results("estimated by Vela", found, [shown], problems(found), notes)


OPTIONS = (
    NAMES,
    option("--resume", type=Path, help="keep rows there, and go on behind those of the same sources"),
    option("--accelerators", nargs="*", default=ACCELERATORS, help="all four by default"),
    option("--modes", nargs="*", default=MODES, help="memory modes of Vela; both by default"),
)

if __name__ == "__main__":
    sys.exit(main(results, *OPTIONS))
