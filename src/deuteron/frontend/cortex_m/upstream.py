"""ExecuTorch's Cortex-M backend as it is loaded, and what its quantiser marks; private names of the wheel's.

Its modules import Arm's TOSA backend, and with it a package `tosa_serializer` that a plain installation lacks and whose
own requirements clash with ExecuTorch's. Nothing that we use calls it: for the length of the import a placeholder has
its name.
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

from deuteron.frontend.cortex_m.definitions import complete
from deuteron.frontend.executorch_release import check_executorch
from deuteron.frontend.log_suppression import quiet

_TOSA = "tosa_serializer"


@cache
def load() -> None:
    """Import the backend, after which `torch.ops.cortex_m` has its operators with their definitions.

    Raises:
        MissingToolError: when ExecuTorch is not installed, or in a release that this adapter does not know.
    """
    check_executorch()
    with quiet(), _tosa():
        importlib.import_module("executorch.backends.cortex_m.passes")  # first: others import it in a circle
        importlib.import_module("executorch.backends.cortex_m.ops.operators")
        importlib.import_module("executorch.backends.cortex_m.quantizer.quantizer")
        complete()


def measured() -> Any:
    """The specification that measures the range of a tensor."""
    load()
    from executorch.backends.cortex_m.quantizer.quantization_configs import INT8_PER_TENSOR_CONFIG

    return INT8_PER_TENSOR_CONFIG.get_input_act_qspec()


def measured_wide() -> Any:
    """The specification that measures the range of a tensor for int16."""
    load()
    from executorch.backends.cortex_m.quantizer.quantization_configs import INT16_ACTIVATION_PER_TENSOR_QSPEC

    return INT16_ACTIVATION_PER_TENSOR_QSPEC


def weights() -> Any:
    """The specification of a layer's weights, with a scale for each output channel."""
    load()
    from executorch.backends.cortex_m.quantizer.quantization_configs import INT8_WEIGHT_PER_CHANNEL_QSPEC

    return INT8_WEIGHT_PER_CHANNEL_QSPEC


def adds_or_multiplies(node: fx.Node) -> bool:
    """True for arithmetic of two tensors that the backend's own operators compute, in the order of memory they have."""
    load()
    from executorch.backends.cortex_m.quantizer.pattern_checkers import CortexMAddMulCheck

    return CortexMAddMulCheck.check_pattern([node])


def share() -> Any:
    """The specification of a softmax's results."""
    load()
    from executorch.backends.cortex_m.quantizer.quantization_configs import SOFTMAX_OUTPUT_FIXED_QSPEC

    return SOFTMAX_OUTPUT_FIXED_QSPEC


def is_quantised(node: fx.Node) -> bool:
    """True for a node that `annotate` or the backend's own quantiser has marked."""
    load()
    from executorch.backends.arm.common.annotation_meta import ArmAnnotationInfo

    info = node.meta.get("custom", {}).get(ArmAnnotationInfo.CUSTOM_META_KEY)
    return info is not None and ArmAnnotationInfo(info).quantized


class _AnyName(type):
    """The type of classes that have every attribute: a class of that name."""

    def __getattr__(cls, name: str) -> type:
        return _named(name)


def _named(name: str) -> type:
    if name.startswith("__"):  # what Python itself looks for decides how it treats a class or module
        raise AttributeError(name)
    return _AnyName(name, (), {})


@contextmanager
def _tosa() -> Generator[None]:
    """Lets modules import `tosa_serializer` and use its names in annotations, whether or not it is installed."""
    if _TOSA in sys.modules or importlib.util.find_spec(_TOSA) is not None:
        yield
        return
    placeholder = ModuleType(_TOSA, "Stands for the package while modules that only name its types are imported.")
    placeholder.__getattr__ = _named  # pyright: ignore[reportAttributeAccessIssue]  # PEP 562
    sys.modules[_TOSA] = placeholder
    try:
        yield
    finally:
        del sys.modules[_TOSA]
