"""ETRecords: what ExecuTorch keeps of the model that a program was made from; read without ExecuTorch and PyTorch."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from deuteron.builds.traces import last_user_line
from deuteron.errors import DeuteronError, FormatError, InputError
from deuteron.records import DAMAGED, Source

_IDENTIFIER, _HANDLES, _DELEGATES = "ETRECORD_V0", "debug_handle_map", "delegate_map"
_EDGE = "edge_dialect_exported_program"
_OPERATORS = "executorch.exir.dialects.edge.ops."


@dataclass(frozen=True, slots=True)
class EdgeNode:
    """An operator of the edge program; `handle` is the number by which ExecuTorch says what it has become."""

    name: str
    op: str
    handle: int
    source: tuple[Source, ...]

    @property
    def quantises(self) -> bool:
        """Whether it only says how a tensor is quantised."""
        return self.op.startswith("quantized_decomposed::")


@dataclass(frozen=True, slots=True)
class DelegateRecord:
    """A delegate: its backend, and the handles of each of its kernel calls; none where the backend does not tell."""

    id: str
    calls: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class EtRecord:
    """What is recorded of one method.

    Attributes:
        nodes: of its edge program, in order.
        instructions: the handles of what each instruction computes.
        delegates: by the instruction that calls it.
    """

    nodes: tuple[EdgeNode, ...]
    instructions: Mapping[int, tuple[int, ...]]
    delegates: Mapping[int, DelegateRecord]


def read(path: Path, method: str) -> EtRecord:
    """The record of a method.

    Raises:
        InputError: there is no such file.
        FormatError: it is no ETRecord, damaged, or of a program without this method.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            handles, delegates = (json.loads(archive.read(name)) for name in (_HANDLES, _DELEGATES))
            graph = json.loads(archive.read(f"{_EDGE}/{method}"))["graph_module"]["graph"]
        return EtRecord(
            tuple(_nodes(graph["nodes"])),
            {int(number): _numbers(of) for number, of in handles[method].items()},
            {int(number): _delegate(entry) for number, entry in delegates[method].items()},
        )
    except OSError as e:
        raise InputError(f"`{path}` cannot be read: {e.strerror or e}") from e
    except DAMAGED as e:
        raise _not_one(path, method) from e


def _not_one(path: Path, method: str) -> DeuteronError:
    return FormatError(
        f"this is no ETRecord of the method `{method}`: entries of it are missing or damaged",
        where=f"`{path}`",
        hint="give the file that ExecuTorch saved when the program was made, with `generate_etrecord=True`",
    )


def _nodes(nodes: Any) -> Iterator[EdgeNode]:
    """The operators; what only takes a result apart is none."""
    for node in nodes:
        target, metadata = str(node["target"]), node["metadata"]
        if not target.startswith(_OPERATORS) or "debug_handle" not in metadata:
            continue
        namespace, name = target.removeprefix(_OPERATORS).split(".")[:2]
        line = last_user_line(metadata.get("stack_trace", ""))
        source = (Source(*line, _module(metadata.get("nn_module_stack", ""))),) if line else ()
        yield EdgeNode(node["name"], f"{namespace}::{name}", int(metadata["debug_handle"]), source)


def _module(stack: str) -> str:
    """The path of the innermost module in `key,path,type;key,path,type`."""
    parts = stack.rpartition(";")[2].split(",")
    return parts[1] if len(parts) > 1 else ""


def _delegate(entry: Any) -> DelegateRecord:
    """The entry of a delegate, whose calls are also there by other names than their numbers."""
    calls = cast("dict[str, Any]", entry["delegate_map"] or {})
    return DelegateRecord(entry["name"], {int(key): _numbers(of) for key, of in calls.items() if key.isdecimal()})


def _numbers(of: Any) -> tuple[int, ...]:
    listed = cast("list[Any]", of) if isinstance(of, list) else [of]
    return tuple(dict.fromkeys(int(number) for number in listed))
