"""Texts of the checks of ExecuTorch's NXP backend, read from checks written in the same form."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from deuteron.frontend.backends.neutron.refusals import refusal

CHECKS = '''
def elsewhere(node):
    """Whether the node is even. It says no more than that.

    :param node: a number.
    """
    return node % 2 == 0


class Converter:
    @classmethod
    def is_supported(cls, node, scales):
        return cls._in_format(node) and cls._in_ir(node) and cls._on_target(node, scales)

    @classmethod
    def _in_format(cls, node):
        return node != 1

    @staticmethod
    def _in_ir(node):
        # Numbers above ten are
        # too large.
        if node > 10:
            return False
        if node == 3:
            # Nobody likes 3.
            return False
        return True

    @staticmethod
    def _on_target(node, scales):
        limits = Limits()
        if any(scale not in (1, 2) for scale in scales):
            return False
        else:
            if limits.least > node:
                return False
        if node == 8:
            return elsewhere(node + 1)
        if not elsewhere(node):
            return False
        for other in [9]:
            if other == node:
                pass
            elif node == 6:
                return False
        return False


class Limits:
    least = -5
'''


@pytest.fixture
def converter(tmp_path: Path) -> Any:
    """Checks in a module where the backend has those of one operator each."""
    path = tmp_path / "ops_converters" / "number_converter.py"
    path.parent.mkdir()
    path.write_text(CHECKS)
    return _load(path).Converter


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("node", "scales", "text"),
    [
        (1, (), "`node != 1` with node is 1 (number_converter.py:17)"),
        (11, (), "Numbers above ten are too large: `node > 10` with node is 11 (number_converter.py:24)"),
        (3, (), "Nobody likes 3: `node == 3` with node is 3 (number_converter.py:27)"),
        (4, (1, 3), "`any((scale not in (1, 2) for scale in scales))` with scales is [1, 3] (number_converter.py:34)"),
        (-6, (), "`limits.least > node` with limits.least is -5, node is -6 (number_converter.py:37)"),
        (8, (), "`node % 2 == 0` with node is 9 (number_converter.py:7)"),
        (5, (), "`node % 2 == 0` with node is 5 (number_converter.py:7)"),
        (6, (), "`node == 6` with node is 6 (number_converter.py:46)"),
    ],
    ids=[
        "part of several",
        "comment above",
        "comment inside",
        "loop",
        "attribute",
        "asked",
        "asked and denied",
        "elif",
    ],
)
def test_the_condition_is_told_with_its_comment_and_values(
    converter: Any, node: int, scales: tuple[int, ...], text: str
) -> None:
    assert refusal(converter.is_supported, node, scales) == f"ExecuTorch's NXP backend does not take it: {text}"


def test_a_check_of_another_module_is_named_by_what_it_checks(tmp_path: Path) -> None:
    folder = tmp_path / "ops_converters"
    folder.mkdir()
    (tmp_path / "helpers.py").write_text(CHECKS[: CHECKS.index("class Converter")])
    (folder / "even_converter.py").write_text("def is_supported(node, elsewhere):\n    return elsewhere(node)\n")
    helpers, checks = _load(tmp_path / "helpers.py"), _load(folder / "even_converter.py")
    assert refusal(checks.is_supported, 7, helpers.elsewhere) == (
        "ExecuTorch's NXP backend does not take it: Whether the node is even: `elsewhere(node)` with node is 7 "
        "(even_converter.py:2)"
    )


def test_a_check_without_a_condition_is_told_by_the_question_before_it(converter: Any) -> None:
    assert refusal(converter.is_supported, 2, ()) == (
        "ExecuTorch's NXP backend does not take it: `cls._on_target(node, scales)` with node is 2, scales is [] "
        "(number_converter.py:13)"
    )


def test_a_check_that_is_passed_has_no_reason(converter: Any) -> None:
    assert refusal(lambda: True) == ""
    assert refusal(converter._in_ir, 2) == ""


def test_a_check_whose_source_is_not_there_says_that_it_does_not_say_why() -> None:
    made: dict[str, Callable[[], bool]] = {}
    exec("def check():\n    return False\n", made)
    assert refusal(made["check"]) == "ExecuTorch's NXP backend does not take it, and does not say why"
