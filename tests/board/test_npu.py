"""An image links the NPUs that its bundle names, and nothing for caches that its board does not have."""

from dataclasses import replace
from pathlib import Path

from elftools.elf.elffile import ELFFile
from tests.board import programs

from deuteron.board import boards, firmware_record, image
from deuteron.board.bundle import Bundle
from deuteron.board.firmware_record import FirmwareOptions
from deuteron.board.link import link
from deuteron.board.toolchain import Toolchain
from deuteron.board.translate import translate
from deuteron.npu.firmware import FirmwareBlock

NPU = {"dtn_npu_neutron", "neutronModelPrepare", "neutronRunBlocking"}
CACHE = {"dtn_port_cache_clean", "dtn_port_cache_invalidate"}


def linked(bundle: Bundle, folder: Path) -> set[str]:
    """The names in an image of the bundle for the AN505."""
    kernels = image.called(bundle)
    link(bundle, boards.load("an505"), FirmwareOptions(), kernels, Toolchain.find(image.OBJECTS), folder)
    with (folder / firmware_record.ELF).open("rb") as file:
        return {symbol.name for symbol in ELFFile(file).get_section_by_name(".symtab").iter_symbols()}


def without_partition() -> Bundle:
    """A program that quantizes and dequantizes."""
    make = programs.Maker()
    x, q, y = make.tensor((1, 8), "float32"), make.tensor((1, 8)), make.tensor((1, 8), "float32")
    make.quantize(x, q)
    make.dequantize(q, y)
    return translate(make.program((x,), (y,)), name="cpu")


def test_an_image_links_the_npus_that_its_bundle_names(tmp_path: Path):
    names = linked(translate(programs.edges(), name="npu"), tmp_path)
    assert (names & NPU, names & CACHE) == (NPU, set())
    assert linked(without_partition(), tmp_path) & NPU == set()


def test_blocks_without_a_checksum_of_their_own_get_one():
    block = FirmwareBlock("table", b"abc")
    assert (block.crc, replace(block, has_checksum=True).crc) == (0x352441C2, 0)
