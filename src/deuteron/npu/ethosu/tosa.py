"""Reads the TOSA flatbuffers of partitions, with the locations that ExecuTorch's Arm backend adds to operators.

Slot numbers follow the schema of TOSA 1.0.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from deuteron.flatbuffer import Buffer, Table

_NAMES = (
    "UNKNOWN", "ARGMAX", "AVG_POOL2D", "CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "FFT2D", "MATMUL", "MAX_POOL2D",
    "RFFT2D", "TRANSPOSE_CONV2D", "CLAMP", "ERF", "SIGMOID", "TANH", "ADD", "ARITHMETIC_RIGHT_SHIFT", "BITWISE_AND",
    "BITWISE_OR", "BITWISE_XOR", "INTDIV", "LOGICAL_AND", "LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT", "LOGICAL_OR",
    "LOGICAL_XOR", "MAXIMUM", "MINIMUM", "MUL", "POW", "SUB", "TABLE", "ABS", "BITWISE_NOT", "CEIL", "CLZ", "COS",
    "EXP", "FLOOR", "LOG", "LOGICAL_NOT", "NEGATE", "RECIPROCAL", "RSQRT", "SIN", "SELECT", "EQUAL", "GREATER",
    "GREATER_EQUAL", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PRODUCT", "REDUCE_SUM",
    "CONCAT", "PAD", "RESHAPE", "REVERSE", "SLICE", "TILE", "TRANSPOSE", "GATHER", "SCATTER", "RESIZE", "CAST",
    "RESCALE", "CONST", "IDENTITY", "CUSTOM", "COND_IF", "WHILE_LOOP", "VARIABLE", "VARIABLE_WRITE",
    "VARIABLE_READ", "CONST_SHAPE",
)  # fmt: skip
DTYPES = {1: "bool", 3: "int8", 4: "int16", 5: "int32"}
"""numpy's dtypes by TOSA's numbers of them."""
_OUTPUTS = 4
"""Slot of the outputs of a block."""
CONSTANTS = frozenset(("CONST", "CONST_SHAPE"))
"""Operators that compute nothing."""


@dataclass(frozen=True, slots=True)
class Ancestor:
    """The node of a graph that another was made from; graph numbers are valid in one process only."""

    name: str
    graph: int


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator: its kind, the names of its inputs and outputs, and the ancestor of its node.

    There is no ancestor if a pass has created the node, or the file has no locations.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ancestor: Ancestor | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """A partition: its tensors by name, and its operators by index.

    Attributes:
        dtypes: numpy dtypes of the tensors that have one.
        shapes: shapes of the tensors.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operators: tuple[Operator, ...]
    dtypes: Mapping[str, str] = field(default_factory=dict[str, str])
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


def read(data: bytes, where: str) -> Graph:
    """Read the graph in a file; FormatError, with `where`, if it is damaged."""
    buffer = Buffer(data, where)
    block = _block(buffer)
    operators = tuple(_operator(buffer, table) for table in block.tables(1))
    tensors = {table.string(0): table for table in block.tables(2)}
    types = {name: table.scalar(2, "I") for name, table in tensors.items()}
    dtypes = {name: DTYPES[number] for name, number in types.items() if number in DTYPES}
    shapes = {name: table.scalars(1, "i") for name, table in tensors.items()}
    return Graph(block.strings(3), block.strings(_OUTPUTS), operators, dtypes, shapes)


def with_outputs(data: bytes, names: Sequence[str], where: str) -> bytes:
    """Return the file with further outputs at the end; FormatError, with `where`, if it is damaged."""
    buffer = Buffer(data, where)
    block = _block(buffer)
    at = block.place(_OUTPUTS)
    if at is None:
        raise buffer.error("it has no outputs")
    names = (*block.strings(_OUTPUTS), *names)
    # Offsets are positive: a new list of outputs, and their names, go to the end of the file.
    start = -(-len(data) // 4) * 4
    texts, offsets = b"", list[int]()
    for number, name in enumerate(names):
        offsets.append(4 * (len(names) - number) + len(texts))
        text = name.encode()
        texts += struct.pack("<I", len(text)) + text + bytes(4 - len(text) % 4)
    head = data[:at] + struct.pack("<I", start - at) + data[at + 4 :]
    return head.ljust(start, b"\0") + struct.pack(f"<{1 + len(names)}I", len(names), *offsets) + texts


def _block(buffer: Buffer) -> Table:
    regions = buffer.root().tables(1)
    blocks = regions[0].tables(1) if regions else ()
    if len(blocks) != 1:
        raise buffer.error(f"it has {len(blocks)} blocks of operators, and not 1")
    return blocks[0]


def _operator(buffer: Buffer, table: Table) -> Operator:
    kind = table.scalar(0, "I")
    if kind >= len(_NAMES):
        raise buffer.error(f"it has an operator of kind {kind}, there are {len(_NAMES)}")
    location = table.table(5)
    text = location.string(0) if location else ""
    return Operator(_NAMES[kind], table.strings(3), table.strings(4), _ancestor(text))


def _ancestor(text: str) -> Ancestor | None:
    """Return the first node of the trace in a location."""
    try:
        info = cast("Mapping[str, Mapping[str, object]]", json.loads(text))["torch_info"]
        first = cast("list[Mapping[str, object]]", info["node_trace"])[0]
        return Ancestor(str(first["name"]), cast("int", first["graph_id"]))
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
