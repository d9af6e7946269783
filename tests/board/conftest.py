"""Fixtures of the board tests: builds of models, and the firmware compiled for this machine."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests import store
from tests.board.host import HostFirmware, command, compile_library

Built = Callable[[str], Path]


@pytest.fixture(scope="session")
def built() -> Built:
    """Gives the build directory of a model by name: a reference model, or one of `models.py` in this folder."""

    def build(name: str) -> Path:
        from tests.board.models import MODELS

        return store.network(MODELS[name], name) if name in MODELS else store.model(name)

    return build


@pytest.fixture(scope="session")
def firmware() -> HostFirmware:
    """The firmware for this machine."""
    return HostFirmware(store.kept(command("cc", "--version"), compile_library, name="firmware"))
