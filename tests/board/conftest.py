"""What the tests of this room share: builds of models, and the firmware compiled for this machine."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests import builds
from tests.board.host import HostFirmware

Built = Callable[[str], Path]


@pytest.fixture(scope="session")
def built() -> Built:
    """Gives the build directory of a model by name: a reference model, or one of `models.py` in this folder."""

    def build(name: str) -> Path:
        from tests.board.models import MODELS

        return builds.network(MODELS[name], name) if name in MODELS else builds.model(name)

    return build


@pytest.fixture(scope="session")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> HostFirmware:
    """The firmware for this machine."""
    return HostFirmware(tmp_path_factory.mktemp("firmware"))
