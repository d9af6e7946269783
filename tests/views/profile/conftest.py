"""Small builds with profiling."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import store

Build = Callable[[str], Path]


@pytest.fixture(scope="session")
def build() -> Build:
    """Gives the build directory of a network of `networks.py` in this folder, by its name."""

    def build(name: str) -> Path:
        def make() -> tuple[Any, Any, Any]:
            import torch
            from tests.views.profile.networks import NETWORKS

            from deuteron import api

            torch.manual_seed(0)
            x = torch.randn(1, 4, 16, 16)
            return NETWORKS[name](), (x,), api.BuildOptions(use_profiling=True)

        return store.network(make, name)

    return build
