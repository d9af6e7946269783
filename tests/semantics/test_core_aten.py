"""PyTorch's core ATen operators: each has a case, builds for two targets and agrees, or is refused with a remedy."""

import pytest
import torch
from semantic_cases import core_aten
from semantic_cases.case import Case
from semantic_judge import Verdict, row
from tests import full

CASES = {case.name.partition(".")[2]: case for case in core_aten.CASES}
TARGETS = ("cortex-m55", "ethos-u55-128")


def _core() -> set[str]:
    """The names of the operators that PyTorch marks as core, of those that this process has looked up."""
    packets = [getattr(torch.ops.aten, name) for name in dir(torch.ops.aten)]
    return {
        packet.__name__
        for packet in packets
        if isinstance(packet, torch._ops.OpOverloadPacket)
        if any(torch.Tag.core in getattr(packet, name).tags for name in packet.overloads())
    }


def test_each_core_operator_has_a_case_or_a_reason() -> None:
    known = CASES.keys() | core_aten.NO_VALUES.keys()
    for name in known:
        getattr(torch.ops.aten, name)
    assert _core() == known


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
@pytest.mark.full
def test_it_agrees_or_is_refused(case: Case, target: str) -> None:
    found = row(case, target)
    assert found.verdict in (Verdict.AGREES, Verdict.POOR, Verdict.REFUSED), found.text


@pytest.mark.parametrize("name", full.first(["cumsum", "native_group_norm", "scatter", "addmm", "gather", "var"], 3))
def test_a_few_agree(name: str) -> None:
    found = row(CASES[name], "cortex-m55")
    assert found.verdict == Verdict.AGREES, found.text
