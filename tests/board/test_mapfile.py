"""The linker's map, line by line."""

import pytest

from deuteron.board.mapfile import PADDING, Piece, pieces
from deuteron.errors import FormatError

MAP = """\
Archive member included to satisfy reference by file (symbol)

lib.a(driver.model.o)         main.o (run)

Discarded input sections

 .text          0x00000000        0x8 main.o

Memory Configuration

Name             Origin             Length             Attributes
CODE             0x10000000         0x00400000         xr

Linker script and memory map

LOAD main.o

.vectors        0x10000000       0x40
 *(.dtn_vectors)
 .dtn_vectors   0x10000000       0x40 port.startup.o
                0x10000000                dtn_vectors

.text           0x10000040       0x2c
 *(.text .text.*)
 .text          0x10000040        0x0 main.o
 .text.a_name_that_takes_the_whole_column
                0x10000040       0x10 lib.a(driver.model.o)
                0x10000040                a_name_that_takes_the_whole_column
 *fill*         0x10000050        0x4 
 .text.memcpy   0x10000054       0x18 /usr/lib/libc_nano.a(lib_a-memcpy.o)

.rodata         0x1000006c        0xe
 .rodata.a.str1.1
                0x1000006c        0xa main.o
                                  0xc (size before relaxing)
 .rodata.b.str1.1
                0x1000006c        0xe main.o

.data           0x38000000        0x8 load address 0x1000007c
 .data.x        0x38000000        0x8 main.o
"""  # noqa: W291 - ld writes the blank


def test_every_piece_of_the_image():
    assert pieces(MAP) == (
        Piece(".vectors", ".dtn_vectors", 0x10000000, 0x40, "port.startup.o"),
        Piece(".text", ".text.a_name_that_takes_the_whole_column", 0x10000040, 0x10, "lib.a(driver.model.o)"),
        Piece(".text", PADDING, 0x10000050, 4, ""),
        Piece(".text", ".text.memcpy", 0x10000054, 0x18, "/usr/lib/libc_nano.a(lib_a-memcpy.o)"),
        Piece(".rodata", ".rodata.b.str1.1", 0x1000006C, 0xE, "main.o"),
        Piece(".data", ".data.x", 0x38000000, 8, "main.o"),
    )


def test_the_object_of_a_piece():
    assert [piece.object for piece in pieces(MAP)] == [
        "port.startup", "driver.model", "", "lib_a-memcpy", "main", "main",
    ]  # fmt: skip


def test_what_is_no_map():
    with pytest.raises(FormatError) as caught:
        pieces("CODE 17\n")
    assert str(caught.value) == "the linker's map has no memory map\n\nhint: build the firmware again"
