"""The map from kernels to operators, its check, and the share of time that profiles explain.

The first table has networks of this project: kernel calls, those that the build maps to edge operators, and those that
an independent check confirms. It changes one operator after another and observes which kernel's output changes.
"directly" counts those confirmed without the map. Then follow the least share of the NPU's time that events explain
(host, simulated, emulated board), and the share of driver and runtime on the board. The second table has ExecuTorch's
own profiling tests: kernels of the vendor's converter and those in its map, then Deuteron's for models of the same
structure.

make bench-profile-map
"""

import argparse
import ast
import importlib.util
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness import REFERENCES, Results, main, option, progress, table

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from tests.npu.neutron.sdk.profiled import MODELS, handed_over
from tests.views.profile.networks import NETWORKS
from tests.views.profile.perturb import confirmed

from deuteron import api
from deuteron.arch.memory import FetchPolicy, MemoryOptions
from deuteron.views.events.events import Event, Kind
from deuteron.views.events.gaps import attributed
from deuteron.views.profile import run
from deuteron.views.profile import subject as builds

OPTIONS = api.BuildOptions(use_profiling=True, memory=MemoryOptions(fetch_constants_to_sram=FetchPolicy.NEVER))
PLACES = ("host", "sim", "an505")
ATTRIBUTED = 0.999
TESTS = "executorch.backends.nxp.tests.generic_tests.test_profiling"


def build(name: str, directory: Path) -> None:
    """Builds a network of the tests or a reference model."""
    if name not in NETWORKS:
        api.build_model(name, output=directory, options=OPTIONS)
        return
    torch.manual_seed(0)
    x = torch.randn(1, 4, 16, 16)
    api.build(NETWORKS[name](), (x,), output=directory, options=OPTIONS, calibration=[(x,)], name=name)


def network(name: str, work: Path) -> dict[str, float]:
    """One network."""
    directory = work / name
    build(name, directory)
    found = builds.read(directory)
    entries = found.manifest.partitions
    mapped = sum(any(e.ops[op].nodes for op in kernel.ops) for e in entries for kernel in e.kernels)
    direct, sure, kernels = confirmed(directory)
    inputs = api.seeded_inputs(found.manifest, 1)
    events = {on: run.profile(found, run.Wanted(on, inputs)).stream.events for on in PLACES}
    return {
        "kernels": kernels,
        "mapped": mapped,
        "confirmed": sure,
        "directly": direct,
        "attributed": min(attributed(each) or 0.0 for each in events.values()),
        "between": between(events["an505"]),
    }


def between(events: Iterable[Event]) -> float:
    """Share of the partitions' time that driver and runtime take between what they run."""
    ticks = {Kind.DISPATCH: 0, Kind.DELEGATE: 0}
    for event in events:
        if event.kind in ticks and event.partition >= 0:
            ticks[event.kind] += event.ticks
    return ticks[Kind.DISPATCH] / ticks[Kind.DELEGATE]


def expected_by_executorch() -> Mapping[str, tuple[int, int]]:
    """For each of ExecuTorch's tests the kernels of the vendor's converter, and those that its map has."""
    spec = importlib.util.find_spec(TESTS)
    tree = ast.parse(Path(str(spec and spec.origin)).read_text("utf-8"))
    found: dict[str, tuple[int, int]] = {}
    for test in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(test):
            if isinstance(node, ast.Dict) and node.keys and all(isinstance(value, ast.Tuple) for value in node.values):
                *handles, _ = (
                    value.elts for value in node.values if isinstance(value, ast.Tuple)
                )  # the last: the dump
                found[test.name.removeprefix("test__")] = len(handles), sum(bool(handle) for handle in handles)
    return found


def executorch_tests() -> dict[str, dict[str, float]]:
    """ExecuTorch's tests by name."""
    rows: dict[str, dict[str, float]] = {}
    for name, (vendor, vendor_mapped) in expected_by_executorch().items():
        module, shape = MODELS[name]
        kernels = handed_over(module(), shape, transposes=False)
        mapped = sum(bool(kernel.operators) for kernel in kernels)
        rows[name] = {"vendor": vendor, "vendor_mapped": vendor_mapped, "kernels": len(kernels), "mapped": mapped}
    return rows


def results(options: argparse.Namespace) -> Results:
    """The maps of our networks, and of ExecuTorch's tests."""
    with tempfile.TemporaryDirectory() as folder:
        ours = {name: progress(network(name, Path(folder))) for name in options.networks or NAMES}
    tests = executorch_tests()
    columns = {"network": lambda item: item[0]}
    names = ("kernels", "mapped", "confirmed", "directly")
    columns |= {name: lambda item, name=name: item[1][name] for name in names}
    columns |= {"time explained": lambda item: f"{item[1]['attributed']:.3%}"}
    columns |= {"driver and runtime": lambda item: f"{item[1]['between']:.3%}"}
    of_tests = {"test": lambda item: item[0]}
    for title in ("vendor", "vendor_mapped", "kernels", "mapped"):
        of_tests[title] = lambda item, title=title: item[1][title]
    every = {**ours, **tests}.items()
    problems = [f"{name}: a kernel is not mapped" for name, row in every if row["mapped"] != row["kernels"]]
    problems += [f"{name}: a kernel is not confirmed" for name, r in ours.items() if r["confirmed"] != r["kernels"]]
    problems += [f"{name}: no event explains some time" for name, row in ours.items() if row["attributed"] < ATTRIBUTED]
    rows = [{"network": name, **row} for name, row in ours.items()]
    tables = [table(ours.items(), columns), table(tests.items(), of_tests)]
    return Results("measured, simulated and counted", rows, tables, problems, data={"executorch_tests": tests})


NAMES = (*NETWORKS, *REFERENCES)

if __name__ == "__main__":
    sys.exit(main(results, option("networks", nargs="*", help="of the first table; all by default")))
