"""Profiles of small networks: on the host and the simulator, compared with ExecuTorch's Inspector."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import full
from tests.views.profile.conftest import Build
from tests.views.profile.example_profile import packet
from tests.views.profile.networks import NETWORKS

from deuteron import api
from deuteron.cli import main
from deuteron.errors import UnsupportedError
from deuteron.npu.neutron.kernels.event_names import event_name
from deuteron.views.events import record, tables
from deuteron.views.events.events import SpanKind
from deuteron.views.events.gaps import attributed
from deuteron.views.events.sources import etdump
from deuteron.views.profile import run
from deuteron.views.profile import subject as builds
from deuteron.views.report.page import html
from deuteron.views.simulate import simulate_build

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "profile.md"


def profile(directory: Path, on: str, runs: int, output: Path) -> record.Profile:
    """The profile, with its files in `output`."""
    found = builds.read(directory)
    inputs = [tuple(np.zeros(i.shape, i.dtype) for i in found.manifest.inputs)] * runs
    made = run.profile(found, run.ProfileRequest(on, inputs))
    run.write(made, found, output)
    return made


def ticks(made: record.Profile, kind: SpanKind) -> int:
    return sum(event.ticks for event in made.stream.events if event.kind is kind)


def operators_of(events: Iterable[Any]) -> dict[str, float]:
    """Microseconds of all runs for each operator on the CPU, as Inspector shows them."""
    found: Counter[str] = Counter()
    for event in events:
        if event.name.startswith("native_call_"):
            found[event.name.removeprefix("native_call_")] += sum(event.perf_data.raw) * 1e3
    return dict(found)


def operators_of_ours(made: record.Profile) -> dict[str, float]:
    """The same of our profile."""
    found: Counter[str] = Counter()
    for event in made.stream.events:
        if event.kind is SpanKind.OPERATOR:
            found[event.name.rpartition("::")[2]] += made.stream.clock.microseconds(event.ticks)
    return dict(found)


@pytest.mark.slow
@pytest.mark.parametrize("on", ["host", "sim"])
def test_inspector_has_our_operators_and_totals(build: Build, on: str, tmp_path: Path):
    from executorch.devtools import Inspector

    made = profile(build("residual"), on, 3, tmp_path / "out")
    assert (tmp_path / "out/report.html").read_text("utf-8") == html(made)
    assert (attributed(made.stream.events) or 0) >= 0.999
    inspector = Inspector(etdump_path=str(tmp_path / "out/etdump.etdp"), etrecord=str(tmp_path / "out/etrecord.bin"))
    events = inspector.event_blocks[0].events
    (partition,) = made.partitions
    shown = {event.name: event for event in events if event.is_delegated_op and "#" in event.name}
    assert list(shown) == [event_name(kernel.name, kernel.index) for kernel in partition.kernels]
    for kernel in partition.kernels:
        nodes = {node for op in kernel.ops for node in partition.ops[op].nodes}
        event = shown[event_name(kernel.name, kernel.index)]
        found = {name.removesuffix("_") for name in event.stack_traces}
        assert nodes <= found
        lines = {source.code for op in kernel.ops for source in partition.ops[op].sources}
        assert all(any(line in str(trace) for trace in event.stack_traces.values()) for line in lines)
    micro = made.stream.clock.microseconds
    assert sum(sum(event.perf_data.raw) for event in shown.values()) * 1e3 == pytest.approx(
        micro(ticks(made, SpanKind.KERNEL)), abs=0.002 * len(made.stream.events)
    )
    (call,) = (event for event in events if event.name == "DELEGATE_CALL")
    assert sum(call.perf_data.raw) * 1e3 == pytest.approx(micro(ticks(made, SpanKind.DELEGATE)), abs=0.01)
    assert operators_of(events) == pytest.approx(operators_of_ours(made), abs=0.01)


@pytest.mark.slow
def test_everybody_has_the_same_numbers(build: Build, tmp_path: Path):
    from executorch.devtools import Inspector

    made = profile(build("residual"), "sim", 1, tmp_path / "out")
    simulation = simulate_build(build("residual"))
    assert made.basis == simulation.basis
    assert tables.whole_utilisation(made) == pytest.approx(simulation.utilisation)
    (partition,), (simulated,) = made.partitions, simulation.partitions
    assert simulation.utilisation == simulated.timeline.utilisation
    micro = made.stream.clock.microseconds
    own = {row.parts[0][2]: micro(row.own) for row in tables.kernels(made) if row.parts[0][0] == "kernel"}
    assert list(own.values()) == [micro(event.cycles) for event in simulated.timeline.events if event.cost]
    (block,) = Inspector(etdump_path=str(tmp_path / "out/etdump.etdp")).event_blocks
    shown = {event.name: event.perf_data.raw for event in block.events if event.perf_data}
    nodes = json.loads((tmp_path / "out/model_explorer.json").read_text())["graph"]["results"]
    for kernel in partition.kernels:
        assert shown[event_name(kernel.name, kernel.index)] == [pytest.approx(own[kernel.index] / 1e3, abs=2e-6)]
    computed = [(name, kernel.index) for kernel in partition.kernels for op in kernel.ops
                for name in dict.fromkeys(partition.ops[op].nodes)]  # fmt: skip
    for name, value in nodes.items():
        assert value["value"] == pytest.approx(sum(own[index] for index in {i for n, i in computed if n == name}))
    modules = {row.name: row.macs for row in tables.modules(made)}
    assert modules["first"] == modules["second"] == 16 * 16 * 4 * 4 * 3 * 3  # their relu is the model's own


@pytest.mark.slow
def test_kernels_that_nobody_recorded_are_told(build: Build, monkeypatch: pytest.MonkeyPatch):
    found = builds.read(build("residual"))
    made = run.profile(found, run.ProfileRequest("sim"))
    assert list(builds.warnings(found, made)) == []
    without = tuple(event for event in made.stream.events if event.kind is not SpanKind.KERNEL)
    made = replace(made, stream=replace(made.stream, events=without))
    assert list(builds.warnings(found, made)) == [
        "there are no kernel events, but the build records them: their time is not attributed; compile all files of "
        "the firmware, including the driver, with `-DDTN_PROFILING=1`"
    ]
    assert list(builds.warnings(found, replace(made, stream=replace(made.stream, lost=1)))) == []
    options = replace(found.manifest.options, use_profiling=False)
    plain = replace(found, manifest=replace(found.manifest, options=options))
    assert list(builds.warnings(plain, made)) == [
        "the microcode of this build does not record its kernels: their time is not attributed; build it with "
        "`--use-profiling`"
    ]
    monkeypatch.setattr(found.partitions[0][0].program, "has_branches", True)
    assert list(builds.warnings(found, made)) == [
        "the commands of `npu 0` have branches, which skip or repeat operations: boards record the time of the "
        "partition alone; `deuteron profile` without a board shows each operation"
    ]


@pytest.mark.slow
def test_the_example_of_the_guide_runs(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "out").mkdir()
    profile(build("residual"), "host", 1, tmp_path / "out/profile_host")
    example, *_ = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(compile(example, str(GUIDE), "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert any(re.fullmatch(r"conv2d_s8 #\d+: \d+\.\d{4} ms, aten\.convolution\.default.*, .*", line) for line in lines)
    assert all(re.search(r", x = torch\.relu\(self|, return torch\.relu\(self", line) for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "board"), full.first([("cortex-m55", "an547"), ("cortex-m33", "an505")], 1))
def test_a_build_without_an_npu(target: str, board: str, tmp_path: Path):
    x = torch.randn(1, 4, 64, 64)
    options = api.BuildOptions(use_profiling=True)
    api.build(NETWORKS["residual"](), (x,), target=target, output=tmp_path / "b", options=options, calibration=[(x,)])
    found = builds.read(tmp_path / "b")
    for on in ("host", board):
        made = run.profile(found, run.ProfileRequest(on, api.seeded_inputs(found.manifest, 1)))
        assert on == "host" or (attributed(made.stream.events, SpanKind.RUN) or 0) >= 0.999
        convolutions = [row for row in tables.operators(made) if "cortex_m::quantized_conv2d" in row.name]
        assert [row.macs for row in convolutions] == [64 * 64 * 4 * 4 * 3 * 3] * 2
    with pytest.raises(UnsupportedError) as caught:
        run.profile(found, run.ProfileRequest("sim"))
    assert str(caught.value) == (
        f"`{tmp_path / 'b'}` has nothing on an NPU; the simulator supports only the NPU\n\nhint: choose another place "
        "with `--on`"
    )


def error(arguments: Sequence[str | Path], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in ("profile", *arguments)])
    assert ended.value.code in (1, 2)
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            "--compare a b --on sim --runs 2 -o out --force",
            "`--compare` reads two profiles: it runs and writes nothing\n\n"
            "hint: leave out `--on` and `--runs` and `--output` and `--force`",
        ),
        ("--compare a b --sort name", "`--compare` always shows the largest changes first\n\nhint: leave out `--sort`"),
        ("--compare a b --json --top 3", "`--compare --json` always gives all rows\n\nhint: leave out `--top`"),
        (
            "out --from-events e --on host --input x.npy",
            "`--from-events` runs nothing\n\nhint: leave out `--on` and `--input`",
        ),
        ("out --on sim --runs 3", "the simulator runs once, for any input\n\nhint: leave out `--runs`"),
        ("out --on sim --input x.npy", "the simulator runs once, for any input\n\nhint: leave out `--input`"),
    ],
)
def test_no_option_is_ignored(arguments: str, said: str, capsys: pytest.CaptureFixture[str]):
    assert error(arguments.split(), capsys) == f"error: {said}\n"


@pytest.mark.slow
def test_fewer_runs_than_inputs_are_refused(build: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    np.save(tmp_path / "x.npy", np.zeros((3, 1, 4, 16, 16), np.float32))
    said = error([build("residual"), "--runs", "2", "--input", tmp_path / "x.npy"], capsys)
    assert said == (
        "error: `--runs 2` is less than the 3 samples of the files\n\n"
        "hint: leave out `--runs`, or give files with fewer samples\n"
    )


@pytest.mark.slow
def test_what_cannot_be_profiled_is_said(build: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    said = error([build("residual"), "--on", "moon"], capsys)
    assert (
        said
        == "error: unknown value `moon` of `--on`\n\nhint: choose one of `host`, `sim`, `an500`, `an505`, `an547`, "
        "or a line: `serial:PORT`, `tcp:HOST:PORT`\n"
    )
    said = error([], capsys)
    assert said == (
        "error: give the directory of a build, or two profiles after `--compare`\n\nhint: `deuteron profile DIR`\n"
    )
    said = error([build("residual"), "--compare", "a", "b"], capsys)
    assert said == "error: `--compare` reads two profiles: it runs and writes nothing\n\nhint: leave out `DIR`\n"
    other = tmp_path / "events.bin"
    other.write_bytes(b"hello, world")
    said = error([build("residual"), "--from-events", other], capsys)
    assert said == (
        f"error: `{other}` has neither events of Deuteron's firmware nor an ETDump\n\nhint: give the bytes of "
        "`dtn_port_events`, or an ETDump of ExecuTorch's runtime\n"
    )
    other.write_bytes(etdump.write([]))
    said = error([build("residual"), "--from-events", other], capsys)
    assert said == (
        f"error: `{other}` is an ETDump, which does not contain the length of a tick\n\nhint: give "
        "`--ticks-per-second N`, the rate of `et_pal_current_ticks` on the device; 1000000000 where it counts "
        "nanoseconds\n"
    )
    said = error([build("residual"), "--from-events", other, "--ticks-per-second", "9"], capsys)
    assert said == f"error: {other}: the ETDump has no run\n\nhint: run the program before you write the file\n"
    profile(build("residual"), "sim", 1, tmp_path / "made")
    said = error([build("residual"), "--from-events", tmp_path / "made/etdump.etdp"], capsys)
    assert said == (
        f"error: `{tmp_path}/made/etdump.etdp` is an ETDump of `deuteron profile` for ExecuTorch's Inspector\n\nhint: "
        f"show the profile: `deuteron profile {tmp_path}/made`\n"
    )
    other.write_bytes(packet([], 0, 1))
    said = error([build("residual"), "--from-events", other, "--ticks-per-second", "9"], capsys)
    assert said == (
        f"error: `{other}` is not an ETDump: `--ticks-per-second` is for ETDumps only\n\n"
        "hint: leave it out: events of Deuteron's firmware contain the length of a tick\n"
    )
    said = error([build("residual"), "--ticks-per-second", "9"], capsys)
    assert said == "error: a run on this host uses the host's clock\n\nhint: leave out `--ticks-per-second`\n"
    said = error([build("residual"), "--from-events", tmp_path / "none"], capsys)
    assert said == (
        f"error: `{tmp_path / 'none'}` cannot be read: No such file or directory\n\n"
        "hint: check its name and its folder\n"
    )
