"""Published times on silicon, and the range that follows from them."""

import math

import pytest

from deuteron.arch import silicon, targets
from deuteron.errors import FormatError

TEXT = """[[neutron-c]]
network = "net"
title = "a network"
target = "imxrt700"
clock = 100_000_000
microseconds = 30
cycles = 2_000
software = "1"
source = "here"
"""


def test_the_ratio_of_a_point():
    (point,) = silicon.parse(TEXT, "neutron-c")
    assert (point.simulated, point.ratio) == (20.0, 1.5)
    assert silicon.parse(TEXT, "other") == ()


def test_the_band_is_least_most_and_geometric_mean():
    band = silicon.band_of([0.5, 2.0, 8.0])
    assert (band.least, band.most, band.points) == (0.5, 8.0, 3)
    assert math.isclose(band.mean, 2.0)
    assert str(band) == (
        "real chips took 0.50 to 8.00 times the simulated time, 2.00 by the geometric mean of 3 published measurements"
    )


def test_every_point_is_of_a_target_of_its_family_and_has_a_source():
    for name in ("imxrt700", "ethos-u65-256"):
        npu = targets.load(name).need_npu()
        points = silicon.published(npu.family)
        assert points
        for point in points:
            assert targets.load(point.target).need_npu().family == npu.family
            assert point.source
            assert point.simulated > 0
    assert len(silicon.published("neutron-c")) == 10


def test_what_nobody_has_published_of_has_no_band():
    assert silicon.band(targets.load("cortex-m33")) is None
    assert silicon.band(targets.load("ethos-u85-256")) is None


def test_a_field_that_is_wrong():
    with pytest.raises(FormatError, match=r"^silicon\.toml, `neutron-c` 0: unknown field `more`$"):
        silicon.parse(TEXT + "more = 1\n", "neutron-c")
    with pytest.raises(FormatError, match=r"^silicon\.toml, `neutron-c` 0: field `cycles` is missing$"):
        silicon.parse(TEXT.replace("cycles", "#"), "neutron-c")
