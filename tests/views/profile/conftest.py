"""Small builds with profiling, made once per test process."""

from collections.abc import Callable
from pathlib import Path

import pytest

Build = Callable[[str], Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Gives the build directory of a network of `networks.py` in this folder, by its name."""
    parent = tmp_path_factory.mktemp("builds")

    def build_once(name: str) -> Path:
        output = parent / name
        if not output.exists():
            import torch
            from tests.views.profile.networks import NETWORKS

            from deuteron import api

            torch.manual_seed(0)
            x = torch.randn(1, 4, 16, 16)
            options = api.BuildOptions(use_profiling=True)
            api.build(NETWORKS[name](), (x,), output=output, options=options, calibration=[(x,)], name=name)
        return output

    return build_once
