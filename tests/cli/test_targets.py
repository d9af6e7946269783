"""`deuteron targets`: text and JSON."""

import json
from collections.abc import Callable

from .conftest import Result

Run = Callable[..., Result]

TEXT = """\
imxrt700  NXP i.MX RT700
  neutron-c-n3-64 hardware version                        2  quoted      ExecuTorch, backends/nxp: NeutronHWVersion.N3
"""


def test_text(deuteron: Run):
    result = deuteron("targets")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(TEXT)
    clock = "  neutron-c-n3-64 clock                      325,000,000 Hz  unverified  no published figure; "
    assert clock in result.out


def test_json(deuteron: Run):
    result = deuteron("targets", "--json")
    report = json.loads(result.out)
    assert (result.code, report["schema"]) == (0, 1)
    (target,) = report["targets"]
    assert (target["name"], target["npu"], target["cpu"]) == ("imxrt700", "neutron-c-n3-64", "cortex-m33")
    assert target["memories"][1] == {"name": "xspi0", "kind": "flash", "npu_access": False}
    assert {"name": "prefetch area", "value": 1228800, "unit": "B", "certainty": "quoted"}.items() <= target["figures"][
        -1
    ].items()
