"""Decodes microcode to commands, with all static checks of `spec/microcode.md`."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import numpy as np

from deuteron.errors import FormatError
from deuteron.npu.neutron.kernels.catalogue import BY_KIND, SOFTMAX
from deuteron.npu.neutron.microcode import format as fmt
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.format import Header, Opcode, Region
from deuteron.npu.neutron.microcode.io_offsets import REBUILD, Places, in_memory, read_places
from deuteron.npu.neutron.microcode.layout import HeaderFields, header_words, parse_header
from deuteron.operators.kernel_params import KernelParams
from deuteron.operators.program import Kernel
from deuteron.operators.regions import Place
from deuteron.operators.rules import form_problem, is_strided, limit_problem, may_write_onto, operand_bytes
from deuteron.operators.transfers import Fetch, Wait

_OPCODES = frozenset(Opcode)
_REGIONS = frozenset(Region)


@dataclass(frozen=True, slots=True)
class Call:
    """Kernel call: operands in the catalogue's order; `origin` is the first TFLite operator it comes from."""

    kernel: Kernel
    operands: tuple[Place, ...]
    params: KernelParams
    origin: int | None


Command = Call | Fetch | Wait


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded, valid container.

    Attributes:
        container: the bytes.
        header: the header of the microcode.
        input_bytes: sizes of the inputs.
        output_bytes: sizes of the outputs.
        commands: all commands except the final `end`.
        places: offsets in scratch of inputs and outputs that are placed there, by region and index.
    """

    container: Container
    header: HeaderFields
    input_bytes: tuple[int, ...]
    output_bytes: tuple[int, ...]
    commands: tuple[Command, ...]
    places: Places = field(default_factory=dict[tuple[Region, int], int])

    @property
    def calls(self) -> tuple[Call, ...]:
        """The kernel calls, in order."""
        return tuple(command for command in self.commands if isinstance(command, Call))

    @property
    def calls_before(self) -> tuple[int, ...]:
        """Number of kernel calls before each command, which is the index of a call, and before the `end`."""
        return tuple(accumulate((isinstance(command, Call) for command in self.commands), initial=0))

    @property
    def constant_bytes(self) -> int:
        """Bytes of constants in the weights: all, or none if no call reads constants; the block is never empty."""
        fetched = any(isinstance(command, Fetch) for command in self.commands)
        return self.header.weights_bytes if fetched else self.linked_bytes

    @property
    def linked_bytes(self) -> int:
        """Bytes of constants that are always in SRAM, because they are not fetched; they count for every budget."""
        regions = {operand.region for call in self.calls for operand in call.operands}
        return self.header.weights_bytes if Region.WEIGHTS in regions else 0


def decode(container: Container) -> Decoded:
    """Decode and check a container.

    Raises:
        FormatError: naming the violated rule of the format, and the place.
    """
    words = _microcode_words(container.microcode)
    header = _checked_header(container, words)
    tensors = header.inputs + header.outputs
    table = words[fmt.HEADER_WORDS : fmt.HEADER_WORDS + tensors]
    inputs, outputs = table[: header.inputs], table[header.inputs :]
    places = read_places(header, table, words[fmt.HEADER_WORDS + tensors :])
    reader = _Reader(container, header, inputs, outputs, places)
    commands = reader.commands(words)
    _check_channels(commands, places)
    decoded = Decoded(container, header, inputs, outputs, commands, places)
    _check_kernels(container.kernels, decoded.calls)
    return decoded


def _error(message: str, where: str = "microcode", hint: str = REBUILD) -> FormatError:
    return FormatError(message, hint=hint, where=where)


def _microcode_words(block: bytes) -> tuple[int, ...]:
    """Return the words of the microcode block; their number is in its header."""
    head = fmt.HEADER_WORDS * fmt.WORD_BYTES
    if len(block) < head:
        raise _error(f"truncated: {len(block)} bytes, the header alone takes {head}")
    words = np.frombuffer(block[:head], "<u4")
    if words[Header.MAGIC] != fmt.MAGIC:
        raise _error(f"not Neutron microcode: word 0 is 0x{words[Header.MAGIC]:08X} instead of 0x{fmt.MAGIC:08X}")
    if words[Header.DEUTERON_MAGIC] != fmt.DEUTERON_MAGIC:
        raise _error(
            f"microcode of another converter: word 1 is 0x{words[Header.DEUTERON_MAGIC]:08X} instead of "
            f"0x{fmt.DEUTERON_MAGIC:08X}",
            hint="this runs only on its vendor's driver; build with `--converter open` to run it here",
        )
    major, minor = int(words[Header.VERSION]) >> 16, int(words[Header.VERSION]) & 0xFFFF
    if major != fmt.VERSION_MAJOR or minor > fmt.VERSION_MINOR:
        raise _error(
            f"microcode format {major}.{minor}, this version reads {fmt.VERSION_MAJOR}.0 to "
            f"{fmt.VERSION_MAJOR}.{fmt.VERSION_MINOR}",
            hint="use the Deuteron version that built the file, or build it again with this one",
        )
    size = int(words[Header.MICROCODE_BYTES])
    if size % fmt.ALIGNMENT or not head <= size <= fmt.MAX_MICROCODE_BYTES:
        raise _error(
            f"size {size} in the header is no multiple of {fmt.ALIGNMENT} within {head}..{fmt.MAX_MICROCODE_BYTES}"
        )
    if len(block) < size:
        raise _error(f"truncated: {len(block)} bytes of {size}")
    return tuple(np.frombuffer(block[:size], "<u4").tolist())


def _checked_header(container: Container, words: tuple[int, ...]) -> HeaderFields:
    """Return the header with its sizes, checksums and first command checked."""
    header = parse_header(words)
    without_crc = (*words[: Header.CRC], 0, *words[Header.CRC + 1 :])
    computed = zlib.crc32(np.array(without_crc, "<u4").tobytes())
    if words[Header.CRC] != computed:
        raise _error(f"checksum is 0x{words[Header.CRC]:08X}, the bytes give 0x{computed:08X}")
    known = fmt.Flag.PROFILING | (fmt.Flag.PLACES if header.minor >= fmt.MINOR_OF_PLACES else fmt.Flag(0))
    if words[Header.FLAGS] & ~int(known):
        bits = "bit 0" if known == fmt.Flag.PROFILING else "bits 0 and 1"
        raise _error(f"flags are 0x{words[Header.FLAGS]:X}, only {bits} may be set")
    expected = list(header_words(header))
    for index in set(range(fmt.HEADER_WORDS)) - {Header.VERSION, Header.CRC}:
        if words[index] != expected[index]:
            raise _error(f"header word {index} is {words[index]} instead of 0")
    for name, count in (("inputs", header.inputs), ("outputs", header.outputs)):
        if count > fmt.MAX_TENSORS:
            raise _error(f"{count} {name}, at most {fmt.MAX_TENSORS} are allowed")
    _check_weights(container.weights, header)
    sizes = {
        "scratch": header.scratch_bytes,
        "prefetch": header.prefetch_bytes,
        "resident": header.resident_bytes,
        "debug": header.debug_bytes,
    }
    for name, size in sizes.items():
        if size % fmt.ALIGNMENT:
            raise _error(f"{name} size {size} is no multiple of {fmt.ALIGNMENT}")
    if header.resident_bytes > header.prefetch_bytes:
        raise _error(f"resident size {header.resident_bytes} is above prefetch size {header.prefetch_bytes}")
    if header.profiling and header.profile_bytes != fmt.PROFILE_RECORD_BYTES * header.commands:
        raise _error(
            f"profile size is {header.profile_bytes}, {header.commands} commands take "
            f"{fmt.PROFILE_RECORD_BYTES * header.commands}"
        )
    columns = 2 if header.has_places else 1
    tables = (fmt.HEADER_WORDS + columns * (header.inputs + header.outputs)) * fmt.WORD_BYTES
    if header.first_command % fmt.ALIGNMENT or not tables <= header.first_command < header.microcode_bytes:
        raise _error(
            f"first command at byte {header.first_command}, which is no multiple of {fmt.ALIGNMENT} within "
            f"{tables}..{header.microcode_bytes - 1}"
        )
    if any(words[tables // fmt.WORD_BYTES : header.first_command // fmt.WORD_BYTES]):
        raise _error("the bytes between the tensor sizes and the first command are not zero")
    return header


def _check_weights(block: bytes, header: HeaderFields) -> None:
    size = header.weights_bytes
    if size % fmt.ALIGNMENT or size < fmt.MIN_WEIGHTS_BYTES:
        raise _error(f"weights size {size} is no multiple of {fmt.ALIGNMENT}, at least {fmt.MIN_WEIGHTS_BYTES}")
    if len(block) < size:
        raise _error(f"truncated: {len(block)} bytes of {size}", where="weights")
    computed = zlib.crc32(block[:size])
    if header.weights_crc != computed:
        raise _error(f"checksum is 0x{header.weights_crc:08X}, the bytes give 0x{computed:08X}", where="weights")


def _check_kernels(block: bytes, calls: Sequence[Call]) -> None:
    """Check that the kernels block lists exactly the kernels that the commands call; zero bytes may follow."""
    kinds = sorted({call.kernel.kind for call in calls})
    expected = np.array([len(kinds), *kinds], "<u4").tobytes()
    if block[: len(expected)] != expected or any(block[len(expected) :]):
        raise _error(f"the block does not list the kernels that the commands call: {kinds}", where="kernels")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Decodes commands and checks them against the sizes in the header."""

    container: Container
    header: HeaderFields
    input_bytes: tuple[int, ...]
    output_bytes: tuple[int, ...]
    places: Places

    def commands(self, words: tuple[int, ...]) -> tuple[Command, ...]:
        """Decode all commands except `end`."""
        commands: list[Command] = []
        at = self.header.first_command // fmt.WORD_BYTES
        for index in range(self.header.commands):
            where = f"command {index}"
            if at >= len(words):
                raise _error(f"the microcode ends before it, the header says {self.header.commands} commands", where)
            opcode, length = words[at] & 0xFF, words[at] >> 16
            if words[at] & 0xFF00 or opcode not in _OPCODES:
                raise _error(f"first word 0x{words[at]:08X} is no command", where)
            if length < 1 or at + length > len(words):
                raise _error(f"length {length} leaves the microcode, {len(words) - at} words are left", where)
            last = index == self.header.commands - 1
            if (opcode == Opcode.END) != last:
                raise _error("it is `end`, which must be last" if not last else "the last command is not `end`", where)
            body = words[at + 1 : at + length]
            match Opcode(opcode):
                case Opcode.CALL:
                    commands.append(self._call(body, where))
                case Opcode.FETCH:
                    commands.append(self._fetch(body, where))
                case Opcode.WAIT:
                    _need_length(body, 1, where)
                    commands.append(Wait(_channel(body[0], where)))
                case Opcode.END:
                    _need_length(body, 0, where)
            at += length
        if self.header.commands == 0:
            raise _error("no commands, at least `end` is required")
        if any(words[at:]):
            raise _error("the bytes after `end` are not zero")
        return tuple(commands)

    def _call(self, body: tuple[int, ...], where: str) -> Call:
        if len(body) < 2:
            raise _error(f"a call takes at least 3 words, found {len(body) + 1}", where)
        kernel = BY_KIND.get(body[0] & 0xFFFF)
        if kernel is None:
            raise _error(f"kernel number {body[0] & 0xFFFF} is not in the catalogue", where)
        where = f"{where} ({kernel.name})"
        counts = (body[0] >> 16 & 0xFF, body[0] >> 24)
        expected = (len(kernel.operands), kernel.params.word_count())
        if counts != expected:
            raise _error(
                f"{counts[0]} operands and {counts[1]} parameter words instead of {expected[0]} and {expected[1]}",
                where,
            )
        _need_length(body, 2 + fmt.OPERAND_WORDS * counts[0] + counts[1], where)
        ends = range(2, 2 + fmt.OPERAND_WORDS * counts[0] + 1, fmt.OPERAND_WORDS)
        operands = tuple(
            self._operand(body[a:b], f"{where}, operand `{name}`")
            for name, (a, b) in zip(kernel.operands, pairwise(ends), strict=True)
        )
        signed = np.array(body[ends[-1] :], "<u4").view("<i4").tolist()
        params = kernel.params.from_words(tuple(signed))
        if problem := limit_problem(params) or form_problem(params):
            raise _error(problem, where)
        self._check_operands(kernel, operands, params, where)
        self._check_tables(kernel, operands, where)
        return Call(kernel, operands, params, None if body[1] == fmt.NO_ORIGIN else body[1])

    def _operand(self, words: tuple[int, ...], where: str) -> Place:
        first, offset, nbytes = words
        region, index = first & 0xFF, first >> 8 & 0xFF
        if first >> 16 or region not in _REGIONS:
            raise _error(f"first word 0x{first:08X} names no region", where)
        sizes = self._sizes(Region(region))
        if index >= len(sizes):
            raise _error(f"{Region(region).name.lower()} {index} does not exist, there are {len(sizes)}", where)
        if offset + nbytes > sizes[index]:
            memory = f"{Region(region).name.lower()} {index} of {sizes[index]} bytes"
            raise _error(f"bytes {offset}..{offset + nbytes} leave {memory}", where)
        return Place(Region(region), index, offset, nbytes)

    def _sizes(self, region: Region) -> tuple[int, ...]:
        """Return the bytes of each memory of a region."""
        match region:
            case Region.INPUT:
                return self.input_bytes
            case Region.OUTPUT:
                return self.output_bytes
            case Region.SCRATCH:
                return (self.header.scratch_bytes,)
            case Region.WEIGHTS:
                return (self.header.weights_bytes,)
            case Region.PREFETCH:
                return (self.header.prefetch_bytes,)

    def _check_operands(self, kernel: Kernel, operands: tuple[Place, ...], params: KernelParams, where: str) -> None:
        for at, (operand, needed) in enumerate(zip(operands, operand_bytes(params), strict=True)):
            place = f"{where}, operand `{kernel.operands[at]}`"
            if operand.nbytes != needed and not (is_strided(params, at) and operand.nbytes > needed):
                raise _error(f"{operand.nbytes} bytes, the parameters give {needed}", place)
            own = operand.region in (Region.SCRATCH, Region.WEIGHTS, Region.PREFETCH)
            if own and operand.offset % fmt.ALIGNMENT and kernel.name not in fmt.UNALIGNED_KERNELS:
                raise _error(f"offset {operand.offset} is no multiple of {fmt.ALIGNMENT}", place)
            if not own and _holds_words(kernel, at):
                raise _error(f"it may not lie in an {operand.region.name.lower()}, which has no alignment", place)
        for written in range(len(kernel.reads), len(operands)):
            place = f"{where}, operand `{kernel.operands[written]}`"
            if operands[written].region not in fmt.WRITABLE:
                raise _error(f"region {operands[written].region.name.lower()} may not be written", place)
            lying = [in_memory(operand, self.places) for operand in operands]
            for at in (i for i in range(len(operands)) if i != written):
                exact = lying[at] == lying[written] and may_write_onto(params, at)
                if lying[at].overlaps(lying[written]) and not exact:
                    raise _error(f"it overlaps operand `{kernel.operands[at]}`", place)

    def _check_tables(self, kernel: Kernel, operands: tuple[Place, ...], where: str) -> None:
        """Check requantization rows and exponentials in the weights."""
        for name, operand in zip(kernel.operands, operands, strict=True):
            if name not in ("requant", "table") or operand.region is not Region.WEIGHTS:
                continue
            data = self.container.weights[operand.offset : operand.offset + operand.nbytes]
            if name == "requant":
                rows = np.frombuffer(data, "<u4").reshape(-1, 2)
                valid = (rows[:, 0] < 1 << 31) & (rows[:, 1] >= 1) & (rows[:, 1] <= 62)
                if not valid.all():
                    row = int(np.argmin(valid))
                    raise _error(
                        f"row {row} is {rows[row, 0]} / 2^{rows[row, 1]}, multipliers are below 2^31 and shifts 1..62",
                        f"{where}, operand `requant`",
                    )
            elif kernel is SOFTMAX:
                exponentials = np.frombuffer(data, "<u4")
                if exponentials[0] != fmt.SOFTMAX_ONE or exponentials.max() > fmt.SOFTMAX_ONE:
                    raise _error("the exponentials do not start at 2^30 and stay below", f"{where}, operand `table`")

    def _fetch(self, body: tuple[int, ...], where: str) -> Fetch:
        _need_length(body, 4, where)
        first, source, target, nbytes = body
        to_scratch = self.header.minor >= fmt.MINOR_OF_SCRATCH_FETCHES and bool(first & fmt.FETCH_TO_SCRATCH)
        channel = first ^ fmt.FETCH_TO_SCRATCH if to_scratch else first
        region, size = (
            (Region.SCRATCH, self.header.scratch_bytes) if to_scratch else (Region.PREFETCH, self.header.prefetch_bytes)
        )
        for name, value in (("source", source), ("target", target), ("size", nbytes)):
            if value % fmt.ALIGNMENT:
                raise _error(f"{name} {value} is no multiple of {fmt.ALIGNMENT}", where)
        if nbytes == 0:
            raise _error(f"size is 0, at least {fmt.ALIGNMENT} is required", where)
        for name, end, limit in (
            ("weights", source + nbytes, self.header.weights_bytes),
            (region.name.lower(), target + nbytes, size),
        ):
            if end > limit:
                raise _error(f"bytes {end - nbytes}..{end} leave {name} of {limit} bytes", where)
        resident = not to_scratch and target < self.header.resident_bytes
        if resident and target + nbytes > self.header.resident_bytes:
            raise _error(f"bytes {target}..{target + nbytes} are resident in part only", where)
        return Fetch(_channel(channel, where), source, target, nbytes, resident, region)


def _holds_words(kernel: Kernel, operand: int) -> bool:
    """Return True if an operand consists of 32-bit words."""
    name = kernel.operands[operand]
    return name in ("bias", "requant", "workspace") or (name == "table" and kernel is SOFTMAX)


def _need_length(body: tuple[int, ...], expected: int, where: str) -> None:
    if len(body) != expected:
        raise _error(f"length {len(body) + 1} instead of {expected + 1}", where)


def _channel(channel: int, where: str) -> int:
    if channel >= fmt.CHANNELS:
        raise _error(f"channel {channel}, allowed are 0..{fmt.CHANNELS - 1}", where)
    return channel


def _check_channels(commands: Sequence[Command], places: Places) -> None:
    """Check that a channel is waited for before its next fetch, before its bytes are used, and before the end.

    Resident fetches have ascending targets, so that none overwrites another.
    """
    outstanding: dict[int, Place] = {}
    resident_end = 0
    for index, command in enumerate(commands):
        match command:
            case Wait():
                outstanding.pop(command.channel, None)
            case Fetch():
                target = command.written
                if command.channel in outstanding:
                    raise _error(
                        f"channel {command.channel} still fetches, a `wait` must come before", f"command {index}"
                    )
                _check_landed(target, outstanding, f"command {index}")
                if command.resident and command.target < resident_end:
                    raise _error(f"target {command.target} is not after the resident fetch before", f"command {index}")
                resident_end = target.offset + target.nbytes if command.resident else resident_end
                outstanding[command.channel] = target
            case Call():
                for name, operand in zip(command.kernel.operands, command.operands, strict=True):
                    where = f"command {index} ({command.kernel.name}), operand `{name}`"
                    _check_landed(in_memory(operand, places), outstanding, where)
    if outstanding:
        raise _error(f"channel {min(outstanding)} still fetches at `end`, a `wait` must come before")


def _check_landed(operand: Place, outstanding: Mapping[int, Place], where: str) -> None:
    """Check that no channel still fetches to bytes of the operand."""
    for channel, target in outstanding.items():
        if operand.overlaps(target):
            fetched = f"bytes {target.offset}..{target.offset + target.nbytes} of {target.region.name.lower()}"
            raise _error(f"channel {channel} still fetches to {fetched}, a `wait` must come before", where)
