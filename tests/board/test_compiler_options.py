"""The inner loops compile with GCC and Clang where registers are reserved, and compute the same bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from benches import c_compilers, cortex_m_elements
from benches.c_compilers import FIXED, FRAME, Compiler
from tests import full
from tests.board import test_kernels, test_layers
from tests.board.port_images import BUILD, FIRMWARE, LAYER_CALLS, START, build, run

from deuteron.arch import cores
from deuteron.arch.cores import InnerWork
from deuteron.board import boards, image, library
from deuteron.board.boards import Board
from deuteron.board.toolchain import Object, Source, Toolchain
from deuteron.npu.neutron.kernels.catalogue import KERNELS

LEVELS = {"gcc": "-O0", "clang": "-O2"}
"""Options of the program in the emulator."""
BOARDS = ("an505", "an547")


def compiler(name: str) -> Compiler:
    if name == "gcc":
        return c_compilers.gcc()
    found = c_compilers.clangs()
    if not found:
        pytest.skip("Clang is not installed: its half of this test needs it, on Debian `apt-get install clang`")
    return found[0]


def compiled(name: str, sources: Sequence[Source], board: Board) -> tuple[Object, ...]:
    """Objects of the sources, with the compiler's level of the emulator and both registers reserved."""
    return tuple(_compiled(name, source, board) for source in sources)


@cache
def _compiled(name: str, source: Source, board: Board) -> Object:
    folder = BUILD / board.name / name
    folder.mkdir(parents=True, exist_ok=True)
    made = Object(source.name, folder / f"{source.name}.o", folder / f"{source.name}.ci")
    flags = (*board.flags, *c_compilers.FLAGS, "-ffunction-sections", LEVELS[name], FRAME, FIXED)
    assert compiler(name).compile(source.path, flags, made.path) == ""
    return made


@dataclass(frozen=True, slots=True)
class Mixed(Toolchain):
    """GCC, but for the inner loops, which another compiler or other options make."""

    inner: str = ""
    board: str = ""

    def compile(self, sources: Sequence[Source], flags: Sequence[str], root: Path) -> tuple[Object, ...]:
        board = boards.load(self.board)
        names = {source.name for source in c_compilers.inner_loops(cores.load(board.cpu).inner)}
        own = Toolchain.compile(self, [source for source in sources if source.name not in names], flags, root)
        return *own, *compiled(self.inner, [source for source in sources if source.name in names], board)


@pytest.mark.parametrize(
    ("work", "name"),
    full.only(
        product(InnerWork, LEVELS), (InnerWork.PORTABLE, "clang"), (InnerWork.DSP, "gcc"), (InnerWork.MVE, "clang")
    ),
)
@pytest.mark.full
def test_inner_loops_compile_with_reserved_registers(work: InnerWork, name: str) -> None:
    options = [(level, FRAME, FIXED) for level in ("-O0", "-O2")]
    count, failed = c_compilers.failures([compiler(name)], options, [work], inner=True)
    assert count > 40
    assert failed == []


def test_what_does_not_compile_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src").mkdir()
    bad = tmp_path / "src" / "bad.c"
    bad.write_text("int f(void) { return }\n")

    def only_bad(work: InnerWork) -> tuple[Source, ...]:
        return (Source(work.value, bad),)

    monkeypatch.setattr(c_compilers, "inner_loops", only_bad)
    monkeypatch.setattr(library, "FIRMWARE", tmp_path)
    count, (failure,) = c_compilers.failures([c_compilers.gcc()], [("-O1",)], [InnerWork.DSP], inner=True)
    assert (count, failure.file, failure.compiler) == (1, "src/bad.c", "gcc")
    assert failure.options.endswith("-O1")
    assert "error: expected expression" in failure.error


def linked(machine: Board, name: str, title: str, sources: Sequence[str | Path]) -> Path:
    """An image whose inner loops come from the compiler of this name."""
    inner = c_compilers.inner_loops(cores.load(machine.cpu).inner)
    others = [source for source in library.core(machine) if source not in inner]
    objects = compiled(name, inner, machine)
    return build(machine, f"{title}_{name}", (*START, *sources), archived=others, library=objects)


@pytest.mark.slow
@pytest.mark.parametrize(("board", "name"), full.only(product(BOARDS, LEVELS), ("an505", "clang")))
def test_random_calls_of_kernels_give_what_the_references_give(board: str, name: str) -> None:
    machine = boards.load(board)
    references = sorted((FIRMWARE / "src/kernels/ref").glob("*.c"))
    built = linked(machine, name, "kernels", (*(f"tests/{file}" for file in test_kernels.TESTS), *references))
    done = run(machine, built, str(test_kernels.CALLS), "1")
    assert (done.status, done.output.strip()) == (0, f"right {test_kernels.CALLS * len(KERNELS)}")


@pytest.mark.slow
@pytest.mark.parametrize(("board", "name"), full.only(product(BOARDS, LEVELS), ("an505", "clang")))
def test_random_calls_of_layers_give_what_plain_loops_give(board: str, name: str) -> None:
    machine = boards.load(board)
    built = linked(machine, name, "layers", ("tests/board/layers.c", *LAYER_CALLS))
    done = run(machine, built, str(test_layers.CALLS), "1")
    assert done.status == 0, done.output
    assert done.output.startswith("right ")


@pytest.mark.slow
@pytest.mark.parametrize(("board", "name"), full.only(product(BOARDS, LEVELS), ("an505", "clang")))
def test_operators_on_elements_give_the_same_bytes(board: str, name: str) -> None:
    found = Toolchain.find(image.OBJECTS)
    results = cortex_m_elements.measure(
        boards.load(board), Mixed(found.compiler, found.version, found.cache, inner=name, board=board)
    )
    assert len(results) > 10
    assert [result for result in results if not result.right] == []
