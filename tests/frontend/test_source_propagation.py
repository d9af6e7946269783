"""Every node keeps its line of the model through the passes that bring it into the form of a processor."""

import operator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import full, store
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron import api
from deuteron.builds import manifest
from deuteron.builds.manifest import Source
from deuteron.builds.user_frames import last_user_line
from deuteron.frontend.quantize import source_propagation
from deuteron.frontend.source_lines import source_in

aten = torch.ops.aten


class Signals(nn.Module):
    """Operators that passes rewrite: layers in 1-D, groups, splits, divisions, norms, pads."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(4, 16, 5, padding=2), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2))
        self.grouped = nn.Conv1d(16, 16, 3, padding=1, groups=4)
        self.norm = nn.LayerNorm(16)
        self.up = nn.ConvTranspose1d(16, 8, 2, stride=2)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = self.grouped(x)
        x = functional.pad(x, (4, 0))
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        a, b = x.split(8, 1)
        x = torch.cat([a / 2, b * torch.sigmoid(b)], 1)
        x = self.up(x)
        x = functional.relu6(x).mean(-1)
        return functional.softmax(self.head(x), -1)


def signals() -> tuple[nn.Module, tuple[Tensor, ...], api.BuildOptions]:
    """The network as `store.network` wants it."""
    torch.manual_seed(0)
    return Signals(), (torch.randn(1, 4, 64),), api.BuildOptions()


@pytest.mark.slow
@pytest.mark.parametrize("target", full.only(["imxrt700", "imxrt700cm", "ethos-u55-128"], "imxrt700cm"))
def test_all_operators_of_a_build_have_a_line_of_the_model(target: str) -> None:
    built = manifest.read(store.network(signals, "signals", target=target))
    operators = [op for part in built.partitions for op in part.ops if op.nodes] + [
        op for op in built.cpu_ops if op.computes
    ]
    for op in operators:
        for source in op.source:
            assert source.file == __file__
            assert source.code in Path(__file__).read_text()
    assert [op for op in operators if not op.source] == []


def layers() -> tuple[nn.Module, tuple[Tensor, ...], api.BuildOptions]:
    """A model without a source line."""
    torch.manual_seed(0)
    stem = nn.Sequential(nn.Conv1d(4, 8, 3, padding=1), nn.ReLU())
    return nn.Sequential(stem, nn.Flatten(), nn.Linear(128, 5)), (torch.randn(1, 4, 16),), api.BuildOptions()


@pytest.mark.slow
def test_layers_stand_for_lines_where_the_model_is_a_module_of_pytorchs() -> None:
    directory = store.network(layers, "layers", target="imxrt700")
    built = manifest.read(directory)
    sources = {str(source) for part in built.partitions for op in part.ops for source in op.source}
    assert {"[0.0] Conv1d", "[0.1] ReLU", "[2] Linear"} <= sources
    assert [op for part in built.partitions for op in part.ops if op.nodes and not op.source] == []
    assert "npu 0  aten::addmm  [2] Linear" in [*api.explain(directory).lines()]


def test_a_layer_stands_for_a_line_in_its_place_only() -> None:
    layer, line = Source("", 0, "Conv2d", "3"), Source("/models/net.py", 7, "x = self.a(x)", "a")
    assert (str(layer), layer.short, layer.short_with_code) == ("[3] Conv2d",) * 3
    assert str(Source("", 0, "Linear", "")) == "Linear"
    assert (str(line), line.short) == ("/models/net.py:7", "net.py:7")
    assert line.short_with_code == "net.py:7: x = self.a(x)"


def test_a_line_goes_before_a_layer_and_modules_of_others_are_none() -> None:
    stack = {"a": ("", "torch.nn.modules.container.Sequential"), "b": ("3", nn.Conv2d)}
    assert source_in({"nn_module_stack": stack}) == Source("", 0, "Conv2d", "3")
    assert str(source_in({"nn_module_stack": stack, "stack_trace": trace(4)})) != "[3] Conv2d"
    assert source_in({"nn_module_stack": {"a": ("", "net.Net"), "b": ("3", nn.Conv2d)}}) is None


def model(*targets: Any) -> fx.GraphModule:
    """A chain of calls, each on a separate line."""
    graph = fx.Graph()
    node = graph.placeholder("x")
    for number, target in enumerate(targets):
        node = graph.call_function(target, (node,))
        node.meta["stack_trace"] = trace(number)
    graph.output(node)
    return fx.GraphModule(nn.Module(), graph)


def trace(number: int) -> str:
    """The fields of a line that PyTorch keeps."""
    return f'  File "net.py", line {number}, in forward\n    x = f{number}(x)\n'


def numbers(model: fx.GraphModule) -> list[tuple[str, int | None]]:
    """The calls and their lines."""
    nodes = [node for node in model.graph.nodes if node.op == "call_function"]
    found = [last_user_line(node.meta.get("stack_trace", "")) for node in nodes]
    return [(node.name, line and line[1]) for node, line in zip(nodes, found, strict=True)]


def around(model: fx.GraphModule, name: str, *, renames: bool = False) -> fx.GraphModule:
    """Put `neg, name, abs` in place of a node, of which nothing has a line."""
    (node,) = (node for node in model.graph.nodes if node.name == name)
    with model.graph.inserting_before(node):
        first = model.graph.call_function(operator.neg, node.args)
        middle = model.graph.call_function(node.target, (first,))
        last = model.graph.call_function(operator.abs, (middle,))
    node.replace_all_uses_with(last)
    model.graph.erase_node(node)
    if not renames:
        return model
    copied = fx.Graph()
    for node in model.graph.nodes:
        node.name = f"again_{node.name}"
    copied.output(copied.graph_copy(model.graph, {}))
    return fx.GraphModule(model, copied)


def test_what_is_put_in_place_of_a_node_has_its_line() -> None:
    changed = source_propagation.keep_sources(
        model(torch.sin, torch.cos, torch.exp), lambda model: around(model, "cos")
    )
    assert [line for _, line in numbers(changed)] == [0, 1, 1, 1, 2]


def test_what_two_passes_make_of_neighbours_has_their_lines() -> None:
    changed = source_propagation.keep_sources(
        model(torch.sin, torch.cos, torch.exp), lambda model: around(around(model, "cos"), "exp", renames=True)
    )
    assert [line for _, line in numbers(changed)] == [0, 1, 1, 1, 2, 2, 2]


def put_between(model: fx.GraphModule) -> fx.GraphModule:
    """Put a node behind the first."""
    first = next(node for node in model.graph.nodes if node.op == "call_function")
    with model.graph.inserting_after(first):
        new = model.graph.call_function(operator.neg, (first,))
    first.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)
    return model


def test_what_is_put_between_two_lines_has_none() -> None:
    changed = source_propagation.keep_sources(model(torch.sin, torch.cos), put_between)
    source_propagation.fill(changed.graph)
    assert [line for _, line in numbers(changed)] == [0, None, 1]


def test_what_stands_between_nodes_of_one_line_is_of_it() -> None:
    changed = put_between(model(torch.sin, torch.cos))
    for node in changed.graph.nodes:
        if node.target in (torch.sin, torch.cos):
            node.meta["stack_trace"] = trace(7)
    source_propagation.fill(changed.graph)
    assert [line for _, line in numbers(changed)] == [7, 7, 7]


def test_what_others_put_in_without_a_line_of_the_model_counts_as_new() -> None:
    changed = model(torch.sin, torch.cos, torch.exp)
    for node in changed.graph.nodes:
        if node.op == "call_function":
            inside = f'  File "{torch.__file__}", line 1, in call\n    return f(x)\n'
            node.meta["stack_trace"] = inside if node.target is torch.cos else trace(3)
    source_propagation.fill(changed.graph)
    assert [line for _, line in numbers(changed)] == [3, 3, 3]
