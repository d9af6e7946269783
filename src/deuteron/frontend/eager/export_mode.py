"""Changes what Python sees of tensors while PyTorch exports a module without Dynamo.

Values that depend on weights, buffers and literals alone are known when a model is built, but an export hides them:
`if self.scale > 1`, `self.lengths.tolist()` and `x[:, self.mask]` fail although they do the same in each run.
"""

import functools
import inspect
import traceback
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from deuteron.builds.user_frames import last_user_line
from deuteron.errors import UnsupportedError
from deuteron.frontend.eager import raising_checks
from deuteron.frontend.eager.user_code import is_library
from deuteron.frontend.quantize import linear_algebra
from deuteron.frontend.quantize.inplace import storage_of
from deuteron.frontend.upstream import private_apis
from deuteron.frontend.upstream.access import replaced, value_of

_DATA: Any = cast(Any, Tensor).data.__get__

_MAKERS = "arange as_tensor eye from_numpy full linspace ones tensor tril_indices triu_indices zeros"
_LITERALS: frozenset[object] = frozenset(getattr(torch, name) for name in _MAKERS.split())
"""Functions that make a tensor of Python numbers; they draw none."""

_CONVERSIONS = "__bool__ __float__ __index__ __int__ allclose equal is_nonzero item tolist"
_NUMBERS = frozenset(_CONVERSIONS.split())
"""Functions that return Python values."""

_SIGNS = "__and__ __floordiv__ __invert__ __or__ __rdiv__ __rfloordiv__ __rpow__ __xor__"
_PURE = frozenset(["__get__", "__getitem__", "bool", "double", "float", "int", "long", *_SIGNS.split()])
"""Functions that change no operand, and have no operator of their name."""

_UNCOUNTED = frozenset({"__set__", "batch_norm", "instance_norm"})
"""Functions that may change tensors and count no version."""

_WRITTEN: Mapping[object, Callable[..., Any]] = {
    **dict.fromkeys((torch.cov, cast(Any, Tensor).cov), linear_algebra.covariance),
    **dict.fromkeys((torch.corrcoef, cast(Any, Tensor).corrcoef), linear_algebra.correlation),
}
"""Functions in which PyTorch looks at values, as others compute them."""

_OF_DATA = frozenset({"argwhere", "masked_select", "nonzero", "unique", "unique_consecutive"})
"""Functions whose result has a size that depends on values."""


def in_export_mode(module: nn.Module, written: object = (), *, clones_inputs: bool = False) -> nn.Module:
    """Make a module run in the mode of this file, and return it; PyTorch's own mode for exports is the outer one.

    `x.data` is `x.detach()`, whose memory and changes PyTorch follows. An index that is a tensor of one integer selects
    at run time, in place of an unknown number. Values that depend on constants alone are known. Checks of values that
    only raise errors pass. Queries of user code whether PyTorch exports, compiles or traces it are false.
    PyTorch cannot export a write into an input that is also assigned to a buffer: with `clones_inputs`, into a copy.
    """
    if isinstance(module, torch.jit.ScriptModule):  # which has no forward function in Python
        return module
    _register_attributes(module, {id(one) for one in pytree.tree_leaves(written)})
    weights, run = {name: value.detach() for name, value in _tensors(module)}, module.forward

    @functools.wraps(run)
    def forward(*args: Any, **kwargs: Any) -> Any:
        mode = _ExportMode()
        for name, value in _tensors(module):
            mode.learn(value, weights[name])
        if clones_inputs:
            args, kwargs = pytree.tree_map_only(Tensor, torch.clone, (args, kwargs))
        with _queries_answered(), mode:
            outputs = run(*args, **kwargs)
        mode.check(outputs)
        return outputs

    cast(Any, module).forward = forward
    return module


def _register_attributes(module: nn.Module, written: Collection[int]) -> None:
    for part in nn.Module.modules(module):
        attributes = vars(part)
        named = [name for name, one in attributes.items() if isinstance(one, Tensor) and id(one) not in written]
        for name in [name for name in named if not hasattr(type(part), name)]:  # PyTorch refuses others
            nn.Module.register_buffer(part, name, attributes.pop(name), persistent=False)


@contextmanager
def _queries_answered() -> Generator[None]:
    """Make queries of user code whether PyTorch exports, compiles or traces it false, and distributions unchecked."""

    def answering(original: Callable[[], bool]) -> Callable[[], bool]:
        def query() -> bool:
            file: str = cast(Any, inspect.currentframe()).f_back.f_code.co_filename  # a frame would keep tensors alive
            return original() if is_library(file) else False

        return query

    with ExitStack() as stack:
        for name in private_apis.MODE_QUERIES:
            if name.name != "is_dynamo_compiling":  # it is false without Dynamo, which traces it in `torch.cond`
                stack.enter_context(replaced(name, answering))
        stack.enter_context(replaced(private_apis.DISTRIBUTION_CHECKS, lambda _: False))
        yield


class _ExportMode(TorchFunctionMode):
    """The mode, with the tensors of the trace whose values are known.

    A value is known as long as the version of its tensor is the same: PyTorch counts the changes of a memory for all
    tensors that share it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[int, tuple[Tensor, Tensor, int]] = {}
        self._selected: dict[int, tuple[Tensor, int, Tensor, int]] = {}

    def learn(self, result: Any, real: Any) -> None:
        """Note the values of the tensors of a result."""
        for one, value in zip(pytree.tree_leaves(result), pytree.tree_leaves(real), strict=True):
            if isinstance(one, Tensor) and not one.is_inference():
                self._known[id(one)] = one, value, _version(one)

    def check(self, values: object) -> None:
        """Refuse values that were selected at an index of the run, if they or what they are from has changed since.

        Raises:
            UnsupportedError: in eager PyTorch, both share their memory, and in a program they do not.
        """
        for one in pytree.tree_leaves(values):
            if id(one) in self._selected and _version(self._selected[id(one)][2]) != self._selected[id(one)][3]:
                raise _shares()
        if any(_version(one) != version for one, version, *_ in self._selected.values()):
            raise _shares()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func == _DATA:
            return args[0].detach()
        func = _WRITTEN.get(func, func)
        name = getattr(func, "__name__", "")
        if name in _UNCOUNTED or name.startswith("_foreach"):
            self._known.clear()
        self.check((args, kwargs))
        if name in ("__getitem__", "__setitem__"):
            args = (args[0], self._with_numbers(args[1]), *args[2:])
        operands = [one for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        known = [self._is_known(one) for one in operands]
        is_constant = bool(known) and all(known)
        if is_constant and name in _NUMBERS:
            return self._real(func, args, kwargs)
        if name == "__bool__" and (value := _passing()) is not None:
            return value
        if is_constant and (name in _OF_DATA or (name == "where" and len(known) == 1)):
            return pytree.tree_map_only(Tensor, literal, self._real(func, args, kwargs))
        if name == "repeat_interleave" and len(known) > 1 and known[1] and kwargs.get("output_size") is None:
            return self._repeated(*args, **kwargs)
        if name == "masked_select" and len(known) > 1 and known[1] and kwargs.get("out") is None:
            return self._masked(*operands)
        if name in ("__getitem__", "__setitem__") and (found := _selection(*args[:2])) is not None:
            if name == "__setitem__":
                return found.write(args[2])
            result = found.read()
            self._selected[id(result)] = result, _version(result), args[0], _version(args[0])
            return result
        if not ((is_constant and _is_pure(name)) or (not known and func in _LITERALS)):
            result = func(*args, **kwargs)
            self._follow(result, operands)
            return result
        real = self._real(func, args, kwargs)
        result = func(*args, **kwargs)
        self.learn(result, real)
        return result

    def _follow(self, result: Any, operands: Sequence[Tensor]) -> None:
        """Record views of a tensor that was selected at an index of the run."""
        found = next((self._selected[id(one)] for one in operands if id(one) in self._selected), None)
        for one in pytree.tree_leaves(result) if found else []:
            if isinstance(one, Tensor) and found and storage_of(one) == storage_of(found[0]):
                self._selected.setdefault(id(one), (one, _version(one), *found[2:]))

    def _is_known(self, one: object) -> bool:
        found = self._known.get(id(one))
        return found is not None and _version(found[0]) == found[2]

    def _with_numbers(self, index: Any) -> Any:
        """Return an index with numbers in place of known tensors of one, and places in place of known masks."""
        parts: list[Any] = []
        for one in _parts(index):
            if isinstance(one, slice):
                ends = cast("slice[Any, Any, Any]", one)
                parts.append(slice(*map(self._number, (ends.start, ends.stop, ends.step))))
            elif isinstance(one, Tensor) and one.dtype == torch.bool and one.dim() and self._is_known(one):
                parts += map(literal, self._real(torch.nonzero, (one,), {"as_tuple": True}))
            else:
                parts.append(self._number(one))
        return tuple(parts) if isinstance(index, tuple) or len(parts) > 1 else parts[0]

    def _number(self, one: Any) -> Any:
        return self._real(int, (one,), {}) if _is_number(one) and self._is_known(one) else one

    def _real(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a function of known tensors with copies of their values."""
        with value_of(private_apis.WITHOUT_MODES)(), torch.no_grad():
            given = pytree.tree_map_only(Tensor, lambda one: self._known[id(one)][1].clone(), (args, kwargs))
            return func(*given[0], **given[1])

    def _repeated(self, x: Tensor, repeats: Tensor, dim: int | None = None, **_: None) -> Tensor:
        """Repeat elements a known number of times, as a selection."""
        if dim is None:
            x, dim = x.flatten(), 0
        return x.index_select(dim, literal(self._real(torch.repeat_interleave, (repeats,), {})))

    def _masked(self, x: Tensor, mask: Tensor) -> Tensor:
        """Select the elements of a known mask by their places."""
        shape: Sequence[int] = cast(Any, torch).broadcast_shapes(x.shape, mask.shape)

        def found(known: Tensor) -> tuple[Tensor, ...]:
            return known.expand(shape).nonzero(as_tuple=True)

        return x.expand(shape)[tuple(map(literal, self._real(found, (mask,), {})))]


def _passing() -> bool | None:
    """Return the truth value that lets a check of user code pass, if it is at one that only raises an error."""
    frame: Any = inspect.currentframe()
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    value = raising_checks.passing(frame) if frame is not None else None
    while frame is not None and value is not None and frame.f_code.co_filename != __file__:  # up to the module's call
        is_user_code = not is_library(frame.f_code.co_filename)
        value = None if is_user_code and raising_checks.may_be_handled(frame) else value
        frame = frame.f_back
    del frame  # it would keep tensors alive
    return value


def _version(tensor: Tensor) -> int:
    return cast(Any, tensor)._version  # noqa: SLF001 - it has no public name


def _is_pure(name: str) -> bool:
    """Return True for an operator that changes no operand and draws no random number."""
    base = name.strip("_")
    if name in _PURE:
        return True
    if (name.endswith("_") and not name.endswith("__")) or name.startswith("__i") or name == "__setitem__":
        return False
    packet = getattr(torch.ops.aten, base, None)
    overloads = [getattr(packet, one) for one in packet.overloads()] if packet is not None else []
    is_random = any(torch.Tag.nondeterministic_seeded in one.tags for one in overloads)
    return bool(overloads) and not is_random


def _shares() -> UnsupportedError:
    line = last_user_line("".join(traceback.format_stack()))
    return UnsupportedError(
        "a value that is selected at an index of the run, or what it is selected from, is changed in place while both "
        f"are used{f', at `{line[2]}`' if line else ''}",
        where=f"{line[0]}:{line[1]}" if line else None,
        hint="read a copy, `x[i].clone()`, before the change",
    )


@dataclass(frozen=True, slots=True)
class _Selection:
    """An index with one tensor of one integer: `x[:, i]`.

    Attributes:
        view: the tensor as the other parts of the index select from it.
        dim: the dimension of it from which the tensor selects.
        number: the tensor.
    """

    view: Tensor
    dim: int
    number: Tensor

    @property
    def _index(self) -> tuple[Any, ...]:
        return (*[slice(None)] * self.dim, self.number.reshape(1))

    def read(self) -> Tensor:
        """Return the selected elements."""
        return self.view[self._index].squeeze(self.dim)

    def write(self, value: Any) -> None:
        """Write a number or a tensor into the selected elements."""
        shape = [*self.view.shape[: self.dim], *self.view.shape[self.dim + 1 :]]
        value = value.to(self.view.dtype) if isinstance(value, Tensor) else torch.tensor(value, dtype=self.view.dtype)
        self.view[self._index] = value.expand(shape).unsqueeze(self.dim)


def _selection(x: Tensor, index: Any) -> _Selection | None:
    """Return what an index with one tensor of one integer selects; None for another index."""
    parts = _parts(index)
    numbers = [at for at, one in enumerate(parts) if _is_number(one)]
    if len(numbers) != 1 or any(isinstance(one, Tensor | Sequence) for one in parts if one is not parts[numbers[0]]):
        return None
    (at,) = numbers
    consumed = sum(one is not None and one is not Ellipsis for one in parts)
    before = [x.dim() - consumed if one is Ellipsis else int(not isinstance(one, int)) for one in parts[:at]]
    return _Selection(x[(*parts[:at], slice(None), *parts[at + 1 :])], sum(before), parts[at])


def _parts(index: Any) -> list[Any]:
    return [*cast("tuple[Any, ...]", index)] if isinstance(index, tuple) else [index]


def _is_number(one: object) -> bool:
    """Return True for a tensor of one integer without dimensions."""
    return isinstance(one, Tensor) and one.dim() == 0 and not (one.is_floating_point() or one.dtype == torch.bool)


def literal(value: Tensor) -> Tensor:
    """Return a tensor as a constant of the trace."""
    numbers: object = cast(Any, value).tolist()
    return torch.tensor(numbers, dtype=value.dtype).reshape(value.shape)


def _tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    named: Any = module
    return [*named.named_parameters(), *named.named_buffers()]
