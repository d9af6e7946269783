"""Programs of Cortex-M operators as bundles: the bytes of ExecuTorch's runtime, on this machine and on the boards."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests import full
from tests.board.host import HostFirmware
from tests.cortex_m.programs import Everything, inputs, lowered

from deuteron.board import boards, firmware_record, qemu
from deuteron.board.bundle import Bundle
from deuteron.board.firmware_record import FirmwareOptions
from deuteron.board.image import OBJECTS
from deuteron.board.link import link
from deuteron.board.toolchain import Toolchain
from deuteron.board.translate import translate
from deuteron.runtime import pte
from deuteron.runtime.host import HostRunner

pytestmark = pytest.mark.slow

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Case:
    """The bundle of every operator, its inputs, and what ExecuTorch's runtime makes of them."""

    bundle: Bundle
    given: Sequence[Array]
    expected: Sequence[Array]


@pytest.fixture(scope="module", params=[False, True], ids=["channels last", "explicit"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """In both layouts."""
    given = inputs(explicit=request.param)
    path = tmp_path_factory.mktemp("program") / "model.pte"
    path.write_bytes(lowered(Everything(explicit=request.param), given))
    arrays = [x.numpy() for x in given]
    bundle = translate(pte.read(path.read_bytes(), str(path)), name="every")
    return Case(bundle, arrays, HostRunner(path).run(arrays))


def run_on_board(bundle: Bundle, name: str, inputs: Sequence[bytes], outputs: Sequence[str]) -> list[bytes]:
    """The outputs of a bundle on an emulated board, in files with these names."""
    board = boards.load(name)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        link(bundle, board, FirmwareOptions(), (), Toolchain.find(OBJECTS), work)
        words = ["firmware", "--runs", "1", "--events", "events"]
        for i, data in enumerate(inputs):
            (work / f"in{i}").write_bytes(data)
            words += ("--input", f"in{i}")
        for output in outputs:
            words += ("--output", output)
        assert qemu.emulate(work / firmware_record.ELF, board, words, work) == (0, "")
        return [(work / output).read_bytes() for output in outputs]


def memory(bundle: Bundle, values: Sequence[int], arrays: Sequence[Array]) -> list[bytes]:
    """The arrays as they lie in the memory of a bundle's values."""
    orders = (bundle.values[i].dim_order for i in values)
    return [np.ascontiguousarray(x.transpose(order)).tobytes() for x, order in zip(arrays, orders, strict=True)]


def test_a_bundle_computes_what_executorch_does(case: Case, firmware: HostFirmware, tmp_path: Path) -> None:
    bundle = case.bundle
    found = firmware.load(bundle, tmp_path / "bundle").run(memory(bundle, bundle.inputs, case.given))
    assert found == memory(bundle, bundle.outputs, case.expected)


@pytest.mark.parametrize("name", full.only(boards.names(), "an505", "an547"))
def test_boards_compute_what_executorch_does(case: Case, name: str) -> None:
    bundle = case.bundle
    names = [f"out{i}" for i in range(len(case.expected))]
    found = run_on_board(bundle, name, memory(bundle, bundle.inputs, case.given), names)
    assert found == memory(bundle, bundle.outputs, case.expected)
