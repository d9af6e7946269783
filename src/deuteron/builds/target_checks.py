"""The result of a check of a model for targets, as a table and as JSON; free of PyTorch."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import Enum

SCHEMA = 1

_WIDTH = 110
"""The width at which targets of one detail wrap."""


class Outcome(Enum):
    """Result of a build for a target; the value is its word in tables."""

    BUILDS = "builds"
    REFUSED = "refused"
    FAILS = "fails"
    """The build ends in an internal error."""


@dataclass(frozen=True, slots=True)
class TargetCheck:
    """The check of a model for one target.

    Attributes:
        target: its name.
        outcome: of a build.
        npu: the number of the model's operators on the NPU.
        cpu: the number of those on the CPU.
        is_portable: whether the CPU has ExecuTorch's portable operators, most of which compute in float.
        sqnr: of the worst output against the float model, in dB; None without float outputs that vary.
        built: the target that was built in its place; empty for itself.
        message: the reason of a refusal, with its line in `where` and a rewrite in `hint`.
        notes: what will be slow or lossy.
    """

    target: str
    outcome: Outcome
    npu: int = 0
    cpu: int = 0
    is_portable: bool = False
    sqnr: float | None = None
    built: str = ""
    message: str = ""
    where: str | None = None
    hint: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """The check of a model for several targets."""

    model: str
    targets: tuple[TargetCheck, ...]

    @property
    def all_build(self) -> bool:
        """True if the model builds for every target."""
        return all(one.outcome is Outcome.BUILDS for one in self.targets)

    def lines(self) -> Iterator[str]:
        """Yield the table, and under it each refusal and note once, with its targets."""
        width = max(len("target"), *(len(one.target) for one in self.targets))
        yield f"{self.model}: what a build does, and how many operators of the model each processor gets"
        yield ""
        yield f"{'target':<{width}}  outcome    NPU    CPU  SQNR, dB"
        for one in self.targets:
            if one.outcome is Outcome.BUILDS:
                sqnr = "-" if one.sqnr is None else f"{one.sqnr:.1f}"
                counts = f"{one.npu:>6}{one.cpu:>7}{sqnr:>10}"
                in_float = "  CPU operators are ExecuTorch's, mostly in float" if one.is_portable and one.cpu else ""
                yield f"{one.target:<{width}}  {one.outcome.value:<8}{counts}{_as(one)}{in_float}"
            else:
                yield f"{one.target:<{width}}  {one.outcome.value}{_as(one)}"
        for text, names in self._details():
            yield ""
            yield f"{_listed(names, len(self.targets))}:"
            yield from (f"  {line}" for line in text.splitlines())

    def _details(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield each refusal and note with the targets that have it."""
        found: dict[str, list[str]] = {}
        for one in self.targets:
            for text in (*([_refusal(one)] if one.message else []), *one.notes):
                found.setdefault(text, []).append(one.target)
        yield from found.items()

    def to_json(self) -> dict[str, object]:
        """Return the check as plain values."""
        rows = [asdict(one) | {"outcome": one.outcome.value, "notes": list(one.notes)} for one in self.targets]
        return {"schema": SCHEMA, "model": self.model, "targets": rows}


def _as(one: TargetCheck) -> str:
    return f"  as {one.built}" if one.built else ""


def _refusal(one: TargetCheck) -> str:
    where = f"{one.where}: " if one.where else ""
    return f"{where}{one.message}" + (f"\nhint: {one.hint}" if one.hint else "")


def _listed(names: Sequence[str], count: int) -> str:
    """Return the names of targets; "all targets" if there are no others, and the first ones of a long list."""
    if len(names) == count and count > 1:
        return "all targets"
    text = ", ".join(names)
    if len(text) <= _WIDTH:
        return text
    few = [name for at, name in enumerate(names) if len(", ".join(names[: at + 1])) < _WIDTH - 20]
    return f"{', '.join(few)} and {len(names) - len(few)} others"
