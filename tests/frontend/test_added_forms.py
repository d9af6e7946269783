"""What becomes one of our operators, and what does not."""

import torch
from tests.frontend.combining import combine
from torch import Tensor, nn


class Compared(nn.Module):
    """Compares integers, which no quantisation concerns, and adds what the backend's own operator adds."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x + y, x.argmax(1) > 2


def test_integers_are_compared_as_they_are_and_plain_sums_are_the_backends_own() -> None:
    operators = combine(Compared(), (2, 7), (2, 7), target="cortex-m33").operators
    assert operators["cortex_m::quantized_add"] == 1
    assert operators["deuteron::reduce_argument"] == 1
    assert not any(
        name.startswith(("deuteron::broadcast", "deuteron::compare", "deuteron::decide")) for name in operators
    )
    assert operators["aten::gt.Scalar"] + operators["aten::gt.Tensor"] == 1


class Twice(nn.Module):
    """A tensor and a part of itself, which depends on one tensor only."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(x, x, alpha=0.25)


def test_a_tensor_and_itself_is_a_table() -> None:
    made = combine(Twice(), (2, 7), target="cortex-m33")
    assert made.operators["cortex_m::quantized_activation"] == 1
    assert made.steps == 0
