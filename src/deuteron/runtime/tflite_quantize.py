"""Quantizes a float32 or dynamic-range TFLite file with Google's `ai-edge-quantizer`, from calibration data."""

import contextlib
import importlib.util
import io
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from deuteron.builds.options import Activations, BuildOptions
from deuteron.errors import InputError, OptionError, UnsupportedError, counted, unreadable
from deuteron.extras import require
from deuteron.runtime.tflite_model import prepare
from deuteron.tflite.control_flow import selected
from deuteron.tflite.decode import HINT_PLAIN
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import Buffer, FlatModel, FlatOperator, FlatTensor

Array = npt.NDArray[np.generic]
Sample = Mapping[str, Array]

HINT = "quantize the file: `deuteron build FILE.tflite --calibration DATA.npz`, or `--calibration FILE.py:FUNCTION`"

_HINT_RECURRENT = (
    "`--calibration` leaves {} in float: quantize the model by TensorFlow's converter with a representative dataset, "
    "which gives int8 with an int16 state"
)

_LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "BATCH_MATMUL")
_RECURRENT = ("UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "LSTM", "SVDF")
"""Layers that `ai-edge-quantizer` leaves in float."""

_SIGNATURE = "serve"
_FAILED = (ArithmeticError, AttributeError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError)
_HINT_DATA = (
    "give a .npz file with an array [samples, ...] for each input, by its name or in order; or `FILE.py:FUNCTION` of a "
    "function that returns samples: an array, or one for each input"
)


def has_float_layers(source: Buffer, signature: str | None = None) -> bool:
    """Return whether layers of a file compute on float32 activations, with float32 or int8 weights."""
    return any(name in _LAYERS for name in _on_floats(source, signature))


def hint(source: Buffer, signature: str | None = None) -> str | None:
    """Return what to do about the float layers of a file that cannot run; None if it has none."""
    names = _on_floats(source, signature)
    if recurrent := next((name for name in names if name in _RECURRENT), None):
        return _HINT_RECURRENT.format(recurrent)
    return HINT if any(name in _LAYERS for name in names) else None


def _on_floats(source: Buffer, signature: str | None) -> list[str]:
    """The operators that read computed float32 tensors."""
    model = selected(source, signature)
    return [
        op.name
        for op in model.operators
        if any(i >= 0 and _is_computed(model.tensors[i], "FLOAT32") for i in op.inputs)
    ]


def quantized(source: Buffer, calibration: object, options: BuildOptions) -> tuple[bytes, str]:
    """Return a file quantized to int8, or int8 weights with int16 activations, and a sentence about it.

    Inputs and outputs stay float32, unless `options.remove_quant_io_ops` is set.

    Args:
        source: the file.
        calibration: samples, or a text that names a `.npz` file or `FILE.py:FUNCTION`.
        options: the build's; those of the file select signature and shapes.

    Raises:
        MissingToolError: `ai-edge-quantizer` is not installed.
        InputError: the calibration data cannot be read, or do not fit the inputs.
        OptionError: the file is quantized already.
        UnsupportedError: `ai-edge-quantizer` refuses the file.
    """
    if not has_float_layers(source, options.tflite.signature):
        raise OptionError("`--calibration` is for float files, and this one is quantized", hint="leave it out")
    require("quantize", "ai_edge_quantizer", "a build of a float TFLite file with `--calibration`")
    kept = replace(options.tflite, keep_dead_channels=True)
    model = _with_float_weights(prepare(source, kept).model)
    samples = list(samples_of(calibration, model))
    wide = options.activations is Activations.INT16
    data = _quantized(encode(model, _SIGNATURE), samples, wide=wide)
    if not options.remove_quant_io_ops:
        data = encode(_with_float_ends(model, selected(data)))
    few = ", whose ranges all tensors have: give a few dozen" if len(samples) == 1 else ""
    return data, f"quantized by ai-edge-quantizer with {counted(len(samples), 'sample')}{few}"


def _is_computed(tensor: FlatTensor, dtype: str) -> bool:
    return tensor.dtype == dtype and tensor.data is None


def _with_float_weights(model: FlatModel) -> FlatModel:
    """A model with float32 constants in place of quantized ones that float operators read."""
    tensors, operators = [*model.tensors], list[FlatOperator]()
    for op in model.operators:
        operands = [model.tensors[i] for i in op.inputs if i >= 0]
        for tensor in operands:
            if tensor.problem:
                raise UnsupportedError(tensor.problem, hint=HINT_PLAIN)
        if op.name == "DEQUANTIZE" and operands[0].data is not None and operands[0].quant is not None:
            tensors[op.outputs[0]] = replace(tensors[op.outputs[0]], data=_real(operands[0]).tobytes())
            continue
        inputs = list(op.inputs)
        if op.name in _LAYERS and any(_is_computed(tensor, "FLOAT32") for tensor in operands):
            for place, i in enumerate(inputs):
                if i >= 0 and (tensor := model.tensors[i]).data is not None and tensor.quant is not None:
                    inputs[place] = len(tensors)
                    tensors.append(replace(tensor, dtype="FLOAT32", quant=None, data=_real(tensor).tobytes()))
        operators.append(replace(op, inputs=tuple(inputs)))
    taken = set[str]()
    for i, tensor in enumerate(tensors):  # the quantizer tells tensors apart by their names
        if tensor.name in taken:
            tensors[i] = replace(tensor, name=f"{tensor.name}/{i}")
        taken.add(tensors[i].name)
    return replace(model, tensors=tuple(tensors), operators=tuple(operators))


def _real(tensor: FlatTensor) -> npt.NDArray[np.float32]:
    """The values of a quantized constant."""
    if tensor.quant is None or tensor.data is None:
        raise UnsupportedError(f"tensor `{tensor.name}` is no quantized constant")
    values = np.frombuffer(tensor.data, tensor.dtype.lower()).reshape(tensor.shape)
    shape = [1] * values.ndim
    if tensor.quant.axis is not None:
        shape[tensor.quant.axis] = -1
    scales = np.array(tensor.quant.scales, np.float32).reshape(shape)
    points = np.array(tensor.quant.zero_points, np.float32).reshape(shape)
    return (values.astype(np.float32) - points) * scales


def _quantized(source: bytes, samples: Sequence[Sample], *, wide: bool) -> bytes:
    quantizer: Any = import_module("ai_edge_quantizer.quantizer")  # untyped, and slow to load
    recipe: Any = import_module("ai_edge_quantizer.recipe")
    chosen = recipe.static_wi8_ai16 if wide else recipe.static_wi8_ai8
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            work: Any = quantizer.Quantizer(bytearray(source), chosen())
            result = work.quantize(work.calibrate({_SIGNATURE: samples}, num_threads=1))
    except _FAILED as error:
        raise UnsupportedError(f"ai-edge-quantizer does not quantize the file: {error}") from error
    return bytes(result.quantized_model)


def _with_float_ends(model: FlatModel, stored: FlatModel) -> FlatModel:
    """A quantized model with the inputs and outputs of the model that it was made from."""
    tensors, before, after = [*stored.tensors], list[FlatOperator](), list[FlatOperator]()

    def outer(inner: int, index: int) -> int:
        if tensors[inner].dtype == model.tensors[index].dtype:
            return inner
        tensors.append(model.tensors[index])
        tensors[inner] = replace(tensors[inner], name=f"{tensors[inner].name}/quantized")
        return len(tensors) - 1

    inputs = [outer(i, index) for i, index in zip(stored.inputs, model.inputs, strict=True)]
    outputs = [outer(i, index) for i, index in zip(stored.outputs, model.outputs, strict=True)]
    for i, x in zip(stored.inputs, inputs, strict=True):
        before += [FlatOperator("QUANTIZE", (x,), (i,))] if x != i else []
    for i, y in zip(stored.outputs, outputs, strict=True):
        after += [FlatOperator("DEQUANTIZE", (i,), (y,))] if y != i else []
    return replace(
        stored,
        tensors=tuple(tensors),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        operators=(*before, *stored.operators, *after),
    )


def samples_of(calibration: object, model: FlatModel) -> Iterator[Sample]:
    """Return samples as the quantizer takes them, checked against the model's inputs."""
    data = _read(calibration, model) if isinstance(calibration, str | Path) else calibration
    if not isinstance(data, Iterable):
        raise InputError("calibration data are no sequence of samples", hint=_HINT_DATA)
    number = -1
    for number, sample in enumerate(cast("Iterable[object]", data)):
        parts: Sequence[object] = cast("Sequence[object]", sample) if isinstance(sample, list | tuple) else (sample,)
        if len(parts) != len(model.inputs):
            raise InputError(
                f"sample {number} of the calibration data has {counted(len(parts), 'array')}, the model has "
                f"{counted(len(model.inputs), 'input')}",
                hint=_HINT_DATA,
            )
        yield {
            f"inputs_{place}": _fitting(number, np.asarray(part), model.tensors[index])
            for place, (part, index) in enumerate(zip(parts, model.inputs, strict=True))
        }
    if number < 0:
        raise InputError("the calibration data have no samples", hint=_HINT_DATA)


def _fitting(number: int, array: Array, tensor: FlatTensor) -> Array:
    """An array in the shape and type of an input; dimensions of 1 may be left out."""
    if [n for n in array.shape if n != 1] != [n for n in tensor.shape if n != 1]:
        raise InputError(
            f"sample {number} of the calibration data has the shape {[*array.shape]} for input `{tensor.name}`, "
            f"{[*tensor.shape]} is allowed",
            hint=_HINT_DATA,
        )
    wanted = np.dtype(tensor.dtype.lower())
    problem = f"the dtype {array.dtype}" if array.dtype.kind != wanted.kind else None
    if problem is None and wanted.kind == "f" and (wrong := int((~np.isfinite(array)).sum())):
        problem = f"{wrong} of {array.size} values that are NaN or infinite"
    if problem:
        raise InputError(
            f"sample {number} of the calibration data has {problem} for input `{tensor.name}`, finite {wanted} is "
            "allowed",
            hint="give the values that the application will give the model",
        )
    return array.reshape(tensor.shape).astype(wanted)


def _read(named: str | Path, model: FlatModel) -> Iterable[object]:
    """The samples of a `.npz` file, or those that a function of a Python file returns."""
    file, colon, function = str(named).rpartition(":")
    if colon and file.endswith(".py"):
        return _called(Path(file), function)
    path = Path(named)
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays: dict[str, Array] = {name: stored[name] for name in getattr(stored, "files", ())}
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(f"`{path}` is no .npz file of arrays", hint=_HINT_DATA) from error
    names = [model.tensors[i].name for i in model.inputs]
    if len(arrays) != len(names):
        raise InputError(
            f"`{path}` has {counted(len(arrays), 'array')} for {counted(len(names), 'input')}", hint=_HINT_DATA
        )
    chosen = [arrays[name] for name in names] if {*names} == {*arrays} else [*arrays.values()]
    if len({array.shape[:1] for array in chosen}) != 1 or not chosen[0].shape:
        raise InputError(f"the arrays in `{path}` have different numbers of samples", hint=_HINT_DATA)
    return list(zip(*chosen, strict=True))


def _called(path: Path, function: str) -> Iterable[object]:
    """Return the result of a function of a Python file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise InputError(f"`{path}` does not exist", hint=_HINT_DATA)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
        if not callable(found := getattr(module, function, None)):
            raise InputError(f"`{path}` has no function `{function}`", hint=_HINT_DATA)
        return cast("Iterable[object]", found())
    except InputError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise InputError(f"`{path}:{function}` raises {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
