"""Reads and replaces private names of other packages, and finds those that an installation lacks."""

import ast
import importlib
import importlib.util
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from deuteron.errors import MissingToolError


@dataclass(frozen=True, slots=True)
class PrivateName:
    """A name of another package that may change with its next release.

    Attributes:
        module: the module that defines it.
        name: the name in the module; `Class.attribute` for an attribute of a class or of its objects.
        reason: the use of it.
        is_optional: whether builds work without it.
    """

    module: str
    name: str
    reason: str
    is_optional: bool = False

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


def value_of(name: PrivateName) -> Any:
    """Return the current value of a name.

    Raises:
        MissingToolError: the installed release does not have it.
    """
    owner, attribute = _owner(name) or _raise_missing(name)
    return getattr(owner, attribute)


@contextmanager
def replaced(name: PrivateName, wrap: Callable[[Any], object]) -> Generator[None]:
    """Replace a name by `wrap(original)` in this context; an optional name that is missing stays missing.

    Raises:
        MissingToolError: the installed release does not have the name, which is not optional.
    """
    found = _owner(name)
    if found is None and name.is_optional:
        yield
        return
    owner, attribute = found or _raise_missing(name)
    original = cast(Any, vars(owner)[attribute])
    setattr(owner, attribute, wrap(original))
    try:
        yield
    finally:
        setattr(owner, attribute, original)


def _owner(name: PrivateName) -> tuple[Any, str] | None:
    """The module or class that has a name itself, and the attribute; None if there is none."""
    path, _, attribute = name.name.rpartition(".")
    try:
        owner: Any = importlib.import_module(name.module)
    except ImportError:
        return None
    owner = getattr(owner, path, None) if path else owner
    return (owner, attribute) if attribute in vars(owner or object) else None


def _raise_missing(name: PrivateName) -> tuple[Any, str]:
    raise MissingToolError(
        f"the installed release of `{name.module.partition('.')[0]}` has no `{name}`, which {name.reason}",
        hint="install the releases that `deuteron doctor` names",
    )


def missing(names: Iterable[PrivateName]) -> tuple[PrivateName, ...]:
    """Return the names that the sources of the installed packages do not define; nothing is imported."""
    return tuple(name for name in names if name.name not in _defined(name.module))


@cache
def _defined(module: str) -> frozenset[str]:
    """The names that a module's source defines, `Class.attribute` for those of classes."""
    path = _source(module)
    if path is None:
        return frozenset()
    tree = ast.parse(path.read_bytes())
    names = set(_bound(tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{name}" for name in (*_bound(node.body), *_attributes_of_self(node))}
    return frozenset(names)


def _source(module: str) -> Path | None:
    """The source file of a module, found without importing its packages."""
    top, _, rest = module.partition(".")
    spec = importlib.util.find_spec(top)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, *rest.split(".")) if rest else Path(folder)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return file
    return None


def _bound(body: Iterable[ast.stmt]) -> Iterator[str]:
    """The names that statements bind, also in the branches of `if`, `try` and `with`."""
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield statement.name
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name for alias in statement.names)
            case ast.Assign() | ast.AnnAssign():
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
            case _:
                inner = (child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.stmt))
                yield from _bound(inner)


def _attributes_of_self(node: ast.ClassDef) -> Iterator[str]:
    """The attributes that methods of a class assign to `self`."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
            yield inner.attr
