"""The reference's table of TFLite operators."""

from pathlib import Path

import pytest

from deuteron.npu.neutron import support
from deuteron.tflite.cortex_m import supported_operators
from deuteron.tflite.cortex_m.operator_table import VELA, markdown
from deuteron.tflite.cortex_m.unsupported_hints import ALTERNATIVES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "operators.md"


def test_the_page_has_the_table() -> None:
    written = markdown({op.name for op in support.operators()})
    hint = "write it again: deuteron ops --markdown > docs/reference/operators.md"
    assert PAGE.read_text("utf-8").endswith(written), hint


def test_a_row_says_where_an_operator_runs() -> None:
    rows = markdown({"SOFTMAX"}).splitlines()
    assert "| SOFTMAX | int8, int16, float32 |  | NPU, int16: CPU | NPU |" in rows
    assert "| CUMSUM | int8, float32, int32, int64 | constant axis | CPU | CPU |" in rows


def test_what_has_a_rewrite_is_not_taken() -> None:
    taken = {row.name for row in supported_operators()}
    assert not taken & {name for names in ALTERNATIVES for name in names.split(", ")}


def test_vela_names_its_operators() -> None:
    """Vela compiles LOG, too, which its list lacks."""
    pytest.importorskip("ethosu.vela")
    from ethosu.vela.tflite_mapping import optype_to_builtintype
    from ethosu.vela.tflite_supported_operators import TFLiteSupportedOperators

    named = {optype_to_builtintype(kind) for kind in TFLiteSupportedOperators.supported_operators}
    assert named - {"UNKNOWN"} | {"LOG"} == VELA
