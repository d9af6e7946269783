"""The bound of the stack: frames and calls from small programs, and what keeps a path from having a bound."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from deuteron.board import boards, callgraph, stack
from deuteron.board.callgraph import Function
from deuteron.board.library import FIRMWARE
from deuteron.board.mapfile import pieces
from deuteron.board.stack import Bound, Graph, StackFrame
from deuteron.board.toolchain import Object, Source, Toolchain

FLAGS = boards.load("an505").flags
SCRIPT = """\
MEMORY { CODE (rx) : ORIGIN = 0x10000000, LENGTH = 64K }
ENTRY(dtn_reset)
__dtn_stack_limit = 0x38000000;
__dtn_stack_top = 0x38000400;
SECTIONS {
    .vectors : { KEEP(*(.dtn_vectors)) KEEP(*(.dtn_boot_block)) } > CODE
    .text : { *(.text*) *(.rodata*) } > CODE
}
"""
VECTORS = """
void dtn_reset(void);
void dtn_unhandled(void);
void on_timer(void);
typedef void (*handler_t)(void);
const handler_t vectors[] __attribute__((section(".dtn_vectors"), used)) = {
    0, dtn_reset, dtn_unhandled, 0, on_timer, dtn_unhandled, on_timer,
};
"""
HANDLERS = """
void dtn_unhandled(void) { for (;;) {} }
void on_timer(void) {}
"""

Linked = tuple[Path, Path, tuple[Object, ...]]
Build = Callable[..., Linked]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Compiles and links C texts by the names of their objects."""
    toolchain = Toolchain.find(tmp_path / "objects")

    def link(**texts: str) -> Linked:
        found: list[Source] = []
        for name, text in texts.items():
            path = tmp_path / f"{name}.c"
            path.write_text(text)
            found.append(Source(name.replace("__", "."), path))
        objects = toolchain.compile(found, FLAGS, FIRMWARE)
        for item in objects:
            shutil.copy(item.path, tmp_path)
        script = tmp_path / "app.ld"
        script.write_text(SCRIPT)
        elf = tmp_path / "app.elf"
        _, fits = toolchain.link([item.path.name for item in objects], FLAGS, script, elf)
        assert fits
        return elf, elf.with_suffix(".map"), objects

    return link


def functions(linked: Linked) -> dict[str, Function]:
    elf, map_file, objects = linked
    return {f.name: f for f in callgraph.functions(elf, pieces(map_file.read_text()), objects)}


def test_the_deepest_path_and_the_interrupts_on_top(build: Build):
    linked = build(
        start=VECTORS + HANDLERS,
        app="""
            int deep(int x);
            int shallow(int x);
            __attribute__((noinline)) int deep(int x) { volatile char a[100]; a[x] = 1; return a[0] + 1; }
            __attribute__((noinline)) int shallow(int x) { volatile char a[10]; a[x] = 1; return a[0] + 1; }
            void dtn_reset(void);
            void dtn_reset(void) { volatile int x = deep(3) + shallow(4); (void)x; for (;;) {} }
        """,
    )
    assert stack.bound(*linked) == Bound(
        bytes=16 + 104 + 108,
        available=0x400,
        path=(StackFrame("dtn_reset", 16), StackFrame("deep", 104)),
        interrupts=(StackFrame("on_timer", 108),),
        gaps=(),
    )


def test_the_words_behind_the_vector_table_are_no_interrupts(build: Build):
    table = VECTORS.replace(" vectors[]", " dtn_vectors[]")
    assert table != VECTORS
    elf, map_file, objects = build(
        start=table + HANDLERS,
        boot='const unsigned block[] __attribute__((section(".dtn_boot_block"), used)) = {0xffffded3u, 0x10210142u};',
        app="void dtn_reset(void); void dtn_reset(void) { for (;;) {} }",
    )
    found = stack.bound(elf, map_file, objects)
    assert [call.function for call in found.interrupts] == ["on_timer"]
    assert not found.gaps


def test_the_librarys_functions_are_read_from_their_instructions(build: Build):
    linked = build(
        start=VECTORS + HANDLERS,
        app="""
            #include <string.h>
            char a[100], b[100];
            int n;
            void dtn_reset(void);
            void dtn_reset(void) { memset(a, n, (unsigned)n); (void)memcmp(a, b, (unsigned)n); for (;;) {} }
        """,
    )
    bound = stack.bound(*linked)
    assert bound.gaps == ()
    assert [call.function for call in bound.path] == ["dtn_reset", "memset"]
    assert functions(linked)["memset"].frame == 16  # push {r4, r5, r6, lr}


def test_the_functions_that_a_table_points_at(build: Build):
    linked = build(
        start=VECTORS + HANDLERS,
        driver__call="""
            extern int (*const table[2])(int);
            extern int index;
            int index;
            void dtn_reset(void);
            void dtn_reset(void) { volatile int x = table[index](7); (void)x; for (;;) {} }
        """,
        kernels__selection="""
            int small(int x);
            int small(int x) { return x; }
            static int large(int x) { volatile char a[200]; a[x] = 1; return a[0]; }
            extern int (*const table[2])(int);
            int (*const table[2])(int) = {small, large};
        """,
        other__large="""
            int large(int x);
            int large(int x) { volatile char a[400]; a[x] = 1; return a[0]; }
            extern int (*const keep)(int);
            int (*const keep)(int) __attribute__((used)) = large;
        """,
    )
    bound = stack.bound(*linked)
    assert bound.gaps == ()
    assert bound.path == (StackFrame("dtn_reset", 16), StackFrame("large", 200))


@pytest.mark.parametrize(
    ("text", "gap"),
    [
        (
            "extern int (*pointer)(int); int (*pointer)(int); extern int x; int x;"
            "void dtn_reset(void); void dtn_reset(void) { x = pointer(x); for (;;) {} }",
            "`dtn_reset` calls a function through an unknown pointer",
        ),
        (
            '#pragma GCC diagnostic ignored "-Wvla"\n'
            "int vary(int n); __attribute__((noinline)) int vary(int n) { volatile char a[n]; a[0] = 1; return a[0]; }"
            "extern int x; int x; void dtn_reset(void); void dtn_reset(void) { x = vary(x); for (;;) {} }",
            "the frame of `vary` has no bound",
        ),
        (
            "int again(int n); int again(int n) { return n < 2 ? n : again(n - 1) * again(n - 2); }"
            "extern int x; int x; void dtn_reset(void); void dtn_reset(void) { x = again(x); for (;;) {} }",
            "recursion: `again` -> `again`",
        ),
    ],
)
def test_what_has_no_bound_is_told(build: Build, text: str, gap: str):
    bound = stack.bound(*build(start=VECTORS + HANDLERS, app=text))
    assert bound.gaps == (gap,)


def test_an_image_without_a_start(build: Build):
    linked = build(app="int main(void); int main(void) { return 0; }")
    assert stack.bound(*linked).gaps == ("the image has no function `dtn_reset` to start from",)


def function(address: int, name: str, frame: int | None, *calls: int) -> Function:
    return Function(address, name, "app", frame, calls, indirect=False)


def path(graph: Graph, name: str) -> Sequence[tuple[str, int | None]]:
    return [(call.function, call.frame) for call in graph.deepest(graph.named(name)[0])]


def test_a_cycle_of_functions():
    graph = Graph([function(0, "a", 8, 16), function(16, "b", 8, 32), function(32, "c", 8, 16)], {})
    assert path(graph, "a") == [("a", 8), ("b", 8), ("c", 8)]
    assert graph.gaps == ("recursion: `b` -> `c` -> `b`",)


@pytest.mark.parametrize(
    ("instruction", "operands", "calls"),
    [
        ("bl", "20 <b>", (0x20,)),
        ("b.w", "24 <b+0x4>", (0x20,)),
        ("bne.n", "20 <b>", (0x20,)),
        ("cbz", "r3, 20 <b>", (0x20,)),
        ("le", "lr, 20 <b>", ()),
        ("bfcsel", "0, 24 <b+0x4>, 4, hi", ()),  # VCTP, as binutils without vectors read it
        ("bic.w", "r3, r3, #20", ()),
    ],
)
def test_what_calls(instruction: str, operands: str, calls: tuple[int, ...]):
    body = callgraph._Body(0, "a", [(instruction, operands)])
    assert callgraph._function(body, [0, 0x20], "app", {}).calls == calls


def test_a_function_in_assembler_takes_what_it_pushes():
    body = callgraph._Body(0, "a", [("push", "{r4, r5, r10, lr}"), ("pop", "{r4, r5, r10, pc}")])
    frames = {"a": 0, "b": 24}
    assert callgraph._function(body, [0], "app", {"app": frames}).frame == 16
    assert callgraph._function(callgraph._Body(0, "b", body.instructions), [0], "app", {"app": frames}).frame == 24


def test_a_call_to_where_no_function_is():
    graph = Graph([function(0, "a", 8, 0x20)], {})
    assert path(graph, "a") == [("a", 8), ("0x00000020", None)]
    assert graph.gaps == ("the frame of `0x00000020` has no bound",)


@pytest.mark.parametrize(
    ("instruction", "operands", "bytes_"),
    [
        ("push", "{r4, r5, lr}", 12),
        ("stmdb", "sp!, {r4, r5, r6, r7, r8, r9, sl, fp, lr}", 36),
        ("stmdb", "r0!, {r4, r5}", 0),
        ("vpush", "{d8-d15}", 64),
        ("vpush", "{s16}", 4),
        ("str.w", "lr, [sp, #-4]!", 4),
        ("strd", "r0, r1, [sp, #-16]!", 16),
        ("str", "r0, [sp, #4]", 0),
        ("sub", "sp, #24", 24),
        ("sub.w", "sp, sp, #1024", 1024),
        ("subw", "sp, sp, #1025", 1025),
        ("sub.w", "sp, sp, r3", None),
        ("mov", "sp, r7", None),
        ("msr", "MSP, r0", None),
        ("add", "sp, #24", 0),
        ("pop", "{r4, pc}", 0),
    ],
)
def test_what_lowers_the_stack_pointer(instruction: str, operands: str, bytes_: int | None):
    assert callgraph._stack_bytes(instruction.partition(".")[0], operands) == bytes_
