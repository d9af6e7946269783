"""Models small enough to build in seconds, with what firmware can meet at the edges of partitions."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from tests.runtime import models as runtime
from torch import Tensor, nn
from torch.nn import functional

from deuteron.api import BuildOptions
from deuteron.arch.memory import FetchPolicy, MemoryOptions

STRIPES_BUDGET = 16 * 1024
"""Bytes for `stripes`, whose layers need 13,952 bytes as a whole, and whose inputs and outputs need 8,640."""

CPU_STRIPES_BUDGET = 10 * 1024
"""Bytes for `stripes_on_cpu`, whose layers need 14,080 bytes as a whole."""

BESIDE_BUDGET = 9 * 1024
"""Bytes for `stripes_beside`, whose tensors need 9,504 bytes as a whole, in addition to the partitions' memory."""

ENDS_BUDGET = 5_300
"""Bytes for `ends_in_scratch`, which needs 5,456 bytes with its input and output outside scratch."""

Made = tuple[nn.Module, tuple[Tensor, ...], BuildOptions]


class View(nn.Module):
    """A convolution, a view that stays on the CPU, and a linear layer: two partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.linear = nn.Linear(256, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.conv(x).flatten(1))


class Sigmoid(nn.Module):
    """A sigmoid between two convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.second = nn.Conv2d(4, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.sigmoid(self.first(x))
        return self.second(y)


class Stripes(nn.Module):
    """A residual block on a map that is large for its channels, and little behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.last = nn.Conv2d(8, 16, 1)
        self.linear = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(self.deep(x)) + x
        x = functional.max_pool2d(self.last(x), 2)
        return self.linear(x.mean((2, 3)))


class Beside(nn.Module):
    """Two partitions, before and between which the CPU's convolutions have maps that are large for their channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.narrow = nn.Conv2d(8, 16, 1, stride=2)
        self.wide = nn.Conv2d(16, 128, 1)
        self.last = nn.Conv2d(128, 8, 3, padding=1)
        self.linear = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(self.deep(x))
        x = functional.max_pool2d(self.narrow(x), 2)
        x = torch.relu(self.wide(x))
        return self.linear(self.last(x).mean((2, 3)))


def view() -> Made:
    torch.manual_seed(0)
    return View().eval(), (torch.randn(1, 3, 8, 8),), BuildOptions(operators_not_to_delegate=("aten::view_copy",))


def sigmoid() -> Made:
    torch.manual_seed(0)
    return Sigmoid().eval(), (torch.randn(1, 3, 8, 8),), BuildOptions(operators_not_to_delegate=("aten::sigmoid",))


def pooled() -> Made:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2)).eval(), (torch.randn(1, 3, 8, 8),), BuildOptions()


def stripes() -> Made:
    """In less memory than its layers need as a whole, with weights that are fetched."""
    torch.manual_seed(0)
    memory = MemoryOptions(fetch_constants_to_sram=FetchPolicy.ALWAYS, sram_budget=STRIPES_BUDGET)
    options = BuildOptions(memory=memory)
    return Stripes().eval(), (torch.randn(1, 3, 24, 24),), options


def stripes_on_cpu() -> Made:
    """The same on a CPU alone, in less memory than its layers need as a whole there."""
    module, inputs, options = stripes()
    return module, inputs, replace(options, memory=MemoryOptions(sram_budget=CPU_STRIPES_BUDGET))


def stripes_beside() -> Made:
    """On an NPU and a CPU, whose part has stripes."""
    torch.manual_seed(0)
    options = BuildOptions(
        operators_not_to_delegate=("aten::convolution",), memory=MemoryOptions(sram_budget=BESIDE_BUDGET)
    )
    return Beside().eval(), (torch.randn(1, 1, 24, 24),), options


def int8(made: Made) -> Made:
    module, inputs, options = made
    return module, inputs, replace(options, remove_quant_io_ops=True)


def ends_in_scratch() -> Made:
    """Build `stripes` with int8 inputs and outputs, in less memory than it needs besides these."""
    module, inputs, options = int8(stripes())
    return module, inputs, replace(options, memory=MemoryOptions(sram_budget=ENDS_BUDGET))


def fetched(made: Made) -> Made:
    module, inputs, options = made
    return module, inputs, replace(options, memory=MemoryOptions(fetch_constants_to_sram=FetchPolicy.ALWAYS))


MODELS: Mapping[str, Callable[[], Made]] = {
    **runtime.MODELS,
    "view": view,
    "sigmoid": sigmoid,
    "pooled": pooled,
    "stripes": stripes,
    "stripes_on_cpu": stripes_on_cpu,
    "ends_in_scratch": ends_in_scratch,
    "view_fetched": lambda: fetched(view()),
    "two_fetched": lambda: fetched(runtime.two()),
    "two_int8": lambda: int8(runtime.two()),
    "conv_channels_last_int8": lambda: int8(runtime.conv(channels_last=True)),
}
