"""Measures how far a quantized model's outputs move when values near a rounding tie round the other way.

One step of a tensor can be many steps of a result: a step of the scores before a softmax is up to 64 times their scale
in steps of its result. Correct rounding, or double rounding as `spec/rounding.md` allows, may round either way near a
tie. Outputs may therefore differ from PyTorch's by as much as such ties move the model itself. The distance from a tie
depends on the processor: with single rounding it is float32's own error.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, fx

from deuteron.arch import targets
from deuteron.builds.manifest import Manifest
from deuteron.frontend.cortex_m.numerical_check import ROUNDED, flat
from deuteron.frontend.operators import base_name, is_qdq, is_quantize
from deuteron.frontend.saved import Reference
from deuteron.native import CORTEX_M

RUNS = 8
"""Runs with random rounding of ties; the maximum counts."""

ONCE, TWICE = 2.0**-10, 2.0**-4
"""Distance from a tie, in steps: float32's error with single rounding; a shift of 3 with double rounding."""


Moves = Sequence[npt.NDArray[np.float64]]
"""Movement of each value of each output."""


def rounded_twice(manifest: Manifest, reference: Reference) -> frozenset[str]:
    """Return the names of the operators in a build's quantized model that may round twice.

    Those are all operators of an Ethos-U's build, and otherwise the Cortex-M operators that `spec/rounding.md` lets
    differ by one step.
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
    """Return the maximum movement of each output value, where the operators `twice` round twice."""
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
    """Runs a quantized model, with noise before each value is rounded."""

    def __init__(self, module: Any, twice: Collection[str], seed: int) -> None:
        super().__init__(module)
        self._twice = twice
        self._random = torch.Generator().manual_seed(seed)

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "call_function" or not is_quantize(n) or "per_tensor" not in str(n.target):
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        value, scale, *others = args
        noise = torch.rand(value.shape, generator=self._random) * 2 - 1
        near = TWICE if any(node.name in self._twice for node in _computing(n)) else ONCE
        target: Any = n.target
        return target(value + noise * (near * scale), scale, *others, **kwargs)


def _computing(quantize: fx.Node) -> Iterator[fx.Node]:
    """Yield the operators between quantized values and this one."""
    waiting, seen = list(quantize.all_input_nodes), set[fx.Node]()
    while waiting:
        node = waiting.pop()
        if node.op == "call_function" and node not in seen and not is_qdq(node):
            seen.add(node)
            waiting += node.all_input_nodes
            yield node
