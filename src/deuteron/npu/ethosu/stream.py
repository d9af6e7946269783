"""Decodes command streams: each operation with the state of the registers."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from deuteron.errors import FormatError, UnsupportedError
from deuteron.npu.ethosu.isa import (
    CONFIGS,
    ELEMENTWISE,
    ELEMENTWISE_85,
    POOLS,
    POOLS_85,
    RESIZES,
    TURNS,
    UNARY,
    UNARY_85,
    Config,
    Long,
    Op,
    Short,
)

_MAGIC = 0x31504F43
_CONFIG, _COMMANDS, _NOP = 1, 2, 5
_OPCODE, _WORDS_AT, _PARAM_AT = 0x3FF, 14, 16
_ADDRESS = 0xFF_FFFF_FFFF
WEIGHTS = "weights"
"""Name of the region of constants."""
_REGIONS = {0: WEIGHTS, 1: "scratch", 2: "fast scratch"}
SHRAM = "shram"
"""Name of the memory inside the NPU."""
_BYTES = (1, 2, 4)
_SUMS = 3
_FIRST_TABLE = 16
_DIMENSIONS_AT = 9
_ORDER_ONLY = frozenset((Op.STOP, Op.IRQ, Op.DMA_WAIT, Op.KERNEL_WAIT, Op.PMU_MASK))
_OPS, _SHORTS, _LONGS = (frozenset(map(int, numbers)) for numbers in (Op, Short, Long))
_HINT = "lower the model again"


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a memory, with its name in listings."""

    memory: str
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """A tensor of an operation.

    Attributes:
        memory: name of its memory.
        offset: offset of its first element.
        shape: height, width and channels.
        dtype: numpy name of the element type.
        in_bricks: whether its layout is NHCWB16, instead of NHWC.
        zero_point: zero point of its elements.
        strides: bytes from row to row, from pixel to pixel and, of bricks, from brick to brick; 0 if chained.
    """

    memory: str
    offset: int
    shape: tuple[int, int, int]
    dtype: str
    in_bricks: bool
    zero_point: int
    strides: tuple[int, int, int] = (0, 0, 0)

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return prod(self.shape) * int(self.dtype.partition("int")[2]) // 8


@dataclass(frozen=True, slots=True)
class Window:
    """A kernel over the input: positions, steps and dilation as (rows, columns); pads above, left, below and right."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the NPU.

    Attributes:
        offset: byte offset of its command.
        kind: `conv`, `depthwise`, a pool, an elementwise operation, or `copy`.
        inputs: the tensors that it reads.
        output: the tensor that it writes; a copy has none.
        window: window of convolutions and pools.
        scalar: the second operand of an elementwise operation, if it is a number.
        constants: weights and scales that it reads.
        table: index of the lookup table of its results.
        source: source of a copy.
        target: destination of a copy.
        turn: permutation or reversal of the output's rows, columns and channels, if any.
    """

    offset: int
    kind: str
    inputs: tuple[FeatureMap, ...] = ()
    output: FeatureMap | None = None
    window: Window | None = None
    scalar: int | None = None
    constants: tuple[Span, ...] = ()
    table: int | None = None
    source: Span | None = None
    target: Span | None = None
    turn: str = ""

    @property
    def macs(self) -> int:
        """Multiply-accumulates of a convolution; 0 for other operations."""
        if self.kind not in ("conv", "depthwise") or self.output is None or self.window is None:
            return 0
        height, width, channels = self.output.shape
        terms = self.window.kernel[0] * self.window.kernel[1]
        return height * width * channels * terms * (self.inputs[0].shape[2] if self.kind == "conv" else 1)


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch: always taken, or if the operation before wrote one element that is not 0."""

    offset: int
    target: int
    is_conditional: bool


@dataclass(frozen=True, slots=True)
class Stream:
    """The commands of a partition: accelerator, operations and branches in order."""

    config: Config
    nbytes: int
    operations: tuple[Operation, ...]
    branches: tuple[Branch, ...] = ()


def decode(command_data: bytes, where: str) -> Stream:
    """Decode the command data for Arm's driver.

    Raises:
        FormatError: it is damaged; with `where`.
        UnsupportedError: it is for an unknown accelerator.
    """
    config, commands = _commands(command_data, where)
    decoded = tuple(_decoded(config, commands, where))
    operations = tuple(one for one in decoded if isinstance(one, Operation))
    return Stream(config, len(commands), operations, tuple(one for one in decoded if isinstance(one, Branch)))


def config_of(command_data: bytes, where: str) -> Config:
    """Return the accelerator configuration of the commands; errors are those of `decode` for the header."""
    return _commands(command_data, where)[0]


def _commands(data: bytes, where: str) -> tuple[Config, bytes]:
    """Return the configuration, and the commands after the driver actions."""
    if len(data) % 4 or len(data) < 4 or int.from_bytes(data[:4], "little") != _MAGIC:
        raise FormatError("the commands do not start with `COP1`", where=where, hint=_HINT)
    words = struct.unpack(f"<{len(data) // 4}I", data)
    config, at = None, 1
    while at < len(words):
        action = words[at] & 0xFF
        if action == _CONFIG and at + 2 < len(words):
            config = next((c for c in CONFIGS if c.word == words[at + 1]), None)
            if config is None:
                names = ", ".join(c.name for c in CONFIGS)
                message = f"the commands are for an accelerator with the configuration 0x{words[at + 1]:08x}"
                raise UnsupportedError(message, where=where, hint=f"lower the model for one of {names}")
            at += 3
        elif action == _COMMANDS and config is not None:
            count = (words[at] & 0xFF00) << 8 | words[at] >> 16
            if count != len(words) - at - 1:
                break
            return config, data[4 * (at + 1) :]
        elif action == _NOP:
            at += 1
        else:
            break
    raise FormatError("the commands' header is damaged", where=where, hint=_HINT)


def _decoded(config: Config, commands: bytes, where: str) -> Iterator[Operation | Branch]:
    words = struct.unpack(f"<{len(commands) // 4}I", commands)
    registers = _Registers85({}, where, config) if config.is_u85 else _Registers({}, where, config)
    at = 0
    while at < len(words):
        word, offset = words[at], 4 * at
        opcode, param, has_payload = word & _OPCODE, word >> _PARAM_AT, word >> _WORDS_AT & 3
        at += 1 + has_payload
        if has_payload > 1 or at > len(words):
            break
        if has_payload and opcode == Long.BRANCH and config.is_u85:
            yield Branch(offset, words[at - 1], param == 1)
        elif has_payload and opcode in _LONGS:
            registers.values[Long(opcode)] = param << 32 | words[at - 1]
        elif not has_payload and opcode in _SHORTS:
            registers.values[Short(opcode)] = param
        elif has_payload or opcode not in _OPS:
            raise FormatError(f"0x{word:08x} at byte 0x{offset:x} is no command", where=where, hint=_HINT)
        elif Op(opcode) is Op.STOP:
            return
        elif Op(opcode) not in _ORDER_ONLY:
            yield registers.operation(offset, Op(opcode), param)
    raise FormatError("the commands end without a stop", where=where, hint=_HINT)


@dataclass(slots=True)
class _Registers:
    """The registers that commands have set."""

    values: dict[Short | Long, int]
    where: str
    config: Config

    def operation(self, offset: int, op: Op, param: int) -> Operation:
        """Return the operation with these registers."""
        match op:
            case Op.DMA_START:
                return self._copy(offset)
            case Op.ELEMENTWISE:
                return self._elementwise(offset, _name(ELEMENTWISE, param, self.where))
            case Op.POOL:
                return self._windowed(offset, _name(POOLS, param, self.where), ())
            case _:
                return self._windowed(offset, op.name.lower(), tuple(self._constants()))

    def __getitem__(self, register: Short | Long) -> int:
        if register not in self.values:
            raise FormatError(f"an operation needs `{register.name}`, which is not set", where=self.where, hint=_HINT)
        return self.values[register]

    def _count(self, register: Short) -> int:
        return self[register] + 1

    def _address(self, register: Long) -> int:
        return self[register] & _ADDRESS

    def _map(self, side: str, shape: tuple[int, int, int]) -> FeatureMap:
        precision = self[Short[f"{side}_PRECISION"]]
        signed = precision & 1
        size = precision >> (1 if side == "OFM" else 2) & 3
        zero_point = self[Short[f"{side}_ZERO_POINT"]]
        bits = 8 * _BYTES[min(size, 2)]
        return FeatureMap(
            memory_name(self[Short[f"{side}_REGION"]]),
            self._address(Long[f"{side}_BASE0"]),
            shape,
            f"{'int' if signed else 'uint'}{bits}",
            precision >> 6 & 3 == 1,
            zero_point - 0x10000 if signed and zero_point & 0x8000 else zero_point,
            self._strides(side),
        )

    def _strides(self, side: str) -> tuple[int, int, int]:
        y, x, c = (self.values.get(Long[f"{side}_STRIDE_{axis}"], 0) for axis in "YXC")
        return y & _ADDRESS, x & _ADDRESS, c & _ADDRESS

    def _output(self) -> FeatureMap:
        sizes = Short.OFM_HEIGHT_M1, Short.OFM_WIDTH_M1, Short.OFM_DEPTH_M1
        height, width, depth = map(self._count, sizes)
        return self._map("OFM", (height, width, depth))

    def _table(self) -> int | None:
        function = self[Short.ACTIVATION] & 0x1F
        return function - _FIRST_TABLE if function >= _FIRST_TABLE else None

    def _window(self) -> Window:
        bits = self[Short.KERNEL_STRIDE]
        stride = 1 + (bits >> 1 & 1 | bits >> 9 << 1 & 2), 1 + (bits & 1 | bits >> 6 << 1 & 2)
        dilation = 1 + (bits >> 4 & 1), 1 + (bits >> 3 & 1)
        sizes = self[Short.KERNEL_HEIGHT_M1], self[Short.KERNEL_WIDTH_M1]
        pads = Short.IFM_PAD_TOP, Short.IFM_PAD_LEFT, Short.IFM_PAD_BOTTOM, Short.IFM_PAD_RIGHT
        top, left, bottom, right = (self[pad] for pad in pads)
        kernel = sizes[0] // dilation[0] + 1, sizes[1] // dilation[1] + 1
        return Window(kernel, stride, dilation, (top, left, bottom, right))

    def _windowed(self, offset: int, kind: str, constants: tuple[Span, ...]) -> Operation:
        output, window = self._output(), self._window()
        top, left, bottom, right = window.pads
        factor = 2 if self[Short.IFM_UPSCALE] else 1
        height = (output.shape[0] - 1) * window.stride[0] + self._count(Short.KERNEL_HEIGHT_M1) - top - bottom
        width = (output.shape[1] - 1) * window.stride[1] + self._count(Short.KERNEL_WIDTH_M1) - left - right
        shape = -(-height // factor), -(-width // factor), self._count(Short.IFM_DEPTH_M1)
        return Operation(
            offset, kind, (self._map("IFM", shape),), output, window, constants=constants, table=self._table()
        )

    def _constants(self) -> Iterator[Span]:
        for what, region in (("WEIGHT", Short.WEIGHT_REGION), ("SCALE", Short.SCALE_REGION)):
            for core in ("", "1"):
                base, length = Long[f"{what}{core}_BASE"], Long[f"{what}{core}_LENGTH"]
                if self.values.get(length, 0):
                    yield Span(memory_name(self[region]), self._address(base), self[length] & 0xFFFF_FFFF)

    def _elementwise(self, offset: int, kind: str) -> Operation:
        output = self._output()
        inputs = [self._map("IFM", output.shape)]
        scalar = None
        if kind not in UNARY:
            broadcast = self[Short.IFM2_BROADCAST]
            if broadcast >> 7 & 1:
                scalar = self[Short.IFM2_SCALAR]
                scalar -= 0x10000 if self[Short.IFM2_PRECISION] & 1 and scalar & 0x8000 else 0
            else:
                height, width, depth = (1 if broadcast >> i & 1 else n for i, n in enumerate(output.shape))
                inputs.insert(0 if broadcast >> 6 & 1 else 1, self._map("IFM2", (height, width, depth)))
        return Operation(offset, kind, tuple(inputs), output, scalar=scalar, table=self._table())

    def _copy(self, offset: int) -> Operation:
        """Return a copy, whose destination may have gaps between rows on an Ethos-U65."""
        row, rows, skip = self._address(Long.DMA0_LEN), 1, 0
        if self[Short.DMA0_DST_REGION] >> _DIMENSIONS_AT & 3:
            rows, skip = self[Short.DMA0_SIZE0], self._address(Long.DMA0_SKIP0)
        source = Span(memory_name(self[Short.DMA0_SRC_REGION]), self._address(Long.DMA0_SRC), rows * row)
        reach = rows * (row + skip) - skip if rows else 0
        target = Span(memory_name(self[Short.DMA0_DST_REGION]), self._address(Long.DMA0_DST), reach)
        return Operation(offset, "copy", source=source, target=target)


class _Registers85(_Registers):
    """The registers of an Ethos-U85."""

    def operation(self, offset: int, op: Op, param: int) -> Operation:
        match op:
            case Op.ELEMENTWISE:
                done = self._elementwise(offset, ELEMENTWISE_85.get(param & 0x3F, f"elementwise_{param & 0x3F}"))
            case Op.RESIZE:
                done = self._resize(offset, _name(RESIZES, param & 3, self.where))
            case Op.POOL if POOLS_85[param & 7] == "restore":
                output = self._output()
                done = Operation(offset, "restore", (self._map("IFM2", output.shape),), output, table=self._table())
            case Op.POOL:
                done = self._windowed(offset, POOLS_85[param & 7], ())
            case Op.CONV if param & 1:
                done = self._matrix(self._windowed(offset, "matmul", ()))
            case _:
                return super().operation(offset, op, param)
        return done

    def _map(self, side: str, shape: tuple[int, int, int]) -> FeatureMap:
        plain = super()._map(side, shape)
        precision, region = self[Short[f"{side}_PRECISION"]], self[Short[f"{side}_REGION"]]
        if precision >> (1 if side == "OFM" else 2) & 3 == _SUMS:
            plain = replace(plain, dtype="int64")
        match precision >> 14:
            case 2:
                return replace(plain, memory=f"chain {region}", offset=0, strides=(0, 0, 0))
            case 3:
                return replace(plain, memory="accumulators", offset=0, strides=(0, 0, 0))
            case _:
                return plain

    def _address(self, register: Long) -> int:
        """Return the address; chained maps have none."""
        return self.values.get(register, 0) & _ADDRESS

    def _table(self) -> int | None:
        activation = self[Short.ACTIVATION]
        return activation >> 5 & 7 if activation & 0x1F else None

    def _turn(self) -> str:
        """Return the permutation or reversal of the output."""
        precision = self[Short.OFM_PRECISION]
        turn, reverse = TURNS[precision >> 11 & 7], precision >> 9 & 3
        return f"reversed {'HWC'[reverse - 1]}" if reverse else turn if turn != TURNS[0] else ""

    def _windowed(self, offset: int, kind: str, constants: tuple[Span, ...]) -> Operation:
        return replace(super()._windowed(offset, kind, constants), turn=self._turn())

    def _matrix(self, operation: Operation) -> Operation:
        """Return a matrix product: a convolution whose weights are the second input, a row for each output channel."""
        depth, width = operation.inputs[0].shape[2], self._output().shape[2]
        return replace(operation, inputs=(*operation.inputs, self._map("IFM2", (1, width, depth))))

    def _resize(self, offset: int, kind: str) -> Operation:
        sizes = Short.KERNEL_HEIGHT_M1, Short.KERNEL_WIDTH_M1, Short.IFM_DEPTH_M1
        height, width, depth = map(self._count, sizes)
        return Operation(offset, kind, (self._map("IFM", (height, width, depth)),), self._output(), table=self._table())

    def _constants(self) -> Iterator[Span]:
        streams = 1 if self[Short.WEIGHT_FORMAT] & 1 else self.config.weight_streams
        names = [("WEIGHT", str(i or "")) for i in range(streams)] + [("SCALE", "")]
        for what, stream in names:
            base, length = Long[f"{what}{stream}_BASE"], Long[f"{what}{stream}_LENGTH"]
            if self.values.get(length, 0):
                yield Span(memory_name(self[Short[f"{what}_REGION"]]), self._address(base), self[length] & 0xFFFF_FFFF)

    def _elementwise(self, offset: int, kind: str) -> Operation:
        output = self._output()
        sides = ("IFM",) if kind in UNARY_85 else ("IFM", "IFM2")
        inputs: list[FeatureMap] = []
        scalar = None
        for side in sides:
            broadcast = self[Short[f"{side}_BROADCAST"]]
            if broadcast >> 3 & 1:
                scalar = self[Long.OP_SCALAR] & 0xFFFF_FFFF
                scalar -= 1 << 32 if scalar >> 31 else 0
            else:
                height, width, depth = (1 if broadcast >> i & 1 else n for i, n in enumerate(output.shape))
                inputs.append(self._map(side, (height, width, depth)))
        return Operation(offset, kind, tuple(inputs), output, scalar=scalar, table=self._table(), turn=self._turn())

    def _copy(self, offset: int) -> Operation:
        """Return a copy of rows and planes of rows; an indexed one may access all of its memory from its address on."""
        row, rows, planes = self._address(Long.DMA0_LEN), 1, 1
        dimensions = self[Short.DMA0_SRC_REGION] >> _DIMENSIONS_AT & 3
        if dimensions > 0:
            rows = self[Short.DMA0_SIZE0]
        if dimensions > 1:
            planes = self[Short.DMA0_SIZE1]
        spans: list[Span] = []
        for side in ("SRC", "DST"):
            pitches = [self._address(Long[f"DMA0_{side}_STRIDE{i}"]) if dimensions > i else 0 for i in range(2)]
            reach = row + (rows - 1) * pitches[0] + (planes - 1) * pitches[1]
            region = self[Short[f"DMA0_{side}_REGION"]]
            spans.append(Span(memory_name(region), self._address(Long[f"DMA0_{side}"]), reach))
        return Operation(offset, "copy", source=spans[0], target=spans[1])


def memory_name(region: int) -> str:
    """Return the name of a region; bit 8 marks the NPU's internal memory."""
    return SHRAM if region >> 8 & 1 else _REGIONS.get(region & 7, f"region {region & 7}")


def _name(names: tuple[str, ...], index: int, where: str) -> str:
    if index >= len(names):
        raise FormatError(f"an operation is of kind {index}, there are {len(names)}", where=where, hint=_HINT)
    return names[index]


def by_kind(stream: Stream) -> Mapping[str, int]:
    """Return the number of operations of each kind, in order of first use."""
    counts: dict[str, int] = {}
    for operation in stream.operations:
        counts[operation.kind] = counts.get(operation.kind, 0) + 1
    return counts
