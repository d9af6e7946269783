"""An NPU that does everything as late, or as early, as its commands allow: the results of a stream in the worst case.

It depends on the registers only, and checks the hazard check independently. Each operation or copy is executed alone,
by a separate stream with its registers, in the order of a `Schedule`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
from tests.npu.ethosu.commands import Command, Commands, written
from tests.npu.ethosu.machine import Bytes, Machine, aligned, shram_bytes

from deuteron.npu.ethosu.blob import Blob
from deuteron.npu.ethosu.isa import ELEMENTWISE, ELEMENTWISE_85, UNARY, UNARY_85, Config, Long, Op, Short

Ints = npt.NDArray[np.int64]
Registers = dict[Short | Long, int]

BANK = 1024
FAST_BYTES = 1 << 16
"""Bytes of the fast scratch memory: more than the streams of tests use."""
_SUMS = {32: (4, 4, 4), 64: (4, 8, 4), 128: (8, 12, 4), 256: (16, 20, 8)}
_SUM_BITS = (32, 40, 16)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The late parts of the NPU: none, copies, operations, random ones, or the last blocks of operations."""

    late: Literal["nothing", "copies", "operations", "any", "blocks"] = "nothing"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Started:
    """An operation or copy, with the registers that it met, and the operations before it in its chain."""

    op: Op
    param: int
    registers: Registers
    chain: "tuple[Started, ...]" = ()

    @property
    def is_copy(self) -> bool:
        """Return whether it is a copy."""
        return self.op is Op.DMA_START

    def commands(self) -> Commands:
        """A stream of it and of its chain alone."""
        commands: list[Command] = []
        for one in (*self.chain, self):
            commands += (
                Command(int(r), v >> 32, v & 0xFFFFFFFF) if isinstance(r, Long) else Command(int(r), v)
                for r, v in one.registers.items()
            )
            commands.append(Command(int(one.op), one.param))
        return (*commands, Command(int(Op.STOP), 0xFFFF))

    @property
    def early(self) -> int:
        """Return the number of blocks of the previous operation that may run together with its first block."""
        first = self.chain[0] if self.chain else self
        return first.registers.get(Short.BLOCKDEP, 3)


@dataclass(slots=True)
class Npu:
    """The memory of a stream, random except for its constants and inputs; `fill` chooses the numbers."""

    config: Config
    blob: Blob
    fill: int
    memories: dict[int, Bytes] = field(init=False)
    shram: Bytes = field(init=False)
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.fill)
        self.memories = {
            0: aligned(np.frombuffer(self.blob.weights, np.uint8)),
            1: aligned(self._noise(self.blob.scratch_bytes)),
            2: aligned(self._noise(FAST_BYTES)),
        }
        self.shram = aligned(self._noise(shram_bytes(self.config)))
        inputs = np.random.default_rng(0)
        for tensor in self.blob.inputs:
            values = inputs.integers(0, 256, tensor.nbytes, np.uint8)
            self.memories[1][tensor.offset : tensor.offset + tensor.nbytes] = values

    def outputs(self) -> bytes:
        """The bytes of all outputs."""
        memory = self.memories[1]
        return b"".join(memory[t.offset : t.offset + t.nbytes].tobytes() for t in self.blob.outputs)

    def _run(self, started: Started) -> None:
        data = written(started.commands(), self.config.word)
        Machine(self.config, data, self.memories, self.shram).run()

    def _noise(self, size: int) -> Bytes:
        return self.rng.integers(0, 256, size, np.uint8)

    def execute(self, started: Started) -> None:
        """Runs one operation or copy; its buffers overwrite their part of the SHRAM."""
        has_none = started.is_copy or self.config.is_u85
        end = 0 if has_none else min(_buffers_end(self.config, started), len(self.shram))
        table = _table(self.config, started)
        if end and end > table:
            self.shram[:end] = self._noise(end)
        self._run(started)
        if end:
            self.shram[:end] = self._noise(end)

    def execute_over(self, before: "tuple[Started, dict[int, Bytes], Bytes] | None", started: Started) -> None:
        """Runs an operation whose first blocks are read while the last ones of the operation before are not written.

        `before` is that operation with the memories and the SHRAM as they were in front of it.
        """
        early = started.early & (7 if self.config.is_u85 else 3)
        if before is None or not early:
            self.execute(started)
            return
        last, old, old_shram = before
        if not self.config.is_u85 and _buffers_end(self.config, started) > _table(self.config, last):
            self._spoil(last, old, old_shram, early)
        start = {n: m.copy() for n, m in self.memories.items()}
        shram = self.shram.copy()
        self.execute(started)
        done = {n: m.copy() for n, m in self.memories.items()}
        tail = list(_written_blocks(last))
        parts = _parts(self.config, started)
        blocks = list(_written_blocks(started))
        for index in range(min(len(blocks), -(-early // parts))):
            for n, memory in start.items():
                self.memories[n][:] = memory
            self.shram[:] = shram
            for part in range(parts):
                unwritten = early - index * parts - part
                if unwritten <= 0:
                    break
                stale = np.concatenate([tail[-1 - i] for i in range(min(unwritten, len(tail)))])
                for region, places in _read_block(self.config, started, index, part):
                    if region == last.registers[Short.OFM_REGION]:
                        both = np.intersect1d(places, stale)
                        self.memories[region][both] = old[region][both]
            self._run(started)
            region = started.registers[Short.OFM_REGION]
            done[region][blocks[index]] = self.memories[region][blocks[index]]
        for n, memory in done.items():
            self.memories[n][:] = memory

    def _spoil(self, last: Started, old: dict[int, Bytes], old_shram: Bytes, early: int) -> None:
        """The last blocks of an operation find the buffers of the next in the place of their table."""
        region = last.registers[Short.OFM_REGION]
        now = {n: m.copy() for n, m in self.memories.items()}
        shram = self.shram.copy()
        for n, memory in old.items():
            self.memories[n][:] = memory
        self.shram[:] = self._noise(len(old_shram))
        self._run(last)
        for places in list(_written_blocks(last))[-early:]:
            now[region][places] = self.memories[region][places]
        for n, memory in now.items():
            self.memories[n][:] = memory
        self.shram[:] = shram


def outputs(config: Config, blob: Blob, commands: Commands, schedule: Schedule, fill: int) -> bytes:
    """Return the results of a stream; RefusedError if an operation cannot be executed."""
    npu = Npu(config, blob, fill)
    rng = np.random.default_rng(schedule.seed)
    most = {True: 4 if config.is_u85 else 1 if config.word >> 28 == 0 else 2, False: 2}
    chain: list[Started] = []
    waiting: dict[bool, list[Started]] = {True: [], False: []}
    is_late = {
        True: schedule.late in ("copies", "any"),
        False: schedule.late in ("operations", "any"),
    }
    registers: Registers = {}
    before: tuple[Started, dict[int, Bytes], Bytes] | None = None

    def finish(is_copy: bool, left: int) -> None:
        while len(waiting[is_copy]) > left:
            npu.execute(waiting[is_copy].pop(0))

    for command in commands:
        code = command.code
        if command.is_operation:
            assert isinstance(code, Op)
            started = Started(code, command.param, dict(registers), () if code is Op.DMA_START else tuple(chain))
            if config.is_u85 and not started.is_copy:
                if registers.get(Short.OFM_PRECISION, 0) >> 14 > 1:
                    chain.append(started)
                    continue
                chain.clear()
            if schedule.late == "any":
                for is_copy in (True, False):
                    finish(is_copy, int(rng.integers(0, 1 + len(waiting[is_copy]))))
            if schedule.late == "blocks" and not started.is_copy:
                memories, shram = {n: m.copy() for n, m in npu.memories.items()}, npu.shram.copy()
                npu.execute_over(before, started)
                before = started, memories, shram
            elif is_late[started.is_copy]:
                waiting[started.is_copy].append(started)
                finish(started.is_copy, most[started.is_copy])
            else:
                npu.execute(started)
        elif code is Op.KERNEL_WAIT:
            finish(False, command.param & 3)
            before = before if command.param & 3 else None
        elif code is Op.DMA_WAIT:
            finish(True, command.param & 15)
        elif isinstance(code, Long):
            registers[code] = command.param << 32 | (command.payload or 0)
        elif isinstance(code, Short):
            registers[code] = command.param
    finish(False, 0)
    finish(True, 0)
    return npu.outputs()


# ---- Registers ----


def _buffers_end(config: Config, started: Started) -> int:
    """Where the buffers of an operation end in the SHRAM."""
    r = started.registers
    if started.op is Op.ELEMENTWISE:
        return r[Short.IFM_IB_END] * BANK
    macs = min(1 << (config.word & 0xF), 256)
    form = r[Short.ACC_FORMAT] & 3
    height = r[Short.OFM_BLK_HEIGHT_M1] + 1
    if macs == 256 and r[Short.OFM_HEIGHT_M1] == 0 and r[Short.KERNEL_HEIGHT_M1] == 0:
        height = 1
    pixels = height * (r[Short.OFM_BLK_WIDTH_M1] + 1)
    nbytes = pixels * -(-(r[Short.OFM_BLK_DEPTH_M1] + 1) // 8) * _SUM_BITS[form]
    granule = _SUMS[macs][form]
    banks = -(-2 * -(-nbytes // BANK) // granule) * granule
    return (r[Short.AB_START] + banks) * BANK


def _table(config: Config, started: Started) -> int:
    """Where the table of an operation begins; behind everything if it has none."""
    function = started.registers.get(Short.ACTIVATION, 0) & 0x1F
    if started.is_copy or function < 16:
        return 1 << 30
    return shram_bytes(config) - 2048 + (function - 16) * 256


def _parts(config: Config, started: Started) -> int:
    """How many parts of the input's channels are read for a block, one after the other."""
    r = started.registers
    if started.op is not Op.CONV and not (started.op is Op.POOL and started.param == 2):
        return 1
    return -(-(r[Short.IFM_DEPTH_M1] + 1) // _part_depth(config, started))


def _part_depth(config: Config, started: Started) -> int:
    r = started.registers
    if config.is_u85:
        is_conv = started.op is Op.CONV
        macs, is_sparse = 1 << (config.word & 0xF), is_conv and bool(r[Short.WEIGHT_FORMAT] >> 4 & 1)
        outputs = macs // 8 // (1, 2, 4, 4, 8, 16)[r[Short.ACC_FORMAT] >> 8 & 7]
        size = r[Short.IFM_PRECISION] >> 2 & 3
        if is_conv and r[Short.KERNEL_STRIDE] >> 2 & 1:
            return 16
        if size == 2 or (macs <= 256 and outputs == 16 and not is_sparse):
            return 32
        return 128 if is_sparse and size == 0 else 64
    depth, size = r[Short.IFM_DEPTH_M1] + 1, r[Short.IFM_PRECISION] >> 2 & 3
    if size == 1:
        return -(-min(depth, 16) // 4) * 4
    is_part_kernel = started.op is Op.CONV and r[Short.KERNEL_STRIDE] >> 2 & 1
    return -(-min(depth, 16 if is_part_kernel else 32) // 8) * 8


@dataclass(frozen=True, slots=True)
class _Box:
    y: range
    x: range
    c: range


def _blocks(started: Started) -> Iterator[_Box]:
    """The blocks of the output, in the order in which they are made."""
    r = started.registers
    sizes = [r[s] + 1 for s in (Short.OFM_HEIGHT_M1, Short.OFM_WIDTH_M1, Short.OFM_DEPTH_M1)]
    steps = [r[s] + 1 for s in (Short.OFM_BLK_HEIGHT_M1, Short.OFM_BLK_WIDTH_M1, Short.OFM_BLK_DEPTH_M1)]
    for y in range(0, sizes[0], steps[0]):
        for x in range(0, sizes[1], steps[1]):
            for c in range(0, sizes[2], steps[2]):
                starts = zip((y, x, c), steps, sizes, strict=True)
                yield _Box(*(range(at, min(at + step, size)) for at, step, size in starts))


def _places(started: Started, side: str, box: _Box) -> Ints:
    """The bytes of a box of a map, in its region."""
    r = started.registers
    precision = r[Short[f"{side}_PRECISION"]]
    nbytes = 1 << (precision >> (1 if side == "OFM" else 2) & 3)
    bricks = precision >> 6 & 3 == 1
    stride_y, stride_x, stride_c = (_signed(r[Long[f"{side}_STRIDE_{axis}"]]) for axis in "YXC")
    base = [r[Long[f"{side}_BASE{i}"]] & 0xFF_FFFF_FFFF for i in range(4)]
    width0, height0, height1 = (r[Short[f"{side}_{what}_M1"]] + 1 for what in ("WIDTH0", "HEIGHT0", "HEIGHT1"))
    places: list[Ints] = []
    c = np.array(box.c, np.int64)
    channel = c // 16 * stride_c + c % 16 * nbytes if bricks else c * nbytes
    element = (channel[:, None] + np.arange(nbytes)).ravel()
    for y in box.y:
        for x in box.x:
            right = x >= width0
            below = y >= (height1 if right else height0)
            tile = int(right) + 2 * int(below)
            row = y - (height1 if right else height0) if below else y
            column = x - width0 if right else x
            places.append(base[tile] + row * stride_y + column * (16 * nbytes if bricks else stride_x) + element)
    return np.concatenate(places) if places else np.zeros(0, np.int64)


def _written_blocks(started: Started) -> Iterator[Ints]:
    return (_places(started, "OFM", box) for box in _blocks(started))


def _read_block(config: Config, started: Started, index: int, part: int) -> Iterator[tuple[int, Ints]]:
    """Yield the read bytes of each input for a block of the output: (region, bytes)."""
    for one in started.chain:
        yield from _read_block(config, one, index, part)
    r = started.registers
    out = next((box for i, box in enumerate(_blocks(started)) if i == index), None)
    if out is None:
        return
    if config.is_u85 and started.op is Op.ELEMENTWISE:
        for side in ("IFM", "IFM2")[: 1 if ELEMENTWISE_85.get(started.param & 0x3F) in UNARY_85 else 2]:
            spread = r.get(Short[f"{side}_BROADCAST"], 0)
            if r[Short[f"{side}_PRECISION"]] >> 14 < 2 and not spread >> 3 & 1:
                axes = (range(1) if spread >> i & 1 else axis for i, axis in enumerate((out.y, out.x, out.c)))
                yield r[Short[f"{side}_REGION"]], _places(started, side, _Box(*axes))
        return
    if r[Short.IFM_PRECISION] >> 14 > 1:
        return
    if started.op is Op.ELEMENTWISE:
        yield r[Short.IFM_REGION], _places(started, "IFM", out)
        spread = r.get(Short.IFM2_BROADCAST, 0)
        if ELEMENTWISE[started.param] not in UNARY and not spread >> 7 & 1:
            one = range(1)
            axes = (one if spread >> i & 1 else axis for i, axis in enumerate((out.y, out.x, out.c)))
            yield r[Short.IFM2_REGION], _places(started, "IFM2", _Box(*axes))
        return
    bits = r[Short.KERNEL_STRIDE]
    stride_y, stride_x = 1 + (bits >> 1 & 1 | bits >> 9 << 1 & 2), 1 + (bits & 1 | bits >> 6 << 1 & 2)
    y = _met(out.y, r, "HEIGHT", ("TOP", "BOTTOM"), stride_y)
    x = _met(out.x, r, "WIDTH", ("LEFT", "RIGHT"), stride_x)
    c = out.c
    if _parts(config, started) > 1 or started.op is Op.CONV:
        depth = _part_depth(config, started)
        c = range(part * depth, min((part + 1) * depth, r[Short.IFM_DEPTH_M1] + 1))
    elif started.op is Op.POOL and started.param == 2:
        c = range(r[Short.IFM_DEPTH_M1] + 1)
    yield r[Short.IFM_REGION], _places(started, "IFM", _Box(y, x, c))


def _met(out: range, r: Registers, axis: str, sides: tuple[str, str], stride: int) -> range:
    """Where the windows of outputs meet the input, along an axis."""
    before, behind = (r[Short[f"IFM_PAD_{side}"]] for side in sides)
    kernel_m1, factor = r[Short[f"KERNEL_{axis}_M1"]], 2 if r[Short.IFM_UPSCALE] else 1
    size = r[Short[f"OFM_{axis}_M1"]] * stride + kernel_m1 + 1 - before - behind
    low = max(0, out.start * stride - before)
    high = min(size, (out.stop - 1) * stride - before + kernel_m1 + 1)
    return range(low // factor, -(-high // factor)) if high > low else range(0)


def _signed(value: int) -> int:
    value &= 0xFF_FFFF_FFFF
    return value - (1 << 40) if value >> 39 else value
