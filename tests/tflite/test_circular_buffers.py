"""CIRCULAR_BUFFER of TFLite Micro as states, against its definition; errors name what is wrong."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from flatbuffers import flexbuffers  # pyright: ignore[reportMissingTypeStubs]
from tests.tflite.cortex_m.recurrent_models import svdf

from deuteron.board.host_executor import HostExecutor
from deuteron.board.translate import translate
from deuteron.errors import DeuteronError
from deuteron.runtime import pte, tflite_build
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant
from deuteron.tflite.variables import resolved

Q = Quant((0.5,), (-3,))
FRAME = (1, 1, 2, 3)


def options(cycles: object) -> bytes:
    return bytes(flexbuffers.Dumps({"cycles_max": cycles}))  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]


def buffers(*slots_and_cycles: tuple[int, int]) -> FlatModel:
    """Buffers, each with the maxima of its slots behind it; the last buffer and its maxima are outputs."""
    tensors, operators = [FlatTensor("x", FRAME, "INT8", Q)], list[FlatOperator]()
    at = 0
    for number, (slots, cycles) in enumerate(slots_and_cycles):
        first = len(tensors)
        tensors += [
            FlatTensor(f"b{number}", (1, slots, *FRAME[2:]), "INT8", Q, is_variable=True),
            FlatTensor(f"axis{number}", (1,), "INT32", None, np.array([1], np.int32).tobytes()),
            FlatTensor(f"m{number}", FRAME, "INT8", Q),
        ]
        code = FlatOperator("CUSTOM", (at,), (first,), "", {}, "CIRCULAR_BUFFER", options(cycles))
        maxima = FlatOperator("REDUCE_MAX", (first, first + 1), (first + 2,), "ReducerOptions", {"KeepDims": 1})
        operators += [code, maxima]
        at = first + 2
    return FlatModel("m", tuple(tensors), (0,), (at - 2, at), tuple(operators))


class Definition:
    """Buffers as TFLite Micro has them: a run ends at one, except once in `cycles` runs."""

    def __init__(self, *slots_and_cycles: tuple[int, int]) -> None:
        self.cycles = [cycles for _, cycles in slots_and_cycles]
        self.slots = [np.full((1, slots, *FRAME[2:]), -3, np.int8) for slots, _ in slots_and_cycles]
        self.runs = [0] * len(self.cycles)

    def run(self, x: npt.NDArray[np.int8]) -> list[npt.NDArray[np.int8]] | None:
        for number, cycles in enumerate(self.cycles):
            self.slots[number] = np.concatenate([self.slots[number][:, 1:], x], 1)
            self.runs[number] += 1
            if self.runs[number] % cycles:
                return None
            x = self.slots[number].max(1, keepdims=True)
        return [self.slots[-1], x]


@pytest.mark.parametrize("net", [((3, 1),), ((1, 1),), ((4, 2),), ((3, 2), (2, 1)), ((2, 2), (3, 3), (4, 2), (2, 1))])
@pytest.mark.parametrize("target", ["cortex-m55", "cortex-m33"])
def test_results_are_those_of_the_runs_that_have_one(
    tmp_path: Path, net: tuple[tuple[int, int], ...], target: str
) -> None:
    (tmp_path / "net.tflite").write_bytes(encode(buffers(*net)))
    program = tflite_build.build_of(tmp_path / "net.tflite", target)[1]["model.pte"]
    executor, rng = HostExecutor(translate(pte.read(program), name="net")), np.random.default_rng(0)
    for _ in range(2):
        definition, results = Definition(*net), 0
        executor.reset()
        for _ in range(40):
            x = rng.integers(-128, 128, FRAME, np.int8)
            wanted, found = definition.run(x), executor.run([x])
            if wanted is not None:
                results += 1
                for ours, theirs in zip(found, wanted, strict=True):
                    np.testing.assert_array_equal(ours, theirs)
        assert results == 40 // int(np.prod([cycles for _, cycles in net]))


def test_buffers_that_change_together_share_a_counter() -> None:
    model = resolved(b"", decode(encode(buffers((2, 2), (3, 1), (3, 3), (2, 1))), partial=True)).model
    assert [state.name for state in model.states] == ["b0", "runs/2", "b1", "b2", "runs/6", "b3"]


def error(model: FlatModel) -> str:
    with pytest.raises(DeuteronError) as caught:
        resolved(b"", decode(encode(model), partial=True))
    return str(caught.value)


def with_tensor(model: FlatModel, index: int, **changes: object) -> FlatModel:
    tensors = [*model.tensors]
    tensors[index] = replace(tensors[index], **changes)  # pyright: ignore[reportArgumentType]
    return replace(model, tensors=tuple(tensors))


def with_options(model: FlatModel, data: bytes) -> FlatModel:
    first, *rest = model.operators
    return replace(model, operators=(replace(first, custom_options=data), *rest))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (with_options(buffers((3, 1)), b""),
         "its option cycles_max is None; 1 to 2147483647 are allowed, others TFLite Micro guesses from shapes\n\n"
         "hint: write cycles_max into the options: 1 if what follows runs in each run"),
        (with_options(buffers((3, 1)), options(-1)),
         "its option cycles_max is -1; 1 to 2147483647 are allowed, others TFLite Micro guesses from shapes\n\n"
         "hint: write cycles_max into the options: 1 if what follows runs in each run"),
        (with_tensor(buffers((3, 1)), 0, shape=(1, 2, 2, 3)),
         "its input is [1, 2, 2, 3] and its output [1, 3, 2, 3]; [1, 1, height, channels] and "
         "[1, slots, height, channels] are allowed\n\n"
         "hint: make the file again; it is damaged or its exporter has a defect"),
        (with_tensor(buffers((3, 1)), 0, quant=Quant((0.25,), (0,))),
         "tensors `x` and `b0` differ in type, scale or zero point; one is allowed\n\n"
         "hint: put a QUANTIZE before the operator"),
    ],
)  # fmt: skip
def test_refusals(model: FlatModel, message: str) -> None:
    assert error(model) == f"operator 0 (CIRCULAR_BUFFER): {message}"


def test_a_buffer_of_a_damaged_size_takes_no_memory() -> None:
    assert error(with_tensor(buffers((3, 1)), 1, shape=(1, 1 << 30, 2, 3))) == (
        "tensor `b0`: its shape [1, 1073741824, 2, 3] takes more than 268,435,456 bytes\n\nhint: make the model smaller"
    )


def test_a_state_that_would_change_only_in_some_runs() -> None:
    """An SVDF that TFLite Micro runs in each second run."""
    first, second = buffers((3, 2)), svdf(np.random.default_rng(0))
    shift = len(first.tensors)
    (op,) = second.operators
    moved = replace(
        op,
        inputs=tuple(i if i < 0 else i + shift for i in op.inputs),
        outputs=tuple(i + shift for i in op.outputs),
    )
    model = replace(
        first,
        tensors=(*first.tensors, *second.tensors),
        inputs=(*first.inputs, *(i + shift for i in second.inputs)),
        outputs=(*first.outputs, *(i + shift for i in second.outputs)),
        operators=(*first.operators, moved),
    )
    assert error(model) == (
        "operator 2 (SVDF): it keeps a state, and a CIRCULAR_BUFFER before it runs it once in 2 runs\n\n"
        "hint: give the buffers cycles_max 1, or keep the state in a CIRCULAR_BUFFER, too"
    )
