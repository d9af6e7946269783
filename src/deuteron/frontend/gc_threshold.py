"""Reduces how often Python's garbage collector runs."""

import gc
from collections.abc import Generator
from contextlib import contextmanager

THRESHOLD = 10_000_000
"""New objects between two collections. Builds of ordinary models make fewer, and few could be freed before the end."""


@contextmanager
def rare_collections() -> Generator[None]:
    """Make garbage collections rare in a context that loads PyTorch or builds graphs."""
    thresholds = gc.get_threshold()
    gc.set_threshold(THRESHOLD, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
