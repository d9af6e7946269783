"""Small builds that the tests of the runtime share."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests import store

Build = Callable[[str], Path]


@pytest.fixture(scope="session")
def build() -> Build:
    """Gives the build directory of a model of `models.py` in this folder, by the model's name."""

    def build(name: str) -> Path:
        from tests.runtime.models import MODELS

        return store.network(MODELS[name], name)

    return build
