"""Imports ExecuTorch's Cortex-M backend and returns the specifications of its quantizer.

The backend imports Arm's TOSA backend, which imports the package `tosa_serializer`. A plain installation lacks that
package, and its requirements conflict with ExecuTorch's. Nothing that we use calls it, so a placeholder replaces it
during the import.
"""

import importlib
import importlib.util
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

from torch import fx

from deuteron.frontend.cortex_m.definitions import complete_definitions
from deuteron.frontend.executorch_release import check_executorch
from deuteron.frontend.log_suppression import quiet

_TOSA = "tosa_serializer"


@cache
def load() -> None:
    """Import the backend, which registers its operators as `torch.ops.cortex_m` and their definitions.

    Raises:
        MissingToolError: ExecuTorch is not installed, or its release is not supported.
    """
    check_executorch()
    with quiet(), _tosa():
        importlib.import_module("executorch.backends.cortex_m.passes")  # first, because of a circular import
        importlib.import_module("executorch.backends.cortex_m.ops.operators")
        importlib.import_module("executorch.backends.cortex_m.quantizer.quantizer")
        complete_definitions()


def activation_spec() -> Any:
    """The quantization specification of int8 activations."""
    load()
    from executorch.backends.cortex_m.quantizer.quantization_configs import INT8_PER_TENSOR_CONFIG

    return INT8_PER_TENSOR_CONFIG.get_input_act_qspec()


def int16_activation_spec() -> Any:
    """The quantization specification of int16 activations."""
    load()
    from executorch.backends.cortex_m.quantizer.quantization_configs import INT16_ACTIVATION_PER_TENSOR_QSPEC

    return INT16_ACTIVATION_PER_TENSOR_QSPEC


def weight_spec() -> Any:
    """The quantization specification of int8 weights, with one scale per output channel."""
    load()
    from executorch.backends.cortex_m.quantizer.quantization_configs import INT8_WEIGHT_PER_CHANNEL_QSPEC

    return INT8_WEIGHT_PER_CHANNEL_QSPEC


def adds_or_multiplies(node: fx.Node) -> bool:
    """True for an addition or multiplication of two tensors that the backend's own operators compute."""
    load()
    from executorch.backends.cortex_m.quantizer.pattern_checkers import CortexMAddMulCheck

    return CortexMAddMulCheck.check_pattern([node])


def softmax_output_spec() -> Any:
    """The quantization specification of softmax results."""
    load()
    from executorch.backends.cortex_m.quantizer.quantization_configs import SOFTMAX_OUTPUT_FIXED_QSPEC

    return SOFTMAX_OUTPUT_FIXED_QSPEC


def is_quantized(node: fx.Node) -> bool:
    """True for a node that `annotate` or the backend's quantizer has annotated."""
    load()
    from executorch.backends.arm.common.annotation_meta import ArmAnnotationInfo

    info = node.meta.get("custom", {}).get(ArmAnnotationInfo.CUSTOM_META_KEY)
    return info is not None and ArmAnnotationInfo(info).quantized


class _AnyName(type):
    """Metaclass of classes that have every attribute: each is another such class."""

    def __getattr__(cls, name: str) -> type:
        return _named(name)


def _named(name: str) -> type:
    if name.startswith("__"):  # Python itself looks for these
        raise AttributeError(name)
    return _AnyName(name, (), {})


@contextmanager
def _tosa() -> Generator[None]:
    """Make `tosa_serializer` importable, with names for annotations only, if it is not installed."""
    if _TOSA in sys.modules or importlib.util.find_spec(_TOSA) is not None:
        yield
        return
    placeholder = ModuleType(_TOSA, "Replaces the package for modules that only use its types in annotations.")
    placeholder.__getattr__ = _named  # pyright: ignore[reportAttributeAccessIssue]  # PEP 562
    sys.modules[_TOSA] = placeholder
    try:
        yield
    finally:
        del sys.modules[_TOSA]
