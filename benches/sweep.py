"""A sweep of thousands of points: lowered from clean, killed and resumed, on one process and on more workers.

Ten models, six targets, eight SRAM budgets, four flashes and three clocks: 5,760 points. First every model is lowered
for every target. Then the sweep runs on this computer's workers, is killed twice at random and resumes. It must leave
the dataset of an undisturbed run, byte for byte, and so must one process, where each shard is timed.

Times are of the processor, of all workers together. Times of more workers are simulated from those of the tasks: each
goes to a free worker, in order. The simulation leaves out the scheduler, the start of workers, and their reading of
builds.

make bench-sweep ARGS="--models digits ds_cnn"
"""

import argparse
import heapq
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness import Results, folder, main, option, table

from deuteron.sweeps import dataset, lowering, run, spec

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "models"
MODELS = (
    "digits",
    "refused_middle",
    "attention",
    "encoder_decoder",
    "ds_cnn",
    "deep_autoencoder",
    "resnet8",
    "mobilenet_v3_blocks",
    "mobilenet_v1_025",
    f"{EXAMPLES / 'mlperf_tiny.py'}:ds_cnn(channels=96)",
)
TARGETS = ("imxrt700", "imxrt700cm", "mcxn947", "cortex-m33", "cortex-m55", "ethos-u55-128")
AXES = {
    "sram_budget": ["48Ki", "64Ki", "96Ki", "128Ki", "192Ki", "256Ki", "384Ki", "512Ki"],
    "flash_bandwidth": ["50MB/s", "100MB/s", "200MB/s", "400MB/s"],
    "clock": ["100M", "150M", "324M"],
}
WORKERS = (1, 2, 4, 16, 64, 256)
KILLS = 2


def shards_of(directory: Path) -> dict[str, bytes]:
    """The files of a dataset, by name."""
    return {name: (directory / dataset.POINTS / name).read_bytes() for name in sorted(dataset.written(directory))}


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


def lowered(wanted: spec.Spec, directory: Path, minutes: float) -> list[float]:
    """The seconds that each build of a sweep took, made now unless it was; exit where time is up before the last."""
    record = directory / "lowered.json"
    seconds: dict[str, float] = json.loads(record.read_text()) if record.exists() else {}
    (directory / lowering.BUILDS).mkdir(parents=True, exist_ok=True)
    limit = time.monotonic() + 60 * minutes
    jobs = {shard.job.key: shard.job for shard in run.shards(wanted, directory, wanted.points())}
    for number, (key, job) in enumerate(jobs.items()):
        if key not in seconds:
            if time.monotonic() > limit:
                sys.exit(f"{number} of {len(jobs)} builds are made: give the command again to go on")
            begun = processor()
            made = lowering.make(job)
            if made.failed:
                sys.exit(f"{job.model} on {job.target}: {made.failed}")
            seconds[key] = processor() - begun
            record.write_text(json.dumps(seconds))
            refusal = f", refused: {made.why}" if made.why else ""
            print(f"  {job.model} on {job.target}: {seconds[key]:.1f} s{refusal}", flush=True)
    return [seconds[key] for key in jobs]


def killed(file: Path, directory: Path, workers: int, least: int) -> int:
    """Start a sweep, kill it once there are so many shards, and return how many there are then."""
    command = [sys.executable, "-P", "-m", "deuteron", "sweep", str(file), "-o", str(directory)]
    process = subprocess.Popen([*command, "--workers", str(workers)], stdout=subprocess.DEVNULL)
    while process.poll() is None and len(dataset.written(directory)) < least:
        time.sleep(0.01)
    if process.poll() is not None:
        sys.exit(f"a sweep that was to be killed ended with {process.returncode}")
    process.send_signal(signal.SIGKILL)
    process.wait()
    return len(dataset.written(directory))


def results(options: argparse.Namespace) -> Results:
    """The times of the sweep."""
    with folder(options.directory) as directory:
        found = measured(options, directory.absolute())
    columns = {"workers": lambda item: item[0], "from clean": lambda item: f"{item[1][0]:.1f}"}
    columns["when lowered"] = lambda item: f"{item[1][1]:.1f}"
    return Results("measured and simulated", [], [table(found["simulated"].items(), columns)], data=found)


def measured(options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Run the bench and print its progress."""
    axes = {"models": [*options.models], "targets": [*options.targets], **AXES}
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "sweep.toml"
    models = [str(path.resolve()) if (path := Path(model)).is_file() else model for model in options.models]
    file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in {**axes, "models": models}.items()))
    wanted = spec.read(file)
    whole, disturbed, alone = (directory / name for name in ("whole", "disturbed", "alone"))
    builds = lowered(wanted, whole, options.minutes)
    for other in (whole, disturbed, alone):
        shutil.rmtree(other / dataset.POINTS, ignore_errors=True)
        (other / dataset.NAME).unlink(missing_ok=True)
        if other != whole:
            other.mkdir(exist_ok=True)
            (other / lowering.BUILDS).unlink(missing_ok=True)
            (other / lowering.BUILDS).symlink_to(whole / lowering.BUILDS)
    print(f"{len(builds)} builds: {sum(builds):.1f} s, the longest {max(builds):.1f} s (measured)")
    used, wall = processor(), time.perf_counter()
    points = run.sweep(wanted, whole, workers=options.workers).points
    used, wall = processor() - used, time.perf_counter() - wall
    print(f"{points:,} points, lowered, on {options.workers} workers: {used:.1f} s in all with their start (measured)")
    print(f"  {wall:.1f} s of the clock, at a load of {os.getloadavg()[0]:.1f}")
    shards, chance = shards_of(whole), random.Random(options.seed)  # noqa: S311 - reproducible, not a secret
    moments = sorted(chance.sample(range(1, len(shards)), KILLS))
    kills = [killed(file, disturbed, options.workers, least) for least in moments]
    run.sweep(wanted, disturbed, workers=options.workers)
    marks, clock = [time.process_time()], time.perf_counter()
    run.sweep(wanted, alone, workers=1, progress=lambda _: marks.append(time.process_time()))
    clock = time.perf_counter() - clock
    for what, other in ((f"killed with {kills} shards written, and resumed", disturbed), ("one process", alone)):
        if shards_of(other) != shards:
            sys.exit(f"{what}: another dataset than that of the undisturbed run")
        print(f"{what}: the same {len(shards)} files, byte for byte")
    times = [after - before for before, after in pairwise(marks[1:])]
    print(
        f"one process: {sum(times):.1f} s (measured; {clock:.1f} s of the clock); the longest shard {max(times):.2f} s"
    )
    print(f"{options.workers} workers together take {used / sum(times):.2f} times that")
    growth = {n: (simulated([*builds, *times], n), simulated(times, n)) for n in WORKERS}
    return {
        "points": points,
        "shards": len(shards),
        "lowering": builds,
        "workers": options.workers,
        "workers, processor": used,
        "workers, clock": wall,
        "alone": times,
        "kills": kills,
        "simulated": growth,
    }


OPTIONS = (
    option("--models", nargs="+", default=MODELS, help="names, TFLite files, or functions of files"),
    option("--targets", nargs="+", default=TARGETS, help="names of targets"),
    option("--workers", type=int, default=max(2, len(os.sched_getaffinity(0))), help="at least 2"),
    option("--seed", type=int, default=22, help="when to kill"),
    option("--directory", type=Path, help="where builds and datasets are kept"),
    option("--minutes", type=float, default=float("inf"), help="how long to begin to lower models"),
)

if __name__ == "__main__":
    sys.exit(main(results, *OPTIONS))
