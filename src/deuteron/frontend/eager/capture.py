"""Exports a module once and checks that the graph computes the same as the module."""

import copy
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, cycle, islice
from typing import Any, cast

import torch
from torch import Tensor, fx, nn
from torch._export.verifier import SpecViolationError
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx.graph import CodeGen

from deuteron.builds.manifest import Source
from deuteron.errors import DeuteronError, InputError, InternalError, UnsupportedError
from deuteron.frontend.eager import blocks, embeddings, phases
from deuteron.frontend.eager.export_mode import in_export_mode
from deuteron.frontend.eager.first_lines import first_difference, first_unlike, queries_mode, transform_line
from deuteron.frontend.eager.observe import Observed, copied, distinct, environment, observe, seeded
from deuteron.frontend.eager.outputs import Leaves, difference, equal, registered
from deuteron.frontend.eager.variables import (
    Attribute,
    Binding,
    Step,
    Variable,
    are_kept,
    are_written_in_place,
    argument_names,
    change_sharing,
    live,
    renamed,
    settled,
    with_constants,
)
from deuteron.frontend.export import DRAWS, changed_state, check_repeatable, not_exported
from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.log_suppression import quiet
from deuteron.frontend.quantize.rewrite_equivalence import TOLERANCE
from deuteron.frontend.source_lines import first_line
from deuteron.frontend.upstream import private_apis
from deuteron.frontend.upstream.access import replaced


def captured(model: nn.Module | ExportedProgram, samples: Sequence[Inputs]) -> tuple[Observed, fx.GraphModule]:
    """Observe a module or an exported program and return a graph with equal outputs for the samples.

    The last inputs and outputs of the graph are the old and new values of the module's variables, if it has any.
    """
    program = model if isinstance(model, ExportedProgram) else None
    module = model.module(check_guards=False) if isinstance(model, ExportedProgram) else model
    observed = observe(module, distinct(samples))
    if observed.attributes and embeddings.shorten(twin := copied(observed.module)):
        shorter = observe(twin, observed.samples)
        pairs = zip(chain(*shorter.outputs), chain(*observed.outputs), strict=True)
        observed = observed if any(difference(*pair, TOLERANCE) for pair in pairs) else shorter
    try:
        if observed.attributes and not observed.draws and (found := _capture_step(observed)) is not None:
            return found
        if observed.refusal is not None:
            raise observed.refusal
    except DeuteronError:
        if observed.refusal is None or (found := _capture_phases(observed)) is None:
            raise
        return found
    return observed, capture(observed, program)


_STEPS = 8
"""The number of runs in sequence that are compared for a module with variables."""
_SCALES = (10.0, 1e3, -1e3)
"""Factors of samples that show what a module computes at its start for values beyond them."""


def _capture_step(observed: Observed) -> tuple[Observed, fx.GraphModule] | None:
    """Return the graph of one run of a module with variables, or None if no output depends on a variable.

    Raises:
        InputError: PyTorch cannot export the module, or the samples do not show how it starts.
        StateError: the graph computes other outputs, or leaves other values in the variables.
    """
    attributes, binding, graph = observed.attributes, None, None
    try:
        while attributes:
            binding = Binding(copied(observed.module), attributes)
            graph, assumed = _step_graph(observed, attributes, binding.variables)
            are_live = live(graph, len(binding.variables))
            used = binding.attributes_of([any(pair) for pair in zip(are_live, assumed, strict=True)])
            if len(used) == len(attributes):
                break
            attributes = used
    except Exception as e:
        if observed.refusal is None:
            return None  # the changed attributes need not matter
        error = e if isinstance(e, UnsupportedError) else not_exported(e)
        raise error if error.where else observed.refusal from e
    if graph is None or binding is None or not attributes:
        return None
    found = replace(observed, attributes=attributes, variables=binding.variables)
    samples = list(islice(cycle(observed.samples), max(_STEPS, len(observed.samples))))
    sequences = [samples, *([sample] for sample in observed.samples[1:])]  # every sample may be the first of a stream
    if any(one.is_start_assumed for one in attributes):
        sequences += [[_scaled(sample, by), sample] for by in _SCALES for sample in observed.samples]
    is_shared = change_sharing(attributes) and are_written_in_place(graph, len(binding.variables))
    if not is_shared and not any(_compared_steps(graph, found, one) for one in sequences):
        _check_start(found)
        return _without_settled(graph, found, binding, sequences) or (found, graph)
    raise observed.refusal or changed_state(attributes[0].place.path, attributes[0].source)


def _capture_phases(observed: Observed) -> tuple[Observed, fx.GraphModule] | None:
    """Return the graph of a module of which Python values decide what a run computes; None if they do not repeat."""

    def export(step: nn.Module, values: Inputs, held: Sequence[object]) -> fx.GraphModule:
        return _exported_run(observed, step, values, held)

    try:
        made = phases.combined(observed, export)
    except Exception:  # noqa: BLE001 - whatever the module or its export raises: the refusal of the state stands
        return None
    if made is None:
        return None
    found = replace(observed, attributes=(), variables=made.variables)
    count = made.count + _STEPS
    sequences = [list(islice(cycle(observed.samples), max(count, len(observed.samples))))]
    sequences += [[sample, *observed.samples] for sample in observed.samples[1:]]
    sequences += [[_scaled(sample, by), sample] for by in _SCALES for sample in observed.samples]
    return None if any(_compared_runs(made.graph, found, one) for one in sequences) else (found, made.graph)


def _compared_runs(graph: fx.GraphModule, observed: Observed, samples: Sequence[Inputs]) -> str | None:
    """Say how the outputs of a graph, which keeps its variables, differ from its module's; None if all agree."""
    values = [one.initial for one in observed.variables]
    for sample, wanted in zip(samples, observed.run(samples), strict=True):
        results = run(graph, (*sample, *values))
        outputs, values = results[: len(wanted)], list(results[len(wanted) :])
        for one, other in zip(outputs, wanted, strict=True):
            if text := difference(one, other, TOLERANCE):
                return text
    return None


def _without_settled(
    graph: fx.GraphModule, observed: Observed, binding: Binding, sequences: Sequence[Sequence[Inputs]]
) -> tuple[Observed, fx.GraphModule] | None:
    """Make constants of variables that no input changes, and no run after the first: `self.weight.data.clamp_(-1, 1)`.

    None without such variables.
    """
    samples = sequences[0]
    (_, first), (_, second) = islice(observed.steps([*samples, *samples]), 2)
    are_settled = settled(graph, [torch.equal(one, other) for one, other in zip(first, second, strict=True)])
    values = [one if is_settled else None for one, is_settled in zip(first, are_settled, strict=True)]
    if all(one is None for one in values):
        return None
    attributes = binding.attributes_of([one is None for one in values])
    variables = Binding(copied(observed.module), attributes).variables if attributes else ()
    found, made = replace(observed, attributes=attributes, variables=variables), with_constants(graph, values)
    return None if any(_compared_steps(made, found, one) for one in sequences) else (found, made)


def _scaled(sample: Inputs, factor: float) -> Inputs:
    return tuple(value * factor if value.is_floating_point() else value for value in sample)


def _check_start(observed: Observed) -> None:
    """Refuse tensors in place of None if the samples cannot tell them apart: `if self.h is None: self.h = x`.

    Raises:
        InputError: an input is zero in all samples.
    """
    attribute = next((one for one in observed.attributes if one.is_start_assumed), None)
    if attribute is None:
        return
    inputs = list(zip(*observed.samples, strict=True))
    for name, values in zip(argument_names(observed.module, len(inputs)), inputs, strict=True):
        if not any(bool(value.any()) for value in values):
            raise InputError(
                f"the {attribute.place.path} starts without a tensor, and the input `{name}` is zero in all samples: "
                "they do not show whether the model computes the same if it starts as a tensor",
                where=str(attribute.source) if attribute.source else None,
                hint="give samples with other values, or start with a tensor",
            )


def _step_graph(
    observed: Observed, attributes: Sequence[Attribute], variables: Sequence[Variable]
) -> tuple[fx.GraphModule, list[bool]]:
    """Return the flat graph of one run, and which variables it takes for constants.

    Those are variables that no run of the samples changes: decisions on them are the same in each run, if the graph
    gives them their initial values for all inputs.
    """
    try:
        return _exported_step(observed, attributes, variables), [False] * len(variables)
    except Exception:
        steps = replace(observed, attributes=tuple(attributes)).steps(observed.samples)
        runs = [values for _, values in steps]
        initial = [one.initial for one in variables]
        assumed = [all(equal([run[i]], [one]) for run in runs) for i, one in enumerate(initial)]
        if not any(assumed):
            raise
        graph = _exported_step(observed, attributes, variables, assumed)
        if not are_kept(graph, variables, assumed):
            raise
        return graph, assumed


def _exported_step(
    observed: Observed, attributes: Sequence[Attribute], variables: Sequence[Variable], assumed: Sequence[bool] = ()
) -> fx.GraphModule:
    """Return the flat graph of one run; its inputs have the names of the module's, and those of the variables."""
    inputs = copies(observed.samples[0])
    values = (*inputs, *(one.initial for one in variables))
    module = copied(observed.module)
    graph = _exported_run(observed, Step(module, attributes, assumed), values, observed.held(module))
    names = [*argument_names(observed.module, len(inputs)), *(one.name.replace(".", "_") for one in variables)]
    return renamed(graph, names)


def _exported_run(observed: Observed, step: nn.Module, values: Inputs, held: Sequence[object]) -> fx.GraphModule:
    """Return the flat graph of a function that runs a copy of the module; `held` are the values that it writes."""
    step = in_export_mode(step, held)
    with environment(observed.module), torch.no_grad(), quiet():
        return _flat(torch.export.export(step, values, strict=False))


def _compared_steps(graph: fx.GraphModule, observed: Observed, samples: Sequence[Inputs]) -> str | None:
    """Say how a graph differs from its module in a sequence of runs; None if all agree."""
    before = [one.initial for one in observed.variables]
    try:
        for sample, (outputs, values) in zip(samples, observed.steps(samples), strict=True):
            ours, wanted = run(graph, (*sample, *before)), (*outputs, *values)
            if len(ours) != len(wanted):
                return f"it returns {len(ours)} tensors in place of {len(wanted)}"
            for one, other in zip(ours, wanted, strict=True):
                if text := difference(one, other, TOLERANCE):
                    return text
            before = list(values)
    except Exception as e:  # noqa: BLE001 - whatever the graph raises, or an attribute of another structure
        return first_line(e)
    return None


def capture(observed: Observed, program: ExportedProgram | None = None) -> fx.GraphModule:
    """Return the graph of a module with flat inputs and outputs; it is compared with the module on all samples.

    Args:
        observed: the module, its samples and outputs.
        program: the exported program, if the user gave one.

    Raises:
        InputError: PyTorch cannot export the module.
        UnsupportedError: the graph computes other outputs; the error names the first operator that differs.
    """
    failures, unknown = list[DeuteronError](), list[fx.GraphModule]()
    for strict in (False,) if program is None and queries_mode(observed) else (True, False):
        try:
            with registered(observed.dataclasses):
                exported = program or _exported(observed, strict=strict)
                if _lacks_values(exported):  # the other mode has them
                    failures.append(InternalError("the exported program lacks the value of a constant"))
                    continue
                graph = _flat(exported)
        except UnsupportedError as e:
            failures.append(e)
            continue
        except Exception as e:  # noqa: BLE001 - whatever export raises
            failures.append(not_exported(e))
            continue
        if observed.draws:
            check_repeatable(graph)
            source = first_unlike(observed)
            at = f", at `{source.code}`" if source else ""
            raise UnsupportedError(
                f"the model returns other values in each run for the same inputs{at}",
                where=str(source) if source else None,
                hint=DRAWS,
            )
        if program is None and _has_unknown_sizes(graph):  # the other mode knows those that constants decide
            unknown.append(graph)
        elif (error := _compared(graph, observed)) is None:
            return graph
        else:
            failures.append(error)
    for graph in unknown:
        if (error := _compared(graph, observed)) is None:
            return graph
        failures.append(error)
    if not any(one.where for one in failures) and (source := transform_line(observed)) is not None:
        raise blocks.refused(source, *blocks.TRANSFORMS)
    raise min(
        failures, key=lambda one: (not isinstance(one, UnsupportedError), isinstance(one, InternalError), not one.where)
    )


def _exported(observed: Observed, *, strict: bool) -> ExportedProgram:
    """Export the module without gradients; the module does not change."""

    def export(*, clones_inputs: bool = False) -> ExportedProgram:
        inputs, module = copies(observed.samples[0]), copied(observed.module)
        if not strict:
            module = in_export_mode(module, observed.held(module), clones_inputs=clones_inputs)
        with environment(observed.module), torch.no_grad(), quiet():
            return torch.export.export(module, inputs, strict=strict)

    try:
        return export()
    except SpecViolationError:
        if strict:
            raise
        return export(clones_inputs=True)


def _has_unknown_sizes(graph: fx.GraphModule) -> bool:
    """Return True if a number or the shape of a tensor depends on values."""
    values = [node.meta.get("val") for node in graph.graph.nodes]
    numbers = [n for value in values for n in (value.shape if isinstance(value, Tensor) else [value])]
    return any(isinstance(n, torch.SymInt | torch.SymFloat | torch.SymBool) for n in numbers)


def _lacks_values(program: ExportedProgram) -> bool:
    """Return True if constants have no values, as of NumPy arrays and of `.data` in strict mode."""
    return any(isinstance(value, FakeTensor) for value in (*program.state_dict.values(), *program.constants.values()))


def _flat(program: ExportedProgram) -> fx.GraphModule:
    """Return the graph of a program with flat inputs and outputs, without blocks, assertions and changed buffers."""
    with quiet():
        graph = program.module(check_guards=False)
    outputs = graph.graph.output_node()
    values = [value for value in cast("Sequence[fx.Node | None]", outputs.args[0]) if value is not None]
    outputs.args = (values[0] if len(values) == 1 else tuple(values),)
    graph.graph.set_codegen(CodeGen())
    blocks.write(graph)
    _register(graph)
    return graph


def _register(graph: fx.GraphModule) -> None:
    """Make parameters of the weights that the module did not register, as of layers in a list.

    PyTorch treats the sizes of other tensors as dynamic when it traces the graph again. Constants of one element that
    were expanded get the strides that ExecuTorch requires.
    """
    for tensor in chain(graph.parameters(), graph.buffers()):
        if tensor.numel() == 1 and 0 in tensor.stride():
            tensor.data = tensor.clone(memory_format=torch.contiguous_format)
    known = {name for name, _ in (*graph.named_parameters(), *graph.named_buffers())}
    for node in graph.graph.find_nodes(op="get_attr"):
        parent, _, name = str(node.target).rpartition(".")
        owner = graph.get_submodule(parent)
        value: object = getattr(owner, name)
        if isinstance(value, Tensor) and node.target not in known and value.is_floating_point():
            delattr(owner, name)
            owner.register_parameter(name, nn.Parameter(value.detach(), requires_grad=False))


def _compared(graph: fx.GraphModule, observed: Observed) -> UnsupportedError | None:
    """Return the error for a graph whose outputs differ from its module's; None if all agree."""
    for sample, wanted in zip(observed.samples, observed.outputs, strict=True):
        try:
            ours = run(graph, sample)
        except Exception as e:  # noqa: BLE001 - whatever the graph raises although its module runs
            return UnsupportedError(
                f"the graph that PyTorch exports does not run: {type(e).__name__}: {first_line(e)}",
                hint="write the model with PyTorch's operators alone",
            )
        if len(ours) != len(wanted):
            text = f"it returns {len(ours)} tensors in place of {len(wanted)}"
            return _differs(text, None)
        for index, (one, other) in enumerate(zip(ours, wanted, strict=True)):
            if text := difference(one, other, TOLERANCE):
                return _differs(f"output {index} {text}", first_difference(graph, observed, sample))
    return None


def run(graph: fx.GraphModule, inputs: Inputs) -> Leaves:
    """Return the outputs of a graph, with random seed 0."""
    with torch.no_grad(), seeded(0):
        outputs: Tensor | tuple[Tensor, ...] = fx.Interpreter(graph).run(*copies(inputs))
    return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)


def _differs(text: str, source: Source | None) -> UnsupportedError:
    return UnsupportedError(
        "the graph that PyTorch exports computes something else than the model: "
        f"{text}{f', first at `{source.code}`' if source else ''}",
        where=str(source) if source else None,
        hint="write this line so that it does the same in an export as in a run: without changes of `.data`, state in "
        "Python, or branches on being compiled",
    )


class Captured(nn.Module):
    """A module with a known graph, which ExecuTorch's session need not export; see `known`."""

    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__()
        self._graphs = (graph,)  # no submodule: a session that trains changes the mode of all of these

    def module(self) -> fx.GraphModule:
        """Return a copy of the graph with its own weights, as `ExportedProgram.module` does."""
        return copy.deepcopy(self._graphs[0])


@contextmanager
def known() -> Generator[None]:
    """Make `torch.export.export` return a `Captured` module itself, so that no model is exported twice."""

    def exporting(original: Any) -> object:
        def export(mod: Any, *args: Any, **kwargs: Any) -> Any:
            return mod if isinstance(mod, Captured) else original(mod, *args, **kwargs)

        return export

    with replaced(private_apis.EXPORT, exporting):
        yield
