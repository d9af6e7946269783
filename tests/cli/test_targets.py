"""`deuteron targets`: text and JSON."""

import json
from collections.abc import Callable

from .conftest import Result

Run = Callable[..., Result]

TEXT = """\
cortex-m0plus  Arm Cortex-M0+
  cpu cortex-m0plus: all of a model, as int8 operators
cortex-m3  Arm Cortex-M3
  cpu cortex-m3: all of a model, as int8 operators
cortex-m33  Arm Cortex-M33
  cpu cortex-m33: all of a model, as int8 operators
cortex-m4  Arm Cortex-M4
  cpu cortex-m4: all of a model, as int8 operators
cortex-m55  Arm Cortex-M55
  cpu cortex-m55: all of a model, as int8 operators
cortex-m7  Arm Cortex-M7
  cpu cortex-m7: all of a model, as int8 operators
cortex-m85  Arm Cortex-M85
  cpu cortex-m85: all of a model, as int8 operators
ethos-u55-128  Arm Ethos-U55, 128 MACs
  npu ethos-u55-128: int8 partitions of a model
  cpu cortex-m55: what the NPU does not take, as ExecuTorch's portable operators
  ethos-u55-128 MACs                          128 MAC/cycle  quoted      Vela 5.1.0: accelerator configuration ethos-u55-128
"""  # noqa: E501 - as it is printed


def test_text(deuteron: Run):
    result = deuteron("targets")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(TEXT)
    clock = "  neutron-c-n3-64 clock                      324,000,000 Hz  quoted      MCUXpresso SDK examples "
    assert clock in result.out


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
