"""Fixtures of the tests of Cortex-M operators."""

from typing import cast

import pytest
from tests.cortex_m.operator_library import OperatorLibrary

from deuteron.arch.cores import InnerWork
from deuteron.frontend.cortex_m import upstream


@pytest.fixture(scope="session", params=[InnerWork.PORTABLE, InnerWork.DSP], ids=lambda inner: inner.value)
def c_operators(request: pytest.FixtureRequest) -> OperatorLibrary:
    """The operators, compiled for this machine, with either inner work that it can run."""
    upstream.load()
    return OperatorLibrary(cast(InnerWork, request.param))


@pytest.fixture(params=range(4))
def seed(request: pytest.FixtureRequest) -> int:
    """Seeds of random calls; the C tests make thousands more of each operator."""
    return cast(int, request.param)
