"""Builds for Ethos-U: what they keep, where operators run, and what goes wrong."""

import importlib.metadata
import inspect
import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tests import full
from tests.frontend.ethosu.networks import Halves, Layer, built, halves, layer, masked, signal
from tests.store import Network
from torch import Tensor, nn

from deuteron import api
from deuteron.arch import targets
from deuteron.arch.vela import Optimise, VelaOptions
from deuteron.builds import manifest as manifests
from deuteron.errors import DeuteronError, InputError, MissingToolError, OptionError, UnsupportedError
from deuteron.frontend.backends.ethosu import upstream, vela
from deuteron.frontend.backends.ethosu.partition_manifest import describe
from deuteron.frontend.backends.ethosu.upstream import EthosUPartition, compile_spec
from deuteron.npu.ethosu.program import program_of
from deuteron.runtime import pte
from deuteron.runtime.host import HostRunner
from deuteron.runtime.partitions import partitions_of

ROOT = Path(__file__).parents[3]
X = torch.linspace(-1, 1, 8).reshape(1, 8)


def ran(make: Network) -> npt.NDArray[np.generic]:
    """Return the outputs of a network's build for the input that it was calibrated with."""
    return HostRunner(built(make) / "model.pte").run([x.numpy() for x in make()[1]])[0]


def in_float(make: Network) -> npt.NDArray[np.generic]:
    """Return PyTorch's outputs."""
    module, inputs, _ = make()
    return module(*inputs).detach().numpy()


def test_a_layer_runs_on_the_npu() -> None:
    directory = built(layer)
    manifest = manifests.read(directory)
    (partition,) = manifest.partitions
    assert {(node.op, node.partition, node.why) for node in manifest.nodes} >= {
        ("aten::convolution", 0, ""),
        ("aten::relu", 0, ""),
        ("aten::sum.dim_IntList", 0, ""),  # what the backend makes of a mean
    }
    assert {node.source[0].code for node in manifest.nodes} == {"y = torch.relu(self.conv(x))", "return y.mean((2, 3))"}
    assert [t.shape[-3:] for t in partition.inputs] == [(3, 8, 8)]
    assert [op.op.partition("::")[2] for op in manifest.cpu_ops] == ["quantize_per_tensor", "dequantize_per_tensor"]
    assert list(manifest.files) == ["model.pte", "reference.pt2", "npu_0.tosa", "npu_0.xml", "samples.npz"]
    assert (directory / "npu_0.tosa").read_bytes()[4:8] == b"TOSA"
    assert (directory / "npu_0.xml").read_text().startswith("<?xml")
    assert ran(layer) == pytest.approx(in_float(layer), abs=0.02)


def test_the_program_is_what_executorch_alone_writes() -> None:
    """Nothing that the build asks for besides is in it, and no folder of this machine."""
    data = (built(layer) / "model.pte").read_bytes()
    assert b"--optimise=Performance --accelerator-config=ethos-u55-128" in data
    for other in (b"debug", b"/tmp", b"stack_trace"):
        assert other not in data


def test_what_the_npu_leaves_says_why_and_parts_the_model() -> None:
    directory = built(halves)
    manifest = manifests.read(directory)
    assert len(manifest.partitions) == 2
    left = [(node.op, node.why) for node in manifest.nodes if node.partition is None]
    backend = "ExecuTorch's Ethos-U backend: Had torch.bool"
    assert left == [
        ("aten::gt.Tensor", f"{backend} output that is not supported by TOSA-1.0+INT+int16+int4+u55"),
        ("aten::where.self", f"{backend} input aten_gt_tensor that is not supported by TOSA-1.0+INT+int16+int4+u55"),
    ]
    assert ran(halves) == pytest.approx(in_float(halves), abs=0.02)


def test_the_npu_quantizes_what_only_a_later_partition_reads() -> None:
    manifest = manifests.read(built(masked))
    first, second = manifest.partitions
    assert {t.dtype for t in (*first.inputs, *first.outputs, *second.inputs, *second.outputs)} == {"int8"}
    assert ran(masked) == pytest.approx(in_float(masked), abs=0.03)


def test_signals_are_pooled_on_the_npu() -> None:
    manifest = manifests.read(built(signal))
    (partition,) = manifest.partitions
    assert [op.op.partition("::")[2] for op in manifest.cpu_ops] == ["quantize_per_tensor", "dequantize_per_tensor"]
    assert len(partition.kernels) == 4  # a convolution, a pool, and a transposition before them and behind
    assert ran(signal) == pytest.approx(in_float(signal), abs=0.02)


def test_operators_can_be_kept_on_the_cpu() -> None:
    torch.manual_seed(0)
    module, inputs, _ = layer()
    options = api.BuildOptions(operators_not_to_delegate=("aten::sum",))
    manifest = api.build(module, inputs, target="ethos-u55-128", calibration=[inputs], options=options).manifest
    assert [node.why for node in manifest.nodes if node.partition is None] == [
        "kept on the CPU by `--operators-not-to-delegate aten::sum`"
    ]


def test_a_model_without_a_part_for_the_npu_is_told() -> None:
    options = api.BuildOptions(operators_not_to_delegate=("aten::linear",))
    samples = [(X,), (X / 2,)]
    build = api.build(Halves().first, (X,), target="ethos-u55-128", calibration=samples, options=options)
    assert build.manifest.partitions == ()
    assert build.manifest.warnings == (
        "nothing was delegated to the NPU: none of the model's operators is one that it supports in the form found; "
        "the program runs on the CPU alone",
    )


MINE = """
[System_Config.Ethos_U55_Mine]
core_clock=24e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=1.0
OffChipFlash_clock_scale=0.125
[System_Config.Mine]
axi1_port=OffChipFlash
[Memory_Mode.All]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0
[Memory_Mode.Outside]
arena_mem_area=Axi1
"""


def test_vela_gets_the_options_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file may lie where Vela would look among its own, and where ExecuTorch would part the path."""
    folder = tmp_path / "my board"
    (folder / "files").mkdir(parents=True)
    (folder / "files/mine.ini").write_text(MINE)
    monkeypatch.chdir(folder)
    module, inputs, _ = layer()
    options = api.BuildOptions(vela=VelaOptions("Ethos_U55_Mine", "All", Optimise.SIZE, 4096, "files/mine.ini"))
    build = api.build(module, inputs, target="ethos-u55-128", calibration=[inputs], options=options)
    flags = (
        b"--optimise=Size --arena-cache-size=4096 --accelerator-config=ethos-u55-128 --config=mine.ini "
        b"--output-format=raw --system-config=Ethos_U55_Mine --memory-mode=All"
    )
    assert flags in build.pte
    schedule = build.manifest.partitions[0].schedule
    assert (schedule.system, schedule.clock) == ("Ethos_U55_Mine, All", 24_000_000)
    assert build.manifest.options.vela.vela_config == "files/mine.ini"


KNOWN = "`Ethos_U55_High_End_Embedded`, ExecuTorch's default, for `--vela-system-config`"


@pytest.mark.parametrize(
    ("kind", "content", "options", "message"),
    [
        (
            OptionError, MINE, VelaOptions(),
            f"`mine.ini` has no {KNOWN} of `ethos-u55-128`\n\nhint: choose one of `Ethos_U55_Mine`",
        ),
        (
            OptionError, MINE, VelaOptions("Mine"),
            "mine.ini: `Mine` does not begin with `Ethos_U55_`, and Vela takes from the name how wide the NPU's ports "
            "are\n\nhint: rename the section to `[System_Config.Ethos_U55_Mine]`",
        ),
        (
            OptionError, MINE, VelaOptions("Ethos_U55_Mine", "Outside"),
            "`--memory-mode Outside` has tensors outside the SRAM, where `Ethos_U55_Mine` of `ethos-u55-128` has "
            "OffChipFlash, which cannot be written\n\nhint: choose one of `All`",
        ),
        (
            InputError, MINE.replace("axi1_port", "port"), VelaOptions("Ethos_U55_Mine", "All"),
            "mine.ini: `[System_Config.Ethos_U55_Mine]` has no `axi1_port`\n\nhint: add it to the section",
        ),
        (
            InputError, MINE.replace("OffChipFlash_clock", "Dram_clock"), VelaOptions("Ethos_U55_Mine", "All"),
            "mine.ini: `[System_Config.Ethos_U55_Mine]` has no `OffChipFlash_clock_scale`\n\n"
            "hint: add it to the section",
        ),
        (
            InputError, MINE.replace("const_mem", "other"), VelaOptions("Ethos_U55_Mine", "All"),
            "mine.ini: `[Memory_Mode.All]` has no `const_mem_area`\n\nhint: add it to the section",
        ),
        (
            InputError, "core_clock=24e6", VelaOptions("Ethos_U55_Mine", "All"),
            "mine.ini: this is no configuration file: File contains no section headers.\n\nhint: see the one that Vela "
            "comes with, `Arm/vela.ini`",
        ),
        (InputError, None, VelaOptions(), "mine.ini: cannot read the configuration file: No such file or directory"),
    ],
    ids=["no default", "name", "mode", "no port", "no bandwidth", "no area", "no sections", "missing"],
)  # fmt: skip
def test_what_is_wrong_with_a_file_for_vela(
    kind: type[DeuteronError], content: str | None, options: VelaOptions, message: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("mine.ini").write_text(content)
    assert refused(kind, vela=replace(options, vela_config="mine.ini")) == message


MINE_AT = "[System_Config.Ethos_U55_Mine]"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("core_clock=24e6", "", f"`{MINE_AT}` has no `core_clock`\n\nhint: add it to the section"),
        (
            "core_clock=24e6", "core_clock=fast",
            f"`core_clock` of `{MINE_AT}` cannot be `fast`\n\nhint: give a number above 0",
        ),
        (
            "core_clock=24e6", "core_clock=0",
            f"`core_clock` of `{MINE_AT}` cannot be `0`\n\nhint: give a number above 0",
        ),
        (
            "Sram_clock_scale=1.0", "Sram_clock_scale=nan",
            f"`Sram_clock_scale` of `{MINE_AT}` cannot be `nan`\n\nhint: give a number above 0",
        ),
        (
            "axi0_port=Sram", "axi0_port=Foo",
            f"`axi0_port` of `{MINE_AT}` cannot be `Foo`\n\n"
            "hint: choose one of `Sram`, `Dram`, `OnChipFlash`, `OffChipFlash`",
        ),
        (
            "Sram_clock_scale", "Sram_burst_length=32.5\nSram_clock_scale",
            f"`Sram_burst_length` of `{MINE_AT}` cannot be `32.5`\n\nhint: give a whole number",
        ),
        (
            "arena_mem_area=Axi0", "arena_mem_area=Axi9",
            "`arena_mem_area` of `[Memory_Mode.All]` cannot be `Axi9`\n\nhint: choose one of `Axi0`, `Axi1`",
        ),
        (
            "arena_mem_area=Axi0", "arena_mem_area=Axi0\narena_cache_size=much",
            "`arena_cache_size` of `[Memory_Mode.All]` cannot be `much`\n\nhint: give a whole number",
        ),
        (
            "cache_mem_area=Axi0", "cache_mem_area=Axi1",
            "`cache_mem_area` of `[Memory_Mode.All]` is `Axi1`, where `Ethos_U55_Mine` has OffChipFlash\n\n"
            "hint: Vela takes `Sram` there",
        ),
        (
            "axi0_port=Sram", "axi0_port=%Sram",
            f"`{MINE_AT}`: '%' must be followed by '%' or '(', found: '%Sram'\n\nhint: write `%%` for a percent sign",
        ),
        (
            MINE_AT, f"{MINE_AT}\ninherit=System_Config.Nobody",
            f"`{MINE_AT}` inherits from `[System_Config.Nobody]`, which is not there\n\n"
            f"hint: repair `inherit` of `{MINE_AT}`",
        ),
        (
            MINE_AT, f"[System_Config.A]\ninherit=System_Config.Ethos_U55_Mine\n{MINE_AT}\ninherit=System_Config.A",
            f"`[System_Config.A]` inherits from `{MINE_AT}`, which is its own heir\n\n"
            "hint: repair `inherit` of `[System_Config.A]`",
        ),
    ],
    ids=["no clock", "word", "zero", "nan", "memory", "part", "area", "size", "cache", "percent", "nobody", "circle"],
)  # fmt: skip
def test_values_that_vela_does_not_take(
    before: str, after: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.ini").write_text(MINE.replace(before, after, 1))
    options = VelaOptions("Ethos_U55_Mine", "All", vela_config="mine.ini")
    assert refused(InputError, vela=options) == f"mine.ini: {message}"


def test_names_of_files_for_vela() -> None:
    assert refused(OptionError, vela=VelaOptions(vela_config="my board.ini")) == (
        "`--vela-config my board.ini`: Vela takes files whose names end in `.ini`, and ExecuTorch parts options at "
        "spaces\n\nhint: rename the file"
    )


@pytest.mark.parametrize(
    "target", full.only(["ethos-u55-32", "ethos-u65-512", "ethos-u85-1024"], "ethos-u65-512", "ethos-u85-1024")
)
def test_a_target_is_the_accelerator(target: str) -> None:
    method = pte.read((built(layer, target) / "model.pte").read_bytes()).methods[0]
    (partition,) = partitions_of(method)
    payload = method.delegates[partition.delegate].payload
    assert program_of(payload, "npu 0").stream.config.name == target


def test_commands_for_another_accelerator_are_no_build_of_this_one() -> None:
    method = pte.read((built(layer) / "model.pte").read_bytes()).methods[0]
    other = targets.load("ethos-u55-256").npu
    assert isinstance(other, targets.EthosU)
    with pytest.raises(UnsupportedError) as caught:
        describe(0, EthosUPartition(payload=method.delegates[0].payload), other)
    assert str(caught.value) == (
        "npu 0: the commands are for `ethos-u55-128`, the build is for `ethos-u55-256`\n\n"
        "hint: install the releases that `deuteron doctor` names"
    )


def test_what_vela_finds_wrong_is_an_error() -> None:
    """Vela 5.1.0 says that it writes a table behind the 16 KiB of SHRAM, goes on, and ends with exit code 0."""
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Hardswish()).eval()
    x = torch.randn(1, 3, 8, 8)
    with pytest.raises(UnsupportedError) as caught:
        api.build(module, (x,), target="ethos-u55-64", calibration=[(x,)])
    assert str(caught.value) == (
        "[0] Conv2d: Vela compiled partition 0, which begins at `Conv2d`, wrong, and says: Address out of bounds, "
        "address 16384, memory 'shram' with size 16384\n\n"
        "hint: keep an operator on the CPU with `--operators-not-to-delegate`, or build for another "
        "accelerator"
    )


class Indexed(nn.Module):
    """An indexed axis before an operator of several samples."""

    def forward(self, x: Tensor) -> Tensor:
        return x[0] * 0.5


def test_a_crash_of_vela_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the workaround Vela 5.1.0 recurses here until its stack ends."""
    monkeypatch.setattr(upstream, "separate", lambda *_, **__: None)
    x = torch.randn(3, 4, 2, 16, 4)
    with pytest.raises(UnsupportedError) as caught:
        api.build(Indexed().eval(), (x,), target="ethos-u55-128", calibration=[(x,)])
    line = inspect.getsourcelines(Indexed)[1] + 4
    assert str(caught.value).splitlines() == [
        f"{__file__}:{line}: signal 11 ended Vela: Segmentation fault; it does not compile partition 0, "
        "which begins at `return x[0] * 0.5`",
        "",
        "hint: keep an operator on the CPU with `--operators-not-to-delegate`, or build for another accelerator",
    ]


def refused(kind: type[DeuteronError], target: str = "ethos-u55-128", **options: object) -> str:
    with pytest.raises(kind) as caught:
        api.build(Layer(), (X,), target=target, options=cast(Any, api.BuildOptions)(**options))
    return str(caught.value)


FLASH = "Ethos_U85_SYS_Flash_Low"
OUTSIDE = "has tensors outside the SRAM, where"
FITTING = "has OffChipFlash, which cannot be written\n\nhint: choose one of `Sram_Only`, `Shared_Sram`"


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (
            "ethos-u55-128",
            VelaOptions(memory_mode="Dedicated_Sram_256KB"),
            f"`--memory-mode Dedicated_Sram_256KB` {OUTSIDE} `Ethos_U55_High_End_Embedded` of `ethos-u55-128` "
            f"{FITTING}",
        ),
        (
            "ethos-u65-256",
            VelaOptions("Ethos_U65_Embedded"),
            "`--memory-mode Dedicated_Sram_384KB`, ExecuTorch's default, "
            f"{OUTSIDE} `Ethos_U65_Embedded` of `ethos-u65-256` {FITTING}",
        ),
        (
            "ethos-u85-256",
            VelaOptions(FLASH, "Dedicated_Sram"),
            f"`--memory-mode Dedicated_Sram` {OUTSIDE} `{FLASH}` of `ethos-u85-256` {FITTING}",
        ),
    ],
)
def test_memory_modes_are_those_of_the_memories(target: str, options: VelaOptions, message: str) -> None:
    assert refused(OptionError, target, vela=options) == message


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_defaults_are_what_executorch_names(target: str) -> None:
    npu = targets.load(target).npu
    assert isinstance(npu, targets.EthosU)
    system, mode = vela.DEFAULTS[npu.family]
    flags = compile_spec(npu, VelaOptions()).compiler_flags
    assert {f"--system-config={system}", f"--memory-mode={mode}"} <= set(flags)
    vela.check(npu, VelaOptions(system, mode))


def test_options_are_for_targets_that_have_what_they_are_about() -> None:
    assert refused(OptionError, vela=VelaOptions(memory_mode="Mine")) == (
        "Vela knows no `Mine` for `--memory-mode` of `ethos-u55-128`\n\nhint: choose one of `Sram_Only`, `Shared_Sram`"
    )
    assert refused(OptionError, "ethos-u65-256", vela=VelaOptions("Ethos_U55_Deep_Embedded")) == (
        "Vela knows no `Ethos_U55_Deep_Embedded` for `--vela-system-config` of `ethos-u65-256`\n\nhint: choose one of "
        "`Ethos_U65_Embedded`, `Ethos_U65_Mid_End`, `Ethos_U65_High_End`, `Ethos_U65_Client_Server`"
    )
    assert refused(OptionError, "imxrt700", vela=VelaOptions(optimise=Optimise.SIZE)) == (
        "`--optimise` is for Vela, which compiles for Arm Ethos-U alone; `imxrt700` has none\n\n"
        "hint: leave it out, or choose another target: `deuteron targets` lists them"
    )
    assert refused(OptionError, converter=api.Converter.VENDOR) == (
        "`--converter` is for a Neutron; the NPU of `ethos-u55-128` is an Arm Ethos-U\n\nhint: leave it out"
    )
    assert refused(OptionError, partition=api.Partitioning.COST) == (
        "`--partition cost` compares a Neutron with the CPU; `ethos-u55-128` has none\n\nhint: build for "
        "`imxrt700cm`, or with `--partition npu-first`"
    )
    assert refused(OptionError, "cortex-m55", weights=api.WeightValues.INT4) == (
        "`--weights int4` needs a target with an Arm Ethos-U; `cortex-m55` has none\n\nhint: leave it out"
    )
    assert refused(OptionError, "ethos-u65-256cm", weights=api.WeightValues.INT4) == (
        "`--weights int4` needs a target whose operators all run on an Ethos-U; the CPU of `ethos-u65-256cm` runs "
        "some of them in int8\n\nhint: build for `ethos-u65-256`"
    )
    assert refused(OptionError, weights=api.WeightValues.INT4, activations=api.Activations.INT16) == (
        "`--activations int16` and `--weights int4` exclude each other: ExecuTorch supports only one of them\n\n"
        "hint: leave out one of them"
    )
    with pytest.raises(OptionError) as caught:
        VelaOptions(arena_cache_size=0)
    assert str(caught.value) == "`--arena-cache-size` is 0, it must be above 0"


def without(package: str) -> Callable[[str], str]:
    def version(name: str) -> str:
        if name == package:
            raise importlib.metadata.PackageNotFoundError(name)
        return vela.PACKAGES[name][0]

    return version


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", without("ethos-u-vela"))
    assert refused(MissingToolError) == (
        "Vela, package `ethos-u-vela`, without which nothing is built for Arm Ethos-U, is not installed\n\n"
        "hint: install it with `pip install 'deuteron[ethos-u]'`"
    )
    monkeypatch.setattr(importlib.metadata, "version", without("tosa-tools"))
    assert refused(MissingToolError) == (
        "the TOSA tools, package `tosa-tools`, without which nothing is built for Arm Ethos-U, is not installed\n\n"
        "hint: install it with `pip install 'deuteron[ethos-u]'`"
    )
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "5.2.0")
    assert refused(MissingToolError) == (
        "Vela 5.1.0 is required to build for Arm Ethos-U, found 5.2.0\n\n"
        "hint: install it with `pip install ethos-u-vela==5.1.0`"
    )


def test_the_packages_are_those_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {f"{package}=={version}" for package, (version, _) in vela.PACKAGES.items()}
    assert set(project["optional-dependencies"]["ethos-u"]) == wanted
    installed = re.search(r"--no-deps (tosa-tools==[\d.]+)", (ROOT / "Makefile").read_text("utf-8"))
    assert installed
    assert installed[1] in wanted


def test_a_build_is_the_same_each_time() -> None:
    module, inputs, _ = layer()
    first = api.build(module, inputs, target="ethos-u55-128", calibration=[inputs])
    assert first.pte == (built(layer) / "model.pte").read_bytes()
