"""Writes a bundle as files: a C file of tables, its header, and a file that places large data in sections."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

from deuteron.board.bundle import ALIGNMENT, MEMORY_CONSTANT, VERSION, Bundle, Value
from deuteron.board.tables import Tables
from deuteron.errors import OptionError
from deuteron.npu.firmware import FirmwareBlock

if TYPE_CHECKING:
    from jinja2 import Environment


class Placement(Enum):
    """Memory of data; the value is the name on the command line."""

    FLASH = "flash"
    SRAM = "sram"
    EXTERNAL = "external"
    TCM = "tcm"


class Data(Enum):
    """Form of large data; the value is the name on the command line."""

    ASSEMBLER = "assembler"
    ARRAYS = "arrays"


_KEYWORDS = frozenset(
    keyword
    for line in (
        "auto break case char const continue default do double else enum extern float for goto if inline int long",
        "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while",
        "alignas alignof and and_eq asm bitand bitor bool catch class compl constexpr const_cast decltype delete",
        "dynamic_cast explicit export false friend main mutable namespace new noexcept not not_eq nullptr operator or",
        "or_eq private protected public reinterpret_cast static_assert static_cast template this thread_local throw",
        "true try typeid typename using virtual wchar_t xor xor_eq",
    )
    for keyword in line.split()
)
"""Keywords of C99, and of C++, which may include the header; and `main`."""

_DEFAULT_SYMBOL = "dtn_bundle"
_RESERVED = ("dtn_", "neutron")
"""Prefixes of the library's names, in any case."""
_CALLED = frozenset(("memcpy", "memset"))
"""Functions of the C library that the library calls."""

_NUMBERS_OF_LINE = 20

_CONTENT_SECTIONS = {
    Placement.FLASH: ('.dtn_flash.{}, "a", %progbits'),
    Placement.SRAM: ('.dtn_sram.{}, "aw", %progbits'),
    Placement.EXTERNAL: ('.dtn_ext.{}, "a", %progbits'),
}
_ARENA_SECTIONS = {
    Placement.SRAM: ('.dtn_arena.{}, "aw", %nobits'),
    Placement.EXTERNAL: ('.dtn_ext_arena.{}, "aw", %nobits'),
    Placement.TCM: ('.dtn_tcm_arena.{}, "aw", %nobits'),
}


@dataclass(frozen=True, slots=True)
class EmitOptions:
    """Options for writing a bundle.

    Attributes:
        symbol: the C name of the bundle; file names and every other global name start with it.
        weights: memory of weights and constants. Other data of a partition are always in flash.
        arenas: memory of the arenas: SRAM, external memory or the core's tightly coupled memory.
        data: an assembler file that includes them from a file, or C arrays, for compilers without `.incbin`.
    """

    symbol: str = _DEFAULT_SYMBOL
    weights: Placement = Placement.FLASH
    arenas: Placement = Placement.SRAM
    data: Data = Data.ASSEMBLER

    def __post_init__(self) -> None:
        if not (self.symbol.isidentifier() and self.symbol.isascii()) or self.symbol in _KEYWORDS:
            hint = "use letters, digits and underscores, no leading digit, and no keyword of C or C++"
            raise OptionError(f"`{self.symbol}` cannot be the C name of a bundle", hint=hint)
        is_ours = self.symbol != _DEFAULT_SYMBOL and self.symbol.lower().startswith(_RESERVED)
        if is_ours or self.symbol in _CALLED:
            owner = "the firmware library" if is_ours else "the C library"
            raise OptionError(
                f"`{self.symbol}` cannot be the C name of a bundle: {owner} may define it",
                hint=f"choose a name that does not start with `dtn_` or `neutron`; `{_DEFAULT_SYMBOL}` is the default",
            )
        if self.arenas is Placement.FLASH:
            hint = "choose `sram`, `external` or `tcm`"
            raise OptionError("arenas cannot be in flash: programs write to them", hint=hint)
        if self.weights is Placement.TCM:
            hint = "choose `flash`, `sram` or `external`"
            raise OptionError("weights cannot be in tightly coupled memory: nothing copies them there", hint=hint)


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes with a global name: content from `offset` of the data file on, or an arena, whose offset is None."""

    name: str
    section: str
    bytes: int
    crc: int
    offset: int | None

    @property
    def section_name(self) -> str:
        """Return the section without its flags."""
        return self.section.partition(",")[0]


def emit(bundle: Bundle, options: EmitOptions = EmitOptions()) -> Mapping[str, bytes]:
    """Return the files by name: `SYMBOL.c`, `SYMBOL.h`, and `SYMBOL_data.S` and `SYMBOL_data.bin` or `SYMBOL_data.c`.

    The C and the assembler files are compiled and linked; their folder must be on the include path of both. The same
    bundle and options give the same bytes.

    Raises:
        OptionError: memories are in tightly coupled memory, which an NPU of the bundle cannot access.
    """
    if options.arenas is Placement.TCM and bundle.delegates:
        raise OptionError(
            f"`{bundle.name}` has partitions for an NPU, which cannot access the core's tightly coupled memory",
            hint="leave out `--arenas tcm`, or build the model for the CPU alone",
        )
    symbol = options.symbol
    contents = _contents(bundle, options)
    # Equal contents are stored once: Vela gives each partition of a TFLite file the constants of all.
    first = dict[tuple[bytes, int, Placement], str]()
    names = [first.setdefault((one.data, one.crc, place), one.name) for one, place in contents]
    stored = [(one, place) for (one, place), name in zip(contents, names, strict=True) if one.name == name]
    data = [content.data + bytes(-len(content.data) % ALIGNMENT) for content, _ in stored]
    offsets = accumulate((len(block) for block in data), initial=0)
    blocks = {
        content.name: Block(
            content.name, _CONTENT_SECTIONS[place].format(content.name), len(content.data), content.crc, offset
        )
        for (content, place), offset in zip(stored, offsets, strict=False)
    }
    section = _ARENA_SECTIONS[options.arenas]
    arenas = [
        Block(name := f"{symbol}_memory{i}", section.format(name), memory.bytes, 0, None)
        for i, memory in enumerate(bundle.memories)
    ]
    values = {
        "bundle": bundle,
        "symbol": symbol,
        "tables": Tables.of(bundle),
        "version": VERSION,
        "alignment": ALIGNMENT,
        "npus": sorted({delegate.firmware.symbol for delegate in bundle.delegates}),
        "blocks": [*blocks.values()],
        "constants": [blocks[name] for name in names],
        "arenas": arenas,
    }
    texts = {
        f"{symbol}.c": _render("bundle.c.j2", values),
        f"{symbol}.h": _render("bundle.h.j2", values),
    }
    if options.data is Data.ARRAYS:
        texts[f"{symbol}_data.c"] = _render("data.c.j2", values | {"content": b"".join(data), "lines": _lines})
        return {name: text.encode() for name, text in texts.items()}
    texts[f"{symbol}_data.S"] = _render("data.S.j2", values)
    return {name: text.encode() for name, text in texts.items()} | {f"{symbol}_data.bin": b"".join(data)}


def _contents(bundle: Bundle, options: EmitOptions) -> list[tuple[FirmwareBlock, Placement]]:
    """Return each constant, then the blocks of each delegate, by their C names, with their memories."""
    symbol = options.symbol
    blocks = [FirmwareBlock(f"{symbol}_constant{i}", data, is_weights=True) for i, data in enumerate(bundle.constants)]
    for i, delegate in enumerate(bundle.delegates):
        blocks += (replace(b, name=f"{symbol}_delegate{i}_{b.name}") for b in delegate.partition.blocks)
    return [(block, options.weights if block.is_weights else Placement.FLASH) for block in blocks]


def _lines(block: Block, content: bytes) -> Iterator[str]:
    """Yield the numbers of a block's bytes; an empty block is one zero, as C has no empty array."""
    start = block.offset or 0
    own = content[start : start + block.bytes] or bytes(1)
    for at in range(0, len(own), _NUMBERS_OF_LINE):
        yield ", ".join(str(byte) for byte in own[at : at + _NUMBERS_OF_LINE])


def _render(template: str, values: Mapping[str, object]) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(  # noqa: S701  # the output is C; its comments and strings have their own filters
        loader=PackageLoader("deuteron.board"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"comment": comment, "string": string, "hex": _hex, "memory": _memory, "layout": layout}
    return environment


def comment(text: str) -> str:
    """Return the text as part of a C comment: printable, on one line, without comment marks."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return line.replace("*/", "* /").replace("/*", "/ *")


def string(text: str) -> str:
    """Return the text as a C string literal."""
    plain = "".join(chr(c) if 0x20 <= c <= 0x7E and c not in b'"\\?' else f"\\{c:03o}" for c in text.encode())
    return f'"{plain}"'


def layout(value: Value) -> str:
    """Return type and shape of a value, and its memory order unless it is contiguous."""
    shape, rank = "x".join(str(size) for size in value.shape) or "scalar", len(value.shape)
    if value.dim_order == tuple(range(rank)):
        return f"{value.type.name} {shape}"
    if value.dim_order == (0, *range(2, rank), 1):
        return f"{value.type.name} {shape}, channels last"
    return f"{value.type.name} {shape}, dimensions in order {value.dim_order}"


def _hex(word: int) -> str:
    return f"0x{word:08X}"


def _memory(memory: int) -> str:
    """Return the memory of a value as bundle.h writes it."""
    return str(memory) if memory < MEMORY_CONSTANT else f"DTN_MEMORY_CONSTANT + {memory - MEMORY_CONSTANT}"
