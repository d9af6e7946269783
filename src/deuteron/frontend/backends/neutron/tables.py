"""Lowers functions of one quantized tensor without a converter in ExecuTorch's NXP backend to tables on the NPU.

Before the partitioner runs, each such function and each change of scale becomes one operator, `deuteron::table`. Its
entries are the results of the quantized model for the 256 values. The backend converts it as its own operators, to a
custom TFLite operator of our converter.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram

from deuteron.frontend.backends.neutron.delegation_reasons import KEPT
from deuteron.frontend.cortex_m.elementwise import UNARY, Tables, aten_operator, evaluate
from deuteron.frontend.nodes import CPU_ONLY, MARK, QUANTIZED
from deuteron.frontend.operators import is_dequantize, is_qdq
from deuteron.frontend.upstream import private_apis
from deuteron.frontend.upstream.access import value_of
from deuteron.operators.custom_ops import NAMESPACE
from deuteron.tflite.flat_model import TABLE

NAME = f"{NAMESPACE}::table"


@cache
def load() -> Any:
    """Register the operator; the library exists until Python ends."""
    registry: Any = torch.library
    library = registry.Library(NAMESPACE, "FRAGMENT")
    schema = "table(Tensor x, float scale, int zero, float out_scale, int out_zero, int[] entries) -> Tensor"
    library.define(schema, tags=(torch.Tag.pointwise,))  # the CPU computes tables that the NPU does not take
    library.impl("table", _look_up, "CompositeExplicitAutograd")
    registry.register_fake(NAME, _shaped, lib=library)
    return library


def _shaped(x: Tensor, *_: object) -> Tensor:
    """The meta function: a tensor with the shape of the result."""
    return torch.empty_like(x)


def _look_up(x: Tensor, scale: float, zero: int, out_scale: float, out_zero: int, entries: Sequence[int]) -> Tensor:
    """Look up floats, which are rounded to their scale."""
    quantize = torch.ops.quantized_decomposed.quantize_per_tensor.default
    stored = quantize(x, scale, zero, -128, 127, torch.int8)
    return (torch.tensor(entries)[stored.long() + 128] - out_zero) * out_scale


@cache
def preserved() -> tuple[Any, ...]:
    """The operators that become tables and that PyTorch would decompose before."""
    decomposed: Any = torch.export.default_decompositions()
    return tuple(operator for operator in UNARY if operator in decomposed and "_." not in str(operator))


@contextmanager
def registered() -> Generator[None]:
    """Register the operator's converter with the backend in this context."""
    from executorch.exir.dialects._ops import ops as dialects

    load()
    target = cast(Any, dialects).edge.deuteron.table.default
    tables: tuple[dict[object, Any], ...] = (
        value_of(private_apis.NXP_OPERATORS),
        value_of(private_apis.NXP_CONVERTERS),
    )
    for table in tables:
        table[target] = _converter()
    try:
        yield
    finally:
        for table in tables:
            table.pop(target, None)


def _converter() -> type[Any]:
    """The converter class of the operator."""
    from executorch.backends.nxp.backend.ir.converter.node_converter import NodeConverter
    from executorch.backends.nxp.backend.ir.tflite_generator.meta.meta import CustomOptions

    base: Any = NodeConverter

    class TableConverter(base):
        @staticmethod
        def _is_supported_in_IR(*_: object) -> bool:  # noqa: N802 - the backend's name
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


def lower(module: fx.GraphModule, numbers: Mapping[str, Tensor], kept: Collection[str]) -> None:
    """Replace functions and changes of scale in an edge program by table operators.

    Args:
        module: the program before partitioning.
        numbers: its constants of one element, see `numbers_of`.
        kept: parts of the names of nodes that stay on the CPU.
    """
    from executorch.exir.dialects._ops import ops as dialects

    ops = cast(Any, dialects).edge
    graph = module.graph
    for quantize, source, values in list(_functions(module, numbers, kept)):
        before = cast(fx.Node, quantize.args[0])
        stored: list[int] = cast(Any, evaluate(quantize, {before: values}).flatten()).tolist()
        first = _dequantized(quantize)
        is_change = before is first
        name = f"{(quantize if is_change else before).name}_table"
        with graph.inserting_before(quantize):
            read = graph.call_function(cast(Any, first.target), (source, *first.args[1:]), first.kwargs)
            scales: Any = (*first.args[1:3], *quantize.args[1:3])
            table = graph.create_node("call_function", ops.deuteron.table.default, (read, *scales, stored), {}, name)
        read.meta = {key: value for key, value in first.meta.items() if key != "custom"}
        meta = (_computed(source) if is_change else before).meta
        custom = {key: value for key, value in meta.get("custom", {}).items() if key != CPU_ONLY}
        table.meta = {**meta, "custom": custom, "val": first.meta["val"]}
        quantize.replace_input_with(before, table)
    graph.eliminate_dead_code()
    module.recompile()


def part_of_table(
    module: fx.GraphModule, numbers: Mapping[str, Tensor], kept: Collection[str]
) -> Callable[[fx.Node], bool]:
    """Return a function that is true for nodes that become part of a table."""
    names: set[str] = set()
    for quantize, *_ in _functions(module, numbers, kept):
        names |= {node.name for node in _between(quantize)}
    return lambda node: node.name in names


def _functions(
    module: fx.GraphModule, numbers: Mapping[str, Tensor], kept: Collection[str]
) -> Iterator[tuple[fx.Node, fx.Node, Tensor]]:
    """Yield the quantize node after each function for the NPU, its quantized input, and the values to quantize."""
    converters: Mapping[object, Any] = value_of(private_apis.NXP_OPERATORS)
    converted = set(map(aten_operator, converters))
    for quantize, source, values in Tables(module, numbers).functions():
        inner = _between(quantize)
        if len(inner) == 1 and len(inner[0].all_input_nodes) == 1 and aten_operator(inner[0].target) in converted:
            continue
        neighbours = inner or {_computed(source), *_readers(quantize)}
        is_on_npu = (all if inner else any)(_is_for_npu(node) for node in neighbours)
        if is_on_npu and not any(part in node.name for node in inner for part in kept if part):
            yield quantize, source, values


def _is_for_npu(node: fx.Node) -> bool:
    """True unless the node was quantized for a CPU with its own quantized operators."""
    custom: Mapping[str, Any] = node.meta.get("custom", {})
    return node.op == "call_function" and (QUANTIZED not in custom or MARK in custom) and KEPT not in node.meta


def _between(quantize: fx.Node) -> list[fx.Node]:
    """The operators between a quantize node and the dequantize nodes that its result depends on."""
    inner: dict[fx.Node, None] = {}
    waiting = [cast(fx.Node, quantize.args[0])]
    while waiting:
        node = waiting.pop()
        if node not in inner and node.op == "call_function" and not is_qdq(node):
            inner[node] = None
            waiting += node.all_input_nodes
    return list(inner)


def _computed(quantized: fx.Node) -> fx.Node:
    """The operator whose result is quantized; an input itself."""
    return quantized.all_input_nodes[0] if is_qdq(quantized) else quantized


def _readers(quantize: fx.Node) -> list[fx.Node]:
    return [reader for dequantize in quantize.users for reader in dequantize.users]


def _dequantized(quantize: fx.Node) -> fx.Node:
    """A dequantize node that the function reads."""
    reading = [*_between(quantize), quantize]
    return next(arg for node in reading for arg in node.all_input_nodes if is_dequantize(arg))


def numbers_of(program: ExportedProgram, state: Mapping[str, Any]) -> dict[str, Tensor]:
    """The constants of one element by node name; the program may only know their shapes."""
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
