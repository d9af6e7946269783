"""Builds a case of the bench of semantics, runs it on fresh samples, and holds it against the eager module."""

import re
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from semantic_cases.case import Case
from torch import Tensor
from torch.utils import _pytree as pytree

from deuteron import api
from deuteron.builds.manifest import Manifest
from deuteron.builds.quality import MOST, decibels
from deuteron.errors import DeuteronError, InternalError

CALIBRATION, SAMPLES, DRAWS = 64, 4, 8
ORDER = (0, 1, 2, 3, 0, 1)
"""In which order the program and the eager module get the samples: some twice, as state shows itself then."""
GOOD = 20.0
"""An output with so many dB agrees."""
LESS = 6.0
"""So many dB fewer than the build reported, or than noise of the inputs explains, are no surprise."""
LARGEST = 0.3
"""An element that is off by this part of its output's range is wrong, unless noise of the inputs moves it as far."""
UNEXPLAINED = 0.03
"""The share of integers that may differ though noise of the inputs does not change them: noise inside does."""
STEPS = 1.5
"""Noise of float inputs, in steps of their int8 scale."""

_NO_QUALITY = ("nothing was delegated", "no calibration data", "calibration has one sample")
_LINE = re.compile(r"\.py:\d+|\[[\w.]+\] \w+: ")
"""A line of the case, or a submodule as `Sequential` numbers it: `[1] AvgPool2d: `."""
_RAW = re.compile(
    r"fake tensor|_lifted_tensor|Error:|quantized_activation|_tensor_constant|\bKeyError|NoneType|<class |Traceback"
)
"""Texts that do not help a reader of an error."""


class Verdict(StrEnum):
    """The verdict on a build."""

    AGREES = "agrees"
    POOR = "poor"
    WRONG = "silently wrong"
    CHANGED = "module changed"
    REFUSED = "refused"
    UNCLEAR = "unclear refusal"
    TRACEBACK = "traceback"
    INTERNAL = "internal error"
    CRASH = "crash"
    TIMEOUT = "timeout"
    BROKEN = "broken case"


@dataclass(frozen=True, slots=True)
class Row:
    """One case for one target; `text` says why where it does not agree."""

    case: str
    target: str
    verdict: str
    text: str = ""
    sqnr: float = 0.0


def row(case: Case, target: str) -> Row:
    """Build a case and judge it."""
    samples = case.samples(SAMPLES, seed=3)
    try:
        wanted, varied = _eager(case, samples), [_eager(case, _noisy(case, samples, draw)) for draw in range(DRAWS)]
    except Exception as e:  # noqa: BLE001 - a case that does not run in eager PyTorch is a defect of the bench
        return Row(case.name, target, Verdict.BROKEN, f"in eager PyTorch: {type(e).__name__}: {e}")
    module = case.module()
    before = _state(module)
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder) / "build"
        try:
            made = api.build(
                module, samples[0], target=target, calibration=case.samples(CALIBRATION, seed=2), output=build
            )
            arrays = [[x.contiguous().numpy() for x in samples[index]] for index in ORDER]
            subject = api.subject(build)
            subject.resets = (0,)  # state lasts from one run to the next, as in the eager module
            outputs = list(subject.run_each(arrays))
        except InternalError as e:
            return Row(case.name, target, Verdict.INTERNAL, _one_line(str(e)))
        except DeuteronError as e:
            return Row(case.name, target, *_refusal(e))
        except Exception as e:  # noqa: BLE001 - the point is to see them
            return Row(case.name, target, Verdict.TRACEBACK, _traced(e))
    verdict, text, sqnr = _judged(wanted, varied, outputs, made.manifest)
    if verdict is Verdict.AGREES and (changed := _changed(case, module, before, samples, wanted)):
        verdict, text = Verdict.CHANGED, changed
    return Row(case.name, target, verdict, text, sqnr)


def _eager(case: Case, samples: Sequence[tuple[Tensor, ...]]) -> list[list[Any]]:
    """Return the outputs of a new eager module in the order of the program's runs."""
    module = case.module()
    if case.trains:
        module.eval()
    return [_run(module, samples[index]) for index in ORDER]


def _run(module: Any, sample: tuple[Tensor, ...]) -> list[Any]:
    with torch.no_grad():
        outputs = module(*(x.clone() for x in sample))
    return [x.detach().clone() if isinstance(x, Tensor) else x for x in _leaves(outputs)]


def _leaves(outputs: Any) -> list[Any]:
    """The tensors of a result in order; what is no tensor is left out, as a program only returns tensors."""
    if hasattr(outputs, "__dataclass_fields__"):
        outputs = [getattr(outputs, name) for name in outputs.__dataclass_fields__]
    return [x for x in pytree.tree_leaves(outputs) if isinstance(x, Tensor)]


def _noisy(case: Case, samples: Sequence[tuple[Tensor, ...]], draw: int) -> list[tuple[Tensor, ...]]:
    """The samples with noise as int8 would add it to their floats."""
    generator = torch.Generator().manual_seed(100 + draw)
    largest = [max(float(s[i].float().abs().max()) for s in samples) for i in range(len(case.inputs))]

    def moved(x: Tensor, most: float) -> Tensor:
        if not x.is_floating_point():
            return x
        return x + (torch.rand(x.shape, generator=generator) * 2 - 1) * (STEPS * most / 127)

    return [tuple(map(moved, sample, largest)) for sample in samples]


def _judged(
    wanted: list[list[Any]],
    varied: list[list[list[Any]]],
    outputs: Sequence[Sequence[np.ndarray]],
    manifest: Manifest,
) -> tuple[Verdict, str, float]:
    """The verdict on all outputs: that of the worst."""
    count = len(wanted[0])
    if any(len(run) != count for run in [*wanted, *outputs]):
        return Verdict.WRONG, f"{len(outputs[0])} outputs instead of {count}", 0.0
    warnings = [w for w in manifest.warnings if not w.startswith(_NO_QUALITY) and "stay on the CPU" not in w]
    worst: tuple[Verdict, str, float] = Verdict.AGREES, "", MOST
    order = (Verdict.AGREES, Verdict.POOR, Verdict.WRONG)
    for index in range(count):
        ours, theirs = [run[index] for run in outputs], [run[index] for run in wanted]
        if problem := _form(ours, theirs):
            return Verdict.WRONG, f"output {index} {problem}", 0.0
        noise = [[np.asarray(run[index]) for run in runs if run[index].shape == theirs[0].shape] for runs in varied]
        actual, reference = np.stack(ours), np.stack([x.numpy() for x in theirs])
        around = [np.stack(draw) for draw in noise if len(draw) == len(ORDER)]
        if reference.dtype.kind == "f":
            quality = manifest.quality.outputs[index]
            reported = quality.sqnr if quality.channels else MOST
            found = _floats(actual, reference, around, reported, warnings)
        else:
            is_float = any("float" in x.dtype for x in manifest.inputs)
            found = _integers(actual, reference, around, warnings, is_float=is_float)
        if order.index(found[0]) > order.index(worst[0]) or (found[0] is worst[0] and found[2] < worst[2]):
            worst = found[0], f"output {index} {found[1]}" if found[1] else "", found[2]
    return worst


def _form(ours: Sequence[np.ndarray], theirs: Sequence[Tensor]) -> str:
    """Return the fault of dtype or shape."""
    for x, y in zip(ours, theirs, strict=True):
        dtype = str(y.dtype).removeprefix("torch.")
        if str(x.dtype) != dtype or tuple(x.shape) != tuple(y.shape):
            return f"is {x.dtype} {list(x.shape)} instead of {dtype} {list(y.shape)}"
    return ""


def _floats(
    actual: np.ndarray,
    reference: np.ndarray,
    around: Sequence[np.ndarray],
    reported: float,
    warnings: Sequence[str],
) -> tuple[Verdict, str, float]:
    wanted, ours = reference.astype(np.float64), actual.astype(np.float64)
    finite = np.isfinite(wanted)
    if not np.array_equal(finite, np.isfinite(ours)):
        differ = int((finite != np.isfinite(ours)).sum())
        text = f"{differ} of {wanted.size} values are infinite or NaN on one side only"
        return (Verdict.POOR if warnings else Verdict.WRONG), text, 0.0
    if not finite.any():
        return Verdict.AGREES, "", MOST
    near = [draw.astype(np.float64) for draw in around if np.array_equal(np.isfinite(draw), finite)]
    wanted, ours = wanted[finite], ours[finite]
    near = [draw[finite] for draw in near]
    sqnr = decibels(float((wanted**2).sum()), float(((wanted - ours) ** 2).sum()))
    expected = min((decibels(float((wanted**2).sum()), float(((wanted - x) ** 2).sum())) for x in near), default=MOST)
    spread = max(np.ptp(wanted), np.abs(wanted).max() * 0.1)
    low, high = np.min([wanted, *near], axis=0), np.max([wanted, *near], axis=0)
    outside = np.maximum(low - ours, ours - high)
    off = float(outside.max() / spread) if spread else float(np.abs(ours).max())
    text = f"has {sqnr:.1f} dB, reported {reported:.1f}, noise of the inputs leaves {expected:.1f}, off by {off:.0%}"
    if not spread and off < 1e-6:
        return Verdict.AGREES, "", MOST
    if sqnr >= GOOD and off <= LARGEST:
        return Verdict.AGREES, "", sqnr
    if sqnr >= expected - LESS and off <= LARGEST:
        return Verdict.AGREES, text, sqnr
    if warnings or (sqnr >= reported - LESS and sqnr < GOOD):
        return Verdict.POOR, text, sqnr
    return Verdict.WRONG, text, sqnr


def _integers(
    actual: np.ndarray, reference: np.ndarray, around: Sequence[np.ndarray], warnings: Sequence[str], *, is_float: bool
) -> tuple[Verdict, str, float]:
    low, high = np.min([reference, *around], axis=0), np.max([reference, *around], axis=0)
    outside = int(((actual < low) | (actual > high)).sum())
    differ = int((actual != reference).sum())
    text = f"differs in {differ} of {reference.size} integers, {outside} of them without cause"
    most = max(1, int(UNEXPLAINED * reference.size)) if is_float else 0
    if outside <= most:
        return Verdict.AGREES, text if differ else "", MOST
    return (Verdict.POOR if warnings else Verdict.WRONG), text, MOST


def _refusal(error: DeuteronError) -> tuple[Verdict, str]:
    text = " ".join(str(error).split())
    lacks = [] if _LINE.search(text) or "the model is TorchScript" in text else ["no line"]
    lacks += [] if error.hint or "hint:" in text else ["no hint"]
    lacks += [f"raw text `{found[0]}`"] if (found := _RAW.search(text.partition("hint:")[0])) else []
    if lacks:
        return Verdict.UNCLEAR, f"({', '.join(lacks)}) {_one_line(text)}"
    return Verdict.REFUSED, _one_line(text)


def _traced(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = next((f for f in reversed(frames) if "deuteron" in f.filename and "site-packages" not in f.filename), None)
    place = f" in {Path(own.filename).name}:{own.lineno}" if own else ""
    return _one_line(f"{type(error).__name__}{place}: {error}")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:700]


def _state(module: Any) -> dict[str, Any]:
    state = {name: value.clone() for name, value in module.state_dict().items() if isinstance(value, Tensor)}
    return {"state": state, "modes": _modes(module)}


def _modes(module: Any) -> dict[str, bool]:
    return {name: part.training for name, part in module.named_modules()}


def _changed(
    case: Case, module: Any, before: dict[str, Any], samples: Sequence[tuple[Tensor, ...]], wanted: list[list[Any]]
) -> str:
    """Return the changes of the build in the user's module."""
    if _modes(module) != before["modes"]:
        return "the build changed the mode"
    after = {name: value for name, value in module.state_dict().items() if isinstance(value, Tensor)}
    if after.keys() != before["state"].keys():
        return "the build changed which parameters and buffers there are"
    for name, value in before["state"].items():
        if not torch.equal(value.nan_to_num(), after[name].nan_to_num()):
            return f"the build changed `{name}`"
    if case.trains:
        return ""
    for index, run in zip(ORDER, wanted, strict=True):
        found = _run(module, samples[index])
        pairs = zip(found, run, strict=False)
        if len(found) != len(run) or not all(torch.equal(x.nan_to_num(), y.nan_to_num()) for x, y in pairs):
            return "the module gives other values after the build than it would have without"
    return ""
