"""Errors of builds that are refused, each with its exact text."""

import importlib.metadata
import inspect
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tests.frontend.build_helpers import APPLIES, FC, Applies, X, failure
from torch import Tensor, nn

from deuteron import api
from deuteron.arch.cores import Work
from deuteron.builds.manifest import CpuOp, Source
from deuteron.errors import InputError, InternalError, MissingToolError, OptionError, UnsupportedError
from deuteron.frontend.backends.neutron import upstream
from deuteron.frontend.cpu import need_runnable, no_out_variant
from deuteron.native import library
from deuteron.npu.neutron.sdk import surface
from deuteron.tflite import decode as flat
from deuteron.tflite.encode import encode

torch.set_num_threads(1)
pytestmark = pytest.mark.slow


def test_unknown_target():
    assert failure(OptionError, FC, X, target="imxrt70").startswith("unknown target `imxrt70`")
    with pytest.raises(OptionError) as caught:
        api.build(FC, X, target="imxrt70")
    assert caught.value.hint is not None
    assert "`imxrt700`" in caught.value.hint


def test_not_a_module():
    assert failure(InputError, {"state": 1}, X) == (
        "the model is of type `dict`, not a `torch.nn.Module` object\n\n"
        "hint: pass an instance, for example `MyNet()`; wrap a function in a module with a `forward` method"
    )


def test_calibration_of_another_shape():
    assert failure(InputError, FC, X, calibration=[X, X.reshape(2, 4)]) == (
        "calibration batch 1, input 0 has shape [2, 4], the example input has [1, 8]\n\n"
        "hint: shapes are fixed when compiling; split or reshape the calibration data to the example's shape"
    )


def test_calibration_that_is_not_finite():
    assert failure(InputError, FC, X, calibration=[X * float("nan")]) == (
        "calibration batch 0, input 0 holds 8 of 8 values that are NaN or infinite\n\n"
        "hint: remove or repair these samples; ranges measured from them would be meaningless"
    )


def test_an_operator_that_nothing_can_run():
    assert failure(UnsupportedError, Applies(torch.erfinv), X * 0.9, calibration=[X * 0.9]) == (
        f"{APPLIES}: nothing can run the operator `aten::erfinv`: neither the NPU nor the CPU kernels of ExecuTorch's "
        "runtime, at `return self.function(x)`\n\n"
        "hint: write the model with operators that the NPU or ExecuTorch's portable and quantized kernels have"
    )


def test_what_the_backend_writes_wrong_is_not_the_users_file(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upstream, "merge_first_result", lambda program: None)
    x = torch.ones(1, 2, 4, 4)
    model = nn.Sequential(nn.Conv2d(2, 2, 1), nn.MaxPool2d(2), Applies(lambda y: torch.cat([y, torch.relu(y)], 1)))
    assert failure(InternalError, model, x, calibration=[x]) == (
        "the graph: ExecuTorch's NXP backend wrote partition 0 wrong: the model contradicts itself: every tensor is "
        "exactly one of: a graph input, a constant, the result of one operator; "
        "`aten_max_pool2d_with_indices_default_<getitem_extracted_output_0>` is defined 0 times\n\n"
        "hint: report the model with this text; the model is valid, and the backend's file is not"
    )


@torch.library.custom_op("deuteron_tests::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x * 2


@twice.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def test_an_operator_without_an_out_variant():
    assert failure(UnsupportedError, Applies(twice), X, calibration=[X]) == (
        f"{APPLIES}: nothing can run the operator `deuteron_tests::twice`: neither the NPU nor the CPU kernels of "
        "ExecuTorch's runtime, at `return self.function(x)`\n\n"
        "hint: write the model with operators that the NPU or ExecuTorch's portable and quantized kernels have"
    )


@torch.library.custom_op("deuteron_tests::scaled", mutates_args=())
def scaled(x: Tensor) -> Tensor:
    return x * 2


@scaled.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


torch.library.define("deuteron_tests::scaled.by", "(Tensor x, float by) -> Tensor")
torch.library.define("deuteron_tests::scaled.by_out", "(Tensor x, float by, *, Tensor(a!) out) -> Tensor(a!)")


def _at(line: int, op: str, *instructions: int) -> CpuOp:
    source = Source("net.py", line, f"line {line}", "")
    return CpuOp(op, f"node_{line}", (source,), "", "", Work.NOTHING, 1, instructions)


def test_the_lines_of_an_operator_without_an_out_variant_are_those_of_its_overload():
    error = RuntimeError("Missing out variants: {'deuteron_tests::scaled'}")
    ops = (_at(1, "deuteron_tests::scaled.by", 0), _at(2, "deuteron_tests::scaled", 1))
    refused = no_out_variant(error, ops)
    assert refused is not None
    assert (refused.where, refused.message) == (
        "net.py:2",
        "nothing can run the operator `deuteron_tests::scaled`: neither the NPU nor the CPU kernels of ExecuTorch's "
        "runtime, at `line 2`",
    )


def test_each_line_of_two_overloads_that_nothing_can_run_is_named_once():
    table = (("aten::add", "out"), ("nowhere::add", "out"), ("nowhere::add", "Scalar_out"))
    plan = SimpleNamespace(
        operators=[SimpleNamespace(name=name, overload=overload) for name, overload in table],
        chains=[
            SimpleNamespace(
                instructions=[SimpleNamespace(instr_args=SimpleNamespace(op_index=index)) for index in (0, 1, 2, 1)]
            )
        ],
    )
    ops = (
        _at(1, "aten::add.Tensor", 0), _at(2, "nowhere::add.Tensor", 1), _at(3, "nowhere::add.Scalar", 2),
        _at(4, "nowhere::add.Tensor", 3),
    )  # fmt: skip
    with pytest.raises(UnsupportedError) as caught:
        need_runnable(plan, ops)
    first, *lines = caught.value.message.splitlines()
    assert first == "3 operators cannot be compiled:"
    nobody = "neither the NPU nor the CPU kernels of ExecuTorch's runtime"
    assert lines == [
        f"  net.py:{line}: nothing can run the operator `nowhere::add.{overload}`: {nobody}, at `line {line}`"
        for line, overload in ((2, "Tensor"), (4, "Tensor"), (3, "Scalar"))
    ]


def test_an_operator_that_the_partitioner_takes_and_the_converter_does_not():
    rows = X.flatten()[:2].repeat(70_000, 1)
    text = failure(UnsupportedError, Applies(lambda x: x.amax(1)), rows, calibration=[rows])
    assert ": op 0 ReduceMax, output `" in text
    assert (
        ": before and after the reduced dimensions of a tensor are at most 65,536 elements; found 70000 and 1" in text
    )
    assert text.endswith("\n\nhint: keep it on the CPU with `--operators-not-to-delegate aten::amax`")
    options = api.BuildOptions(operators_not_to_delegate=("aten::amax",))
    kept = api.build(Applies(lambda x: x.amax(1)), rows, calibration=[rows], options=options)
    assert kept.manifest.partitions == ()


def test_float_left_in_a_partition_names_the_line(monkeypatch: pytest.MonkeyPatch):
    real = surface.convert

    def convert_with_float(tflite: bytes, *args: object):
        model = flat.decode(tflite)
        hidden = model.operators[0].outputs[0]
        tensors = tuple(replace(t, dtype="FLOAT32") if i == hidden else t for i, t in enumerate(model.tensors))
        return real(encode(replace(model, tensors=tensors)), *args)

    monkeypatch.setattr(surface, "convert", convert_with_float)
    module = nn.Sequential(Applies(nn.Linear(8, 8)), Applies(nn.ReLU()))
    text = failure(UnsupportedError, module, X, calibration=[X])
    name = text.partition("tensor `")[2].partition("`")[0]
    problem = f"float left in a partition: tensor `{name}` is FLOAT32"
    first, second, third, *hint = text.split("\n")
    assert first == "2 operators cannot be compiled:"
    assert second == f"  {APPLIES}: `return self.function(x)`: op 0 FULLY_CONNECTED, output `{name}`: {problem}"
    assert third.startswith(f"  {APPLIES}: `return self.function(x)`: op 1 RELU, output `")
    assert third.endswith(problem)
    assert hint == ["", "hint: keep it on the CPU with `--operators-not-to-delegate aten::addmm,aten::relu`"]


def test_an_existing_directory_is_refused_before_any_work(tmp_path: Path):
    def never(*_: object) -> None:
        raise AssertionError("work began")

    assert failure(OptionError, FC, X, output=tmp_path, progress=never) == (
        f"`{tmp_path}` already exists\n\nhint: choose another output directory, or replace this one with `--force`"
    )


def test_a_build_that_fails_leaves_nothing(tmp_path: Path):
    failure(UnsupportedError, Applies(torch.erfinv), X * 0.9, output=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_another_executorch_is_refused(monkeypatch: pytest.MonkeyPatch):
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.4.2" if name == "executorch" else real(name))
    assert failure(MissingToolError, FC, X) == (
        "ExecuTorch 1.5.x is required, found 1.4.2\n\n"
        "hint: install the release that Deuteron was tested with: `pip install executorch==1.5.1`"
    )


class Cuts(nn.Module):
    """A slice of something whose range is fixed."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x)[:, 2:6]


def test_an_operator_that_the_wheel_quantized_and_cannot_convert(monkeypatch: pytest.MonkeyPatch):
    from deuteron.frontend.quantize import annotations

    monkeypatch.setattr(annotations, "correct_annotations", lambda model, *_, **__: model)
    model, x = nn.Sequential(nn.Conv2d(3, 8, 3), Cuts()), torch.ones(1, 3, 8, 8)
    assert failure(UnsupportedError, model, x, calibration=[x]) == (
        f"{__file__}:{inspect.getsourcelines(Cuts.forward)[1] + 1}: ExecuTorch's NXP backend quantized "
        "`aten::slice_copy.Tensor` in a way that it cannot convert, at `return torch.tanh(x)[:, 2:6]`\n\n"
        "hint: keep it on the CPU with `--operators-not-to-delegate aten::slice_copy`"
    )


def test_a_library_without_an_operator_of_ours_is_not_the_models_fault():
    with pytest.raises(MissingToolError) as caught:
        need_runnable(SimpleNamespace(operators=[SimpleNamespace(name="deuteron::later", overload="out")]), ())
    assert str(caught.value) == (
        f"{library('cortex_m')}: the native library of Cortex-M operators lacks `deuteron::later.out`: it was built "
        "from other sources\n\nhint: run `make native` in Deuteron's checkout"
    )
