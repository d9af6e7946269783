"""The installed suite: where it is, the processes that collect and run it, what they need to find."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from deuteron.errors import DeuteronError, InternalError
from deuteron.runtime import fvp

from .backends import HERE, Backend

SITE = HERE / "site"
REQUIREMENTS = HERE / "requirements.txt"
START_SECONDS = 600
"""A process that takes longer until its first test hangs."""


@dataclass(frozen=True, slots=True)
class Job:
    """One test to run; `lift_xfail` runs it without its expected-failure mark."""

    test: str
    lift_xfail: bool


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one test.

    Attributes:
        test: pytest's id, relative to the suite's directory.
        outcome: passed, failed, skipped, xfailed, crashed or timeout.
        seconds: of set-up, call and tear-down.
        error: first line of what went wrong.
        converter: what made Deuteron's converter give up during the test, if it did.
        unittest: whether the suite keeps the test for `python -m unittest`.
        programs: how many programs a simulator's stand-in ran for it.
    """

    test: str
    outcome: str
    seconds: float = 0.0
    error: str = ""
    converter: str = ""
    unittest: bool = False
    programs: int = 0


@dataclass(frozen=True, slots=True)
class Suite:
    """ExecuTorch's tests of a backend and what their processes need.

    Attributes:
        backend: whose tests.
        root: directory for everything that is made: packages, which all backends share, and `work`.
        runner: executable that takes nxp_executor_runner's command line.
        directory: the tests' directory; ids are relative to it.
        tosa: whether what is compiled for an Ethos-U is kept, in `compiled`.
        uses_pytorch: whether the tests do, whose processes then import it with our shortcuts.
        stop: set it to end all runs.
    """

    backend: Backend
    root: Path
    runner: Path
    directory: Path
    tosa: bool = False
    uses_pytorch: bool = True
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def packages(self) -> Path:
        """Where the pinned packages of `requirements.txt` go."""
        return self.root / "packages"

    @property
    def work(self) -> Path:
        """Where working directories and results go."""
        return self.root / self.backend.name

    @property
    def compiled(self) -> Path:
        """Where what is compiled for an Ethos-U is kept."""
        return self.work / "compiled"

    @property
    def images(self) -> Path:
        """Where what stands for the images of simulators goes: each backend's apart, as suites may run side by side."""
        return self.work / "images"

    def install_images(self) -> None:
        """Write what stands for the images of simulators."""
        fvp.install(self.images, force=True)

    def install_packages(self) -> None:
        """Installs what the tests import, unless the same list is there already."""
        wanted = REQUIREMENTS.read_text(encoding="utf-8")
        stamp = self.packages / "requirements.txt"
        if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
            return
        # Two of -q: pip warns of every index that does not carry a package.
        command = [sys.executable, "-m", "pip", "install", "-qq", "--progress-bar", "off", "--no-deps", "--upgrade"]
        subprocess.run([*command, "--target", str(self.packages), "-r", str(REQUIREMENTS)], check=True)
        stamp.write_text(wanted, encoding="utf-8")

    def collect(self) -> tuple[str, ...]:
        """Ids of all tests in the suite's order; read back when this ExecuTorch was collected before."""
        cache = self.work / f"tests-{version('executorch')}.jsonl"
        if not cache.is_file():
            directory = self._fresh_directory("collect")
            found = directory / "tests.jsonl"
            log = directory / "log.txt"
            environment = self._environment() | {
                "DEUTERON_CONFORMANCE_COLLECT": str(found),
                "DEUTERON_CONFORMANCE_MARKED": self.backend.marked,
            }
            with log.open("wb") as output:
                command = self._command("--collect-only", "-qq", str(self.directory))
                subprocess.run(
                    command, cwd=directory, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False
                )
            if not found.is_file():
                tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])
                message = f"ExecuTorch's {self.backend.title} tests cannot be collected:\n{tail}"
                raise DeuteronError(message, where=str(log))
            found.replace(cache)
        return tuple(json.loads(line) for line in cache.read_text(encoding="utf-8").splitlines())

    def run(self, name: str, jobs: Sequence[Job]) -> Iterator[Result]:
        """Yields results in the order in which the tests end; every job gets exactly one.

        Runs in one process with a separate working directory, and continues in another process if that one dies.
        """
        left = list(jobs)
        while left:
            directory = self._fresh_directory(name)
            done: set[str] = set()
            for result in self._run_once(directory, left):
                done.add(result.test)
                yield result
            remaining = [job for job in left if job.test not in done]
            if len(remaining) == len(left):
                message = f"no test of `{name}` gave a result; the first is `{left[0].test}`"
                raise InternalError(message, where=str(directory / "log.txt"))
            left = remaining

    def _run_once(self, directory: Path, jobs: Sequence[Job]) -> Iterator[Result]:
        rows = "".join(json.dumps({"id": job.test, "lift_xfail": job.lift_xfail}) + "\n" for job in jobs)
        (directory / "select.jsonl").write_text(rows, encoding="utf-8")
        files = list(dict.fromkeys(str(self.directory / job.test.split("::")[0]) for job in jobs))
        environment = self._environment() | {"DEUTERON_CONFORMANCE_RUN": str(directory)}
        if self.tosa:
            self.compiled.mkdir(exist_ok=True)
            environment["DEUTERON_CONFORMANCE_TOSA"] = str(self.compiled)
        results = _Tail(directory / "results.jsonl")
        with (directory / "log.txt").open("wb") as log:
            # A separate session, so that a hanging test takes the processes it started with it.
            process = subprocess.Popen(
                self._command(*files), cwd=directory, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        try:
            outcome = yield from self._follow(process, results, directory / "current")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        yield from results.read()
        current = directory / "current"
        if current.is_file() and (test := current.read_text(encoding="utf-8")):
            yield Result(test, outcome, error=f"the process ended with {process.returncode}")

    def _follow(
        self, process: subprocess.Popen[bytes], results: "_Tail", current: Path
    ) -> Generator[Result, None, str]:
        """Yields results while the process runs; returns the outcome of a test that it does not finish."""
        last = time.monotonic()
        limit = max(START_SECONDS, self.backend.test_seconds)
        while process.poll() is None:
            time.sleep(0.2)
            if limit != self.backend.test_seconds and current.is_file():
                limit, last = self.backend.test_seconds, time.monotonic()
            for result in results.read():
                last = time.monotonic()
                yield result
            if self.stop.is_set():
                raise KeyboardInterrupt
            if time.monotonic() - last > limit:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return "timeout"
        return "crashed"

    def _command(self, *arguments: str) -> list[str]:
        options = ["-p", "deuteron_conformance", "-p", "no:cacheprovider", "-c", os.devnull]
        if self.uses_pytorch:
            options += ["-p", "deuteron_shortcuts"]
        options.append("--continue-on-collection-errors")
        return [sys.executable, "-m", "pytest", *options, "--rootdir", str(self.directory), *arguments]

    def _environment(self) -> dict[str, str]:
        """The environment of a process that runs tests; one thread each, so that sums come out the same every time."""
        return os.environ | {
            "PYTHONPATH": os.pathsep.join((str(SITE), str(self.packages))),
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.backend.environment_with(self.runner, self.images),
        }

    def _fresh_directory(self, name: str) -> Path:
        directory = self.work / "runs" / name
        attempt = 0
        while directory.exists():
            attempt += 1
            directory = self.work / "runs" / f"{name}.{attempt}"
        directory.mkdir(parents=True)
        return directory


class _Tail:
    """Reads the complete lines that a growing file has gained since the last time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def read(self) -> Iterator[Result]:
        if not self._path.is_file():
            return
        with self._path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._position += len(line)
                yield Result(**json.loads(line))
