"""State in containers and from numbers, checks of values, arithmetic on integers, and images with two readers."""

import collections
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from semantic_cases.case import IMAGE, SIGNAL, Cases, conv, conv1, dense, ints

CASES = Cases("containers")


def _kept(name: str, function: Callable[[Any, Tensor, Tensor], Tensor], start: Callable[[], Any]) -> None:
    """Add a function of the module, the input and a layer's output, with an attribute `kept`."""
    CASES.function(name, lambda m, x: function(m, x, m.f(x)), f=dense, kept=start)


def _queued(m: Any, _: Tensor, y: Tensor) -> Tensor:
    m.kept.append(y)
    return torch.stack([*m.kept]).mean(0)


def _pushed(m: Any, _: Tensor, y: Tensor) -> Tensor:
    m.kept.insert(0, y)
    m.kept.pop()
    return sum(m.kept)


def _looked_up(m: Any, x: Tensor, y: Tensor) -> Tensor:
    m.kept["h"] = 0.5 * m.kept.get("h", torch.zeros_like(x)) + y
    return m.kept["h"]


def _membrane(m: Any, _: Tensor, y: Tensor) -> Tensor:
    m.kept = 0.9 * m.kept + y
    spikes = (m.kept > 1).float()
    m.kept = m.kept - spikes
    return spikes


def _latched(m: Any, x: Tensor, y: Tensor) -> Tensor:
    m.kept = m.kept | (y > 1.2).any()
    return torch.where(m.kept, x, -x)


def _pair(m: Any, _: Tensor, y: Tensor) -> Tensor:
    h, c = m.kept
    h = 0.5 * h + y
    m.kept = (h, 0.5 * c + h)
    return m.kept[1]


_kept("deque", _queued, lambda: collections.deque([torch.zeros(4, 8)] * 3, maxlen=3))
_kept("list", _pushed, lambda: [torch.zeros(4, 8), torch.ones(4, 8)])
_kept("dictionary", _looked_up, dict)
_kept("from_number", _membrane, lambda: 0.0)
_kept("from_bool", _latched, lambda: False)
_kept("from_numbers", _pair, lambda: (0.0, 0.0))


def _asserted(m: Any, x: Tensor) -> Tensor:
    y = m.f(x)
    assert not y.isnan().any(), "NaN"
    assert (y.abs() < 1e6).all()
    return y


def _raised(m: Any, x: Tensor) -> Tensor:
    y = m.f(x)
    if not torch.isfinite(y).all() or y.abs().max() > 1e6:
        raise ValueError(f"large values of shape {y.shape}")
    return y


CASES.vectors(asserted=_asserted, raised=_raised)

for _dtype in (torch.int8, torch.int16, torch.int32):
    _ends = torch.iinfo(_dtype)
    _draw = ints(_ends.max, 4, 8, low=_ends.min, dtype=_dtype)
    _name = str(_dtype).removeprefix("torch.")
    CASES.function(f"arithmetic_{_name}", lambda m, i: (i + i, i * 3 - 1, -i, i // 7, i % 7, i**2), _draw, f=dense)
    CASES.function(f"bits_{_name}", lambda m, i: ((i >> 2) ^ 5, (i & 15) | 1, i > 3), _draw, f=dense)
    CASES.function(f"reduced_{_name}", lambda m, i: (i.sum(1), i.amax(1), i.sort(1)[0], i.any(1)), _draw, f=dense)


class Pyramid(nn.Module):
    """Two levels, both outputs, of which the upper one is enlarged and added to the lower one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = conv(stride=2), conv(8, 8, stride=2)
        self.lower, self.upper = conv(8, 8, 1), conv(8, 8, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        first = self.first(x)
        upper = self.upper(self.second(first))
        return {"lower": self.lower(first) + F.interpolate(upper, size=first.shape[-2:]), "upper": upper}


CASES.add("pyramid", Pyramid, IMAGE)
CASES.function(
    "ends_of_quotient",
    lambda m, x: (m.c(x) / (m.w + 1e-8))[..., 2:-2],
    SIGNAL,
    c=conv1,
    w=lambda: torch.hann_window(16),
)
CASES.function("computed_filter", lambda m, x: F.conv2d(x[:, :1], m.c(x)[:, :1, :3, :3]), IMAGE, c=conv)
