"""Targets by name: frozen records of chips, from the TOML presets in `presets/`."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import resources
from typing import ClassVar

from deuteron.arch.preset import Certainty as Certainty
from deuteron.arch.preset import Figure, Table
from deuteron.errors import OptionError


@dataclass(frozen=True, slots=True)
class EthosU:
    """An Arm Ethos-U, compiled by Arm's Vela; its memories are those of Vela's system configuration.

    Attributes:
        target: Vela's name of the accelerator configuration.
        macs: largest number of multiply-accumulates per cycle.
        clock: clock of ExecuTorch's default system configuration.
    """

    name: str
    family: str
    target: str
    macs: Figure
    clock: Figure

    plans_sram: ClassVar[bool] = False
    uses_vela: ClassVar[bool] = True
    scales_clock: ClassVar[bool] = False
    has_int16: ClassVar[bool] = True
    timing: ClassVar[str] = "estimated"

    @property
    def program_name(self) -> str:
        """The name of the NPU in its programs, which are for one configuration."""
        return self.target

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates that it finishes in one cycle at best."""
        return self.macs.value


@dataclass(frozen=True, slots=True)
class Neutron:
    """A Neutron, NXP's NPU.

    Attributes:
        target: name of such chips in ExecuTorch's NXP backend.
        hw_version: number of the generation in ExecuTorch's NXP backend.
        pipelines: rows of the array of multipliers.
        macs_per_pipeline: its columns.
        elementwise: elements per cycle of kernels without the array.
        sram_port: bytes per cycle between the NPU and SRAM.
        prefetch_area: size of the prefetch area in the vendor's example, for comparisons.
        driver: costs of the CPU that runs the driver.
    """

    name: str
    family: str
    target: str
    hw_version: Figure
    units: Figure
    pipelines: Figure
    macs_per_pipeline: Figure
    clock: Figure
    elementwise: Figure
    sram_port: Figure
    prefetch_area: Figure
    driver: "Driver"

    plans_sram: ClassVar[bool] = True
    uses_vela: ClassVar[bool] = False
    scales_clock: ClassVar[bool] = True
    has_int16: ClassVar[bool] = False
    timing: ClassVar[str] = "simulated"
    program_name: ClassVar[str] = "Neutron"

    @property
    def macs_per_cycle(self) -> int:
        """Largest number of multiply-accumulates per cycle."""
        return self.pipelines.value * self.macs_per_pipeline.value


Npu = Neutron | EthosU
"""The NPU of a target.

Class attributes of each family describe its differences:

* `plans_sram`: Deuteron compiles the programs and plans their SRAM and fetches.
* `uses_vela`: Arm's Vela compiles the programs.
* `scales_clock`: runs can be simulated at another clock.
* `has_int16`: activations may be int16.
* `timing`: the kind of its times.
* `program_name`: its name in programs.
"""


@dataclass(frozen=True, slots=True)
class Driver:
    """The clock of the CPU that runs the NPU's driver, and its cycles per kernel call and fetch."""

    clock: Figure
    call_dispatch: Figure
    fetch_setup: Figure


class CpuOperators(Enum):
    """Operators of the CPU; the value is their name in presets.

    `PORTABLE`: ExecuTorch's portable operators, in float if they have no int8 kernel. `CORTEX_M`: int8 operators,
    lowered for the instruction set of this core.
    """

    PORTABLE = "portable"
    CORTEX_M = "cortex-m"


@dataclass(frozen=True, slots=True)
class Cpu:
    """The CPU core, with its name in ExecuTorch's Cortex-M backend, and its operators."""

    name: str
    operators: CpuOperators


class MemoryKind(Enum):
    """Kind of a memory; the value is its name in presets."""

    SRAM = "sram"
    FLASH = "flash"


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory; without `npu_access`, the CPU or a DMA must copy its content for the NPU.

    `latency` is the time before the first byte of a copy from it arrives.
    """

    name: str
    kind: MemoryKind
    npu_access: bool
    size: Figure
    bandwidth: Figure | None
    latency: Figure | None


@dataclass(frozen=True, slots=True)
class Arch:
    """A target: its CPU, its NPU, if any, and the memories for plans of NPU programs."""

    name: str
    title: str
    npu: Npu | None
    cpu: Cpu
    memories: tuple[Memory, ...]

    def memory(self, kind: MemoryKind) -> Memory:
        """The first memory of that kind."""
        return next(memory for memory in self.memories if memory.kind is kind)

    def need_npu(self, names: Callable[[], tuple[str, ...]] | None = None) -> Npu:
        """Return the NPU; OptionError for a target without one, with `names`, by default all targets with an NPU."""
        if self.npu is None:
            listed = ", ".join(f"`{name}`" for name in (names or npu_names)())
            raise OptionError(f"target `{self.name}` has no NPU", hint=f"choose one that has: {listed}")
        return self.npu

    def need_neutron(self) -> Neutron:
        """Return the Neutron; OptionError for a target without one."""
        if not isinstance(npu := self.need_npu(neutron_names), Neutron):
            listed = ", ".join(f"`{name}`" for name in neutron_names())
            raise OptionError(f"the NPU of `{self.name}` is an Arm Ethos-U", hint=f"this is for {listed}")
        return npu

    def need_ethosu(self) -> EthosU:
        """The NPU; OptionError for a target without one, or with one that is no Ethos-U."""
        if not isinstance(npu := self.need_npu(), EthosU):
            raise OptionError(f"the NPU of `{self.name}` is no Arm Ethos-U", hint="this is for Ethos-U targets")
        return npu


@cache
def names() -> tuple[str, ...]:
    """Names of all targets, sorted."""
    presets = resources.files("deuteron.arch") / "presets"
    return tuple(sorted(p.name.removesuffix(".toml") for p in presets.iterdir() if p.name.endswith(".toml")))


@cache
def npu_names() -> tuple[str, ...]:
    """Names of the targets that have an NPU, sorted."""
    return tuple(name for name in names() if load(name).npu is not None)


@cache
def neutron_names() -> tuple[str, ...]:
    """Names of the targets whose NPU is a Neutron, sorted."""
    return tuple(name for name in npu_names() if isinstance(load(name).npu, Neutron))


def sibling(arch: Arch, operators: CpuOperators) -> Arch | None:
    """The target with the same NPU whose CPU runs these operators; None if there is none."""
    others = (load(name) for name in npu_names())
    return next((other for other in others if other.npu == arch.npu and other.cpu.operators is operators), None)


DEFAULT_WITHOUT_NPU = "cortex-m55"
"""The target of programs without an NPU, if the user names none."""


@cache
def load(name: str) -> Arch:
    """Load the target of this name.

    Raises:
        OptionError: there is none; the hint lists similar names, or all.
    """
    if name not in names():
        near = _near(name.lower()) if name else ()
        listed = ", ".join(f"`{n}`" for n in (near or names()))
        raise OptionError(
            f"unknown target `{name}`",
            hint=f"did you mean {listed}? `deuteron targets` lists all" if near else f"the targets are {listed}",
        )
    return parse(name, _preset(name))


def _near(name: str) -> Sequence[str]:
    """Return the names that begin with `name`, or else those most similar to it."""
    longer = [other for other in names() if other.startswith(name)]
    return longer[:10] or difflib.get_close_matches(name, names(), n=3, cutoff=0.5)


def _preset(name: str) -> str:
    return (resources.files("deuteron.arch") / "presets" / f"{name}.toml").read_text("utf-8")


def parse(name: str, text: str) -> Arch:
    """Parse a preset.

    Raises:
        FormatError: the text is no TOML, or a field is missing, unknown or of the wrong type.
    """
    where = f"target `{name}`"
    table = Table.parse(text, where)
    if table.has("base"):
        table = table.over(Table.parse(_preset(table.text("base")), where))
    cpu = table.table("cpu")
    arch = Arch(
        name=name,
        title=table.text("title"),
        npu=_npu(table, cpu) if table.has("npu") else None,
        cpu=Cpu(name=cpu.text("name"), operators=cpu.choice("operators", CpuOperators)),
        memories=tuple(_memory(m) for m in table.tables("memory")) if table.has("memory") else (),
    )
    for part in (table, cpu):
        part.finish()
    return arch


def _npu(table: Table, cpu: Table) -> Npu:
    npu = table.table("npu")
    parsed = _ethosu(npu) if npu.has("macs") else _neutron(npu, table.table("prefetch"), cpu)
    npu.finish()
    return parsed


def _ethosu(npu: Table) -> EthosU:
    return EthosU(
        name=npu.text("name"),
        family=npu.text("family"),
        target=npu.text("target"),
        macs=npu.figure("macs"),
        clock=npu.figure("clock"),
    )


def _neutron(npu: Table, prefetch: Table, cpu: Table) -> Neutron:
    parsed = Neutron(
        name=npu.text("name"),
        family=npu.text("family"),
        target=npu.text("target"),
        hw_version=npu.figure("hw_version"),
        units=npu.figure("units"),
        pipelines=npu.figure("pipelines"),
        macs_per_pipeline=npu.figure("macs_per_pipeline"),
        clock=npu.figure("clock"),
        elementwise=npu.figure("elementwise"),
        sram_port=npu.figure("sram_port"),
        prefetch_area=prefetch.figure("area"),
        driver=Driver(cpu.figure("clock"), cpu.figure("call_dispatch"), cpu.figure("fetch_setup")),
    )
    prefetch.finish()
    return parsed


def _memory(table: Table) -> Memory:
    memory = Memory(
        name=table.text("name"),
        kind=table.choice("kind", MemoryKind),
        npu_access=table.flag("npu_access"),
        size=table.figure("size"),
        bandwidth=table.figure("bandwidth") if table.has("bandwidth") else None,
        latency=table.figure("latency") if table.has("latency") else None,
    )
    table.finish()
    return memory
