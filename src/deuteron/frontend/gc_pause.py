"""How often Python looks for objects that hold each other and nobody else holds."""

import gc
from collections.abc import Generator
from contextlib import contextmanager

THRESHOLD = 10_000_000
"""New objects between two looks: builds of ordinary models make fewer, and few of theirs would go before the end."""


@contextmanager
def seldom_collecting() -> Generator[None]:
    """Lets Python look seldom for a while, as suits code that loads PyTorch or makes graphs."""
    thresholds = gc.get_threshold()
    gc.set_threshold(THRESHOLD, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
