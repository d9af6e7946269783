"""The map from kernels to operators, held against which kernel changes with an operator."""

import pytest
from tests import full
from tests.views.profile.conftest import Build
from tests.views.profile.networks import NETWORKS
from tests.views.profile.perturb import confirmed


@pytest.mark.slow
@pytest.mark.parametrize("name", full.only(NETWORKS, "residual", "concat"))
def test_every_kernel_computes_what_the_map_says(build: Build, name: str):
    direct, found, kernels = confirmed(build(name))
    assert found == kernels > 0
    assert 0 < direct <= found
