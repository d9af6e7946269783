"""Random models of TFLite_Detection_PostProcess: `detection(dtype)(rng)`."""

from dataclasses import replace

import numpy as np
from flatbuffers import flexbuffers
from tests.tflite.cortex_m.models import Make, Rng, constant, f32, model, quant, tensor

from deuteron.tflite.flat_model import FlatModel, FlatOperator
from deuteron.tflite.quantization import Quant

SCALES = {"y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}


def options(rng: Rng, classes: int, boxes: int) -> dict[str, int | float | bool]:
    return {
        "max_detections": int(rng.integers(1, 12)), "max_classes_per_detection": 1, "num_classes": classes,
        "nms_score_threshold": float(rng.choice([1e-8, 0.3, 0.6])), "nms_iou_threshold": float(rng.uniform(0.1, 0.7)),
        "use_regular_nms": False, **SCALES, "detections_per_class": boxes,
    }  # fmt: skip


def with_options(source: FlatModel, given: dict[str, int | float | bool]) -> FlatModel:
    """The model with other options of its operator."""
    (op,) = source.operators
    data = bytes(flexbuffers.Dumps(given))
    code = FlatOperator("CUSTOM", op.inputs, op.outputs, "", {}, "TFLite_Detection_PostProcess", data)
    return replace(source, operators=(code,))


def detection(dtype: str, *, by_class: bool = False) -> Make:
    def make(rng: Rng) -> FlatModel:
        boxes, classes, background = int(rng.integers(1, 40)), int(rng.integers(1, 5)), int(rng.integers(2))
        given = options(rng, classes, boxes)
        if by_class:
            given |= {"use_regular_nms": True, "detections_per_class": int(rng.integers(1, 8))}
        qs = [None, None, None]
        if dtype != "FLOAT32":
            qs = [quant(rng, dtype, 0.04), Quant((1 / 256,), (0 if dtype == "UINT8" else -128,)), None]
        anchors = np.concatenate([rng.uniform(0, 1, (boxes, 2)), rng.uniform(0.1, 0.5, (boxes, 2))], 1)
        anchor = constant("anchors", anchors, "FLOAT32")
        if dtype != "FLOAT32":
            scale, low = f32(1 / 200), 0 if dtype == "UINT8" else -128
            anchor = constant("anchors", np.round(anchors / scale) + low, dtype, Quant((scale,), (low,)))
        operands = [
            tensor("boxes", (1, boxes, 4), dtype, qs[0]),
            tensor("scores", (1, boxes, classes + background), dtype, qs[1]),
            anchor,
        ]
        count = int(given["max_detections"])
        results = [
            tensor(name, shape, "FLOAT32")
            for name, shape in (("at", (1, count, 4)), ("class", (1, count)), ("score", (1, count)), ("count", (1,)))
        ]
        return with_options(model("CUSTOM", operands, results), given)

    return make
