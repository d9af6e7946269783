"""Streams windows through a program with state: an output of each run is an input of the next."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deuteron.builds.manifest import TensorInfo
from deuteron.errors import OptionError, counted
from deuteron.runtime.inputs import Array, Sample
from deuteron.views.run.subjects import Subject


@dataclass(frozen=True, slots=True)
class Stream:
    """A program with state.

    Attributes:
        subject: the subject of the runs.
        states: for each input that is a state the output that becomes it; states start as zeros.
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
                    raise OptionError(f"{pair} names {what} {index}, but the model has {counted(count, what)}")
            old, new = inputs[state], outputs[output]
            if not isinstance(new, TensorInfo) or (old.shape, old.dtype) != (new.shape, new.dtype):
                raise OptionError(
                    f"{pair} joins {_form(new)} to {_form(old)}",
                    hint="a state needs the same shape and dtype as input and output",
                )
            if np.dtype(old.dtype).kind != "f":
                raise OptionError(
                    f"{pair} joins values of {old.dtype}, whose scales as output and as input may differ",
                    hint="build without `--remove-quant-io-ops`",
                )
        if len(self.states) == len(inputs):
            raise OptionError("every input is a state; there is nothing to stream")

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Return the inputs of a window: those that are not states."""
        return tuple(info for i, info in enumerate(self.subject.model.inputs) if i not in self.states)

    def windows(self, samples: Iterable[Sample]) -> list[Sample]:
        """Return samples of all inputs without their states."""
        return [tuple(x for i, x in enumerate(sample) if i not in self.states) for sample in samples]

    def run(self, windows: Iterable[Sequence[Array]]) -> Iterator[tuple[Sample, list[Array]]]:
        """Yield for each window the program's inputs, including states, and the outputs."""
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
    """Parse the states that `INPUT=OUTPUT` names, each once.

    Raises:
        OptionError: the text has another form.
    """
    states: dict[int, int] = {}
    for pair in pairs:
        state, _, output = pair.partition("=")
        if not (state.isdecimal() and output.isdecimal()):
            raise OptionError(
                f"`--stream {pair}` is not a pair of numbers",
                hint="use `--stream 2=1` for output 1 as the next input 2",
            )
        if int(state) in states:
            raise OptionError(f"`--stream` names input {state} twice")
        states[int(state)] = int(output)
    return states


def _form(info: object) -> str:
    """Return shape and dtype, as errors name them."""
    return f"{info.dtype} {list(info.shape)}" if isinstance(info, TensorInfo) else "an output of unknown form"
