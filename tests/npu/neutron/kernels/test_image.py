"""Images: what their tables hold, whichever way the linker filled them in, and files that tell nothing."""

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.npu.neutron.kernels.linking import HOST, M33, Toolchain, functions, run

from deuteron.errors import FormatError
from deuteron.npu.neutron.kernels import image
from deuteron.npu.neutron.kernels.catalogue import ADD, CONV2D, LUT
from deuteron.npu.neutron.kernels.selection import Selection

CHOSEN = Selection.of([CONV2D, LUT])
SYMBOLS = [CONV2D.symbol, LUT.symbol]
LINKED = "hint: give a program or library that was linked with Deuteron's driver"

both = pytest.mark.parametrize("tools", [HOST, M33], ids=lambda tools: tools.name)


def linked(tools: Toolchain, folder: Path, *flags: str) -> Path:
    parts = tools.program(folder), tools.selection(CHOSEN, folder), tools.library()
    return tools.link(folder / "a.elf", *flags, *parts)


def refusal(path: Path) -> str:
    with pytest.raises(FormatError) as caught:
        image.parse(path.read_bytes(), path.name)
    return str(caught.value)


@pytest.mark.parametrize("flags", [("-no-pie",), ("-pie",), ("-static-pie",)], ids=lambda flags: flags[0])
def test_programs_of_this_host(tmp_path: Path, flags: tuple[str, ...]) -> None:
    assert functions(linked(HOST, tmp_path, *flags)) == SYMBOLS


@both
def test_an_object(tools: Toolchain, tmp_path: Path) -> None:
    assert functions(tools.selection(CHOSEN, tmp_path)) == SYMBOLS


def test_a_library_with_its_symbols_open_to_others(tmp_path: Path) -> None:
    parts = HOST.selection(CHOSEN, tmp_path), HOST.library()
    assert functions(HOST.link(tmp_path / "a.so", "-shared", *parts)) == SYMBOLS


def test_functions_that_are_local_to_the_object_of_the_table(tmp_path: Path) -> None:
    source = tmp_path / "local.c"
    source.write_text(
        '#include "deuteron/kernel.h"\n'
        "static int32_t own(const dtn_call_t *call, dtn_phase_t phase) { return call != 0 && phase; }\n"
        "int32_t (*const neutronKernels[DTN_KERNEL_KINDS])(const dtn_call_t *, dtn_phase_t) = {\n"
        "    [DTN_KERNEL_ADD_S8] = dtn_k_add_s8, [DTN_KERNEL_LUT_S8] = own};\n"
    )
    for tools in (HOST, M33):
        made = tools.compile(source, tmp_path / "local.o")
        assert functions(made) == [ADD.symbol, "own"]
        assert functions(tools.link(tmp_path / "a.elf", tools.program(tmp_path), made, tools.library())) == [
            ADD.symbol,
            "own",
        ]


@both
def test_kernels_that_the_table_does_not_name(tools: Toolchain, tmp_path: Path) -> None:
    path = linked(tools, tmp_path, "-Wl,-u,dtn_k_add_s8", "-Wl,--no-gc-sections")
    found = image.parse(path.read_bytes(), "a.elf")
    assert [entry.function for entry in found.table] == SYMBOLS
    assert found.unused == (ADD.symbol,)


@both
def test_a_stripped_image(tools: Toolchain, tmp_path: Path) -> None:
    path = linked(tools, tmp_path)
    run(f"{tools.prefix}strip", path)
    assert (
        refusal(path)
        == {
            HOST: "a.elf: the file has no symbols, and is no image for an Arm core\n\n"
            "hint: give a program or library that was linked with Deuteron's driver",
            M33: "a.elf: the file has no symbols: it was stripped\n\n"
            "hint: give the image as the linker wrote it, before `strip`",
        }[tools]
    )


@both
def test_an_image_that_lost_the_names_of_its_kernels(tools: Toolchain, tmp_path: Path) -> None:
    path = linked(tools, tmp_path)
    run(f"{tools.prefix}strip", f"--strip-symbol={LUT.symbol}", path)
    assert refusal(path) == (
        "a.elf: entry 12 of the table points to something that has no name: symbols were stripped\n\n"
        "hint: give the image as the linker wrote it, before `strip`"
    )


@both
def test_images_of_others(tools: Toolchain, tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    for text, said in (
        ("int main(void) { return 0; }", "nothing in it is Deuteron's: no symbol is called `dtn_...`"),
        (
            "int (*neutronKernels[])(void) = {0}; int main(void) { return 0; }",
            "nothing in it is Deuteron's: no symbol is called `dtn_...`",
        ),
        (
            "volatile int dtn_x = 1; int main(void) { return dtn_x; }",
            "there is no table `neutronKernels` in it: the driver of Deuteron was not linked",
        ),
        (
            "int dtn_x(void); int (*neutronKernels[40])(void) = {[39] = dtn_x}; int dtn_x(void) { return 1; }\n"
            "int main(void) { return neutronKernels[39](); }",
            "the table has a kernel 39, this version of Deuteron knows 1 to 17",
        ),
    ):
        source.write_text(text)
        path = tools.link(tmp_path / "a.elf", tools.compile(source, tmp_path / "other.o"))
        assert refusal(path).split("\n\n")[0] == f"a.elf: {said}"


def test_files_that_are_no_image(tmp_path: Path) -> None:
    path = tmp_path / "a.elf"
    shutil.copyfile(HOST.library(), path)
    assert refusal(path) == f"a.elf: this is an archive, which the linker has yet to choose from\n\n{LINKED}"
    for data in (b"", b"MZ", bytes(1000)):
        path.write_bytes(data)
        assert refusal(path) == f"a.elf: this is not an ELF file\n\n{LINKED}"


def test_a_table_of_zeros_holds_nothing(tmp_path: Path) -> None:
    source = tmp_path / "zeros.c"
    source.write_text("int (*neutronKernels[18])(void);\n")
    made = M33.compile(source, tmp_path / "zeros.o")
    assert functions(M33.link(tmp_path / "a.elf", M33.program(tmp_path), made, M33.library())) == []


def _cut(data: bytearray, draw: random.Random) -> None:
    del data[draw.randrange(len(data)) :]


def _flip(data: bytearray, draw: random.Random) -> None:
    for _ in range(draw.randrange(1, 256)):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _headers(data: bytearray, draw: random.Random) -> None:
    """Changes where it hurts: the file's header, and the table of sections at its end."""
    at = draw.choice((draw.randrange(16, 52), len(data) - 1 - draw.randrange(40 * 30)))
    struct.pack_into("<I", data, min(at & ~3, len(data) - 4), draw.choice((0, 1, 7, 0xFFFFFFFF, draw.getrandbits(32))))


@both
@pytest.mark.parametrize("damage", [_cut, _flip, _headers])
def test_a_damaged_image_is_refused_or_read(
    tools: Toolchain, tmp_path: Path, damage: Callable[[bytearray, random.Random], None]
) -> None:
    sound = linked(tools, tmp_path).read_bytes()
    draw = random.Random(1)
    outcomes = {True: 0, False: 0}
    for _ in range(60):
        data = bytearray(sound)
        damage(data, draw)
        try:
            image.parse(bytes(data), "a.elf")
        except FormatError:
            outcomes[False] += 1
        else:
            outcomes[True] += 1
    assert outcomes[False]
