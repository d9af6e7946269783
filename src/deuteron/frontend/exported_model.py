"""A module that is exported once and compared with its eager form, for builds for any number of targets."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import cast

import numpy as np
import torch
from torch import fx

from deuteron.builds.options import StreamOptions
from deuteron.frontend import upstream_caches
from deuteron.frontend.eager import capture
from deuteron.frontend.eager.observe import Observed
from deuteron.frontend.inputs import Inputs, begun, check_calibration, check_example_inputs, check_module
from deuteron.frontend.log_suppression import quiet
from deuteron.frontend.streaming import model as streaming

_OBSERVED = 2
"""The number of calibration batches, after the example inputs, on which the module itself runs."""


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """An exported module, which builds do not change.

    Attributes:
        name: the module's class.
        examples: the example inputs, as the module takes them.
        observed: the module and its outputs.
        graph: the exported graph; its last inputs and outputs are the variables.
        calibration: the batches from the first, not checked yet; None without any.
        stream: the model of a hop of new frames, which `observed` and `graph` are then of.
        time: the dimension of time of windows.
    """

    name: str
    examples: Inputs
    observed: Observed
    graph: fx.GraphModule
    calibration: Iterable[object] | None
    stream: streaming.Model | None
    time: int | None

    def checked(self, batches: Iterable[object]) -> Iterator[Inputs]:
        """Yield the inputs of each run, from calibration batches that are checked first."""
        found = check_calibration(batches, self.examples, self.time)
        return found if self.stream is None else self.stream.hops(found)


def export(
    module: object, example_inputs: object, calibration: Iterable[object] | None, stream: StreamOptions | None
) -> ExportedModel:
    """Export a module; the arguments are as for `frontend.build.build`.

    Raises:
        DeuteronError: the module or its inputs are of wrong types, or the module cannot be exported.
    """
    time = None if stream is None else stream.axis
    model, inputs = check_module(module), check_example_inputs(example_inputs, module)
    first, calibration = _first_batches(calibration, inputs, time)
    with quiet(), upstream_caches.exporting():
        observed, graph = capture.captured(model, [inputs, *first])
        made = None if stream is None else streaming.streamed(observed, graph, observed.samples, stream)
    if made is not None:
        observed, graph = made.observed, made.graph
    return ExportedModel(type(module).__name__, inputs, observed, graph, calibration, made, time)


def _first_batches(
    calibration: Iterable[object] | None, inputs: Inputs, time: int | None
) -> tuple[tuple[Inputs, ...], Iterable[object] | None]:
    """Return the first calibration batches, and all batches from the first."""
    if calibration is None:
        return (), None
    if isinstance(calibration, torch.Tensor | np.ndarray):
        head = batches = cast("Iterable[object]", calibration)
    else:
        head, batches = begun(calibration, _OBSERVED)
    found = islice(check_calibration(head, inputs, time), _OBSERVED)
    return tuple(one for one in found if [x.shape for x in one] == [x.shape for x in inputs]), batches
