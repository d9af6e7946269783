"""Errors for inputs of another shape or type: each hint gives the sample that the model takes."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from deuteron.builds.manifest import TensorInfo
from deuteron.errors import InputError
from deuteron.runtime.inputs import check_inputs
from deuteron.views.run.samples import read_samples

RESHAPE = ", if its elements are in that order"
SEVERAL = "; `deuteron.run_each` takes one after the other"


@pytest.mark.parametrize(
    ("shape", "wanted", "hint"),
    [
        ((1, 64, 3), (1, 3, 64), "give `x.transpose(0, 2, 1)`"),
        ((1, 8, 8, 3), (1, 3, 8, 8), "give `x.transpose(0, 3, 1, 2)`"),
        ((1, 3, 8, 8), (1, 8, 8, 3), "give `x.transpose(0, 2, 3, 1)`"),
        ((64, 3), (1, 3, 64), "give `x.squeeze().transpose(1, 0).reshape(1, 3, 64)`"),
        ((3, 64), (1, 3, 64), f"give `x.reshape(1, 3, 64)`{RESHAPE}"),
        ((1, 192), (1, 3, 64), f"give `x.reshape(1, 3, 64)`{RESHAPE}"),
        ((64, 3, 1), (64, 1, 3), f"give `x.reshape(64, 1, 3)`{RESHAPE}"),
        (
            (5, 3, 64),
            (1, 3, 64),
            f"these are 5 samples: a file holds them as `x.reshape(5, 1, 3, 64)`, with one more dimension{SEVERAL}",
        ),
        (
            (5, 8, 8, 3),
            (1, 3, 8, 8),
            "these are 5 samples: a file holds them as `x.transpose(0, 3, 1, 2).reshape(5, 1, 3, 8, 8)`, with one more "
            f"dimension{SEVERAL}",
        ),
        ((), (1,), f"give `x.reshape(1)`{RESHAPE}"),
        ((2,), (), None),
        (
            (6, 3),
            (2, 3),
            f"these are 3 samples: a file holds them as `x.reshape(3, 2, 3)`, with one more dimension{SEVERAL}",
        ),
        ((1, 3, 65), (1, 3, 64), None),
        ((5, 3, 64), (2, 3, 64), None),
    ],
)
def test_a_hint_for_another_shape_keeps_the_order_of_the_elements(
    shape: tuple[int, ...], wanted: tuple[int, ...], hint: str | None
):
    model = SimpleNamespace(inputs=[TensorInfo(wanted, "float32")])
    with pytest.raises(InputError) as caught:
        check_inputs(model, [np.zeros(shape, np.float32)])
    assert caught.value.hint == hint


QUANTIZED = (
    "these values are quantized, and the program takes floats: give the data before quantization "
    "(a build of a PyTorch model with `--remove-quant-io-ops` takes int8)"
)


@pytest.mark.parametrize(
    ("dtype", "wanted", "hint"),
    [
        ("int8", "float32", QUANTIZED),
        ("int16", "float32", QUANTIZED.replace("takes int8", "takes int16")),
        ("uint8", "float32", "give `x.astype(numpy.float32)`, scaled as in training"),
        ("float64", "float32", "give `x.astype(numpy.float32)`"),
        (
            "float32",
            "int8",
            "the program takes quantized values: give `round(x / scale) + zero_point` of its input "
            "(a build of a PyTorch model without `--remove-quant-io-ops` takes floats)",
        ),
        ("float32", "int64", "give `x.astype(numpy.int64)`"),
        ("bool", "float32", "give `x.astype(numpy.float32)`"),
    ],
)
def test_a_hint_for_another_type(dtype: str, wanted: str, hint: str):
    model = SimpleNamespace(inputs=[TensorInfo((2,), wanted)])
    with pytest.raises(InputError) as caught:
        check_inputs(model, [np.ones(2, dtype)])
    assert caught.value.hint == hint


def test_a_hint_for_another_shape_and_type():
    model = SimpleNamespace(inputs=[TensorInfo((1, 3, 4), "float32")])
    with pytest.raises(InputError) as caught:
        check_inputs(model, [np.ones((1, 4, 3))])
    assert caught.value.hint == "give `x.transpose(0, 2, 1)`; give `x.astype(numpy.float32)`"


def test_errors_of_files_name_the_file(tmp_path: Path):
    model = SimpleNamespace(inputs=[TensorInfo((1, 3, 4), "float32")] * 2)
    good, wrong = tmp_path / "good.npy", tmp_path / "wrong.npy"
    np.save(good, np.zeros((2, 1, 3, 4), np.float32))
    np.save(wrong, np.zeros((2, 1, 4, 3), np.float32))
    with pytest.raises(InputError) as caught:
        read_samples(model, [good, wrong])
    assert str(caught.value) == (
        f"{wrong}: input 1 is float32 [1, 4, 3], the model takes float32 [1, 3, 4]\n\n"
        "hint: for each sample: give `x.transpose(0, 2, 1)`"
    )
    np.save(wrong, np.zeros((1, 3, 4), np.float32))
    with pytest.raises(InputError) as caught:
        read_samples(model, [good, wrong])
    assert str(caught.value) == (
        f"the input files have different numbers of samples: `{good}` 2, `{wrong}` 1\n\n"
        "hint: give all inputs for each sample: files with the same first dimension"
    )
    with pytest.raises(InputError) as caught:
        read_samples(model, [good, tmp_path / "none.npy"])
    assert str(caught.value) == (
        f"`{tmp_path / 'none.npy'}` does not exist\n\nhint: check its name; paths are relative to the current directory"
    )
