"""Caches what PyTorch and ExecuTorch would compute repeatedly in one build; the results are the same.

A shortcut whose private name is missing in a release is left out, and builds take longer.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any, cast
from weakref import WeakSet

from torch import fx
from torch._C import DispatchKey
from torch.export import ExportedProgram, ExportGraphSignature

from deuteron.frontend.ranges import scalar_search
from deuteron.frontend.upstream import private_apis
from deuteron.frontend.upstream.access import PrivateName, missing, replaced, value_of


@contextmanager
def active() -> Generator[None]:
    """Use the shortcuts in this context, in which nothing else changes the modules of PyTorch and ExecuTorch."""
    shortcuts: list[tuple[PrivateName, Callable[[Any], object]]] = [
        (private_apis.RUN_DECOMPOSITIONS, _decomposed_once),
        (private_apis.NXP_RECOMPILE, _traced_once),
        (private_apis.HISTOGRAM_SEARCH, scalar_search),
        (private_apis.VALIDATE_CACHE_KEY, _cache_quantization),
        (private_apis.REGISTER_KERNEL, _registered_directly),
        *((name, _changed_if_any) for name in private_apis.MUTABLE_BUFFERS),
    ]
    with ExitStack() as stack:
        for name, shortcut in shortcuts:
            stack.enter_context(replaced(name, shortcut))
        stack.enter_context(exporting())
        stack.enter_context(_shared_sources())
        stack.enter_context(_operators_listed_once())
        yield


@contextmanager
def exporting() -> Generator[None]:
    """Use the shortcuts of PyTorch's export in this context."""
    shortcuts: list[tuple[PrivateName, Callable[[Any], object]]] = [
        (private_apis.CONSTRAINT_GUARDS, _guarded_if_dynamic)
    ]
    if not missing([private_apis.STRICT_EXPORT]):
        shortcuts += [
            (private_apis.GRAPH_RECOMPILE, _generated_when_used),
            (private_apis.GRAPH_REDUCE, _generated_to_copy),
            (private_apis.STRICT_EXPORT, _generated_to_export),
        ]
    with ExitStack() as stack:
        for name, shortcut in shortcuts:
            stack.enter_context(replaced(name, shortcut))
        yield


@contextmanager
def importing() -> Generator[None]:
    """Shorten the import of ExecuTorch in this context."""
    with _light_post_grad(), _fast_yaml(), replaced(private_apis.OPERATOR_SOURCE, _caller):
        yield


@contextmanager
def loading() -> Generator[None]:
    """Shorten the reading of exported programs in this context."""
    with replaced(private_apis.SERIALIZER_TYPING, _found_types):
        yield


def _found_types(original: ModuleType) -> object:
    """Find the types of a class's fields once: PyTorch finds them for each object in the file, in half of its time."""
    found: dict[type, dict[str, Any]] = {}

    def get_type_hints(kind: type, globalns: dict[str, Any]) -> dict[str, Any]:
        if kind not in found:
            found[kind] = original.get_type_hints(kind, globalns=globalns)
        return found[kind]

    return SimpleNamespace(**{**vars(original), "get_type_hints": get_type_hints})


@contextmanager
def annotating() -> Generator[None]:
    """Use the shortcut of Arm's quantizer, which the Cortex-M's quantizer uses too, in this context."""
    with replaced(private_apis.ARM_SHARED_SCALES, _enqueued_once):
        yield


@contextmanager
def annotating_for_neutron() -> Generator[None]:
    """Use the shortcut of the NXP backend's quantizer in this context, in which it annotates one model once."""
    with replaced(private_apis.NXP_GROUPS, _found_once):
        yield


def _found_once(original: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Find the groups of a pattern once: the quantizer looks for all of them again at each reshape and slice.

    It passes over groups that are annotated, which are left out here.
    """
    from executorch.backends.nxp.quantizer.utils import is_annotated

    found: dict[tuple[object, ...], list[Any]] = {}

    def find(model: fx.GraphModule, operators: Sequence[object]) -> list[Any]:
        key = tuple(operators)
        groups = found[key] if key in found else original(model, operators)
        found[key] = [group for group in groups if not is_annotated([group[-1].nodes[-1]])]
        return found[key]

    return find


def _enqueued_once(original: Callable[..., None]) -> Callable[..., None]:
    """Visit each node of a search once: the quantizer puts a node into its queue once per path to the node."""

    def enqueue(quantizer: Any, neighbor: fx.Node, shared_nodes: set[fx.Node], bfs_queue: list[fx.Node]) -> None:
        if neighbor not in bfs_queue:
            original(quantizer, neighbor, shared_nodes, bfs_queue)

    return enqueue


def _cache_quantization(original: Callable[..., None]) -> Callable[..., None]:
    """Make PyTorch cache shapes and types of quantize operators too, which are most nodes of a quantized graph.

    By default, it only caches those of PyTorch's operators, whose results depend on nothing else.
    """

    def validate(mode: Any, operator: Any, args: Any, kwargs: Any) -> None:
        if getattr(operator, "namespace", None) != "quantized_decomposed":
            original(mode, operator, args, kwargs)

    return validate


def _changed_if_any(original: Callable[..., bool]) -> Callable[..., bool]:
    """Look for a buffer only in programs that change buffers: ExecuTorch lists all buffers for each question."""

    def is_mutable(node: fx.Node, graph_signature: ExportGraphSignature | None = None) -> bool:
        return bool(graph_signature and graph_signature.buffers_to_mutate) and original(node, graph_signature)

    return is_mutable


def _registered_directly(original: Callable[[Any, Any], Callable[[Any], Any]]) -> Callable[[Any, Any], object]:
    """Register a kernel for a dispatch key in few steps: PyTorch registers 20 per composite operator and program."""

    def register(operator: Any, key: Any, kernel: Any) -> Any:
        if key in operator.py_kernels:
            return original(operator, key)(kernel)  # raises its error
        operator.py_kernels[key] = kernel
        operator._dispatch_cache.clear()  # noqa: SLF001 - as the original does
        return kernel

    def py_impl(operator: Any, key: Any) -> object:
        is_key = isinstance(key, DispatchKey) and key != DispatchKey.Python
        return partial(register, operator, key) if is_key else original(operator, key)

    return py_impl


@contextmanager
def _operators_listed_once() -> Generator[None]:
    """List the composite operators of each namespace once, until another operator is defined or implemented.

    PyTorch lists all of them for each namespace and for each program that it decomposes.
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

    def invalidating(original: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **kwargs: Any) -> Any:
            listed.clear()
            fresh.clear()
            return original(*args, **kwargs)

        return changed

    with (
        replaced(private_apis.LIBRARY_DEFINE, invalidating),
        replaced(private_apis.LIBRARY_IMPL, invalidating),
        replaced(private_apis.MATERIALIZE_OPERATORS, materialise),
        replaced(private_apis.LIST_OPERATORS, collect),
    ):
        yield


@contextmanager
def _shared_sources() -> Generator[None]:
    """Share the records of nodes' origins, which do not change; PyTorch copies the whole chain for each node."""
    if missing([private_apis.NODE_SOURCE]):
        yield
        return

    def itself(source: object, _: Mapping[int, object]) -> object:
        return source

    kind = value_of(private_apis.NODE_SOURCE)
    kind.__deepcopy__ = itself
    try:
        yield
    finally:
        del kind.__deepcopy__


def _decomposed_once(original: Callable[..., ExportedProgram]) -> Callable[..., ExportedProgram]:
    """Trace a program only if it has operators to decompose, or has not been traced for this purpose before."""
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
    """The graphs of a module and its submodules."""
    return [part.graph for part in module.modules() if isinstance(part, fx.GraphModule)]


def _traced_once(original: Callable[..., fx.GraphModule]) -> Callable[..., fx.GraphModule]:
    """Trace a graph after a pass of ExecuTorch's NXP backend only if it differs from the result of the last trace."""
    last: list[object] = []

    def recompile_module(edge_pass: Any, module: fx.GraphModule) -> fx.GraphModule:
        if last and last == _trace_key(module):
            return module
        result = original(edge_pass, module)
        last[:] = _trace_key(result)
        return result

    return recompile_module


def _trace_key(module: fx.GraphModule) -> list[object]:
    """Everything that a trace depends on; nodes and values compare by identity and are kept, so no id is reused."""
    return [
        (node.op, node.name, node.target, node.args, dict(node.kwargs), _Same(node.meta.get("val")))
        for graph in _graphs(module)
        for node in graph.nodes
    ]


class _Same:
    """A value that compares by identity; the comparison of tensors has no truth value."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


def _generated_when_used(original: Callable[[Any], Any]) -> Callable[[Any], object]:
    """Generate a graph's Python code when its module is called or its code is read; between passes this is rare."""

    def recompile(module: Any) -> object:
        codegen = module._graph._codegen  # noqa: SLF001 - it has no public name
        if hasattr(codegen, "pytree_info"):
            module._in_spec, module._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec  # noqa: SLF001
        for name in _GENERATED:
            module.__dict__.pop(name, None)
            kind = cast("type[object]", type(module))  # each module has its own
            setattr(kind, name, _GeneratedAttribute(name, original))
        return _GeneratedCode(module, original)

    return recompile


_GENERATED = ("forward", "_code", "_lineno_map", "_prologue_start")
"""The attributes of a module that depend on its graph's Python code."""


class _GeneratedAttribute:
    """An attribute of a module that exists once the code is generated."""

    def __init__(self, name: str, generate: Callable[[Any], Any]) -> None:
        self.name, self.generate = name, generate

    def __get__(self, module: Any, owner: type) -> Any:
        if module is None:
            return self
        self.generate(module)
        return getattr(module, self.name)


class _GeneratedCode:
    """PyTorch's result of `recompile`, which is generated when it is read."""

    def __init__(self, module: Any, generate: Callable[[Any], Any]) -> None:
        self.module, self.generate = module, generate

    def __getattr__(self, name: str) -> Any:
        return getattr(self.generate(self.module), name)


def _generated_to_copy(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Generate a graph's code before its module is pickled or copied."""

    def reduce(module: Any) -> Any:
        return module.code and original(module)

    return reduce


def _generated_to_export(original: Callable[..., Any]) -> Callable[..., Any]:
    """Generate the code of a module's graphs before PyTorch reads the bytecode of all submodules."""

    def export(mod: Any, *args: Any, **kwargs: Any) -> Any:
        for part in mod.modules():
            getattr(part, "forward", None)
        return original(mod, *args, **kwargs)

    return export


def _guarded_if_dynamic(original: Callable[..., None]) -> Callable[..., None]:
    """Build guards after an export only if a dimension is dynamic: PyTorch then checks the constraints with them."""

    def check(*args: Any) -> None:
        if args[-1]:  # `dynamic_shapes`
            original(*args)

    return check


@contextmanager
def _light_post_grad() -> Generator[None]:
    """Replace a module of PyTorch's compiler, from which ExecuTorch imports one function for graphs with mutations.

    The module loads the whole compiler; the replacement loads it when there is such a graph.
    """
    post_grad, function = private_apis.AUTO_FUNCTIONALIZED.module, private_apis.AUTO_FUNCTIONALIZED.name
    if post_grad in sys.modules or "executorch.exir" in sys.modules:
        yield
        return
    from torch._higher_order_ops.auto_functionalize import auto_functionalized, auto_functionalized_v2

    def decompose_auto_functionalized(graph: fx.Graph) -> None:
        """Decompose functionalised operators, which most graphs do not have."""
        if any(node.target in {auto_functionalized, auto_functionalized_v2} for node in graph.nodes):
            getattr(importlib.import_module(post_grad), function)(graph)

    module = ModuleType(post_grad)
    vars(module)[function] = decompose_auto_functionalized
    sys.modules[post_grad] = module
    try:
        yield
    finally:
        del sys.modules[post_grad]


def _caller(_: object) -> Callable[[int], str]:
    """Return the line that registers an operator without reading its file."""

    def get_source(level: int) -> str:
        frame = inspect.currentframe()
        for _ in range(level):
            frame = frame and frame.f_back
        return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""

    return get_source


@contextmanager
def _fast_yaml() -> Generator[None]:
    """Make ExecuTorch read its table of operators with libyaml, in a tenth of the time."""
    if "executorch.exir" in sys.modules:
        yield
        return
    import yaml

    def load(_: object) -> Callable[..., Any]:
        def fast(_: object, text: str) -> Any:
            return yaml.load(text, Loader=yaml.CSafeLoader)

        return fast

    with replaced(private_apis.LOAD_YAML, load) if hasattr(yaml, "CSafeLoader") else ExitStack():
        yield
