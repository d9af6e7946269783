"""Shortcuts through PyTorch and ExecuTorch: each does what it says, nothing stays, and no byte of a program changes."""

import copy
import gc
import importlib
import pickle
import sys
from contextlib import AbstractContextManager, nullcontext
from importlib import resources
from pathlib import Path

import pytest
import torch
from ruamel.yaml import YAML
from tests.frontend.build_helpers import Applies
from torch import Tensor, nn
from torch._dynamo import functional_export
from torch._export.utils import _collect_all_valid_cia_ops_for_namespace as composite
from torch._higher_order_ops.auto_functionalize import auto_functionalized
from torch._subclasses import FakeTensorMode
from torch.fx.traceback import NodeSource

from deuteron.arch import targets
from deuteron.builds.options import BuildOptions, Converter
from deuteron.frontend import upstream_caches
from deuteron.frontend.backends.neutron import upstream
from deuteron.frontend.backends.neutron.npu_backend import NeutronNpuBackend
from deuteron.frontend.build import build
from deuteron.frontend.gc_threshold import THRESHOLD, rare_collections
from deuteron.frontend.pipeline import Flow
from deuteron.frontend.upstream import private_apis
from deuteron.frontend.upstream.access import value_of

POST_GRAD = "torch._inductor.fx_passes.post_grad"
X = torch.linspace(-1, 1, 8).reshape(1, 8)


class Mixed(nn.Module):
    """Operators that the passes of ExecuTorch's NXP backend change: a residual, a pool, a reshape, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.linear = nn.Linear(128, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = nn.functional.max_pool2d(self.second(x) + x, 2)
        return torch.softmax(self.linear(x.flatten(1)), 1)


def test_a_release_without_a_name_is_served_without_the_shortcut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("torch._export.utils._materialize_cpp_cia_ops")
    with upstream.converter(BuildOptions()), upstream_caches.active():
        assert not hasattr(torch._export.utils, "_materialize_cpp_cia_ops")


@pytest.mark.full
@pytest.mark.slow
def test_no_byte_of_a_program_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = (torch.linspace(-1, 1, 192).reshape(1, 3, 8, 8),)
    short = build(Mixed(), inputs, target="imxrt700cm", calibration=[inputs])
    for name in ("active", "exporting"):
        monkeypatch.setattr(upstream_caches, name, nullcontext)
    plain = build(Mixed(), inputs, target="imxrt700cm", calibration=[inputs])
    assert short.pte == plain.pte
    assert short.manifest.nodes == plain.manifest.nodes
    assert short.manifest.partitions == plain.manifest.partitions


class Counting(nn.Module):
    """Counts its runs."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Tensor
        self.step: Tensor
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("step", torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += self.step
        return x + self.count


@pytest.mark.parametrize("module", [Counting(), Mixed()])
def test_changed_buffers_are_those_that_executorch_finds(module: nn.Module) -> None:
    x = torch.ones(1) if isinstance(module, Counting) else torch.zeros(1, 3, 8, 8)
    program = torch.export.export(module, (x,)).run_decompositions()
    name = private_apis.MUTABLE_BUFFERS[0]
    plain = value_of(name)
    with upstream_caches.active():
        short = value_of(name)
    assert short is not plain
    found = [short(node, program.graph_signature) for node in program.graph.nodes]
    assert found == [plain(node, program.graph_signature) for node in program.graph.nodes]
    assert found.count(True) == isinstance(module, Counting)


def test_nothing_stays() -> None:
    names = (
        (torch.export.ExportedProgram, "run_decompositions"),
        (torch._export.utils, "_materialize_cpp_cia_ops"),
        (torch.library.Library, "define"),
        (torch.fx.GraphModule, "recompile"),
    )
    before = [vars(owner)[name] for owner, name in names]
    with upstream.converter(BuildOptions()), upstream_caches.active():
        assert all(vars(owner)[name] is not old for (owner, name), old in zip(names, before, strict=True))
    assert [vars(owner)[name] for owner, name in names] == before
    assert not hasattr(NodeSource, "__deepcopy__")


def test_guards_are_built_only_where_a_dimension_is_dynamic(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[object] = []
    monkeypatch.setattr(functional_export, "_suggest_or_raise_constraint_violation", lambda *args: built.append(args))
    with upstream_caches.exporting():
        torch.export.export(Applies(torch.relu), (X,), strict=True)
        assert built == []
        torch.export.export(Applies(torch.relu), (X,), dynamic_shapes=({1: torch.export.Dim("n")},), strict=True)
        assert len(built) == 1


def test_programs_are_decomposed_again_only_for_what_they_have() -> None:
    program = torch.export.export(Applies(torch.nn.functional.hardswish).eval(), (X,), strict=True)
    with upstream.converter(BuildOptions()), upstream_caches.active():
        functional = program.run_decompositions({})
        assert functional is not program
        assert functional.run_decompositions({torch.ops.aten.relu.default: torch.relu}) is functional
        decomposed = functional.run_decompositions()
    targets = {node.target for node in decomposed.graph.nodes if node.op == "call_function"}
    assert torch.ops.aten.hardswish.default not in targets
    assert len(targets) > 1


def test_an_operator_that_is_defined_meanwhile_is_listed() -> None:
    with upstream.converter(BuildOptions()), upstream_caches.active():
        library = torch.library.Library("deuteron_test_shortcuts", "DEF")
        library.define("first(Tensor x) -> Tensor")
        library.impl("first", lambda x: x + 1, "CompositeImplicitAutograd")
        namespace = torch.ops.deuteron_test_shortcuts
        assert composite(namespace) == {namespace.first.default}
        composite(namespace).clear()  # a set of one's own
        library.define("second(Tensor x) -> Tensor")
        library.impl("second", lambda x: x + 2, "CompositeImplicitAutograd")
        assert composite(namespace) == {namespace.first.default, namespace.second.default}


def test_a_program_is_read_as_pytorch_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "program.pt2"
    torch.export.save(torch.export.export(Mixed(), (torch.zeros(1, 3, 8, 8),)), path)
    plain = torch.export.load(path)
    with upstream_caches.loading():
        short = torch.export.load(path)
    assert str(short) == str(plain)
    assert short.graph_signature == plain.graph_signature
    assert [node.meta.keys() for node in short.graph.nodes] == [node.meta.keys() for node in plain.graph.nodes]


def test_kernels_are_registered_as_pytorch_registers_them() -> None:
    operator, key = torch.ops.aten.hardswish.default, torch._C.DispatchKey.AutogradXLA
    with upstream.converter(BuildOptions()), upstream_caches.active():
        operator._dispatch_cache[key] = key
        try:
            assert operator.py_impl(key)(nn.functional.hardswish) is nn.functional.hardswish
            assert operator.py_kernels[key] is nn.functional.hardswish
            assert key not in operator._dispatch_cache
            with pytest.raises(RuntimeError, match="Trying to override a python impl"):
                operator.py_impl(key)(nn.functional.hardswish)
        finally:
            del operator.py_kernels[key]
        with pytest.raises(AssertionError, match="register a mode"):
            operator.py_impl(torch._C.DispatchKey.Python)(nn.functional.hardswish)


def test_what_quantizing_gives_is_kept() -> None:
    arguments, tensors = (0.5, 3, -128, 127, torch.int8), (X, X + 1, X.t(), X + 2)
    with upstream.converter(BuildOptions()), upstream_caches.active(), FakeTensorMode() as mode:
        quantize = torch.ops.quantized_decomposed.quantize_per_tensor.default
        results = [quantize(mode.from_tensor(x), *arguments) for x in tensors[:-1]]
        before = mode.cache_info()
        results.append(quantize(mode.from_tensor(tensors[-1]), *arguments))
        after = mode.cache_info()
    assert (after.hits, after.misses, after.bypasses) == (before.hits + 1, before.misses, before.bypasses)
    assert [(tuple(result.shape), result.dtype) for result in results] == [
        (shape, torch.int8) for shape in ((1, 8), (1, 8), (8, 1), (1, 8))
    ]


def test_records_of_sources_are_shared_not_copied() -> None:
    graph = torch.fx.Graph()
    first = NodeSource(graph.placeholder("x"))
    with upstream.converter(BuildOptions()), upstream_caches.active():
        copied = copy.deepcopy([first])
    assert copied[0] is first


def test_graphs_are_written_when_they_are_called_or_read() -> None:
    with upstream.converter(BuildOptions()), upstream_caches.active():
        module = torch.fx.symbolic_trace(Applies(torch.relu))
        (relu,) = (node for node in module.graph.nodes if node.target is torch.relu)
        assert "_code" not in vars(module)
        assert torch.equal(module(X), torch.relu(X))
        relu.target = torch.neg
        written = module.recompile()
        assert "_code" not in vars(module)
        assert "torch.neg" in module.code
        assert torch.equal(module(X), -X)
        assert "torch.neg" in written.src
        relu.target = torch.abs
        module.recompile()
        assert torch.equal(pickle.loads(pickle.dumps(module))(X), X.abs())
        assert torch.equal(copy.deepcopy(module)(X), X.abs())
        relu.target = torch.relu
        module.recompile()
    assert torch.equal(module(X), torch.relu(X))


def test_an_export_reads_graphs_that_were_not_called() -> None:
    with upstream.converter(BuildOptions()), upstream_caches.active():
        module = torch.fx.symbolic_trace(Applies(torch.relu))
        exported = torch.export.export(module, (X,), strict=True).module()
    assert torch.equal(exported(X), torch.relu(X))


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if ExecuTorch and PyTorch's compiler had not been imported."""
    for name in ("executorch.exir", POST_GRAD):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("unloaded")
def test_the_table_of_operators_is_read_as_executorch_reads_it() -> None:
    text = resources.files("executorch.exir.dialects.edge").joinpath("edge.yaml").read_text("utf-8")
    sys.modules.pop("executorch.exir", None)
    before = YAML.load
    plain = YAML(typ="safe").load(text)
    with upstream_caches.importing():
        assert YAML.load is not before
        assert YAML(typ="safe").load(text) == plain
    assert YAML.load is before


@pytest.mark.usefixtures("unloaded")
def test_the_compiler_is_loaded_when_a_graph_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with upstream_caches.importing():
        decompose = importlib.import_module(POST_GRAD).decompose_auto_functionalized
    assert POST_GRAD not in sys.modules
    graph = torch.fx.Graph()
    graph.output(graph.call_function(torch.relu, (graph.placeholder("x"),)))
    decompose(graph)
    assert POST_GRAD not in sys.modules
    seen: list[torch.fx.Graph] = []
    real = type(sys)(POST_GRAD)
    real.decompose_auto_functionalized = seen.append
    monkeypatch.setitem(sys.modules, POST_GRAD, real)
    mutating = torch.fx.Graph()
    mutating.output(mutating.call_function(auto_functionalized))
    decompose(mutating)
    assert seen == [mutating]


def test_operators_are_registered_at_the_same_place() -> None:
    def registered() -> str:
        return torch._library.utils.get_source(2)

    places: list[tuple[str, str]] = []
    for shortcut in (nullcontext, upstream_caches.importing):
        with shortcut():
            places.append((registered(), torch._library.utils.get_source(1)))
    assert places[0] == places[1]
    assert places[0][0] == places[0][1]
    assert places[0][0].startswith(f"{__file__}:")


def test_a_recipe_takes_the_shortcuts_before_anything_imports_executorch() -> None:
    plain = torch._library.utils.get_source
    at_import: list[object] = []

    class Watching(NeutronNpuBackend):
        def imported(self) -> AbstractContextManager[object]:
            at_import.append(torch._library.utils.get_source)
            return super().imported()

    flow = Flow(targets.load("imxrt700"), BuildOptions())
    flow.npu_backend = Watching(flow.arch, flow.options)
    flow.recipe()
    assert at_import
    assert plain not in at_import


def test_collections_are_seldom_for_a_while() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold() == (THRESHOLD, *before[1:])
    assert gc.get_threshold() == before


class Turned(nn.Module):
    """A layer, and 30 times the halves of its result in the other order: values of one scale on 2**30 paths."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        for _ in range(30):
            y = torch.cat([y[:, 1::2], y[:, ::2]], 1)
        return y


def test_groups_of_a_pattern_are_found_once_and_annotated_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[object, ...]] = []
    original = value_of(private_apis.NXP_GROUPS)

    def counted(model: torch.fx.GraphModule, operators: list[object]) -> object:
        found.append(tuple(operators))
        return original(model, operators)

    def annotated() -> dict[str, str]:
        found.clear()
        model = torch.export.export(Reshaped(), (torch.ones(1, 8),), strict=True).module(check_guards=False)
        upstream.quantizer("imxrt700", Converter.OPEN).annotate(model)
        return {node.name: str(node.meta.get("quantization_annotation")) for node in model.graph.nodes}

    with upstream.converter(BuildOptions()):
        monkeypatch.setattr(f"{private_apis.NXP_GROUPS.module}.{private_apis.NXP_GROUPS.name}", counted)
        short, once = annotated(), len(found)
        monkeypatch.setattr(upstream_caches, "annotating_for_neutron", nullcontext)
        assert annotated() == short
        assert once == 2 * len(set(found)) < len(found)


class Reshaped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for shape in ((1, 2, 4), (1, 4, 2), (1, 8)):
            x = torch.relu(x).reshape(shape)
        return x[:, 1:] + x[:, :-1]


@pytest.mark.full
def test_nodes_of_one_scale_are_visited_once() -> None:
    assert build(Turned(), (X,), target="cortex-m55", calibration=[(X,)]).pte
