"""A sweep on workers, of this computer and of a scheduler of others: the dataset is that of one process."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from tests.sweeps.conftest import POINTS, files

from deuteron import api
from deuteron.errors import InputError, OptionError
from deuteron.sweeps import lowering, pool, worker

DASK = [sys.executable, "-m", "dask"]


@contextmanager
def process(*arguments: str, **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of Dask's for the length of a context."""
    started = subprocess.Popen([*DASK, *arguments], stderr=subprocess.DEVNULL, **options)
    try:
        yield started
    finally:
        started.terminate()
        started.wait()


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler on the loopback interface, which has no worker."""
    told = tmp_path_factory.mktemp("scheduler") / "told.json"
    with process("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(told)):
        while not (told.exists() and told.read_text().rstrip().endswith("}")):
            time.sleep(0.05)
        yield json.loads(told.read_text())["address"]


@contextmanager
def worker_process(scheduler: str, folder: Path, **options: Any) -> Iterator[None]:
    """A worker, which restarts after a task has killed it."""
    place = ["--local-directory", str(folder)]
    with process("worker", scheduler, "--nthreads", "1", "--no-dashboard", *place, cwd=folder, **options):
        yield


def refused(folder: Path, directory: Path, scheduler: str) -> str:
    """The error of a sweep on a scheduler."""
    with pytest.raises(OptionError) as error:
        api.sweep(folder / "sweep.toml", directory, scheduler=scheduler)
    return str(error.value)


def test_schedulers_that_cannot_be_used(
    folder: Path, scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "TIMEOUT", 1)
    assert refused(folder, tmp_path / "sweep", "tcp://127.0.0.1:1") == (
        "no Dask scheduler answers at `tcp://127.0.0.1:1`\n\n"
        "hint: start one with `dask scheduler`, or leave out `--scheduler` to use this computer"
    )
    assert refused(folder, tmp_path / "sweep", scheduler) == (
        f"the scheduler at `{scheduler}` has no workers\n\nhint: start some with `dask worker {scheduler}`"
    )


@pytest.mark.full
def test_a_scheduler_of_others_and_workers_that_are_killed_in_each_stage(
    folder: Path, whole: Path, scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First it is another Deuteron's. Then the first task of each stage ends its worker, as lack of memory does."""
    directory = tmp_path / "sweep"
    with worker_process(scheduler, tmp_path):
        monkeypatch.setattr(pool, "TIMEOUT", 30)
        with monkeypatch.context() as patch:
            patch.setattr(pool, "fingerprint", lambda: "9.9.9")
            told = refused(folder, directory, scheduler)
            assert told.startswith("worker `tcp://127.0.0.1:")
            assert told.endswith(
                f"` has Deuteron {lowering.fingerprint()}, this is 9.9.9\n\n"
                "hint: install the same versions of Deuteron and its dependencies on all workers"
            )
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        try:
            for module, stage in ((lowering, "make"), (worker, "evaluate")):
                monkeypatch.setattr(module, stage, killing(tmp_path / stage, getattr(module, stage)))
            assert api.sweep(folder / "sweep.toml", directory, scheduler=scheduler).points == POINTS
        finally:
            cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert (tmp_path / "make").exists()
    assert (tmp_path / "evaluate").exists()
    assert files(directory) == files(whole)


def killing(marker: Path, function: Callable[..., object]) -> Callable[..., object]:
    """The function, whose first call ends its process."""

    def killed(*arguments: object) -> object:
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)

    return killed


def test_ctrl_c(folder: Path, tmp_path: Path) -> None:
    """A terminal interrupts all processes of a command; nothing but that is said. It cannot end first."""
    budgets = ", ".join(str(4096 + 16 * index) for index in range(5000))
    (tmp_path / "long.toml").write_text(
        f"models = ['{folder / 'large.tflite'}']\ntargets = ['imxrt700']\nsram_budget = [{budgets}]\n"
    )
    directory = tmp_path / "sweep"
    # Who runs tests in the background has Ctrl-C ignored, and so has each program that they start.
    code = (
        "import signal\nfrom deuteron.cli import main\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"main(['sweep', 'long.toml', '-o', {str(directory)!r}, '--workers', '2'])"
    )
    first = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while first.poll() is None and not [*directory.glob("points/[!.]*")]:
        time.sleep(0.05)
    assert first.returncode is None
    os.killpg(first.pid, signal.SIGINT)
    _, told = first.communicate(timeout=60)
    assert (first.returncode, told) == (130, "\ninterrupted\n")


SCRIPT = """
import logging, threading
from deuteron import api
thread = threading.Thread(target=lambda: api.sweep("sweep.toml", {directory!r}, workers=2))
thread.start()
thread.join()
print(logging.getLogger("distributed").level == logging.CRITICAL)
"""


@pytest.mark.full
def test_a_script_without_a_main_guard_in_a_thread(folder: Path, whole: Path, tmp_path: Path) -> None:
    """Workers of this computer do not run it; and Dask's log is afterwards as it was."""
    script, directory = tmp_path / "script.py", tmp_path / "sweep"
    script.write_text(SCRIPT.format(directory=str(directory)))
    done = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
    assert files(directory) == files(whole)


@pytest.fixture
def client() -> Iterator[Any]:
    """A Dask client, whose scheduler and worker are threads of this process."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.full
def test_two_sweeps_on_one_scheduler(client: Any) -> None:
    """Each has its own results, and goes on when the other ends; what others need is computed once."""
    with type(client)(client.scheduler.address) as other:
        results = [pool.Cluster(used).results(doubled(name)) for used, name in ((client, "a"), (other, "b"))]
        first = [next(tasks)[1] for tasks in results]
        results[0].close()  # pyright: ignore[reportAttributeAccessIssue]
        assert {*first[1:], *(result for _, result in results[1])} == {f"b-b{index}" for index in range(20)}
        assert str(first[0]).startswith("a-a")


def doubled(name: str) -> list[pool.Task]:
    """Tasks that have the keys of all others of their kind."""
    needed = pool.Task("needed", str, (name,))
    return [pool.Task(f"key{index}", joined, (f"{name}{index}",), f"part {index}", needed) for index in range(20)]


def joined(*texts: str) -> str:
    """The texts in one."""
    time.sleep(0.01)
    return "-".join(texts)


def test_a_scheduler_that_goes_away(client: Any) -> None:
    address = client.scheduler.address
    results = pool.Cluster(client).results(doubled("a"))
    next(results)
    client.cluster.close()
    with pytest.raises(InputError) as error:
        list(results)
    assert str(error.value) == (
        f"the scheduler at `{address}` does not answer any more\n\nhint: give the command again to go on"
    )


def test_more_than_one_worker_needs_dask(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deuteron import extras
    from deuteron.errors import MissingToolError

    monkeypatch.setattr(extras, "is_installed", lambda package: package != "distributed")
    with pytest.raises(MissingToolError) as error:
        api.sweep(folder / "sweep.toml", tmp_path / "sweep", workers=2)
    assert str(error.value) == (
        "more than one worker needs the Python package `distributed`, which is not installed\n\n"
        "hint: install Deuteron with its extra: `pip install 'deuteron[cluster]'`"
    )
    with pytest.raises(OptionError, match=r"^`--workers` is 0, it must be above 0$"):
        api.sweep(folder / "sweep.toml", tmp_path / "sweep", workers=0)
