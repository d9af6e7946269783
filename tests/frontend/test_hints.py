"""Alternatives of errors and the guide for operators without an int8 kernel: they build, and compute the same."""

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from tests import full
from tests.frontend.heterogeneous_models import combine
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.errors import UnsupportedError
from deuteron.frontend import build
from deuteron.frontend.unsupported_hints import REWRITES

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "first-model.md"


class Code(nn.Module):
    """A line of Python, of a tensor `x`."""

    def __init__(self, code: str) -> None:
        super().__init__()
        namespace: dict[str, object] = {"torch": torch}
        exec(f"def line(x): return {code}", namespace)
        self.line = namespace["line"]

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("target", full.first(["cortex-m33", "imxrt700cm"], 1))
@pytest.mark.parametrize("name", REWRITES)
def test_an_operator_with_a_rewrite_is_refused_with_it(name: str, target: str) -> None:
    row = next(line for line in GUIDE.read_text("utf-8").splitlines() if f"`{REWRITES[name].example}`" in line)
    assert REWRITES[name].advice in row
    with pytest.raises(UnsupportedError) as caught:
        combine(Code(REWRITES[name].example), (2, 160), target=target)
    first, _, hint = str(caught.value).partition("\n\nhint: ")
    assert f": `aten::{name}" in first
    assert " has no int8 kernel on the CPU" in first
    assert ", at `" in first
    assert hint == REWRITES[name].hint


def test_samples_on_a_fixed_grid_as_the_hint_says() -> None:
    torch.manual_seed(0)
    x, grid = torch.randn(1, 2, 6, 6), torch.rand(1, 3, 3, 2) * 2 - 1

    class Rewritten(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return functional.grid_sample(x, grid, align_corners=False)

    made = api.build(Rewritten(), (x,), target="cortex-m33", calibration=[(x,)])
    assert all(output.sqnr > 15 for output in made.manifest.quality.outputs)


def test_each_of_several_operators_has_its_hint() -> None:
    with pytest.raises(UnsupportedError) as caught:
        combine(Code("x.topk(159).values.sort(-1).values + x.sort(-1).values[:, 1:]"), (2, 160), target="cortex-m33")
    first, *lines = str(caught.value).splitlines()
    assert first == "3 operators cannot be compiled:"
    for name, error, hint in zip(("topk", "sort"), lines[::2], lines[1::2], strict=True):
        assert f"{Path(__file__)}:" in error
        assert f": `aten::{name}" in error
        assert error.endswith(", 2 times") == (name == "sort")
        assert hint == f"    hint: {REWRITES[name].hint}"


def test_portable_operators_are_recommended_where_they_are() -> None:
    portable = {name: rewrite.example for name, rewrite in REWRITES.items() if rewrite.is_portable}
    x = torch.randn(2, 20)
    manifest = api.build(Code(f"({', '.join(portable.values())})"), (x,), calibration=[(x,)]).manifest
    assert {f"aten::{name}" for name in portable} <= {op.op.partition(".")[0] for op in manifest.cpu_ops}


def test_an_operator_that_nothing_has_is_refused_with_all_others() -> None:
    x = torch.randn(2, 160)
    code = "torch.nextafter(x.sort(-1).values, x) + x.argsort(-1) + x.median(-1, keepdim=True).values"
    with pytest.raises(UnsupportedError) as caught:
        api.build(Code(code), (x,), calibration=[(x,)])
    line = "return self.line(x)  # pyright: ignore[reportCallIssue]"
    where = f"{Path(__file__)}:{inspect.getsourcelines(Code.forward)[1] + 1}"

    def refused(name: str) -> str:
        nobody = "neither the NPU nor the CPU kernels of ExecuTorch's runtime"
        return f"  {where}: nothing can run the operator `aten::{name}`: {nobody}, at `{line}`"

    first, *lines = str(caught.value).splitlines()
    assert first == "4 operators cannot be compiled:"
    hint = "write the model with operators that the NPU or ExecuTorch's portable and quantized kernels have"
    orders = REWRITES["sort"].advice
    assert sorted(lines) == sorted(
        [
            f"{refused('sort')}, 2 times",
            refused("median.dim"),
            f"    hint: {orders}",
            refused("nextafter"),
            f"    hint: {hint}",
        ]
    )


@pytest.mark.parametrize("code", ["x.var(-1)", "torch.einsum('ab,ac->bc', x, x)"])
def test_what_an_ethos_u_takes_needs_no_form_on_the_cpu(code: str) -> None:
    lowered = combine(Code(f"torch.relu({code})"), (2, 3), target="ethos-u55-128cm")
    assert lowered.partitions == 1
    assert set(lowered.operators) <= {"cortex_m::quantize_per_tensor", "cortex_m::dequantize_per_tensor"}


def test_what_an_ethos_u_leaves_is_refused_with_what_to_do() -> None:
    with pytest.raises(UnsupportedError) as caught:
        combine(Code("torch.relu(x).sort(-1).values"), (2, 160), target="ethos-u55-128cm")
    first, _, hint = str(caught.value).partition("\n\nhint: ")
    assert ": `aten::sort` has no int8 kernel on the CPU, at `" in first
    assert hint == REWRITES["sort"].hint


@pytest.mark.parametrize("name", REWRITES)
def test_the_guide_says_the_same(name: str) -> None:
    rewrite = REWRITES[name]
    rows = [line.split("|")[1:3] for line in GUIDE.read_text().splitlines() if f"`{rewrite.example}`" in line]
    assert [instead.strip() for _, instead in rows] == [rewrite.advice]


class Failing:
    """A session of ExecuTorch whose stage wraps an error of ours."""

    def export(self) -> None:
        raise RuntimeError("a stage failed") from UnsupportedError("the cause")


def test_the_causes_of_a_refusal_end() -> None:
    with pytest.raises(UnsupportedError, match="the cause") as caught:
        build._is_exported(Failing(), cast(Any, SimpleNamespace(close=list)))
    assert caught.value.__cause__ is None
