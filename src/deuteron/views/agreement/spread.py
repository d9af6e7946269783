"""How far a quantised model's outputs move when values that lie near a rounding tie fall to the other side.

One step of a tensor can be many of what is computed from it: a step of the scores before a softmax is up to 64 times
their scale in steps of its result. What rounds correctly, or twice as `spec/rounding.md` allows, may fall to either
side near a tie, so outputs may be as far from PyTorch's as the model itself makes of such ties.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from deuteron.frontend.cortex_m.values import flat
from deuteron.frontend.operators import is_quantise
from deuteron.frontend.saved import Reference

RUNS = 8
"""Runs with ties that fall at random; the furthest counts."""

ONCE, TWICE = 2.0**-10, 2.0**-4
"""How near a tie is, in steps: for what rounds once, as float32 may be off; for what rounds twice, by a shift of 3."""


def spread(reference: Reference, inputs: Sequence[Tensor], near: float) -> list[float]:
    """By how much each output of the model moves at most."""
    wanted = reference.run(inputs)
    furthest = [0.0] * len(wanted)
    for seed in range(RUNS):
        runner = _Tied(reference.module, near, seed)
        with torch.no_grad():
            outputs: object = runner.run(*inputs)
        for i, value in enumerate(flat(outputs)):
            if isinstance(value, Tensor) and value.is_floating_point():
                off = (value - wanted[i]).abs()
                furthest[i] = max(furthest[i], float(off[off.isfinite()].max()) if off.isfinite().any() else 0.0)
    return furthest


class _Tied(fx.Interpreter):
    """Runs a quantised model, with noise before each value is rounded."""

    def __init__(self, module: Any, near: float, seed: int) -> None:
        super().__init__(module)
        self._near = near
        self._random = torch.Generator().manual_seed(seed)

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "call_function" or not is_quantise(n) or "per_tensor" not in str(n.target):
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        value, scale, *others = args
        noise = torch.rand(value.shape, generator=self._random) * 2 - 1
        target: Any = n.target
        return target(value + noise * (self._near * scale), scale, *others, **kwargs)
