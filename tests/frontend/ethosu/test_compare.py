"""Builds for Ethos-U compared with TOSA's reference model, bit for bit, and with quantized PyTorch."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.frontend.ethosu.networks import Pooled, asked, built, flags, halves, layer
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.builds import manifest as manifests
from deuteron.errors import FormatError, MissingToolError, OptionError
from deuteron.frontend import saved
from deuteron.runtime.host import HostRunner
from deuteron.views.compare import pytorch
from deuteron.views.compare.pytorch import PytorchComparison, compare
from deuteron.views.compare.tosa import TosaModel
from deuteron.views.run.host import BuildOnHost


def compared(make: Callable[[], Any], directory: Path) -> PytorchComparison:
    """On the input that the network was calibrated with, and others within its range."""
    inputs = make()[1]
    rng = np.random.default_rng(0)
    scales = (1.0, *rng.uniform(-1, 1, 3))
    return compare(directory, [[x.numpy() * np.float32(scale) for x in inputs] for scale in scales])


def test_every_partition_is_what_tosa_defines() -> None:
    comparison = compared(halves, built(halves))
    assert comparison.passed, comparison.failures()
    assert [(p.calls, p.mismatches) for p in comparison.partitions] == [(4, 0), (4, 0)]
    assert comparison.text().splitlines()[:4] == [
        "compared on 4 samples",
        "",
        "NPU against TOSA's reference model, bit for bit",
        f"  partition 0: 0 of {comparison.partitions[0].elements} results differ in 4 calls",
    ]
    assert "operator by operator" not in comparison.text()


def test_the_cortex_m_takes_the_rest_in_int8() -> None:
    directory = built(halves, "ethos-u55-128cm")
    manifest = manifests.read(directory)
    assert [op.op for op in manifest.cpu_ops] == [
        "cortex_m::quantize_per_tensor",
        "deuteron::compare",
        "deuteron::where",
        "cortex_m::dequantize_per_tensor",
    ]
    comparison = compared(halves, directory)
    assert comparison.passed, comparison.failures()
    assert [(p.calls, p.mismatches) for p in comparison.partitions] == [(4, 0), (4, 0)]


def test_what_is_boolean_is_compared_as_that() -> None:
    directory = built(flags, "ethos-u85-256")
    (partition,) = manifests.read(directory).partitions
    assert ([t.dtype for t in partition.inputs], [t.dtype for t in partition.outputs]) == (["int8"], ["bool"])
    comparison = compared(flags, directory)
    assert comparison.passed, comparison.failures()
    assert [(p.calls, p.elements, p.mismatches) for p in comparison.partitions] == [(4, 24, 0)]
    directory = built(asked, "ethos-u85-256")
    assert "bool" in [t.dtype for part in manifests.read(directory).partitions for t in part.inputs]
    comparison = compared(asked, directory)
    assert comparison.passed, comparison.failures()


def strided() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """A depthwise convolution whose stride is more than an Ethos-U85 has: an operation for each place of its kernel."""
    torch.manual_seed(0)
    return nn.Conv2d(4, 4, 4, 4, groups=4).eval(), (torch.randn(1, 4, 8, 8),), api.BuildOptions()


def test_kept_sums_of_depthwise_operations_are_what_tosa_defines() -> None:
    directory = built(strided, "ethos-u85-256")
    (partition,) = manifests.read(directory).partitions
    assert [kernel.kernel for kernel in partition.kernels].count("depthwise") == 16
    comparison = compared(strided, directory)
    assert comparison.passed, comparison.failures()
    assert [(p.calls, p.elements, p.mismatches) for p in comparison.partitions] == [(4, 64, 0)]


def strided_pools() -> tuple[Any, Sequence[Any], api.BuildOptions]:
    """Max-pools whose strides are more than an Ethos-U85 has, with padding and on a slice."""
    torch.manual_seed(0)
    return StridedPools().eval(), (torch.randn(1, 4, 21, 18),), api.BuildOptions()


class StridedPools(nn.Module):
    """A convolution and two max-pools."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 20, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.conv(x)
        return functional.max_pool2d(y, 4, 4, 2), functional.max_pool2d(y[:, :, 2:, 1:], (5, 4), (5, 4), (2, 1))


def test_kept_extrema_of_pools_are_what_tosa_defines() -> None:
    directory = built(strided_pools, "ethos-u85-256")
    (partition,) = manifests.read(directory).partitions
    assert [kernel.kernel for kernel in partition.kernels].count("max_pool") >= 36
    comparison = compared(strided_pools, directory)
    assert comparison.passed, comparison.failures()
    assert [(p.calls, p.mismatches) for p in comparison.partitions] == [(4, 0)]


def trained(module: nn.Module) -> Iterator[float]:
    """A step of training."""
    loss = module(torch.randn(1, 3, 8, 8)).square().mean()
    loss.backward()
    torch.optim.SGD(module.parameters(), 1e-3).step()
    yield float(loss)


@pytest.mark.parametrize(
    ("options", "dtype", "levels"),
    [
        (api.BuildOptions(activations=api.Activations.INT16), "int16", 127),
        (api.BuildOptions(weights=api.WeightValues.INT4), "int8", 7),
        (api.BuildOptions(use_qat=True), "int8", 127),
    ],
    ids=["int16 activations", "int4 weights", "trained"],
)
def test_each_quantization_is_what_tosa_defines(
    options: api.BuildOptions, dtype: str, levels: int, tmp_path: Path
) -> None:
    """And pools whose one window is the whole image are the NPU's."""
    torch.manual_seed(0)
    inputs = [(torch.randn(1, 3, 8, 8),) for _ in range(3)]
    train = trained if options.use_qat else None
    directory = tmp_path / "build"
    build = api.build(
        Pooled().eval(), inputs[0], target="ethos-u55-128", calibration=inputs, train=train, options=options,
        output=directory,
    )  # fmt: skip
    assert [node.op for node in build.manifest.nodes if node.partition is None] == []
    assert len(build.losses) == options.use_qat
    comparison = compare(directory, [[x.numpy() for x in sample] for sample in inputs])
    assert comparison.passed, comparison.failures()
    assert comparison.partitions[0].elements == 8 * len(inputs)
    assert [tensor.dtype for tensor in build.manifest.partitions[0].outputs] == [dtype]
    weights = [v for v in saved.load(directory / "reference.pt2").module.state_dict().values() if v.dtype == torch.int8]
    assert [int(w.abs().max()) for w in weights] == [levels]


@pytest.mark.full
def test_an_npu_is_trained_with_the_cpu_beside_it(tmp_path: Path) -> None:
    module, inputs, _ = halves()

    def train(module: nn.Module) -> Iterator[float]:
        loss = module(*inputs).square().mean()
        loss.backward()
        torch.optim.SGD(module.parameters(), 1e-3).step()
        yield float(loss)

    build = api.build(
        module, inputs, target="ethos-u55-128cm", calibration=[inputs], train=train,
        options=api.BuildOptions(use_qat=True), output=tmp_path / "build",
    )  # fmt: skip
    assert len(build.losses) == 1
    assert {op.op for op in build.manifest.cpu_ops} >= {"deuteron::compare", "deuteron::where"}
    comparison = compared(halves, tmp_path / "build")
    assert comparison.passed, comparison.failures()
    assert [p.mismatches for p in comparison.partitions] == [0, 0]


@pytest.mark.parametrize(("activations", "allowed"), [("int8", 2), ("int16", 128)])
def test_each_quantization_has_a_bound_of_its_own(
    activations: str, allowed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs at the bound pass, those one step further do not, and the partition is not what is blamed."""
    module, inputs, _ = layer()
    options = api.BuildOptions(activations=api.Activations(activations))
    api.build(module, inputs, target="ethos-u55-128", calibration=[inputs], options=options, output=tmp_path / "build")
    (affine,) = saved.load(tmp_path / "build/reference.pt2").outputs
    assert affine is not None
    scale, samples = affine.scale, [[x.numpy() for x in inputs]]
    # Operators compared one by one would lead to the program's own outputs.
    monkeypatch.setattr(pytorch, "_led_to", lambda *_: ())
    (ours,) = HostRunner(tmp_path / "build/model.pte").run(samples[0])

    def failures(steps: int) -> tuple[str, ...]:
        monkeypatch.setattr(pytorch, "_expected", lambda *_: (torch.from_numpy(ours) + steps * scale,))
        return compare(tmp_path / "build", samples).failures()

    assert failures(allowed) == ()
    assert failures(allowed + 1) == (
        f"output 0: {allowed + 1} steps from PyTorch's, at most {allowed} are allowed; the NPU's own results are those "
        "of TOSA's reference model, bit for bit",
    )


def test_a_difference_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    run = TosaModel.run
    monkeypatch.setattr(TosaModel, "run", lambda self, inputs: [y + np.int8(1) for y in run(self, inputs)])
    outputs, first = compared(layer, built(layer)).failures()
    assert outputs == "partition 0: 32 of 32 results of the NPU differ from TOSA's reference model"
    assert first.startswith("partition 0, op 8 TRANSPOSE, ")


def test_without_the_reference_model_nothing_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tosa_reference_model", None)
    with pytest.raises(MissingToolError) as caught:
        compared(layer, built(layer))
    assert str(caught.value) == (
        "TOSA's reference model, package `tosa-tools`, is not installed; it is the reference for an Ethos-U\n\nhint: "
        "install it with `pip install 'deuteron[ethos-u]'`"
    )


def test_a_build_has_nothing_for_litert() -> None:
    with pytest.raises(OptionError) as caught:
        BuildOnHost(built(layer)).check("litert")
    assert str(caught.value) == "a build is compared with PyTorch, not with LiteRT\n\nhint: use `--compare`"


def test_a_partition_that_is_another_is_told() -> None:
    model = TosaModel((built(layer) / "npu_0.tosa").read_bytes(), "npu_0.tosa")
    with pytest.raises(FormatError) as caught:
        model.run([])
    assert str(caught.value) == "npu_0.tosa: the partition has 1 input in TOSA, and 0 inputs for the NPU"


class Permuted(nn.Module):
    """Rows of segments of channels, permuted before and after a layer, as in vision permutators."""

    def __init__(self) -> None:
        super().__init__()
        self.channels, self.columns = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(1, 4, 4, 4, 4).permute(0, 3, 1, 2, 4).reshape(1, 4, 4, 16)
        columns = self.columns(rows).reshape(1, 4, 4, 4, 4).permute(0, 2, 3, 1, 4).reshape(1, 4, 4, 16)
        return self.channels(x) + columns


@pytest.mark.full
def test_a_permutation_that_is_written_as_its_reader_reshapes_it_is_not_compared(tmp_path: Path):
    torch.manual_seed(0)
    inputs = [(torch.randn(1, 4, 4, 16),) for _ in range(4)]
    api.build(Permuted().eval(), inputs[0], target="ethos-u85-256", calibration=inputs, output=tmp_path / "build")
    compared = api.compare(tmp_path / "build", [(inputs[0][0].numpy(),)])
    assert compared.passed, compared.failures()
