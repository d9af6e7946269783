"""Five million mutated programs through ExecuTorch's runtime, our delegate and the Cortex-M operators.

All but ExecuTorch's own library run under the address and undefined sanitizers. The mutations are described in
`firmware/executorch/tests/pte_mutations.h`.

make bench-fuzz-pte
"""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from fuzzing import Target, main
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.runtime.crafted_programs import Crafted, constant, number, numbers, placed, truth, unplanned

from deuteron import api
from deuteron.builds.manifest import PROGRAM
from deuteron.runtime.build_native import executorch_root

RUNS = 5_000_000


class Mixed(nn.Module):
    """A partition with two inputs and two outputs between operators of the Cortex-M."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 6, 3)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """A map and the scores of its channels."""
        between = torch.minimum(self.first(x), y)
        return between, torch.softmax(self.second(between).mean((2, 3)), 1)


class Maps(nn.Module):
    """The layers of the Cortex-M that work on maps."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.depthwise = nn.Conv2d(4, 4, 3, groups=4, padding=1)
        self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        """A map."""
        x = nn.functional.max_pool2d(self.depthwise(torch.relu(self.conv(x))), 2)
        return nn.functional.avg_pool2d(self.up(x), 2)


class Rows(nn.Module):
    """The layers of the Cortex-M that work on rows."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 7)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Scores."""
        return torch.softmax(self.linear(torch.bmm(x, y.transpose(1, 2))), 2)


class Elements(nn.Module):
    """The elementwise operators of the Cortex-M, and a padding."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """A row of each."""
        x = nn.functional.pad(x * y + x, (1, 1, 1, 1))
        return torch.maximum(torch.sigmoid(x), torch.minimum(x, x * x))


MODELS: Mapping[str, tuple[type[nn.Module], str, tuple[tuple[int, ...], ...]]] = {
    "mixed": (Mixed, "imxrt700cm", ((1, 3, 6, 6), (1, 4, 6, 6))),
    "signal": (nn.Sigmoid, "imxrt700cm", ((1, 3, 12),)),
    "maps": (Maps, "cortex-m33", ((1, 3, 4, 4),)),
    "rows": (Rows, "cortex-m33", ((2, 3, 4), (2, 5, 4))),
    "elements": (Elements, "cortex-m33", ((3, 6), (3, 6))),
}


def moving(*, jumps: bool) -> Crafted:
    """A program with moves, a tensor that is freed, and a jump over a move if wanted."""
    copy = "cortex_m::transpose.out"
    values = (
        truth(True),
        placed(0),
        placed(16),
        placed(32),
        number(0),
        numbers(4),
        unplanned(),
        placed(48),
        constant(),
    )
    steps = [("call", copy, 1, 5, 2, 2), ("call", copy, 6, 5, 7, 7), ("move", 2, 3), ("call", copy, 3, 5, 7, 7)]
    jump = [("jump", 0, 2)] if jumps else []
    return Crafted(values, [*jump, *steps, ("free", 6)], inputs=[1, 6], outputs=[7], dtype="CHAR")


def sample(shape: tuple[int, ...]) -> Tensor:
    """An input, in the order of memory that the Cortex-M works on: no operator of ExecuTorch's own is needed."""
    tensor = torch.randn(shape)
    return tensor.to(memory_format=torch.channels_last) if len(shape) == 4 else tensor


def programs(directory: Path) -> tuple[str, ...]:
    """The files of the programs that are mutated, built in a directory unless they are there."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, (module, target, shapes) in MODELS.items():
        if not (directory / name).exists():
            torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
            inputs = tuple(sample(shape) for shape in shapes)
            api.build(module(), inputs, target=target, output=directory / name, calibration=[inputs])
    written = {f"{name}.pte": moving(jumps=name == "jumps").data() for name in ("moves", "jumps")}
    for name, data in written.items():
        (directory / name).write_bytes(data)
    return *(str(directory / name / PROGRAM) for name in MODELS), *(str(directory / name) for name in written)


def target(directory: Path) -> Target:
    """The target, with programs built in a directory."""
    options = ("-DDTN_EXECUTORCH=ON", f"-DEXECUTORCH_ROOT={executorch_root()}")
    return Target("fuzz_pte", "executorch-tests", "executorch/tests", options, programs(directory))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as parent:
        sys.exit(main(target(Path(parent)), __doc__, RUNS))
