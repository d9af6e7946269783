"""Discrete Fourier transforms of constant length as linear layers."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.operators import arguments_of
from deuteron.frontend.quantize.decompositions import call, constant, constant_value

aten = torch.ops.aten

Pair = tuple[fx.Node, fx.Node]
Parts = Callable[[Any], tuple[Any, Any]]
"""Returns the real and the imaginary part of an operand; the number 0 for the imaginary part of a real one."""

_POWERS: Mapping[tuple[str, bool], float] = {
    ("backward", False): 0.0,
    ("backward", True): -1.0,
    ("ortho", False): -0.5,
    ("ortho", True): -0.5,
    ("forward", False): -1.0,
    ("forward", True): 0.0,
}
"""The power of the length that a transform is multiplied by, by the norm and whether it is an inverse one."""

_EVEN = 1e-6
"""The largest relative difference of sums of squared windows that count as equal."""


def _waves(count: int, given: int, n: int) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of `count` frequencies at `given` places of a period of `n`; zeros behind its end."""
    places = torch.arange(given, dtype=torch.float64)
    turns = torch.outer(torch.arange(count, dtype=torch.float64), places)
    angles = turns * (2 * math.pi / n)
    is_used = (places < n).double()
    is_zero = 2 * turns % n == 0  # exactly: the sign of a zero decides between the angles pi and -pi
    return angles.cos() * is_used, angles.sin().masked_fill(is_zero, 0.0) * is_used


class _Along:
    """A transform along a dimension of the tensors of one node."""

    def __init__(self, model: fx.GraphModule, node: fx.Node, dim: int, inverse: bool, norm: str | None) -> None:
        self.model, self.node, self.dim = model, node, dim
        self.inverse, self.power = inverse, _POWERS[norm or "backward", inverse]

    def product(self, x: fx.Node, matrix: Tensor, name: str) -> fx.Node:
        """Return the product of a matrix with the vectors along the dimension."""
        weight = constant(self.model, self.node, f"{self.node.name}_{name}_{self.dim % x.meta['val'].dim()}", matrix)
        rows = call(self.node, aten.transpose.int, x, self.dim, -1)
        return call(self.node, aten.transpose.int, call(self.node, aten.linear.default, rows, weight), self.dim, -1)

    def of_pair(self, real: fx.Node, imaginary: Any, n: int | None, *, is_half: bool = False) -> Pair:
        """Return the transform of complex or real numbers, with half of the frequencies of real ones."""
        given: int = real.meta["val"].shape[self.dim]
        length = n or given
        cosines, sines = _waves(length // 2 + 1 if is_half else length, given, length)
        scale = float(length) ** self.power
        cosines, sines = cosines * scale, sines * (scale if self.inverse else -scale) + 0.0  # no -0
        a, b = self.product(real, cosines, "cosines"), self.product(real, sines, "sines")
        if not isinstance(imaginary, fx.Node):
            return a, b
        c, d = self.product(imaginary, sines, "sines"), self.product(imaginary, cosines, "cosines")
        return call(self.node, aten.sub.Tensor, a, c), call(self.node, aten.add.Tensor, b, d)

    def of_half(self, real: fx.Node, imaginary: Any, n: int | None, window: Tensor | None = None) -> fx.Node:
        """Return the real numbers of which half of the frequencies are given, multiplied by a window."""
        given: int = real.meta["val"].shape[self.dim]
        length = n or 2 * (given - 1)
        cosines, sines = (wave.t() for wave in _waves(given, length, length))
        count = torch.full((given,), 2.0, dtype=torch.float64)
        count[0] = 1
        if length % 2 == 0 and given > length // 2:
            count[length // 2] = 1
        count[length // 2 + 1 :] = 0
        scale = float(length) ** self.power * (torch.ones(()) if window is None else window[:, None])
        a = self.product(real, cosines * count * scale, "cosines")
        if not isinstance(imaginary, fx.Node):
            return a
        b = self.product(imaginary, sines * count * -scale, "sines")
        return call(self.node, aten.add.Tensor, a, b)


def _dims(given: Mapping[str, Any], rank: int) -> tuple[list[int], list[int | None]]:
    """Return the dimensions of a transform and their lengths."""
    dims, sizes = given["dim"], given["n" if "n" in given else "s"]
    listed: list[int] | None = [dims] if isinstance(dims, int) else dims
    if listed is None:
        listed = [*range(-len(sizes), 0)] if sizes is not None else [*range(-rank, 0)]
    lengths = [sizes] if isinstance(sizes, int) else sizes
    return listed, [*lengths] if lengths is not None else [None] * len(listed)


def _forward(*, inverse: bool, is_half: bool) -> "Transform":
    def transform(model: fx.GraphModule, node: fx.Node, parts: Parts) -> Pair:
        given = arguments_of(node)
        real, imaginary = parts(given["self"])
        dims, sizes = _dims(given, real.meta["val"].dim())
        for number, (dim, size) in enumerate(reversed([*zip(dims, sizes, strict=True)])):
            along = _Along(model, node, dim, inverse, given["norm"])
            real, imaginary = along.of_pair(real, imaginary, size, is_half=is_half and not number)
        return real, imaginary

    return transform


def _to_real(model: fx.GraphModule, node: fx.Node, parts: Parts) -> fx.Node:
    given = arguments_of(node)
    real, imaginary = parts(given["self"])
    dims, sizes = _dims(given, real.meta["val"].dim())
    for dim, size in zip(dims[:-1], sizes[:-1], strict=True):
        real, imaginary = _Along(model, node, dim, True, given["norm"]).of_pair(real, imaginary, size)
    return _Along(model, node, dims[-1], True, given["norm"]).of_half(real, imaginary, sizes[-1])


def _window(model: fx.GraphModule, given: Mapping[str, Any]) -> Tensor | None:
    """Return the window of a transform of frames, with zeros around it; None if it is not constant."""
    n: int = given["n_fft"]
    value = torch.ones(given["win_length"] or n)
    if given["window"] is not None:
        value = constant_value(model, given["window"])
    if value is None or value.is_complex():
        return None
    before = (n - len(value)) // 2
    whole = torch.zeros(n, dtype=torch.float64)
    whole[before : before + len(value)] = value.double()
    return whole


def _of_frames(model: fx.GraphModule, node: fx.Node, parts: Parts) -> Pair | None:
    """A transform of each frame of a signal, with the window in its weights."""
    given = arguments_of(node)
    x, imaginary = parts(given["self"])
    window, n = _window(model, given), cast(int, given["n_fft"])
    if window is None or isinstance(imaginary, fx.Node) or given.get("center") or given.get("align_to_window"):
        return None
    if given["normalized"]:
        window *= n**-0.5
    cosines, sines = _waves(n if given["onesided"] is False else n // 2 + 1, n, n)
    frames = call(node, aten.unfold.default, x, -1, n, given["hop_length"] or n // 4)
    along = _Along(model, node, -1, False, None)
    real = along.product(frames, cosines * window, "cosines")
    imaginary = along.product(frames, -sines * window, "sines")
    return call(node, aten.transpose.int, real, -1, -2), call(node, aten.transpose.int, imaginary, -1, -2)


def _to_signal(model: fx.GraphModule, node: fx.Node, parts: Parts) -> fx.Node | None:
    """The signal of which the frames were transformed: overlapping frames, divided by the sum of squared windows."""
    given = arguments_of(node)
    real, imaginary = (
        call(node, aten.transpose.int, one, -1, -2) if isinstance(one, fx.Node) else one for one in parts(given["self"])
    )
    window, n = _window(model, given), cast(int, given["n_fft"])
    if window is None or not isinstance(imaginary, fx.Node) or given["return_complex"] or given["onesided"] is False:
        return None
    hop, value = cast(int, given["hop_length"]) or n // 4, cast(Tensor, node.meta["val"])
    count: int = real.meta["val"].shape[-2]
    whole = n + hop * (count - 1)
    start = n // 2 if given["center"] else 0
    end = min(whole, start + value.shape[-1])
    squares = torch.zeros(whole, dtype=torch.float64)
    for at in range(0, hop * count, hop):
        squares[at : at + n] += window**2
    squares = squares[start:end]
    is_even = bool((squares.max() - squares.min()) < _EVEN * squares.max())
    window = window / squares.mean() if is_even else window
    frames = _Along(model, node, -1, True, "ortho" if given["normalized"] else None).of_half(real, imaginary, n, window)
    rows = call(node, aten.reshape.default, call(node, aten.transpose.int, frames, -1, -2), [-1, n, count])
    rows = call(node, aten.col2im.default, rows, [1, whole], [1, n], [1, 1], [0, 0], [1, hop])
    result = call(node, aten.slice.Tensor, call(node, aten.reshape.default, rows, [-1, whole]), 1, start, end)
    if not is_even:
        factors = constant(model, node, f"{node.name}_factors", 1 / squares)
        result = call(node, aten.mul.Tensor, result, factors)
    if end < start + value.shape[-1]:
        result = call(node, aten.pad.default, result, [0, start + value.shape[-1] - end])
    return call(node, aten.reshape.default, result, [*value.shape])


Transform = Callable[[fx.GraphModule, fx.Node, Parts], "Pair | fx.Node | None"]

_NAMES: Sequence[str] = ("fft", "fft2", "fftn")

TRANSFORMS: Mapping[str, Transform] = {
    **{f"fft_{name}": _forward(inverse=False, is_half=False) for name in _NAMES},
    **{f"fft_i{name}": _forward(inverse=True, is_half=False) for name in _NAMES},
    **{f"fft_r{name}": _forward(inverse=False, is_half=True) for name in _NAMES},
    **{f"fft_ir{name}": _to_real for name in _NAMES},
    "stft": _of_frames,
    "istft": _to_signal,
}
"""By the names of the operators: from complex or real numbers to complex or real ones."""
