"""A sweep in this process: its rows are what the simulator says, and it goes on where it was ended."""

import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import store
from tests.board.models import stripes_on_cpu
from tests.sweeps.conftest import POINTS, files

from deuteron import api
from deuteron.arch import silicon, targets
from deuteron.arch.memory import MemoryOptions
from deuteron.board import image
from deuteron.board.arena import planned
from deuteron.errors import DeuteronError, InputError
from deuteron.sweeps import code_size, dataset, lowering, worker
from deuteron.sweeps.spec import Point, lacking
from deuteron.views.simulate import CheckedBuild, open_build, simulate_build

PROGRAM = str(Path(sys.executable).with_name("deuteron"))


def test_the_rows_are_those_of_the_simulator(whole: Path) -> None:
    rows = dataset.rows(whole)
    assert [row["number"] for row in rows] == [*range(POINTS)]
    fitting = [row for row in rows if row["fits"]]
    assert {row["sram_budget"] for row in fitting if row["model"] == "large.tflite"} == {4096, 1 << 20}
    for row in fitting:
        numbers: dict[str, Any] = {name: row[name] for name in ("sram_budget", "flash_bandwidth", "clock")}
        command = str(row["command"]).split()
        assert command[3:] == [w for n, v in numbers.items() for w in (f"--{n.replace('_', '-')}", str(v))]
        simulation = simulate_build(whole / command[2], **numbers)
        assert (row["cycles"], row["bound"]) == (simulation.cycles, simulation.partitions[0].timeline.bound())
        assert row["npu_us"] == simulation.engine.microseconds(simulation.cycles)
        assert (row["kind"], row["npu_share"]) == ("simulated", 1.0)
        assert row["sram_bytes"] <= row["sram_budget"]  # pyright: ignore[reportOperatorIssue]
    assert any(row["fetched_bytes"] for row in fitting)


def test_what_cannot_be_says_why(whole: Path) -> None:
    reasons = {(row["model"], row["target"]): row["why"] for row in dataset.rows(whole) if not row["fits"]}
    assert reasons.pop(("small.tflite", "imxrt700"), "") == ""
    assert str(reasons["large.tflite", "imxrt700"]).splitlines()[0] == (
        "kernel call 0, `fully_connected_s8` of op 0: 1,808 bytes of SRAM are needed, 0 for intermediate results and "
        "1,616 for the smallest piece of the weights of this call besides 192 for inputs, outputs and CPU "
        "tensors; 600 are available; the largest values are:"
    )
    assert reasons["absent.tflite", "imxrt700"] == "`absent.tflite` does not exist"


def test_plans_that_are_shared_are_those_of_the_replanner(whole: Path) -> None:
    """Where all weights fit, budgets and flashes have one plan; the least SRAM in which they do is the same as ever."""
    row = next(row for row in dataset.rows(whole) if row["model"] == "large.tflite" and row["fits"])
    made = lowering.SweptBuild(whole / str(row["command"]).split()[2], "", "")
    build = open_build(made.directory)
    replanner, built = build.replanner(), build.manifest.options.memory
    roomy = worker._all_in_sram(made, built.effort, built.depth_first)
    assert roomy is not None
    for budget in (roomy.sram_bytes - 1, roomy.sram_bytes, roomy.sram_bytes + 100_000):
        memory = replace(built, sram_budget=budget, flash_bandwidth=20_000_000)
        shared, alone = worker._planned(made, memory), replanner(memory)
        assert isinstance(shared, CheckedBuild)
        assert (shared.totals(), shared.sram_bytes, shared.memory) == (alone.totals(), alone.sram_bytes, memory)
        assert [part.entry for part in shared.partitions] == [part.entry for part in alone.partitions]
        assert (worker._linked(made, memory) is None) == (budget < roomy.sram_bytes)
    refused = worker._planned(made, replace(built, sram_budget=16))
    assert isinstance(refused, str), "an error would keep what its traceback reaches"


def test_what_a_target_lacks_is_ignored_and_told(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chips can be compared in one file: what one of them lacks changes nothing there."""
    row = next(row for row in dataset.rows(whole) if row["model"] == "small.tflite" and row["fits"])
    build = whole / str(row["command"]).split()[2]
    spec = {"models": [str(build)], "targets": ["imxrt700"], "memory_mode": ["Sram_Only"], "clock": ["150M", "324M"]}
    api.sweep(spec, tmp_path / "sweep", workers=1)
    rows = dataset.rows(tmp_path / "sweep")
    assert [(row["fits"], row["memory_mode"], row["ignored"]) for row in rows] == [
        (True, "Sram_Only", "memory_mode")
    ] * 2
    assert [row["cycles"] for row in rows] == [
        simulate_build(build, clock=c).cycles for c in (150_000_000, 324_000_000)
    ]
    lines = [*api.sweep_table(tmp_path / "sweep").lines()]
    assert "imxrt700: without memory mode, which changes nothing there" in lines
    asked = Point(7, "m", "ethos-u55-128", sram_budget=1, flash_latency=2, clock=3, memory_mode="x")
    assert lacking(asked) == ("sram_budget", "flash_latency", "clock")
    assert lacking(replace(asked, target="cortex-m55")) == ("memory_mode", "flash_latency")
    assert lacking(replace(asked, target="mcxn947")) == ("memory_mode",)


@pytest.mark.slow
def test_a_cpu_has_budgets_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recomputed rows of stripes add to the time."""
    monkeypatch.setattr(worker, "_cpu_cycles", lambda _: 1000)
    build = store.network(stripes_on_cpu, "stripes_on_cpu", target="cortex-m55")
    budgets = [4096, 10_240, 13_824]
    api.sweep({"models": [str(build)], "targets": ["cortex-m55"], "sram_budget": budgets}, tmp_path / "s", workers=1)
    small, cut, whole = dataset.rows(tmp_path / "s")
    assert str(small["why"]).startswith("inputs, outputs and intermediate tensors need 8,640 bytes of SRAM")
    assert (cut["sram_bytes"], whole["sram_bytes"], cut["ignored"]) == (9_408, 13_824, "")
    bundle = image.translated(build, api.read_manifest(build))
    before, after = planned(bundle, MemoryOptions(sram_budget=budgets[1]), "cortex-m55").instructions
    assert before > after
    assert (cut["cycles"], whole["cycles"]) == (1000 + before - after, 1000)


def test_programs_and_builds_are_models_too(whole: Path, tmp_path: Path) -> None:
    """A program is for the target that it is asked for, as it does not tell; a build is for its own."""
    row = next(row for row in dataset.rows(whole) if row["model"] == "large.tflite" and row["fits"])
    build = whole / str(row["command"]).split()[2]
    (tmp_path / "program.pte").write_bytes((build / "model.pte").read_bytes())
    models = [str(tmp_path / "program.pte"), str(tmp_path / "absent.pte"), str(build)]
    spec = {"models": models, "targets": ["imxrt700", "mcxn947"], "clock": [150_000_000]}
    api.sweep(spec, tmp_path / "sweep", workers=1)
    cycles = simulate_build(build, clock=150_000_000).cycles
    told = [row["cycles"] if row["fits"] else row["why"] for row in dataset.rows(tmp_path / "sweep")]
    assert (told[0], told[4]) == (cycles, cycles)
    assert isinstance(told[1], int)
    assert told[2:4] == [f"`{tmp_path / 'absent.pte'}` does not exist"] * 2
    assert told[5] == f"`{build}` is built for `imxrt700`"


def test_pandas_and_others_read_the_folder_as_it_is(whole: Path) -> None:
    parquet = pytest.importorskip("pyarrow.dataset")
    table = parquet.dataset(whole / dataset.POINTS).to_table()
    assert table.num_rows == POINTS
    assert table.column_names == [*worker.COLUMNS]


def test_what_is_there_is_not_computed_again(folder: Path, whole: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    directory = tmp_path / "sweep"
    api.sweep(folder / "sweep.toml", directory, workers=1)
    assert files(directory) == files(whole)
    shards = sorted((directory / dataset.POINTS).iterdir())
    lost = shards[::3]
    gone = sum(parquet.ParquetFile(shard).metadata.num_rows for shard in lost)
    for shard in lost:
        shard.unlink()
    times = {path: path.stat().st_mtime_ns for path in shards if path not in lost}
    again = api.sweep(folder / "sweep.toml", directory, workers=1)
    assert again.kept == POINTS - gone
    assert files(directory) == files(whole)
    assert {path: path.stat().st_mtime_ns for path in times} == times


@pytest.mark.full
def test_a_sweep_that_is_killed_twice_goes_on(folder: Path, whole: Path, tmp_path: Path) -> None:
    directory = tmp_path / "sweep"
    for least in (1, 6):
        process = subprocess.Popen([PROGRAM, "sweep", "sweep.toml", "-o", directory, "--workers", "1"], cwd=folder)
        while process.poll() is None and len([*directory.glob("points/[!.]*")]) < least:
            time.sleep(0.001)
        process.kill()
        process.wait()
    left = subprocess.run([PROGRAM, "sweep", "sweep.toml", "-o", directory, "--workers", "1"], cwd=folder)
    assert left.returncode == 0
    assert files(directory) == files(whole)


def test_no_pytorch_in_what_evaluates(folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from deuteron import api; api.sweep('sweep.toml', sys.argv[1], workers=1); "
        "print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "sweep")]
    assert subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout == "False\n"


def test_a_sweep_that_has_not_ended_says_so(whole: Path, tmp_path: Path) -> None:
    left = shutil.copytree(whole, tmp_path / "left")
    first, *_ = sorted((left / "points").iterdir())
    first.unlink()
    shown = api.sweep_table(left)
    told = f"{len(shown.rows)} of {POINTS} points"
    assert POINTS > len(shown.rows) > 0
    ended = "the sweep is not complete, and missing points may be better; run its command again to continue"
    lines = [*shown.lines()]
    assert lines[0].startswith(f"{left}: {told}, ")
    assert lines[1] == ended
    assert f"{told}: {ended}" in api.sweep_page(left).read_text()
    assert ended not in [*api.sweep_table(whole).lines()]


def test_the_code_of_firmware_is_counted_once_for_a_build(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"models": ["small.tflite"], "targets": ["imxrt700"], "clock": ["150M", "324M"], "code_size": True}
    monkeypatch.chdir(folder)
    api.sweep(spec, tmp_path / "sweep", workers=1)
    one, other = dataset.rows(tmp_path / "sweep")
    assert (one["code_bytes"], one["code"]) == (other["code_bytes"], other["code"])
    build = tmp_path / "sweep" / str(one["command"]).split()[2]
    firmware = api.firmware(build, "an505").record
    own = firmware.sizes.module(*code_size.MODULES)
    assert (one["code_bytes"], one["code"]) == (own.text + own.rodata, f"linked for an505, {firmware.compiler}")
    (kept,) = (tmp_path / "sweep/builds").glob("*.code.json")
    counted = code_size.CodeSize(own.text + own.rodata, str(one["code"]))
    with monkeypatch.context() as patch:
        patch.setattr(code_size, "link", None)  # it is not linked again
        assert code_size.code_of(build, kept) == counted
    other_compiler = json.loads(kept.read_bytes()) | {"compiler": "another", "nbytes": 1}
    kept.write_text(json.dumps(other_compiler))
    assert code_size.code_of(build, kept) == code_size.code_of(build, kept) == counted
    absent = tmp_path / "absent"
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "")
        told = code_size.code_of(build, absent)
    assert told.nbytes is None
    assert told.how.startswith("the compiler for Arm boards is not installed")
    assert not absent.exists()
    monkeypatch.setattr(code_size.boards, "names", lambda: ("an547",))
    assert code_size.code_of(build, absent) == code_size.CodeSize(None, "no board has a cortex-m33")
    assert absent.exists()


@pytest.mark.full
def test_a_full_disk(folder: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "sweep"
    write, written = Path.write_bytes, list[str]()

    def full(path: Path, data: bytes) -> int:
        if path.name.endswith(".parquet.new"):
            written.append(path.name)
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        return write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(InputError) as error:
            api.sweep(folder / "sweep.toml", directory, workers=1)
    name = written[2].removeprefix(".").removesuffix(".new")
    assert str(error.value) == (
        f"`{directory / 'points' / name}` cannot be written: No space left on device\n\n"
        "hint: written points are kept: free some space, and run the same command again to continue"
    )
    assert api.sweep(folder / "sweep.toml", directory, workers=1).kept == 16
    assert files(directory) == files(whole)


WRONG = {
    "models = ['a']\ntargets = ['imxrt700']\nclocks = ['1M']": "unknown entry `clocks`\n\nhint: did you mean `clock`?",
    "models = ['a']\ntargets = ['imxrt700']\nzzz = 1": "unknown entry `zzz`\n\nhint: allowed are `models`, `targets`, "
    "`partition`, `weights_bits`, `vela_system_config`, `memory_mode`, `optimise`, `arena_cache_size`, "
    "`fetch_constants_to_sram`, "
    "`effort`, `sram_budget`, `weights_budget`, `flash_bandwidth`, `flash_latency`, `clock`, `evaluate`, `code_size`",
    "models = ['a']\ntargets = ['imxrt700']\ncode_size = 1": "`code_size` is 1\n\nhint: give `true` or `false`",
    "targets = ['imxrt700']": '`models` is missing\n\nhint: such as `models = ["digits"]`',
    "models = []\ntargets = ['imxrt700']": "`models` is empty\n\nhint: give at least one value, or leave the entry out",
    "models = ['a', 'a']\ntargets = ['imxrt700']": "`models` has 'a' twice\n\nhint: leave one of them out",
    "models = ['a']\ntargets = ['imxrt70']": "unknown target `imxrt70`\n\nhint: did you mean `imxrt700`, `imxrt700cm`? "
    "`deuteron targets` lists all",
    "models = ['a']\ntargets = ['imxrt700']\nclock = ['fast']": "`fast` is no frequency for `clock`\n\n"
    "hint: give Hz, or a number with k, M or G: `324M`",
    "models = ['a']\ntargets = ['imxrt700']\nclock = 0": "`clock` is 0, it must be 1 or more",
    "models = ['a']\ntargets = ['imxrt700']\nflash_latency = -3": "`flash_latency` is -3, it must be 0 or more",
    "models = ['a']\ntargets = ['imxrt700']\nsram_budget = 'abc'": "`abc` is no size for `sram_budget`\n\n"
    "hint: give bytes, or a number with k, Ki, M, Mi, G or Gi: `512Ki`, `1.5M`",
    "models = ['a']\ntargets = ['imxrt700']\neffort = 'most'": "`effort` cannot be `most`\n\n"
    "hint: allowed are `fast`, `exact`",
    "models = ['a']\ntargets = ['imxrt700']\nflash_latency = 'short'": "`flash_latency` cannot be 'short'\n\n"
    "hint: give whole numbers",
    "models = [1]\ntargets = ['imxrt700']": "`models` cannot be 1\n\nhint: give names, in quotes",
    "models = ['']\ntargets = ['imxrt700']": "`models` cannot be ''\n\nhint: give names, in quotes",
    "models = ['a']\ntargets = ['imxrt700']\nevaluate = ''": "`evaluate` is ''\n\n"
    'hint: give one function: `evaluate = "file.py:function"`',
    "models = ['a']\ntargets = ['imxrt700']\nevaluate = 'nets.py'": "`evaluate` is 'nets.py'\n\n"
    'hint: give one function: `evaluate = "file.py:function"`',
    "models = ['a']\ntargets = ['imxrt700']\nevaluate = 'nets.py:f'": "the file `nets.py` of `evaluate` "
    "cannot be read: No such file or directory",
    "models = ['a']\ntargets = ['imxrt700']\nclock = '9223372036854775808'": "`9223372036854775808` for `clock` is "
    "too large: at most 1,099,511,627,776 Hz are possible\n\nhint: give Hz, or a number with k, M or G: `324M`",
    "models = ['a']\ntargets = ['imxrt700']\nflash_latency = 9223372036854775808": "`flash_latency` is "
    "9223372036854775808, it must be at most 9223372036854775807",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_file_that_is_wrong(tmp_path: Path, text: str) -> None:
    spec = tmp_path / "wrong.toml"
    spec.write_text(text)
    with pytest.raises(DeuteronError) as error:
        api.sweep(spec, tmp_path / "sweep", workers=1)
    assert str(error.value) == f"{spec}: {WRONG[text]}"
    assert not (tmp_path / "sweep").exists()


def test_an_evaluation_that_its_file_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text("def accuracy(model): return 1.0")
    spec = tmp_path / "sweep.toml"
    spec.write_text("models = ['a']\ntargets = ['imxrt700']\nevaluate = 'nets.py:acuracy'")
    with pytest.raises(InputError) as error:
        api.sweep(spec, tmp_path / "sweep", workers=1)
    assert str(error.value) == (f"{spec}: `nets.py` has no function `acuracy` for `evaluate`\n\nhint: check its name")


def test_a_directory_of_another_sweep(folder: Path, whole: Path, tmp_path: Path) -> None:
    spec = tmp_path / "other.toml"
    spec.write_text((folder / "sweep.toml").read_text().replace("150M", "151M"))
    hint = "hint: give another directory, or remove this one"
    with pytest.raises(DeuteronError) as error:
        api.sweep(spec, whole, workers=1)
    assert str(error.value) == f"`{whole}` has another sweep: `clock` differs\n\n{hint}"
    copy = tmp_path / "copy"
    for described, told in {
        '{"schema": 99}': f"{copy / 'sweep.json'}: `sweep.json` has schema 99, this version of Deuteron reads schema 3",
        '{"schema": 3, "deuteron": "0.0.9"}': f"`{copy}` is of Deuteron 0.0.9, this is {lowering.fingerprint()}",
        "{": f"{copy / 'sweep.json'}: `sweep.json` is not JSON: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)",
    }.items():
        copy.mkdir(exist_ok=True)
        (copy / dataset.NAME).write_text(described)
        with pytest.raises(DeuteronError) as error:
            api.sweep(folder / "sweep.toml", copy, workers=1)
        assert str(error.value) == f"{told}\n\n{hint}"


@pytest.mark.full
def test_the_best_points(whole: Path, tmp_path: Path) -> None:
    shown = subprocess.run([PROGRAM, "sweep", "show", whole, "--json"], capture_output=True, text=True, check=True)
    report = json.loads(shown.stdout)
    rows = [row for row in dataset.rows(whole) if row["fits"]]
    for model in ("small.tflite", "large.tflite"):
        best = [(row["latency_us"], row["sram_bytes"]) for row in report["best"] if row["model"] == model]
        all_of = {(row["latency_us"], row["sram_bytes"]) for row in rows if row["model"] == model}
        assert set(best) == {
            a
            for a in all_of
            if not any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in all_of)  # pyright: ignore[reportOperatorIssue]
        }
        assert best == sorted(best)
    told = subprocess.run([PROGRAM, "sweep", "show", whole], capture_output=True, text=True, check=True).stdout
    assert told.startswith(f"{whole}: {POINTS} points, {len(rows)} fit; {len(report['best'])} Pareto-optimal\n")
    assert f"imxrt700: {silicon.band(targets.load('imxrt700'))}" in told.splitlines()
    limited = api.sweep_table(whole, at_most=min(float(row["latency_us"] or 0) for row in rows))
    assert len(limited.best) == 1
    refused = subprocess.run([PROGRAM, "sweep", "show", tmp_path], capture_output=True, text=True)
    assert refused.stderr == (
        f"error: `{tmp_path}` has no `sweep.json`\n\nhint: give a directory of `deuteron sweep`\n"
    )
    goals = subprocess.run([PROGRAM, "sweep", "show", whole, "--minimise", "cost"], capture_output=True, text=True)
    assert goals.stderr == (
        "error: `cost` cannot be minimised\n\nhint: allowed are `latency`, `sram`, `flash`, `accuracy`\n"
    )


def test_packed_weights_of_the_cpu_of_an_npu_target_take_less_flash(tmp_path: Path) -> None:
    """The NPU takes no layer of this program; its CPU's weights have four bits."""
    torch.manual_seed(0)
    options = api.BuildOptions(
        weights_bits=api.WeightBits.FOUR, operators_not_to_delegate=("aten::linear", "aten::addmm")
    )
    build = tmp_path / "build"
    net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)).eval()
    manifest = api.build(net, torch.rand(1, 64), target="imxrt700cm", options=options, output=build).manifest
    made = lowering.SweptBuild(build, "key", "build")
    (row,) = worker.evaluate(made, [Point(0, "net", "imxrt700cm")])
    assert row["flash_bytes"] == len((build / "model.pte").read_bytes()) - (64 * 32 + 32 * 8) // 2, manifest.nodes
