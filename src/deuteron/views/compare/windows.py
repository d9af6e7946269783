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
        step: returns the outputs for a hop, and keeps the state.
        reset: sets the initial state.
    """

    stream: StreamInfo
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
        sizes = [x.shape[axis] for i, x in enumerate(inputs) if i in self.stream.inputs and x.ndim > axis]
        if not sizes:
            return self.step(*inputs)
        if min(sizes) != max(sizes):
            raise InputError(
                f"windows have {' and '.join(map(str, sizes))} frames along dimension {axis}, and all inputs of a run "
                "need as many",
                hint="cut them to the same frames",
            )
        least = hop if self.stream.window == hop else 2 * hop
        if sizes[0] < least or sizes[0] % hop:
            return self.step(*inputs)
        self.reset()
        found: list[Sequence[Tensor]] = []
        for at in range(0, sizes[0], hop):
            parts = (
                x.narrow(axis, at, hop).contiguous() if i in self.stream.inputs else x for i, x in enumerate(inputs)
            )
            found.append(self.step(*parts))
        return [
            values[-1] if where < 0 else torch.cat(values, where).narrow(where, lag, sum(_sizes(values, where)) - lag)
            for values, (where, lag) in zip(zip(*found, strict=True), self.stream.outputs, strict=True)
        ]


def _sizes(values: "Sequence[Tensor]", axis: int) -> list[int]:
    return [value.shape[axis] for value in values]
