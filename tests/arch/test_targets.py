"""Targets: the presets, and every error of reading one."""

from importlib import resources

import pytest

from deuteron.arch import targets
from deuteron.arch.targets import Certainty, CpuOperators, MemoryKind
from deuteron.errors import FormatError, OptionError

CPUS = ("cortex-m0plus", "cortex-m3", "cortex-m33", "cortex-m4", "cortex-m55", "cortex-m7", "cortex-m85")
ETHOSU = (
    "ethos-u55-128", "ethos-u55-256", "ethos-u55-32", "ethos-u55-64", "ethos-u65-256", "ethos-u65-512",
    "ethos-u85-1024", "ethos-u85-128", "ethos-u85-2048", "ethos-u85-256", "ethos-u85-512",
)  # fmt: skip
BESIDE = tuple(f"{name}cm" for name in ETHOSU if "u85" not in name)
NPUS = (*sorted((*ETHOSU, *BESIDE)), "imxrt700", "imxrt700cm", "mcxn947")
ALL = ", ".join(f"`{name}`" for name in (*CPUS, *NPUS))


def preset(name: str = "imxrt700") -> str:
    return (resources.files("deuteron.arch") / "presets" / f"{name}.toml").read_text("utf-8")


def test_names_lists_every_preset():
    assert targets.names() == (*CPUS, *NPUS)
    assert targets.npu_names() == NPUS
    assert targets.neutron_names() == ("imxrt700", "imxrt700cm", "mcxn947")


def test_imxrt700_has_the_published_figures():
    arch = targets.load("imxrt700")
    npu = arch.need_neutron()
    assert (npu.name, arch.cpu.name) == ("neutron-c-n3-64", "cortex-m33")
    assert (npu.hw_version.value, npu.pipelines.value, npu.macs_per_pipeline.value) == (2, 8, 8)
    assert npu.macs_per_cycle == 64
    assert [(m.name, m.kind, m.npu_access) for m in arch.memories] == [
        ("sram", MemoryKind.SRAM, True),
        ("xspi0", MemoryKind.FLASH, False),
    ]
    assert npu.prefetch_area.value == 1200 * 1024


def test_mcxn947_has_a_quarter_of_the_array_and_its_own_memories():
    arch = targets.load("mcxn947")
    npu = arch.need_neutron()
    assert (npu.name, npu.family, npu.macs_per_cycle, npu.clock.value) == (
        "neutron-c-n1-16",
        "neutron-c",
        16,
        150_000_000,
    )
    assert [(m.kind, m.size.value) for m in arch.memories] == [
        (MemoryKind.SRAM, 512 << 10),
        (MemoryKind.FLASH, 2 << 20),
    ]
    assert npu.clock.certainty is Certainty.UNVERIFIED


@pytest.mark.parametrize("name", BESIDE)
def test_an_ethos_u_beside_a_cpu_at_work_is_the_same(name: str):
    alone, beside = targets.load(name.removesuffix("cm")), targets.load(name)
    assert (beside.npu, beside.cpu.name, beside.cpu.operators) == (alone.npu, alone.cpu.name, CpuOperators.CORTEX_M)


def test_the_combined_target_is_the_same_chip_with_int8_operators_on_the_cpu():
    npu, combined = targets.load("imxrt700"), targets.load("imxrt700cm")
    assert (npu.cpu.operators, combined.cpu.operators) == (CpuOperators.PORTABLE, CpuOperators.CORTEX_M)
    assert (combined.npu, combined.memories, combined.cpu.name) == (npu.npu, npu.memories, npu.cpu.name)


@pytest.mark.parametrize("name", CPUS)
def test_a_cpu_alone_has_no_npu(name: str):
    arch = targets.load(name)
    assert (arch.cpu.name, arch.cpu.operators, arch.npu) == (name, CpuOperators.CORTEX_M, None)
    with pytest.raises(OptionError) as caught:
        arch.need_npu()
    listed = ", ".join(f"`{npu}`" for npu in NPUS)
    assert str(caught.value) == f"target `{name}` has no NPU\n\nhint: choose one that has: {listed}"


@pytest.mark.parametrize("name", ETHOSU)
def test_an_ethos_u_is_what_vela_calls_it(name: str):
    arch = targets.load(name)
    assert isinstance(arch.npu, targets.EthosU)
    assert (arch.npu.target, f"{arch.npu.family}-{arch.npu.macs_per_cycle}") == (name, name)
    cpu = "cortex-m85" if "u85" in name else "cortex-m55"
    assert (arch.cpu.name, arch.cpu.operators, arch.memories) == (cpu, CpuOperators.PORTABLE, ())
    with pytest.raises(OptionError) as caught:
        arch.need_neutron()
    assert (
        str(caught.value)
        == f"the NPU of `{name}` is an Arm Ethos-U\n\nhint: this is for `imxrt700`, `imxrt700cm`, `mcxn947`"
    )


def test_a_figure_without_a_primary_source_says_so():
    assert targets.load("imxrt700").need_neutron().sram_port.certainty is Certainty.UNVERIFIED


def test_load_gives_the_same_record_each_time():
    assert targets.load("imxrt700") is targets.load("imxrt700")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "imxrt70",
            "unknown target `imxrt70`\n\nhint: did you mean `imxrt700`, `imxrt700cm`? `deuteron targets` lists all",
        ),
        (
            "stm32n6",
            "unknown target `stm32n6`\n\nhint: the targets are " + ALL,
        ),
        (
            "ethos-u55",
            "unknown target `ethos-u55`\n\nhint: did you mean `ethos-u55-128`, `ethos-u55-128cm`, `ethos-u55-256`, "
            "`ethos-u55-256cm`, `ethos-u55-32`, `ethos-u55-32cm`, `ethos-u55-64`, `ethos-u55-64cm`? "
            "`deuteron targets` lists all",
        ),
        (
            "cortex-m5",
            "unknown target `cortex-m5`\n\nhint: did you mean `cortex-m55`? `deuteron targets` lists all",
        ),
        (
            "Ethos-U55-128",
            "unknown target `Ethos-U55-128`\n\nhint: did you mean `ethos-u55-128`, `ethos-u55-128cm`? `deuteron "
            "targets` lists all",
        ),
        (
            "cortex-m-55",
            "unknown target `cortex-m-55`\n\nhint: did you mean `cortex-m55`, `cortex-m85`, `cortex-m7`? `deuteron "
            "targets` lists all",
        ),
        ("", "unknown target ``\n\nhint: the targets are " + ALL),
        (
            "../presets/imxrt700",
            "unknown target `../presets/imxrt700`\n\n"
            "hint: did you mean `imxrt700`, `imxrt700cm`? `deuteron targets` lists all",
        ),
    ],
)
def test_unknown_target(name: str, text: str):
    with pytest.raises(OptionError) as caught:
        targets.load(name)
    assert str(caught.value) == text
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('title = "NXP i.MX RT700"', "", "target `t`: field `title` is missing"),
        ('title = "NXP i.MX RT700"', "title = 7", "target `t`: field `title` is 7, which is no str"),
        ('kind = "flash"', 'kind = "rom"', "target `t`, `memory` 1: field `kind` is `rom`, allowed are sram, flash"),
        (
            "pipelines = { value = 8,",
            "pipelines = { value = 0,",
            "target `t`, table `npu`: figure `pipelines` is 0, it must be above 0",
        ),
        (
            'certainty = "unverified"',
            'certainty = "sure"',
            "target `t`, table `npu`, table `sram_port`: field `certainty` is `sure`, "
            "allowed are measured, quoted, derived, unverified",
        ),
        ('family = "neutron-c"', 'family = "n"\nsize = 1', "target `t`, table `npu`: unknown field `size`"),
    ],
)
def test_a_bad_preset_is_refused(old: str, new: str, text: str):
    source = preset()
    assert old in source
    with pytest.raises(FormatError) as caught:
        targets.parse("t", source.replace(old, new, 1))
    assert str(caught.value) == text


def test_text_that_is_no_toml_is_refused():
    with pytest.raises(FormatError, match=r"^target `t`: not a TOML file: "):
        targets.parse("t", "title = ")
