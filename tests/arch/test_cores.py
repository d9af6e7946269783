"""The costs of operators on CPU cores: the figures and the closed form."""

import pytest

from deuteron.arch import cores, targets
from deuteron.arch.cores import InnerWork, Work
from deuteron.arch.targets import Certainty, CpuOperators

UNCOUNTED = {Work.NOTHING, Work.UNKNOWN, Work.RECURRENT}


@pytest.mark.parametrize("name", [n for n in targets.names() if targets.load(n).cpu.operators is CpuOperators.CORTEX_M])
def test_every_core_with_int8_operators_has_figures_for_all_work(name: str):
    core = cores.load(targets.load(name).cpu.name)
    assert set(core.rates) == set(Work) - UNCOUNTED - ({Work.WINOGRAD} if core.inner is not InnerWork.DSP else set())
    assert all(rate.term is not None for work, rate in core.rates.items() if work.multiplies)
    assert all("benches/cpu_costs.py" in rate.element.source for rate in core.rates.values())


@pytest.mark.parametrize(
    ("name", "nearest", "inner"),
    [
        ("cortex-m0plus", "cortex-m3", InnerWork.PORTABLE),
        ("cortex-m4", "cortex-m33", InnerWork.DSP),
        ("cortex-m85", "cortex-m55", InnerWork.MVE),
    ],
)
def test_a_core_that_nobody_has_counted_on_says_whose_figures_it_has(name: str, nearest: str, inner: InnerWork):
    core, counted = cores.load(name), cores.load(nearest)
    assert (core.name, core.inner) == (name, inner)
    assert core.instructions(Work.CONVOLUTION, 10, 100) == counted.instructions(Work.CONVOLUTION, 10, 100)
    figure = core.rates[Work.LINEAR].element
    assert figure.certainty is Certainty.UNVERIFIED
    assert figure.source.startswith(f"taken from the {nearest}, the nearest core with figures: ")


def test_a_core_runs_what_is_made_for_less():
    can = {a: {b for b in InnerWork if a.has(b)} for a in InnerWork}
    portable, dsp, mve = InnerWork
    assert can == {portable: {portable}, dsp: {portable, dsp}, mve: {portable, dsp, mve}}


def test_the_closed_form():
    core = cores.load("cortex-m33")
    rate = core.rates[Work.LINEAR]
    assert rate.term is not None
    parts = 10 * rate.element.value + 640 * rate.term.value
    assert core.instructions(Work.LINEAR, 10, 640) == core.call.value + -(-parts // 1000)
    assert core.instructions(Work.TABLE, 0) == core.call.value


def test_what_takes_nothing_and_what_nobody_has_counted():
    core = cores.load("cortex-m55")
    assert core.instructions(Work.NOTHING, 1000, 1000) == 0
    assert core.instructions(Work.UNKNOWN, 1000) is None
