"""`deuteron targets`: the table, the figures of one target, and JSON."""

import json
from collections.abc import Callable

from deuteron.arch import targets

from .conftest import Result

Run = Callable[..., Result]

TABLE = """\
target           NPU              CPU            CPU operators
cortex-m0plus    none             cortex-m0plus  cortex-m
cortex-m3        none             cortex-m3      cortex-m
"""

FIGURES = """\
imxrt700  NXP i.MX RT700
  npu neutron-c-n3-64: int8 partitions of a model
  cpu cortex-m33: operators that the NPU does not support, as ExecuTorch's portable operators
"""


def test_table(deuteron: Run):
    result = deuteron("targets")
    assert (result.code, result.err) == (0, "`deuteron targets NAME` shows the figures of a target and their sources\n")
    assert result.out.startswith(TABLE)
    assert "\nethos-u55-128cm  ethos-u55-128    cortex-m55     cortex-m\n" in result.out
    assert len(result.out.splitlines()) == 1 + len(targets.names())


def test_figures(deuteron: Run):
    result = deuteron("targets", "imxrt700")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(FIGURES)
    clock = "  neutron-c-n3-64 clock                      324,000,000 Hz  quoted      MCUXpresso SDK examples "
    assert clock in result.out
    cpu = deuteron("targets", "cortex-m3").out
    assert cpu == "cortex-m3  Arm Cortex-M3\n  cpu cortex-m3: all operators, as int8 operators\n"


def test_json_of_one_target(deuteron: Run):
    one = json.loads(deuteron("targets", "mcxn947", "--json").out)
    assert one["targets"] == [json.loads(deuteron("targets", "--json").out)["targets"][-1]]


def test_json(deuteron: Run):
    result = deuteron("targets", "--json")
    report = json.loads(result.out)
    assert (result.code, report["schema"]) == (0, 1)
    *cpus, target, combined, other = report["targets"]
    m33 = cpus[2]
    assert (m33["name"], m33["npu"], m33["cpu"], m33["figures"]) == ("cortex-m33", None, "cortex-m33", [])
    assert (target["name"], target["npu"], target["cpu"]) == ("imxrt700", "neutron-c-n3-64", "cortex-m33")
    assert (target["cpu_operators"], combined["cpu_operators"]) == ("portable", "cortex-m")
    assert combined["figures"] == target["figures"]
    assert (other["name"], other["npu"], other["cpu"]) == ("mcxn947", "neutron-c-n1-16", "cortex-m33")
    assert target["memories"][1] == {"name": "xspi0", "kind": "flash", "npu_access": False}
    assert {"name": "prefetch area", "value": 1228800, "unit": "B", "certainty": "quoted"}.items() <= target["figures"][
        -1
    ].items()
