"""Vela's estimates of a build for an Ethos-U, and the addresses of its tensors, in the views."""

import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from tests.npu.ethosu import mixed_network
from tests.npu.ethosu.mixed_network import built

from deuteron.builds import manifest as manifests
from deuteron.errors import DeuteronError, InputError, OptionError, UnsupportedError
from deuteron.npu.ethosu import database as databases
from deuteron.npu.neutron.kernels.event_names import event_name
from deuteron.npu.program import Memory
from deuteron.npu.timeline import Activity, Measure
from deuteron.views.events.events import SpanKind
from deuteron.views.inspect import inspect
from deuteron.views.memory import planning
from deuteron.views.profile import run
from deuteron.views.simulate import changes, simulate_build

BASIS = "Vela's estimates for Ethos_U55_High_End_Embedded, Shared_Sram, NPU at 500 MHz"


def at(code: str) -> str:
    """The place of a line of the network."""
    lines = Path(mixed_network.__file__).read_text("utf-8").splitlines()
    return f"mixed_network.py:{[line.strip() for line in lines].index(code) + 1}"


def estimated(column: str) -> int:
    """The sum of a column of Vela's own table."""
    database = databases.read((built() / "npu_0.xml").read_text("utf-8"), "xml")
    return sum(int(row[column]) for row in database.rows("perf"))


def test_the_timeline_is_vela_s() -> None:
    simulation = simulate_build(built())
    (partition,) = simulation.partitions
    timeline = partition.timeline
    kernels = [event for event in timeline.events if event.activity is Activity.KERNEL]
    assert (timeline.cycles, timeline.macs) == (estimated("op_cycles"), estimated("mac_count"))
    assert [e.command for e in kernels] == sorted(e.command for e in kernels)
    assert len(kernels) == 38
    busy = [e for e in timeline.events if e.activity in (Activity.KERNEL, Activity.STALL)]
    assert all(one.stop == other.start for one, other in pairwise(busy))
    assert sum(e.nbytes for e in timeline.events if e.activity is Activity.TRANSFER) == 768 + 384 + 496 + 3 * 256
    lines = list(simulation.lines())
    assert lines[0] == f"{built()} on ethos-u55-128, estimated: {BASIS}; operators on the CPU not counted"
    assert any(
        line.endswith(f"conv  CONV2D {at('y = self.third(y)')} RESCALE TABLE {at('y = torch.sigmoid(y)')}")
        for line in lines
    )
    plain = simulation.to_json()
    assert (plain["kind"], plain["basis"]) == ("estimated", [BASIS])


def test_builds_are_compared_within_one_kind(tmp_path: Path) -> None:
    simulation = simulate_build(built())
    same = changes(simulation, simulation)
    assert (same.changes, same.to_json()["kind"]) == ((), "estimated")
    (partition,) = simulation.partitions
    other = replace(
        simulation, partitions=(replace(partition, timeline=replace(partition.timeline, measure=Measure.SIMULATED)),)
    )
    with pytest.raises(OptionError) as caught:
        changes(simulation, other)
    assert str(caught.value) == (
        "the first build's times are estimated, the second's simulated: they are not comparable\n\n"
        "hint: compare builds for NPUs of one family"
    )


def test_the_memory_over_time_is_vela_s() -> None:
    planned = planning(built())
    (part,) = planned.partitions
    (memory,) = part.memories
    (entry,) = manifests.read(built()).partitions
    assert (memory.name, memory.nbytes) == ("Sram", entry.scratch_bytes)
    for command in range(part.commands):
        alive = sorted((b.offset, b.offset + b.nbytes) for b in memory.blocks if b.first <= command <= b.last)
        assert all(one[1] <= other[0] for one, other in pairwise(alive)), f"command {command}"
    words = set(part.origins.values())
    assert words >= {
        "input",
        f"weights of depthwise DEPTHWISE_CONV2D {at('y = self.second(x)')} RESCALE",
        f"result of max_pool MAX_POOL2D {at('x = functional.max_pool2d(x, 2)')}",
    }
    assert any(line.startswith("  peak at command ") for line in planned.lines())


def test_memories_beside_the_sram_are_not_counted_as_sram() -> None:
    """As of an Ethos-U65, whose tensors lie in DRAM and, while they are worked on, in SRAM."""
    planned = planning(built())
    tensors = planned.simulation.tensors
    part = replace(planned.partitions[0], memories=(Memory("Dram", 5000, 0, ()), Memory("Sram", 992, 0, ())))
    small = replace(part, memories=(Memory("Dram", 192, 0, ()), Memory("Sram", 2000, 0, ())))
    assert replace(planned, partitions=(part,)).summary() == (
        f"SRAM: {tensors:,} B inputs, outputs and CPU tensors + 128 B contexts of partitions + 992 B Sram = "
        f"{tensors + 1120:,} B; 5,000 B Dram"
    )
    assert (
        replace(planned, partitions=(part, small))
        .summary()
        .endswith(f"+ 2,000 B largest partition = {tensors + 2128:,} B; 5,000 B Dram")
    )


def test_listings_say_what_each_operation_is_of() -> None:
    lines = list(inspect(built()).lines())
    (add,) = (line for line in lines if " add int8 8x8x16" in line)
    names = "tosa op 30 RESCALE, tosa op 52 RESCALE, tosa op 53 ADD, tosa op 58 RESCALE"
    assert add.endswith(f"; {names}; {at('x = x + y')} `x = x + y`")
    copies = [line for line in lines if " copy " in line]
    operations = {line.split()[0] for line in lines if line.startswith("  0x")}
    assert len(copies) == 6
    assert {line.rpartition("for ")[2] for line in copies} <= operations


@pytest.mark.parametrize("on", ["host", "sim"])
def test_inspector_shows_operations_with_their_modules(on: str, tmp_path: Path) -> None:
    from executorch.devtools import Inspector

    made = run.profile_build(built(), on=on, output=tmp_path / "out").profile
    (partition,) = made.partitions
    assert made.stream.measure is (Measure.ESTIMATED if on == "sim" else Measure.MEASURED)
    assert made.npu_measure is Measure.ESTIMATED
    kernels = [event for event in made.stream.events if event.kind is SpanKind.KERNEL]
    assert [event.name for event in kernels] == [kernel.name for kernel in partition.kernels]
    assert [kernel.module for kernel in partition.kernels[16:20]] == ["first", "first", "second", "third"]
    inspector = Inspector(etdump_path=str(tmp_path / "out/etdump.etdp"), etrecord=str(tmp_path / "out/etrecord.bin"))
    events = inspector.event_blocks[0].events
    shown = {event.name: event for event in events if event.is_delegated_op and "#" in event.name}
    assert list(shown) == [event_name(kernel.name, kernel.index) for kernel in partition.kernels]
    for kernel in partition.kernels:
        nodes = {node for op in kernel.ops for node in partition.ops[op].nodes}
        event = shown[event_name(kernel.name, kernel.index)]
        assert nodes <= {name.removesuffix("_") for name in event.stack_traces}
        assert event.module_hierarchy
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert '"npu_measure": "estimated"' in page or '"npu_measure":"estimated"' in page


def test_profiles_of_both_places_say_their_kind(tmp_path: Path) -> None:
    made = run.profile_build(built(), on="sim", output=tmp_path / "out").profile
    assert made.basis == (BASIS,)
    assert made.stream.lengths() == {0: estimated("op_cycles")}


def refused(error: type[DeuteronError], path: Path, **options: object) -> str:
    with pytest.raises(error) as caught:
        simulate_build(path, **options)  # pyright: ignore[reportArgumentType]
    return str(caught.value)


def test_what_cannot_be_told_is_said(tmp_path: Path) -> None:
    program = built() / "model.pte"
    assert refused(InputError, program) == (
        f"`{program}` is a file, but its times and memories are recorded in its build directory\n\nhint: give a "
        "directory of `deuteron build`"
    )
    assert refused(OptionError, built(), clock=1_000_000) == (
        "`--clock` is for simulated times, Vela estimates those of `ethos-u55-128` when it compiles\n\n"
        "hint: build the model again, with another `--vela-system-config` or `--memory-mode`"
    )
    assert refused(OptionError, built(), first_run=True) == (
        "`--first-run` is for weights that stay in SRAM between runs; `ethos-u55-128` has none\n\nhint: leave it "
        "out: every run takes as long as the first one"
    )
    bare = tmp_path / "bare"
    shutil.copytree(built(), bare)
    record = json.loads((bare / "build.json").read_text("utf-8"))
    record["partitions"][0]["schedule"]["steps"] = []
    (bare / "build.json").write_text(json.dumps(record), "utf-8")
    assert refused(UnsupportedError, bare) == (
        "the command stream of an Ethos-U contains no times, and there are no estimates\n\n"
        "hint: give a build of `deuteron build`, which has Vela's estimates"
    )
