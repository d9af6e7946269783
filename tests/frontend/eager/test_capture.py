"""The exported graph gives what the module gives in eager PyTorch, or the build says which line differs."""

import inspect
import logging
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import full
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from deuteron import api
from deuteron.errors import InputError, UnsupportedError
from deuteron.frontend.eager.capture import Captured, captured, known, run
from deuteron.frontend.eager.state import Snapshot
from deuteron.frontend.export import DRAWS

SAMPLES = [(torch.arange(8.0).reshape(2, 4) - 3,), (torch.ones(2, 4),)]


class Net(nn.Module):
    """A module of a function of itself and its input."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(4, 4), function
        self.register_buffer("kept", torch.zeros(2, 4))
        self.options = {"training": False}

    def forward(self, x: Tensor) -> Any:
        return self.function(self, self.layer(x))


@dataclass
class Inner:
    low: Tensor
    high: Tensor | None = None


@dataclass
class Outer:
    first: Tensor
    parts: list[Inner]


def structured(_: Any, x: Tensor) -> Outer:
    return Outer(x * 2, [Inner(x.relu()), Inner(x, x + 1)])


def structured_state(m: Any, x: Tensor) -> Outer:
    m.kept = m.kept + x
    return structured(m, m.kept)


@pytest.mark.parametrize("function", [structured, structured_state])
def test_dataclasses_of_outputs_stay_unknown_to_pytorch(function: Callable[..., Any]):
    observed, graph = captured(Net(function).eval(), SAMPLES)
    assert len(observed.outputs[0]) == 4
    assert len(run(graph, (*SAMPLES[0], *(one.initial for one in observed.variables)))) >= 4
    (value,) = pytree.tree_leaves(Inner(SAMPLES[0][0]))
    assert isinstance(value, Inner)
    assert not {Inner, Outer} & set(pytree.SUPPORTED_NODES)


def operators(graph: fx.GraphModule) -> list[str]:
    """The operators of a graph, by name."""
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


def halves(_: Any, x: Tensor) -> Tensor:
    a, b = x.chunk(2, 1)
    a.mul_(2)
    return torch.cat([a, b], 1)


def into(_: Any, x: Tensor) -> Tensor:
    y = torch.empty(2, 4)
    torch.add(x, 1.0, out=y)
    return y


def without_gradients(m: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x.relu()
    with torch.enable_grad():
        y = y + m.layer(x)
    with torch.autocast("cuda"):
        y = y * 2
    return y.detach()


@torch.no_grad()
def decorated(_: Any, x: Tensor) -> Tensor:
    return x.relu()


def by_gradient_mode(_: Any, x: Tensor) -> Tensor:
    return x if torch.is_grad_enabled() else x * 2


def by_need_of_gradient(m: Any, x: Tensor) -> Tensor:
    return x * 2 if m.layer.weight.requires_grad else x


def overwritten(m: Any, x: Tensor) -> Tensor:
    m.kept.copy_(x)
    m.kept[:, :2].mul_(2)
    return m.kept + x


def scaled_by_the_greatest(_: Any, x: Tensor) -> Tensor:
    return x * x.max().item() + float(x.min())


def logged(_: Any, x: Tensor) -> Tensor:
    logging.getLogger("deuteron.test").warning("shape %s", x.shape)
    sys.stdout.write(str(x.shape))
    assert x.shape[0] == 2
    torch._check(x.shape[1] == 4)
    return x


def derives(m: Any, x: Tensor) -> Tensor:
    return torch.func.grad(lambda z: (m.layer(z) ** 2).sum())(x)


def multiplies(m: Any, x: Tensor) -> Tensor:
    return torch.func.vjp(m.layer, x)[1](x)[0]


def mapped(m: Any, x: Tensor) -> Tensor:
    return torch.vmap(lambda row: m.layer(row).relu())(x)


TAKEN = [
    halves, into, without_gradients, decorated, by_gradient_mode, by_need_of_gradient, overwritten,
    scaled_by_the_greatest, logged, lambda m, x: {"a": x, "b": [x * 2, None]}, lambda m, x: x.max(1),
]  # fmt: skip


@pytest.mark.parametrize("function", TAKEN)
def test_graphs_give_what_modules_give(function: Callable[..., Any]):
    observed, graph = captured(Net(function), SAMPLES)
    for sample in (*SAMPLES, (torch.randn(2, 4),)):
        assert all(map(torch.equal, run(graph, sample), observed.run([sample])[0]))
    flat = graph.graph.output_node().args[0]
    assert isinstance(flat, fx.Node) or all(isinstance(value, fx.Node) for value in flat)  # type: ignore[union-attr]
    assert not any(name.startswith("wrap_with") or "_assert" in name for name in operators(graph))


def loops(_: Any, x: Tensor) -> Tensor:
    from torch._higher_order_ops import while_loop

    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))[1]


def asks(_: Any, x: Tensor) -> Tensor:
    if torch.compiler.is_compiling():
        return x
    return x * 2


def chooses(_: Any, x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, (x,))


def casts(_: Any, x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
    return y.float()


def clamps(_: Any, x: Tensor) -> Tensor:
    return x.clamp(min=x.mean().item())


def writes_data(_: Any, x: Tensor) -> Tensor:
    y = x + 1
    y.data.mul_(2)
    return y


def reads_data(m: Any, x: Tensor) -> Tensor:
    scales = torch.from_numpy(np.linspace(0.5, 2, 3, dtype=np.float32))
    return m.layer(x.data) * m.layer.weight.data.abs().max() + scales.sum()


@pytest.mark.parametrize("function", [writes_data, reads_data])
def test_data_is_the_tensor_itself(function: Callable[..., Any]):
    observed, graph = captured(Net(function), SAMPLES)
    for sample, wanted in zip(SAMPLES, observed.outputs, strict=False):
        assert torch.equal(run(graph, sample)[0], wanted[0])


class KeepsItsInput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.kept = x
        self.kept.data.add_(1)
        return x * 2


def test_an_input_that_becomes_a_buffer_may_be_written():
    observed, graph = captured(KeepsItsInput(), SAMPLES)
    assert torch.equal(run(graph, SAMPLES[0])[0], observed.outputs[0][0])


FIXED = "write it as a Python loop with a fixed number of steps: PyTorch exports these one by one"


class Gates(nn.Module):
    """Reads a buffer by a comparison alone, which no value of a few runs shows."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros((), dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        self.n.add_(1)
        return torch.where(self.n > 10, x * 2, x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_a_buffer_that_a_comparison_reads_is_state(dtype: torch.dtype):
    observed, _ = captured(Gates(dtype), SAMPLES)
    assert [(one.name, one.source and one.source.code) for one in observed.variables] == [("n", "self.n.add_(1)")]


FUNC = (
    "functions of `torch.func`, such as `grad` and `vmap`, leave no operators in the graph",
    "write a derivative as a formula, and in place of `vmap` the function for a batch, which operators accept",
)
REFUSED = [
    (derives, "return torch.func.grad(lambda z: (m.layer(z) ** 2).sum())(x)", *FUNC),
    (multiplies, "return torch.func.vjp(m.layer, x)[1](x)[0]", *FUNC),
    (mapped, "return torch.vmap(lambda row: m.layer(row).relu())(x)", *FUNC),
    (loops, "return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))[1]",
     "`while_loop` selects code by values", FIXED),
    (casts, "y = x @ x.t()", "`torch.autocast` computes in bfloat16, not in float32",
     "leave the autocast block out of the model, or give it `enabled=False`"),
    (clamps, "return x.clamp(min=x.mean().item())", "`aten::clamp` needs a number that depends on values",
     "leave out `.item()`, `float()` and `int()`: operators take tensors of one element as they are"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "code", "what", "hint"), REFUSED)
def test_refusals_name_the_line(function: Callable[..., Any], code: str, what: str, hint: str):
    with pytest.raises(UnsupportedError) as caught:
        captured(Net(function), SAMPLES)
    lines, first = inspect.getsourcelines(function)
    line = first + next(i for i, text in enumerate(lines) if code in text)
    assert str(caught.value) == f"{__file__}:{line}: {what}, at `{code}`\n\nhint: {hint}"


@pytest.mark.parametrize("function", [asks, chooses])
def test_the_graph_has_the_branch_of_the_run(function: Callable[..., Any]):
    module = Net(function).eval()
    _, graph = captured(module, SAMPLES)
    for sample in [*SAMPLES, (-SAMPLES[0][0],)]:
        torch.testing.assert_close(run(graph, sample)[0], module(*sample))


def drawn_in_python(_: Any, x: Tensor) -> Tensor:
    return x * random.random()


def test_a_random_number_of_python_is_no_constant():
    with pytest.raises(UnsupportedError) as caught:
        captured(Net(drawn_in_python), SAMPLES)
    assert caught.value.where is not None
    assert f"{Path(__file__).name}:" in caught.value.where
    assert caught.value.hint == DRAWS


def test_programs_and_traced_modules_are_modules():
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
    program = torch.export.export(module, SAMPLES[0])
    traced = fx.symbolic_trace(module)
    for model in (program, program.module(), traced):
        observed, graph = captured(model, SAMPLES)
        assert all(map(torch.equal, run(graph, SAMPLES[1]), observed.outputs[1]))


def test_a_session_gets_the_graph_with_weights_of_its_own():
    _, graph = captured(Net(halves), SAMPLES)
    with known():
        first, second = (torch.export.export(Captured(graph), SAMPLES[0], strict=True).module() for _ in range(2))
        other = torch.export.export(nn.Linear(4, 4), SAMPLES[0]).module()
    assert isinstance(first, fx.GraphModule)
    assert operators(first) == operators(graph)
    assert first.layer.weight is not second.layer.weight
    assert operators(other) == ["aten.linear.default"]  # type: ignore[arg-type]


class Attends(nn.Module):
    """Layers that PyTorch would fuse when it runs without gradients, and a table whose rows have a greatest norm."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 8, max_norm=1.0)
        self.encode = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, i: Tensor) -> Tensor:
        return self.encode(self.table(i))


def test_layers_stay_apart_without_gradients():
    _, graph = captured(Attends(), [(torch.tensor([[0, 1, 2]]),), (torch.tensor([[3, 1, 7]]),)])
    assert not any("_fwd" in name or "native_multi_head" in name for name in operators(graph))
    assert torch.backends.mha.get_fastpath_enabled()


class Listed(nn.Module):
    """Has its layers in a plain list, where PyTorch does not see them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4))]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_weights_of_layers_in_a_list_are_parameters():
    """Others would get sizes that are not known when the graph is traced again."""
    _, graph = captured(nn.Sequential(Listed()), SAMPLES)
    weights = [fx.Interpreter(graph).fetch_attr(str(one.target)) for one in graph.graph.find_nodes(op="get_attr")]
    assert len(weights) == 4
    assert all(isinstance(one, nn.Parameter) for one in weights)


class Offsets(nn.Module):
    """Adds a NumPy array to indices; a strict export has no value of it."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets = np.array([0, 2, 5])

    def forward(self, x: Tensor) -> Tensor:
        return x + x.new_tensor(self.offsets)


def test_a_numpy_array_is_a_constant():
    samples = [(torch.tensor([[1, 0, 2]]),), (torch.tensor([[0, 1, 1]]),)]
    observed, graph = captured(Offsets(), samples)
    assert all(map(torch.equal, run(graph, samples[1]), observed.outputs[1]))


def test_what_cannot_be_exported_names_the_line():
    def branches(_: Any, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x + 1
        return x

    with pytest.raises(InputError) as caught:
        captured(Net(branches), SAMPLES)
    assert "PyTorch cannot export this model: Data-dependent branching, at `if x.sum() > 0:`" in str(caught.value)


class Overwrites(nn.Module):
    """Overwrites a buffer in each run before it reads it, and returns a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 4)
        self.register_buffer("kept", torch.zeros(2, 4))
        self.runs = 0

    def forward(self, x: Tensor) -> dict[str, Any]:
        self.runs += 1
        self.kept.copy_(self.layer(x))
        self.kept[:, :2].mul_(2)
        return {"kept": self.kept.relu(), "input": [x, None]}


@pytest.mark.parametrize("target", full.only(["imxrt700", "cortex-m55", "ethos-u55-128"], "cortex-m55"))
def test_a_module_is_built_as_it_is_and_stays_so(target: str, tmp_path: Path):
    module, samples = Overwrites().train(), [torch.randn(2, 4) for _ in range(8)]
    before, drawn = Snapshot(module), torch.random.get_rng_state()
    built = api.build(module, samples[0], target=target, calibration=samples, output=tmp_path / "build")
    assert before.changed(Snapshot(module)) == ()
    assert torch.equal(drawn, torch.random.get_rng_state())
    assert min(output.sqnr for output in built.manifest.quality.outputs) > 30
    kept, given = api.run(tmp_path / "build", [samples[0].numpy()])
    wanted = module(samples[0])["kept"].detach().numpy()
    assert abs(kept - wanted).max() < 0.1
    assert abs(given - samples[0].numpy()).max() < 0.1


def chosen(_: Any, x: Tensor) -> Tensor:
    return torch.where(x.sum() > 0, x, -x)


def bounded(_: Any, x: Tensor) -> Tensor:
    return torch.maximum(x, x.mean())


def written(_: Any, x: Tensor) -> Tensor:
    y = x + 1
    y.mul_(2)
    return y


def stepped(_: Any, x: Tensor) -> Tensor:
    for _step in range(3):
        x = x * 2
    return x


class Returns(nn.Module):
    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = h * 0.5 + x
        return h, h


@pytest.mark.parametrize("function", [chosen, bounded, written, stepped])
def test_what_the_guide_says_instead_is_taken(function: Callable[..., Any]):
    captured(Net(function), SAMPLES)


def test_state_as_an_input_is_taken():
    captured(Returns(), [(*SAMPLES[0], torch.zeros(2, 4)), (*SAMPLES[1], torch.ones(2, 4))])


def test_embeddings_with_a_maximum_norm_keep_no_state():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Embedding(6, 4, max_norm=0.5), nn.Linear(4, 2))
    before = module[0].weight.detach().clone()
    samples = [(torch.tensor([[0, 3, 3]]),), (torch.tensor([[5, 3, 1]]),)]
    observed, graph = captured(module, samples)
    assert observed.variables == ()
    for sample in samples:
        torch.testing.assert_close(run(graph, sample)[0], observed.run([sample])[0][0])
    assert torch.equal(module[0].weight, before)
    torch.testing.assert_close(run(graph, samples[1])[0], module(*samples[1]))


def test_a_shared_table_whose_rows_get_their_norm_in_the_first_run_is_constant():
    module = Net(lambda m, x: m.table(torch.tensor([[0, 1]])) @ m.table.weight.t() + x.sum())
    module.table = nn.Embedding(3, 4, max_norm=0.5)
    with torch.no_grad():
        module.table.weight.fill_(1.0)
    observed, graph = captured(module, SAMPLES)
    assert observed.variables == ()
    torch.testing.assert_close(run(graph, SAMPLES[1])[0], module(*SAMPLES[1]))


def test_gradients_are_refused():
    def gradient(m: Net, x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            return torch.autograd.grad(m.layer(x).square().sum(), x)[0]

    with pytest.raises(InputError, match=r"cannot export this model: it computes gradients, at `return torch"):
        captured(Net(gradient), SAMPLES)
