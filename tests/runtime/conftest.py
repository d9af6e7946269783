"""Small builds that the tests of this room share; made once per test process."""

from collections.abc import Callable
from pathlib import Path

import pytest

Build = Callable[[str], Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Gives the build directory of a model of `models.py` in this folder, by the model's name."""
    parent = tmp_path_factory.mktemp("builds")

    def build_once(name: str) -> Path:
        output = parent / name
        if not output.exists():
            from tests.runtime import models

            from deuteron import api

            module, inputs, options = models.MODELS[name]()
            api.build(module, inputs, output=output, options=options, calibration=[inputs])
        return output

    return build_once
