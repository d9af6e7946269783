"""A slice of the bench of NPU and Cortex-M, and when this and the bench of training tell that something is wrong."""

from dataclasses import replace

import pytest
from benches import npu_and_cortex_m, qat
from tests import full

ROW = npu_and_cortex_m.Row("m", "PTQ", "imxrt700cm", 3, 2, 100, 20, 4, 0, 0, 1.0, 0, ())


def test_what_is_not_its_reference_is_told() -> None:
    assert ROW.agrees
    assert not replace(ROW, npu_differs=1).agrees
    assert not replace(ROW, program_differs=1).agrees
    assert not replace(ROW, broken=("partition 0: ran 3 times on 4 samples",)).agrees


def test_outputs_of_the_npu_alone_may_differ_by_ties_only() -> None:
    alone = replace(ROW, cpu_nodes=0, cpu_macs=0)
    assert replace(alone, steps=0.0).agrees
    assert not alone.agrees
    assert replace(alone, ties=1).agrees


def test_each_seed_has_to_make_good_for_half_of_what_was_lost() -> None:
    good = qat.Row("cortex-m33", 0, float32=0.9, trained_on=0.9, ptq=0.8, qat=0.87)
    same = qat.Row("cortex-m33", 1, float32=0.9, trained_on=0.9, ptq=0.9, qat=0.88)
    little = qat.Row("cortex-m33", 2, float32=0.9, trained_on=0.9, ptq=0.8, qat=0.84)
    assert good.made_good == pytest.approx(0.7)
    assert same.made_good == 1
    assert qat.problems([good, same]) == []
    assert qat.problems([good, little]) == ["QAT makes good for 40% of what PTQ loses on cortex-m33 with seed 2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "target", "mode"),
    full.first(  # the bench takes all; by PTQ for both processors they are compared in `tests/board/test_combined.py`
        [("refused_middle", "imxrt700cm", "QAT"), ("mobilenet_v3_blocks", "cortex-m33", "PTQ")], 1
    ),
)
@pytest.mark.full
def test_a_mixed_network_agrees_with_its_reference(model: str, target: str, mode: str) -> None:
    found = npu_and_cortex_m.row(model, mode, target)
    assert found.agrees, found
    assert (found.npu_nodes > 0) == (found.npu_macs > 0) == (target == "imxrt700cm")
    assert found.cpu_nodes > 0
