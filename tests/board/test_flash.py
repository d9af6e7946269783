"""The flash that an emulator stands in for: the target's, what a build was planned for, or what is asked for."""

import pytest

from deuteron.arch.memory import MemoryOptions
from deuteron.board.flash import Flash, FlashOptions, planned_for
from deuteron.errors import OptionError


def test_the_targets_figures_and_what_the_build_was_planned_for():
    assert planned_for("imxrt700", MemoryOptions()) == Flash(200, 400_000_000)
    assert planned_for("imxrt700", MemoryOptions(flash_bandwidth=5)) == Flash(200, 5)
    assert planned_for("cortex-m33", MemoryOptions()) == Flash(0, 0)


def test_what_is_asked_for_takes_the_place_of_the_figures():
    flash = Flash(200, 400_000_000)
    assert FlashOptions().of(flash) == flash
    assert FlashOptions(latency_ns=0).of(flash) == Flash(0, 400_000_000)
    assert FlashOptions(bandwidth=0).of(flash) == Flash(200, 0)
    assert FlashOptions(1, (1 << 32) - 1).of(flash) == Flash(1, (1 << 32) - 1)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"latency_ns": -1}, "`--flash-latency-ns` is -1, it must be at least 0 and below 2^32"),
        ({"latency_ns": 1 << 32}, "`--flash-latency-ns` is 4,294,967,296, it must be at least 0 and below 2^32"),
        ({"bandwidth": 1 << 32}, "`--flash-bandwidth` is 4,294,967,296, it must be at least 0 and below 2^32"),
    ],
)
def test_figures_that_the_image_cannot_take(values: dict[str, int], error: str):
    with pytest.raises(OptionError) as caught:
        FlashOptions(**values)
    assert str(caught.value) == error
