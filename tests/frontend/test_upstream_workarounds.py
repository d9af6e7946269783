"""Programs of ordinary code that ExecuTorch's backends compute wrongly or fail at give what the eager module gives."""

from pathlib import Path

import pytest
import torch
from tests import full
from torch import Tensor, nn
from torch.nn import functional

from deuteron.builds.options import BuildOptions
from deuteron.frontend.build import build
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.runtime.host import HostRunner

pytestmark = pytest.mark.slow


class Layers(nn.Module):
    """A linear layer, whose results it gives."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 8)


class Negations(Layers):
    """Negations whose operand has one sign, and bounds that are tensors or stand in the wrong order."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.linear(x)
        low = -functional.max_pool2d(-y.relu().reshape(1, 1, 4, 8), 2)
        return -y.relu(), low, y.clamp(-x.abs(), x.abs()), y.clamp(0.5, -0.5) + y


class Joints(Layers):
    """Operators on layers' results: sums, products, slices and reductions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.vector = nn.Conv2d(1, 4, 3, bias=False), nn.Parameter(torch.randn(8))
        self.norm = nn.BatchNorm2d(4)
        self.score, self.box = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 4, 1)
        self.plain, self.flat_norm = nn.Linear(8, 8, bias=False), nn.BatchNorm1d(8)
        for norm in (self.norm, self.flat_norm):
            norm.running_mean = torch.randn(norm.num_features) * 0.3
            norm.running_var = torch.rand(norm.num_features) + 0.5

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.linear(x)
        image = y.reshape(1, 1, 4, 8)
        frames = torch.cat([self.norm(self.conv(image)), self.norm(self.conv(image * 0.5))], 1)
        pooled = frames.mean((2, 3), keepdim=True).squeeze(-1).squeeze(-1)
        cut = functional.pad(self.linear(x), (-1, 2, 1, -2))
        joined = torch.cat([self.score(image).sigmoid(), self.box(image)], 1)
        return 1 + self.linear(x), y @ self.vector, pooled, cut, self.flat_norm(self.plain(x)).relu(), joined


class Products(Layers):
    """Vectors before a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(8, 5))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x[1] @ self.matrix, self.linear(x)[0] @ self.matrix


@pytest.mark.parametrize(
    ("module", "target"),
    full.first(
        [
            (Products, "ethos-u55-128"),
            (Negations, "ethos-u55-128"),
            (Joints, "imxrt700cm"),
            (Products, "cortex-m55"),
            (Joints, "cortex-m55"),
        ],
        1,
    ),
)
def test_a_program_gives_what_the_eager_module_gives(module: type[Layers], target: str, tmp_path: Path) -> None:
    model = module().eval()
    samples = [(torch.rand(4, 8) * 2 - 1,) for _ in range(24)]
    path = tmp_path / "model.pte"
    path.write_bytes(build(model, samples[0], target=target, calibration=samples, options=BuildOptions()).pte)
    runner = HostRunner(path)
    for (x,) in samples[:4]:
        with torch.no_grad():
            wanted = flat(model(x))
        for index, (ours, theirs) in enumerate(zip(runner.run([x.numpy()]), wanted, strict=True)):
            assert isinstance(theirs, Tensor)
            error = (torch.as_tensor(ours) - theirs).abs().max()
            assert error <= 0.04 * theirs.abs().max() + 0.02, f"output {index} is off by {error}"
