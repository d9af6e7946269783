"""Typed access to one operator of a TFLite model, with errors that name its place."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from deuteron.errors import WHERE, FormatError, UnsupportedError, counted
from deuteron.npu.neutron.ir.ops import Clamp, Pads, Pair
from deuteron.npu.neutron.ir.types import DType, Tensor, TensorType
from deuteron.npu.neutron.tflite.attributes import ACTIVATIONS, same_pads
from deuteron.tflite.flat_model import CUSTOM, HINT_MALFORMED, NO_TENSOR, FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant

_HINT = "change the model, or keep this operator on the CPU"
_FLOATS = ("FLOAT16", "BFLOAT16", "FLOAT32", "FLOAT64")
_INDEX_TYPES = {"INT32": np.dtype("<i4"), "INT64": np.dtype("<i8")}
_ACTIVATION_NAMES = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
_MAX_CHANNELS = 1 << 16
"""Limit far above that of kernels, so that a damaged shape does not allocate a huge bias."""
_PADDING_NAMES = ("SAME", "VALID")


class Names:
    """Unique names of a model's tensors: their names, with a number appended to duplicates."""

    def __init__(self, model: FlatModel) -> None:
        self._taken: set[str] = set()
        self._repeats: Counter[str] = Counter()
        order = dict.fromkeys((*model.inputs, *model.outputs, *range(len(model.tensors))))  # inputs and outputs first
        chosen = {index: self.unique(model.tensors[index].name) for index in order}
        self.of = tuple(chosen[index] for index in range(len(model.tensors)))
        """Name of each tensor by its index."""

    def unique(self, wanted: str) -> str:
        """Return `wanted`, or the next unused `wanted_<number>`, and mark it as used."""
        name = wanted
        while name in self._taken:
            self._repeats[wanted] += 1
            name = f"{wanted}_{self._repeats[wanted]}"
        self._taken.add(name)
        return name


@dataclass(frozen=True, slots=True)
class Site:
    """Operator `index` of `model`; `constants` collects the tensors it adds."""

    model: FlatModel
    names: Names
    index: int
    constants: list[Tensor]

    @property
    def op(self) -> FlatOperator:
        """The operator itself."""
        return self.model.operators[self.index]

    @property
    def where(self) -> str:
        """Place in errors: operator index and name, and its first output tensor."""
        name = f"{CUSTOM} `{self.op.custom_code}`" if self.op.name == CUSTOM else self.op.name
        output = f", output `{self.names.of[self.op.outputs[0]]}`" if self.op.outputs else ""
        return f"op {self.index} {name}{output}"

    def unsupported(self, message: str, hint: str = _HINT) -> UnsupportedError:
        """Return the error for a valid operator that is not supported."""
        return UnsupportedError(message, where=self.where, hint=hint, operators={WHERE: self.index})

    def malformed(self, message: str) -> FormatError:
        """Return the error for an inconsistent operator."""
        return FormatError(message, where=self.where, hint=HINT_MALFORMED, operators={WHERE: self.index})

    def check_form(self, inputs: range, outputs: range = range(1, 2)) -> None:
        """Check the numbers of inputs and outputs of the operator; one each by default."""
        if len(self.op.inputs) not in inputs or len(self.op.outputs) not in outputs:
            counts = f"{counted(len(self.op.inputs), 'input')} and {counted(len(self.op.outputs), 'output')}"
            raise self.malformed(f"{counts} are not a form of this operator")

    # operands

    def operand(self, position: int) -> str:
        """Name of the int8 input at `position`."""
        return self._int8(self.op.inputs[position])

    def moved(self, position: int) -> str:
        """Name of the int8 input at `position` of an operator that moves values, which keeps their quantization."""
        name = self.operand(position)
        if self.input_tensor(position).quant != self.output_tensor().quant:
            raise self.unsupported(
                f"tensor `{name}` and the output have different quantization",
                hint="put a QUANTIZE operator in front of this one",
            )
        return name

    def weights(self) -> str:
        """Name of the int8 weights, input 1, whose zero points are 0."""
        name = self.operand(1)
        quant = self.input_tensor(1).quant
        if quant is not None and any(quant.zero_points):
            raise self.unsupported(
                f"weights `{name}` have zero point {next(z for z in quant.zero_points if z)}; 0 is allowed",
                hint="quantize weights symmetrically",
            )
        return name

    def output(self) -> str:
        """Name of the one int8 output."""
        return self._int8(self.op.outputs[0])

    def input_tensor(self, position: int) -> FlatTensor:
        """The input at `position`, which is required."""
        if (tensor := self.op.inputs[position]) == NO_TENSOR:
            raise self.malformed(f"input {position} is left out")
        return self.model.tensors[tensor]

    def output_tensor(self) -> FlatTensor:
        """The one output."""
        return self.model.tensors[self.op.outputs[0]]

    def output_quant(self) -> Quant:
        """Quantization of the one output, per tensor."""
        tensor = self.output_tensor()
        if tensor.quant is None or tensor.quant.axis is not None:
            raise self.malformed(f"output tensor `{tensor.name}` has no per-tensor quantization")
        return tensor.quant

    def has_input(self, position: int) -> bool:
        """Return True if the optional input at `position` is given."""
        return position < len(self.op.inputs) and self.op.inputs[position] != NO_TENSOR

    def bias(self, position: int, channels: int) -> str:
        """Name of the int32 bias at `position`; a new constant of zeros if it is omitted."""
        if self.has_input(position):
            tensor = self.input_tensor(position)
            self._no_float(tensor)
            if tensor.dtype != "INT32":
                raise self.unsupported(f"bias `{tensor.name}` is {tensor.dtype}; INT32 is allowed")
            name = self.names.of[self.op.inputs[position]]
            ones, last = tensor.shape[:-1], tensor.shape[-1:]
            flat = tensor.data is not None and set(ones) == {1} and last == (channels,)
            return self._flat_bias(name, tensor, channels) if flat else name
        if channels > _MAX_CHANNELS:
            raise self.malformed(f"{channels} output channels; at most {_MAX_CHANNELS} are possible")
        name = self.names.unique(f"{self.output()}/bias")
        self.constants.append(Tensor(name, TensorType((channels,), DType.INT32), bytes(4 * channels)))
        return name

    def _flat_bias(self, name: str, tensor: FlatTensor, channels: int) -> str:
        """Name of a vector with the content of a bias with other dimensions of 1."""
        flat = self.names.unique(f"{name}/flat")
        quant = tensor.quant and replace(tensor.quant, axis=None if tensor.quant.axis is None else 0)
        self.constants.append(Tensor(flat, TensorType((channels,), DType.INT32, quant), tensor.data))
        return flat

    def integers(self, position: int, what: str) -> tuple[int, ...]:
        """Values of the constant index tensor at `position`, row-major."""
        tensor = self.input_tensor(position)
        if tensor.dtype not in _INDEX_TYPES:
            raise self.malformed(f"{what} `{tensor.name}` is {tensor.dtype}; INT32 and INT64 are allowed")
        if tensor.data is None and 0 not in tensor.shape:
            raise self.unsupported(
                f"{what} `{tensor.name}` is computed at run time; it must be a constant",
                hint="export the model with static shapes",
            )
        dtype = _INDEX_TYPES[tensor.dtype]
        data = tensor.data or b""
        if len(data) % dtype.itemsize:
            raise self.malformed(f"{what} `{tensor.name}` holds {len(data)} bytes, no whole number of {tensor.dtype}")
        return tuple(int(v) for v in np.frombuffer(data, dtype))

    def axis(self, value: int, rank: int) -> int:
        """`value` as an index from 0 to below `rank`; negative ones count from the end."""
        if not -rank <= value < rank:
            raise self.malformed(f"axis {value} of a tensor of {rank} dimensions")
        return value % rank

    # options

    def option(self, name: str, default: int = 0) -> int:
        """An integer option; `default` is the schema's, for operators without an option table."""
        return int(self.op.options.get(name, default))

    def clamp(self) -> Clamp:
        """The fused activation as limits of the stored output."""
        code = self.option("FusedActivationFunction")
        name = _ACTIVATION_NAMES[code] if 0 <= code < len(_ACTIVATION_NAMES) else f"number {code}"
        if name not in ACTIVATIONS:
            raise self.unsupported(
                f"fused activation {name}; {', '.join(ACTIVATIONS)} are allowed",
                hint="make the activation a separate operator",
            )
        return ACTIVATIONS[name](self.output_quant())

    def pair(self, row: str, column: str, default: int = 0) -> Pair:
        """Two options of at least 1, for rows and columns."""
        pair = self.option(row, default), self.option(column, default)
        if min(pair) < 1:
            raise self.malformed(f"{row} {pair[0]} and {column} {pair[1]}; both must be at least 1")
        return pair

    def image_size(self, position: int) -> Pair:
        """Rows and columns of the 4-dimensional input at `position`."""
        tensor = self.input_tensor(position)
        if len(tensor.shape) != 4:
            raise self.malformed(f"tensor `{tensor.name}` has {len(tensor.shape)} dimensions instead of 4")
        return tensor.shape[1], tensor.shape[2]

    def pads(self, window: Pair, stride: Pair, dilation: Pair = (1, 1)) -> Pads:
        """The padding around input 0."""
        return same_pads(self.image_size(0), window, stride, dilation) if self.pads_same() else Pads()

    def pads_same(self) -> bool:
        """True for SAME padding, False for VALID."""
        code = self.option("Padding")
        if not 0 <= code < len(_PADDING_NAMES):
            raise self.malformed(f"padding number {code}; 0 (SAME) and 1 (VALID) are allowed")
        return _PADDING_NAMES[code] == "SAME"

    # checks

    def _int8(self, index: int) -> str:
        if index == NO_TENSOR:
            raise self.malformed("a required input is left out")
        tensor = self.model.tensors[index]
        self._no_float(tensor)
        if tensor.dtype != "INT8":
            raise self.unsupported(f"tensor `{tensor.name}` is {tensor.dtype}; INT8 is allowed")
        if tensor.quant is None:
            raise self.unsupported(
                f"tensor `{tensor.name}` has no quantization",
                hint="every INT8 tensor needs a scale and a zero point; quantize the model before converting it",
            )
        return self.names.of[index]

    def _no_float(self, tensor: FlatTensor) -> None:
        if tensor.dtype in _FLOATS:
            raise self.unsupported(
                f"float left in a partition: tensor `{tensor.name}` is {tensor.dtype}",
                hint="quantize this operator too, or keep it on the CPU",
            )
