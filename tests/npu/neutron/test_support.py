"""The table of operators: complete, and true of ExecuTorch's registry; the page in the documentation is current."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deuteron.npu.neutron import support
from deuteron.npu.neutron.edge_operators import EDGE_OPERATORS
from deuteron.npu.neutron.kernels.catalogue import KERNELS
from deuteron.npu.neutron.tflite.operators.table import LOWERINGS as READERS

ROOT = Path(__file__).resolve().parents[3]

REGISTRY = """\
import json, pathlib, sys
from deuteron.npu.neutron import sdk
sdk.install(sdk.Session(pathlib.Path(sys.argv[1])))
from deuteron.frontend.backends.neutron import tables
from executorch.backends.nxp.backend.edge_program_converter import functions_converters
with tables.registered():
    print(json.dumps([str(edge) for edge in functions_converters]))
"""

WITHOUT_EDGE = {"EXPAND_DIMS", "QUANTIZE", "SQUEEZE", "STRIDED_SLICE"}
"""Operators that other exporters write; a QUANTIZE can come with any edge operator."""


@pytest.mark.slow
@pytest.mark.full
def test_the_edge_operators_are_those_of_executorch(tmp_path: Path):
    done = subprocess.run([sys.executable, "-c", REGISTRY, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    registered: list[str] = json.loads(done.stdout.splitlines()[-1])
    names = {match[1] for text in registered if (match := re.match(r"<EdgeOpOverload: (\S+)>", text))}
    assert len(names) == len(registered)
    assert {name for name in names if not name.startswith("quantized_decomposed.")} == set(EDGE_OPERATORS)


def test_every_edge_operator_arrives_as_operators_that_are_taken():
    arriving = {name for names in EDGE_OPERATORS.values() for name in names}
    assert arriving == set(READERS) - WITHOUT_EDGE


def test_every_operator_has_conditions_and_kernels():
    table = support.operators()
    assert [op.name for op in table] == sorted(READERS)
    for op in table:
        sentences = (*op.conditions, *support.general())
        assert len(set(sentences)) == len(sentences), op.name
        for sentence in sentences:
            assert sentence[0].isupper(), op.name
            assert sentence.endswith("."), op.name
            assert "None" not in sentence, op.name
        assert op.kernels, op.name


def test_every_kernel_runs_some_operator():
    assert {kernel for op in support.operators() for kernel in op.kernels} == {kernel.name for kernel in KERNELS}


def test_the_conditions_of_an_operator_come_from_every_stage():
    (found,) = (op for op in support.operators() if op.name == "AVERAGE_POOL_2D")
    assert found.edge == ("aten._adaptive_avg_pool2d.default", "aten.avg_pool2d.default")
    assert found.conditions[0] == "SAME or VALID padding; fused activations as listed."
    assert "Pads are at least 0 and below the extent of the window." in found.conditions
    assert "The window of an average pool has at most 8,388,608 elements." in found.conditions
    assert found.kernels == ("average_pool_s8",)


def test_the_page_in_the_documentation_is_current():
    page = (ROOT / "docs" / "reference" / "operators.md").read_text("utf-8")
    hint = "write it again: deuteron ops --markdown > docs/reference/operators.md"
    assert page.startswith(support.markdown("imxrt700")), hint


def test_the_page_is_a_table_with_four_columns():
    rows = [line for line in support.markdown("imxrt700").splitlines() if line.startswith("|")]
    assert len(rows) == len(READERS) + 2
    assert {row.count("|") for row in rows} == {5}
