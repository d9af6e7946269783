"""Options of custom operators, which are FlexBuffers maps."""

from collections.abc import Mapping
from typing import Any, cast

from flatbuffers import flexbuffers  # pyright: ignore[reportMissingTypeStubs]

DETECTION = "TFLite_Detection_PostProcess"
HINT_CUSTOM = "run the custom operator in the application, before or behind the model"
"""The custom operator behind the detection models of TensorFlow's Object Detection API."""

CIRCULAR_BUFFER = "CIRCULAR_BUFFER"
"""TFLite Micro's custom operator that joins its inputs of several runs."""


def options_of(data: bytes) -> Mapping[str, Any] | None:
    """Return the fields of a map of numbers; None for bytes that are none."""
    library: Any = flexbuffers
    try:
        loaded = library.Loads(data)
    except Exception:  # noqa: BLE001  # the library's errors of damaged bytes have no class of their own
        return None
    return cast("Mapping[str, Any]", loaded) if isinstance(loaded, dict) else None
