"""Programs made by hand, without PyTorch: values, calls and partitions as a `.pte` would have them."""

import math
from dataclasses import dataclass, field, replace

from tests.npu.neutron.microcode import programs as microcode

from deuteron.board import bundle
from deuteron.npu.firmware import FirmwarePartition
from deuteron.npu.neutron import firmware
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.payload import BACKEND_ID, Payload, compose
from deuteron.planner import plan
from deuteron.runtime.program import (
    Constant,
    Delegate,
    DelegateCall,
    Instruction,
    KernelCall,
    Method,
    Place,
    Program,
    TensorSpec,
    TensorValue,
    Value,
)

QUANTIZE = "quantized_decomposed::quantize_per_tensor.out"
DEQUANTIZE = "quantized_decomposed::dequantize_per_tensor.out"
ITEM_BYTES = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "float16": 2, "int32": 4, "int64": 8, "float32": 4}

SMALL = microcode.CONTAINER
"""Input [1,4,4,2], outputs [1,8] and [2,1,4,4]."""


def container(text: str) -> Container:
    """The container of a graph in its text form."""
    program = select(parse_graph(text))
    return encode(program, plan(program))


ADD = container(
    """graph add {
  input %a: i8[1,3,5,4] q(0.5:3)
  input %b: i8[1,3,5,4] q(0.25:-7)
  %s: i8[1,3,5,4] q(0.5:0) = add(%a, %b) @[0]
  %m: i8[1,3,5,4] q(0.5:0) = mul(%s, %b) @[1]
  output %s
  output %m
}
"""
)
"""Two inputs and two outputs of [1,3,5,4]: channels last with 4 channels."""


def delegate(blocks: Container, name: str = "partition 0") -> bundle.Delegate:
    """Return the partition of a bundle with these blocks: each tensor is an argument, in order, without conversion."""
    decoded = decode(blocks)
    inputs, outputs = len(decoded.input_bytes), len(decoded.output_bytes)
    data = payload(blocks, (0,) * inputs, (0,) * outputs)
    return bundle.Delegate(firmware.FIRMWARE, firmware.FIRMWARE.partition(data, name))


def container_of(partition: FirmwarePartition) -> Container:
    """The three blocks of a Neutron partition."""
    return Container(*(block.data for block in partition.blocks))


def payload(
    blocks: Container,
    input_formats: tuple[int, ...] = (0,),
    output_formats: tuple[int, ...] = (0, 0),
    input_map: tuple[int, ...] | None = None,
    output_map: tuple[int, ...] | None = None,
) -> bytes:
    """The payload of a partition whose arguments are its inputs, in order unless a map is given."""
    return compose(
        Payload(
            input_args=len(input_formats),
            input_formats=tuple(bool(f) for f in input_formats),
            output_formats=tuple(bool(f) for f in output_formats),
            input_map=tuple(range(len(input_formats))) if input_map is None else input_map,
            output_map=tuple(range(len(output_formats))) if output_map is None else output_map,
            version=0,
            container=blocks,
        )
    )


@dataclass(slots=True)
class Maker:
    """Makes a method: tensors are placed one after the other in memory 1."""

    values: list[Value] = field(default_factory=list[Value])
    operators: list[str] = field(default_factory=list[str])
    delegates: list[Delegate] = field(default_factory=list[Delegate])
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    used: int = 0

    def value(self, value: Value) -> int:
        """The index of a new value."""
        self.values.append(value)
        return len(self.values) - 1

    def tensor(self, shape: tuple[int, ...], dtype: str = "int8", order: tuple[int, ...] | None = None) -> int:
        """A tensor in memory 1."""
        size = math.prod(shape) * ITEM_BYTES[dtype]
        spec = TensorSpec(shape, dtype, tuple(range(len(shape))) if order is None else order)
        place = Place(1, self.used)
        self.used += size + -size % 16
        return self.value(TensorValue(spec, size, place, None, dynamic=False, external=False))

    def unplanned(self, shape: tuple[int, ...], dtype: str = "int8", order: tuple[int, ...] | None = None) -> int:
        """A tensor without a place."""
        used = self.used
        index = self.tensor(shape, dtype, order)
        self.change(index, place=None)
        self.used = used
        return index

    def state(self, shape: tuple[int, ...], data: bytes, dtype: str = "int8", name: str = "") -> int:
        """A tensor in memory 1 that lasts between runs, with its initial content."""
        index = self.tensor(shape, dtype)
        self.change(index, constant=Constant(data, 0, len(data)), name=name)
        return index

    def copy_into(self, target: int, source: int) -> None:
        """A call of `copy_` as ExecuTorch writes it at the end of a method."""
        self.call("aten::copy_", target, source, self.value(False), target)

    def constant(self, shape: tuple[int, ...], data: bytes) -> int:
        """An int8 tensor with content."""
        index = self.unplanned(shape)
        self.change(index, constant=Constant(data, 0, len(data)))
        return index

    def change(self, index: int, **fields: object) -> None:
        """Gives fields of a tensor other values."""
        tensor = self.values[index]
        assert isinstance(tensor, TensorValue)
        self.values[index] = replace(tensor, **fields)  # pyright: ignore[reportArgumentType]

    def call(self, operator: str, *args: int) -> None:
        """An instruction that calls an operator."""
        if operator not in self.operators:
            self.operators.append(operator)
        self.instructions.append(KernelCall(self.operators.index(operator), args))

    def quantize(
        self, x: int, y: int, scale: float = 0.5, zero: int = 3, low: int = -128, high: int = 127, dtype: int = 1
    ) -> None:
        """A call of quantize_per_tensor as ExecuTorch writes it."""
        numbers = [self.value(number) for number in (scale, zero, low, high, dtype)]
        self.call(QUANTIZE, x, *numbers, y, y)

    def dequantize(self, x: int, y: int, scale: float = 0.25, zero: int = -5) -> None:
        """A call of dequantize_per_tensor as ExecuTorch writes it."""
        numbers = [self.value(number) for number in (scale, zero, -128, 127, 1, None)]
        self.call(DEQUANTIZE, x, *numbers, y, y)

    def partition(self, data: bytes, *args: int) -> None:
        """A partition and a call of it."""
        self.delegates.append(Delegate(BACKEND_ID, data))
        self.instructions.append(DelegateCall(len(self.delegates) - 1, args))

    def program(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Program:
        """The program with this one method, `forward`."""
        method = Method(
            name="forward",
            values=tuple(self.values),
            inputs=inputs,
            outputs=outputs,
            operators=tuple(self.operators),
            delegates=tuple(self.delegates),
            chains=(tuple(self.instructions),),
            arenas=(0, self.used),
        )
        return Program((method,))


def edges() -> Program:
    """Quantize, run a partition, dequantize one of its outputs and give the other as it is."""
    make = Maker()
    x, q = make.tensor((1, 4, 4, 2), "float32"), make.tensor((1, 4, 4, 2))
    y, t, f = make.tensor((1, 8)), make.tensor((2, 1, 4, 4)), make.tensor((1, 8), "float32")
    make.quantize(x, q)
    make.partition(payload(SMALL), q, y, t)
    make.dequantize(y, f)
    return make.program((x,), (f, t))


def channels_first(order: tuple[int, ...] = (0, 1, 2, 3)) -> Program:
    """A partition that wants channels last, between tensors in another order; inputs and outputs lie nowhere.

    Arguments are crossed: NPU input 0 is the second argument, NPU output 0 the second output.
    """
    make = Maker()
    a, b, s, m = (make.unplanned((1, 4, 3, 5), "int8", order) for _ in range(4))
    make.partition(payload(ADD, (1, 1), (1, 1), (1, 0), (1, 0)), a, b, s, m)
    return make.program((a, b), (s, m))


def two_partitions() -> Program:
    """Two partitions with CPU operators between them: the second one gets what the first gave, requantized."""
    make = Maker()
    shape = (1, 3, 5, 4)
    a, b, s, m, n, f = *(make.tensor(shape) for _ in range(5)), make.tensor(shape, "float32")
    s2, m2 = make.tensor(shape), make.tensor(shape)
    make.partition(payload(ADD, (0, 0)), a, b, s, m)
    make.dequantize(m, f, 0.5, 0)
    make.quantize(f, n, 0.75, 11, -100, 100)
    make.partition(payload(ADD, (0, 0)), s, n, s2, m2)
    return make.program((a, b), (m, s2, m2))
