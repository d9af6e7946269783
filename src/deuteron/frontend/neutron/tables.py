"""Functions of one quantised tensor as tables on the NPU: what ExecuTorch's NXP backend has no converter for.

Before the backend's partitioner sees a program, each such function, and each change of scale, becomes one operator,
`deuteron::table`, whose entries are what the quantised model gives for the 256 values. The backend converts it like its
own operators, to a custom operator of TFLite that our converter knows.
"""

import importlib
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram

from deuteron.frontend.cortex_m.elementwise import UNARY, Tables, aten_operator, call_on
from deuteron.frontend.neutron.delegation_reasons import KEPT
from deuteron.frontend.nodes import MARK, QUANTISED
from deuteron.frontend.operators import is_dequantise, is_qdq
from deuteron.operators.added import NAMESPACE
from deuteron.tflite.flat_model import TABLE

NAME = f"{NAMESPACE}::table"

_BACKEND = "executorch.backends.nxp"


@cache
def load() -> Any:
    """The library with the operator, which lives as long as Python does."""
    registry: Any = torch.library
    library = registry.Library(NAMESPACE, "FRAGMENT")
    library.define("table(Tensor x, float scale, int zero, float out_scale, int out_zero, int[] entries) -> Tensor")
    library.impl("table", _look_up, "CompositeExplicitAutograd")
    registry.register_fake(NAME, _shaped, lib=library)
    return library


def _shaped(x: Tensor, *_: object) -> Tensor:
    """A tensor like the result, of which only the shape is known."""
    return torch.empty_like(x)


def _look_up(x: Tensor, scale: float, zero: int, out_scale: float, out_zero: int, entries: Sequence[int]) -> Tensor:
    """The function on floats, which are rounded to their scale."""
    quantise = torch.ops.quantized_decomposed.quantize_per_tensor.default
    stored = quantise(x, scale, zero, -128, 127, torch.int8)
    return (torch.tensor(entries)[stored.long() + 128] - out_zero) * out_scale


@cache
def preserved() -> tuple[Any, ...]:
    """The operators that PyTorch would decompose before they become tables, though the model computes them whole."""
    decomposed: Any = torch.export.default_decompositions()
    return tuple(operator for operator in UNARY if operator in decomposed and "_." not in str(operator))


@contextmanager
def registered() -> Generator[None]:
    """Lets the backend take the operator for a while."""
    from executorch.exir.dialects._ops import ops as dialects

    load()
    target = cast(Any, dialects).edge.deuteron.table.default
    partitioner = importlib.import_module(f"{_BACKEND}.neutron_partitioner")
    program = importlib.import_module(f"{_BACKEND}.backend.edge_program_converter")
    tables: tuple[dict[object, Any], ...] = (vars(partitioner)["supported_ops"], vars(program)["functions_converters"])
    for table in tables:
        table[target] = _converter()
    try:
        yield
    finally:
        for table in tables:
            table.pop(target, None)


def _converter() -> type[Any]:
    """The class that converts the operator."""
    from executorch.backends.nxp.backend.ir.converter.node_converter import NodeConverter
    from executorch.backends.nxp.backend.ir.tflite_generator.meta.meta import CustomOptions

    base: Any = NodeConverter

    class TableConverter(base):
        @staticmethod
        def _is_supported_in_IR(*_: object) -> bool:  # noqa: N802 - as it is called there
            return True

        @classmethod
        def _is_supported_on_target(cls, node: fx.Node, *_: object) -> bool:
            return base.uses_quantization_type_for_io(node, [torch.int8], [0], [0])

        def convert(self, node: fx.Node) -> None:
            entries = cast("Sequence[int]", node.args[5])
            operator = self._create_tflite_op_with_io_tensors(node)
            operator.custom_options = CustomOptions(TABLE, bytearray(entry & 255 for entry in entries))
            self.builder.append_operators([operator])

    return TableConverter


def put(module: fx.GraphModule, numbers: Mapping[str, Tensor], kept: Collection[str]) -> None:
    """Put the operator into the module of an edge program wherever it is wanted.

    Args:
        module: not tagged yet.
        numbers: the program's constants of one number, see `numbers_of`.
        kept: parts of the names of nodes that stay on the CPU.
    """
    from executorch.exir.dialects._ops import ops as dialects

    ops = cast(Any, dialects).edge
    graph = module.graph
    for quantise, source, values in list(_functions(module, numbers, kept)):
        before = cast(fx.Node, quantise.args[0])
        stored: list[int] = cast(Any, call_on(quantise, {before: values}).flatten()).tolist()
        first = _dequantised(quantise)
        is_change = before is first
        name = f"{(quantise if is_change else before).name}_table"
        with graph.inserting_before(quantise):
            read = graph.call_function(cast(Any, first.target), (source, *first.args[1:]), first.kwargs)
            scales: Any = (*first.args[1:3], *quantise.args[1:3])
            table = graph.create_node("call_function", ops.deuteron.table.default, (read, *scales, stored), {}, name)
        read.meta = {key: value for key, value in first.meta.items() if key != "custom"}
        table.meta = dict((_computed(source) if is_change else before).meta) | {"val": first.meta["val"]}
        quantise.replace_input_with(before, table)
    graph.eliminate_dead_code()
    module.recompile()


def wanted(module: fx.GraphModule, numbers: Mapping[str, Tensor], kept: Collection[str]) -> Callable[[fx.Node], bool]:
    """Whether a node of a module that is to be decomposed will be part of a table."""
    names: set[str] = set()
    for quantise, *_ in _functions(module, numbers, kept):
        names |= {node.name for node in _between(quantise)}
    return lambda node: node.name in names


def _functions(
    module: fx.GraphModule, numbers: Mapping[str, Tensor], kept: Collection[str]
) -> Iterator[tuple[fx.Node, fx.Node, Tensor]]:
    """The quantise nodes behind functions that the NPU is to have, what each reads, and what it quantises."""
    converters: Mapping[object, Any] = vars(importlib.import_module(f"{_BACKEND}.neutron_partitioner"))["supported_ops"]
    converted = set(map(aten_operator, converters))
    for quantise, source, values in Tables(module, numbers).found():
        inner = _between(quantise)
        if len(inner) == 1 and len(inner[0].all_input_nodes) == 1 and aten_operator(inner[0].target) in converted:
            continue
        neighbours = inner or {_computed(source), *_readers(quantise)}
        is_npus = (all if inner else any)(_is_npus(node) for node in neighbours)
        if is_npus and not any(part in node.name for node in inner for part in kept if part):
            yield quantise, source, values


def _is_npus(node: fx.Node) -> bool:
    """True unless the node was quantised for the CPU, where a target has operators for that."""
    custom: Mapping[str, Any] = node.meta.get("custom", {})
    return node.op == "call_function" and (QUANTISED not in custom or MARK in custom) and KEPT not in node.meta


def _between(quantise: fx.Node) -> list[fx.Node]:
    """The operators between a quantise node and the dequantise nodes that its result depends on."""
    inner: dict[fx.Node, None] = {}
    waiting = [cast(fx.Node, quantise.args[0])]
    while waiting:
        node = waiting.pop()
        if node not in inner and node.op == "call_function" and not is_qdq(node):
            inner[node] = None
            waiting += node.all_input_nodes
    return list(inner)


def _computed(quantised: fx.Node) -> fx.Node:
    """The operator whose result is quantised, or the input itself."""
    return quantised.all_input_nodes[0] if is_qdq(quantised) else quantised


def _readers(quantise: fx.Node) -> list[fx.Node]:
    return [reader for dequantise in quantise.users for reader in dequantise.users]


def _dequantised(quantise: fx.Node) -> fx.Node:
    """A dequantise node that a function reads."""
    reading = [*_between(quantise), quantise]
    return next(arg for node in reading for arg in node.all_input_nodes if is_dequantise(arg))


def numbers_of(program: ExportedProgram, state: Mapping[str, Any]) -> dict[str, Tensor]:
    """The constants of one number by the names of their nodes; the program itself may only know their shapes."""
    signature = program.graph_signature
    stored = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    lifted = {**signature.inputs_to_lifted_tensor_constants, **signature.inputs_to_buffers}
    values = {node: program.constants.get(name) for node, name in lifted.items()}
    values |= {node: state.get(name, program.state_dict.get(name)) for node, name in stored.items()}
    return {
        node: value
        for node, value in values.items()
        if isinstance(value, Tensor) and value.numel() == 1 and not isinstance(value, FakeTensor)
    }
