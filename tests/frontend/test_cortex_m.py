"""The adapter to ExecuTorch's Cortex-M backend."""

import importlib.util
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from deuteron.errors import UnsupportedError
from deuteron.frontend.cortex_m import backend as cortex_m
from deuteron.frontend.cortex_m import upstream


def test_the_backend_is_imported_without_the_package_that_it_does_not_need() -> None:
    installed = importlib.util.find_spec("tosa_serializer") is not None
    upstream.load()
    assert hasattr(torch.ops.cortex_m, "quantized_conv2d")
    assert ("tosa_serializer" in sys.modules) == installed


class Doubled(nn.Module):
    """One operator."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2


CAUSE = """a table takes int8

While executing %mul
Original traceback:
  File "net.py", line 10, in forward
    return x * 2
"""


def test_what_the_backend_fails_at_is_told_by_its_innermost_cause_and_line(monkeypatch: pytest.MonkeyPatch) -> None:
    upstream.load()
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager

    def transform(_: object) -> None:
        try:
            raise AssertionError(CAUSE)
        except AssertionError as e:
            raise RuntimeError("An error occurred when running a pass after the following passes: []") from e

    monkeypatch.setattr(CortexMPassManager, "transform", transform)
    edge = SimpleNamespace(_edge_programs={"forward": torch.export.export(Doubled(), (torch.zeros(3),))})
    with pytest.raises(UnsupportedError) as caught:
        cortex_m.lower(edge, "cortex-m33")
    assert str(caught.value) == (
        "net.py:10: ExecuTorch's Cortex-M backend cannot lower this model: AssertionError: a table takes int8, at "
        "`return x * 2`\n\nhint: run again with `-v` to see its log"
    )
