"""Whether profiles say which kernel computes what, and where all of the time went.

The first table has networks of this project: of their kernel calls how many the build maps to edge operators, and how
many of these an independent way confirms, which changes one operator after another and looks which kernel's output
changes, and of these how many directly: the others are second to change, and read what the first writes by the map
itself; then the share of the NPU's time that events explain: the least of the host (measured), simulated, and counted
on an emulated board; and which share of it, counted there, is no kernel, copy or operator, but what driver and runtime
do between them. The second has ExecuTorch's own profiling tests: how many kernels of the vendor's converter the
map has that these expect of ExecuTorch's reader of the converter's log, beside ours for models of the same structure.
A kernel call is mapped in the first table when it has edge operators, in the second when it has any operator.

    python benches/profile_map.py [MODEL...] [--json FILE]
"""

import argparse
import ast
import importlib.util
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from ending import finish
from tests.npu.neutron.sdk.profiled import MODELS, handed_over
from tests.views.profile.networks import NETWORKS
from tests.views.profile.perturb import confirmed

from deuteron import api
from deuteron.arch.memory import FetchPolicy, MemoryOptions
from deuteron.views.events.events import Event, SpanKind
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
    events = {on: run.profile(found, run.ProfileRequest(on, inputs)).stream.events for on in PLACES}
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
    ticks = {SpanKind.DISPATCH: 0, SpanKind.DELEGATE: 0}
    for event in events:
        if event.kind in ticks and event.partition >= 0:
            ticks[event.kind] += event.ticks
    return ticks[SpanKind.DISPATCH] / ticks[SpanKind.DELEGATE]


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


def main() -> int:
    """Prints both tables; 1 when a kernel is not mapped or not confirmed, or time is not attributed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results there")
    names = [*NETWORKS, *(example.name for example in api.REFERENCES)]
    parser.add_argument("networks", nargs="*", default=names, help="of the first table; all by default")
    options = parser.parse_args()
    titles = f"{'mapped':>8}{'confirmed':>11}{'directly':>10}{'time explained':>16}{'driver':>9}"
    print(f"{'network':<24}{'kernels':>8}{titles}")
    with tempfile.TemporaryDirectory() as folder:
        ours: dict[str, dict[str, float]] = {}
        for name in options.networks:
            ours[name] = r = network(name, Path(folder))
            print(
                f"{name:<24}{r['kernels']:>8}{r['mapped']:>8}{r['confirmed']:>11}{r['directly']:>10}"
                f"{r['attributed']:>16.3%}{r['between']:>9.3%}",
                flush=True,
            )
    tests = executorch_tests()
    print(f"{'test of ExecuTorch':<24}{'its kernels':>12}{'mapped':>8}{'our kernels':>13}{'mapped':>8}")
    for name, r in tests.items():
        print(f"{name:<24}{r['vendor']:>12}{r['vendor_mapped']:>8}{r['kernels']:>13}{r['mapped']:>8}")
    every = {**ours, **tests}.items()
    problems = [f"{name}: a kernel is not mapped" for name, row in every if row["mapped"] != row["kernels"]]
    problems += [f"{name}: a kernel is not confirmed" for name, r in ours.items() if r["confirmed"] != r["kernels"]]
    problems += [f"{name}: no event explains some time" for name, row in ours.items() if row["attributed"] < ATTRIBUTED]
    return finish({"networks": ours, "executorch_tests": tests}, problems, options.json)


if __name__ == "__main__":
    sys.exit(main())
