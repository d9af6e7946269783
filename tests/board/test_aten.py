"""Programs of ExecuTorch's portable operators as bundles: the numbers of its runtime, on this machine and on boards.

The program has more outputs than boards usually see, under long names: the runner has a limit to neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tests.board.host import HostFirmware
from tests.board.test_cortex_m import run_on_board
from tests.exir import EdgeCompileConfig, to_edge
from torch import Tensor
from torch.nn import functional

from deuteron.board import boards
from deuteron.board.bundle import Bundle
from deuteron.board.translate import translate
from deuteron.runtime import pte
from deuteron.runtime.host import HostRunner

pytestmark = pytest.mark.slow

Array = npt.NDArray[np.generic]

OPERATORS = {
    *(f"aten::{name}.out" for name in ("add", "sub", "mul", "div", "clamp", "amax", "full", "convolution")),
    "aten::max_pool2d_with_indices.out",
    *(f"aten::{name}.Tensor_out" for name in ("eq", "ne", "gt", "ge", "lt", "le")),
}


class Everything(torch.nn.Module):
    """Every operator, with operands that repeat, and every kind of convolution."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.plain = torch.nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2))
        self.grouped = torch.nn.Conv2d(4, 8, 3, groups=2, bias=False)
        self.transposed = torch.nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1)
        self.sequence = torch.nn.Conv1d(4, 5, 3, stride=2, padding=1)

    def forward(self, x: Tensor, row: Tensor, q: Tensor, r: Tensor) -> tuple[Tensor, ...]:
        one = torch.full((1, 1, 1, 1), 0.75)
        z = x.contiguous()  # ExecuTorch's runtime takes pairs of tensors in one order of memory only
        sums = torch.add(z, row, alpha=0.5) - torch.sub(row, one, alpha=3)
        return (
            sums,
            z * row / (row * row + one),
            torch.cat([torch.clamp(z, -0.3, None), torch.clamp(z, max=0.4)]),
            torch.clamp(q, -7, 100),
            torch.amax(z, (1, 3)),
            torch.amax(z, 2, keepdim=True),
            torch.amax(q, ()),
            *(relation(z, row) for relation in (torch.eq, torch.ne, torch.gt)),
            *(relation(q, r) for relation in (torch.ge, torch.lt, torch.le)),
            self.plain(x),
            self.grouped(x),
            self.transposed(x),
            self.sequence(z[:, :, 0]),
            *functional.max_pool2d_with_indices(z[1:], 3, 2, 1, ceil_mode=True),
            functional.max_pool2d(q[None], 2, stride=1, dilation=(2, 1)),
        )


@dataclass(frozen=True, slots=True)
class Case:
    """The bundle, its inputs, and what ExecuTorch's runtime makes of them."""

    bundle: Bundle
    given: Sequence[Array]
    expected: Sequence[Array]


def inputs(memory_format: torch.memory_format) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 4, 5, 6, generator=generator)
    x[0, 1, 2, 3] = torch.nan
    q, r = (torch.randint(-128, 128, (3, 4, 2), dtype=torch.int8, generator=generator) for _ in range(2))
    return x.to(memory_format=memory_format), torch.randn(4, 1, 6, generator=generator), q, r


@pytest.fixture(scope="module", params=[torch.contiguous_format, torch.channels_last], ids=str)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """In both orders of memory."""
    given = inputs(request.param)
    path = tmp_path_factory.mktemp("program") / "model.pte"
    edge = to_edge(
        torch.export.export(Everything().eval(), given), compile_config=EdgeCompileConfig(_check_ir_validity=False)
    )
    path.write_bytes(edge.to_executorch().buffer)
    program = pte.read(path.read_bytes(), str(path))
    assert set(program.methods[0].operators) >= OPERATORS
    arrays = [x.numpy() for x in given]
    return Case(translate(program, name="every"), arrays, HostRunner(path).run(arrays))


def memory(bundle: Bundle, values: Sequence[int], arrays: Sequence[Array]) -> list[bytes]:
    """The arrays as they lie in the memory of a bundle's values."""
    orders = (bundle.values[i].dim_order for i in values)
    return [np.ascontiguousarray(x.transpose(order)).tobytes() for x, order in zip(arrays, orders, strict=True)]


def check(case: Case, found: Sequence[bytes]) -> None:
    """NaN's bits are a processor's own."""
    for data, index, expected in zip(found, case.bundle.outputs, case.expected, strict=True):
        order = case.bundle.values[index].dim_order
        array = np.frombuffer(data, expected.dtype).reshape([expected.shape[d] for d in order])
        np.testing.assert_array_equal(array, expected.transpose(order), strict=True)


def test_a_bundle_computes_what_executorch_does(case: Case, firmware: HostFirmware, tmp_path: Path) -> None:
    bundle = case.bundle
    check(case, firmware.load(bundle, tmp_path / "bundle").run(memory(bundle, bundle.inputs, case.given)))


@pytest.mark.full
@pytest.mark.parametrize("name", boards.names())
def test_boards_compute_what_executorch_does(case: Case, name: str) -> None:
    bundle = case.bundle
    names = [f"{i:064}" for i in range(len(case.expected))]
    check(case, run_on_board(bundle, name, memory(bundle, bundle.inputs, case.given), names))
