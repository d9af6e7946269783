"""An operator of a TFLite model as the lowering sees it: operands with checks, and errors that name the place."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deuteron.errors import UnsupportedError
from deuteron.tflite.cortex_m.call import Constant, FileTensor, Operand
from deuteron.tflite.decode import HINT_PLAIN
from deuteron.tflite.flat_model import NO_TENSOR, FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant

Array = npt.NDArray[np.generic]

NUMPY = {
    "BOOL": "bool",
    "UINT8": "uint8",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "FLOAT32": "float32",
    "UINT32": "uint32",
    "UINT64": "uint64",
}
"""The types of tensors that a Cortex-M computes with, and numpy's names of them."""

_BEYOND = 1e15
"""Beyond every stored value: quotients by a tiny scale are clipped to it, as they may be infinite."""

LIMITS = {"UINT8": (0, 255), "INT8": (-128, 127), "INT16": (-32768, 32767), "INT32": (-(1 << 31), (1 << 31) - 1)}

NONE, RELU, RELU_N1_TO_1, RELU6 = range(4)
"""Fused activation functions, as the schema numbers them."""

_ACTIVATION_LIMITS: dict[int, tuple[float | None, float | None]] = {
    NONE: (None, None),
    RELU: (0.0, None),
    RELU_N1_TO_1: (-1.0, 1.0),
    RELU6: (0.0, 6.0),
}
_ACTIVATION_NAMES = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")

HINT_QUANTIZE = "quantize the model to int8 or int16 in full, or leave the operator to the host"
HINT_CONSTANT = "make it a constant of the file"


@dataclass(frozen=True, slots=True)
class Site:
    """One operator, by its index in the model."""

    model: FlatModel
    index: int

    @property
    def op(self) -> FlatOperator:
        """The operator."""
        return self.model.operators[self.index]

    @property
    def where(self) -> str:
        """The place that errors name."""
        return f"operator {self.op.number(self.index)} ({self.op.title})"

    def unsupported(self, message: str, hint: str = HINT_QUANTIZE) -> UnsupportedError:
        """Return the error for something that the lowering does not take."""
        return UnsupportedError(message, hint=hint, where=self.where)

    def has_input(self, position: int) -> bool:
        """Return True if an optional operand is there."""
        return position < len(self.op.inputs) and self.op.inputs[position] != NO_TENSOR

    def input(self, position: int = 0) -> FlatTensor:
        """The tensor of an operand, which must be there."""
        if not self.has_input(position):
            raise self.unsupported(
                f"input {position} is missing; the operator needs it", "make the file again; its exporter has a defect"
            )
        return self.model.tensors[self.op.inputs[position]]

    def output(self, position: int = 0) -> FlatTensor:
        """The tensor of a result."""
        return self.model.tensors[self.op.outputs[position]]

    def ref(self, position: int = 0) -> FileTensor:
        """The operand of a call for an input."""
        self.input(position)
        return FileTensor(self.op.inputs[position])

    def values(self, position: int, array: Array) -> Operand:
        """The operand of a call for values made of a constant input: that itself where they are its own."""
        tensor = self.input(position)
        same = tensor.data is not None and array.dtype == self.dtype(tensor) and array.tobytes() == tensor.data
        return self.ref(position) if same else Constant(array)

    def out(self, position: int = 0) -> FileTensor:
        """The operand of a call for an output."""
        return FileTensor(self.op.outputs[position])

    def is_constant(self, position: int) -> bool:
        """Return True if an input is there and has its values in the file."""
        return self.has_input(position) and self.input(position).data is not None

    def constant(self, position: int) -> Array:
        """The values of an input, which must be a constant."""
        tensor = self.input(position)
        if tensor.data is None:
            if 0 in tensor.shape:
                return np.zeros(tensor.shape, self.dtype(tensor))
            raise self.unsupported(
                f"tensor `{tensor.name}` is computed at run time; this operand must be a constant", HINT_CONSTANT
            )
        return np.frombuffer(tensor.data, self.dtype(tensor)).reshape(tensor.shape)

    def integers(self, position: int) -> tuple[int, ...]:
        """The values of an input of whole numbers, in order."""
        return tuple(int(value) for value in self.constant(position).ravel())

    def dtype(self, tensor: FlatTensor) -> str:
        """Numpy's name of a tensor's type."""
        if tensor.dtype not in NUMPY:
            allowed = ", ".join(NUMPY)
            raise self.unsupported(f"tensor `{tensor.name}` is {tensor.dtype}; {allowed} are allowed")
        return NUMPY[tensor.dtype]

    def require(self, tensor: FlatTensor, *allowed: str, hint: str = HINT_QUANTIZE) -> str:
        """The type of a tensor, which must be one of some."""
        if tensor.problem:
            raise self.unsupported(tensor.problem, HINT_PLAIN)
        if tensor.dtype not in allowed:
            types = " or ".join(allowed)
            if allowed == ("FLOAT32",) and tensor.data is not None and tensor.dtype == "INT8":
                raise self.unsupported(
                    f"weights `{tensor.name}` are INT8 and activations FLOAT32 (dynamic range); one type is allowed",
                    hint,
                )
            raise self.unsupported(f"tensor `{tensor.name}` is {tensor.dtype}; {types} is allowed", hint)
        return tensor.dtype

    def quant(self, tensor: FlatTensor) -> Quant:
        """The quantization of a tensor, which must have one for all of it."""
        if tensor.quant is None:
            raise self.unsupported(f"tensor `{tensor.name}` has no quantization; one scale and zero point is allowed")
        if len(tensor.quant.scales) != 1:
            raise self.unsupported(
                f"tensor `{tensor.name}` has {len(tensor.quant.scales)} scales; one for all of it is allowed"
            )
        return tensor.quant

    def scale(self, tensor: FlatTensor) -> np.float32:
        """The scale of a tensor that has one for all of it."""
        return np.float32(self.quant(tensor).scales[0])

    def zero_point(self, tensor: FlatTensor, *, symmetric: bool = True) -> int:
        """The zero point of a tensor that has one for all of it, within its type; 0 for int16 if it is `symmetric`."""
        zero_point = self.quant(tensor).zero_points[0]
        is_zero = symmetric and tensor.dtype == "INT16"
        low, high = (0, 0) if is_zero else LIMITS[self.require(tensor, "INT8", "UINT8", "INT16", "INT32")]
        if not low <= zero_point <= high:
            allowed = "0" if low == high else f"{low}..{high}"
            raise self.unsupported(f"tensor `{tensor.name}` has the zero point {zero_point}; {allowed} is allowed")
        return zero_point

    def same_quant(self, *tensors: FlatTensor) -> None:
        """Check that tensors have one quantization, where they have any."""
        first = tensors[0]
        for other in tensors[1:]:
            if first.dtype in ("INT8", "UINT8", "INT16") and first.quant and other.quant:
                one, two = ((q.scales, q.zero_points) for q in (first.quant, other.quant))
                if one != two:
                    raise self.unsupported(
                        f"tensors `{first.name}` and `{other.name}` differ in scale or zero point; "
                        "the operator moves values and takes one quantization",
                        "put a QUANTIZE before or behind the operator",
                    )

    def option(self, name: str, default: int = 0) -> int:
        """A field of the options, as a whole number."""
        return int(self.op.options.get(name, default))

    def activation(self) -> tuple[float | None, float | None]:
        """The limits of the fused activation function, None where there is none."""
        code = self.option("FusedActivationFunction")
        if code not in _ACTIVATION_LIMITS:
            name = _ACTIVATION_NAMES[code] if 0 <= code < len(_ACTIVATION_NAMES) else str(code)
            raise self.unsupported(
                f"the fused activation function is {name}; NONE, RELU, RELU_N1_TO_1 and RELU6 are allowed",
                "write the activation function as an operator of its own",
            )
        return _ACTIVATION_LIMITS[code]

    def stored_activation(self) -> tuple[int, int]:
        """The limits of the fused activation function as stored values of the output."""
        return self.stored_range(*self.activation())

    def stored_range(self, low: float | None, high: float | None) -> tuple[int, int]:
        """Limits as stored values of the output."""
        tensor = self.output()
        least, most = LIMITS[self.require(tensor, "INT8", "UINT8", "INT16")]
        scale, zero_point = self.scale(tensor), self.zero_point(tensor)

        def stored(limit: float) -> int:
            quotient = float(np.clip(np.float32(limit) / scale, -_BEYOND, _BEYOND))
            return zero_point + int(np.trunc(quotient + np.copysign(0.5, quotient)))

        first = least if low is None else max(least, stored(low))
        return first, most if high is None else min(most, stored(high))
