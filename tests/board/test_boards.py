"""Boards: the presets, and every error of reading one."""

from importlib import resources

import pytest

from deuteron.board import boards
from deuteron.board.library import FIRMWARE
from deuteron.errors import FormatError, OptionError


def preset(name: str = "an505") -> str:
    return (resources.files("deuteron.board") / "presets" / f"{name}.toml").read_text("utf-8")


def test_the_boards():
    assert {
        name: (board.cpu, board.machine, board.dma) for name in boards.names() for board in [boards.load(name)]
    } == {
        "an500": ("cortex-m7", "mps2-an500", False),
        "an505": ("cortex-m33", "mps2-an505", True),
        "an547": ("cortex-m55", "mps3-an547", False),
    }
    assert boards.load("an505").flags == (
        "-mcpu=cortex-m33",
        "-mthumb",
        "-mfloat-abi=hard",
        "-mfpu=fpv5-sp-d16",
        "-DDTN_DATA_CACHE=0",
    )


@pytest.mark.parametrize("name", [*boards.names(), *boards.ports()])
def test_the_tick_rate_is_the_ports(name: str):
    header = (FIRMWARE / "port" / name / "board.h").read_text("utf-8")
    assert f"#define DTN_TICKS_HZ UINT32_C({boards.load(name).tick_hz})\n" in header


def test_an_unknown_board():
    with pytest.raises(OptionError) as caught:
        boards.load("an521")
    assert str(caught.value) == (
        "unknown board `an521`\n\nhint: the boards are `an500`, `an505`, `an547`, and with `--harness serial` "
        "`alif_ensemble_he`, `alif_ensemble_hp`, `frdm_mcxn947`, `mimxrt700_evk`, `nucleo_h743zi`, `nucleo_u575zi`, "
        "`pico2`; docs/guides/boards.md explains how to use your own board"
    )


@pytest.mark.parametrize("name", ["serial:/dev/ttyACM0", "tcp:h:1"])
def test_the_name_of_a_line_in_upper_case_is_no_board(name: str):
    with pytest.raises(OptionError, match=f"hint: a line has a name in lower case: `--on {name}`"):
        boards.load(name.replace("serial", "Serial").replace("tcp", "TCP"))


@pytest.mark.parametrize("name", ["/dev/ttyACM0", "COM3"])
def test_a_serial_port_is_no_board(name: str):
    with pytest.raises(OptionError, match=f"hint: a serial port is named `--on serial:{name}`"):
        boards.load(name)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("title", "titel", "board `b`: field `title` is missing"),
        ("dma = true", 'dma = "PL081"', "board `b`: field `dma` is 'PL081', which is no bool"),
        ('name = "cortex-m33"', "name = 33", "board `b`, table `cpu`: field `name` is 33, which is no str"),
        ('"-mthumb"', "7", "board `b`, table `cpu`: field `flags` is ['-mcpu=cortex-m33', 7, '-mfloat-abi=hard', "
         "'-mfpu=fpv5-sp-d16', '-DDTN_DATA_CACHE=0'], which is no list of str"),
        ("[cpu]", "[cpu]\ncores = 2", "board `b`, table `cpu`: unknown field `cores`"),
        ("[emulator]", "[emulator", "board `b`: not a TOML file: Expected ']' at the end of a table declaration "
         "(at line 13, column 10)"),
    ],
)  # fmt: skip
def test_a_damaged_preset(old: str, new: str, error: str):
    with pytest.raises(FormatError) as caught:
        boards.parse("b", preset().replace(old, new))
    assert str(caught.value) == error


def test_an_unknown_core():
    with pytest.raises(FormatError) as caught:
        boards.parse("b", preset().replace('name = "cortex-m33"', 'name = "cortex-m99"'))
    assert str(caught.value) == (
        "board `b`, table `cpu`: the name is `cortex-m99`, which is no core\n\nhint: the cores are cortex-m0plus, "
        "cortex-m3, cortex-m33, cortex-m4, cortex-m55, cortex-m7, cortex-m85"
    )
