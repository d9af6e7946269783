"""Operators that stop Vela, or that it loses, run on the CPU."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.tflite.cortex_m.models import Quant, constant, f32, model, tensor
from tests.tflite.cortex_m.running import random_inputs
from tests.tflite.graph_check import built

from deuteron.errors import UnsupportedError
from deuteron.runtime import vela_hidden
from deuteron.runtime.litert import Litert
from deuteron.runtime.tflite_build import build_of
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator

Q = Quant((f32(0.05),), (3,))


def comparison() -> FlatModel:
    a, b, y = (
        tensor(name, (2, 3), dtype, q) for name, dtype, q in (("a", "INT8", Q), ("b", "INT8", Q), ("y", "BOOL", None))
    )
    return model("LESS", [a, b], [y])


def real_function() -> FlatModel:
    return model("HARD_SWISH", [tensor("x", (5,), "FLOAT32")], [tensor("y", (5,), "FLOAT32")])


def filled() -> FlatModel:
    """A FILL whose result is an output, and a RELU."""
    fill = model("FILL", [constant("d", [2, 3]), constant("v", 2.5, "FLOAT32")], [tensor("y", (2, 3), "FLOAT32")])
    relu = model("RELU", [tensor("x", (4,), "INT8", Q)], [tensor("z", (4,), "INT8", Q)])
    (first,), (second,) = fill.operators, relu.operators
    moved = type(second)("RELU", (3,), (4,))
    return FlatModel("both", (*fill.tensors, *relu.tensors), (3,), (2, 4), (first, moved))


@pytest.mark.parametrize("make", [comparison, real_function, filled])
def test_what_stops_vela_runs_on_the_cpu(make) -> None:
    pytest.importorskip("ethosu.vela")
    source = make()
    inputs = random_inputs(source, np.random.default_rng(0))
    found = built("ethos-u55-128")(source, inputs)
    for ours, theirs in zip(found, Litert(encode(source)).run(inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_what_vela_takes_is_not_hidden() -> None:
    source = model("RELU", [tensor("x", (4,), "INT8", Q)], [tensor("y", (4,), "INT8", Q)])
    assert vela_hidden.hidden(source) is None


def test_what_was_hidden_is_shown_again() -> None:
    source = comparison()
    file = vela_hidden.hidden(source)
    assert file is not None
    inside = decode(file)
    assert [op.title for op in inside.operators] == ["DeuteronHidden0"]
    assert [t.dtype for t in inside.tensors] == ["INT8", "INT8", "UINT8"]
    assert vela_hidden.shown(source, inside).operators == source.operators
    assert vela_hidden.shown(source, inside).tensors == source.tensors


def test_only_an_output_gets_the_values_that_vela_lost() -> None:
    source = model("RELU", [tensor("x", (4,), "INT8", Q)], [tensor("y", (4,), "INT8", Q)])
    values = tensor("c", (4,), "INT8", Q)
    source = replace(source, tensors=(*source.tensors, replace(values, data=bytes(4))), outputs=(1, 2))
    lost = replace(source, tensors=(source.tensors[0], replace(source.tensors[1], name="c"), values), outputs=(2,))
    assert [each.data for each in vela_hidden.shown(source, lost).tensors] == [None, None, bytes(4)]


def test_a_custom_operator_with_the_name_of_a_hidden_one_is_refused(tmp_path: Path) -> None:
    source = model("RELU", [tensor("x", (4,), "INT8", Q)], [tensor("y", (4,), "INT8", Q)])
    path = tmp_path / "net.tflite"
    path.write_bytes(
        encode(replace(source, operators=(FlatOperator("CUSTOM", (0,), (1,), custom_code="DeuteronHidden7"),)))
    )
    with pytest.raises(UnsupportedError) as caught:
        build_of(path, "ethos-u55-128")
    assert str(caught.value) == (
        "operator 0 (DeuteronHidden7): the custom operator `DeuteronHidden7` has a name that builds for an Ethos-U use "
        "themselves\n\nhint: give it a name that does not start with DeuteronHidden"
    )
