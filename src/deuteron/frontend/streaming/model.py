"""Makes the model of a hop from the model of a window, checked against it."""

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import cast

from torch import Tensor, fx, nn

from deuteron.builds.manifest import StreamInfo
from deuteron.builds.options import StreamOptions
from deuteron.errors import InputError, UnsupportedError
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.eager.observe import Observed
from deuteron.frontend.eager.variables import Variable
from deuteron.frontend.inputs import First, Inputs
from deuteron.frontend.quantize import inplace, operator_aliases
from deuteron.frontend.streaming import cost, pooling
from deuteron.frontend.streaming.check import check
from deuteron.frontend.streaming.frame_alignment import Frames
from deuteron.frontend.streaming.frame_propagation import Plan, planned
from deuteron.frontend.streaming.streaming_graph import write


class Hops(nn.Module):
    """A graph of a hop as a module that keeps the variables in buffers."""

    def __init__(self, graph: fx.GraphModule, variables: Sequence[Variable]) -> None:
        super().__init__()
        self.graph = graph
        self._names = [one.name for one in variables]
        for one in variables:
            self.register_buffer(one.name, one.initial.clone())

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs for new frames."""
        buffers = [self.get_buffer(name) for name in self._names]
        results = cast("list[Tensor]", flat(self.graph(*inputs, *(value.clone() for value in buffers))))
        count = len(results) - len(buffers)
        for buffer, value in zip(buffers, results[count:], strict=True):
            buffer.copy_(value)
        return tuple(results[:count])


@dataclass(frozen=True, slots=True)
class Model:
    """The model of a hop.

    Attributes:
        observed: the model as a module.
        graph: its last inputs and outputs are the variables.
        info: its figures.
    """

    observed: Observed
    graph: fx.GraphModule
    info: StreamInfo
    _frames: tuple[Frames | None, ...]

    def hops(self, batches: Iterable[Inputs]) -> Iterator[Inputs]:
        """Yield the new frames of each run; each batch is a separate sequence with any number of frames.

        Raises:
            InputError: a batch has fewer frames than a hop, or inputs with unlike numbers of frames.
        """
        for batch in batches:
            pairs = list(zip(batch, self._frames, strict=True))
            lengths = [value.shape[frames.axis] for value, frames in pairs if frames is not None]
            length = lengths[0]
            if min(lengths) != max(lengths):
                raise InputError(
                    f"the inputs of a calibration batch have {' and '.join(map(str, lengths))} frames, and the stream "
                    "takes as many of each in every run",
                    hint="cut them to the same frames",
                )
            if length < self.info.hop:
                raise InputError(
                    f"a calibration batch has {length} frames, and a hop of the stream has {self.info.hop}",
                    hint="give batches of at least a hop",
                )
            for start in range(0, length - self.info.hop + 1, self.info.hop):
                new = [
                    value if frames is None else value.narrow(frames.axis, start, self.info.hop).contiguous()
                    for value, frames in pairs
                ]
                yield Inputs(new) if start else First(new)


def streamed(observed: Observed, graph: fx.GraphModule, samples: Sequence[Inputs], stream: StreamOptions) -> Model:
    """Return the model of a hop.

    Args:
        observed: the model of a window.
        graph: its graph.
        samples: inputs of a window.
        stream: the options.

    Raises:
        OptionError: the options do not fit the model.
        UnsupportedError: the model keeps state already, or a stream cannot compute it.
    """
    if observed.variables:
        one = observed.variables[0]
        raise UnsupportedError(
            f"the model keeps the variable `{one.name}` from run to run, and `--stream` takes a model of a window"
            f"{f', at `{one.source.code}`' if one.source else ''}",
            where=str(one.source) if one.source else None,
            hint="leave out `--stream`: the model is one of a stream already",
        )
    window = deepcopy(graph)
    operator_aliases.write(window)
    inplace.write(window)
    plan = planned(window.graph, stream)
    if pooling.split(window, plan):
        plan = planned(window.graph, stream)
    made = write(window, plan, samples[0])
    check(window, made, plan, samples)
    frames = tuple(_frames(plan, node) for node in window.graph.nodes if node.op == "placeholder")
    names = [one.initial for one in made.variables]
    info = StreamInfo(
        axis=next(one.axis for one in frames if one is not None),
        window=plan.window,
        hop=plan.hop,
        runs=plan.delay + 1,
        latency=plan.latency,
        window_macs=cost.macs(window, samples[0]),
        macs=0,
        window_bytes=cost.live_elements(window.graph),
        state_bytes=sum(value.numel() for value in names),
        outputs=tuple(_output(plan, node) for node in flat(window.graph.output_node().args[0])),
        hop_bytes=cost.live_elements(made.graph.graph, len(names)),
        inputs=tuple(i for i, one in enumerate(frames) if one is not None),
    )
    found = Model(observed, made.graph, info, frames)
    first = next(found.hops(samples[:1]))
    info = replace(info, macs=cost.macs(made.graph, (*first, *names)))
    return replace(
        found,
        info=info,
        observed=replace(
            observed,
            module=Hops(made.graph, made.variables),
            samples=((*first,),),
            outputs=(),
            attributes=(),
            refusal=None,
            variables=made.variables,
        ),
    )


def _output(plan: Plan, node: object) -> tuple[int, int]:
    """Return the dimension of time of an output, and the number of its frames before the window's."""
    account = plan.accounts[node] if isinstance(node, fx.Node) else None
    return (account.axis, max(0, account.lag)) if isinstance(account, Frames) else (-1, 0)


def _frames(plan: Plan, node: fx.Node) -> Frames | None:
    account = plan.accounts[node]
    return account if isinstance(account, Frames) else None
