"""Targets by name: frozen records of chips, read from the TOML presets beside this file.

A figure is never a bare number: it carries its unit, where it was found and how certain it is, so that a report can say
on what its own numbers rest.
"""

import difflib
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import resources

from deuteron.arch.preset import Certainty as Certainty
from deuteron.arch.preset import Figure, Table
from deuteron.errors import OptionError


@dataclass(frozen=True, slots=True)
class Npu:
    """The NPU of a chip; `hw_version` is the number that ExecuTorch's NXP backend knows the generation by."""

    name: str
    family: str
    hw_version: Figure
    units: Figure
    pipelines: Figure
    macs_per_pipeline: Figure
    clock: Figure

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates that the array finishes in one cycle at best."""
        return self.pipelines.value * self.macs_per_pipeline.value


@dataclass(frozen=True, slots=True)
class Cpu:
    """The CPU core that runs the driver."""

    name: str
    clock: Figure


class MemoryKind(Enum):
    """What a memory is made of; the value is its spelling in presets."""

    SRAM = "sram"
    FLASH = "flash"


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory; `npu_access` tells whether the NPU reads it, or a copy by CPU or DMA must come first."""

    name: str
    kind: MemoryKind
    npu_access: bool
    size: Figure
    bandwidth: Figure | None


@dataclass(frozen=True, slots=True)
class Arch:
    """A target: NPU, CPU, memories, and the default size of the area that weights are fetched into."""

    name: str
    title: str
    npu: Npu
    cpu: Cpu
    memories: tuple[Memory, ...]
    prefetch_area: Figure


@cache
def names() -> tuple[str, ...]:
    """Names of all targets, sorted."""
    presets = resources.files("deuteron.arch") / "presets"
    return tuple(sorted(p.name.removesuffix(".toml") for p in presets.iterdir() if p.name.endswith(".toml")))


@cache
def load(name: str) -> Arch:
    """The target of that name.

    Raises:
        OptionError: when there is none; the hint lists names close to it, or all.
    """
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=3, cutoff=0.5)
        listed = ", ".join(f"`{n}`" for n in (near or names()))
        raise OptionError(
            f"unknown target `{name}`",
            hint=f"did you mean {listed}? `deuteron targets` lists all" if near else f"the targets are {listed}",
        )
    text = (resources.files("deuteron.arch") / "presets" / f"{name}.toml").read_text("utf-8")
    return parse(name, text)


def parse(name: str, text: str) -> Arch:
    """The target that a preset describes.

    Raises:
        FormatError: when the text is no TOML, or a field is missing, unknown or of the wrong type.
    """
    table = Table.parse(text, f"target `{name}`")
    npu, cpu, prefetch = table.table("npu"), table.table("cpu"), table.table("prefetch")
    arch = Arch(
        name=name,
        title=table.text("title"),
        npu=Npu(
            name=npu.text("name"),
            family=npu.text("family"),
            hw_version=npu.figure("hw_version"),
            units=npu.figure("units"),
            pipelines=npu.figure("pipelines"),
            macs_per_pipeline=npu.figure("macs_per_pipeline"),
            clock=npu.figure("clock"),
        ),
        cpu=Cpu(name=cpu.text("name"), clock=cpu.figure("clock")),
        memories=tuple(_memory(m) for m in table.tables("memory")),
        prefetch_area=prefetch.figure("area"),
    )
    for part in (table, npu, cpu, prefetch):
        part.finish()
    return arch


def _memory(table: Table) -> Memory:
    memory = Memory(
        name=table.text("name"),
        kind=table.choice("kind", MemoryKind),
        npu_access=table.flag("npu_access"),
        size=table.figure("size"),
        bandwidth=table.figure("bandwidth") if table.has("bandwidth") else None,
    )
    table.finish()
    return memory
