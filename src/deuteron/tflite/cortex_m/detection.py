"""TFLite_Detection_PostProcess: boxes from anchors, and non-maximum suppression."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from deuteron.operators.tflite import DEQUANTIZE, DequantizeParams
from deuteron.operators.tflite_unquantized import BY_UNQUANTIZED, DetectionParams
from deuteron.tflite.cortex_m.call import Constant, CpuCall, Operand, Temporary
from deuteron.tflite.cortex_m.fixed_point import bits_of
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.operator_view import Site
from deuteron.tflite.custom_options import DETECTION, options_of

_TYPES = ("FLOAT32", "INT8", "UINT8")
_HINT_EXPORTER = "make the file again; its exporter has a defect"
_HINT_OPTIONS = "export the model with `max_classes_per_detection=1`"
_PER_CLASS = 100
"""Detections per class where the options do not say."""


def detection(site: Site) -> tuple[CpuCall, ...]:
    """Lower it: quantized boxes and scores become float32 first."""
    given = options_of(site.op.custom_options)
    if given is None:
        raise site.unsupported("its options are no FlexBuffers map", _HINT_EXPORTER)
    if int(given.get("max_classes_per_detection", 1)) != 1:
        raise site.unsupported("it gives several classes for a box; one is allowed", _HINT_OPTIONS)
    per_class = int(given.get("detections_per_class", _PER_CLASS)) if given.get("use_regular_nms") else 0
    if per_class < bool(given.get("use_regular_nms")):
        raise site.unsupported(f"it takes {per_class} detections per class; 1 or more are allowed", _HINT_EXPORTER)
    boxes, scores, anchors = (site.input(position) for position in range(3))
    classes = int(given.get("num_classes", 0))
    names = ("max_detections", "nms_score_threshold", "nms_iou_threshold", "y_scale", "x_scale", "h_scale", "w_scale")
    missing = [name for name in names if name not in given]
    if missing:
        raise site.unsupported(f"its options lack `{missing[0]}`", _HINT_EXPORTER)
    if not 1 <= classes <= scores.shape[-1] <= classes + 1:
        raise site.unsupported(
            f"its options have {classes} classes, and a box has {scores.shape[-1]} scores", _HINT_EXPORTER
        )
    calls: list[CpuCall] = []
    operands = [_real(site, position, calls) for position in range(2)]
    constant = site.constant(2).astype(np.float32)
    if anchors.dtype != "FLOAT32":
        constant = site.scale(anchors) * (constant - np.float32(site.zero_point(anchors)))
    numbers = [bits_of(float(given[name])) for name in names[1:]]
    params = DetectionParams(
        boxes.shape[1],
        boxes.shape[2],
        scores.shape[-1],
        scores.shape[-1] - classes,
        int(given[names[0]]),
        *numbers,
        per_class=min(per_class, boxes.shape[1]),
    )
    inputs = (*operands, Constant(np.ascontiguousarray(constant, np.float32)))
    outputs = tuple(site.out(position) for position in range(4))
    return (*calls, CpuCall(BY_UNQUANTIZED["detection"], inputs, outputs, params))


def _real(site: Site, position: int, calls: list[CpuCall]) -> Operand:
    """An input as float32."""
    tensor = site.input(position)
    if site.require(tensor, *_TYPES) == "FLOAT32":
        return site.ref(position)
    real = Temporary(tensor.shape, "float32")
    params = DequantizeParams(bits_of(float(site.scale(tensor))), site.zero_point(tensor))
    calls.append(CpuCall(DEQUANTIZE, (site.ref(position),), (real,), params))
    return real


OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {DETECTION: Lowering(detection, _TYPES, note="constant anchors, one class for a box")}
)
