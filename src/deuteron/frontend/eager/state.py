"""Takes snapshots of everything that a module's `forward` can read or change, compares them and restores them.

A snapshot starts at the module and follows attributes, containers, objects of user classes, closures, defaults, class
attributes, and the global variables that user code names. It skips PyTorch, NumPy and the standard library.
"""

import collections
import hashlib
import itertools
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from deuteron.errors import InputError

_LIBRARIES = frozenset({"torch", "torchao", "executorch", "deuteron", "numpy", "builtins"}) | sys.stdlib_module_names

_CONSTANTS = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size, range)

_ITERATORS = (itertools.count, itertools.cycle, type(iter([])), type(iter(())), type(iter(range(0))))

_MOST = 200_000
"""The maximum number of values in a snapshot; further values are not compared."""


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
        self._containers: list[tuple[Any, Any]] = []
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

    def find(self, place: Place) -> Place | None:
        """Return the place with the same path in this snapshot."""
        return next((one for one, _ in self.values.values() if one == place), None)

    def restore(self) -> None:
        """Restore all values; needs `restorable`."""
        for container, content in self._containers:
            _refill(container, content)
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
        while pending and len(self.values) < _MOST:
            visit = pending.popleft()
            key, place, value = visit.key, visit.place, visit.value
            if isinstance(value, Tensor):
                self.values[key] = place, (digest(value), value.requires_grad)
                self._keep_tensor(value)
                continue
            if isinstance(value, _CONSTANTS):
                self.values[key] = place, (type(value), repr(value))
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

    def _keep_tensor(self, value: Tensor) -> None:
        if self._restorable and id(value) not in self._seen:
            self._seen[id(value)] = value
            self._tensors.append((value, value.detach().clone(), digest(value)))

    def _keep(self, container: Any, content: Any) -> None:
        if self._restorable:
            self._containers.append((container, content))

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
            self._keep(value, dict(cast("dict[Any, Any]", value)))
            yield from _items(visit, cast("dict[Any, Any]", value).items())
        elif isinstance(value, list | tuple | collections.deque):
            items = cast("list[Any]", value)
            if not isinstance(value, tuple):
                self._keep(value, list(items))
            yield from _items(visit, enumerate(items))
        elif isinstance(value, set | frozenset):
            if isinstance(value, set):
                self._keep(value, set(cast("set[Any]", value)))
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
        self._keep(own, dict(own))
        for kind in ("_parameters", "_buffers", "_modules"):
            held = cast("dict[str, Any]", own[kind])
            self._keep(held, dict(held))
            for name, value in held.items():
                yield _at(Place(_below(path, name), name, held), value)
        for name, value in own.items():
            if name not in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
                yield _at(Place(_below(path, name), name, own), value)

    def _of_object(self, path: str, value: object) -> Iterator[_Visit]:
        slots = _SlotAttributes(value)
        self._keep(slots, dict(slots))
        own = cast("dict[str, Any]", getattr(value, "__dict__", {}))
        self._keep(own, dict(own))
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
                    self._keep(attributes, {name: value})
                    yield _at(Place(f"class attribute `{base.__name__}.{name}`", name, attributes), inner)

    def _of_function(self, function: types.FunctionType) -> Iterator[_Visit]:
        if not _is_users(function):
            return
        code = function.__code__
        self.codes.append(code)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            holder = _ClosureVariable(name, cell)
            if name in holder and name != "__class__":
                self._keep(holder, dict(holder))
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
                self._keep(_GlobalVariable(variables, name), {name: value})
                yield _at(Place(f"global variable `{name}`", name, variables), value)
            elif value.__name__.partition(".")[0] not in _LIBRARIES:
                yield from self._of_module_file(value, names)

    def _of_module_file(self, module: types.ModuleType, names: Iterable[str]) -> Iterator[_Visit]:
        """Yield the variables of a user's Python module that code names."""
        own = vars(module)
        for name in names:
            if name in own and not isinstance(own[name], types.ModuleType):
                self._keep(_GlobalVariable(own, name), {name: own[name]})
                yield _at(Place(f"variable `{name}` of module `{module.__name__}`", name, own), own[name])


class _SlotAttributes(MutableMapping[str, Any]):
    """The attributes in the slots of an object's classes."""

    def __init__(self, value: object) -> None:
        self.value = value
        slots = [vars(kind).get("__slots__", ()) for kind in type(value).__mro__]
        names = (name for one in slots for name in ((one,) if isinstance(one, str) else tuple(one)))
        self.names = [name for name in names if name not in ("__dict__", "__weakref__") and hasattr(value, name)]

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


@dataclass(frozen=True, slots=True)
class _GlobalVariable:
    """One global variable, which is restored without the module's other variables."""

    variables: dict[str, Any]
    name: str


def _refill(container: Any, content: Any) -> None:
    """Restore the content of a container if it differs."""
    if isinstance(container, _GlobalVariable):
        if container.variables.get(container.name) is not content[container.name]:
            container.variables[container.name] = content[container.name]
    elif isinstance(container, _ClassAttributes | _ClosureVariable | _SlotAttributes):
        for name, value in cast("dict[str, Any]", content).items():
            if container.get(name) is not value:
                container[name] = value
    elif isinstance(container, dict):
        held = cast("dict[Any, Any]", container)
        if list(held) != list(content) or any(held[key] is not content[key] for key in content):
            held.clear()
            held.update(content)
    elif isinstance(container, set):
        if container != content:
            cast("set[Any]", container).clear()
            cast("set[Any]", container).update(content)
    elif len(container) != len(content) or any(a is not b for a, b in zip(container, content, strict=True)):
        container.clear()
        container.extend(content)


def _items(visit: _Visit, items: Iterable[tuple[object, object]]) -> Iterator[_Visit]:
    """Yield the items of a container that are no constants; code refers to them by the container's name."""
    for key, item in list(items):
        if not isinstance(item, _CONSTANTS):
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
    """Return a key of a container as text; for objects the type, because their own text may change."""
    return repr(value) if isinstance(value, _CONSTANTS) else str(type(value))


def _constant(value: object) -> object:
    """Return the fingerprint of a constant in a container; None for other items."""
    return (type(value), repr(value)) if isinstance(value, _CONSTANTS) else None


def _shallow(value: Any) -> object:
    """Return the fingerprint of a container or object; items that are no constants have their own."""
    kind = cast("type[Any]", type(value))
    if isinstance(value, dict):
        return kind, [(_text(key), _constant(item)) for key, item in cast("dict[Any, Any]", value).items()]
    if isinstance(value, list | tuple | collections.deque):
        return kind, list(map(_constant, cast("list[Any]", value)))
    if isinstance(value, _ITERATORS):
        return kind, list(map(_constant, cast(Any, value).__reduce__()[1:]))
    if isinstance(value, set | frozenset):
        return kind, sorted(map(_text, cast("set[Any]", value)))
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return str(array.dtype), array.shape, hashlib.blake2b(np.ascontiguousarray(array).tobytes()).digest()
    if isinstance(value, torch.Generator):
        return digest(value.get_state())
    return (kind, repr(cast(Any, value))) if isinstance(value, np.generic) else kind


def digest(value: Tensor) -> object:
    """Return a tensor's dtype, shape and hash."""
    own = value.detach()
    if own.layout is not torch.strided or own.is_quantized or own.device.type != "cpu":
        return repr(own)
    data = own.resolve_conj().resolve_neg().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return str(own.dtype), tuple(own.shape), hashlib.blake2b(data).digest()


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
                pending += cast("dict[Any, Any]", value).values()
            elif isinstance(value, list | tuple | collections.deque):
                pending += cast("list[Any]", value)
    return found
