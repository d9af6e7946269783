"""Rounds the weights of a layer so that its results change least on calibration data.

The error of a layer's results is a quadratic form of the error of its weights, with the second moments of its inputs:
the local loss of AdaRound (Nagel et al., arXiv:2004.10568, equation 20). A weight need not become its nearest value.
Two searches minimise this loss without random numbers. The first rounds one column after the other and corrects the
others for its error (GPTQ: Frantar et al., arXiv:2210.17323). The second moves single weights by whole steps while the
loss falls.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn import functional

from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.operators import called

_POSITIONS = 1024
"""Positions of a convolution's windows that each batch adds to the moments."""

_DAMPING = 0.01
"""Share of the mean second moment that is added to each, so that the inverse exists."""

_SHARES = torch.linspace(0.5, 1.0, 26, dtype=torch.float64)
"""Ranges of weights that are tried, as shares of the largest weight."""

_SWEEPS = 3

_MOST = 1 << 24
"""Most second moments of a layer, 128 MiB: of 4096 inputs. A larger layer gets nearest values."""

_HELD = 1 << 25
"""Most second moments of layers that are measured in one run of the model."""


class Moments(fx.Interpreter):
    """Runs a float model and adds up the second moments of the inputs of layers.

    They are [groups, elements, elements], or [groups, elements] for a layer with more than `_MOST` of them: those of
    single inputs.
    """

    def __init__(self, module: fx.GraphModule, layers: Iterable[str]) -> None:
        super().__init__(module)
        self.of: dict[str, Tensor] = {}
        self._layers = frozenset(layers)

    def measure(self, batches: Iterable[Inputs]) -> None:
        """Add the batches."""
        with torch.no_grad():
            for batch in batches:
                self.run(*copies(batch))

    def run_node(self, n: fx.Node) -> Any:
        """Run a node, and add the inputs of a layer."""
        if n.name in self._layers:
            args, _ = self.fetch_args_kwargs_from_env(n)
            columns = _columns(called(n), *args).double()
            groups, elements, _ = columns.shape
            full = groups * elements**2 <= _MOST
            moments = columns @ columns.transpose(1, 2) if full else (columns**2).sum(dim=2)
            self.of[n.name] = self.of[n.name] + moments if n.name in self.of else moments
        return super().run_node(n)


def _columns(
    operator: str, x: Tensor, weight: Tensor, bias: object = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The inputs of a layer's results: [groups, elements of a row of weights, results]."""
    del bias
    if operator == "linear":
        return x.reshape(1, -1, x.shape[-1]).transpose(1, 2)
    kernel = tuple(weight.shape[2:])
    windows = functional.unfold(x, kernel, dilation, padding, stride)
    step = -(-windows.shape[0] * windows.shape[2] // _POSITIONS)
    elements = windows.shape[1] // groups
    flat = windows.transpose(0, 1).reshape(groups, elements, -1)
    return flat[..., ::step]


def rows_of(weight: Tensor, groups: int) -> Tensor:
    """The weights of a layer as [groups, output channels of a group, elements], in double precision."""
    return weight.detach().double().reshape(groups, weight.shape[0] // groups, -1)


def limits(rows: Tensor, moments: Tensor, largest: int, *, per_channel: bool) -> Tensor:
    """The range of each channel, or of all of them, with the least error of nearest values: [groups, channels, 1].

    Errors are weighted by the moments of single inputs.
    """
    importance = (moments if moments.dim() == 2 else moments.diagonal(dim1=1, dim2=2))[:, None, :]
    most = rows.abs().amax(dim=2, keepdim=True)
    most = most if per_channel else most.amax().expand_as(most)
    best, least = most.clone(), torch.full_like(most, torch.inf)
    for share in _SHARES:
        scale = (most * share / largest).clamp_min(torch.finfo(torch.float32).tiny)
        error = (rows - scale * nearest(rows, scale, largest)) ** 2 * importance
        total = error.sum(dim=2, keepdim=True)
        total = total if per_channel else total.sum().expand_as(total)
        better = total < least
        best, least = torch.where(better, most * share, best), torch.where(better, total, least)
    return best


def nearest(rows: Tensor, scale: Tensor, largest: int) -> Tensor:
    """The nearest whole numbers, from -largest to largest."""
    return (rows / scale).round().clamp(-largest, largest)


def rounded(rows: Tensor, scale: Tensor, moments: Tensor, largest: int) -> Tensor:
    """The whole numbers, from -largest to largest, that weights become: [groups, channels, elements].

    Args:
        rows: the weights.
        scale: the step of each channel, [groups, channels, 1].
        moments: of the inputs, [groups, elements, elements]; or [groups, elements], which give nearest values.
        largest: the largest whole number.
    """
    if moments.dim() == 2:
        return nearest(rows, scale, largest)
    count = rows.shape[2]
    damping = _DAMPING * moments.diagonal(dim1=1, dim2=2).mean(dim=1).clamp_min(torch.finfo(torch.float32).tiny)
    damped = moments + damping[:, None, None] * torch.eye(count, dtype=moments.dtype)
    linear: Any = torch.linalg
    upper: Tensor = linear.cholesky(torch.cholesky_inverse(linear.cholesky(damped)), upper=True)
    wanted, whole = rows / scale, torch.zeros_like(rows)
    for k in range(count):
        whole[..., k] = wanted[..., k].round().clamp(-largest, largest)
        error = (wanted[..., k] - whole[..., k]) / upper[:, None, k, k]
        wanted[..., k + 1 :] -= error[..., None] * upper[:, None, k, k + 1 :]
    _improve(whole, rows / scale, damped, largest)
    return whole


def _improve(whole: Tensor, wanted: Tensor, moments: Tensor, largest: int) -> None:
    """Move single weights by whole steps, each to the least loss, until none moves."""
    slope = (whole - wanted) @ moments
    for _ in range(_SWEEPS):
        moved = False
        for k in range(whole.shape[2]):
            step = -(slope[..., k] / moments[:, None, k, k])
            new = (whole[..., k] + step).round().clamp(-largest, largest)
            change = new - whole[..., k]
            # A move lowers the loss if it ends nearer to the least loss than it starts.
            change = torch.where((change - step).abs() < step.abs(), change, torch.zeros_like(change))
            if bool(change.any()):
                moved = True
                whole[..., k] += change
                slope += change[..., None] * moments[:, None, k, :]
        if not moved:
            return


def losses(whole: Tensor, rows: Tensor, scale: Tensor, moments: Tensor) -> float:
    """The loss of rounded weights: the square error of the results of the layer."""
    error = whole * scale - rows
    if moments.dim() == 2:
        return float((error**2 * moments[:, None, :]).sum())
    return float(((error @ moments) * error).sum())


def measured(
    model: fx.GraphModule, shapes: Mapping[str, tuple[int, int]], batches: Sequence[Inputs]
) -> Iterator[tuple[str, Tensor]]:
    """Yield the layers of a float model with the moments of their inputs; few moments exist at once.

    `shapes` has the groups of each layer, and the elements of a row of its weights.
    """
    left = list(shapes)
    while left:
        some, held = list[str](), 0
        while left:
            groups, elements = shapes[left[0]]
            count = groups * elements**2
            held += count if count <= _MOST else groups * elements
            if some and held > _HELD:
                break
            some.append(left.pop(0))
        moments = Moments(model, some)
        moments.measure(batches)
        yield from moments.of.items()
