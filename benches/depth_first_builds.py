"""Whole builds in little SRAM: from the PyTorch model to the program, inputs and outputs in the budget.

Each network is built with int8 inputs and outputs (`--remove-quant-io-ops`): without a budget, with 320 KiB, with 256
KiB, and with the minimum of the error if one is refused. A row has the SRAM of ExecuTorch's tensors, scratch, weights
and their sum, which must keep the budget, and simulated cycles. ExecuTorch's runtime must give the bytes of the first
build.

make bench-depth-first-builds ARGS="mobilenet_v1_025 --targets imxrt700cm --budgets 131072"
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import Results, main, option, progress, table
from zoo.large_images import LARGE_IMAGES

from deuteron import api
from deuteron.arch.memory import MemoryOptions
from deuteron.errors import CapacityError
from deuteron.npu.neutron.program import SCRATCH
from deuteron.npu.program import PREFETCH_AREA
from deuteron.views.memory.memories import Planning

NETWORKS = ("mobilenet_v2",)
TARGETS = ("imxrt700", "imxrt700cm")
BUDGETS = (320 << 10, 256 << 10)


@dataclass(frozen=True, slots=True)
class Row:
    """One build; bytes of the budget are None without one, or where it is refused for a larger one."""

    network: str
    target: str
    budget: int | None
    tensors: int
    scratch: int
    weights: int
    cycles: int
    same: bool
    seconds: float

    @property
    def total(self) -> int:
        """Bytes of SRAM of all."""
        return self.tensors + self.scratch + self.weights


def row(network: str, target: str, budget: int | None, directory: Path, first: Path | None) -> Row:
    """A build in `directory`, compared with the one in `first` if there is one."""
    module, example, calibration = LARGE_IMAGES[network]()
    began = time.process_time()
    options = api.BuildOptions(remove_quant_io_ops=True, memory=MemoryOptions(sram_budget=budget))
    api.build(module, example, target=target, calibration=calibration, output=directory, options=options, name=network)
    seconds = time.process_time() - began
    data = api.seeded_inputs(api.read_manifest(directory), 2)
    found, wanted = (
        [[y.tobytes() for y in outputs] for outputs in api.run_each(path, data)]
        for path in (directory, first or directory)
    )
    plan = api.plan(directory)
    if not isinstance(plan, Planning):
        raise SystemExit(f"{network} on {target} has no partition")
    tensors = plan.simulation.tensors if plan.arena is None else plan.arena.arena.memory.nbytes
    taken = {memory.name: memory.nbytes for part in plan.partitions for memory in part.memories}
    linked = sum(part.linked_bytes for part in plan.partitions)
    scratch, area = taken.get(SCRATCH, 0), taken.get(PREFETCH_AREA, 0)
    cycles, same = plan.simulation.cycles, found == wanted
    return Row(network, target, budget, tensors, scratch, linked + area, cycles, same, seconds)


def rows(network: str, target: str, budgets: Sequence[int], folder: Path) -> Iterator[Row]:
    """The builds of a network for a target, without a budget first; the last is the least where one is refused."""
    first = folder / "whole"
    yield row(network, target, None, first, None)
    for budget in budgets:
        try:
            yield row(network, target, budget, folder / str(budget), first)
        except CapacityError as error:
            needed = re.search(r"--sram-budget (\d+)", error.hint or "")
            if needed is None:
                raise
            print(f"{network} for {target} in {budget:,} bytes is refused: {error.message.splitlines()[0]}", flush=True)
            yield row(network, target, int(needed[1]), folder / needed[1], first)
            return


def problems(found: Sequence[Row]) -> Iterator[str]:
    """Return the broken bounds."""
    for each in found:
        where = f"{each.network} for {each.target} in {each.budget or each.total:,} bytes"
        if not each.same:
            yield f"{where} gives other bytes"
        if each.budget is not None and each.total > each.budget:
            yield f"{where} takes {each.total:,}"


def results(options: argparse.Namespace) -> Results:
    """Each network for each target, without a budget and in each."""
    found: list[Row] = []
    for network in options.networks or NETWORKS:
        for target in options.targets:
            with tempfile.TemporaryDirectory() as scratch:
                found += map(progress, rows(network, target, options.budgets, Path(scratch)))
    whole = {(r.network, r.target): r.cycles for r in reversed(found)}
    columns = {"network": "network", "target": "target", "budget, B": "budget", "tensors": "tensors"}
    columns |= {"scratch": "scratch", "weights": "weights", "all": "total", "cycles": "cycles"}
    columns |= {"more": lambda r: f"{r.cycles / whole[r.network, r.target] - 1:+.1%}", "same bytes": "same"}
    columns["build s"] = "seconds:.1f"
    return Results("simulated", found, [table(found, columns)], list(problems(found)))


OPTIONS = (
    option("networks", nargs="*", help=f"by default {' '.join(NETWORKS)}"),
    option("--targets", nargs="*", default=TARGETS, help=f"by default {' '.join(TARGETS)}"),
    option("--budgets", nargs="*", type=int, default=BUDGETS, help="bytes, largest first"),
)

if __name__ == "__main__":
    sys.exit(main(results, *OPTIONS))
