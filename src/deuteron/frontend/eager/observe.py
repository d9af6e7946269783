"""Runs the user's module in eager PyTorch and checks that its runs are independent of each other."""

import collections
import copy
import random
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from types import CodeType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from deuteron.errors import InputError
from deuteron.frontend.eager.copying import uncompiled, with_functions_of
from deuteron.frontend.eager.outputs import Leaves, equal, leaves, unregistered
from deuteron.frontend.eager.state import Place, Snapshot, first_assigned, tensors_that_copies_refuse
from deuteron.frontend.eager.user_code import executed, is_only_written, returned_at, written_at
from deuteron.frontend.eager.variables import Attribute, Binding, Variable, attribute_of, becomes_tensor
from deuteron.frontend.export import StateError, changed_state
from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.log_suppression import quiet
from deuteron.frontend.source_lines import first_line, user_line_of


@dataclass(frozen=True, slots=True)
class Observed:
    """A module in evaluation mode and its outputs.

    Attributes:
        module: an unused copy of the user's module.
        samples: the inputs of the runs.
        outputs: the flattened outputs for each sample, each from a fresh copy.
        draws: whether outputs depend on the random seed.
        codes: the user's functions that ran.
        attributes: those of which runs change tensors; none if outputs may depend on other changes too.
        refusal: the error for a module whose outputs depend on earlier runs, unless `variables` explain it; it names
            the place and the line.
        variables: the tensors that live from run to run, which `eager.capture` has found to be all of its state.
        dataclasses: those of the outputs that PyTorch does not know.
        written: the places that runs change, or write an equal value to.
    """

    module: nn.Module
    samples: tuple[Inputs, ...]
    outputs: tuple[Leaves, ...]
    draws: bool
    codes: tuple[CodeType, ...]
    attributes: tuple[Attribute, ...] = ()
    refusal: StateError | None = None
    variables: tuple[Variable, ...] = ()
    dataclasses: frozenset[type] = frozenset()
    written: tuple[Place, ...] = ()

    def held(self, module: nn.Module) -> list[object]:
        """Return the values of a copy of the module that runs write."""
        snapshot = Snapshot(module)
        found = (snapshot.find(place) for place in self.written)
        return [place.holder.get(place.name) for place in found if place is not None]

    def steps(self, batches: Iterable[Inputs]) -> Iterator[tuple[Leaves, list[Tensor]]]:
        """Yield the flattened outputs and the variables after each of a sequence of runs."""
        with environment(self.module):
            twin = copied(self.module)
            binding = Binding(twin, self.attributes)
            for batch in batches:
                outputs = _run(twin, batch)
                yield outputs, [value.detach().clone() for value in binding.read()]

    def run(self, batches: Iterable[Inputs]) -> list[Leaves]:
        """Return the flattened outputs of one copy of the module for one batch after the other."""
        with environment(self.module):
            twin = copied(self.module)
            return [_run(twin, batch) for batch in batches]


_CONVERSIONS = "bfloat16 cpu cuda double float half ipu mtia type xpu"
_UNCALLED = frozenset({*_CONVERSIONS.split(), "compile", "share_memory", "zero_grad"})
"""Methods of `nn.Module` that neither a build nor an export calls: an attribute may have the name."""


def copied(module: nn.Module) -> nn.Module:
    """Return a deep copy of a module in evaluation mode, which shares what cannot be copied, such as locks.

    Raises:
        InputError: the module has uninitialised parameters, a generator as an attribute, an attribute in place of a
            method of `nn.Module`, or cannot be copied.
    """
    for part in nn.Module.modules(module):
        for name, value in vars(part).items():
            is_called = name not in _UNCALLED or isinstance(value, Tensor)  # `torch.export` gives tensors their names
            if is_called and callable(getattr(nn.Module, name, None)) and not callable(value):
                raise InputError(
                    f"the attribute `{name}` of `{type(part).__name__}` hides the method `nn.Module.{name}`",
                    hint="give the attribute another name",
                )
    lazy = next((name for name, value in module.named_parameters() if is_lazy(value)), None)
    if lazy is not None:
        raise InputError(f"the parameter `{lazy}` has no shape yet", hint="run the model once on its example inputs")
    memo = dict[int, Any](tensors_that_copies_refuse(module))
    with with_functions_of(module):
        try:
            return evaluated(copy.deepcopy(module, dict(memo)))
        except Exception:  # noqa: BLE001 - whatever an attribute raises
            memo |= _shared(module)
        try:
            return evaluated(copy.deepcopy(module, memo))
        except Exception as e:
            raise InputError(
                f"the model cannot be copied: {type(e).__name__}: {first_line(e)}",
                hint="builds run copies of the model: make its attributes copyable with `copy.deepcopy`",
            ) from e


def _shared(module: nn.Module) -> dict[int, object]:
    """Return the attributes of a module and its submodules that cannot be copied, for `copy.deepcopy`'s memo."""
    found: dict[int, object] = {}
    parts = cast("list[tuple[str, nn.Module]]", [*cast(Any, module).named_modules()])
    for path, part in parts:
        for name, value in vars(part).items():
            if name in ("_modules", "_parameters", "_buffers") or isinstance(value, Tensor):
                continue
            try:
                copy.deepcopy(value)
            except Exception as e:
                if isinstance(value, Generator):
                    raise InputError(
                        f"the attribute `{f'{path}.{name}' if path else name}` of the model is a generator: it yields "
                        "each value once",
                        hint="make a list or a tensor of its values when the model is made",
                    ) from e
                found[id(value)] = value
    return found


def evaluated(module: nn.Module) -> nn.Module:
    """Switch a module to evaluation mode; modules of exported programs have no modes."""
    module = uncompiled(module)
    try:
        return module.eval()
    except NotImplementedError:
        return module


def observe(module: nn.Module, samples: Sequence[Inputs]) -> Observed:
    """Run copies of a module on samples; the module and all objects that it can reach stay unchanged.

    Raises:
        InputError: the module fails, returns values that are no tensors, or cannot be copied.
    """
    pristine = copied(module)  # raises errors before the snapshot looks at attributes
    with environment(module) as reached:
        # PyTorch imports packages when the stance is first set: their code is none of the module's
        twin = copied(pristine)
        with (
            torch.compiler.set_stance("force_eager"),
            executed(reached.codes) as codes,
            first_assigned(twin) as values_of_first,
        ):
            values = _values(twin, samples[0])
        kinds, outputs = unregistered(values), [_leaves(pristine, values)]
        good, starts = [samples[0]], [values_of_first]
        for sample in samples[1:]:
            reached.restore()
            with suppress(InputError):  # a sample on which the module fails shows nothing
                with first_assigned(twin := copied(pristine)) as values_of_first:
                    outputs.append(_run(twin, sample))
                good.append(sample)
                starts.append(values_of_first)
        reached.restore()
        twin = copied(pristine)
        states, later = [Snapshot(twin)], list[Leaves]()
        written = states[0].watched()
        for sample in [*good, good[0]]:
            later.append(_run(twin, sample, seed=1))
            states.append(Snapshot(twin))
        draws = not equal(later[0], outputs[0])  # only the seed differs
        changes = [before.changed(after) for before, after in pairwise(states)]
        places = [*{place.path: place for change in changes for place in change}.values()]
        first, last = Snapshot(pristine), states[-1]
        changed = (*places, *written())  # a write of an equal value is one of another value for other inputs
        found = {
            place.path: attribute_of(
                place, first, last, written_at(codes, place.name), [one.get(place.path) for one in starts]
            )
            for place in changed
        }
        attributes, refusal = tuple(filter(None, found.values())), None
        if not draws:
            if not all(map(equal, later, [*outputs, outputs[0]])):
                refusal = _stateful(places, codes)
            reads = partial(_is_read, module=pristine, sample=good[0], wanted=outputs[0], codes=codes, reached=reached)
            resized = [one for one in states[-2].resized(last) if not is_only_written(codes, one.name)]
            if kept := [place for place in changes[-1] if place in resized or reads(place)]:
                refusal = _stateful(kept, codes)
            others = [place for place in kept if place in resized or found[place.path] is None]
            others += [
                place
                for place in places
                if found[place.path] is None
                and becomes_tensor(place, first, last)
                and not is_only_written(codes, place.name)
            ]
            if others:
                attributes, refusal = (), _stateful(others, codes)
    return Observed(
        pristine, tuple(good), tuple(outputs), draws, (*codes,), attributes, refusal, dataclasses=kinds, written=changed
    )


def distinct(samples: Sequence[Inputs]) -> list[Inputs]:
    """Drop repeated samples; add a scaled sample to a single one, because equal inputs hide state."""
    found = [sample for i, sample in enumerate(samples) if not any(equal(sample, other) for other in samples[:i])]
    if len(found) == 1:
        found.append(tuple(map(_like, found[0])))
    return found


def _like(value: Tensor) -> Tensor:
    """Return another input of the same kind: integers keep their range, as indices have to."""
    if value.is_floating_point() or value.is_complex():
        return value * 0.75
    moved = value.flatten().roll(1).view(value.shape)
    if not torch.equal(moved, value):
        return moved
    return ~value if value.dtype == torch.bool else (value == 0).to(value.dtype)


def _is_read(
    place: Place, *, module: nn.Module, sample: Inputs, wanted: Leaves, codes: Iterable[CodeType], reached: Snapshot
) -> bool:
    """True if a run reads the value that an earlier run left at a place: corrupting it changes the outputs."""
    for corrupt in _CORRUPTIONS:
        reached.restore()
        twin = copied(module)
        try:
            _run(twin, sample)
            corrupt(Snapshot(twin).find(place) or place)
            if equal(_run(twin, sample), wanted):
                continue
        except InputError:
            pass
        return isinstance(place.holder.get(place.name), Tensor) or not is_only_written(codes, place.name)
    return False


def _remove(place: Place) -> None:
    """Delete the value at a place."""
    value = place.holder.get(place.name)
    if isinstance(value, dict | list | set | collections.deque):
        cast("list[Any]", value).clear()
    elif not isinstance(value, Tensor):
        place.holder.pop(place.name, None)


def _corrupt(place: Place, real: float, part: Fraction) -> None:
    """Put a value at a place that changes all results: `real`, `part` of the integer range, or an opaque object."""
    value = place.holder.get(place.name)
    if isinstance(value, Tensor):
        place.holder[place.name] = _corrupted(value, real, part)
    elif isinstance(value, dict):
        entries = cast("dict[Any, Any]", value)
        for key in entries:
            entries[key] = object()
    elif isinstance(value, list | collections.deque):
        items = cast("list[Any]", value)
        for index in range(len(items)):
            items[index] = object()
    else:
        place.holder[place.name] = object()


def _corrupted(value: Tensor, real: float, part: Fraction) -> Tensor:
    if value.is_floating_point() or value.is_complex():
        return torch.full_like(value, real)
    if value.dtype == torch.bool:
        return torch.full_like(value, part > 0)
    ends = torch.iinfo(value.dtype)  # half of the range is left for additions
    return torch.full_like(value, int(ends.min + (ends.max - ends.min) * (1 + part) / 2))


_CORRUPTIONS: tuple[Callable[[Place], None], ...] = (
    _remove,
    partial(_corrupt, real=torch.nan, part=Fraction(0)),
    partial(_corrupt, real=1e30, part=Fraction(1, 2)),
    partial(_corrupt, real=-1e30, part=Fraction(-1, 2)),
)


def _stateful(places: Sequence[Place], codes: Iterable[CodeType]) -> StateError:
    """Return the error for a module whose runs depend on each other."""
    codes = list(codes)
    found = [(place, written_at(codes, place.name)) for place in places]
    place, source = next((one for one in found if one[1]), found[0] if found else (None, None))
    if place is None:
        return StateError(
            "the model returns other values for the same inputs, but none of its attributes has changed",
            hint="compute outputs from inputs and weights alone: no clocks, files or iterators",
        )
    return changed_state(place.path, source)


@contextmanager
def environment(module: nn.Module) -> Generator[Snapshot]:
    """Restore everything that a module can reach when this context ends."""
    reached = Snapshot(module, restorable=True)
    fused: Any = torch.backends.mha  # its fused attention operator exists on no target
    is_enabled: bool = fused.get_fastpath_enabled()
    fused.set_fastpath_enabled(False)
    try:
        with seeded(0):
            yield reached
    finally:
        fused.set_fastpath_enabled(is_enabled)
        reached.restore()


@contextmanager
def seeded(seed: int) -> Generator[None]:
    """Seed all random generators in this context and restore their states afterwards."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 - the user's code may draw from it
    generators: Any = torch.random
    # PyTorch seeds all devices, and keeps the call stack of each call for a device that does not exist yet.
    generator: Any = generators if torch.accelerator.is_available() else torch.default_generator
    with generators.fork_rng(devices=[]):
        generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(cast(Any, states[1]))  # noqa: NPY002


def _run(module: nn.Module, inputs: Inputs, seed: int = 0) -> Leaves:
    """Return the flattened outputs of a run with this random seed.

    Raises:
        InputError: the run fails, with the user's line, or returns values that are no tensors.
    """
    return _leaves(module, _values(module, inputs, seed))


def _values(module: nn.Module, inputs: Inputs, seed: int = 0) -> object:
    """Return the outputs of a run as the module returns them."""
    try:
        with torch.no_grad(), quiet(), seeded(seed), torch.compiler.set_stance("force_eager"):
            return module(*copies(inputs))
    except Exception as e:
        line = user_line_of(e)
        raise InputError(
            f"the model fails on its example inputs: {type(e).__name__}: {first_line(e)}",
            where=f"{line[0]}:{line[1]}" if line else None,
            hint=f"it was called with {', '.join(f'{x.dtype} {list(x.shape)}' for x in inputs)}",
        ) from e


def _leaves(module: nn.Module, outputs: object) -> Leaves:
    try:
        return leaves(outputs)
    except InputError as e:
        source = returned_at(type(module).forward)
        raise InputError(e.message, where=str(source) if source else None, hint=e.hint) from e
