"""Compares CPU-only programs with quantized PyTorch, operator by operator on the program's own values.

Each operator of the PyTorch model reads the values that the program computed, so that errors do not accumulate. Most
operators give equal values, except for rounding ties, where PyTorch's float32 decides. Operators that
`spec/rounding.md` lets round twice or in fixed point may differ by one step.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.builds.manifest import CpuOp, Manifest
from deuteron.errors import counted
from deuteron.frontend.cortex_m.lowering_check import flat
from deuteron.frontend.nodes import QUANTIZED
from deuteron.frontend.operators import is_qdq, is_quantize
from deuteron.frontend.saved import Reference
from deuteron.views.compare.result_counts import Array, by_kind, count
from deuteron.views.compare.rounding_spread import ONCE

_CHANNELS_LAST = "_nhwc"

MOST_DIFFER = 0.1
"""The share of an operator's results that a second rounding moves: an operator that is off by a step moves more."""


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
    beyond: int = 0
    largest: int = 0


class CpuOperators:
    """A program of CPU operators, and the quantized model's values that they compute.

    Attributes:
        results: results of each operator that computes a quantized value, in the order of the model.
        computing: number of operators that compute something of the model.
    """

    def __init__(self, manifest: Manifest, reference: Reference, twice: Collection[str]) -> None:
        module: Any = reference.module
        self._module = module
        quantized = {
            node.name: node.quantised or node.name for node in manifest.nodes
        }  # an ETRecord has only this name
        nodes = {node.name: node for node in module.graph.nodes}
        # Saving a program renames nodes by their operators.
        nodes |= {name: node for node in module.graph.nodes if (name := node.meta.get("custom", {}).get(QUANTIZED))}
        computing = [op for op in manifest.cpu_ops if op.computes and op.instructions]
        self.computing = len(computing)
        self._ops: dict[str, CpuOp] = {}
        self._results: dict[str, CpuResult] = {}
        for op in computing:
            name = quantized.get(op.computes, "")
            rounding = _rounding(nodes.get(name))
            if (
                rounding is not None
            ):  # if several operators compute one value, the last one counts, as it rounds the value
                before = self._results.get(rounding.name)
                rounds_twice = name in twice or (before is not None and before.rounds_twice)
                source = str(op.source[0]) if op.source else ""
                self._ops[rounding.name] = op
                self._results[rounding.name] = CpuResult(op.node, op.op, source, rounds_twice)

    @property
    def results(self) -> tuple[CpuResult, ...]:
        """Return the results of operators that were compared at least once."""
        return tuple(result for result in self._results.values() if result.elements)

    @property
    def are_exact(self) -> bool:
        """Return true if all operators were compared, none differs by more than its rounding allows, and few differ."""
        if len(self.results) < self.computing or any(result.beyond for result in self.results):
            return False
        return all(result.mismatches <= MOST_DIFFER * result.elements for result in self.results)

    def check(self, inputs: Sequence[Tensor], values: Mapping[int, Array]) -> list[Tensor]:
        """Compare one run, and return the outputs that the operators' results, `values` by instruction, lead to."""
        actual = {name: _logical(op, values) for name, op in self._ops.items()}
        run = _PinnedInterpreter(self._module, actual, self._results).run
        with torch.no_grad():
            return cast("list[Tensor]", flat(run(*(value.clone() for value in inputs))))


def _rounding(node: fx.Node | None) -> fx.Node | None:
    """Return the operator that quantizes a node's value, possibly after operators fused with it."""
    while node is not None and not is_qdq(node):
        readers = list(node.users)
        if rounding := next((user for user in readers if is_quantize(user)), None):
            return rounding
        node = readers[0] if len(readers) == 1 else None
    return None


def _logical(op: CpuOp, values: Mapping[int, Array]) -> Array | None:
    """Return an operator's result, in the shape of the model."""
    value = values.get(op.instructions[-1])
    is_last = value is not None and value.ndim == 4 and op.op.endswith(_CHANNELS_LAST)
    return value.transpose(0, 3, 1, 2) if is_last and value is not None else value


class _PinnedInterpreter(fx.Interpreter):
    """Runs the quantized model with each operator on the program's values, and compares the results."""

    def __init__(self, module: Any, values: Mapping[str, Array | None], results: Mapping[str, CpuResult]) -> None:
        super().__init__(module)
        self._values, self._results = values, results

    def run_node(self, n: fx.Node) -> Any:
        wanted = super().run_node(n)
        ours = self._values.get(n.name)
        if ours is None or not isinstance(wanted, Tensor):
            return wanted
        actual = torch.from_numpy(ours.copy())  # pyright: ignore[reportUnknownMemberType]
        if actual.shape != wanted.shape and actual.numel() == wanted.numel():
            moved = actual.reshape(wanted.shape)  # a copy before a view
            actual = moved if torch.equal(moved, wanted) else actual
        if (actual.dtype, actual.shape) != (wanted.dtype, wanted.shape):
            return wanted
        result, steps = self._results[n.name], (actual.long() - wanted.long()).abs()
        before, scale = self.fetch_args_kwargs_from_env(n)[0][:2]
        near = ((before.double() / scale).remainder(1) - 0.5).abs() <= ONCE
        allowed = torch.ones_like(near) if result.rounds_twice else near
        count(result, steps.numpy())
        result.ties += int(near.sum())
        result.beyond += int(((steps > 1) | ((steps > 0) & ~allowed)).sum())
        return actual


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


def lines(results: Iterable[CpuResult], computing: int) -> Iterator[str]:
    """Yield counts by kind of operator, and the number of operators that are not compared."""
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
    yield f"  {compared} of {counted(computing, 'operator')} that compute are compared"
