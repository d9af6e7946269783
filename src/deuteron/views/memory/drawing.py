"""Draws memories over time: letters for a terminal, rectangles for a browser."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from deuteron.errors import shortened
from deuteron.npu.program import Block, Memory

COLUMNS = 64
ROWS = 16
LISTED = 26
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
WIDTH, HEIGHT, LINE, EDGE = 960, 240, 18, 10
"""Size of a memory's rectangle, height of a line of text, and margin, in pixels."""


@dataclass(frozen=True, slots=True)
class MemoryDrawing:
    """A memory to draw.

    Attributes:
        title: the line above it.
        memory: its blocks are live from command to command.
        commands: number of commands.
        origins: description of each block's origin.
    """

    title: str
    memory: Memory
    commands: int
    origins: Mapping[str, str]

    def lettered(self) -> list[tuple[str, Block]]:
        """Return its blocks, each with its letter."""
        return [(LETTERS[number % len(LETTERS)], block) for number, block in enumerate(self.memory.blocks)]

    def legend(self) -> Iterator[str]:
        """Yield the meaning of the letters; only the largest if there are many."""
        lettered = self.lettered()
        largest = sorted(lettered, key=lambda item: -item[1].nbytes)[:LISTED]
        for letter, block in (item for item in lettered if item in largest):
            yield f"{letter} {block.nbytes:>10,} B at {block.offset:,}, {shortened(self._description(block))}"
        if len(lettered) > LISTED:
            yield f"and {len(lettered) - LISTED} smaller values"

    def peak(self) -> str:
        """Return the command with the most live bytes, and its blocks, largest first."""
        live = self._live_bytes()
        most = max(sorted({block.first for block in self.memory.blocks}), key=live.__getitem__)
        parts = [item for item in self.lettered() if item[1].first <= most <= item[1].last]
        parts.sort(key=lambda item: -item[1].nbytes)
        return f"peak at command {most}: {', '.join(f'{letter} {b.nbytes:,} B' for letter, b in parts)}"

    def _live_bytes(self) -> dict[int, int]:
        """Return the live bytes at each command that starts a block; blocks written in place count once."""
        begins: defaultdict[int, list[Block]] = defaultdict(list)
        ends: defaultdict[int, list[Block]] = defaultdict(list)
        for block in self.memory.blocks:
            begins[block.first].append(block)
            ends[block.last].append(block)
        live: dict[int, int] = {}
        nbytes = 0
        for at in sorted({*begins, *ends}):
            nbytes += sum(block.nbytes for block in begins[at])
            before = [block for block in ends[at] if block.first < at]
            live[at] = nbytes - sum(_common(block, other) for block in begins[at] for other in before)
            nbytes -= sum(block.nbytes for block in ends[at])
        return live

    def _description(self, block: Block) -> str:
        return f"commands {block.first}-{block.last}: {self.origins.get(block.name, block.name)}"

    def tooltip(self, block: Block) -> str:
        """Return the description of a block."""
        return f"{block.name}: {block.nbytes:,} B at {block.offset:,}, {self._description(block)}"


def _common(a: Block, b: Block) -> int:
    """Return the bytes that both share."""
    return max(0, min(a.offset + a.nbytes, b.offset + b.nbytes) - max(a.offset, b.offset))


def picture(drawing: MemoryDrawing) -> Iterator[str]:
    """Yield the memory over time: columns are commands, rows are ranges of addresses, letters are values."""
    memory, commands = drawing.memory, drawing.commands
    columns, rows = min(COLUMNS, commands), min(ROWS, max(1, memory.nbytes // 16))
    grid = [[" "] * columns for _ in range(rows)]
    for letter, block in drawing.lettered():
        low, high = block.offset * rows // memory.nbytes, -(-(block.offset + block.nbytes) * rows // memory.nbytes)
        left, right = block.first * columns // commands, block.last * columns // commands
        for row in range(low, min(rows, high)):
            for column in range(left, right + 1):
                grid[row][column] = letter
    for row in reversed(range(rows)):
        yield f"  {row * memory.nbytes // rows:>12,} |{''.join(grid[row])}|"
    yield f"  {'command':>12}  {0:<{columns - 1}}{commands - 1}"
    if memory.blocks:
        yield f"  {drawing.peak()}"
    yield from (f"  {line}" for line in drawing.legend())


def svg(drawings: Sequence[MemoryDrawing]) -> str:
    """Return all memories below each other with legends: commands to the right, addresses upwards."""
    body: list[str] = []
    top = EDGE + LINE
    for drawing in drawings:
        body.append(_text(EDGE, top - 6, drawing.title))
        body.append(f'<rect x="{EDGE}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888"/>')
        for number, (letter, block) in enumerate(drawing.lettered()):
            body += _block(drawing, number, letter, block, top)
        top += HEIGHT + LINE
        body.append(_text(EDGE, top - 4, "command 0"))
        body.append(_text(EDGE + WIDTH, top - 4, f"command {drawing.commands - 1}", "end"))
        for line in drawing.legend():
            top += LINE
            body.append(_text(EDGE, top - 4, line))
        top += 2 * LINE
    frame = f'xmlns="http://www.w3.org/2000/svg" width="{WIDTH + 2 * EDGE}" height="{top - LINE}"'
    return f'<svg {frame} font-family="sans-serif" font-size="13">\n' + "\n".join(body) + "\n</svg>\n"


def _block(drawing: MemoryDrawing, number: int, letter: str, block: Block, top: int) -> Iterator[str]:
    """Yield a rectangle, with its letter if that fits."""
    memory = drawing.memory
    x = EDGE + WIDTH * block.first / drawing.commands
    width = WIDTH * (block.last + 1 - block.first) / drawing.commands
    height = HEIGHT * block.nbytes / memory.nbytes
    y = top + HEIGHT * (1 - (block.offset + block.nbytes) / memory.nbytes)
    yield (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'fill="hsl({number * 47 % 360} 60% 65%)" stroke="#444" stroke-width="0.5">'
        f"<title>{escape(drawing.tooltip(block))}</title></rect>"
    )
    if width >= LINE / 2 and height >= LINE * 2 / 3:
        yield _text(x + width / 2, y + height / 2 + 4, letter, "middle")


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
