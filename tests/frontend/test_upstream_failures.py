"""The wheel's own parts put together as they are: how each composition fails that `test_combined.py` sees work."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.frontend import unmodified_executorch as unmodified
from tests.frontend.test_heterogeneous import Middle
from torch import Tensor, nn
from torch.nn import functional

from deuteron.builds.options import BuildOptions
from deuteron.frontend.backends.neutron import upstream

LAST = torch.channels_last
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _converter() -> Iterator[None]:
    """The NXP backend finds its converter."""
    with upstream.converter(BuildOptions()):
        yield


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(1, 3, 8, 8)


def last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=LAST)


def test_two_quantizers_change_each_others_annotations(x: Tensor) -> None:
    """Break 1."""
    with pytest.raises(RuntimeError, match="changed annotations"):
        unmodified.quantized(Middle(), x, unmodified.composed(unmodified.neutron(), unmodified.cortex_m_quantizer()))


def test_what_another_quantizer_annotated_stays_in_float(x: Tensor) -> None:
    """Break 2."""
    program, _ = unmodified.lowered(Images(), last(x), unmodified.neutron())
    assert "aten::convolution" in unmodified.in_float(program)


class Absolute(nn.Module):
    """Numbers without their sign."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.abs(x)


def test_marks_on_everything_give_wrong_values(x: Tensor) -> None:
    """Break 3."""
    program, error = unmodified.lowered(Absolute(), x.abs() + 1, unmodified.marked(unmodified.neutron()))
    assert "aten::abs" in unmodified.names(program)
    assert error > 1


class Joined(nn.Module):
    """A small and a large tensor, each with a separate scale."""

    def forward(self, x: Tensor) -> Tensor:
        quantize = torch.ops.quantized_decomposed.quantize_per_tensor.default
        dequantize = torch.ops.quantized_decomposed.dequantize_per_tensor.default
        limits = (-128, 127, torch.int8)
        small = dequantize(quantize(x, 0.02, 0, *limits), 0.02, 0, *limits)
        large = dequantize(quantize(20 * x, 0.4, 0, *limits), 0.4, 0, *limits)
        joined = torch.cat([small, large], 1)
        return dequantize(quantize(joined, 0.4, 0, *limits), 0.4, 0, *limits)


def test_one_of_several_scales_is_taken_for_all(x: Tensor) -> None:
    """Break 4."""
    program = unmodified.edge_program(torch.export.export(Joined(), (x,)).module(check_guards=False), x)
    (cat,) = (node for node in program.graph.nodes if "cat" in str(node.target))
    cat.meta["custom"] = {"_arm_annotation_info": {"quantized": True}}
    found = unmodified.with_operators(program).module(check_guards=False)(x)
    assert (found - Joined()(x)).abs().max() > 1


class Linear(nn.Module):
    """A layer that a partitioner leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


def test_a_partitioner_makes_executorch_decompose_linear_layers(x: Tensor) -> None:
    """Break 5."""
    partitioner = unmodified.part("executorch.exir.backend.partitioner", "Partitioner")
    result = unmodified.part("executorch.exir.backend.partitioner", "PartitionResult")

    class Nothing(partitioner):
        def partition(self, exported_program: torch.export.ExportedProgram) -> object:
            return result(tagged_exported_program=exported_program, partition_tags={})

    found = torch.export.export(unmodified.quantized(Linear(), x, unmodified.cortex_m_quantizer()), (x,))
    lower = unmodified.part("executorch.exir", "to_edge_transform_and_lower")
    program = lower(found, partitioner=[Nothing()], compile_config=unmodified.config()).exported_program()
    assert "aten::linear" not in unmodified.names(program)
    assert "aten::linear" in unmodified.names(unmodified.edge_program(found.module(check_guards=False), x))


class Pool(nn.Module):
    """A pool of an image in the order of its shape."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.max_pool2d(x, 2)


def test_pools_do_not_look_at_the_order_of_memory(x: Tensor) -> None:
    """Break 6: PyTorch computes the same, the kernel would refuse it."""
    program, error = unmodified.lowered(Pool(), x, unmodified.cortex_m_quantizer())
    (node,) = (node for node in program.graph.nodes if "max_pool2d" in str(node.target))
    (image,) = node.all_input_nodes
    assert (error, image.meta["val"].dim_order()) == (0, (0, 1, 2, 3))


class Images(nn.Module):
    """A convolution, and what a test does to its image."""

    def __init__(self, *, pad: bool = False, clone: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.pad, self.clone = nn.Conv2d(3, 4, 3), pad, clone

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.conv(x))
        x = functional.pad(x, (1, 0, 0, 2), value=0.5) if self.pad else x
        return x.contiguous(memory_format=LAST) if self.clone else x


@pytest.mark.parametrize("case", ["input", "clone"])
def test_the_explicit_layout_refuses_images_in_channels_last_memory(x: Tensor, case: str) -> None:
    """Break 7, and clones with a dim order."""
    given = last(x) if case == "input" else x
    with pytest.raises(Exception, match="ValidateCortexMExplicitLayoutPass"):
        unmodified.lowered(Images(clone=case == "clone"), given, unmodified.cortex_m_quantizer(), explicit=True)


def test_exported_modules_call_their_guards(x: Tensor) -> None:
    """Break 8."""
    module = torch.export.export(Pool(), (x,)).module()
    assert isinstance(module, torch.fx.GraphModule)
    assert any(node.op == "call_module" for node in module.graph.nodes)
    with pytest.raises(Exception, match="call_module is not supported"):
        unmodified.cortex_m_quantizer().transform_for_annotation(module)


@pytest.mark.parametrize("case", ["pad", "clone"])
def test_images_in_the_order_of_their_shape_leave_convolutions_in_float(x: Tensor, case: str) -> None:
    """Break 9: with pads and copies, too."""
    program, _ = unmodified.lowered(
        Images(pad=case == "pad", clone=case == "clone"), x, unmodified.cortex_m_quantizer()
    )
    assert "aten::convolution" in unmodified.in_float(program)


def test_outputs_are_quantized_twice(x: Tensor) -> None:
    """Break 10."""

    class Shares(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.softmax(x, -1)

    module = unmodified.quantized(Shares(), x, unmodified.cortex_m_quantizer())
    quantizes = [node for node in module.graph.nodes if ".quantize_per_tensor" in str(node.target)]
    assert len(quantizes) == 3  # the input, the result, and that again


RUN = """
import torch
from executorch.exir import to_edge
from executorch.runtime import Runtime
class Sides(torch.nn.Module):
    def forward(self, x): return torch.cat([x, x + x], 1)
class Rows(torch.nn.Module):
    def forward(self, x):
        rows = (x + x).flatten(2)
        return rows + rows
x = torch.arange(32, dtype=torch.int8).reshape(1, 2, 4, 4).contiguous(memory_format=torch.channels_last)
for module in (Sides(), Rows()):
    program = to_edge(torch.export.export(module, (x,))).to_executorch()
    method = Runtime.get().load_program(bytes(program.buffer)).load_method("forward")
    print(torch.equal(method.execute((x,))[0], module(x)))
"""


@pytest.mark.full
def test_executorchs_runtime_joins_and_views_images_in_channels_last_memory_wrongly(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(RUN)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stdout == "False\nFalse\n", done.stderr
