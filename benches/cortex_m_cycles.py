"""Estimated cycles of code for a Cortex-M33 or a Cortex-M55, from the execution counts of each instruction.

First order: memory answers at once, every branch is taken, no instruction is issued in parallel.

Cortex-M33: one cycle. Loads and stores of two registers take two, and lists one more per register. Branches take two,
calls three. A use of the register that the load before it wrote takes one more.

Cortex-M55: a vector takes two cycles in the units for loads and stores, integers, and products. The second of two
neighbours waits if both use the same unit. Loads and stores with a vector of addresses take four. Loop ends take none,
branches two, calls three. A use of the result of the load before waits one cycle, and of a product that adds across a
vector two.

`PUBLISHED` is the check: MobileNetV2's layers on silicon, an Alif Ensemble E8's Cortex-M55, with CMSIS-NN's kernels
(pytorch/executorch issue 17651).
"""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import Table, table

from deuteron.board.toolchain import PREFIX
from deuteron.runtime.system_programs import find_program

PLUGIN = Path(__file__).with_name("instruction_counts.c")
MARK = "dtn_port_ticks"
"""The executor reads the time before and after each step."""

Counts = Mapping[int, int]
"""How often the instruction at an address was executed."""


@dataclass(frozen=True, slots=True)
class Published:
    """A layer on silicon: millions of cycles, measured, and as the model has them."""

    layer: str
    model: float
    silicon: float

    @property
    def error(self) -> float:
        """The error of the model, relative to the silicon."""
        return self.model / self.silicon - 1


PUBLISHED = (
    Published("conv 3x3 3->32 /2", 13.00, 13.75),
    Published("depthwise 3x3 32, 112x112", 11.26, 13.72),
    Published("conv 1x1 32->16", 4.66, 4.92),
    Published("conv 1x1 16->96", 24.23, 24.25),
    Published("conv 1x1 96->24", 2.49, 2.79),
    Published("conv 1x1 24->144", 10.20, 10.33),
    Published("depthwise 3x3 144, 56x56", 10.61, 15.32),
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of an image."""

    address: int
    name: str
    operands: str

    @property
    def first(self) -> str:
        """The first operand: what most instructions write."""
        return self.operands.partition(",")[0].strip()

    def reads(self, register: str) -> bool:
        """True if a register is after the first operand, or is stored."""
        behind = self.operands if self.name.startswith(("str", "vstr")) else self.operands.partition(",")[2]
        return re.search(rf"\b{re.escape(register)}\b", behind) is not None


_LINE = re.compile(r"^ *([0-9a-f]+):\t(\S+)(?:\t([^@;]*))?")
_BRANCH = re.compile(r"(b|bl|blx|bx|cbn?z|tb[bh])(\.[nw])?$|b(eq|ne|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)(\.[nw])?$")
_LIST = re.compile(r"(ldm|stm|push|pop|vpush|vpop|vldm|vstm)")
_UNITS = (
    ("memory", re.compile(r"v(ld|st)")),
    ("product", re.compile(r"v(mul|ml[as]|mlada|mlalda|qr?dmul|rmul)")),
    ("registers", re.compile(r"vmov")),
    ("integers", re.compile(r"v")),
)


def disassembled(elf: Path) -> list[Instruction]:
    """All instructions of an image, in the order of their addresses."""
    command = (f"{PREFIX}objdump", "-d", "--no-show-raw-insn", "-m", "armv8.1-m.main", elf)
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    matches = (match for line in lines if (match := _LINE.match(line)))
    return [Instruction(int(match[1], 16), match[2], (match[3] or "").strip()) for match in matches]


def _unit(name: str) -> str | None:
    """The vector unit that an instruction uses."""
    return next((unit for unit, pattern in _UNITS if pattern.match(name)), None)


def _listed(instruction: Instruction) -> int:
    """How many registers a list has: those between the braces, where a range counts as its two ends."""
    return instruction.operands.partition("{")[2].count(",") + 1


def _waits(instruction: Instruction, before: Instruction | None, cycles: int) -> int:
    """The cycles that an instruction waits for what a scalar load before it wrote."""
    is_load = before is not None and before.name.startswith("ldr")
    return cycles if before is not None and is_load and instruction.reads(before.first) else 0


def _m33(instruction: Instruction, before: Instruction | None) -> float:
    name = instruction.name
    if name.startswith(("ldrd", "strd")):
        return 2
    if _LIST.match(name):
        return 1 + _listed(instruction)
    if _BRANCH.match(name):
        return 3 if name.startswith(("bl", "bx")) and not name.startswith(("ble", "bls", "blt")) else 2
    return 1 + _waits(instruction, before, 1)


def _m55(instruction: Instruction, before: Instruction | None) -> float:
    name = instruction.name
    if name in ("le", "letp"):
        return 0
    unit = _unit(name)
    if unit == "memory" and re.search(r"\[[^\]]*q\d", instruction.operands):
        return 4
    if _LIST.match(name):
        return 1 + _listed(instruction) / 2
    if unit in ("memory", "product", "integers"):
        return 2 if before is not None and _unit(before.name) == unit else 1
    if _BRANCH.match(name):
        return 3 if name.startswith(("bl", "bx")) and not name.startswith(("ble", "bls", "blt")) else 2
    adds_across = before is not None and before.name.startswith("vmla") and instruction.reads(before.first)
    return 1 + (2 if adds_across else _waits(instruction, before, 1))


_CORES = {"cortex-m33": _m33, "cortex-m55": _m55}


def estimate(cpu: str, code: Sequence[Instruction], counts: Counts) -> int:
    """The cycles of what was executed, on a core of `_CORES`."""
    total = 0.0
    before: Instruction | None = None
    for instruction in code:
        if count := counts.get(instruction.address, 0):
            total += count * _CORES[cpu](instruction, before)
        before = instruction if count else None
    return round(total)


def plugin(directory: Path) -> Path:
    """The emulator's plugin, compiled into a directory."""
    compiler = find_program("cc", "gcc", "the compiler for this machine")
    path = directory / "instruction_counts.so"
    subprocess.run((compiler, "-O2", "-fPIC", "-shared", PLUGIN, "-o", path), check=True)
    return path


@dataclass(frozen=True, slots=True)
class Counter:
    """The emulator's options that count an image's instructions, and what was counted then."""

    elf: Path
    directory: Path

    @property
    def options(self) -> tuple[str, ...]:
        """Further options of the emulator."""
        return "-plugin", f"{plugin(self.directory)},counts={self._file},mark={self._address(MARK):#x}"

    def steps(self, count: int, outputs: int) -> list[Counts]:
        """The counts of a run's steps: from one reading of the time to the next. Copies of outputs come after them."""
        return list(self._sections())[-2 * (count + outputs) :: 2][:count]

    @property
    def _file(self) -> Path:
        return self.directory / "counts"

    def _address(self, symbol: str) -> int:
        lines = subprocess.run((f"{PREFIX}nm", self.elf), capture_output=True, text=True, check=True).stdout.split("\n")
        return next(int(line.split()[0], 16) & ~1 for line in lines if line.endswith(f" {symbol}"))

    def _sections(self) -> Iterator[Counts]:
        for section in self._file.read_text().split("-\n")[:-1]:
            pairs = (line.split() for line in section.splitlines())
            yield {int(address, 16): int(count) for address, count in pairs}


def report() -> Table:
    """The check of the model."""
    columns = {"CMSIS-NN's kernel on a Cortex-M55": "layer", "cycles, estimated": lambda r: f"{r.model:.2f} M"}
    columns |= {"measured": lambda r: f"{r.silicon:.2f} M", "error": "error:.0%"}
    return table(PUBLISHED, columns, "the cycle model on silicon")
