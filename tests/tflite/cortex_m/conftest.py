"""What the tests of TFLite's operators on a Cortex-M share."""

import pytest
from tests.cortex_m.bench import Bench

from deuteron.arch.cores import InnerWork


@pytest.fixture(scope="session")
def bench() -> Bench:
    """The C operators, compiled for this machine with the checks of undefined behaviour."""
    return Bench(InnerWork.PORTABLE)
