"""The map from kernels to operators, held against an independent one: whose output changes when weights change.

One operator of a partition's TFLite file gets other weights. Of all kernel calls, each run with what comes before it,
the first whose output is another must be the first that the build says computes this operator.
"""

import zlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.profile.conftest import Build

from deuteron.convert import ConvertOptions, convert_model
from deuteron.frontend import manifest as manifests
from deuteron.frontend import saved
from deuteron.kernels.regions import Region
from deuteron.microcode.container import Container
from deuteron.microcode.decode import decode
from deuteron.microcode.format import HEADER_WORDS, Header, Opcode
from deuteron.runtime.driver import Driver
from deuteron.tflite.decode import decode as decode_tflite
from deuteron.tflite.flat import FlatModel


def until(container: Container, calls: int) -> Container:
    """The container, cut after so many kernel calls; it has no other commands."""
    words = np.frombuffer(container.microcode, "<u4").copy()
    at = int(words[Header.FIRST_COMMAND]) // 4 if words[Header.FIRST_COMMAND] >= 4 * HEADER_WORDS else 0
    assert at, "the header says where the first command is"
    for _ in range(calls):
        assert words[at] & 0xFF == Opcode.CALL
        at += int(words[at]) >> 16
    words[at] = Opcode.END | 1 << 16
    words[at + 1 :] = 0
    words[Header.COMMANDS] = calls + 1
    words[Header.CRC] = 0
    words[Header.CRC] = zlib.crc32(words.tobytes())
    return replace(container, microcode=words.tobytes())


def outputs(container: Container, inputs: list[bytes]) -> Iterator[bytes]:
    """What each kernel call writes."""
    driver = Driver()
    for number, call in enumerate(decode(container).calls):
        with driver.load(until(container, number + 1)) as model:
            given = model.run(inputs)
            place = call.operands[len(call.kernel.reads)]
            memory = given[place.index] if place.region is Region.OUTPUT else model._scratch.read()
            yield memory[place.offset : place.offset + place.nbytes]


def with_other_weights(model: FlatModel, op: int) -> FlatModel:
    """The model, in which one operator has weights of its own, all others those that it had."""
    operator = model.operators[op]
    weights = model.tensors[operator.inputs[1]]
    assert weights.data is not None
    other = replace(weights, name=f"{weights.name}_other", data=bytes(b ^ 0x15 for b in weights.data))
    changed = replace(operator, inputs=(operator.inputs[0], len(model.tensors), *operator.inputs[2:]))
    ops = (*model.operators[:op], changed, *model.operators[op + 1 :])
    return replace(model, tensors=(*model.tensors, other), operators=ops)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["parallel_pool", "residual", "shared_weights", "concat"])
def test_other_weights_change_the_kernel_that_the_map_names(build: Build, name: str):
    directory = build(name)
    manifest = manifests.read(directory)
    reference = saved.load(directory / manifests.REFERENCE, len(manifest.partitions))
    checked = 0
    for tflite, entry in zip(reference.partitions, manifest.partitions, strict=True):
        model = decode_tflite(tflite)
        container = convert_model(model, manifest.target, ConvertOptions()).container
        assert container is not None
        generator = np.random.default_rng(0)
        inputs = [generator.integers(-128, 128, size, "int8").tobytes() for size in decode(container).input_bytes]
        plain = list(outputs(container, inputs))
        assert len(plain) == len(entry.kernels)
        for op, operator in enumerate(model.operators):
            if len(operator.inputs) < 2 or operator.name not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
                continue
            other = convert_model(with_other_weights(model, op), manifest.target, ConvertOptions()).container
            assert other is not None
            changed = [k for k, (a, b) in enumerate(zip(plain, outputs(other, inputs), strict=True)) if a != b]
            named = [kernel.index for kernel in entry.kernels if op in kernel.ops]
            assert changed[0] == named[0], f"operator {op}: kernels {changed} changed, the map names {named}"
            checked += 1
    assert checked >= 2
