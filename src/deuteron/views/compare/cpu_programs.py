"""Compares programs with quantized PyTorch, operator by operator on the program's own values.

Each operator of the PyTorch model reads the values that the program computed, so that errors do not accumulate. Most
operators give equal values, except for rounding ties, where PyTorch's float32 decides. Operators that
`spec/rounding.md` lets round twice or in fixed point may differ by one step.

The NPU's values are those of the definition of its results, which they equal. A value of an unknown order of dimensions
is read in the order in which it is nearest to PyTorch's: later operators, which read it, show whether that is right.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.builds.manifest import CpuOp, Manifest
from deuteron.errors import counted
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.nodes import QUANTIZED
from deuteron.frontend.operators import is_qdq, is_quantize
from deuteron.frontend.saved import Reference
from deuteron.views.compare.result_counts import Array, by_kind, count
from deuteron.views.compare.rounding_spread import ONCE

_CHANNELS_LAST = "_nhwc"

MOST_DIFFER = 0.1
"""The share of an operator's results that may differ far from a tie: an operator that is off by a step has more."""

FAR = 2.0**-2 + ONCE
"""Distance from a tie, in steps, beyond which a second rounding moves no value: it shifts by one bit or more."""


@dataclass(slots=True)
class CpuResult:
    """One operator of the program.

    Attributes:
        node: its name in the program.
        op: the operator.
        source: source line of the model, empty if unknown.
        rounds_twice: true if results may differ by one step.
        elements: results compared.
        ties: results so close to half-way that float32 may round them either way.
        mismatches: results that differ from PyTorch's.
        untied: mismatches that are far from a tie.
        beyond: mismatches larger than 1, or explained neither by a tie nor by double rounding; none is allowed.
        largest: the largest difference, in steps.
    """

    node: str
    op: str
    source: str
    rounds_twice: bool
    elements: int = 0
    ties: int = 0
    mismatches: int = 0
    untied: int = 0
    beyond: int = 0
    largest: int = 0


@dataclass(frozen=True, slots=True)
class Uncompared:
    """An operator of the program that is not compared by itself; `why` is the reason."""

    node: str
    op: str
    source: str
    why: str


@dataclass(frozen=True, slots=True)
class NpuValue:
    """A value that an operator `op` of a partition computes for an edge node, with its dimensions in any order."""

    node: str
    op: str
    value: Array


class CpuOperators:
    """The CPU operators of a program, and the quantized model's values that they compute.

    Attributes:
        results: results of each operator that computes a quantized value, in the order of the model.
        computing: number of operators that compute something of the model.
    """

    def __init__(self, manifest: Manifest, reference: Reference, twice: Collection[str]) -> None:
        module: Any = reference.module
        self._module = module
        self._twice = twice
        # An ETRecord has only the name in the edge program.
        self._quantized = {node.name: node.quantised or node.name for node in manifest.nodes}
        self._nodes = {node.name: node for node in module.graph.nodes}
        # Saving a program renames nodes by their operators.
        self._nodes |= {
            name: node for node in module.graph.nodes if (name := node.meta.get("custom", {}).get(QUANTIZED))
        }
        computing = [op for op in manifest.cpu_ops if op.computes and op.instructions]
        self.computing = len(computing)
        self._ops: dict[str, CpuOp] = {}
        self._results: dict[str, CpuResult] = {}
        self._on_npu: dict[str, CpuResult] = {}
        self._excused = 0
        self._without: list[Uncompared] = []
        for op in computing:
            rounding, is_twice = self._rounded(op.computes)
            node = self._nodes.get(self._quantized.get(op.computes, ""))
            if rounding is None:
                self._without += [Uncompared(op.node, op.op, _source(op), _why(node))]
                self._excused += node is not None and _is_returned(node)
            else:
                # If several operators compute one value, the last one counts, as it rounds the value.
                before = self._results.get(rounding.name)
                rounds_twice = is_twice or (before is not None and before.rounds_twice)
                if before is not None:
                    self._without += [Uncompared(before.node, before.op, before.source, f"`{op.op}` {_CONTINUES}")]
                    self._excused += 1
                self._ops[rounding.name] = op
                self._results[rounding.name] = CpuResult(op.node, op.op, _source(op), rounds_twice)

    @property
    def results(self) -> tuple[CpuResult, ...]:
        """Return the results of operators that were compared at least once."""
        return tuple(result for result in self._results.values() if result.elements)

    @property
    def uncompared(self) -> tuple[Uncompared, ...]:
        """Return the operators that compute something of the model and were not compared."""
        unlike = [
            Uncompared(result.node, result.op, result.source, _UNLIKE)
            for result in self._results.values()
            if not result.elements
        ]
        return (*self._without, *unlike)

    @property
    def are_exact(self) -> bool:
        """Return true if all operators were compared, none differs by more than its rounding allows, and few differ.

        An NPU's value that is not compared is computed again from those that are, as what reads it is. So is a value
        that outputs return and nothing quantizes. An operator whose value another one completes is compared with it.
        """
        results = [*self.results, *self._on_npu.values()]
        if len(self.results) + self._excused < self.computing or any(result.beyond for result in results):
            return False
        return all(result.untied <= MOST_DIFFER * result.elements for result in results)

    def check(
        self, inputs: Sequence[Tensor], values: Mapping[int, Array], on_npu: Iterable[NpuValue] = ()
    ) -> list[Tensor]:
        """Compare one run, and return the outputs that the operators' results, `values` by instruction, lead to."""
        actual = {name: [_logical(op, values)] for name, op in self._ops.items()}
        for one in on_npu:
            rounding, is_twice = self._rounded(one.node)
            if rounding is not None and rounding.name not in self._ops:
                actual.setdefault(rounding.name, []).append(one.value)
                self._on_npu.setdefault(rounding.name, CpuResult(one.node, one.op, "", is_twice))
        run = _PinnedInterpreter(self._module, actual, self._results, self._on_npu).run
        with torch.no_grad():
            return cast("list[Tensor]", flat(run(*(value.clone() for value in inputs))))

    def _rounded(self, computes: str) -> tuple[fx.Node | None, bool]:
        """Return the operator that quantizes the value of an edge node, and whether that may round twice."""
        name = self._quantized.get(computes, "")
        return _rounding(self._nodes.get(name)), name in self._twice


_CONTINUES = "completes its value, and is compared"
_UNLIKE = "the program has its result in another form than PyTorch"


def _why(node: fx.Node | None) -> str:
    """Return why there is no comparison of an operator whose value, of this node, nothing quantizes."""
    return "PyTorch's model has no such value" if node is None else "PyTorch's model does not quantize its result"


def _source(op: CpuOp) -> str:
    """Return the source line of an operator, empty if unknown."""
    return str(op.source[0]) if op.source else ""


def _rounding(node: fx.Node | None) -> fx.Node | None:
    """Return the operator that quantizes a node's value, possibly after operators fused with it."""
    while node is not None and not is_qdq(node):
        readers = list(node.users)
        if rounding := next((user for user in readers if is_quantize(user)), None):
            return rounding
        node = readers[0] if len(readers) == 1 else None
    return None


def _is_returned(node: fx.Node) -> bool:
    """Return true for a value that only outputs have, in other operators or as it is, without quantization."""
    return all(user.op == "output" or (not is_qdq(user) and _is_returned(user)) for user in node.users)


def _logical(op: CpuOp, values: Mapping[int, Array]) -> Array | None:
    """Return an operator's result, in the shape of the model."""
    value = values.get(op.instructions[-1])
    is_last = value is not None and value.ndim == 4 and op.op.endswith(_CHANNELS_LAST)
    return value.transpose(0, 3, 1, 2) if is_last and value is not None else value


class _PinnedInterpreter(fx.Interpreter):
    """Runs the quantized model with each operator on the program's values, and compares the results."""

    def __init__(
        self,
        module: Any,
        values: Mapping[str, Sequence[Array | None]],
        on_cpu: Mapping[str, CpuResult],
        on_npu: Mapping[str, CpuResult],
    ) -> None:
        super().__init__(module)
        self._values, self._on_npu = values, on_npu
        self._results = {**on_npu, **on_cpu}

    def run_node(self, n: fx.Node) -> Any:
        wanted = super().run_node(n)
        ours = [value for value in self._values.get(n.name, ()) if value is not None]
        if not ours or not isinstance(wanted, Tensor):
            return wanted
        actual = _nearest(ours, wanted) if n.name in self._on_npu else _reshaped(ours[0], wanted)
        if actual is None:
            return wanted
        result, steps = self._results[n.name], (actual.long() - wanted.long()).abs()
        before, scale = self.fetch_args_kwargs_from_env(n)[0][:2]
        distance = ((before.double() / scale).remainder(1) - 0.5).abs()
        near = distance <= ONCE
        allowed = torch.ones_like(near) if result.rounds_twice else near
        count(result, steps.numpy())
        result.ties += int(near.sum())
        result.untied += int(((steps > 0) & (distance > FAR)).sum())
        result.beyond += int(((steps > 1) | ((steps > 0) & ~allowed)).sum())
        return actual


def _reshaped(value: Array, wanted: Tensor) -> Tensor | None:
    """Return an operator's result in the shape of PyTorch's; None if it is another tensor."""
    actual = torch.from_numpy(value.copy())  # pyright: ignore[reportUnknownMemberType]
    if actual.shape != wanted.shape and actual.numel() == wanted.numel():
        moved = actual.reshape(wanted.shape)  # a copy before a view
        actual = moved if torch.equal(moved, wanted) else actual
    return actual if (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape) else None


def _nearest(values: Iterable[Array], wanted: Tensor) -> Tensor | None:
    """Return the value, in the order of dimensions, that differs least from PyTorch's; None without one of its size."""
    batch, *shape = wanted.shape or (1,)
    orders: list[Tensor] = []
    for value in values:
        actual = torch.from_numpy(value.copy())  # pyright: ignore[reportUnknownMemberType]
        if (actual.dtype, actual.numel()) == (wanted.dtype, wanted.numel()):
            orders.append(actual.reshape(wanted.shape))
            if len(shape) > 1:
                orders.append(actual.reshape(batch, *shape[1:], shape[0]).movedim(-1, 1))
    return min(orders, key=lambda actual: int((actual != wanted).sum()), default=None)


def failures(results: Iterable[CpuResult]) -> Iterator[str]:
    """Yield a sentence about each operator that differs by more than its rounding allows."""
    for result in results:
        if result.beyond:
            line = f", {result.source}" if result.source else ""
            bound = "one step" if result.rounds_twice else "ties"
            yield (
                f"`{result.op}` on the CPU{line}: {result.beyond:,} of {result.elements:,} results differ from "
                f"PyTorch's beyond {bound}, the largest by {counted(result.largest, 'step')}"
            )


def lines(results: Iterable[CpuResult], computing: int, uncompared: Iterable[Uncompared]) -> Iterator[str]:
    """Yield counts by kind of operator, and the operators that are not compared, each with its reason."""
    yield "operator by operator against quantized PyTorch, on the CPU"
    yield f"  {'operator':<34}{'results':>14}{'ties %':>9}{'differ':>9}{'beyond':>9}{'largest':>9}"
    kinds = by_kind(results)
    for kind, same in kinds.items():
        elements = sum(r.elements for r in same)
        yield (
            f"  {kind:<34}{elements:>14,}{100 * sum(r.ties for r in same) / max(1, elements):>9.3f}"
            f"{sum(r.mismatches for r in same):>9,}{sum(r.beyond for r in same):>9,}{max(r.largest for r in same):>9}"
        )
    compared = sum(len(same) for same in kinds.values())
    verbs = "computes is" if computing == 1 else "compute are"
    yield f"  {compared} of {counted(computing, 'operator')} that {verbs} compared"
    for one in uncompared:
        yield f"  not compared by itself: `{one.op}`{f', {one.source}' if one.source else ''}: {one.why}"
