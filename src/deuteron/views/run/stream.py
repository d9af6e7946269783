"""Windows one after the other through a program that keeps a state: an output of each run is an input of the next."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deuteron.builds.manifest import TensorInfo
from deuteron.errors import OptionError, counted
from deuteron.runtime.inputs import Array, Sample
from deuteron.views.run.subjects import Subject


@dataclass(frozen=True, slots=True)
class Stream:
    """A program whose states are carried.

    Attributes:
        subject: what is run.
        states: the output that becomes each input that is a state, which begins as zeros.
    """

    subject: Subject
    states: Mapping[int, int]

    def __post_init__(self) -> None:
        inputs: Sequence[TensorInfo] = self.subject.model.inputs
        outputs = self.subject.model.outputs
        for state, output in self.states.items():
            pair = f"`--stream {state}={output}`"
            for what, index, count in (("input", state, len(inputs)), ("output", output, len(outputs))):
                if not 0 <= index < count:
                    raise OptionError(f"{pair} names {what} {index}, and the model has {counted(count, what)}")
            old, new = inputs[state], outputs[output]
            if not isinstance(new, TensorInfo) or (old.shape, old.dtype) != (new.shape, new.dtype):
                raise OptionError(
                    f"{pair} joins {_form(new)} to {_form(old)}", hint="a state has one shape and dtype on both sides"
                )
            if np.dtype(old.dtype).kind != "f":
                raise OptionError(
                    f"{pair} joins values of {old.dtype}, whose scales as output and as input need not be one",
                    hint="build without `--remove-quant-io-ops`",
                )
        if len(self.states) == len(inputs):
            raise OptionError("every input is a state, and there is nothing to stream")

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """What a window has: the inputs that are no states."""
        return tuple(info for i, info in enumerate(self.subject.model.inputs) if i not in self.states)

    def windows(self, samples: Iterable[Sample]) -> list[Sample]:
        """Samples of all inputs without what they have for states."""
        return [tuple(x for i, x in enumerate(sample) if i not in self.states) for sample in samples]

    def run(self, windows: Iterable[Sequence[Array]]) -> Iterator[tuple[Sample, list[Array]]]:
        """For one window after the other what the program is given, with the states, and the outputs."""
        inputs = self.subject.model.inputs
        state = {i: np.zeros(inputs[i].shape, inputs[i].dtype) for i in self.states}
        sample: Sample = ()

        def samples() -> Iterator[Sample]:
            nonlocal sample
            for window in windows:
                values = iter(window)
                sample = tuple(state[i] if i in state else next(values) for i in range(len(inputs)))
                yield sample

        for outputs in self.subject.run_in_turn(samples()):
            state |= {i: outputs[output] for i, output in self.states.items()}
            yield sample, outputs


def parse(pairs: Iterable[str]) -> dict[int, int]:
    """The states that `INPUT=OUTPUT` names, each once.

    Raises:
        OptionError: for anything else.
    """
    states: dict[int, int] = {}
    for pair in pairs:
        state, _, output = pair.partition("=")
        if not (state.isdecimal() and output.isdecimal()):
            raise OptionError(
                f"`--stream {pair}` is not a pair of numbers",
                hint="for output 1 as the next input 2 say `--stream 2=1`",
            )
        if int(state) in states:
            raise OptionError(f"`--stream` names input {state} twice")
        states[int(state)] = int(output)
    return states


def _form(info: object) -> str:
    """Shape and dtype, as errors name them."""
    return f"{info.dtype} {list(info.shape)}" if isinstance(info, TensorInfo) else "an output of unknown form"
