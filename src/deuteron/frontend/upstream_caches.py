"""What PyTorch and ExecuTorch would work out many times over in one build, worked out once; results stay the same.

The one place that touches their private names for speed. They are those of torch 2.13 and ExecuTorch 1.5: where a
release has one no more, that shortcut is left out, builds take longer, and `missing` tells its name.
"""

import importlib
import inspect
import sys
import typing
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, cast
from weakref import WeakSet

from torch import fx
from torch.export import ExportedProgram

from deuteron.frontend.ranges import searched_by_numbers

_OPERATORS = "torch._export.utils"
_POST_GRAD = "torch._inductor.fx_passes.post_grad"
_GRAPHS = "torch.fx.graph_module"
_EXPORT = "torch.export._trace"
_OBSERVER = "torchao.quantization.pt2e.observer"
_FAKE = "torch._subclasses.fake_tensor"
_NEUTRON_PASS = "executorch.backends.nxp.edge_passes.neutron_edge_pass"  # noqa: S105 - no password

_PRIVATE = (
    (_OPERATORS, "_materialize_cpp_cia_ops"),
    (_OPERATORS, "_collect_all_valid_cia_ops_for_namespace"),
    ("torch._ops", "Callable"),
    ("torch.library", "Library.define"),
    ("torch.library", "Library.impl"),
    ("torch._library.utils", "get_source"),
    ("torch.fx.traceback", "NodeSource"),
    (_OBSERVER, "HistogramObserver._non_linear_param_search"),
    (_NEUTRON_PASS, "NeutronEdgePass.recompile_module"),
    (_GRAPHS, "GraphModule.recompile"),
    (_EXPORT, "_strict_export"),
    (_FAKE, "FakeTensorMode._validate_cache_key"),
)


def missing() -> tuple[str, ...]:
    """The private names that the installed releases do not have."""
    return tuple(f"{module}.{name}" for module, name in _PRIVATE if _owner(module, name) is None)


@contextmanager
def active() -> Generator[None]:
    """Takes the shortcuts for a while: for the length of a build, in which nothing else changes these modules."""
    with ExitStack() as stack:
        stack.enter_context(_replaced("torch.export", "ExportedProgram.run_decompositions", _decomposed_once))
        stack.enter_context(_replaced(_NEUTRON_PASS, "NeutronEdgePass.recompile_module", _traced_once))
        stack.enter_context(_replaced(_OBSERVER, "HistogramObserver._non_linear_param_search", searched_by_numbers))
        stack.enter_context(_replaced(_FAKE, "FakeTensorMode._validate_cache_key", _quantisation_kept))
        stack.enter_context(_replaced("torch._ops", "Callable", _kept_annotation))
        if _owner(_EXPORT, "_strict_export"):
            stack.enter_context(_replaced(_GRAPHS, "GraphModule.recompile", _written_when_used))
            stack.enter_context(_replaced(_GRAPHS, "GraphModule.__reduce__", _written_to_copy))
            stack.enter_context(_replaced(_EXPORT, "_strict_export", _written_to_export))
        stack.enter_context(_sources_shared())
        stack.enter_context(_operators_listed_once())
        yield


@contextmanager
def importing() -> Generator[None]:
    """Spares the import of ExecuTorch what builds seldom need, or what takes long for no reason, for a while."""
    with _light_post_grad(), _fast_yaml(), _replaced("torch._library.utils", "get_source", _place):
        yield


def _quantisation_kept(original: Callable[..., None]) -> Callable[..., None]:
    """Lets PyTorch keep shapes and types that quantising gives, too: most nodes of a quantised graph quantise.

    It keeps those of its own operators only, as it cannot know of others that their results depend on nothing else.
    """

    def validate(mode: Any, operator: Any, args: Any, kwargs: Any) -> None:
        if getattr(operator, "namespace", None) != "quantized_decomposed":
            original(mode, operator, args, kwargs)

    return validate


def _kept_annotation(_: object) -> object:
    """The `Callable` that keeps what it makes: annotations have it, of a function that is made for each operator."""
    return cast("Any", typing).Callable


@contextmanager
def _operators_listed_once() -> Generator[None]:
    """Lists the composite operators of each namespace once, until someone defines or implements another operator.

    PyTorch asks its dispatcher for all of them for each namespace, and for each program that it decomposes.
    """
    listed: dict[object, set[object]] = {}
    fresh: list[bool] = []

    def materialise(original: Callable[[], None]) -> Callable[[], None]:
        def once() -> None:
            if not fresh:
                original()
                fresh.append(True)

        return once

    def collect(original: Callable[[Any], set[object]]) -> Callable[[Any], set[object]]:
        def once(namespace: Any) -> set[object]:
            if namespace not in listed:
                listed[namespace] = original(namespace)
            return set(listed[namespace])

        return once

    def forgetting(original: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **kwargs: Any) -> Any:
            listed.clear()
            fresh.clear()
            return original(*args, **kwargs)

        return changed

    with (
        _replaced("torch.library", "Library.define", forgetting),
        _replaced("torch.library", "Library.impl", forgetting),
        _replaced(_OPERATORS, "_materialize_cpp_cia_ops", materialise),
        _replaced(_OPERATORS, "_collect_all_valid_cia_ops_for_namespace", collect),
    ):
        yield


@contextmanager
def _sources_shared() -> Generator[None]:
    """Lets nodes share the record of the nodes that they come from, which nobody changes.

    PyTorch copies the whole chain for each node of each graph.
    """
    owner = _owner("torch.fx.traceback", "NodeSource")
    if owner is None:
        yield
        return

    def itself(source: object, _: Mapping[int, object]) -> object:
        return source

    kind = owner[0].NodeSource
    kind.__deepcopy__ = itself
    try:
        yield
    finally:
        del kind.__deepcopy__


def _decomposed_once(original: Callable[..., ExportedProgram]) -> Callable[..., ExportedProgram]:
    """Traces a program only if it has an operator to decompose, or has not been brought into this form before."""
    functional: WeakSet[ExportedProgram] = WeakSet()

    def run_decompositions(
        program: ExportedProgram, decomp_table: Mapping[Any, Any] | None = None, *args: Any, **kwargs: Any
    ) -> ExportedProgram:
        if decomp_table is not None and program in functional and not _has_any(program, decomp_table):
            return program
        result = original(program, decomp_table, *args, **kwargs)
        functional.add(result)
        return result

    return run_decompositions


def _has_any(program: ExportedProgram, targets: Mapping[Any, Any]) -> bool:
    return any(node.target in targets for graph in _graphs(program.graph_module) for node in graph.nodes)


def _graphs(module: fx.GraphModule) -> Iterable[fx.Graph]:
    """The graphs of a module and of all in it."""
    return [part.graph for part in module.modules() if isinstance(part, fx.GraphModule)]


def _traced_once(original: Callable[..., fx.GraphModule]) -> Callable[..., fx.GraphModule]:
    """Traces a graph after a pass of ExecuTorch's NXP backend only if it differs from what the last trace gave."""
    last: list[object] = []

    def recompile_module(edge_pass: Any, module: fx.GraphModule) -> fx.GraphModule:
        if last and last == _form(module):
            return module
        result = original(edge_pass, module)
        last[:] = _form(result)
        return result

    return recompile_module


def _form(module: fx.GraphModule) -> list[object]:
    """All that a trace depends on; nodes and values by identity, and held, so that no others can have it."""
    return [
        (node.op, node.name, node.target, node.args, dict(node.kwargs), _Same(node.meta.get("val")))
        for graph in _graphs(module)
        for node in graph.nodes
    ]


class _Same:
    """A value that equals no other than itself: tensors do not compare to a truth value."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


def _written_when_used(original: Callable[[Any], Any]) -> Callable[[Any], object]:
    """Writes a graph as Python when its module is called or its code read: between passes most are neither."""

    def recompile(module: Any) -> object:
        codegen = module._graph._codegen  # noqa: SLF001 - it has no public name
        if hasattr(codegen, "pytree_info"):
            module._in_spec, module._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec  # noqa: SLF001
        for name in _WRITTEN:
            module.__dict__.pop(name, None)
            setattr(cast("type[object]", type(module)), name, _Later(name, original))  # each module has a type
        return _Code(module, original)

    return recompile


_WRITTEN = ("forward", "_code", "_lineno_map", "_prologue_start")
"""What a module has of its graph as Python."""


class _Later:
    """An attribute of a module that it has when its graph is written."""

    def __init__(self, name: str, write: Callable[[Any], Any]) -> None:
        self.name, self.write = name, write

    def __get__(self, module: Any, owner: type) -> Any:
        if module is None:
            return self
        self.write(module)
        return getattr(module, self.name)


class _Code:
    """What PyTorch gives for a written graph, which few read."""

    def __init__(self, module: Any, write: Callable[[Any], Any]) -> None:
        self.module, self.write = module, write

    def __getattr__(self, name: str) -> Any:
        return getattr(self.write(self.module), name)


def _written_to_copy(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Writes a graph before all attributes of its module are taken to be stored."""

    def reduce(module: Any) -> Any:
        return module.code and original(module)

    return reduce


def _written_to_export(original: Callable[..., Any]) -> Callable[..., Any]:
    """Writes the graphs of a module before PyTorch reads the bytecode of all its parts."""

    def export(mod: Any, *args: Any, **kwargs: Any) -> Any:
        for part in mod.modules():
            getattr(part, "forward", None)
        return original(mod, *args, **kwargs)

    return export


@contextmanager
def _light_post_grad() -> Generator[None]:
    """Stands in for a module of PyTorch's compiler, of which ExecuTorch wants one function for graphs with mutations.

    The module loads the whole compiler; the function loads it when there is such a graph.
    """
    if _POST_GRAD in sys.modules or "executorch.exir" in sys.modules:
        yield
        return
    from torch._higher_order_ops.auto_functionalize import auto_functionalized, auto_functionalized_v2

    def decompose_auto_functionalized(graph: fx.Graph) -> None:
        """Decomposes what was made functional; most graphs have nothing of it."""
        if any(node.target in {auto_functionalized, auto_functionalized_v2} for node in graph.nodes):
            importlib.import_module(_POST_GRAD).decompose_auto_functionalized(graph)

    module = ModuleType(_POST_GRAD)
    vars(module)["decompose_auto_functionalized"] = decompose_auto_functionalized
    sys.modules[_POST_GRAD] = module
    try:
        yield
    finally:
        del sys.modules[_POST_GRAD]


def _place(_: object) -> Callable[[int], str]:
    """Says where an operator is registered without reading that file."""

    def get_source(level: int) -> str:
        frame = inspect.currentframe()
        for _ in range(level):
            frame = frame and frame.f_back
        return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""

    return get_source


@contextmanager
def _fast_yaml() -> Generator[None]:
    """Lets ExecuTorch read its table of operators by libyaml, which takes a tenth of the time."""
    if "executorch.exir" in sys.modules:
        yield
        return
    import yaml

    def load(_: object) -> Callable[..., Any]:
        def fast(_: object, text: str) -> Any:
            return yaml.load(text, Loader=yaml.CSafeLoader)

        return fast

    with _replaced("ruamel.yaml", "YAML.load", load) if hasattr(yaml, "CSafeLoader") else ExitStack():
        yield


def _owner(module: str, name: str) -> tuple[Any, str] | None:
    """What holds the attribute, `Class.attribute` for that of a class, and the attribute; None if there is none."""
    path, _, attribute = name.rpartition(".")
    try:
        owner: Any = importlib.import_module(module)
    except ImportError:
        return None
    owner = getattr(owner, path, None) if path else owner
    return (owner, attribute) if attribute in vars(owner or object) else None


@contextmanager
def _replaced(module: str, name: str, wrapped: Callable[[Any], object]) -> Generator[None]:
    """Another function in the place of one for a while, made of it; nothing where there is none."""
    owner = _owner(module, name)
    if owner is None:
        yield
        return
    holder, attribute = owner
    original = cast("Any", vars(holder)[attribute])
    setattr(holder, attribute, wrapped(original))
    try:
        yield
    finally:
        setattr(holder, attribute, original)
