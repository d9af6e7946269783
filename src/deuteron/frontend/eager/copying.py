"""Deep copies of modules that also copy the functions which refer to parts of the module, such as hooks."""

import copy
import types
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from torch import nn

from deuteron.frontend.eager.state import are_plain


@contextmanager
def with_functions_of(module: nn.Module) -> Generator[None]:
    """Let `copy.deepcopy` copy functions whose variables or defaults are parts of a module; it shares all others.

    A hook that is a closure of the module then uses the copy. Dictionaries of numbers and texts, such as vocabularies,
    are copied as a whole.
    """
    parts: set[int] = {id(part) for part in module.modules()}
    table: dict[type, Any] = vars(copy)["_deepcopy_dispatch"]
    originals = {kind: table[kind] for kind in (types.FunctionType, dict)}

    def copy_function(function: types.FunctionType, memo: dict[int, Any]) -> types.FunctionType:
        cells = function.__closure__ or ()
        contents, named = list(map(_content, cells)), function.__kwdefaults__ or {}
        refers = [*contents, *(function.__defaults__ or ()), *named.values()]
        if not any(id(_owner(value)) in parts for value in refers):
            return function
        made = types.FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            copy.deepcopy(function.__defaults__, memo),
            tuple(
                types.CellType(copy.deepcopy(content, memo)) if id(_owner(content)) in parts else cell
                for cell, content in zip(cells, contents, strict=True)
            ),
        )
        made.__kwdefaults__ = copy.deepcopy(function.__kwdefaults__, memo)
        made.__qualname__, made.__module__ = function.__qualname__, function.__module__
        made.__dict__.update(function.__dict__)
        memo[id(function)] = made
        return made

    def copy_dict(held: dict[Any, Any], memo: dict[int, Any]) -> dict[Any, Any]:
        if held and are_plain(held) and are_plain(held.values()):
            memo[id(held)] = made = dict(held)
            return made
        return originals[dict](held, memo)

    table.update({types.FunctionType: copy_function, dict: copy_dict})
    try:
        yield
    finally:
        table.update(originals)


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return None


def _owner(value: object) -> object:
    """Return the object of a bound method; any other value as it is."""
    return value.__self__ if isinstance(value, types.MethodType) else value


def uncompiled(module: nn.Module) -> nn.Module:
    """Return a module without what `torch.compile` has put around it and its parts, which computes the same."""
    module = _original(module)
    for part in module.modules():
        vars(part).pop("_compiled_call_impl", None)  # what `nn.Module.compile` sets
        children: dict[str, nn.Module | None] = vars(part)["_modules"]  # with the parts that have two names
        for name, child in list(children.items()):
            if child is None:
                continue
            is_hidden = getattr(part, name) is not child  # as a list named `parameters` is by the method
            if is_hidden:
                del children[name]
            children[f"{name}_hidden" if is_hidden else name] = _original(child)
    return module


def _original(module: nn.Module) -> nn.Module:
    while type(module).__module__.startswith("torch._dynamo") and isinstance(
        inner := getattr(module, "_orig_mod", None), nn.Module
    ):
        module = inner
    return module
