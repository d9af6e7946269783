"""Specification of a sweep: a TOML file, or an equal mapping, which is read and checked before any work."""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from itertools import product
from math import prod
from pathlib import Path
from typing import cast

from deuteron.arch import targets
from deuteron.arch.memory import Effort, FetchPolicy
from deuteron.arch.sizes import parse_size
from deuteron.arch.targets import CpuOperators
from deuteron.arch.vela import Optimise
from deuteron.builds.options import Partitioning, WeightBits
from deuteron.builds.parameters import every
from deuteron.errors import FormatError, InputError, OptionError, unreadable

Value = str | int | None
"""A value of an axis; None keeps the value of the build or its target."""


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of values; None keeps the default of the target or of ExecuTorch.

    Attributes:
        number: its index among all points of the sweep.
        model: name in the sweep's file.
        target: a name of `deuteron targets`.
        partition: division between NPU and CPU, see `deuteron build`.
        weights_bits: bits of the weights of layers on a Cortex-M, see `deuteron build`.
        vela_system_config: option of Vela, as the next three.
        memory_mode: option of Vela.
        optimise: option of Vela.
        arena_cache_size: option of Vela; bytes.
        fetch_constants_to_sram: policy for fetching weights.
        effort: effort of the planner.
        sram_budget: bytes of SRAM to plan for.
        weights_budget: bytes of it for weights.
        flash_bandwidth: bytes per second, also for the plan if there is a budget.
        flash_latency: nanoseconds.
        clock: Hz of NPU and CPU.
    """

    number: int
    model: str
    target: str
    partition: str | None = None
    weights_bits: str | None = None
    vela_system_config: str | None = None
    memory_mode: str | None = None
    optimise: str | None = None
    arena_cache_size: int | None = None
    fetch_constants_to_sram: str | None = None
    effort: str | None = None
    sram_budget: int | None = None
    weights_budget: int | None = None
    flash_bandwidth: int | None = None
    flash_latency: int | None = None
    clock: int | None = None


BUILD_AXES = ("partition", "weights_bits", "vela_system_config", "memory_mode", "optimise", "arena_cache_size")
"""Axes that need another lowering."""

PLAN_AXES = ("fetch_constants_to_sram", "effort", "sram_budget", "weights_budget")
"""Axes that need another plan."""

FLASH_AXES = ("flash_bandwidth", "flash_latency")
_VELA_AXES = BUILD_AXES[2:]
_PLURALS = {"models": "model", "targets": "target"}
MOST = (1 << 63) - 1
"""Maximum of an integer column."""

MOST_POINTS = 5_000_000
"""Maximum number of points that are listed and evaluated one by one."""

MOST_VALUES = 50_000
"""Maximum number of values of an axis, which are listed and stored in the sweep's directory."""

_SIZES = ("sram_budget", "weights_budget", "arena_cache_size", "flash_bandwidth", "clock")
_CHOICES: Mapping[str, type[Enum]] = {
    "partition": Partitioning,
    "weights_bits": WeightBits,
    "optimise": Optimise,
    "fetch_constants_to_sram": FetchPolicy,
    "effort": Effort,
}
AXES = tuple(field.name for field in fields(Point))[1:]
KEYS = ("models", "targets", *AXES[2:], "evaluate", "code_size")


def lacking(point: Point) -> tuple[str, ...]:
    """Return the axes with a value that has no effect on the point's target."""
    arch = targets.load(point.target)
    npu = arch.npu
    absent = () if npu and npu.uses_vela else _VELA_AXES
    absent += () if arch.cpu.operators is CpuOperators.CORTEX_M else ("weights_bits",)
    if npu is None or not npu.plans_sram:
        absent += (*(axis for axis in PLAN_AXES if npu or axis != "sram_budget"), *FLASH_AXES)
    if npu and not npu.scales_clock:
        absent += ("clock",)
    return tuple(axis for axis in AXES if axis in absent and getattr(point, axis) is not None)


def without(point: Point, axes: Sequence[str]) -> Point:
    """Return the point with its target's defaults for these axes."""
    return replace(point, **dict.fromkeys(axes)) if axes else point


@dataclass(frozen=True, slots=True)
class Spec:
    """A sweep.

    Attributes:
        folder: base directory of models' paths.
        axes: the values of each, by name, in the order of `Point`.
        written: the models as given, with lists of values for their parameters.
        evaluate: `FILE.py:FUNCTION` that measures each build, as `deuteron build --evaluate`; None for none.
        code_size: true if the code size of each build's firmware is measured.
    """

    folder: Path
    axes: Mapping[str, tuple[Value, ...]]
    written: tuple[str, ...]
    evaluate: str | None = None
    code_size: bool = False

    @property
    def count(self) -> int:
        """Return the number of combinations."""
        return prod(len(self.axes[name]) for name in AXES)

    def number(self, places: Sequence[int]) -> int:
        """Return the number of the point with the value at this index of each axis."""
        number = 0
        for name, place in zip(AXES, places, strict=True):
            number = number * len(self.axes[name]) + place
        return number

    def point(self, number: int) -> Point:
        """Return the point of that number."""
        values: dict[str, Value] = {}
        left = number
        for name in reversed(AXES):
            left, place = divmod(left, len(self.axes[name]))
            values[name] = self.axes[name][place]
        return Point(number, **values)  # pyright: ignore[reportArgumentType]

    def points(self) -> tuple[Point, ...]:
        """Return all combinations; the last axis changes first.

        Raises:
            OptionError: there are too many to evaluate them all.
        """
        if self.count > MOST_POINTS:
            raise OptionError(
                f"the sweep has {self.count:,} points, at most {MOST_POINTS:,} can be evaluated",
                hint="remove values, or search the best with `--search`",
            )
        combinations = product(*(self.axes[name] for name in AXES))
        return tuple(
            Point(number, **dict(zip(AXES, values, strict=True)))  # pyright: ignore[reportArgumentType]
            for number, values in enumerate(combinations)
        )

    def to_json(self) -> dict[str, object]:
        """Return the identity of the sweep: everything except the folder."""
        axes = {name: list(values) for name, values in self.axes.items()}
        return {**axes, "evaluate": self.evaluate, "code_size": self.code_size}


def read(path: Path) -> Spec:
    """Read the sweep that a file describes.

    Raises:
        InputError: it cannot be read.
        FormatError: it is not TOML.
        OptionError: an entry is unknown, or cannot have its value.
    """
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as e:
        raise unreadable(path, e) from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise FormatError(f"`{path}` is not TOML: {e}", hint="see `deuteron sweep --help` for an example") from e
    return parse(table, path.absolute().parent, str(path))


def parse(table: Mapping[str, object], folder: Path, where: str) -> Spec:
    """Parse the sweep that a mapping describes; raises the errors of `read`, placed at `where`."""
    for key in table:
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=2, cutoff=0.5)
            listed = " or ".join(f"`{name}`" for name in near)
            allowed = ", ".join(f"`{name}`" for name in KEYS)
            hint = f"did you mean {listed}?" if near else f"allowed are {allowed}"
            raise OptionError(f"unknown entry `{key}`", where=where, hint=hint)
    for key in _PLURALS:
        if key not in table:
            raise OptionError(f"`{key}` is missing", where=where, hint='such as `models = ["digits"]`')
    axes = {_PLURALS.get(key, key): _values(key, table[key], where) if key in table else (None,) for key in KEYS[:-2]}
    evaluate = table.get("evaluate")
    if evaluate is not None:
        evaluate = _evaluate(evaluate, folder, where)
    models = table["models"]
    written = tuple(str(m) for m in cast("Sequence[object]", models)) if isinstance(models, list | tuple) else (models,)
    code_size = table.get("code_size", False)
    if not isinstance(code_size, bool):
        raise OptionError(f"`code_size` is {code_size!r}", where=where, hint="give `true` or `false`")
    return Spec(folder, axes, cast("tuple[str, ...]", written), evaluate, code_size)


def _evaluate(value: object, folder: Path, where: str) -> str:
    """Check the function that measures builds, because a wrong name would fail at every point."""
    file, colon, function = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not (colon and file and function.isidentifier()):
        raise OptionError(
            f"`evaluate` is {value!r}", where=where, hint='give one function: `evaluate = "file.py:function"`'
        )
    try:
        text = (folder / file).read_text("utf-8")
    except (OSError, ValueError) as e:
        raise InputError(
            f"the file `{file:.60}` of `evaluate` cannot be read: {getattr(e, 'strerror', None) or e}", where=where
        ) from e
    if not re.search(rf"\b{function}\b", text):
        raise InputError(f"`{file}` has no function `{function}` for `evaluate`", where=where, hint="check its name")
    return f"{file}:{function}"


def _values(key: str, data: object, where: str) -> tuple[Value, ...]:
    """Return the checked values of one axis."""
    items: Sequence[object] = cast("list[object]", data) if isinstance(data, list | tuple) else [data]
    if not items:
        raise OptionError(f"`{key}` is empty", where=where, hint="give at least one value, or leave the entry out")
    values: dict[Value, None] = {}
    try:
        for value in (value for item in items for value in _each(key, item)):
            if value in values:
                raise OptionError(f"`{key}` has {value!r} twice", hint="leave one of them out")
            if len(values) == MOST_VALUES:
                hint = "give fewer values, for example of parameters"
                raise OptionError(f"`{key}` has more than {MOST_VALUES:,} values", hint=hint)
            values[value] = None
    except OptionError as e:
        message = e.message.replace(f"`--{key.replace('_', '-')}`", f"`{key}`")  # sizes are parsed like options
        raise OptionError(message, where=where, hint=e.hint) from e
    return tuple(values)


def _each(key: str, item: object) -> Iterator[Value]:
    """Yield the values of an item; for a model with lists of parameters, each combination."""
    value = _value(key, item)
    if key == "models" and isinstance(value, str):
        yield from every(value)
    else:
        yield value


def _value(key: str, item: object) -> Value:
    if key in _SIZES and type(item) in (str, int):
        return _above(0, key, parse_size(f"--{key.replace('_', '-')}", str(item)))
    if key == "flash_latency" and type(item) is int:
        return _above(-1, key, item)
    if isinstance(item, str) and key in _CHOICES:
        return _one_of(key, item, [member.value for member in _CHOICES[key]])
    if isinstance(item, str) and item and key not in (*_SIZES, "flash_latency"):
        return targets.load(item).name if key == "targets" else item

    wanted = "whole numbers" if key in (*_SIZES, "flash_latency") else "names, in quotes"
    raise OptionError(f"`{key}` cannot be {item!r}", hint=f"give {wanted}")


def _above(limit: int, key: str, value: int) -> int:
    if value <= limit:
        raise OptionError(f"`{key}` is {value}, it must be {limit + 1} or more")
    if value > MOST:
        raise OptionError(f"`{key}` is {value}, it must be at most {MOST}")
    return value


def _one_of(key: str, item: str, allowed: Sequence[str]) -> str:
    if item not in allowed:
        raise OptionError(f"`{key}` cannot be `{item}`", hint=f"allowed are {', '.join(f'`{a}`' for a in allowed)}")
    return item
