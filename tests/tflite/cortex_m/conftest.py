"""Fixtures of the tests of TFLite's operators on a Cortex-M."""

import pytest
from tests.cortex_m.operator_library import OperatorLibrary

from deuteron.arch.cores import InnerWork


@pytest.fixture(scope="session")
def c_operators() -> OperatorLibrary:
    """The C operators, compiled for this machine with the checks of undefined behaviour."""
    return OperatorLibrary(InnerWork.PORTABLE)
