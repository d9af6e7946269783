"""A random module through export and the rewrites of the float graph, held against eager PyTorch."""

import copy
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

import torch
from tests.semantics.programs import SHAPE, Program
from torch import Tensor, nn

from deuteron.arch import targets
from deuteron.builds.options import BuildOptions
from deuteron.errors import DeuteronError, InternalError
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.eager import capture
from deuteron.frontend.eager.variables import stepped, stepping
from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.log_suppression import quiet
from deuteron.frontend.pipeline import Flow
from deuteron.frontend.quantize import rewrite_equivalence

TARGETS = ("cortex-m55", "ethos-u55-128", "imxrt700cm", "imxrt700")
ORDER = (0, 1, 2, 0, 1)
"""In which order samples are run: some twice, as state shows itself then."""
TOLERANCE = 1e-4
NOISE, DRAWS = 2e-6, 4
"""Noise of the inputs that rounding in another order amounts to: what it moves may differ."""


def samples(count: int, seed: int) -> list[Inputs]:
    """Seeded inputs."""
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(SHAPE, generator=generator),) for _ in range(count)]


def runs(program: Program) -> bool:
    """True if the module runs in eager PyTorch, and returns finite numbers."""
    try:
        found = _eager(program.module(), samples(3, seed=5))
    except Exception:  # noqa: BLE001 - whatever a random module raises
        return False
    return all(x.isfinite().all() and x.double().abs().max() < 1e4 for run in found for x in run)


def _eager(module: nn.Module, given: Sequence[Inputs]) -> list[list[Tensor]]:
    """Return a module's outputs for samples, one after the other."""
    with torch.no_grad():
        return [[cast(Tensor, x).clone() for x in flat(module(*copies(given[i])))] for i in ORDER]


def check(program: Program, target: str) -> str:
    """How what a build makes of a module differs from it; empty where it does not, or the module is refused well."""
    try:
        rewritten = _rewritten(program.module(), target)
    except InternalError as e:
        return f"internal error: {e}"
    except DeuteronError as e:
        return unclear(e)
    except Exception as e:  # noqa: BLE001 - the point is to see them
        return f"{type(e).__name__}: {e}"
    given = samples(3, seed=5)
    wanted = _eager(program.module(), given)
    generator = torch.Generator().manual_seed(6)
    around = [
        _eager(program.module(), [(x + NOISE * torch.randn(SHAPE, generator=generator),) for (x,) in given])
        for _ in range(DRAWS)
    ]
    with torch.no_grad():
        ours = [flat(rewritten(*copies(given[i]))) for i in ORDER]
    for run, (theirs, actual) in enumerate(zip(wanted, ours, strict=True)):
        if len(theirs) != len(actual):
            return f"{len(actual)} outputs instead of {len(theirs)}"
        for index, (x, y) in enumerate(zip(theirs, actual, strict=True)):
            if problem := _differs(x, y, [draw[run][index] for draw in around]):
                return f"output {index} of run {run} {problem}"
    return ""


def _differs(wanted: Tensor, ours: Any, around: Sequence[Tensor]) -> str:
    """How an output differs by more than rounding in another order can explain."""
    if (ours.dtype, wanted.dtype) == (torch.int32, torch.int64):
        ours = ours.long()  # as `output_dtypes.restore` widens what Arm's passes narrow
    if (ours.dtype, ours.shape) != (wanted.dtype, wanted.shape):
        return f"is {ours.dtype} {list(ours.shape)} instead of {wanted.dtype} {list(wanted.shape)}"
    near = torch.stack([wanted, *around]).double()
    most = TOLERANCE * float(near.abs().max()) if wanted.is_floating_point() else 0.0
    low, high = near.min(0).values - most, near.max(0).values + most
    outside = (ours.double() < low) | (ours.double() > high)
    return f"differs in {int(outside.sum())} of {outside.numel()} values" if outside.any() else ""


def _rewritten(module: nn.Module, target: str) -> Callable[..., object]:
    """Runs the float graph of a build just before it is annotated, and keeps its variables between runs."""
    given = samples(3, seed=4)
    flow = _flow(target)
    with quiet():
        observed, graph = capture.captured(module, given)
        variables = observed.variables
        original = copy.deepcopy(graph)
        flow.variables, flow.calibration = variables, lambda: stepped(original, given, variables)
        flow.sample = next(iter(flow.calibration()))
        quantizer = rewrite_equivalence.checked(flow._quantizer(), lambda: flow._original)
        try:
            return stepping(quantizer.transform_for_annotation(flow._begin(graph)), variables)
        finally:
            flow.close()


@cache
def _imported(target: str) -> None:
    Flow(targets.load(target), BuildOptions()).recipe()


def _flow(target: str) -> Flow:
    _imported(target)
    return Flow(targets.load(target), BuildOptions())


def unclear(error: DeuteronError) -> str:
    """Yield the missing parts of a refusal."""
    text = str(error)
    if not re.search(r"\.py:\d+", text):
        return f"a refusal names no line: {text}"
    return "" if "hint:" in text else f"a refusal has no hint: {text}"
