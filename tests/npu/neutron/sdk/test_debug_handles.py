"""The map from kernels to edge operators that ExecuTorch gets, for its own profiling tests' models and for ours.

ExecuTorch's tests of it (`test_profiling.py` in its NXP backend) list the kernels of the vendor's converter; these list
ours, for models of the same structure. Without gaps: each kernel stands for some edge operator.
"""

import importlib

import pytest
from tests import full
from tests.npu.neutron.sdk.profiled import MODELS, handed_over

from deuteron.frontend.examples import FOLDER, REFERENCES

pytestmark = pytest.mark.slow

CONV, POINTWISE = ("conv2d", "convolution", "relu"), ("conv2d", "convolution", "relu")
DEPTHWISE = ("depthwise_conv2d", "convolution", "relu")
PLAIN, POOL = ("conv2d", "convolution"), ("max_pool", "max_pool2d_with_indices")
SUM = (("add", "add"), ("lut", "relu"))  # two roundings in PyTorch, and so two kernels
LINEAR = ("fully_connected", "addmm")
MEAN_OF_MAP = ("reduce_sum", "mean", "view_copy")
JOINED_POOLS = (POOL, ("average_pool", "avg_pool2d"), ("copy", "cat"), ("copy", "cat"))


@pytest.mark.parametrize(
    ("name", "rows"),
    full.first(
        [
            ("softmax", [("softmax", "_softmax")]),
            ("simple_parallel_pool", [PLAIN, *JOINED_POOLS, PLAIN]),
            ("cifar", [CONV, POOL, CONV, POOL, CONV, (*POOL, "view_copy"), LINEAR, ("softmax", "_softmax")]),
            ("avg_pool", [("average_pool", "avg_pool2d")]),
            ("parallel_pool", [CONV, PLAIN, ("add", "add"), *JOINED_POOLS, CONV]),
            ("resnet8", [CONV, CONV, PLAIN, *SUM, *(PLAIN, CONV, PLAIN, *SUM) * 2, MEAN_OF_MAP, LINEAR]),
            ("ds_cnn", [CONV, *(DEPTHWISE, POINTWISE) * 4, ("average_pool", "avg_pool2d", "view_copy"), LINEAR]),
            ("deep_autoencoder", [*[(*LINEAR, "relu")] * 9, LINEAR]),
        ],
        3,
    ),
)
def test_the_kernels_of_executorchs_profiling_tests(name: str, rows: list[tuple[str, ...]]) -> None:
    module, shape = MODELS[name]
    found = handed_over(module(), shape, transposes=False)
    assert [(kernel.name, *kernel.operators) for kernel in found] == rows


CLASSES = {"digits": "DigitsCnn", "ds_cnn": "DsCnn", "resnet8": "ResNet8"}
"""Classes of reference models, which leave changes of the channel order to the NPU, and those above do not.

With pools, convolutions by depth and sums they have what the others have. As they are made, with weights of any value,
they have the structure already.
"""


@pytest.mark.parametrize("name", full.first(CLASSES, 1))
def test_every_kernel_of_a_reference_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = (example for example in REFERENCES if example.name == name)
    monkeypatch.syspath_prepend(str(FOLDER))
    module = getattr(importlib.import_module(example.path.stem), CLASSES[name])()
    assert all(kernel.operators for kernel in handed_over(module, example.input_shape, transposes=True))
