"""Finds the kernel that computes an operator, without the map: its output changes when the operator changes.

One operator of a partition's TFLite file is changed: its weights, its activation, the scale of its result, its window.
The first kernel call with another output computes the operator. The second computes one that reads it, which confirms
operators that cannot be changed, such as a concatenation.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path

import numpy as np

from deuteron.arch.memory import FetchPolicy, MemoryOptions
from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import Partition
from deuteron.errors import DeuteronError
from deuteron.npu.neutron.convert import ConvertOptions, convert_model
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import Decoded, decode
from deuteron.npu.neutron.microcode.format import Header, Opcode
from deuteron.operators.regions import Region
from deuteron.runtime.driver import Driver
from deuteron.tflite.decode import decode as decode_tflite
from deuteron.tflite.flat_model import FlatModel, FlatOperator

RELU = 1
WINDOW = ("FilterWidth", "FilterHeight")


def confirmed(directory: Path) -> tuple[int, int, int]:
    """How many kernel calls of a build were found to compute what it says: directly, in all, and how many there are.

    Those found directly are first to change; that a second one reads of the first is what the map says.

    Raises:
        AssertionError: another kernel computes an operator.
    """
    manifest = manifests.read(directory)
    direct, found = 0, 0
    for tflite, entry in zip(manifests.tflites(directory, manifest), manifest.partitions, strict=True):
        calls = {*_confirmed(decode_tflite(tflite), entry, manifest.target)}
        direct += len({number for number, is_first in calls if is_first})
        found += len({number for number, _ in calls})
    return direct, found, sum(len(entry.kernels) for entry in manifest.partitions)


def _confirmed(model: FlatModel, entry: Partition, target: str) -> Iterator[tuple[int, bool]]:
    """The kernel calls that change with the operators that they are said to compute (True), or with what these read."""
    plain = _convert(model, target)
    assert plain is not None
    before = _Runs(plain)
    assert len(before.decoded.calls) == len(entry.kernels), "the build is made without fetches"
    for op in range(len(model.operators)):
        named = [kernel.index for kernel in entry.kernels if op in kernel.ops]
        for other in _changed(model, op) if named else ():
            container = _convert(other, target)
            if container is None or not before.is_like(container):
                continue
            changed = [*islice(before.changes(_Runs(container)), 2)]
            if not changed:
                continue
            first, *second = changed
            assert first == named[0], f"operator {op}: kernel {first} changed, the build names {named}"
            yield first, True
            yield from ((number, False) for number in second if _reads(model, entry, number, first))
            break


def _reads(model: FlatModel, entry: Partition, reader: int, writer: int) -> bool:
    """Return whether an operator of one kernel call reads the output of another's."""
    written = {tensor for op in entry.kernels[writer].ops for tensor in model.operators[op].outputs}
    read = {tensor for op in entry.kernels[reader].ops for tensor in model.operators[op].inputs}
    return not written.isdisjoint(read)


class _Runs:
    """A program without fetches, run as far as any of its kernel calls."""

    def __init__(self, container: Container) -> None:
        self.decoded = decode(container)
        self._container = container
        generator = np.random.default_rng(0)
        self._inputs = [generator.integers(-128, 128, size, "int8").tobytes() for size in self.decoded.input_bytes]
        self._driver = Driver()
        self._known: dict[int, bytes] = {}

    def is_like(self, container: Container) -> bool:
        """Return whether another program calls the same kernels on the same places."""
        return _outline(decode(container)) == _outline(self.decoded)

    def changes(self, other: "_Runs") -> Iterator[int]:
        """The kernel calls whose output is another in the other program."""
        return (number for number in range(len(self.decoded.calls)) if self.output(number) != other.output(number))

    def output(self, number: int) -> bytes:
        """Return the output of a kernel call."""
        if number not in self._known:
            call = self.decoded.calls[number]
            with self._driver.load(_until(self._container, number + 1)) as model:
                given = model.run(self._inputs)
                place = call.operands[len(call.kernel.reads)]
                memory = given[place.index] if place.region is Region.OUTPUT else model._scratch.read()
                self._known[number] = memory[place.offset : place.offset + place.nbytes]
        return self._known[number]


def _outline(decoded: Decoded) -> Sequence[object]:
    """The calls without their constants."""
    return [
        (call.kernel.name, [place for place in call.operands if place.region is not Region.WEIGHTS])
        for call in decoded.calls
    ]


def _convert(model: FlatModel, target: str) -> Container | None:
    options = ConvertOptions(memory=MemoryOptions(fetch_constants_to_sram=FetchPolicy.NEVER))
    try:
        return convert_model(model, target, options).container
    except DeuteronError:
        return None  # the changed operator is no valid one


def _until(container: Container, calls: int) -> Container:
    """The container, cut after so many kernel calls; it has no other commands."""
    words = np.frombuffer(container.microcode, "<u4").copy()
    at = int(words[Header.FIRST_COMMAND]) // 4
    for _ in range(calls):
        assert words[at] & 0xFF == Opcode.CALL
        at += int(words[at]) >> 16
    words[at] = Opcode.END | 1 << 16
    words[at + 1 :] = 0
    words[Header.COMMANDS] = calls + 1
    words[Header.CRC] = 0
    words[Header.CRC] = zlib.crc32(words.tobytes())
    return replace(container, microcode=words.tobytes())


def _changed(model: FlatModel, op: int) -> Iterator[FlatModel]:
    """The model with one operator changed, in each way that there is; not all of them are valid."""
    operator = model.operators[op]
    if len(operator.inputs) > 1 and model.tensors[operator.inputs[1]].data is not None:
        yield _with_other_weights(model, op)
    if operator.name == "TRANSPOSE":
        alike = [i for i, other in enumerate(model.operators) if _moves_alike(model, operator, other)]
        yield from _with_other_axes(model, alike)
    options = operator.options
    if "Beta" in options:
        yield _with(model, op, replace(operator, options={**options, "Beta": options["Beta"] / 2}))
    if operator.name == "RELU":
        yield _with(model, op, replace(operator, name="RELU_N1_TO_1"))
    if options.get("FusedActivationFunction") == 0:
        yield _with(model, op, replace(operator, options={**options, "FusedActivationFunction": RELU}))
    (result, *_) = operator.outputs
    quant = model.tensors[result].quant
    if quant is not None:
        wider = replace(quant, scales=tuple(float(np.float32(1.5 * scale)) for scale in quant.scales))
        tensor = replace(model.tensors[result], quant=wider)
        yield replace(model, tensors=(*model.tensors[:result], tensor, *model.tensors[result + 1 :]))
    for name in WINDOW:
        if name in options:
            yield _with(model, op, replace(operator, options={**options, name: int(options[name]) - 1}))


def _with(model: FlatModel, op: int, operator: FlatOperator) -> FlatModel:
    return replace(model, operators=(*model.operators[:op], operator, *model.operators[op + 1 :]))


def _with_other_weights(model: FlatModel, op: int) -> FlatModel:
    """Return the model with new weights for one operator; all others keep theirs."""
    data = model.tensors[model.operators[op].inputs[1]].data
    assert data is not None
    return _with_other_data(model, op, bytes(b ^ 0x15 for b in data))


def _moves_alike(model: FlatModel, one: FlatOperator, other: FlatOperator) -> bool:
    """Return whether another operator is the same transpose of the same tensor, which is one kernel call."""
    axes = model.tensors[one.inputs[1]].data
    return other.name == one.name and other.inputs[0] == one.inputs[0] and model.tensors[other.inputs[1]].data == axes


def _with_other_axes(model: FlatModel, alike: Sequence[int]) -> Iterator[FlatModel]:
    """The model, in which transposes that are alike change two axes for each other."""
    data = model.tensors[model.operators[alike[0]].inputs[1]].data
    assert data is not None
    order = np.frombuffer(data, "<i4")
    for a, b in combinations(range(len(order)), 2):
        changed, other = model, order.copy()
        other[[a, b]] = order[[b, a]]
        for op in alike:
            changed = _with_other_data(changed, op, other.tobytes())
        yield changed


def _with_other_data(model: FlatModel, op: int, data: bytes) -> FlatModel:
    operator = model.operators[op]
    constant = model.tensors[operator.inputs[1]]
    other = replace(constant, name=f"{constant.name}_other_{op}", data=data)
    changed = replace(operator, inputs=(operator.inputs[0], len(model.tensors), *operator.inputs[2:]))
    return _with(replace(model, tensors=(*model.tensors, other)), op, changed)
