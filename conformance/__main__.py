"""Command line: `python -m conformance --help`."""

import argparse
import json
import queue
import shutil
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from deuteron.errors import DeuteronError, OptionError
from deuteron.sweeps import campaign

from . import deviations, report, tosa
from .backends import BACKENDS, HERE, NXP, Backend
from .part import part_of
from .suite import Job, Result, Suite

# Few enough for the memory of a process, so many that starting Python and torch and importing the tests does not count.
TESTS_PER_PROCESS = 200

# As many are lost with a worker, and go to one of several.
TESTS_PER_WORKER = 40


def main() -> int:
    """0 when nothing selected failed, 1 when something did or went wrong."""
    options = _parse()
    console = Console(stderr=True)
    try:
        return _run(options, console)
    except DeuteronError as error:
        console.out(f"error: {error}", highlight=False)
        return error.exit_code
    except KeyboardInterrupt:
        console.out("interrupted; `--resume` goes on from here", highlight=False)
        return 130


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m conformance", description="Runs ExecuTorch's own tests of a backend against Deuteron."
    )
    parser.add_argument(
        "--backend", choices=BACKENDS, default=NXP.name, help=f"whose tests are run (default: {NXP.name})"
    )
    parser.add_argument("--shard", metavar="I/N", default="1/1", help="run the I-th of N parts (from 1)")
    parser.add_argument("--resume", action="store_true", help="keep earlier results, run only what has none")
    parser.add_argument("--failed", action="store_true", help="keep earlier results, run again what failed")
    parser.add_argument("--slice", action="store_true", help="run only the tests of the backend's slice.txt")
    parser.add_argument(
        "-k", metavar="TEXT", action="append", default=[], help="run only tests whose id contains TEXT (may repeat)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes that run tests at the same time (default: 2)")
    campaign.add_option(parser)
    parser.add_argument("--list", action="store_true", help="print the ids of the selected tests and stop")
    parser.add_argument("--report", action="store_true", help="run nothing, print the tables of the earlier results")
    parser.add_argument(
        "--tosa",
        action="store_true",
        help="keep what the Ethos-U tests compile, and compare it bit for bit with TOSA's reference model at the end",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables to this file")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write where each test stands to this file")
    parser.add_argument("--work", type=Path, default=Path("build/conformance"), help="directory for all that is made")
    parser.add_argument(
        "--runner",
        type=Path,
        default=HERE.parent / "src/deuteron/runtime/lib/deuteron-runner",
        help="executable with nxp_executor_runner's command line (default: the one of `make native`)",
    )
    return parser.parse_args()


def _run(options: argparse.Namespace, console: Console) -> int:
    # A polite end must reach the processes that run tests, which are in sessions of their own.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not options.runner.is_file():
        raise OptionError(f"no runner `{options.runner}`", hint="run `make native`")
    backend = BACKENDS[options.backend]
    if options.tosa and not backend.tosa:
        names = " or ".join(f"`--backend {one.name}`" for one in BACKENDS.values() if one.tosa)
        raise OptionError(
            f"`--tosa` is for Ethos-U programs, and the tests of `{backend.name}` compile none", hint=f"add {names}"
        )
    suite = Suite(backend, options.work.resolve(), options.runner.resolve(), backend.directory, tosa=options.tosa)
    suite.work.mkdir(parents=True, exist_ok=True)
    suite.install_packages()
    suite.install_images()
    reviewed = backend.folder / "deviations.toml"
    known = deviations.load(reviewed)
    # To collect all tests takes longer than to run the slice, in which none deviates.
    everything = _slice(backend) if options.slice else suite.collect()
    deviating = {} if options.slice else deviations.assign(everything, known, reviewed)
    tests = _select(everything, options)
    if options.list:
        sys.stdout.writelines(f"{test}\n" for test in tests)
        return 0
    kept = _results(suite, options)
    results = _earlier(kept, options, deviating)
    todo = [test for test in tests if test not in results and (test not in deviating or deviating[test].runs)]
    if not options.report:
        tosa.forget(suite.compiled, {*todo})
        where = f"by the workers of {options.scheduler}" if options.scheduler else f"{options.jobs} at a time"
        console.print(f"{len(todo)} of {len(tests)} selected tests to run, {where}")
        jobs = [Job(test, test in deviating and deviating[test].lifts) for test in todo]
        if options.scheduler:
            run_elsewhere(suite, jobs, options.scheduler, Results(results, kept, console))
        else:
            _run_all(suite, jobs, options.jobs, Results(results, kept, console))
    found = report.account(tests, results, deviating)
    report.show(Console(width=200), backend, tests, results, found)
    good = not found.failed and not found.missing
    lines: tuple[str, ...] = ()
    if options.tosa:
        ran = {*tests} & {*results}
        compared = tosa.compare(suite.compiled, suite.packages, ran, lambda name: console.out(f"equal    {name}"))
        lines = tuple(compared.lines())
        sys.stdout.writelines(f"{line}\n" for line in lines)
        good = good and compared.passed
    if options.markdown:
        options.markdown.write_text(report.markdown(backend, tests, results, found, known, lines), encoding="utf-8")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(report.to_json(backend, results, found), encoding="utf-8")
    return 0 if good else 1


def _results(suite: Suite, options: argparse.Namespace) -> Path:
    """Where results are kept: those of the slice apart, so that a run of it forgets nothing of the whole suite's."""
    return suite.work / ("slice.jsonl" if options.slice else "results.jsonl")


def _slice(backend: Backend) -> tuple[str, ...]:
    """The tests of the slice; running one that is not there is an error."""
    lines = (backend.folder / "slice.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


def _select(everything: Sequence[str], options: argparse.Namespace) -> tuple[str, ...]:
    tests = list(everything)
    if options.k:
        tests = [test for test in tests if any(text in test for text in options.k)]
    try:
        index, count = (int(part) for part in options.shard.split("/"))
    except ValueError:
        index, count = 0, 0
    if not 1 <= index <= count:
        raise OptionError(f"--shard is I/N with I from 1 to N, not `{options.shard}`")
    return tuple(tests[index - 1 :: count])


def _earlier(
    path: Path, options: argparse.Namespace, deviating: Mapping[str, deviations.Deviation]
) -> dict[str, Result]:
    """Results to keep, which are also what stays in the file."""
    results: dict[str, Result] = {}
    if path.is_file() and (options.resume or options.failed or options.report):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            results[row["test"]] = Result(**row)
    if options.failed:
        results = {
            test: result
            for test, result in results.items()
            if result.outcome in (deviating[test].good if test in deviating else report.GOOD)
        }
    if not options.report:
        # Logs and outputs of runs whose results are forgotten are useless.
        if not results:
            shutil.rmtree(path.parent / "runs", ignore_errors=True)
        path.write_text("".join(_line(result) for result in results.values()), encoding="utf-8")
    return results


def _line(result: Result) -> str:
    return json.dumps(asdict(result)) + "\n"


@dataclass(frozen=True, slots=True)
class Results:
    """Where results go: into `results`, to the end of the file `kept`, and on the console."""

    results: dict[str, Result]
    kept: Path
    console: Console

    def add(self, result: Result) -> None:
        """Take a result in."""
        with self.kept.open("a", encoding="utf-8") as file:
            file.write(_line(result))
        self.results[result.test] = result
        mark = "" if result.outcome in report.GOOD else f"  {report.cause(result)}"
        self.console.out(f"{result.outcome:8} {result.seconds:6.1f} s  {result.test}{mark}", highlight=False)


def run_elsewhere(suite: Suite, jobs: Sequence[Job], scheduler: str, results: Results) -> None:
    """Runs the jobs by the workers of a scheduler, who share the suite's directories."""
    starts = range(0, len(jobs), TESTS_PER_WORKER)
    parts = [part_of(suite, f"{start:04}", jobs[start : start + TESTS_PER_WORKER]) for start in starts]
    for part, ended in campaign.campaign(parts, scheduler, shared=[suite.work]):
        for line in ended.checked(part).report.splitlines():
            results.add(Result(**json.loads(line)))


def _run_all(suite: Suite, jobs: Sequence[Job], count: int, results: Results) -> None:
    """Runs the jobs in `count` threads, each of which feeds one process after the other."""
    work: queue.SimpleQueue[tuple[str, Sequence[Job]]] = queue.SimpleQueue()
    size = min(TESTS_PER_PROCESS, max(1, -(-len(jobs) // count)))
    for start in range(0, len(jobs), size):
        work.put((f"{start:04}", jobs[start : start + size]))
    lock = threading.Lock()
    errors: list[BaseException] = []

    def loop() -> None:
        while not errors:
            try:
                name, part = work.get_nowait()
            except queue.Empty:
                return
            try:
                for result in suite.run(name, part):
                    with lock:
                        results.add(result)
            except (DeuteronError, KeyboardInterrupt) as error:
                errors.append(error)

    threads = [threading.Thread(target=loop) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        suite.stop.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


if __name__ == "__main__":
    sys.exit(main())
