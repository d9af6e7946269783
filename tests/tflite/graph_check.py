"""A random TFLite graph on a target and by LiteRT's reference kernels: the same bytes, or the operators that differ."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tests.tflite.cortex_m.running import random_inputs
from tests.tflite.random_graphs import random_graph

from deuteron.board import vela_budget
from deuteron.board.host_executor import HostExecutor
from deuteron.board.translate import translate
from deuteron.builds.manifest import PROGRAM, Manifest
from deuteron.runtime import pte
from deuteron.runtime.litert import Litert
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator

Array = npt.NDArray[np.generic]
Build = Callable[[Path, str], tuple[Manifest, dict[str, bytes]]]
Run = Callable[[FlatModel, Sequence[Array]], Sequence[Array]]


@dataclass(frozen=True, slots=True)
class Difference:
    """The fewest operators found, one behind the other, whose results differ, and by how much at most."""

    model: FlatModel
    inputs: tuple[Array, ...]
    largest: float
    elements: int
    """Number of results that differ."""

    def __str__(self) -> str:
        titles = " -> ".join(_described(self.model, op) for op in self.model.operators)
        return f"{titles}: {self.elements} elements differ by at most {self.largest:g}"


def _described(model: FlatModel, op: FlatOperator) -> str:
    operands = ", ".join(f"{model.tensors[i].dtype}{[*model.tensors[i].shape]}" for i in op.inputs if i >= 0)
    return f"{op.title}({operands})"


def built(target: str, build_of: Build = vela_budget.build_of) -> Run:
    """Run models as programs of a target on this machine."""

    def run(model: FlatModel, inputs: Sequence[Array]) -> Sequence[Array]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph.tflite"
            path.write_bytes(encode(model))
            _, files = build_of(path, target)
        return HostExecutor(translate(pte.read(files[PROGRAM]), name="graph")).run(inputs)

    return run


def check(seed: int, run: Run, graph: Callable[[np.random.Generator], FlatModel] = random_graph) -> Difference | None:
    """Compare a graph; where it differs, find the fewest operators that do."""
    rng = np.random.default_rng(seed)
    model = graph(rng)
    inputs = random_inputs(model, rng)
    found = _difference(model, inputs, run)
    if found is None:
        return None
    results = tuple(dict.fromkeys(index for op in model.operators for index in op.outputs))
    values = dict(zip(results, Litert(encode(replace(model, outputs=results))).run(inputs), strict=True))
    values |= dict(zip(model.inputs, inputs, strict=True))
    for length in range(1, len(model.operators)):
        for at in range(len(model.operators) - length + 1):
            part = _part(model, model.operators[at : at + length])
            smaller = _difference(part[0], [values[index] for index in part[1]], run)
            if smaller is not None:
                return smaller
    return found


def _difference(model: FlatModel, inputs: Sequence[Array], run: Run) -> Difference | None:
    wanted = Litert(encode(model)).run(inputs)
    elements, largest = 0, 0.0
    for theirs, ours in zip(wanted, run(model, inputs), strict=True):
        a, b = theirs.ravel(), np.asarray(ours).ravel()
        differs = (a != b) & ~((a != a) & (b != b))
        elements += int(differs.sum())
        apart = np.abs(a[differs].astype(np.float64) - b[differs].astype(np.float64))
        largest = max(largest, float(apart.max(initial=0)))
    return Difference(model, tuple(inputs), largest, elements) if elements else None


def _part(model: FlatModel, operators: Sequence[FlatOperator]) -> tuple[FlatModel, list[int]]:
    """Some operators as a model of their own, and which tensors of the whole its inputs are."""
    used = sorted({index for op in operators for index in (*op.inputs, *op.outputs) if index >= 0})
    places = {-1: -1} | {index: place for place, index in enumerate(used)}
    made = [index for op in operators for index in op.outputs]
    read = {index for op in operators for index in op.inputs}
    fed = [i for i in used if i not in made and model.tensors[i].data is None]
    outputs = [i for i in made if i not in read]
    moved = [
        replace(op, inputs=tuple(places[i] for i in op.inputs), outputs=tuple(places[i] for i in op.outputs))
        for op in operators
    ]
    tensors = tuple(model.tensors[i] for i in used)
    part = FlatModel("part", tensors, tuple(places[i] for i in fed), tuple(places[i] for i in outputs), tuple(moved))
    return part, fed
