"""Reads ETRecords, ExecuTorch's records of a program's source model, without ExecuTorch and PyTorch."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from deuteron.builds.user_frames import last_user_line
from deuteron.errors import DeuteronError, FormatError, unreadable
from deuteron.npu.provenance import PAYLOAD
from deuteron.records import DAMAGED, Source

_IDENTIFIER, _HANDLES, _DELEGATES = "ETRECORD_V0", "debug_handle_map", "delegate_map"
_EDGE = "edge_dialect_exported_program"
_OPERATORS = "executorch.exir.dialects.edge.ops."
QUANTIZES, DEQUANTIZES = "quantize_per_tensor", "dequantize_per_tensor"
"""Operators at the inputs and outputs of programs, in the edge program and in later dialects."""


@dataclass(frozen=True, slots=True)
class EdgeNode:
    """An operator of the edge program; `handle` is ExecuTorch's debug handle, which links it to instructions."""

    name: str
    op: str
    handle: int
    source: tuple[Source, ...]

    @property
    def quantizes(self) -> bool:
        """Return true if the operator only quantizes or dequantizes a tensor."""
        return self.op.startswith("quantized_decomposed::")


@dataclass(frozen=True, slots=True)
class DelegateRecord:
    """A delegate: its backend, and the debug handles of each of its kernel calls, if the backend gives them.

    `named` has the names of the calls' events, if the backend gives them. `mark` distinguishes its payload from others;
    it is empty if the record has none.
    """

    id: str
    calls: Mapping[int, tuple[int, ...]]
    named: tuple[str, ...] = ()
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Boundary:
    """An input or output: its sizes, None if dynamic, and the scales and zero points with which operators read it."""

    shape: tuple[int, ...] | None
    quantized: frozenset[tuple[float, int]]


@dataclass(frozen=True, slots=True)
class EtRecord:
    """The record of one method.

    Attributes:
        nodes: of its edge program, in order.
        instructions: the debug handles of each instruction's operators.
        delegates: by the instruction that calls each.
        inputs: of the method, without parameters and buffers.
        outputs: of the method, without buffers that it changes.
    """

    nodes: tuple[EdgeNode, ...]
    instructions: Mapping[int, tuple[int, ...]]
    delegates: Mapping[int, DelegateRecord]
    inputs: tuple[Boundary, ...]
    outputs: tuple[Boundary, ...]


def read(path: Path, method: str) -> EtRecord:
    """Read the record of a method.

    Raises:
        InputError: the file does not exist.
        FormatError: it is not an ETRecord, is damaged, or has no such method.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            handles, delegates = (json.loads(archive.read(name)) for name in (_HANDLES, _DELEGATES))
            module = json.loads(archive.read(f"{_EDGE}/{method}"))["graph_module"]
        graph, signature = module["graph"], module["signature"]
        return EtRecord(
            tuple(_nodes(graph["nodes"])),
            {int(number): _numbers(of) for number, of in handles[method].items()},
            {int(number): _delegate(entry) for number, entry in delegates[method].items()},
            tuple(_boundaries(signature["input_specs"], "user_input", graph)),
            tuple(_boundaries(signature["output_specs"], "user_output", graph)),
        )
    except OSError as e:
        raise unreadable(path, e) from e
    except DAMAGED as e:
        raise _not_one(path, method) from e


def _not_one(path: Path, method: str) -> DeuteronError:
    return FormatError(
        f"this is not an ETRecord of the method `{method}`: entries are missing or damaged",
        where=f"`{path}`",
        hint="give the file that ExecuTorch saved when the program was made, with `generate_etrecord=True`",
    )


def _nodes(nodes: Any) -> Iterator[EdgeNode]:
    """Yield the operators; nodes that only select a result are left out."""
    for node in nodes:
        target, metadata = str(node["target"]), node["metadata"]
        if not target.startswith(_OPERATORS) or "debug_handle" not in metadata:
            continue
        namespace, name = target.removeprefix(_OPERATORS).split(".")[:2]
        line = last_user_line(metadata.get("stack_trace", ""))
        source = (Source(*line, _module(metadata.get("nn_module_stack", ""))),) if line else ()
        yield EdgeNode(node["name"], f"{namespace}::{name}", int(metadata["debug_handle"]), source)


def _module(stack: str) -> str:
    """Return the path of the innermost module in `key,path,type;key,path,type`."""
    parts = stack.rpartition(";")[2].split(",")
    return parts[1] if len(parts) > 1 else ""


def _delegate(entry: Any) -> DelegateRecord:
    """Parse a delegate's entry; its map may also have the calls under names."""
    calls = cast("dict[str, Any]", entry["delegate_map"] or {})
    numbered = {int(key): _numbers(of) for key, of in calls.items() if key.isdecimal()}
    mark = next((key for key in calls if key.startswith(PAYLOAD)), "")
    return DelegateRecord(entry["name"], numbered, tuple(key for key in calls if " #" in key), mark)


def _boundaries(specs: Any, kind: str, graph: Any) -> Iterator[Boundary]:
    """Yield the inputs or outputs of a signature, with the scales and zero points of the adjacent operators."""
    operator = QUANTIZES if kind == "user_input" else DEQUANTIZES
    quantized: dict[str, set[tuple[float, int]]] = {}
    for node in graph["nodes"]:
        if f".{operator}." in str(node["target"]):
            arguments = {one["name"]: one["arg"] for one in node["inputs"]}
            at = arguments["input"] if kind == "user_input" else node["outputs"][0]
            if "as_float" in arguments["scale"] and "as_int" in arguments["zero_point"]:
                affine = float(arguments["scale"]["as_float"]), int(arguments["zero_point"]["as_int"])
                quantized.setdefault(at["as_tensor"]["name"], set()).add(affine)
    for spec in specs:
        if kind in spec:
            argument = spec[kind]["arg"]
            name = argument["as_tensor"]["name"] if "as_tensor" in argument else ""
            yield Boundary(_sizes(graph["tensor_values"][name]) if name else None, frozenset(quantized.get(name, ())))


def _sizes(tensor: Any) -> tuple[int, ...] | None:
    """Return the sizes of a tensor, None if they are dynamic."""
    fixed = all("as_int" in size for size in tensor["sizes"])
    return tuple(int(size["as_int"]) for size in tensor["sizes"]) if fixed else None


def _numbers(of: Any) -> tuple[int, ...]:
    listed = cast("list[Any]", of) if isinstance(of, list) else [of]
    return tuple(dict.fromkeys(int(number) for number in listed))
