"""Runs a stream on windows: a function for `--evaluate` that was written for the model of a window takes the stream."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deuteron.builds.manifest import StreamInfo
from deuteron.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class OnWindows:
    """A model of a hop that also takes windows, each from the initial state.

    Attributes:
        stream: the figures of the stream.
        shapes: of the inputs of a hop.
        step: returns the outputs for a hop, and keeps the state.
        reset: sets the initial state.
    """

    stream: StreamInfo
    shapes: Sequence[tuple[int, ...]]
    step: "Callable[..., Sequence[Tensor]]"
    reset: Callable[[], None]

    def __call__(self, *inputs: "Tensor") -> "Sequence[Tensor]":
        """Return the outputs for a hop, or for windows of any number of hops.

        An output with frames has those of the window; any other is that after the last hop. Inputs of a hop go on with
        the state, unless a hop is the whole window of the model.

        Raises:
            InputError: the windows have unlike numbers of frames.
        """
        import torch

        axis, hop = self.stream.axis, self.stream.hop
        pairs = list(zip(inputs, self.shapes, strict=False))
        sizes = [x.shape[axis] for x, shape in pairs if self._is_window(x, shape)]
        if not sizes:
            return self.step(*inputs)
        if min(sizes) != max(sizes):
            raise InputError(
                f"windows have {' and '.join(map(str, sizes))} frames along dimension {axis}, and all inputs of a run "
                "need as many",
                hint="cut them to the same frames",
            )
        self.reset()
        found: list[Sequence[Tensor]] = []
        for at in range(0, sizes[0], hop):
            parts = (x.narrow(axis, at, hop).contiguous() if self._is_window(x, shape) else x for x, shape in pairs)
            found.append(self.step(*parts))
        return [
            values[-1] if where < 0 else torch.cat(values, where).narrow(where, lag, sum(_sizes(values, where)) - lag)
            for values, (where, lag) in zip(zip(*found, strict=True), self.stream.outputs, strict=True)
        ]

    def _is_window(self, x: "Tensor", shape: tuple[int, ...]) -> bool:
        """Tell whether an input has the frames of a window: several hops, or one if the model's window has one."""
        axis, hop = self.stream.axis, self.stream.hop
        if len(x.shape) != len(shape) or len(shape) <= axis or shape[axis] != hop:
            return False
        least = hop if self.stream.window == hop else 2 * hop
        others = [(a, b) for at, (a, b) in enumerate(zip(x.shape, shape, strict=True)) if at != axis]
        return x.shape[axis] >= least and x.shape[axis] % hop == 0 and all(a == b for a, b in others)


def _sizes(values: "Sequence[Tensor]", axis: int) -> list[int]:
    return [value.shape[axis] for value in values]
