"""Takes snapshots of everything that a module's `forward` can read or change, compares them and restores them.

A snapshot starts at the module and follows attributes, containers, objects of user classes, closures, defaults, class
attributes, and the global variables that user code names. It skips PyTorch, NumPy and the standard library.
"""

import collections
import itertools
import sys
import types
import zlib
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from deuteron.errors import InputError

_LIBRARIES = sys.stdlib_module_names | {
    *("torch", "torchao", "executorch", "deuteron", "numpy", "builtins"),
    *("pytest", "_pytest", "pluggy"),  # assertions in tests refer to pytest's own state
}
"""Packages whose variables are no state of a model."""

_CONSTANTS = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size, range)

_PLAIN = frozenset({type(None), bool, int, str, bytes, torch.dtype, torch.device, torch.Size, range})
"""Types whose values are compared by `==`: floats have -0.0 and NaN, subclasses may compare as they like."""

_ITERATORS = (itertools.count, itertools.cycle, type(iter([])), type(iter(())), type(iter(range(0))))

_CONTAINERS = (dict, list, tuple, set, frozenset, collections.deque)


@dataclass(frozen=True, slots=True)
class Place:
    """The attribute or variable that refers to a value.

    Attributes:
        path: a readable name, such as `attribute `blocks.0.count`` or `global variable `STEP``.
        name: the identifier in code, of an attribute or a variable.
        holder: the mapping with the value under `name`.
    """

    path: str
    name: str
    holder: MutableMapping[str, Any] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class _Visit:
    """A value to visit, and the attribute or variable through which code reaches it.

    Attributes:
        key: a unique key: the path of the place, and the position in containers there.
        place: the attribute or variable.
        value: the value.
    """

    key: str
    place: Place
    value: object


def _at(place: Place, value: object) -> _Visit:
    return _Visit(place.path, place, value)


class Snapshot:
    """The values of a module and of everything that it reaches, at one time."""

    def __init__(self, module: nn.Module, *, restorable: bool = False) -> None:
        """Take the snapshot; `restorable` also keeps the data for `restore`."""
        self.values: dict[str, tuple[Place, object]] = {}
        self.codes: list[types.CodeType] = []
        self._restorable = restorable
        self._refills: list[Callable[[], None]] = []
        self._tensors: list[tuple[Tensor, Tensor, object]] = []
        self._seen: dict[int, object] = {}
        self._walk(module)

    def changed(self, later: "Snapshot") -> tuple[Place, ...]:
        """Return the places whose value, or a value in a container there, differs in a later snapshot."""
        found: dict[str, Place] = {}
        for key in {**self.values, **later.values}:
            before, after = self.values.get(key), later.values.get(key)
            if before is None or after is None or before[1] != after[1]:
                place = (before or after or cast(Any, None))[0]
                found.setdefault(place.path, place)
        return tuple(found.values())

    def resized(self, later: "Snapshot") -> tuple[Place, ...]:
        """Return the places with a container of another length, or a tensor of another shape, in a later snapshot."""
        found: dict[str, Place] = {}
        for key in self.values.keys() & later.values.keys():
            (place, before), (_, after) = self.values[key], later.values[key]
            sizes = _size(before), _size(after)
            if None not in sizes and sizes[0] != sizes[1]:
                found[place.path] = place
        return tuple(found.values())

    def structure(self) -> dict[str, tuple[Place, object]]:
        """Return the places with their contents, in which tensors have a dtype and a shape alone."""
        return {key: (place, _without_numbers(content)) for key, (place, content) in self.values.items()}

    def watched(self) -> Callable[[], list[Place]]:
        """Return a function that lists the places whose tensors were written after this, even with equal values."""
        held = {place.path: (place, place.holder.get(place.name)) for place, _ in self.values.values()}
        versions = [(place, value, _version(value)) for place, value in held.values() if isinstance(value, Tensor)]

        def written() -> list[Place]:
            return [
                place
                for place, value, version in versions
                if place.holder.get(place.name) is not value or _version(value) != version
            ]

        return written

    def find(self, place: Place) -> Place | None:
        """Return the place with the same path in this snapshot."""
        return next((one for one, _ in self.values.values() if one == place), None)

    def restore(self) -> None:
        """Restore all values; needs `restorable`."""
        for refill in self._refills:
            refill()
        with torch.no_grad():
            for tensor, value, before in self._tensors:
                if digest(tensor) == before:
                    continue
                if (tensor.shape, tensor.dtype) == (value.shape, value.dtype):
                    tensor.copy_(value)  # keeps views of the same memory
                else:
                    tensor.data = value.clone()

    def _walk(self, module: nn.Module) -> None:
        pending = collections.deque([_at(Place("module", "", {}), module)])
        while pending:
            visit = pending.popleft()
            key, place, value = visit.key, visit.place, visit.value
            if isinstance(value, Tensor):
                content = self._keep_tensor(value)
                self.values[key] = place, (content, value.requires_grad)
                continue
            if is_constant(value):
                self.values[key] = place, _constant(value)
                continue
            if isinstance(value, types.GeneratorType):
                raise InputError(
                    f"the {place.path} of the model is a generator: it yields each value once",
                    hint="make a list or a tensor of its values when the model is made",
                )
            if id(value) in self._seen:
                self.values[key] = place, type(value)
                continue
            self._seen[id(value)] = value
            children = list(self._children(visit))
            self.values[key] = place, _shallow(value)
            pending.extend(children)

    def _keep_tensor(self, value: Tensor) -> object:
        """Return the digest of a tensor, and keep a copy of its content."""
        content = digest(value)
        if self._restorable and id(value) not in self._seen:
            self._seen[id(value)] = value
            self._tensors.append((value, value.detach().clone(), content))
        return content

    def _keep(self, refill: Callable[[Any, Any], None], container: Any, content: Any) -> None:
        if self._restorable:
            self._refills.append(partial(refill, container, content))

    def _children(self, visit: _Visit) -> Iterator[_Visit]:
        place, value = visit.place, cast(Any, visit.value)
        if isinstance(value, torch.jit.ScriptModule):  # its other attributes are not Python objects
            for name, tensor in (*value.named_parameters(recurse=False), *value.named_buffers(recurse=False)):
                yield _at(Place(_below(visit.key, name), name, {}), tensor)
            for name, part in value.named_children():
                yield _at(Place(_below(visit.key, name), name, {}), part)
        elif isinstance(value, nn.Module):
            yield from self._of_module(visit.key, place, value)
        elif isinstance(value, dict):
            self._keep(_refill_dict, value, dict(cast("dict[Any, Any]", value)))
            yield from _items(visit, cast("dict[Any, Any]", value).items())
        elif isinstance(value, list | tuple | collections.deque):
            items = cast("list[Any]", value)
            if not isinstance(value, tuple):
                self._keep(_refill_list, value, list(items))
            yield from _items(visit, enumerate(items))
        elif isinstance(value, set | frozenset):
            if isinstance(value, set):
                self._keep(_refill_set, value, set(cast("set[Any]", value)))
            yield from _items(visit, enumerate(sorted(cast("set[Any]", value), key=_text)))
        elif isinstance(value, partial):
            parts = cast("partial[Any]", value)
            yield from _items(visit, {"func": parts.func, "args": parts.args, "kw": parts.keywords}.items())
        elif isinstance(value, types.MethodType):
            yield from _items(visit, {"self": value.__self__, "func": value.__func__}.items())
        elif isinstance(value, types.FunctionType):
            yield from self._of_function(value)
        elif isinstance(value, type):
            yield from self._of_class(value)
        elif isinstance(value, _ITERATORS):
            yield from _items(visit, enumerate(cast("tuple[Any, ...]", cast(Any, value).__reduce__()[1:])))
        elif _is_users(type(value)):
            yield _Visit(f"class of {visit.key}", place, cast(object, type(value)))
            yield from self._of_object(visit.key, value)

    def _of_module(self, path: str, place: Place, module: nn.Module) -> Iterator[_Visit]:
        yield _Visit(f"class of {path}", place, type(module))
        own = vars(module)
        self._keep(_refill_dict, own, dict(own))
        for kind in ("_parameters", "_buffers", "_modules"):
            held = cast("dict[str, Any]", own[kind])
            self._keep(_refill_dict, held, dict(held))
            for name, value in held.items():
                yield _at(Place(_below(path, name), name, held), value)
        for name, value in own.items():
            if name not in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
                yield _at(Place(_below(path, name), name, own), value)

    def _of_object(self, path: str, value: object) -> Iterator[_Visit]:
        slots = _SlotAttributes(value)
        self._keep(_refill_names, slots, dict(slots))
        own = cast("dict[str, Any]", getattr(value, "__dict__", {}))
        self._keep(_refill_dict, own, dict(own))
        for holder in (slots, own):
            for name, attribute in list(holder.items()):
                yield _at(Place(_below(path, name), name, holder), attribute)

    def _of_class(self, kind: type) -> Iterator[_Visit]:
        for base in kind.__mro__:
            if not _is_users(base) or (base is not kind and id(base) in self._seen):
                continue
            self._seen[id(base)] = base
            attributes = _ClassAttributes(base)
            for name, value in list(vars(base).items()):
                inner: Any = cast(Any, value).__func__ if isinstance(value, classmethod | staticmethod) else value
                inner = cast(Any, inner).fget if isinstance(inner, property) else inner
                if isinstance(inner, types.FunctionType):
                    yield _at(Place(f"{base.__name__}.{name}", name, attributes), inner)
                elif not name.startswith("__") and not isinstance(inner, types.MemberDescriptorType):
                    self._keep(_refill_names, attributes, {name: value})
                    yield _at(Place(f"class attribute `{base.__name__}.{name}`", name, attributes), inner)

    def _of_function(self, function: types.FunctionType) -> Iterator[_Visit]:
        if not _is_users(function):
            return
        code = function.__code__
        self.codes.append(code)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            holder = _ClosureVariable(name, cell)
            if name in holder and name != "__class__":
                self._keep(_refill_names, holder, dict(holder))
                yield _at(Place(f"variable `{name}` of {function.__qualname__}", name, holder), holder[name])
        for index, value in enumerate((*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())):
            name = code.co_varnames[code.co_argcount - len(function.__defaults__ or ()) + index]
            yield _at(Place(f"default of `{name}` of {function.__qualname__}", name, {}), value)
        variables = function.__globals__
        names = set(_named(code))
        for name in names:
            value = variables.get(name)
            if name not in variables:
                continue
            if not isinstance(value, types.ModuleType):
                self._keep(_refill_names, variables, {name: value})
                yield _at(Place(f"global variable `{name}`", name, variables), value)
            elif value.__name__.partition(".")[0] not in _LIBRARIES:
                yield from self._of_module_file(value, names)

    def _of_module_file(self, module: types.ModuleType, names: Iterable[str]) -> Iterator[_Visit]:
        """Yield the variables of a user's Python module that code names."""
        own = vars(module)
        for name in names:
            if name in own and not isinstance(own[name], types.ModuleType):
                self._keep(_refill_names, own, {name: own[name]})
                yield _at(Place(f"variable `{name}` of module `{module.__name__}`", name, own), own[name])


class _SlotAttributes(MutableMapping[str, Any]):
    """The attributes in the slots of an object's classes."""

    def __init__(self, value: object) -> None:
        self.value = value
        slots = [vars(kind).get("__slots__", ()) for kind in type(value).__mro__]
        names = (name for one in slots for name in ((one,) if isinstance(one, str) else tuple(one)))
        # A class may give the name of a slot of its base to a property.
        slot = types.MemberDescriptorType
        self.names = [
            name for name in names if isinstance(getattr(type(value), name, None), slot) and hasattr(value, name)
        ]

    def __getitem__(self, key: str) -> Any:
        if key not in self.names or not hasattr(self.value, key):
            raise KeyError(key)
        return getattr(self.value, key)

    def __setitem__(self, key: str, value: Any) -> None:
        object.__setattr__(self.value, key, value)

    def __delitem__(self, key: str) -> None:
        object.__delattr__(self.value, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class _ClassAttributes(MutableMapping[str, Any]):
    """The attributes of a class itself."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __getitem__(self, key: str) -> Any:
        return vars(self.kind)[key]

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self.kind, key, value)

    def __delitem__(self, key: str) -> None:
        delattr(self.kind, key)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self.kind))

    def __len__(self) -> int:
        return len(vars(self.kind))


class _ClosureVariable(MutableMapping[str, Any]):
    """The variable of a closure."""

    def __init__(self, name: str, cell: types.CellType) -> None:
        self.name, self.cell = name, cell

    def __getitem__(self, key: str) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError as e:
            raise KeyError(key) from e

    def __setitem__(self, key: str, value: Any) -> None:
        self.cell.cell_contents = value

    def __delitem__(self, key: str) -> None:
        del self.cell.cell_contents

    def __iter__(self) -> Iterator[str]:
        return iter((self.name,))

    def __len__(self) -> int:
        return 1


def _refill_dict(held: dict[Any, Any], content: Mapping[Any, Any]) -> None:
    """Give a dictionary its entries again, in their order, if it has others."""
    if list(held) != list(content) or any(held[key] is not content[key] for key in content):
        held.clear()
        held.update(content)


def _refill_names(holder: MutableMapping[str, Any], content: Mapping[str, Any]) -> None:
    """Give single variables or attributes their values again; others of the holder stay."""
    for name, value in content.items():
        if holder.get(name) is not value:
            holder[name] = value


def _refill_set(held: set[Any], content: set[Any]) -> None:
    if held != content:
        held.clear()
        held.update(content)


def _refill_list(held: Any, content: list[Any]) -> None:
    """Give a list or deque its items again, if it has others."""
    if len(held) != len(content) or any(a is not b for a, b in zip(held, content, strict=True)):
        held.clear()
        held.extend(content)


def _items(visit: _Visit, items: Iterable[tuple[object, object]]) -> Iterator[_Visit]:
    """The parts of a container that are no constants: code refers to them by the container's name."""
    listed = list(items)
    if are_plain(item for _, item in listed):
        return
    for key, item in listed:
        if not is_constant(item):
            yield _Visit(f"{visit.key}[{key if isinstance(key, int) else _text(key)}]", visit.place, item)


def _below(path: str, name: str) -> str:
    """Return the path of an attribute: `attribute `a.b``."""
    return f"attribute `{name}`" if path == "module" else f"{path.removesuffix('`')}.{name}`"


def _is_users(thing: Any) -> bool:
    """True for a class or function of the user or of a model library."""
    return str(getattr(thing, "__module__", None) or "").partition(".")[0] not in _LIBRARIES


def _named(code: types.CodeType) -> Iterator[str]:
    """Yield the names in code and in the functions nested in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _named(constant)


def _text(value: object) -> str:
    """A key of a container as text; an object's type, as its own text may be anything."""
    return repr(value) if is_constant(value) else str(type(value))


def are_plain(values: Iterable[object]) -> bool:
    """True where all values are numbers without a fraction, texts and the like, as in a vocabulary."""
    return set(map(type, values)) <= _PLAIN


def is_constant(value: object) -> bool:
    """Return True for a value that Python code cannot change."""
    return type(value) in _PLAIN or isinstance(value, _CONSTANTS)


def _constant(value: object) -> object:
    """Return the fingerprint of a constant; None for all else."""
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    return (kind, repr(value)) if isinstance(value, _CONSTANTS) else None


def _shallow(value: Any) -> object:
    """Return the fingerprint of a container or object; items that are no constants have their own."""
    kind = cast("type[Any]", type(value))
    if isinstance(value, dict):
        held = cast("dict[Any, Any]", value)
        if are_plain(held) and are_plain(held.values()):
            return kind, tuple(map(type, held)), tuple(map(type, held.values())), tuple(held.items())
        return kind, [(_constant(key) or _text(key), _constant(item)) for key, item in held.items()]
    if isinstance(value, list | tuple | collections.deque):
        return kind, list(map(_constant, cast("list[Any]", value)))
    if isinstance(value, _ITERATORS):
        return kind, list(map(_constant, cast(Any, value).__reduce__()[1:]))
    if isinstance(value, set | frozenset):
        return kind, sorted(map(_text, cast("set[Any]", value)))
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return str(array.dtype), array.shape, zlib.crc32(np.ascontiguousarray(array).tobytes())
    if isinstance(value, torch.Generator):
        return digest(value.get_state())
    return (kind, repr(cast(Any, value))) if isinstance(value, np.generic) else kind


def _version(value: Tensor) -> int:
    """Return the number of writes to a tensor; PyTorch does not count those to tensors of inference mode."""
    return 0 if value.is_inference() else value._version  # noqa: SLF001


def _size(fingerprint: object) -> object:
    """Return the type and length of a container, or the dtype and shape of a tensor, by its fingerprint."""
    if not isinstance(fingerprint, tuple):
        return None
    first, second = cast("tuple[Any, ...]", fingerprint)[:2]
    if isinstance(first, tuple):  # the digest of a tensor
        return cast("tuple[Any, ...]", first)[:2]
    is_container = isinstance(first, type) and issubclass(first, _CONTAINERS)
    return (cast(object, first), len(second)) if is_container else None


@contextmanager
def first_assigned(module: nn.Module) -> Generator[dict[str, object]]:
    """Record a copy of the first value that each attribute of a module is assigned in this context, by its path."""
    paths = {id(part): path for path, part in cast(Any, module).named_modules(remove_duplicate=False)}
    found: dict[str, object] = {}
    assign = nn.Module.__setattr__

    def recording(self: nn.Module, name: str, value: Any) -> None:
        if id(self) in paths:
            path = f"attribute `{f'{paths[id(self)]}.{name}' if paths[id(self)] else name}`"
            if path not in found:
                found[path] = pytree.tree_map_only(Tensor, _detached, value)
        assign(self, name, value)

    nn.Module.__setattr__ = recording
    try:
        yield found
    finally:
        nn.Module.__setattr__ = assign


def _detached(value: Tensor) -> Tensor:
    return value.detach().clone()


def _without_numbers(fingerprint: object) -> object:
    """Return the fingerprint of a tensor without its hash; others as they are."""
    if isinstance(fingerprint, tuple):
        first, *rest = cast("tuple[object, ...]", fingerprint)
        if isinstance(first, tuple):
            return (*cast("tuple[object, ...]", first)[:2], *rest)
        return first, *rest
    return fingerprint


def digest(value: Tensor) -> object:
    """Return a tensor's dtype, shape and hash."""
    own = value.detach()
    if own.layout is not torch.strided or own.is_quantized or own.device.type != "cpu":
        return repr(own)
    flat = own.resolve_conj().resolve_neg().flatten()
    if not flat.stride(0):  # a number that was expanded
        flat = flat.clone(memory_format=torch.contiguous_format)
    data = flat.contiguous().view(torch.uint8).numpy()
    return str(own.dtype), tuple(own.shape), zlib.crc32(data.data)


def tensors_that_copies_refuse(module: nn.Module) -> Mapping[int, Tensor]:
    """Return copies of tensor attributes that `copy.deepcopy` refuses, results of operators, for its memo."""
    found: dict[int, Tensor] = {}
    for part in module.modules():
        pending: list[object] = [*vars(part).values()]
        while pending:
            value = pending.pop()
            if isinstance(value, Tensor) and not value.is_leaf:
                found[id(value)] = value.detach().clone()
            elif isinstance(value, dict):
                pending += _unless_plain(cast("dict[Any, Any]", value).values())
            elif isinstance(value, list | tuple | collections.deque):
                pending += _unless_plain(cast("list[Any]", value))
    return found


def _unless_plain(values: Collection[Any]) -> Collection[Any]:
    return () if are_plain(values) else values
