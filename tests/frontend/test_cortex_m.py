"""The adapter to ExecuTorch's Cortex-M backend."""

import importlib.util
import sys

import torch

from deuteron.frontend import cortex_m


def test_the_backend_is_imported_without_the_package_that_it_does_not_need() -> None:
    installed = importlib.util.find_spec("tosa_serializer") is not None
    cortex_m.load()
    assert hasattr(torch.ops.cortex_m, "quantized_conv2d")
    assert ("tosa_serializer" in sys.modules) == installed
