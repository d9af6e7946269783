"""Targets by name: frozen records of chips, read from the TOML presets beside this file.

A figure is never a bare number: it carries its unit, where it was found and how certain it is, so that a report can say
on what its own numbers rest.
"""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import resources
from typing import TypeVar, cast

from deuteron.errors import FormatError, OptionError

_T = TypeVar("_T")
_E = TypeVar("_E", bound=Enum)


class Certainty(Enum):
    """How a figure is known; the value is its spelling in presets and reports."""

    MEASURED = "measured"
    QUOTED = "quoted"
    DERIVED = "derived"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True)
class Figure:
    """One hardware figure: a whole number in `unit` (empty for a plain count), its certainty and its source."""

    value: int
    unit: str
    certainty: Certainty
    source: str


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
    where = f"target `{name}`"
    try:
        table = _Table(tomllib.loads(text), where)
    except tomllib.TOMLDecodeError as e:
        raise FormatError(f"not a TOML file: {e}", where=where) from e
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


def _memory(table: "_Table") -> Memory:
    memory = Memory(
        name=table.text("name"),
        kind=table.choice("kind", MemoryKind),
        npu_access=table.flag("npu_access"),
        size=table.figure("size"),
        bandwidth=table.figure("bandwidth") if table.has("bandwidth") else None,
    )
    table.finish()
    return memory


class _Table:
    """A TOML table that is read field by field and then has nothing left over."""

    def __init__(self, data: Mapping[str, object], where: str) -> None:
        self._left = dict(data)
        self._where = where

    def has(self, key: str) -> bool:
        return key in self._left

    def _take(self, key: str, kind: type[_T]) -> _T:
        value = self._left.pop(key, None)
        if value is None:
            raise FormatError(f"field `{key}` is missing", where=self._where)
        if type(value) is not kind:
            raise FormatError(f"field `{key}` is {value!r}, which is no {kind.__name__}", where=self._where)
        return value

    def text(self, key: str) -> str:
        return self._take(key, str)

    def number(self, key: str) -> int:
        return self._take(key, int)

    def flag(self, key: str) -> bool:
        return self._take(key, bool)

    def choice(self, key: str, kind: type[_E]) -> _E:
        value = self._take(key, str)
        allowed = [str(member.value) for member in kind]
        if value not in allowed:
            raise FormatError(f"field `{key}` is `{value}`, allowed are {', '.join(allowed)}", where=self._where)
        return kind(value)

    def table(self, key: str) -> "_Table":
        return _Table(cast(dict[str, object], self._take(key, dict)), f"{self._where}, table `{key}`")

    def tables(self, key: str) -> tuple["_Table", ...]:
        items = cast(list[dict[str, object]], self._take(key, list))
        return tuple(_Table(item, f"{self._where}, `{key}` {i}") for i, item in enumerate(items))

    def figure(self, key: str) -> Figure:
        table = self.table(key)
        figure = Figure(
            table.number("value"), table.text("unit"), table.choice("certainty", Certainty), table.text("source")
        )
        if figure.value <= 0:
            raise FormatError(f"figure `{key}` is {figure.value}, it must be above 0", where=self._where)
        table.finish()
        return figure

    def finish(self) -> None:
        if self._left:
            raise FormatError(f"unknown field `{min(self._left)}`", where=self._where)
