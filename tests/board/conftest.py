"""What the tests of this room share: builds of models, and the firmware compiled for this machine."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.board.host import HostFirmware

Built = Callable[[str], Path]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Gives the build directory of a model by name: a reference model, or one of `models.py` in this folder."""
    parent = tmp_path_factory.mktemp("built")

    def build_once(name: str) -> Path:
        output = parent / name
        if not output.exists():
            from tests.board import models

            from deuteron import api

            if name in models.MODELS:
                module, inputs, options = models.MODELS[name]()
                api.build(module, inputs, output=output, options=options, calibration=[inputs], name=name)
            else:
                api.build_model(name, output=output)
        return output

    return build_once


@pytest.fixture(scope="session")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> HostFirmware:
    """The firmware for this machine."""
    return HostFirmware(tmp_path_factory.mktemp("firmware"))
