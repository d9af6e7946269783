"""The cross compiler: what it makes, what it keeps, and what is said without it."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from deuteron.board import toolchain as tools
from deuteron.board.boards import load
from deuteron.board.library import FIRMWARE
from deuteron.board.toolchain import Region, Source, Toolchain
from deuteron.errors import InputError, InternalError, MissingToolError

FLAGS = load("an505").flags
SCRIPT = """\
MEMORY { CODE (rx) : ORIGIN = 0x10000000, LENGTH = 64K  RAM (rwx) : ORIGIN = 0x38000000, LENGTH = 1K }
ENTRY(main)
SECTIONS { .text : { *(.text*) *(.rodata*) } > CODE  .bss (NOLOAD) : { *(.bss*) } > RAM }
"""


@pytest.fixture
def toolchain(tmp_path: Path) -> Toolchain:
    return Toolchain.find(tmp_path / "objects")


def source(folder: Path, text: str, name: str = "app.main") -> Source:
    path = folder / "main.c"
    path.write_text(text)
    return Source(name, path)


def test_an_object_is_compiled_once(toolchain: Toolchain, tmp_path: Path):
    main = source(tmp_path, "int main(void) { return 0; }")
    (first,) = toolchain.compile([main], FLAGS, FIRMWARE)
    assert (first.path.name, first.calls.name) == ("app.main.o", "app.main.ci")
    written = first.path.stat().st_mtime_ns
    assert toolchain.compile([main], FLAGS, FIRMWARE) == (first,)
    assert first.path.stat().st_mtime_ns == written


@pytest.mark.parametrize("name", ["an505", "an547"])
def test_products_and_sums_round_each_for_itself(toolchain: Toolchain, tmp_path: Path, name: str):
    text = "float f(float a, float b, float c);\nfloat f(float a, float b, float c) { return a * b + c; }\n"
    flags = load(name).flags
    for fused, more in ((False, ()), (True, ("-ffp-contract=fast",))):
        (made,) = toolchain.compile([source(tmp_path, text)], (*flags, *more), FIRMWARE)
        listing = subprocess.run(["arm-none-eabi-objdump", "-d", made.path], capture_output=True, text=True, check=True)
        assert ("vfma" in listing.stdout) == fused


def test_extensions_of_the_compiler_are_refused():
    assert {"-std=c99", "-ffp-contract=off"} <= set(tools.FLAGS)


def test_whatever_an_object_is_made_of_has_one_of_its_own(toolchain: Toolchain, tmp_path: Path):
    root = tmp_path / "firmware"
    (root / "include").mkdir(parents=True)
    header = root / "include" / "value.h"
    header.write_text("#define VALUE 1\n")
    data = tmp_path / "data.bin"
    data.write_bytes(b"1")
    text = '#include "value.h"\nint value(void);\nint value(void) { return VALUE; }'
    main = replace(source(tmp_path, text), includes=(data,))
    made = {toolchain.compile([main], FLAGS, root)[0].path}
    made.add(toolchain.compile([main], (*FLAGS, "-DX"), root)[0].path)
    header.write_text("#define VALUE 2\n")
    made.add(toolchain.compile([main], FLAGS, root)[0].path)
    data.write_bytes(b"2")
    made.add(toolchain.compile([main], FLAGS, root)[0].path)
    made.add(toolchain.compile([replace(main, name="app.other")], FLAGS, root)[0].path)
    made.add(toolchain.compile([replace(main, flags=("-O3",))], FLAGS, root)[0].path)
    main.path.write_text(text + "\n")
    made.add(toolchain.compile([main], FLAGS, root)[0].path)
    made.add(replace(toolchain, version="other").compile([main], FLAGS, root)[0].path)
    assert len(made) == 8


def test_what_does_not_compile_is_our_defect(toolchain: Toolchain, tmp_path: Path):
    main = source(tmp_path, "int main(void) { return x; }")
    with pytest.raises(InternalError) as caught:
        toolchain.compile([main], FLAGS, FIRMWARE)
    assert str(caught.value) == (
        f"`main.c` does not compile: {main.path}:1:25: error: 'x' undeclared (first use in this function)"
    )
    assert list(toolchain.cache.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("int x = ;", "main.c:1:9: error: expected expression before ';' token"),
        ("int f(void);\nint main(void) { return f(); }", "undefined reference to `f'"),
    ],
)
def test_a_users_file_that_does_not_compile_or_link(toolchain: Toolchain, tmp_path: Path, text: str, reason: str):
    with pytest.raises(InputError) as caught:
        link(replace(toolchain, users=tmp_path), tmp_path, text)
    assert caught.value.where == str(tmp_path)
    assert caught.value.message.endswith(reason)


def link(toolchain: Toolchain, folder: Path, text: str, layout: str = SCRIPT) -> tuple[tuple[Region, ...], bool]:
    (made,) = toolchain.compile([source(folder, text)], FLAGS, FIRMWARE)
    shutil.copy(made.path, folder)
    script = folder / "app.ld"
    script.write_text(layout)
    return toolchain.link([made.path.name], FLAGS, script, folder / "app.elf")


def test_how_full_the_memories_are(toolchain: Toolchain, tmp_path: Path):
    regions, fits = link(toolchain, tmp_path, "char x[8];\nint main(void) { return x[1]; }")
    assert fits
    assert regions == (Region("CODE", 12, 65536), Region("RAM", 8, 1024))
    assert (tmp_path / "app.elf").is_file()
    assert (tmp_path / "app.map").is_file()


def test_what_does_not_fit_gives_no_image(toolchain: Toolchain, tmp_path: Path):
    text = "char x[2000];\nextern const char y[70000];\nconst char y[70000] = {1};\n"
    regions, fits = link(toolchain, tmp_path, f"{text}int main(int n, char **a) {{ (void)a; return x[n] + y[n]; }}")
    assert not fits
    assert [(r.name, r.used > r.size, r.size) for r in regions] == [("CODE", True, 65536), ("RAM", True, 1024)]
    assert regions[1].used == 2000
    assert not (tmp_path / "app.elf").exists()


def test_a_memory_without_bytes(toolchain: Toolchain, tmp_path: Path):
    layout = SCRIPT.replace("LENGTH = 1K }", "LENGTH = 1K\n  EXT (rwx) : ORIGIN = 0x60000000, LENGTH = 0 }")
    layout = layout.replace("RAM }", "RAM\n  .ext (NOLOAD) : { *(.ext*) } > EXT }")
    fitting, in_ext = "char x[8];", 'char x[8] __attribute__((section(".ext.x")));'
    regions, fits = link(toolchain, tmp_path, f"{fitting}\nint main(void) {{ return x[1]; }}", layout)
    assert fits
    assert regions[-1] == Region("EXT", 0, 0)
    regions, fits = link(toolchain, tmp_path, f"{in_ext}\nint main(void) {{ return x[1]; }}", layout)
    assert not fits
    assert regions[-1] == Region("EXT", 8, 0)


def test_what_cannot_be_linked_is_our_defect(toolchain: Toolchain, tmp_path: Path):
    with pytest.raises(InternalError) as caught:
        link(toolchain, tmp_path, "int f(void);\nint main(void) { return f(); }")
    assert str(caught.value).startswith("`app.elf` cannot be linked: ")
    assert str(caught.value).endswith("undefined reference to `f'")


@pytest.mark.parametrize(
    ("missing", "error"),
    [
        (
            "arm-none-eabi-gcc",
            "the compiler for Arm boards is not installed: found no `arm-none-eabi-gcc` on PATH\n\n"
            "hint: install it, on Debian with `apt-get install gcc-arm-none-eabi`",
        ),
        (
            "arm-none-eabi-ar",
            "the archiver for Arm boards is not installed: found no `arm-none-eabi-ar` on PATH\n\n"
            "hint: install it, on Debian with `apt-get install binutils-arm-none-eabi`",
        ),
    ],
)
def test_a_missing_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, error: str):
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == missing else which(name))
    with pytest.raises(MissingToolError) as caught:
        Toolchain.find(tmp_path)
    assert str(caught.value) == error


def test_a_missing_c_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tools, "has_libc", lambda compiler: False)
    with pytest.raises(MissingToolError) as caught:
        Toolchain.find(tmp_path)
    assert str(caught.value) == (
        "the C library for Arm boards is not installed: `arm-none-eabi-gcc` does not find `libc_nano.a`\n\nhint: "
        "install it, on Debian with `apt-get install libnewlib-arm-none-eabi`"
    )


def test_a_compiler_without_library_answers_with_the_bare_name(tmp_path: Path):
    fake = tmp_path / "gcc"
    fake.write_text("#!/bin/sh\necho libc_nano.a\n")
    fake.chmod(0o755)
    assert not tools.has_libc(fake)
