"""TFLite files of which the NPU takes a part, for tests: int8 operators that round nothing, others, and float ones."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import tflite

from deuteron.tflite.encode import Encoder
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant

Q = Quant((0.5,), (-4,))
SHAPE = (1, 4, 4, 8)


Extra = Callable[["FullEncoder"], dict[str, int]]
VERSIONS = {"ARG_MAX": 2, "BROADCAST_TO": 3, "DEQUANTIZE": 2}


class FullEncoder(Encoder):
    """Writes versions, open dimensions, and further fields in the file's root."""

    def __init__(self, model: FlatModel, extra: Extra, dynamic: str) -> None:
        self.dynamic = dynamic
        self.extra = extra
        self.last: dict[str, int] = {}
        """The latest table of each kind."""
        super().__init__(model)

    def table(self, kind: str, **fields: float) -> int:
        offset = super().table(kind, **fields | (self.extra(self) if kind == "Model" else {}))
        self.last[kind] = offset
        return offset

    def tensor(self, tensor: FlatTensor) -> int:
        if tensor.name != self.dynamic:
            return super().tensor(tensor)
        signature = self.integers((-1, *tensor.shape[1:]))
        return self.table("Tensor", Shape=self.integers(tensor.shape), ShapeSignature=signature,
                          Type=int(getattr(tflite.TensorType, tensor.dtype)), Name=self.text(tensor.name))  # fmt: skip

    def operator_code(self, name: str, custom_code: str, version: int = 1) -> int:
        code = int(getattr(tflite.BuiltinOperator, name))
        return self.table(
            "OperatorCode", DeprecatedBuiltinCode=min(code, 127), Version=VERSIONS.get(name, version), BuiltinCode=code
        )


@dataclass
class Net:
    """A file that grows by operators; methods give the tensor that the new one writes."""

    tensors: list[FlatTensor] = field(default_factory=lambda: [FlatTensor("x", SHAPE, "INT8", Q)])
    operators: list[FlatOperator] = field(default_factory=list)

    def add(
        self,
        name: str,
        *inputs: int,
        dtype: str = "INT8",
        shape: tuple[int, ...] = SHAPE,
        kind: str = "",
        **options: float,
    ) -> int:
        number = len(self.tensors)
        self.tensors.append(FlatTensor(f"t{number}", shape, dtype, Q if dtype == "INT8" else None))
        self.operators.append(FlatOperator(name, inputs, (number,), kind, options))
        return number

    def parts(
        self, name: str, *inputs: int, sizes: tuple[int, ...], dtype: str = "INT8", kind: str = "", **options: float
    ) -> int:
        """Parts along the last dimension; the last of them."""
        first = len(self.tensors)
        for size in sizes:
            number = self.add(name, *inputs, dtype=dtype, shape=(*SHAPE[:3], size), kind=kind, **options)
            self.operators.pop()
        self.operators.append(FlatOperator(name, inputs, tuple(range(first, number + 1)), kind, options))
        return number

    def relu(self, x: int) -> int:
        return self.add("RELU", x)

    def maximum(self, a: int, b: int) -> int:
        return self.add("MAXIMUM", a, b, kind="MaximumMinimumOptions")

    def through_float(self, x: int) -> int:
        """Down to the next whole number, in float."""
        floor = self.add("FLOOR", self.real(x), dtype="FLOAT32")
        return self.add("QUANTIZE", floor, kind="QuantizeOptions")

    def constant(self, values: tuple[int, ...], shape: tuple[int, ...] | None = None) -> int:
        """The index of an int32 constant, a vector unless `shape` says otherwise."""
        data, shape = np.array(values, "<i4").tobytes(), (len(values),) if shape is None else shape
        self.tensors.append(FlatTensor(f"constant{len(self.tensors)}", shape, "INT32", None, data))
        return len(self.tensors) - 1

    def scalar(self, value: float) -> int:
        """The index of a float constant."""
        data = np.array(value, "<f4").tobytes()
        self.tensors.append(FlatTensor(f"constant{len(self.tensors)}", (1,), "FLOAT32", None, data))
        return len(self.tensors) - 1

    def reversed(self, x: int) -> int:
        """An int8 operator that no NPU takes, with a constant."""
        return self.add("REVERSE_V2", x, self.constant((3,)), kind="ReverseV2Options")

    def real(self, x: int) -> int:
        """In float."""
        return self.add("DEQUANTIZE", x, dtype="FLOAT32", kind="DequantizeOptions")

    def place(self, x: int) -> int:
        """The index of the largest value, with options that only its own table has."""
        inputs = (x, self.constant((3,), ()))
        return self.add("ARG_MAX", *inputs, dtype="INT64", shape=SHAPE[:3], kind="ArgMaxOptions", OutputType=4)

    def data(self, *outputs: int, extra: Extra = lambda _: {}, dynamic: int = -1) -> bytes:
        """The file; one of its tensors may say that its first dimension is another each time."""
        notes = {"min_runtime_version": b"1.5.0"}
        model = FlatModel("mixed", tuple(self.tensors), (0,), tuple(outputs), tuple(self.operators), notes)
        return FullEncoder(model, extra, self.tensors[dynamic].name if dynamic >= 0 else "").finish()


def drawn(seed: int) -> bytes:
    """A file of random operators; values that nothing reads are its outputs."""
    rng = np.random.default_rng(seed)
    net, ends = Net(), [0]
    for _ in range(int(rng.integers(3, 12))):
        x, other = (int(rng.choice(ends)) for _ in range(2))
        match rng.integers(6):
            case 0:
                ends.append(net.through_float(x))
            case 1:
                ends.append(net.reversed(x))
            case 2 | 3:
                ends.append(net.relu(x))
            case _:
                ends.append(net.maximum(x, other))
    read = {i for op in net.operators for i in op.inputs}
    return net.data(*(end for end in ends if end not in read))
