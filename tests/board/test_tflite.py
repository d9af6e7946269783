"""One TFLite file with a random model of each operator gives the host's bytes on the emulated cores."""

import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests import full
from tests.tflite.cortex_m import (
    micro_models,
    models,
    more_models,
    movement_models,
    recurrent_models,
    signal_models,
)
from tests.tflite.cortex_m.running import random_inputs
from tests.tflite.cortex_m.test_lstm_s16 import lstm

from deuteron import api
from deuteron.board import boards, image, qemu
from deuteron.board.build_directory import build_directory
from deuteron.board.firmware_record import FirmwareOptions
from deuteron.board.toolchain import Toolchain
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel
from deuteron.tflite.variables import with_variable_tensors

FAMILIES = (models, movement_models, more_models, recurrent_models, micro_models, signal_models)
MODELS = {name: make for family in FAMILIES for name, make in family.MODELS.items()} | {"lstm-INT16": lstm}
CASES = 2


def joined(parts: list[FlatModel]) -> FlatModel:
    """The models side by side in one."""
    whole = FlatModel("joined", (), (), (), ())
    for part in parts:
        base = len(whole.tensors)

        def moved(indices: tuple[int, ...], base: int = base) -> tuple[int, ...]:
            return tuple(index if index < 0 else base + index for index in indices)

        whole = replace(
            whole,
            tensors=(*whole.tensors, *(replace(t, name=f"{t.name}{base}") for t in part.tensors)),
            inputs=whole.inputs + moved(part.inputs),
            outputs=whole.outputs + moved(part.outputs),
            operators=(
                *whole.operators,
                *(replace(op, inputs=moved(op.inputs), outputs=moved(op.outputs)) for op in part.operators),
            ),
        )
    return whole


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parts = [
        MODELS[name](np.random.default_rng([zlib.crc32(name.encode()), case]))
        for name in MODELS
        for case in range(CASES)
    ]
    path = tmp_path_factory.mktemp("joined") / "joined.tflite"
    path.write_bytes(encode(joined(parts)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"), full.first([("an547", "cortex-m55"), ("an505", "cortex-m33"), ("an500", "cortex-m7")], 1)
)
def test_a_board_gives_the_hosts_bytes(file: Path, name: str, target: str, tmp_path: Path) -> None:
    subject = api.subject(file, target=target)
    samples = [random_inputs(with_variable_tensors(decode(file.read_bytes(), partial=True)), np.random.default_rng(1))]
    (expected,) = subject.run(samples)
    board = boards.load(name)
    built = image.build(build_directory(file, target), board, FirmwareOptions(), Toolchain.find(image.OBJECTS))
    image.write(built, tmp_path / "firmware", force=False)
    (run,) = qemu.run(tmp_path / "firmware", built.record, board, samples).runs
    assert [y.tobytes() for y in run.outputs] == [y.tobytes() for y in expected]
