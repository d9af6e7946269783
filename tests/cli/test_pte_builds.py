"""A program instead of a build, with its ETRecord and without: every command for builds takes it."""

import json
import shutil
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import store
from tests.npu.ethosu import mixed_network as ethosu
from torch import Tensor, nn

from deuteron import api
from deuteron.board.build_directory import build_directory
from deuteron.builds.manifest import ETRECORD, PROGRAM, REFERENCE, Manifest
from deuteron.errors import FormatError, InputError
from deuteron.frontend import saved
from deuteron.runtime import etrecord

from .conftest import Result

Run = Callable[..., Result]


class Turns(nn.Module):
    """A layer on the NPU, an activation that is kept on the CPU, and layers on the NPU again."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.last = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.gelu(self.first(x))
        x = torch.relu(self.second(x))
        return self.last(x.mean((2, 3)))


GELU = Turns.forward.__code__.co_firstlineno + 1
"""The line of the activation; the next one has the second layer."""


def turns() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """The network, for profiles."""
    torch.manual_seed(0)
    options = api.BuildOptions(use_profiling=True, operators_not_to_delegate=("gelu",))
    return Turns().eval(), (torch.randn(1, 4, 8, 8),), options


@pytest.fixture(scope="session")
def build() -> Path:
    """A build whose program runs on a Neutron and a Cortex-M in turn."""
    return store.network(turns, "turns", target="imxrt700cm")


@pytest.fixture
def given(build: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Its program and its ETRecord, alone."""
    program, record = tmp_path / "turns.pte", tmp_path / "turns.etrecord"
    shutil.copy(build / PROGRAM, program)
    shutil.copy(build / ETRECORD, record)
    return program, record


def lines(manifest: Manifest, *, on_npu: bool) -> set[tuple[str, int]]:
    """The operators of the model on one of the processors, each with its line."""
    nodes = [node for node in manifest.nodes if (node.partition is not None) is on_npu]
    return {(node.op, source.line) for node in nodes for source in node.source}


@pytest.mark.slow
@pytest.mark.full
def test_an_etrecord_tells_the_lines_that_the_build_has(build: Path, given: tuple[Path, Path]) -> None:
    program, record = given
    known, read = api.read_manifest(build), api.read_manifest(build_directory(program, etrecord=record))
    assert read.target == known.target == "imxrt700cm"
    assert len(read.partitions) == len(known.partitions) == 2
    assert lines(read, on_npu=True) == lines(known, on_npu=True)
    assert lines(known, on_npu=False) <= lines(read, on_npu=False)
    macs = [sum(node.macs for node in of.nodes if node.op != "aten::addmm") for of in (read, known)]
    assert macs[0] == macs[1]
    for ours, theirs in zip(read.partitions, known.partitions, strict=True):
        assert ours.payload_sha256 == theirs.payload_sha256
        assert [kernel.kernel for kernel in ours.kernels] == [kernel.kernel for kernel in theirs.kernels]
        for call in range(len(ours.kernels)):
            told = {ours.ops[op].source for op in ours.kernels[call].ops}
            assert told & {theirs.ops[op].source for op in theirs.kernels[call].ops}
    instructions = [number for op in read.cpu_ops for number in op.instructions]
    assert instructions == [number for op in known.cpu_ops for number in op.instructions]


@pytest.mark.slow
def test_each_view_of_a_build(deuteron: Run, given: tuple[Path, Path], tmp_path: Path) -> None:
    program, record = given
    of = (program, "--etrecord", record)
    explained = deuteron("explain", *of)
    assert explained.out.startswith(f"{program} on imxrt700cm: turns; on the CPU int8 Cortex-M operators\n")
    assert f"cpu    aten::gelu  test_pte_builds.py:{GELU}: x = nn.functional.gelu(self.first(x))\n" in explained.out
    assert (
        f"npu 1  aten::convolution  test_pte_builds.py:{GELU + 1} second: x = torch.relu(self.second(x))\n"
        in explained.out
    )
    assert explained.err == (
        "only a build directory records which value each kernel call must read; the simulator does not check it for "
        "this program\n"
    )
    simulated = deuteron("sim", *of)
    assert simulated.code == 0
    assert f"depthwise_conv2d_s8  aten::convolution test_pte_builds.py:{GELU + 1}" in simulated.out
    assert f"result of conv2d_s8 aten::convolution test_pte_builds.py:{GELU}" in deuteron("plan", *of).out
    profiled = deuteron("profile", *of, "--on", "sim", "--by", "line")
    assert profiled.code == 0
    assert (tmp_path / "turns.pte.profile_sim" / ETRECORD).read_bytes() == record.read_bytes()
    assert deuteron("bundle", *of, "-o", tmp_path / "bundle").code == 0
    assert f"test_pte_builds.py:{GELU}" in (tmp_path / "bundle" / "dtn_bundle.c").read_text()
    assert deuteron("run", program, "--on", "an505", "--compare", "host").code == 0


@pytest.mark.slow
def test_without_an_etrecord_what_is_missing_is_named(deuteron: Run, given: tuple[Path, Path]) -> None:
    program, _ = given
    explained = deuteron("explain", program)
    assert "npu 0  conv2d_s8\n" in explained.out
    row = next(line for line in explained.out.splitlines() if line.startswith("cpu   "))
    assert row.split()[2:6] == ["not", "known"] * 2
    assert explained.err.startswith(
        "`turns.pte` does not have source lines and modules of the model: they are in the ETRecord that ExecuTorch "
        "saves with it; give that with `--etrecord`\n"
    )
    simulated = json.loads(deuteron("sim", program, "--json").out)
    assert simulated["path"] == str(program)
    assert deuteron("sim", program, "--sram-budget", "64Ki") == Result(
        1,
        "",
        "error: planning again needs the TFLite files of partitions, which a program does not have\n\nhint: give a "
        "directory of `deuteron build`, or leave out `--sram-budget`\n",
    )
    assert deuteron("explain", program, "--target", "cortex-m55") == Result(
        2,
        "",
        f"error: `{program}` was compiled for `Neutron`, not for the target `cortex-m55`\n\nhint: leave out "
        "`--target`, or choose `imxrt700`, `imxrt700cm`, `mcxn947`\n",
    )


@pytest.mark.slow
def test_cycles_are_those_of_the_build(build: Path, given: tuple[Path, Path]) -> None:
    program, _ = given
    ours, theirs = api.simulate(program), api.simulate(build)
    assert (ours.cycles, ours.sound, ours.tensors) == (theirs.cycles, True, theirs.tensors)
    memories = [[memory for part in api.plan(path).partitions for memory in part.memories] for path in (program, build)]
    ours_planned, theirs_planned = ([(memory.nbytes, memory.bound) for memory in listed] for listed in memories)
    assert ours_planned == theirs_planned


@pytest.mark.slow
def test_a_program_in_its_build_is_that_build(deuteron: Run, build: Path) -> None:
    assert build_directory(build / PROGRAM) == build
    explained = deuteron("explain", build / PROGRAM)
    assert explained.err == ""
    assert explained.out.splitlines()[1:] == deuteron("explain", build).out.splitlines()[1:]


@pytest.mark.slow
def test_ethosu_has_a_lower_bound_of_its_times(deuteron: Run, tmp_path: Path) -> None:
    build, program = ethosu.built(), tmp_path / "mixed.pte"
    shutil.copy(build / PROGRAM, program)
    ours, theirs = api.simulate(program), api.simulate(build)
    assert ours.target == theirs.target
    assert 0 < ours.cycles <= theirs.cycles
    assert [run.program.calls for run in ours.partitions] == [run.program.calls for run in theirs.partitions]
    assert ours.basis == (
        "Deuteron's estimates for the array and the SRAM port at their full rates, a lower bound, NPU at 500 MHz",
    )
    assert deuteron("plan", program).code == 0
    profiled = deuteron("profile", program, "--by", "kernel", "--etrecord", build / ETRECORD)
    assert profiled.code == 0
    assert "conv" in profiled.out
    assert "Vela estimates the time of an Ethos-U when it compiles" in profiled.err
    assert deuteron("run", program, "--on", "an547", "--compare", "host").code == 0


class Small(nn.Module):
    """Two layers, for a backend that is none of an NPU's."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.erf(self.layer(x))


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A program of ExecuTorch's own making, with a delegate of XNNPACK's and a portable operator, and its ETRecord."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    exported = torch.export.export(Small().eval(), (torch.randn(1, 8),), strict=True)
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()], generate_etrecord=True)
    made, folder = lowered.to_executorch(), tmp_path_factory.mktemp("foreign")
    (folder / "small.pte").write_bytes(made.buffer)
    made.get_etrecord().save(str(folder / "small.etrecord"))
    return folder / "small.pte", folder / "small.etrecord"


@pytest.mark.slow
def test_what_others_have_made(deuteron: Run, foreign: tuple[Path, Path]) -> None:
    program, record = foreign
    explained = deuteron("explain", program, "--etrecord", record)
    assert "computed by delegate of XnnpackBackend\n" in explained.out
    assert "cpu    aten::erf  test_pte_builds.py:" in explained.out
    assert "computed by aten::erf\n" in explained.out
    assert deuteron("profile", program, "--by", "operator", "--etrecord", record).code == 0
    compared = deuteron("run", program, "--etrecord", record, "--compare")
    assert compared.code == 0
    assert "1 delegate: only outputs are compared" in compared.out
    assert "cpu    delegate of XnnpackBackend\n" in deuteron("explain", program).out
    assert deuteron("sim", program) == Result(
        1,
        "",
        f"error: nothing of `{program}` runs on an NPU\n\nhint: `deuteron plan` shows its memory in firmware, "
        "`deuteron profile` its time\n",
    )
    refused = deuteron("firmware", program, "--board", "an547", "-o", program.parent / "image")
    assert refused.code == 1
    assert "`XnnpackBackend`, firmware supports `NeutronBackend` and `EthosUBackend` only" in refused.err


@pytest.mark.slow
def test_a_program_is_compared_with_its_etrecord(deuteron: Run, given: tuple[Path, Path], tmp_path: Path) -> None:
    program, record = given
    compared = deuteron("run", program, "--etrecord", record, "--compare")
    assert (compared.code, compared.err) == (0, "")
    assert compared.out.startswith(
        "compared on 1 sample\n\n2 delegates: only outputs are compared; the reference of partitions is in a build "
        "directory\n\nend to end against quantized PyTorch\n  output 0: "
    )
    assert deuteron("run", program, "--compare") == Result(
        2,
        "",
        f"error: `{program}` is a program without its build and has no reference\n\n"
        "hint: give its ETRecord with `--etrecord`, or the directory that `deuteron build` wrote\n",
    )
    assert deuteron("run", program, "--etrecord", record, "--compare", "litert") == Result(
        2,
        "",
        f"error: `{program}` is a program without its build and cannot be compared with `litert`\n\nhint: use "
        "`--compare` with its ETRecord, or give a directory of `deuteron build`\n",
    )
    shorter = tmp_path / "shorter"
    with zipfile.ZipFile(record) as whole, zipfile.ZipFile(shorter, "w") as parts:
        for name in whole.namelist():
            parts.writestr(name, b"" if name.endswith("_state_dict") else whole.read(name))
    assert (
        "error: PyTorch cannot read the program in the ETRecord: "
        in deuteron("run", program, "--etrecord", shorter, "--compare").err
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", ["", "_state_dict", "_constants", "_example_inputs"])
def test_each_part_that_is_damaged_is_refused(part: str, foreign: tuple[Path, Path], tmp_path: Path) -> None:
    """Compressed, as other tools may store them; PyTorch reads all of these, we the first alone."""
    record, name = tmp_path / "record", f"edge_dialect_exported_program/forward{part}"
    with zipfile.ZipFile(foreign[1]) as whole:
        parts = {entry: whole.read(entry) for entry in whole.namelist()}

    def stored(content: bytes) -> bytearray:
        with zipfile.ZipFile(record, "w", zipfile.ZIP_DEFLATED) as archive:
            for entry, data in (parts | {name: content}).items():
                archive.writestr(entry, data)
        return bytearray(record.read_bytes())

    data = stored(parts[name])
    saved.recorded(record)
    at = data.index(name.encode()) + len(name)
    data[at : at + 40] = b"\xff" * 40  # no block of deflate begins so
    record.write_bytes(data)
    readers: list[Callable[[], object]] = [lambda: saved.recorded(record)]
    readers += [lambda: etrecord.read(record, "forward")] if not part else []
    for read in readers:
        with pytest.raises(FormatError):
            read()
    for length in (1, 10, len(parts[name]) // 2):
        stored(parts[name][:length])
        for read in readers:
            with pytest.raises(FormatError):
                read()


@pytest.mark.slow
def test_a_record_whose_signature_names_no_node_is_refused(foreign: tuple[Path, Path], tmp_path: Path) -> None:
    record, name = tmp_path / "record", "edge_dialect_exported_program/forward"
    with zipfile.ZipFile(foreign[1]) as whole, zipfile.ZipFile(record, "w") as archive:
        for entry in whole.namelist():
            data = whole.read(entry)
            if entry == name:
                program = json.loads(data)
                (output,) = program["graph_module"]["signature"]["output_specs"]
                output["user_output"]["arg"]["as_tensor"]["name"] = "another"
                data = json.dumps(program).encode()
            archive.writestr(entry, data)
    with pytest.raises(FormatError) as refused:
        saved.recorded(record)
    assert str(refused.value) == (
        "the program has no node `another`, which is one of its inputs or outputs\n\n"
        "hint: have it saved again: the file is damaged"
    )


@pytest.mark.slow
def test_a_defect_of_ours_is_not_told_as_damage(foreign: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(_: object) -> None:
        raise ValueError("ours")

    monkeypatch.setattr(saved, "output_affine", defect)
    with pytest.raises(ValueError, match="ours"):
        saved.recorded(foreign[1])


@pytest.mark.slow
def test_programs_of_a_cpu_are_compared_operator_by_operator(deuteron: Run, tmp_path: Path) -> None:
    build, program, record = store.network(turns, "turns", target="cortex-m55"), tmp_path / "a.pte", tmp_path / "record"
    shutil.copy(build / PROGRAM, program)
    shutil.copy(build / ETRECORD, record)
    of_program, of_build = (
        json.loads(deuteron("run", *path, "--compare", "--seed", "1", "--json").out)
        for path in ((program, "--etrecord", record), (build,))
    )
    compared = of_program["on_cpu"]
    known = [one for one in compared if one["op"] != "dim_order_ops::_clone_dim_order"]  # ours say that it is none
    assert [one["op"] for one in known] == [one["op"] for one in of_build["on_cpu"]]
    assert all(one["elements"] and not one["beyond"] for one in compared)
    assert f"test_pte_builds.py:{GELU}" in " ".join(one["source"] for one in compared)
    data = bytearray(program.read_bytes())
    layer = dict(torch.export.load(build / REFERENCE).state_dict)["_frozen_param0"]
    at = data.index(layer.permute(0, 2, 3, 1).contiguous().numpy().tobytes())
    data[at : at + 36] = bytes(36)
    program.write_bytes(data)
    changed = deuteron("run", program, "--etrecord", record, "--compare")
    assert changed.code == 1
    assert f"bounds broken:\n  `cortex_m::quantized_conv2d` on the CPU, {__file__}:{GELU}: " in changed.out


@pytest.mark.slow
def test_another_programs_etrecord_is_refused(given: tuple[Path, Path], foreign: tuple[Path, Path]) -> None:
    program, _ = given
    with pytest.raises(InputError) as refused:
        api.explain(program, etrecord=foreign[1])
    assert refused.value.message == (
        f"`{foreign[1]}` is not the ETRecord of `{program}`: its delegates are `XnnpackBackend` at instruction 0, the "
        "program's `NeutronBackend` at instruction 1, `NeutronBackend` at instruction 3"
    )


EDGE = "edge_dialect_exported_program/forward"


def _edited(record: Path, entry: str, old: str, new: str, path: Path) -> Path:
    """The record with another text in one of its entries."""
    with zipfile.ZipFile(record) as whole, zipfile.ZipFile(path, "w") as parts:
        for name in whole.namelist():
            data = whole.read(name)
            if name == entry:
                assert old.encode() in data
                data = data.replace(old.encode(), new.encode())
            parts.writestr(name, data)
    return path


@pytest.mark.slow
def test_an_etrecord_with_the_same_delegates_is_refused_too(
    deuteron: Run, given: tuple[Path, Path], tmp_path: Path
) -> None:
    """Further differences between programs, each taken from the record of another network."""
    program, record = given
    with zipfile.ZipFile(record) as whole:
        graph = json.loads(whole.read(EDGE))["graph_module"]["graph"]
        first, second = json.loads(whole.read("delegate_map"))["forward"].values()
    calls = first["delegate_map"]
    marks = [key for one in (first, second) for key in one["delegate_map"] if key.startswith("payload ")]
    assert len(marks) == 2
    sizes = json.dumps(graph["tensor_values"]["x"]["sizes"])
    scales = {
        side: next(node for node in order if f".{name}." in node["target"])["inputs"][1]["arg"]["as_float"]
        for side, name, order in (
            ("input", "quantize_per_tensor", graph["nodes"]),
            ("output", "dequantize_per_tensor", graph["nodes"][::-1]),
        )
    }
    named = next(name for name in calls if " #" in name)
    for entry, old, new, differs in (
        (EDGE, sizes, sizes.replace("8", "9"), "its input 0 has the shape (1, 4, 9, 9), the program's (1, 4, 8, 8)"),
        (EDGE, repr(scales["input"]), "0.5", "its input 0 is quantized by 0.5 from "),
        (EDGE, repr(scales["output"]), "0.5", "its output 0 is quantized by 0.5 from "),
        (
            "delegate_map",
            named,
            "lut_s8 #70",
            "its delegate at instruction 1 calls `lut_s8 #70`, the program's does not",
        ),
        (
            "delegate_map",
            marks[1],
            "payload 0123abcd",
            "its delegate at instruction 3 was compiled from other weights or with other options",
        ),
        ("debug_handle_map", '{"0"', '{"99": 1, "0"', "it has an instruction 99, the program's last is "),
    ):
        other = _edited(record, entry, old, new, tmp_path / "other")
        with pytest.raises(InputError) as refused:
            api.explain(program, etrecord=other)
        said = f"`{other}` is not the ETRecord of `{program}`: {differs}"
        assert refused.value.message.startswith(said)
        assert refused.value.hint == "give the ETRecord saved with the program"
    compared = deuteron("run", program, "--etrecord", other, "--compare")
    assert (compared.code, compared.out) == (1, "")
    assert compared.err.startswith(f"error: {said}")


def test_what_is_no_etrecord_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record"
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        etrecord.read(path, "forward")
    path.write_bytes(b"no archive")
    with pytest.raises(FormatError, match="this is not an ETRecord of the method `forward`"):
        etrecord.read(path, "forward")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ETRECORD_V0", "")
        archive.writestr("debug_handle_map", '{"forward": {"0": {}}}')
        archive.writestr("delegate_map", '{"forward": {}}')
        archive.writestr("edge_dialect_exported_program/forward", '{"graph_module": {"graph": {"nodes": []}}}')
    with pytest.raises(FormatError, match="this is not an ETRecord of the method `forward`"):
        etrecord.read(path, "forward")


def changed_entry(data: bytearray, field: int, value: int) -> None:
    """Change a field of the first entry, in place and in the directory at the end."""
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(signature) + offset + field] = value


@pytest.mark.parametrize("damage", ["nested", "encrypted", "compressed otherwise", "damaged"])
def test_a_record_that_no_reader_takes_is_refused(damage: str, tmp_path: Path) -> None:
    path, depth = tmp_path / "record", 100_000 if damage == "nested" else 1
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("debug_handle_map", "[" * depth + "]" * depth)
    data = bytearray(path.read_bytes())
    if damage == "encrypted":
        changed_entry(data, 0, 1)
    if damage == "compressed otherwise":
        changed_entry(data, 2, 99)
    if damage == "damaged":
        data[30 + len("debug_handle_map")] = 0xFF  # no block of deflate begins so
    path.write_bytes(data)
    with pytest.raises(FormatError, match="this is not an ETRecord of the method `forward`"):
        etrecord.read(path, "forward")


def test_an_etrecord_is_of_programs_alone(deuteron: Run, tmp_path: Path) -> None:
    assert deuteron("explain", tmp_path, "--etrecord", tmp_path / "record") == Result(
        2,
        "",
        f"error: `--etrecord` describes a program, but `{tmp_path}` is not a program\n\nhint: leave it out, or give "
        "the `.pte` file\n",
    )
