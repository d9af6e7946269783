"""Compare what two checkouts compile, byte for byte: programs, containers, bundles and plans.

A change of structure or words must not change a program. Both checkouts compile the same work list, each in its own
process, with its own sources and native libraries:

* builds and bundles of the models of `deuteron models` for each of TARGETS, and the plans of their memories;
* 200 random graphs (`tests/graphs`), each converted with all memory, with the least, and with a quarter more than that,
  and as a bundle;
* the networks of `make bench-depth-first`, converted at its budgets.

Comments in C files, source lines, versions and times are no part of the comparison. A refused item is compared by the
type of its error and the bytes that the error asks for. Exit status: 1 when a file differs.

python tools/compare_programs.py OTHER_CHECKOUT [--quick]
python tools/compare_programs.py build/compare_programs/other    # results that an earlier run has written
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "compare_programs"
TARGETS = ("imxrt700", "imxrt700cm", "cortex-m55", "cortex-m33", "ethos-u55-128")
GRAPHS = 200
LARGE_BUDGETS_KIB = (1024, 512, 384, 320, 256, 192, 128, 96, 64)

QUICK_BUILDS = (("digits", "imxrt700"), ("digits", "cortex-m33"), ("attention", "imxrt700cm"))
QUICK_GRAPHS = 24
QUICK_NETWORK = "mobilenet_v1_025"

PROGRAMS = {".pte", ".tflite", ".tosa", ".microcode", ".weights", ".kernels"}
TEXT_KEYS = {"source", "why", "path", "title", "warnings", "origins", "payload_sha256"}
"""Keys of JSON files whose values are words or depend on them."""

COMMENTS = re.compile(rb"/\*.*?\*/|//[^\n]*", re.DOTALL)

Files = Mapping[str, bytes]


def make_inputs(folder: Path, *, quick: bool) -> None:
    """Write the TFLite files that both checkouts convert."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if "_editable" not in type(finder).__module__]
    sys.path[:0] = [str(ROOT), str(ROOT / "benches")]
    from depth_first import BUILDS, LARGE_IMAGES, partition_of
    from tests.graphs import random_graph

    from deuteron.npu.neutron.tflite.emit import emit

    for seed in range(QUICK_GRAPHS if quick else GRAPHS):
        (folder / f"random{seed}.tflite").write_bytes(emit(random_graph(seed, stock=True, wide=seed % 8 == 7)))
    for name in (QUICK_NETWORK,) if quick else LARGE_IMAGES:
        (folder / f"large_{name}.tflite").write_bytes(partition_of(name, BUILDS))


def compile_all(inputs: Path, results: Path, *, quick: bool) -> None:
    """Write the files of every item of the work list with the sources of the current directory.

    An editable installation would import those of another checkout.
    """
    sys.meta_path[:] = [finder for finder in sys.meta_path if "_editable" not in type(finder).__module__]
    import deuteron
    from deuteron import api

    if not Path(deuteron.__file__).is_relative_to(Path.cwd()):
        raise SystemExit(f"`{deuteron.__file__}` is imported instead of the sources in `{Path.cwd()}`")
    names = [example.name for example in (*api.EXAMPLES, *api.COMBINED)]
    builds = QUICK_BUILDS if quick else tuple((name, target) for target in TARGETS for name in names)
    for name, target in builds:
        write(results / f"build_{name}_{target}", lambda name=name, target=target: built(name, target, None))
    for name, target in (("digits", "cortex-m55"),) if quick else ((name, "cortex-m55") for name in names):
        write(results / f"least_{name}_{target}", lambda n=name, t=target: at_least(lambda b: built(n, t, b)))
    for file in sorted(inputs.glob("random*.tflite")):
        write(results / f"{file.stem}_whole", lambda file=file: converted(file, None))
        write(results / f"{file.stem}_least", lambda file=file: at_least(lambda b: converted(file, b)))
        write(results / f"{file.stem}_more", lambda file=file: at_least(lambda b: converted(file, b), 1.25))
        write(results / f"{file.stem}_bundle", lambda file=file: bundled(file, "imxrt700cm"))
    for file in sorted(inputs.glob("large*.tflite")):
        for kib in (256,) if quick else LARGE_BUDGETS_KIB:
            write(
                results / f"{file.stem}_{kib}", lambda f=file, k=kib: at_least(lambda b: converted(f, b), first=k << 10)
            )


def write(folder: Path, files: Callable[[], Files]) -> None:
    """Write the files of one item, or why it is refused."""
    from deuteron.errors import DeuteronError

    print(folder.name, file=sys.stderr, flush=True)
    try:
        found = files()
    except DeuteronError as error:
        found = {"refused": f"{type(error).__name__} {getattr(error, 'needed', 0)}".encode()}
    except Exception as error:  # noqa: BLE001 - a defect of one item is compared like its result
        found = {"failed": type(error).__name__.encode()}
        traceback.print_exc()
    folder.mkdir(parents=True)
    for name, data in found.items():
        (folder / name).write_bytes(data)


def at_least(make: Callable[[int], Files], factor: float = 1, first: int = 1) -> Files:
    """The files in `first` bytes of SRAM, or in what the error asks for, times `factor`."""
    from deuteron.errors import CapacityError

    try:
        return make(first)
    except CapacityError as error:
        hinted = re.search(r"--sram-budget (\d+)", error.hint or "")
        needed = error.needed or int(hinted[1] if hinted else 0)
        if not needed:
            raise
        return {**make(int(needed * factor)), "needed": str(needed).encode()}


def built(name: str, target: str, budget: int | None) -> Files:
    """The programs of a build, its plan, and its bundle."""
    from deuteron import api
    from deuteron.arch.memory import MemoryOptions

    options = api.BuildOptions(memory=MemoryOptions(sram_budget=budget), remove_quant_io_ops=budget is not None)
    with tempfile.TemporaryDirectory() as scratch:
        build = Path(scratch) / "build"
        api.build_model(name, target=target, output=build, options=options)
        manifest = json.loads((build / "build.json").read_text())
        files = {path.name: path.read_bytes() for path in build.iterdir() if path.suffix in PROGRAMS}
        files["partitions.json"] = as_json(manifest["partitions"])
        if manifest["partitions"]:
            files["plan.json"] = as_json(api.plan(build).to_json())
        return {**files, **bundled(build, None)}


def converted(file: Path, budget: int | None) -> Files:
    """The converted TFLite file and its blocks."""
    from deuteron import api
    from deuteron.arch.memory import MemoryOptions

    options = api.ConvertOptions(memory=MemoryOptions(sram_budget=budget))
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "converted.tflite"
        _, written = api.convert_file(file, output, target="imxrt700", options=options, intermediates=True)
        return {path.name: path.read_bytes() for path in written}


def bundled(source: Path, target: str | None) -> Files:
    """The bundle of a build or a TFLite file: its C files without comments, and its data."""
    from deuteron import api

    with tempfile.TemporaryDirectory() as scratch:
        written = api.bundle(source, Path(scratch) / "bundle", target=target)
        return {
            path.name: COMMENTS.sub(b"", path.read_bytes()) if path.suffix in (".c", ".h", ".S") else path.read_bytes()
            for path in written
            if path.suffix != ".json"
        }


def as_json(value: object) -> bytes:
    """The value as text, without words."""
    return json.dumps(without_words(value), indent=1, sort_keys=True).encode()


def without_words(value: Any) -> Any:
    """The value without what TEXT_KEYS names."""
    if isinstance(value, dict):
        return {key: without_words(each) for key, each in value.items() if key not in TEXT_KEYS}
    return [without_words(each) for each in value] if isinstance(value, list | tuple) else value


def run_in(checkout: Path, *arguments: str | Path) -> None:
    """Run this file with the sources of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    subprocess.run([sys.executable, __file__, *arguments], cwd=checkout, env=environment, check=True)


def differences(ours: Path, theirs: Path) -> Iterator[str]:
    """The files that are in one folder only, or differ."""
    both = [
        {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} for folder in (ours, theirs)
    ]
    yield from (f"only in {ours}: {name}" for name in sorted(both[0] - both[1]))
    yield from (f"only in {theirs}: {name}" for name in sorted(both[1] - both[0]))
    for name in sorted(both[0] & both[1]):
        if (ours / name).read_bytes() != (theirs / name).read_bytes():
            yield f"differs: {name}"


def empty(folder: Path) -> Path:
    """The folder, without what an earlier run has left there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def main() -> int:
    """0 when all files are the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, nargs="?", help="another checkout, with its native libraries; or results")
    parser.add_argument("--quick", action="store_true", help="a small part of the work list, in less than two minutes")
    parser.add_argument("--make-inputs", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--compile", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make_inputs:
        make_inputs(options.make_inputs, quick=options.quick)
        return 0
    if options.compile:
        compile_all(*options.compile, quick=options.quick)
        return 0
    if options.other is None:
        parser.error("name another checkout")
    other = options.other.resolve()
    is_checkout = (other / "src" / "deuteron").is_dir()
    quick = ["--quick"] if options.quick else []
    inputs, ours = empty(RESULTS / "inputs"), empty(RESULTS / "this")
    theirs = empty(RESULTS / "other") if is_checkout else other
    run_in(ROOT, "--make-inputs", inputs, *quick)
    run_in(ROOT, "--compile", inputs, ours, *quick)
    if is_checkout:
        run_in(other, "--compile", inputs, theirs, *quick)
    found = list(differences(ours, theirs))
    print("\n".join(found))
    items, files = sum(1 for _ in ours.iterdir()), sum(path.is_file() for path in ours.rglob("*"))
    print(f"{items} items, {files} files, {len(found)} differ; the files are in {ours} and {theirs}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
