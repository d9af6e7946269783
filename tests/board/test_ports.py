"""Ports of boards that are not emulated: all compile without warnings and link; a port in a directory runs."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from benches import c_compilers
from tests import full
from tests.board import fetching, harness_device
from tests.board.host import command
from tests.board.port_images import START, build, run
from tests.board.serial_boards import SERIAL, emulated
from tests.board.test_harness import on_host
from tests.board.test_state import stream, summing

from deuteron.board import boards, harness_image, image, library
from deuteron.board.firmware_record import ELF, FirmwareOptions
from deuteron.board.flash import Flash
from deuteron.board.harness.client import Client
from deuteron.board.harness.line import open_line
from deuteron.board.harness.program import BoardProgram
from deuteron.board.link import link
from deuteron.board.toolchain import Source, Toolchain
from deuteron.board.translate import translate
from deuteron.errors import FormatError, InputError, OptionError
from deuteron.native import FIRMWARE

PORTS = [FIRMWARE / "port" / name for name in boards.ports()]
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wmissing-prototypes")


def linked(board: boards.Board, folder: Path) -> Path:
    bundle = translate(summing(), name="summing")
    hashed = image.write_hash(harness_device.HASH.hex(), folder)
    own = harness_image.write(bundle, board, Flash(0, 0), folder, profiling=False)
    link(bundle, board, SERIAL, (), Toolchain.find(image.OBJECTS), folder, extra=(hashed, own))
    return folder / ELF


def test_there_are_ports() -> None:
    assert [path.name for path in PORTS] == [
        "alif_ensemble_he",
        "alif_ensemble_hp",
        "frdm_mcxn947",
        "mimxrt700_evk",
        "nucleo_h743zi",
        "nucleo_u575zi",
        "pico2",
    ]


SHARED = ("port/cortex_m/port.c", "port/cortex_m/startup.c", "runner/prepare.c", "runner/run.c")
HARNESS = ("harness/frame.c", "harness/harness.c", "harness/main.c")


@pytest.mark.parametrize("name", full.only(["gcc", "clang"], "clang"))
@pytest.mark.parametrize("directory", PORTS, ids=lambda path: path.name)
def test_a_port_has_no_warnings(tmp_path: Path, directory: Path, name: str) -> None:
    found = (c_compilers.gcc(),) if name == "gcc" else c_compilers.clangs()
    if not found:
        pytest.skip("Clang is not installed: its half of this test needs it, on Debian `apt-get install clang`")
    board = boards.load(directory.name)
    assert board == boards.read_port(directory)
    options = ("-std=c99", "-Os", *board.flags, *WARNINGS, f"-I{FIRMWARE / 'include'}", *library.port_flags(board))
    for source in (*directory.glob("*.c"), *(FIRMWARE / name for name in (*SHARED, *HARNESS))):
        assert found[0].compile(source, options, tmp_path / "object.o") == ""


TRIGGERS = {"nucleo_h743zi": "PE11", "nucleo_u575zi": "PE11", "pico2": "GP2"}
"""Ports with pins for an energy meter, and the pin for runs."""


def test_the_pins_for_an_energy_meter_are_in_the_guide() -> None:
    assert {path.name for path in PORTS if (path / "trigger.c").is_file()} == set(TRIGGERS)
    sections = (FIRMWARE.parent / "docs/guides/boards.md").read_text("utf-8").split("\n### ")
    for name, pin in TRIGGERS.items():
        (section,) = (text for text in sections if f"--board {name}" in text and text.startswith(("ST ", "Rasp")))
        assert f"**Energy:** {pin}" in section
        assert pin in (FIRMWARE / "port" / name / "trigger.c").read_text("utf-8")


def test_the_pins_for_an_energy_meter_are_driven(tmp_path: Path) -> None:
    """The code of the STM32 with its registers in memory: both pins are outputs, and only the asked one changes."""
    (tmp_path / "main.c").write_text(
        "#define BOARD_TRIGGER_GPIO registers\n#define BOARD_TRIGGER_RUN 11\n#define BOARD_TRIGGER_STEP 9\n"
        "#include <stdint.h>\n#include <stdio.h>\n"
        "static uint32_t registers[10];\nstatic void board_trigger_clock(void) {}\n"
        f'#include "{FIRMWARE / "port/stm32/trigger.h"}"\n'
        "int main(void) {\n  registers[0] = 0xFFFFFFFFU;\n  dtn_trigger_start();\n"
        '  printf("%x %x", (unsigned)registers[0], (unsigned)registers[6]);\n'
        "  for (uint32_t i = 0; i < 4; i++) {\n    dtn_port_trigger(i / 2, i % 2 != 0);\n"
        '    printf(" %x", (unsigned)registers[6]);\n  }\n  return 0;\n}\n'
    )
    command("cc", f"-I{FIRMWARE / 'include'}", tmp_path / "main.c", "-o", tmp_path / "program")
    modes = 0xFFFFFFFF & ~(2 << 22) & ~(2 << 18)
    assert command(tmp_path / "program").split() == [
        f"{value:x}" for value in (modes, 1 << 25, 1 << 27, 1 << 11, 1 << 25, 1 << 9)
    ]


def test_pyocd_knows_the_chips() -> None:
    """Those that it does not have itself come with a pack, which the guide names."""
    builtin = pytest.importorskip("pyocd.target.builtin", reason="pyOCD is in the extra `boards`").BUILTIN_TARGETS
    guide = (FIRMWARE.parent / "docs/guides/boards.md").read_text("utf-8")
    chips = {board.pyocd for path in PORTS if (board := boards.read_port(path)).pyocd}
    assert "stm32h743xx" in chips & builtin.keys()
    for chip in chips - builtin.keys():
        assert f"pyocd pack install {chip}" in guide


@pytest.mark.full
@pytest.mark.parametrize("directory", PORTS, ids=lambda path: path.name)
def test_a_port_links(tmp_path: Path, directory: Path) -> None:
    assert linked(boards.load(directory.name), tmp_path).is_file()


@pytest.mark.parametrize(
    ("hz", "rate"), [(12_000_000, 115_200), (24_000_000, 115_200), (24_000_000, 921_600), (12_000_000, 9_600)]
)
def test_the_rate_of_an_lpuart_is_within_a_percent(hz: int, rate: int, tmp_path: Path) -> None:
    (tmp_path / "board.h").write_text('#include "core.h"\n#define DTN_TICKS_HZ 1U\n')
    (tmp_path / "main.c").write_text(
        f"#define BOARD_FLEXCOMM 0UL\n#define BOARD_UART_HZ {hz}U\n#define DTN_UART_BAUD {rate}\n"
        "static void board_uart_start(void) {}\n"
        f'#include "{FIRMWARE / "port/nxp/lpuart.h"}"\n#include <stdio.h>\n'
        "uint32_t dtn_port_ticks(void) { return 0; }\n"
        'int main(void) { printf("%u", (unsigned)divisors(BOARD_UART_HZ, DTN_UART_BAUD)); return 0; }\n'
    )
    folders = (tmp_path, FIRMWARE / "include", FIRMWARE / "port/cortex_m")
    command("cc", *(f"-I{folder}" for folder in folders), tmp_path / "main.c", "-o", tmp_path / "program")
    baud = int(command(tmp_path / "program"))
    samples, divisor = (baud >> 24) + 1, baud & 0x1FFF
    assert 8 <= samples <= 32
    assert hz / (samples * divisor) == pytest.approx(rate, rel=0.01)


def test_the_boot_rom_of_the_rp2350_finds_its_block(tmp_path: Path) -> None:
    """The datasheet's minimum image definition for Arm, in the first 4 KiB of the flash and behind the vectors."""
    board, folder = boards.load("pico2"), boards.load("pico2").directory
    flags = (*board.flags, "-nostdlib", *(f"-I{path}" for path in (FIRMWARE / "include", FIRMWARE / "port/cortex_m")))
    sources = (FIRMWARE / "port/cortex_m/startup.c", folder / "board.c", tmp_path / "main.c")
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    scripts = (f"-L{path}" for path in library.script_folders(board))
    elf = tmp_path / "image.elf"
    flags = (*flags, f"-I{folder}", *scripts, "-T", folder / "pico2.ld")
    command("arm-none-eabi-gcc", *flags, *sources, "-lc", "-o", elf)
    command("arm-none-eabi-objcopy", "-O", "binary", "-j", ".vectors", elf, tmp_path / "flash.bin")
    flash = (tmp_path / "flash.bin").read_bytes()
    block = bytes.fromhex("d3deffff 42012110 ff010000 00000000 793512ab")
    assert 0x40 <= flash.find(block) < 0x1000
    assert flash.find(block) % 4 == 0
    assert int.from_bytes(flash[:4], "little") in range(0x20000000, 0x20082000)


def test_semihosting_needs_an_emulated_board(tmp_path: Path) -> None:
    bundle, tools = translate(summing(), name="summing"), Toolchain.find(image.OBJECTS)
    with pytest.raises(OptionError) as error:
        link(bundle, boards.load("nucleo_u575zi"), FirmwareOptions(), (), tools, tmp_path)
    assert str(error.value) == (
        "the board `nucleo_u575zi` is not emulated, and semihosting needs a debugger\n\n"
        "hint: add `--harness serial`, and run it with `--on serial:PORT`"
    )


def test_the_ring_buffer_of_the_template_has_no_warnings(tmp_path: Path) -> None:
    source = FIRMWARE / "port" / "template" / "uart.c"
    flags = ("-std=c99", *WARNINGS, "-I", FIRMWARE / "include")
    command("cc", *flags, "-c", source, "-o", tmp_path / "uart.o")


def test_the_system_timer_counts_a_time_that_is_longer_than_its_counter() -> None:
    board = boards.load("an505")  # whose counter has the rate of the core
    done = run(board, build(board, "systick", (*START, "tests/board/systick_timer.c")))
    assert done.status == 0
    late, expired = (int(word, 16) for word in done.output.split())
    assert 0 <= late < 100
    assert expired == 1


def port_of_an505(folder: Path) -> Path:
    """A directory that a user could have written, for a board that the emulator has."""
    directory = folder / "my_board"
    directory.mkdir()
    own = FIRMWARE / "port" / "an505"
    for name in ("board.h", "uart.c"):
        shutil.copy(own / name, directory / name)
    shutil.copy(own / "an505.ld", directory / "my_board.ld")
    flags = ", ".join(f'"{flag}"' for flag in boards.load("an505").flags)
    (directory / boards.PORT).write_text(
        f'title = "Mine"\ndma = false\ntcm = false\n[cpu]\nname = "cortex-m33"\nflags = [{flags}]\n'
        "[clock]\ntick_hz = 20_000_000\n"
    )
    return directory


def test_every_file_that_a_port_includes_counts(tmp_path: Path) -> None:
    """Objects of a user's port are never those of its earlier files."""
    directory = port_of_an505(tmp_path)
    (tmp_path / "pins.inc").write_text("/* none */\n")
    with (directory / "uart.c").open("a") as source:
        source.write('#include "../pins.inc"\n')
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    linked(boards.read_port(directory), tmp_path / "first")
    (tmp_path / "pins.inc").write_text('#error "other pins"\n')
    with pytest.raises(InputError, match="other pins"):
        linked(boards.read_port(directory), tmp_path / "second")


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        ("board.h", "DTN_TICKS_HZ", "OTHER_HZ", "error: .*DTN_TICKS_HZ"),
        (
            "uart.c",
            "#include",
            "int one(void);\nint one(void) { return 1 }\n#include",
            r"uart.c:3:\d+: error: expected",
        ),
        ("my_board.ld", "MEMORY", "MEMO{RY", "my_board.ld:.*syntax error"),
        (boards.PORT, '"-mcpu=cortex-m33', '"-mcpu=nothing', "-mcpu"),
    ],
)
def test_an_error_in_a_file_of_a_port_is_the_users(tmp_path: Path, file: str, old: str, new: str, reason: str) -> None:
    directory = port_of_an505(tmp_path)
    text = (directory / file).read_text()
    assert old in text
    (directory / file).write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=reason) as error:
        linked(boards.read_port(directory), tmp_path)
    assert error.value.where == str(directory)


def test_a_program_that_fetches_weights_needs_a_driver_for_fetches(tmp_path: Path) -> None:
    bundle, tools = fetching.bundle(np.random.default_rng(5)), Toolchain.find(image.OBJECTS)
    with pytest.raises(OptionError) as error:
        link(bundle, boards.load("nucleo_u575zi"), SERIAL, (), tools, tmp_path)
    assert str(error.value) == (
        "the program fetches weights during its runs, and the port of `nucleo_u575zi` has no driver for fetches\n\n"
        "hint: build the model with `--fetch-constants-to-sram never`, or integrate its bundle with "
        "`port/template/fetch_hooks.c`"
    )


def test_a_port_in_a_directory_runs(tmp_path: Path) -> None:
    board = boards.read_port(port_of_an505(tmp_path))
    elf = linked(board, tmp_path)
    bundle = translate(summing(), name="summing")
    samples: list[list[np.ndarray]] = [[x] for x in stream(3)]
    with emulated(elf, boards.load("an505")) as name:
        program = BoardProgram(Client(open_line(name)), harness_device.expected(bundle))
        assert program.connect().board == "my_board"
        runs = program.run_all(samples, (0,))
        program.client.line.close()
    assert harness_device.as_bytes([run.outputs for run in runs]) == on_host(bundle, samples, (0,))


@pytest.mark.parametrize(
    ("missing", "text"),
    [("uart.c", "has no `uart.c`"), ("board.h", "has no `board.h`"), (boards.PORT, "has no `port.toml`")],
)
def test_a_port_that_is_not_complete(tmp_path: Path, missing: str, text: str) -> None:
    directory = port_of_an505(tmp_path)
    (directory / missing).unlink()
    with pytest.raises(InputError, match=f"{text}\n\nhint: start from a copy of `.*nucleo_u575zi`"):
        boards.read_port(directory)


def test_a_port_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none` is not a directory"):
        boards.read_port(tmp_path / "none")


@pytest.mark.parametrize("text", ["title = ", "title = 'mine'"])
def test_a_damaged_port_is_named(tmp_path: Path, text: str) -> None:
    directory = port_of_an505(tmp_path)
    (directory / boards.PORT).write_text(text)
    with pytest.raises(FormatError) as caught:
        boards.read_port(directory)
    assert str(caught.value).startswith(f"{directory / boards.PORT}: ")
    assert "\n\nhint: start from a copy of" in str(caught.value)


@pytest.mark.parametrize("name", ["an505", "my-board"])
def test_a_port_with_the_name_of_another_board(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name
    port_of_an505(tmp_path).rename(directory)
    with pytest.raises(OptionError, match=f"a port cannot have the name `{name}`"):
        boards.read_port(directory)


def sizes(sources: Iterable[Source], flags: Sequence[str]) -> tuple[int, int]:
    """Bytes of code and constants, and of variables, that the sources compile to."""
    objects = Toolchain.find(image.OBJECTS).compile(tuple(sources), flags, FIRMWARE)
    lines = command("arm-none-eabi-size", *(item.path for item in objects)).splitlines()[1:]
    text, data, bss = (sum(int(line.split()[i]) for line in lines) for i in range(3))
    return text + data, data + bss


@pytest.mark.parametrize("profiling", full.only([False, True], True))
@pytest.mark.parametrize("name", [*boards.names(), *boards.ports()])
def test_the_harness_is_as_small_as_the_guide_says(name: str, profiling: bool) -> None:
    """At most 3 KB of code and 1 KB of RAM with the drivers of the port; events are 16 bytes for each step."""
    board = boards.load(name)
    flags = (*board.flags, *((library.PROFILING,) if profiling else ()), *library.port_flags(board))
    code, ram = sizes(library.harness(), flags)
    drivers = [
        source
        for source in library.port(board, dma=False, fetches=False, line=True)
        if source.path.stem in ("uart", "trigger")
    ]
    driver_code, driver_ram = sizes(drivers, flags)
    assert 1500 < code < 2048
    assert 300 < ram < 512
    assert code + driver_code < 3072
    assert ram + driver_ram < 1024
    assert driver_code < 410
    assert driver_ram == 0
    root = FIRMWARE.parent
    for page in (root / "docs/guides/boards.md", root / "spec/harness.md"):
        text = " ".join(page.read_text("utf-8").split())
        assert "less than 2 KB of code, 0.4 KB for the port's drivers, and less than 0.5 KB of RAM" in text, page
