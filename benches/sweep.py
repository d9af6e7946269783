"""How long a sweep takes when its models are lowered, on one worker and on more.

Models x two targets x eight SRAM budgets x four flashes x three clocks. The models are lowered first, which is not
timed; then the same points are evaluated by one process, where each shard is timed, and by the workers of this
computer, whose dataset must be the same. Times are those of the processor, of all workers together, so that other work
on the computer does not count; the clock on the wall is given beside. For more workers than there are cores the length
is simulated: shards of the measured times go to whoever is free, in order. Left out are what a scheduler takes, the
start of workers, and that each of them reads and decodes builds for itself; what the workers of this computer take in
all beside one process says how much that is.

make bench-sweep ARGS="--models digits ds_cnn"
"""

import argparse
import heapq
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from deuteron.sweeps import dataset, lowering, run, spec

MODELS = ("digits", "ds_cnn", "resnet8", "mobilenet_v1_025", "deep_autoencoder")
AXES: dict[str, list[str]] = {
    "targets": ["imxrt700", "mcxn947"],
    "sram_budget": ["48Ki", "64Ki", "96Ki", "128Ki", "192Ki", "256Ki", "384Ki", "512Ki"],
    "flash_bandwidth": ["50MB/s", "100MB/s", "200MB/s", "400MB/s"],
    "clock": ["100M", "150M", "325M"],
}
WORKERS = (2, 4, 16, 64, 256)


def shards_of(directory: Path) -> dict[str, bytes]:
    """The files of a dataset."""
    return {name: (directory / dataset.POINTS / name).read_bytes() for name in dataset.written(directory)}


def simulated(times: Sequence[float], workers: int) -> float:
    """Seconds until all tasks of these lengths are done, each taken by the first worker that is free."""
    free = [0.0] * workers
    for seconds in times:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


def processor() -> float:
    """Seconds that this process and those that it has waited for have computed."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def main() -> None:
    """Print the times; exit 1 where two workers make another dataset than one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=MODELS, help="names, TFLite files, or functions of files")
    parser.add_argument("--targets", nargs="+", default=AXES["targets"], help="names of targets with a Neutron NPU")
    parser.add_argument("--json", type=Path, help="also write the results there")
    options = parser.parse_args()
    axes = {**AXES, "targets": options.targets}
    wanted = spec.parse({"models": [*options.models], **axes}, Path.cwd(), "the bench")
    points = len(wanted.points())
    with tempfile.TemporaryDirectory() as scratch:
        whole, again = Path(scratch) / "whole", Path(scratch) / "again"
        for model in options.models:
            lowered = spec.parse({"models": [model], "targets": options.targets}, Path.cwd(), "the bench")
            for point in lowered.points():
                (whole / lowering.BUILDS).mkdir(parents=True, exist_ok=True)
                lowering.make(lowering.job_of(point, whole, wanted.folder, None))
        shutil.copytree(whole, again)
        marks, wall = [time.process_time()], time.perf_counter()
        run.sweep(wanted, whole, workers=1, progress=lambda _: marks.append(time.process_time()))
        wall = time.perf_counter() - wall
        times = [after - before for before, after in pairwise(marks[1:])]
        cores = max(2, len(os.sched_getaffinity(0)))
        begun, used = time.perf_counter(), processor()
        run.sweep(wanted, again, workers=cores)
        there, used = time.perf_counter() - begun, processor() - used
        if shards_of(whole) != shards_of(again):
            sys.exit(f"{cores} workers made another dataset than one process")
    alone = sum(times)
    results = {"points": points, "shards": len(times), "alone": alone, "workers": cores, "there": used}
    print(f"{points:,} points in {len(times)} shards, lowered; the longest shard takes {max(times):.2f} s (measured)")
    rate = f"{points / alone:>8.1f} points per second, measured"
    print(f"  one process      {alone:>8.1f} s  {rate} ({wall:.1f} s of the clock)")
    print(f"  {cores} workers        {used:>8.1f} s  in all, measured with their start ({there:.1f} s of the clock)")
    results["workers by one process"] = used / alone
    print(f"  {cores} workers together take {used / alone:.2f} times the processor time of one process")
    for workers in WORKERS:
        seconds = simulated(times, workers)
        results[f"simulated {workers}"] = seconds
        print(f"  {workers:<3} workers      {seconds:>8.1f} s  {points / seconds:>8.1f} points per second, simulated")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
