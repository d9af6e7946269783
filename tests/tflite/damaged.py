"""Small TFLite files of many forms, and random damage to them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from tests.tflite.cortex_m import micro_models, models, more_models, movement_models
from tests.tflite.cortex_m.test_dead_channels import random_model
from tests.tflite.subgraphs import file_of
from tests.tflite.test_circular_buffers import buffers
from tests.tflite.test_control_flow import body, branching, loop_parts, looping
from tests.tflite.test_normalize import dense, flattened
from tests.tflite.test_sparse import BLOCKS, CSR, densifying
from tests.tflite.test_weight_decoding import CASES as CODED

from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel
from deuteron.tflite.quantization import Quant

Rng = np.random.Generator

_ALL = {**models.MODELS, **movement_models.MODELS, **more_models.MODELS, **micro_models.MODELS}

SEEDS: tuple[bytes, ...] = (
    *(encode(make(np.random.default_rng(0))) for make in _ALL.values()),
    *(encode(random_model(np.random.default_rng(seed), dtype)) for seed in range(4) for dtype in ("INT8", "UINT8")),
    encode(flattened()),
    encode(buffers((3, 2), (2, 1))),
    *(encode(model) for model, _ in CODED.values()),
    encode(dense(0.001)),
    file_of(branching(3), body("TANH"), body("RELU6"), signatures={"first": 0, "second": 1}),
    file_of(looping(3), *loop_parts(3)),
    file_of(densifying(4), sparse={"t1": CSR}),
    file_of(densifying(12), sparse={"t1": BLOCKS}),
)
"""The files."""

_KINDS = {op.name: op.kind for data in SEEDS for op in decode(data, partial=True).operators}
"""The option table of each operator in these files."""

_WORDS = (0, 1, 2, 4, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)


def _flip(rng: Rng, data: bytearray) -> None:
    for _ in range(int(rng.integers(1, 5))):
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))


def _word(rng: Rng, data: bytearray) -> None:
    width = int(rng.choice([1, 2, 4]))
    at = int(rng.integers(0, max(1, len(data) - 4))) // width * width
    value = int(rng.choice(_WORDS)) if rng.integers(3) else int(rng.integers(0, 64))
    data[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")


def _cut(rng: Rng, data: bytearray) -> None:
    del data[int(rng.integers(len(data))) :]


def _remove(rng: Rng, data: bytearray) -> None:
    at = int(rng.integers(len(data)))
    del data[at : at + int(rng.integers(1, 64))]


def _copy(rng: Rng, data: bytearray) -> None:
    at, to, size = int(rng.integers(len(data))), int(rng.integers(len(data))), int(rng.integers(1, 64))
    data[to : to + size] = data[at : at + size]


def _swap(rng: Rng, data: bytearray) -> None:
    a, b = (int(i) * 4 for i in rng.integers(0, max(1, len(data) // 4 - 1), 2))
    data[a : a + 4], data[b : b + 4] = data[b : b + 4], data[a : a + 4]


_DAMAGE: tuple[Callable[[Rng, bytearray], None], ...] = (_flip, _word, _word, _swap, _copy, _cut, _remove)


def _other(rng: Rng, model: FlatModel) -> FlatModel:
    """A model of which one value is another: a shape, a type, a constant, a scale, an operand or an option."""
    tensors, operators = [*model.tensors], [*model.operators]
    at, place = int(rng.integers(len(tensors))), int(rng.integers(len(operators)))
    tensor, op = tensors[at], operators[place]
    number = int(rng.choice([-7, -1, 0, 1, 2, 3, 5, 1 << 20, (1 << 31) - 1]))
    match int(rng.integers(9)):
        case 0 if tensor.shape:
            dim = int(rng.integers(len(tensor.shape)))
            tensors[at] = replace(tensor, shape=(*tensor.shape[:dim], number, *tensor.shape[dim + 1 :]))
        case 1:
            tensors[at] = replace(tensor, shape=tensor.shape[1:] if rng.integers(2) else (1, *tensor.shape))
        case 2:
            tensors[at] = replace(tensor, dtype=str(rng.choice(["INT8", "INT16", "INT32", "FLOAT32", "BOOL", "INT64"])))
        case 3 if tensor.data:
            values = bytearray(tensor.data)
            _word(rng, values)
            tensors[at] = replace(tensor, data=bytes(values[: len(tensor.data)]))
        case 4:
            tensors[at] = replace(tensor, data=None if tensor.data else b"")
        case 5:
            scale = float(np.float32(rng.choice([1e-38, 1e-9, 1.0, 1e9, 3e38])))
            tensors[at] = replace(tensor, quant=None if rng.integers(2) else Quant((scale,), (number,)))
        case 6 if op.inputs:
            inputs = list(op.inputs)
            inputs[int(rng.integers(len(inputs)))] = int(rng.integers(-1, len(tensors)))
            operators[place] = replace(op, inputs=tuple(inputs[: int(rng.integers(len(inputs) + 1))] or inputs))
        case 7 if op.options:
            name = str(rng.choice(sorted(op.options)))
            value = bool(number & 1) if isinstance(op.options[name], bool) else number
            if not isinstance(op.options[name], tuple | float) and -128 <= value < 128:
                operators[place] = replace(op, options={**op.options, name: value})
        case _:
            kind = str(rng.choice(sorted(_KINDS)))
            operators[place] = replace(op, name=kind, kind=_KINDS[kind], options={})
    return replace(model, tensors=tuple(tensors), operators=tuple(operators))


def damaged(rng: Rng, seeds: Sequence[bytes]) -> bytes:
    """One of the files, with one to three changes of its values, or of its bytes behind the identifier."""
    source = seeds[int(rng.integers(len(seeds)))]
    changes = int(rng.integers(1, 4))
    if rng.integers(3):
        model = decode(source, partial=True)
        for _ in range(changes):
            model = _other(rng, model)
        return encode(model)
    data = bytearray(source)
    for _ in range(changes):
        if data:
            _DAMAGE[int(rng.integers(len(_DAMAGE)))](rng, data)
    data[4:8] = source[4:8]
    return bytes(data)
