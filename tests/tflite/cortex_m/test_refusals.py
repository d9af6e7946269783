"""Refusals of the lowering, to the letter, and of the C operators."""

from dataclasses import replace

import numpy as np
import pytest
from tests.cortex_m.operator_library import OperatorLibrary, RefusedError
from tests.tflite.cortex_m import detection_models, micro_models, models, more_models, movement_models, plain_models
from tests.tflite.cortex_m.models import Rng, constant, model, tensor

from deuteron.errors import UnsupportedError
from deuteron.runtime.litert import Litert
from deuteron.tflite.cortex_m import CpuCall, Temporary, lower, supported_operators
from deuteron.tflite.cortex_m.call import Constant, FileTensor, Operand
from deuteron.tflite.cortex_m.operator_view import NUMPY
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel
from deuteron.tflite.quantization import Quant
from deuteron.tflite.unsigned import signed

Q = Quant((0.5,), (-4,))
HINT = "quantize the model to int8 or int16 in full, or leave the operator to the host"
FAMILIES = (models.MODELS, movement_models.MODELS, more_models.MODELS, plain_models.MODELS, micro_models.MODELS)
MODELS = {name: make for family in (*FAMILIES, more_models.NEAR, plain_models.NEAR) for name, make in family.items()}


def first(name: str) -> FlatModel:
    return signed(MODELS[name](np.random.default_rng(0)))


def last_calls() -> dict[str, tuple[FlatModel, CpuCall]]:
    """One call of each C function that any model has as its last one."""
    found: dict[str, tuple[FlatModel, CpuCall]] = {}
    for name in MODELS:
        source = first(name)
        place = next(i for i, op in enumerate(source.operators) if op.name != "QUANTIZE" or len(source.operators) == 1)
        call = lower(source, place)[-1]
        found.setdefault(call.operator.symbol, (source, call))
    return found


CALLS = last_calls()


def error(source: FlatModel) -> str:
    with pytest.raises(UnsupportedError) as caught:
        lower(source, 0)
    return str(caught.value)


def test_an_operator_that_has_no_c_operator() -> None:
    source = model("RFFT2D", [tensor("x", (4,), "FLOAT32")], [tensor("y", (4,), "FLOAT32")])
    assert error(source) == (
        "operator 0 (RFFT2D): no C operator computes it on a Cortex-M\n\n"
        "hint: instead of RFFT2D: compute the spectrum before the model"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("edgetpu-custom-op", "the file is compiled for an Edge TPU: give the file before that compiler"),
        ("XC_unaryi16", "the file is compiled for an XCORE: give the file before that compiler"),
        ("FlexTensorListReserve", "convert the recurrent layer with a fixed batch size, and with `unroll=True`"),
        ("FlexMultinomial", "convert the model without `SELECT_TF_OPS`, or run the operator in the application"),
        ("PosenetDecoderOp", "run the custom operator in the application, before or behind the model"),
    ],
)
def test_a_custom_operator_that_has_no_c_operator(name: str, hint: str) -> None:
    source = model("CUSTOM", [tensor("x", (4,), "INT8", Q)], [tensor("y", (4,), "INT8", Q)])
    source = replace(source, operators=(replace(source.operators[0], custom_code=name),))
    assert error(source).startswith(f"operator 0 ({name}): no C operator computes it on a Cortex-M\n\nhint: {hint}")


def test_a_matrix_with_a_scale_per_column() -> None:
    """LiteRT takes such a file, and every product is 0."""
    y = Quant((0.5,), (0,))
    weights = constant("w", np.ones((4, 2)), "INT8", Quant((0.5, 0.25), (0, 0), 1))
    source = model("BATCH_MATMUL", [tensor("x", (3, 4), "INT16", y), weights], [tensor("y", (3, 2), "INT16", y)])
    assert not np.any(Litert(encode(source)).run([np.full((3, 4), 1000, np.int16)])[0])
    assert error(source) == (
        "operator 0 (BATCH_MATMUL): tensor `w` has 2 scales; LiteRT reads one here, and computes with a factor of 0\n\n"
        "hint: quantize the second operand with one scale, or write the product as FULLY_CONNECTED"
    )


def test_a_result_that_was_always_zero_in_calibration() -> None:
    """LiteRT shifts by more than 31 bits, for which C defines no result."""
    x, y = (tensor(name, (2,), "INT8", Quant((scale,), (0,))) for name, scale in (("x", 0.5), ("y", 2.0**-100)))
    assert error(model("MUL", [x, replace(x, name="z")], [y], "MulOptions")) == (
        "operator 0 (MUL): the scale of its operands is 3.16913e+29 times that of its result; at most 1,073,741,824 "
        "is allowed\n\n"
        "hint: quantize the model again with samples for which the result is not always zero"
    )


def test_a_layer_whose_result_was_always_zero_in_calibration() -> None:
    """Its factor of float64 would be shifted to the left."""
    x, y = (tensor(name, (1, 2), "INT8", Quant((scale,), (0,))) for name, scale in (("x", 0.5), ("y", 2.0**-60)))
    weights = constant("w", np.ones((2, 2)), "INT8", Quant((0.5,), (0,)))
    assert error(model("FULLY_CONNECTED", [x, weights], [y], "FullyConnectedOptions")) == (
        "operator 0 (FULLY_CONNECTED): the scale of its operands is 2.8823e+17 times that of its result; at most "
        "4,503,599,627,370,496 is allowed\n\n"
        "hint: quantize the model again with samples for which the result is not always zero"
    )


def test_a_type_that_the_operator_does_not_take() -> None:
    source = model("HARD_SWISH", [tensor("x", (4,), "INT16", Q)], [tensor("y", (4,), "INT16", Q)])
    assert error(source) == f"operator 0 (HARD_SWISH): tensor `x` is INT16; INT8 or FLOAT32 is allowed\n\nhint: {HINT}"


def test_a_tensor_without_quantization() -> None:
    source = model("RELU", [tensor("x", (4,))], [tensor("y", (4,), "INT8", Q)])
    assert error(source) == (
        f"operator 0 (RELU): tensor `x` has no quantization; one scale and zero point is allowed\n\nhint: {HINT}"
    )


def test_an_index_that_is_computed_at_run_time() -> None:
    operands = [tensor("x", (4, 2), "INT8", Q), tensor("perm", (2,), "INT32")]
    source = model("TRANSPOSE", operands, [tensor("y", (2, 4), "INT8", Q)])
    assert error(source) == (
        "operator 0 (TRANSPOSE): tensor `perm` is computed at run time; this operand must be a constant\n\n"
        "hint: make it a constant of the file"
    )


def test_a_move_between_two_quantizations() -> None:
    operands = [tensor("x", (4, 2), "INT8", Q), constant("perm", [1, 0])]
    source = model("TRANSPOSE", operands, [tensor("y", (2, 4), "INT8", Quant((0.25,), (-4,)))])
    assert error(source) == (
        "operator 0 (TRANSPOSE): tensors `x` and `y` differ in scale or zero point; the operator moves values and "
        "takes one quantization\n\nhint: put a QUANTIZE before or behind the operator"
    )


def test_a_fused_activation_function() -> None:
    options = {"FusedActivationFunction": 4}
    operands = [tensor("a", (4,), "INT8", Q), tensor("b", (4,), "INT8", Q)]
    source = model("MUL", operands, [tensor("y", (4,), "INT8", Q)], "MulOptions", options)
    assert error(source) == (
        "operator 0 (MUL): the fused activation function is TANH; NONE, RELU, RELU_N1_TO_1 and RELU6 are allowed\n\n"
        "hint: write the activation function as an operator of its own"
    )


def test_a_slice_that_does_not_fit() -> None:
    x, u = (tensor(name, dims, "INT8", Q) for name, dims in (("x", (4, 2)), ("u", (1, 3))))
    source = model("DYNAMIC_UPDATE_SLICE", [x, u, tensor("s", (2,), "INT32")], [tensor("y", (4, 2), "INT8", Q)])
    assert error(source) == (
        "operator 0 (DYNAMIC_UPDATE_SLICE): a slice [1, 3] at 2 indices does not fit into [4, 2]\n\n"
        "hint: make the file again; it is damaged or its exporter has a defect"
    )


@pytest.mark.parametrize(
    ("quant", "message"),
    [
        (Q, "tensor `t` has no quantization, or a zero point that is not 0; a scale and the zero point 0 are allowed"
         "\n\nhint: quantize the table symmetrically"),
        (Quant((0.5, 0.25), (0, 0), 1), "tensor `t` has 2 scales; one for all of it, or one for each row is allowed"
         "\n\nhint: quantize the table by rows"),
    ],
)  # fmt: skip
def test_a_table_whose_quantization_is_not_taken(quant: Quant, message: str) -> None:
    operands = [tensor("i", (3,), "INT32"), constant("t", np.ones((4, 2)), "INT8", quant)]
    found = error(model("EMBEDDING_LOOKUP", operands, [tensor("y", (3, 2), "FLOAT32")]))
    assert found == f"operator 0 (EMBEDDING_LOOKUP): {message}"


def test_a_row_that_the_table_lacks() -> None:
    operands = [constant("i", [1, 4]), tensor("t", (4, 2), "FLOAT32")]
    assert error(model("EMBEDDING_LOOKUP", operands, [tensor("y", (2, 2), "FLOAT32")])) == (
        "operator 0 (EMBEDDING_LOOKUP): it has the index 4 of 4 elements\n\n"
        "hint: make the file again; its exporter has a defect"
    )


def test_too_many_products() -> None:
    w = constant("w", np.ones((1, 70000)), "INT8", Q)
    options = {"FusedActivationFunction": 0, "WeightsFormat": 0, "KeepNumDims": 0}
    operands = [tensor("x", (1, 70000), "INT8", Q), w, None]
    source = model("FULLY_CONNECTED", operands, [tensor("y", (1, 1), "INT8", Q)], "FullyConnectedOptions", options)
    assert error(source) == (
        "operator 0 (FULLY_CONNECTED): each output is a sum of 70000 products; at most 65536 are allowed\n\n"
        "hint: split the layer, or make it smaller"
    )


def test_the_reference_lists_every_operator_of_the_tests() -> None:
    listed = {row.name: row.types for row in supported_operators()}
    for name in MODELS:
        assert all(op.name in listed for op in first(name).operators)
    assert listed["CONV_2D"] == ("INT8", "INT16", "FLOAT32")


def test_slopes_of_int16() -> None:
    symmetric = Quant((0.5,), (0,))
    operands = [tensor("x", (4,), "INT16", symmetric), constant("a", [1, 2, 3, 4], "INT16", symmetric)]
    source = model("PRELU", operands, [tensor("y", (4,), "INT16", symmetric)])
    assert error(source) == (
        "operator 0 (PRELU): tensor `a` is INT16; with INT16 activations LiteRT reads alpha as INT8\n\n"
        "hint: quantize alpha to int8"
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"max_classes_per_detection": 2}, "it gives several classes for a box; one is allowed\n\n"
         "hint: export the model with `max_classes_per_detection=1`"),
        ({"use_regular_nms": True, "detections_per_class": 0}, "it takes 0 detections per class; 1 or more are allowed"
         "\n\nhint: make the file again; its exporter has a defect"),
        ({"num_classes": 9}, "its options have 9 classes, and a box has 1 scores\n\n"
         "hint: make the file again; its exporter has a defect"),
    ],
)  # fmt: skip
def test_a_detection_with_other_options(changed: dict[str, int], message: str) -> None:
    rng = np.random.default_rng(3)
    source = detection_models.detection("FLOAT32")(rng)
    given = detection_models.options(rng, 2, 4) | changed
    assert error(detection_models.with_options(source, given)).endswith(message)


def test_a_detection_whose_options_are_damaged() -> None:
    source = detection_models.detection("FLOAT32")(np.random.default_rng(3))
    (op,) = source.operators
    damaged = replace(source, operators=(replace(op, custom_options=b"no map"),))
    assert "its options are no FlexBuffers map" in error(damaged)


def arrays(source: FlatModel, call: CpuCall) -> tuple[list[np.ndarray], np.ndarray]:
    """Operands of a call without its values."""

    def one(operand: Operand) -> np.ndarray:
        match operand:
            case Constant(array):
                return np.ascontiguousarray(array)
            case Temporary(shape, dtype):
                return np.zeros(shape, dtype)
            case FileTensor(index):
                found = source.tensors[index]
                return np.zeros(found.shape, NUMPY[found.dtype])

    return [one(operand) for operand in call.inputs], one(call.outputs[0])


@pytest.mark.parametrize("symbol", sorted(CALLS.keys() - {"dtn_op_full"}))  # which fills whatever it is given
def test_a_call_whose_tensors_do_not_fit_its_record_is_refused(c_operators: OperatorLibrary, symbol: str) -> None:
    source, call = CALLS[symbol]
    inputs, output = arrays(source, call)
    scratch = [np.zeros(256, np.uint8) for _ in call.operator.scratch]
    words = call.params.words()
    longer = np.zeros(output.size + 1, output.dtype)
    with pytest.raises(RefusedError):
        c_operators.call(symbol, words[:-1], inputs, scratch, output)
    with pytest.raises(RefusedError):
        c_operators.call(symbol, words, inputs[:-1], scratch, output)
    if call.operator.name not in ("copy", "clamp"):
        with pytest.raises(RefusedError):
            c_operators.call(symbol, words, inputs, scratch, longer)


def random_words(rng: Rng, words: tuple[int, ...]) -> tuple[int, ...]:
    """A record with one or two words that are other numbers."""
    changed = list(words)
    for _ in range(int(rng.integers(1, 3))):
        changed[int(rng.integers(len(changed)))] = int(rng.choice([-1, 0, 1, 2, 127, -(1 << 31), (1 << 31) - 1, 65536]))
    return tuple(changed)


@pytest.mark.parametrize("symbol", sorted(CALLS))
def test_a_damaged_record_is_refused_or_harmless(c_operators: OperatorLibrary, symbol: str) -> None:
    rng = np.random.default_rng(7)
    source, call = CALLS[symbol]
    inputs, output = arrays(source, call)
    scratch = [np.zeros(256, np.uint8) for _ in call.operator.scratch]
    for _ in range(60):
        words = random_words(rng, call.params.words())
        try:
            c_operators.call(symbol, words, inputs, scratch, output)
        except RefusedError:
            continue
