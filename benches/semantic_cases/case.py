"""A case of the bench of semantics: a module with the samples that it takes, and what many cases share."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

Draw = tuple[int, ...] | Callable[[torch.Generator], Tensor]
"""A shape of normal numbers, or a function that draws a tensor."""

VECTOR: Draw = (4, 8)
IMAGE: Draw = (1, 3, 8, 8)
TOKENS: Draw = (1, 6, 8)
SIGNAL: Draw = (1, 4, 16)


@dataclass(frozen=True, slots=True)
class Case:
    """A module by name.

    Attributes:
        name: unique among all kinds.
        make: makes the module; resets what it keeps outside of itself.
        inputs: how each input is drawn.
        kind: the table of cases that it is from.
        is_rewrite: it is what a refusal's hint says to write instead, and has to build.
        trains: the module is handed over in training mode, which a build switches to evaluation.
    """

    name: str
    make: Callable[[], Any]
    inputs: tuple[Draw, ...]
    kind: str = ""
    is_rewrite: bool = False
    trains: bool = False

    def module(self) -> Any:
        """The module with seeded weights and statistics."""
        torch.manual_seed(0)
        module = self.make()
        return module.train() if self.trains else _in_evaluation(module)

    def samples(self, count: int, seed: int) -> list[tuple[Tensor, ...]]:
        """Seeded inputs."""
        generator = torch.Generator().manual_seed(seed)
        return [tuple(_drawn(draw, generator) for draw in self.inputs) for _ in range(count)]


def _in_evaluation(module: Any) -> Any:
    """The module in evaluation mode, where it has one: exported modules do not."""
    try:
        return module.eval()
    except NotImplementedError:
        return module


def _drawn(draw: Draw, generator: torch.Generator) -> Tensor:
    return torch.randn(draw, generator=generator) if isinstance(draw, tuple) else draw(generator)


class Cases:
    """The cases of one kind, in the order in which they are added."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._cases: dict[str, Case] = {}

    def __iter__(self) -> Iterator[Case]:
        return iter(self._cases.values())

    def add(self, name: str, make: Callable[[], Any], *inputs: Draw, **options: Any) -> None:
        """Add a module by the function or class that makes it; it takes a vector where no inputs are given."""
        if name in self._cases:
            raise ValueError(f"two cases are called `{name}`")
        self._cases[name] = Case(f"{self.kind}.{name}", make, inputs or (VECTOR,), self.kind, **options)

    def function(self, name: str, forward: Callable[..., Any], *inputs: Draw, **parts: Callable[[], Any]) -> None:
        """Add a module by its forward function, which gets the module first, and the makers of its parts."""
        self.add(name, lambda: Written(forward, parts), *inputs)

    def vectors(self, **forwards: Callable[..., Any]) -> None:
        """Add functions of a vector; `m.f` is a linear layer that keeps its size."""
        for name, forward in forwards.items():
            self.function(name, forward, VECTOR, f=dense)

    def images(self, **forwards: Callable[..., Any]) -> None:
        """Add functions of an image; `m.c` is a convolution to 8 channels that keeps its size."""
        for name, forward in forwards.items():
            self.function(name, forward, IMAGE, c=conv)

    def tokens(self, **forwards: Callable[..., Any]) -> None:
        """Add functions of a sequence of features; `m.f` is a linear layer that keeps its size."""
        for name, forward in forwards.items():
            self.function(name, forward, TOKENS, f=dense)

    def signals(self, **forwards: Callable[..., Any]) -> None:
        """Add functions of a signal; `m.c` is a convolution to 8 channels that keeps its length."""
        for name, forward in forwards.items():
            self.function(name, forward, SIGNAL, c=conv1)

    def rewrites(self, **forwards: Callable[..., Any]) -> None:
        """Add functions of a vector that a refusal's hint leads to; further arguments are vectors, too."""
        for name, forward in forwards.items():
            count = len(inspect.signature(forward).parameters) - 1
            self.function(name, forward, *[VECTOR] * count, f=dense)
            self._cases[name] = replace(self._cases[name], is_rewrite=True)


class Written(nn.Module):
    """A module whose forward function is given, with parts by name: modules, parameters, buffers and attributes."""

    def __init__(self, function: Callable[..., Any], parts: dict[str, Callable[[], Any]]) -> None:
        super().__init__()
        self.function = function
        for name, make in parts.items():
            part = make()
            if isinstance(part, Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *inputs: Tensor) -> Any:
        """Compute the function."""
        return self.function(self, *inputs)


@dataclass
class Seen:
    """Something that a module keeps, and is no module."""

    values: list[Any] = field(default_factory=list[Any])


def dense(inputs: int = 8, outputs: int = 8, **options: Any) -> nn.Linear:
    """A linear layer."""
    return nn.Linear(inputs, outputs, **options)


def conv(inputs: int = 3, outputs: int = 8, size: int = 3, **options: Any) -> nn.Conv2d:
    """A convolution that keeps the size of an image."""
    return nn.Conv2d(inputs, outputs, size, **{"padding": size // 2, **options})


def conv1(inputs: int = 4, outputs: int = 8, size: int = 3, **options: Any) -> nn.Conv1d:
    """A convolution that keeps the length of a signal."""
    return nn.Conv1d(inputs, outputs, size, **{"padding": size // 2, **options})


def ints(high: int, *shape: int, low: int = 0, dtype: torch.dtype = torch.int64) -> Draw:
    """Integers from `low` to below `high`."""
    return lambda generator: torch.randint(low, high, shape, generator=generator).to(dtype)


def bools(*shape: int) -> Draw:
    """Bools."""
    return lambda generator: torch.rand(shape, generator=generator) > 0.5


def uniform(low: float, high: float, *shape: int) -> Draw:
    """Uniform numbers."""
    return lambda generator: torch.rand(shape, generator=generator) * (high - low) + low


def viewed(shape: tuple[int, ...], view: Callable[[Tensor], Tensor]) -> Draw:
    """A view of normal numbers, which need not be contiguous."""
    return lambda generator: view(torch.randn(shape, generator=generator))


def normed(module: nn.Module) -> nn.Module:
    """The module, whose batch and instance norms have statistics and weights of their own."""
    for norm in module.modules():
        for name, low, high in (
            ("running_mean", -0.2, 0.2),
            ("running_var", 0.7, 1.4),
            ("weight", 0.8, 1.2),
            ("bias", -0.3, 0.3),
        ):
            value = getattr(norm, name, None)
            if isinstance(norm, nn.modules.batchnorm._NormBase) and value is not None:  # noqa: SLF001
                nn.init.uniform_(value, low, high)
    return module
