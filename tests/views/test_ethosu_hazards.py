"""The views of an Ethos-U build whose commands miss a wait: the command, and the user's line."""

import hashlib
import shutil
from pathlib import Path

import pytest
from tests.frontend.ethosu import networks
from tests.npu.ethosu import mixed_network
from tests.npu.ethosu.commands import HEADER_WORDS, read
from tests.npu.ethosu.mixed_network import built

from deuteron.builds import manifest as manifests
from deuteron.npu.ethosu.isa import Op
from deuteron.npu.ethosu.program import EthosUProgram
from deuteron.npu.program import NpuProgram
from deuteron.views import simulate
from deuteron.views.memory import planning
from deuteron.views.profile.run import profile_build
from deuteron.views.simulate import simulate_build

BLOCK_HEADER = 32


@pytest.fixture
def hasty(tmp_path: Path) -> Path:
    """A build whose commands go on although a copy of weights may run: its first wait is for all but one."""
    build = tmp_path / "build"
    shutil.copytree(built(), build)
    path = build / manifests.PROGRAM
    program = bytearray(path.read_bytes())
    name = program.index(b"cmd_data")
    size = int.from_bytes(program[name + 16 : name + 20], "little")
    commands = read(bytes(program[name + BLOCK_HEADER : name + BLOCK_HEADER + size]))
    wait = next(i for i, command in enumerate(commands) if command.code is Op.DMA_WAIT)
    words = sum(1 + (command.payload is not None) for command in commands[:wait])
    at = name + BLOCK_HEADER + 4 * (HEADER_WORDS + words)
    assert program[at : at + 4] == bytes((Op.DMA_WAIT, 0, 0, 0))
    program[at + 2] = 1
    record = (build / manifests.NAME).read_text("utf-8")
    names = [hashlib.sha256(data).hexdigest() for data in (path.read_bytes(), program)]
    assert names[0] in record
    (build / manifests.NAME).write_text(record.replace(*names), "utf-8")
    path.write_bytes(program)
    return build


def test_it_is_told_with_the_line_of_the_model(hasty: Path) -> None:
    assert simulate_build(built()).passed
    line = Path(mixed_network.__file__).read_text("utf-8").splitlines().index("        x = self.first(x)") + 1
    words = "`conv` at 0x00354 reads byte 0x{} of scratch as its {}, which `copy` at 0x00298 still writes"
    place = f"(CONV2D mixed_network.py:{line} RESCALE)"
    told = [
        f"command 18: {words.format(at, part)}: no DMA_WAIT is between {place}"
        for at, part in (("990", "weights"), ("8f0", "scales"))
    ]
    simulation = simulate_build(hasty)
    assert [line for line in simulation.lines() if "wrong" in line] == [f"  wrong: {text}" for text in told]
    assert f"  {EthosUProgram.advice}" in simulation.lines()
    warning = (
        f"the commands of npu 0 are wrong: {told[0]}, and 1 more, which `deuteron sim` lists; {EthosUProgram.advice}"
    )
    planned = planning(hasty)
    assert list(planned.lines())[1:] == list(planning(built()).lines())[1:]
    assert (planned.warnings, planned.to_json()["warnings"]) == ((warning,), [warning])
    assert planning(built()).warnings == ()
    assert profile_build(hasty, on="sim").warnings == (warning,)
    assert profile_build(built(), on="sim").warnings == ()


def test_a_comparison_says_what_to_do(hasty: Path) -> None:
    lines = [*simulate.changes(simulate_build(built()), simulate_build(hasty)).lines()]
    assert [line.startswith(f"wrong in npu 0 of {hasty}: command 18: ") for line in lines[-3:-1]] == [True, True]
    assert lines[-1] == f"  {EthosUProgram.advice}"


def test_an_ethos_u85_is_watched() -> None:
    simulation = simulate_build(networks.built(networks.layer, "ethos-u85-256"))
    assert (simulation.sound, simulation.passed) == (True, True)
    assert "not checked" not in "".join(simulation.lines())


def test_where_nobody_watches_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither that it is sound, nor that it is not, which would end `deuteron sim` with an error."""
    with monkeypatch.context() as family:
        family.setattr(EthosUProgram, "hazards", NpuProgram.hazards)
        simulation = simulate_build(networks.built(networks.layer, "ethos-u85-256"))
    watched = simulate_build(built())
    note = "not checked: waits between dependent commands"
    assert (simulation.sound, watched.sound, simulation.passed) == (None, True, True)
    assert [line for line in simulation.lines() if "not checked" in line] == [note]
    assert "not checked" not in "".join(watched.lines())
    plain = simulation.to_json()
    assert (plain["sound"], watched.to_json()["sound"]) == (None, True)
    (partition,) = plain["partitions"]  # type: ignore[misc]
    assert partition["hazards"] is None
    both = simulate.changes(watched, simulation)
    assert (both.passed, both.to_json()["before"], both.to_json()["after"]) == (
        True, {**both.to_json()["before"], "sound": True}, {**both.to_json()["after"], "sound": None},
    )  # fmt: skip
    assert [line for line in both.lines() if "not checked" in line] == [f"B: {note}"]
