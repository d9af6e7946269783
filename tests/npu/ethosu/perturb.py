"""Finds the operation of a command stream that computes a TOSA operator, without the map: its result changes with it.

A constant of one operator is changed, its weights, its factors or its table, and Vela compiles the partition again. The
first operation with another result must be one that the map names. An operation that no change shows is confirmed by
its neighbours: if one reads another's output, by their addresses, so must the operators that the map names, in the
graph.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.npu.ethosu.stepwise import results

from deuteron.builds import manifest as manifests
from deuteron.flatbuffer import Buffer
from deuteron.npu.dataflow import Dataflow
from deuteron.npu.ethosu import blob as blobs
from deuteron.npu.ethosu import tosa
from deuteron.npu.ethosu.blob import Blob
from deuteron.npu.ethosu.stream import decode
from deuteron.npu.ethosu.tosa import Graph
from deuteron.npu.provenance import KernelOrigin
from deuteron.runtime import pte
from deuteron.runtime.partitions import partitions_of

CHANGED = {"CONV2D": 1, "DEPTHWISE_CONV2D": 1, "TRANSPOSE_CONV2D": 1, "TABLE": 1, "RESCALE": 1}
"""The operand of an operator that is changed: weights, tables, factors."""
_BATCH = "import sys; from ethosu.vela import vela; [vela.main(line.split()) for line in sys.stdin]"


@dataclass(frozen=True)
class Partition:
    """A confirmed partition: its TOSA file, its payload, the arguments of Vela, and its record."""

    tosa: bytes
    payload: bytes
    flags: Sequence[str]
    kernels: Sequence[KernelOrigin]
    values: Dataflow


def confirmed(partition: Partition, folder: Path, every: int = 1) -> tuple[int, int, int]:
    """How many operations were found to compute what the map says: directly, with neighbours, and how many there are.

    Every `every`th of the operators that can be changed is changed.

    Raises:
        AssertionError: another operation computes an operator, or neighbours in memory are none in the graph.
    """
    graph = tosa.read(partition.tosa, "tosa")
    changes = [*_changes(partition.tosa, graph)][::every]
    plain, *others = _compiled([partition.tosa, *(data for _, data in changes)], partition.flags, folder)
    assert plain.command_data == blobs.parse(partition.payload, "payload").command_data, "Vela is called otherwise"
    direct: set[int] = set()
    for (op, _), other in zip(changes, others, strict=True):
        if not _is_like(plain, other):
            continue
        named = [kernel.index for kernel in partition.kernels if op in kernel.ops]
        changed = [*_differing(plain, other)]
        if changed:
            assert changed[0] in named, f"operator {op}: operation {changed[0]} changed, the build names {named}"
            direct.add(changed[0])
    return len(direct), len(_spread(direct, partition, graph)), len(partition.kernels)


def partitions(directory: Path) -> Iterator[Partition]:
    """The partitions of a build."""
    manifest = manifests.read(directory)
    method = pte.read((directory / manifests.PROGRAM).read_bytes()).methods[0]
    for part, entry in zip(partitions_of(method), manifest.partitions, strict=True):
        system, mode = entry.schedule.system.split(", ")
        flags = (
            f"--optimise={manifest.options.vela.optimise.value}",
            f"--accelerator-config={manifest.target}",
            "--config=Arm/vela.ini",
            "--output-format=raw",
            f"--system-config={system}",
            f"--memory-mode={mode}",
        )
        data = (directory / manifests.tosa_name(part.number)).read_bytes()
        yield Partition(data, part.payload, flags, entry.kernels, entry.dataflow)


def confirmed_build(directory: Path, work: Path, every: int = 1) -> tuple[int, int, int]:
    """`confirmed` of all partitions of a build; files for Vela go to `work`."""
    counts: list[tuple[int, int, int]] = []
    for number, partition in enumerate(partitions(directory)):
        folder = work / f"vela_{number}"
        folder.mkdir()
        counts.append(confirmed(partition, folder, every))
    direct, found, operations = map(sum, zip(*counts, strict=True))
    return direct, found, operations


def _differing(one: Blob, other: Blob) -> Iterator[int]:
    """The operations that write something else in another program."""
    for number, ((_, before, after), (_, other_before, other_after)) in enumerate(
        zip(results(one), results(other), strict=True)
    ):
        written = (before != after) | (other_before != other_after)
        if (after[written] != other_after[written]).any():
            yield number


def _spread(direct: set[int], partition: Partition, graph: Graph) -> set[int]:
    """These operations, and all that hang together with them by what they read and write."""
    uses = [[use.buffer for use in call] for call in partition.values.uses()]
    found, left = set(direct), [*direct]
    edges: dict[int, set[int]] = {number: set() for number in range(len(uses))}
    for reader, buffers in enumerate(uses):
        for writer in range(reader):
            if uses[writer][-1] in buffers[:-1] and _touch(graph, partition.kernels, writer, reader):
                edges[reader].add(writer)
                edges[writer].add(reader)
    while left:
        for other in edges[left.pop()] - found:
            found.add(other)
            left.append(other)
    return found


def _touch(graph: Graph, kernels: Sequence[KernelOrigin], writer: int, reader: int) -> bool:
    """Return whether an operator of one operation reads the output of another's, or both share one."""
    before, after = ([graph.operators[op] for op in kernels[number].ops] for number in (writer, reader))
    written = {name for operator in before for name in operator.outputs}
    return not written.isdisjoint(name for operator in after for name in operator.inputs) or any(
        operator in after for operator in before
    )


def _is_like(one: Blob, other: Blob) -> bool:
    """Return whether another program has the same operations in the same places."""
    outlines = [
        [(o.offset, o.kind, o.inputs[0].offset if o.inputs else 0, o.output and o.output.offset) for o in s.operations]
        for s in (decode(blob.command_data, "stream") for blob in (one, other))
    ]
    return outlines[0] == outlines[1] and one.scratch_bytes == other.scratch_bytes


def _changes(data: bytes, graph: Graph) -> Iterator[tuple[int, bytes]]:
    """The file with one operator changed, for each that can be: bytes of a constant that no other operator reads."""
    places = {name: span for name, *span in _constants(data)}
    readers = [name for operator in graph.operators for name in operator.inputs]
    for index, operator in enumerate(graph.operators):
        name = operator.inputs[CHANGED[operator.name]] if operator.name in CHANGED else ""
        if name in places and readers.count(name) == 1:
            start, size = places[name]
            content = np.frombuffer(data, np.uint8)[start : start + size].copy()
            if operator.name == "RESCALE":
                factors = content.view("<i4" if size % 4 == 0 else "<i2")
                factors -= factors // 8
            else:
                content ^= 0x15
            yield index, data[:start] + content.tobytes() + data[start + size :]


def _constants(data: bytes) -> Iterator[tuple[str, int, int]]:
    """(name, first byte, bytes) of each tensor with content."""
    buffer = Buffer(data, "tosa")
    for tensor in buffer.root().tables(1)[0].tables(1)[0].tables(2):
        at = tensor.place(3)
        if at is not None:
            start, count = buffer.vector(buffer.follow(at), 1)
            if count:
                yield tensor.string(0), start, count


def _compiled(files: Sequence[bytes], flags: Sequence[str], folder: Path) -> list[Blob]:
    """Compile TOSA files with Vela, all in one process."""
    lines: list[str] = []
    for number, data in enumerate(files):
        path = folder / f"{number}.tosa"
        path.write_bytes(data)
        lines.append(" ".join((*flags, f"--output-dir={folder / str(number)}", str(path))))
    command = (sys.executable, "-c", _BATCH)
    subprocess.run(command, input="\n".join(lines), text=True, check=True, capture_output=True)
    return [_blob(folder / str(number) / f"{number}_vela.npz") for number in range(len(files))]


def _blob(path: Path) -> Blob:
    data = np.load(path)
    sides: list[tuple[blobs.Tensor, ...]] = []
    for side in ("input", "output"):
        rows = zip(*(data[f"{side}_{what}"].tolist() for what in ("shape", "elem_size", "offset")), strict=True)
        sides.append(tuple(blobs.Tensor(tuple(shape), size, offset) for shape, size, offset in rows))
    commands, weights = data["cmd_data"].tobytes(), data["weight_data"].tobytes()
    return Blob(commands, weights, int(data["scratch_shape"][0]), *sides)
