"""Pytest plugin that makes tests of ExecuTorch take less time; it imports PyTorch before any of them is collected."""

import gc
from collections.abc import Generator

import pytest

from deuteron.frontend import upstream_caches


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spares the imports what takes long for no reason."""
    with upstream_caches.importing():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """Lets PyTorch work out once what it would for each program of each test; no byte of a program changes by it."""
    with upstream_caches.active():
        return (yield)


def pytest_collection_finish() -> None:
    """Lets Python look for unreachable objects seldom, and not among those of imports: a fifth of the tests' time."""
    gc.freeze()
    gc.set_threshold(1_000_000, 20, 100)
