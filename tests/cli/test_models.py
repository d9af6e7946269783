"""`deuteron models`: text and JSON."""

import json
from collections.abc import Callable

from .conftest import Result

Run = Callable[..., Result]

NAMES = ["digits", "ds_cnn", "resnet8", "mobilenet_v1_025", "deep_autoencoder", "mobilenet_v2", "mobilenet_v1"]
COMBINED = ["mobilenet_v3_blocks", "encoder_decoder", "attention", "refused_middle"]


def test_text(deuteron: Run):
    result = deuteron("models")
    assert (result.code, result.err) == (0, "")
    assert [line.split()[0] for line in result.out.splitlines()] == NAMES + COMBINED
    assert result.out.splitlines()[2] == (
        "resnet8              1x3x32x32 -> 1x10        seeded               MLPerf Tiny image classification: ResNet-8"
    )


def test_json(deuteron: Run):
    report = json.loads(deuteron("models", "--json").out)
    assert report["schema"] == 1
    assert [model["name"] for model in report["models"]] == NAMES + COMBINED
    assert report["models"][5]["input_shape"] == [1, 3, 224, 224]
