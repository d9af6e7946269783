"""Failing graphs as text files: the IR, and in comments before it what failed and the inputs it failed on."""

import base64
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.ir.printer import format_graph

Array = npt.NDArray[np.generic]
DIRECTORY = Path(__file__).parents[1] / "regressions"

_INPUT = re.compile(r'^# input (?P<name>.+) = base64"(?P<data>[A-Za-z0-9+/=]*)"$', re.MULTILINE)


def save(path: Path, graph: Graph, inputs: Sequence[Array], remark: str) -> None:
    """Write a case."""
    lines = [f"# {line}".rstrip() for line in remark.splitlines()]
    for name, value in zip(graph.inputs, inputs, strict=True):
        lines.append(f'# input {name} = base64"{base64.b64encode(value.tobytes()).decode()}"')
    path.write_text("\n".join([*lines, format_graph(graph)]), encoding="utf-8")


def load(path: Path) -> tuple[Graph, tuple[Array, ...]]:
    """The case in a file."""
    text = path.read_text(encoding="utf-8")
    graph = parse_graph(text)
    data = {found["name"]: base64.b64decode(found["data"]) for found in _INPUT.finditer(text)}
    kinds = [graph.type(name) for name in graph.inputs]
    arrays = [np.frombuffer(data[name], kind.dtype.numpy) for name, kind in zip(graph.inputs, kinds, strict=True)]
    return graph, tuple(value.reshape(kind.shape) for value, kind in zip(arrays, kinds, strict=True))
