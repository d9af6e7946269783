"""The DSP sources compile where compilers have fewer registers to give: unoptimised, with frames, with r9 reserved."""

from dataclasses import replace

import pytest

from deuteron.arch.cores import InnerWork
from deuteron.board import boards, image, library
from deuteron.board.toolchain import Toolchain

OPTIONS = ("-O0", "-O1", "-O2", "-O3")
RESERVED = ("-fno-omit-frame-pointer", "-ffixed-r9")


@pytest.mark.parametrize("level", OPTIONS)
def test_the_dsp_sources_compile_with_few_registers(level: str) -> None:
    board = boards.load("an505")
    sources = [
        replace(source, flags=(level, *RESERVED))
        for source in library.core(board)
        if source.path.parent.name == InnerWork.DSP.value
    ]
    assert sources
    Toolchain.find(image.OBJECTS).compile(sources, (*board.flags, "-Werror"), library.FIRMWARE)
