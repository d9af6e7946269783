"""How far a quantised model's outputs move when values that lie near a rounding tie fall to the other side.

One step of a tensor can be many of what is computed from it: a step of the scores before a softmax is up to 64 times
their scale in steps of its result. What rounds correctly, or twice as `spec/rounding.md` allows, may fall to either
side near a tie, so outputs may be as far from PyTorch's as the model itself makes of such ties. How near a tie must be
is a matter of the processor that computes a value: what rounds once is off by float32's own error alone.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, fx

from deuteron.arch import targets
from deuteron.builds.manifest import Manifest
from deuteron.frontend.cortex_m.lowering_check import ROUNDED, flat
from deuteron.frontend.operators import base_name, is_qdq, is_quantise
from deuteron.frontend.saved import Reference
from deuteron.native import CORTEX_M

RUNS = 8
"""Runs with ties that fall at random; the furthest counts."""

ONCE, TWICE = 2.0**-10, 2.0**-4
"""How near a tie is, in steps: for what rounds once, as float32 may be off; for what rounds twice, by a shift of 3."""


Moves = Sequence[npt.NDArray[np.float64]]
"""By how much each value of each output moves."""


def rounded_twice(manifest: Manifest, reference: Reference) -> frozenset[str]:
    """The operators of a build's quantised model, by name, whose results may be rounded twice.

    Those are all that an Ethos-U's build has, and else those that operators for the Cortex-M compute which
    `spec/rounding.md` lets be a step off.
    """
    if isinstance(targets.load(manifest.target).npu, targets.EthosU):
        return frozenset(node.name for node in _graph(reference).nodes if node.op == "call_function")
    computed = {op.computes for op in manifest.cpu_ops if op.op.startswith(CORTEX_M) and _is_rounded(op.op)}
    return frozenset(node.quantised or node.name for node in manifest.nodes if node.name in computed)


def _is_rounded(operator: str) -> bool:
    return base_name(operator).removesuffix("_nhwc") in ROUNDED


def _graph(reference: Reference) -> fx.Graph:
    module: Any = reference.module
    return module.graph


def spread(reference: Reference, inputs: Sequence[Tensor], twice: Collection[str]) -> Moves:
    """By how much each value of each output of the model moves at most, where the operators `twice` round twice."""
    wanted = reference.run(inputs)
    furthest = [torch.zeros(value.shape, dtype=torch.float64) for value in wanted]
    for seed in range(RUNS):
        runner = _Tied(reference.module, twice, seed)
        with torch.no_grad():
            outputs: object = runner.run(*inputs)
        for i, value in enumerate(flat(outputs)):
            if isinstance(value, Tensor):
                off = (value.double() - wanted[i].double()).abs()
                furthest[i] = torch.maximum(furthest[i], torch.where(off.isfinite(), off, 0.0))
    return [value.numpy() for value in furthest]


class _Tied(fx.Interpreter):
    """Runs a quantised model, with noise before each value is rounded."""

    def __init__(self, module: Any, twice: Collection[str], seed: int) -> None:
        super().__init__(module)
        self._twice = twice
        self._random = torch.Generator().manual_seed(seed)

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "call_function" or not is_quantise(n) or "per_tensor" not in str(n.target):
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        value, scale, *others = args
        noise = torch.rand(value.shape, generator=self._random) * 2 - 1
        near = TWICE if any(node.name in self._twice for node in _computing(n)) else ONCE
        target: Any = n.target
        return target(value + noise * (near * scale), scale, *others, **kwargs)


def _computing(quantise: fx.Node) -> Iterator[fx.Node]:
    """The operators between values that are quantised already and this one."""
    waiting, seen = list(quantise.all_input_nodes), set[fx.Node]()
    while waiting:
        node = waiting.pop()
        if node.op == "call_function" and node not in seen and not is_qdq(node):
            seen.add(node)
            waiting += node.all_input_nodes
            yield node
