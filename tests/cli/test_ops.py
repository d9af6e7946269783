"""`deuteron ops`: the table of operators as text, JSON and Markdown."""

import json
from collections.abc import Callable
from pathlib import Path

from deuteron.arch import targets
from deuteron.npu.neutron import support

from .conftest import Result

Run = Callable[..., Result]

GENERAL = """\
all operators
  Operands and results are i8 with quantization.
  The result has the shape that the operator gives.
  Quantization is per tensor, but for weights and their biases.
  A clamp is an interval within -128..127.
  Fused activations are NONE, RELU, RELU_N1_TO_1, RELU6.
"""


def test_operators_are_found_by_their_name_and_their_edge_operator(deuteron: Run):
    sigmoid = """\
LOGISTIC  from aten.sigmoid.default
  Any quantization of input and output.
  kernels: lut_s8
"""
    assert deuteron("ops", "logistic") == deuteron("ops", "aten.SIGMOID") == Result(0, GENERAL + sigmoid, "")
    names = [line.split()[0] for line in deuteron("ops", "squeeze", "mean").out.splitlines() if "  from " in line]
    assert names == ["MEAN", "SQUEEZE"]
    assert "SQUEEZE  from no edge operator\n" in deuteron("ops", "squeeze").out


def test_all_of_them(deuteron: Run):
    result = deuteron("ops")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(GENERAL + "ABS  from aten.abs.default\n")
    names = [line.split()[0] for line in result.out.splitlines() if "  from " in line]
    assert names == [op.name for op in support.operators()]


def test_json(deuteron: Run):
    found = json.loads(deuteron("ops", "softmax", "--json").out)
    assert found == {
        "schema": 1,
        "target": "imxrt700",
        "general": list(support.general()),
        "operators": [
            {
                "name": "SOFTMAX",
                "edge": ["aten._softmax.default"],
                "conditions": list(next(op.conditions for op in support.operators() if op.name == "SOFTMAX")),
                "kernels": ["softmax_s8"],
            }
        ],
    }


def test_markdown_is_the_page_of_the_documentation(deuteron: Run):
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "operators.md"
    assert deuteron("ops", "--markdown").out == page.read_text("utf-8")


def test_an_operator_that_is_not_taken(deuteron: Run):
    err = (
        "error: no operator that the NPU takes contains `gelu` or `erf`\n\n"
        "hint: `deuteron ops` lists all of them; close to that is `relu`\n"
    )
    assert deuteron("ops", "gelu", "erf") == Result(2, "", err)


def test_a_name_with_a_slip(deuteron: Run):
    err = (
        "error: no operator that the NPU takes contains `covn`\n\n"
        "hint: `deuteron ops` lists all of them; close to that is `conv`\n"
    )
    assert deuteron("ops", "covn") == Result(2, "", err)


def test_a_target_that_there_is_not(deuteron: Run):
    assert deuteron("ops", "--target", "x") == Result(
        2,
        "",
        f"error: unknown target `x`\n\nhint: the targets are {', '.join(f'`{name}`' for name in targets.names())}\n",
    )
