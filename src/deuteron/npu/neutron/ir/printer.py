"""The text form of a graph, which `parser.py` reads back to an equal graph.

```
    graph digits {
      input %x: i8[1,8] q(0.03125:-3)
      const %w: i8[2,8] q(0.0078125:0) = base64"AQIDBAUGBwgJCgsMDQ4PEA=="
      const %b: i32[2] = [100,-7]
      %y: i8[1,2] q(0.25:0) = fully_connected(%x, %w, %b) clamp=(0,127) @[4]
      output %y
    }
```

Attributes are the fields of the op's class without default values; `@[...]` is the origin. The code is generic over the
dataclasses of `ops.py`: a new operator needs no change.
"""

import base64
import json
import math
import re
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from types import MappingProxyType
from typing import cast

import numpy as np

from deuteron.errors import InternalError
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.types import DType, Tensor, TensorType
from deuteron.tflite.quantization import Quant

BARE_NAME = r"[A-Za-z_0-9][A-Za-z_0-9./$-]*"
"""Names that need no quotes."""

INLINE_ELEMENTS = 16
"""Constants up to this many elements are printed as numbers."""

_COMMON_FIELDS = tuple(f.name for f in fields(ops.Op))


def op_name(kind: type[ops.Op]) -> str:
    """Return the text name of an operator: its class name in snake case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", kind.__name__).lower()


OPS: MappingProxyType[str, type[ops.Op]] = MappingProxyType(
    {
        op_name(kind): kind
        for kind in vars(ops).values()
        if isinstance(kind, type) and issubclass(kind, ops.Op) and not kind.__subclasses__()
    }
)
"""Operator classes of `ops.py` by text name."""


def format_graph(graph: Graph) -> str:
    """Return the text form of a graph, one tensor or operator per line."""
    computed = {name for op in graph.ops for name in op.outputs}
    lines = [f"input {format_tensor(graph.tensor(name))}" for name in graph.inputs]
    lines += [
        f"{'const' if tensor.is_const else 'value'} {format_tensor(tensor)}"
        for tensor in graph.tensors
        if tensor.name not in computed and tensor.name not in graph.inputs
    ]
    lines += [format_op(op, graph) for op in graph.ops]
    lines += [f"output {format_name(name)}" for name in graph.outputs]
    return "\n".join([f"graph {_bare_or_quoted(graph.name)} {{", *(f"  {line}" for line in lines), "}"]) + "\n"


def format_op(op: ops.Op, graph: Graph) -> str:
    """One line: results with their types, operator, operands, attributes, origin; the graph must have the results."""
    results = ", ".join(f"{format_name(name)}: {format_type(graph.type(name))}" for name in op.outputs)
    operands = ", ".join(format_name(name) for name in op.inputs)
    attributes = [
        f"{f.name}={_format_value(getattr(op, f.name))}"
        for f in attribute_fields(type(op))
        if f.default is MISSING or getattr(op, f.name) != f.default
    ]
    origin = [f"@{_numbers(op.origin)}"] if op.origin else []
    return " ".join([f"{results} = {op_name(type(op))}({operands})", *attributes, *origin])


def attribute_fields(kind: type[ops.Op]) -> tuple[Field[object], ...]:
    """Return the fields of an operator except inputs, outputs and origin; its own before those of its bases."""
    shared = {f.name for base in kind.__bases__ for f in fields(base)}
    ordered = sorted(fields(kind), key=lambda f: f.name in shared)
    return tuple(f for f in ordered if f.name not in _COMMON_FIELDS)


def format_tensor(tensor: Tensor) -> str:
    """`%name: type`, and the value of a constant."""
    head = f"{format_name(tensor.name)}: {format_type(tensor.type)}"
    return head if tensor.data is None else f"{head} = {_format_data(tensor, tensor.data)}"


def format_name(name: str) -> str:
    """`%name`, quoted as a JSON string when odd."""
    return f"%{_bare_or_quoted(name)}"


def format_type(kind: TensorType) -> str:
    """`i8[1,8] q(scale:zero_point)`."""
    head = f"{kind.dtype.value}{_numbers(kind.shape)}"
    return head if kind.quant is None else f"{head} {_format_quant(kind.quant)}"


def _format_quant(quant: Quant) -> str:
    scales = (str(np.float32(scale)) for scale in quant.scales)  # the shortest digits that give the float32 back
    pairs = ", ".join(f"{scale}:{zero}" for scale, zero in zip(scales, quant.zero_points, strict=True))
    return f"q({pairs})" if quant.axis is None else f"q({pairs}; axis {quant.axis})"


def _format_data(tensor: Tensor, data: bytes) -> str:
    array = tensor.array()
    if array.size > INLINE_ELEMENTS or not np.isfinite(array).all():
        return f'base64"{base64.b64encode(data).decode()}"'
    numbers = array.astype(np.uint8) if tensor.type.dtype is DType.BOOL else array
    return _numbers(tuple(numbers.ravel().tolist()))


def _format_value(value: object) -> str:
    match value:
        case Enum():
            return str(value.value)
        case tuple():
            items = cast("tuple[object, ...]", value)
            return f"({','.join(map(_format_value, items))})"
        case bool():
            return "yes" if value else "no"
        case float() if math.isinf(value):
            return f"{math.copysign(1, value):g}e999"  # reads as infinity
        case int() | float():
            return repr(value)
        case _ if is_dataclass(value):
            return _format_value(tuple(getattr(value, f.name) for f in fields(value)))
        case _:
            raise InternalError(f"attribute value {value!r} has no text form")


def _numbers(values: tuple[object, ...]) -> str:
    return f"[{','.join(repr(value) for value in values)}]"


def _bare_or_quoted(name: str) -> str:
    return name if re.fullmatch(BARE_NAME, name) else json.dumps(name)
