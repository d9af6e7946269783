"""Whether profiles say which kernel computes what, and where all of the time went.

The first table has networks of this project: of their kernel calls how many the build maps to edge operators, and how
many of these an independent way confirms, which changes one operator after another and looks which kernel's output
changes; then the share of the NPU's time that events explain: the least of the host (measured), simulated, and counted
on an emulated board. The second has ExecuTorch's own profiling tests: how many kernels of the vendor's converter the
map has that these expect of ExecuTorch's reader of the converter's log, beside ours for models of the same structure.

    python benches/profile_map.py [MODEL...]
"""

import ast
import importlib.util
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from tests.profile.networks import NETWORKS
from tests.profile.perturb import confirmed
from tests.sdk.profiled import MODELS, handed_over

from deuteron import api
from deuteron.arch.memory import FetchPolicy, MemoryOptions
from deuteron.profile.gaps import attributed
from deuteron.profiling import build as builds
from deuteron.profiling import run

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
    sure, kernels = confirmed(directory)
    inputs = api.seeded_inputs(found.manifest, 1)
    shares = [attributed(run.profile(found, run.Wanted(on, inputs)).stream.events) for on in PLACES]
    return {"kernels": kernels, "mapped": mapped, "confirmed": sure, "attributed": min(shares)}


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


def main() -> int:
    """Prints both tables as JSON; 1 when a kernel is not mapped, or time is not attributed."""
    names = sys.argv[1:] or [*NETWORKS, *(example.name for example in api.REFERENCES)]
    with tempfile.TemporaryDirectory() as folder:
        ours = {name: network(name, Path(folder)) for name in names}
    theirs = expected_by_executorch()
    tests: dict[str, dict[str, float]] = {}
    for name, (module, shape) in MODELS.items():
        kernels = handed_over(module(), shape, transposes=False)
        tests[name] = {
            "vendor_kernels": theirs[name][0],
            "vendor_mapped": theirs[name][1],
            "kernels": len(kernels),
            "mapped": sum(bool(kernel.operators) for kernel in kernels),
        }
    print(json.dumps({"networks": ours, "executorch_tests": tests}, indent=2))
    problems = [
        f"{name}: not every kernel is mapped"
        for name, found in {**ours, **tests}.items()
        if found["mapped"] != found["kernels"]
    ]
    problems += [
        f"{name}: time that no event explains" for name, found in ours.items() if found["attributed"] < ATTRIBUTED
    ]
    print(*problems, sep="\n", file=sys.stderr)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
