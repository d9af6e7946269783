"""Images of whole models: the same bits as on the host, counts that repeat, sizes that add up, a stack that holds."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from tests import full, store
from tests.board.conftest import Built
from tests.board.test_bundle import SMALL

from deuteron import api
from deuteron.board import boards, firmware_record, image, library, override, qemu, size, stack
from deuteron.board.boards import Board
from deuteron.board.bundle import Bundle, Memory
from deuteron.board.firmware_record import Firmware, FirmwareOptions, IoCopy, Kernels, Weights
from deuteron.board.flash import Flash, FlashOptions
from deuteron.board.link import ARCHIVE, link
from deuteron.board.toolchain import Source, Toolchain
from deuteron.errors import CapacityError, FormatError, InputError, OptionError
from deuteron.npu.neutron.kernels.catalogue import KERNELS

pytestmark = pytest.mark.slow

BOARDS = [boards.load(name) for name in boards.names()]
FITTING = [example.name for example in api.REFERENCES if example.name != "mobilenet_v2"]
"""Reference models that take seconds in the emulator; `benches/boards.py` runs the other one."""

RUNS = [(name, board) for board in boards.names() for name in (*SMALL, *FITTING)]
KINDS = [
    *((name, "an505") for name in (*SMALL[::2], "digits")),
    *((name, board) for name in ("two_fetched", "view", "digits") for board in ("an500", "an547")),
]
"""Each edge of a partition on one board, and each kind of memory on the others."""

Make = Callable[..., Path]


@pytest.fixture(scope="module")
def make(built: Built) -> Make:
    """Gives the firmware directory of a model for a board."""

    def link(name: str, board: Board, options: FirmwareOptions = FirmwareOptions()) -> Path:
        return store.firmware(built(name), board, options)

    return link


def check(built: Path, directory: Path, board: Board, samples: int = 2) -> tuple[Firmware, qemu.EmulatorReport]:
    """Runs an image twice: host's bits, equal counts, and no more stack than the bound."""
    firmware = firmware_record.read(directory)
    data = api.seeded_inputs(api.read_manifest(built), samples)
    reports = [qemu.run(directory, firmware, board, data, time_out=120) for _ in range(2)]
    for run, again, wanted in zip(reports[0].runs, reports[1].runs, api.run_each(built, data), strict=True):
        assert [(y.shape, y.dtype) for y in run.outputs] == [(y.shape, y.dtype) for y in wanted]
        assert [y.tobytes() for y in run.outputs] == [y.tobytes() for y in wanted]
        assert (run.instructions, run.events, run.stack) == (again.instructions, again.events, again.stack)
        assert firmware.stack.gaps == ()
        assert 0 < run.stack <= firmware.stack.bytes <= firmware.stack.available == reports[0].stack_bytes
    return firmware, reports[0]


@pytest.mark.parametrize(("name", "board"), full.only(RUNS, *KINDS))
def test_a_board_gives_the_hosts_bits_and_counts_the_same_each_time(name: str, board: str, built: Built, make: Make):
    machine = boards.load(board)
    firmware, report = check(built(name), make(name, machine), machine)
    kinds = [event.kind for event in report.runs[0].events]
    assert kinds.count(qemu.EventKind.COPY_IN) == len(firmware.inputs)
    assert kinds.count(qemu.EventKind.STEP) == len(firmware.steps)
    assert kinds.count(qemu.EventKind.COPY_OUT) == len(firmware.outputs)
    assert sum(event.instructions for event in report.runs[0].events) <= report.runs[0].instructions


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
@pytest.mark.parametrize("weights", [w for w in Weights if w is not Weights.AUTO], ids=lambda w: w.value)
def test_weights_may_lie_in_every_memory(weights: Weights, board: Board, built: Built, make: Make):
    directory = make("two", board, FirmwareOptions(weights=weights))
    firmware, _ = check(built("two"), directory, board, samples=1)
    assert firmware.weights == weights.value
    section = {Weights.FLASH: ".dtn_flash", Weights.SRAM: ".dtn_sram", Weights.EXTERNAL: ".dtn_ext"}[weights]
    with (directory / firmware_record.ELF).open("rb") as file:
        found = ELFFile(file).get_section_by_name(section)
        assert found["sh_size"] >= sum(row.total for row in firmware.sizes.rows if row.part == "weights") > 0


def test_the_override_is_there_when_asked_for_and_leaves_no_trace_otherwise(built: Built, make: Make):
    board = boards.load("an505")
    directory = make("two", board, FirmwareOptions(io_copy=IoCopy.DMA))
    check(built("two"), directory, board, samples=1)
    assert override.overridden(directory / firmware_record.ELF) == ("dtn_io_copy_start", "dtn_io_copy_wait")
    plain = make("two", board)
    assert override.overridden(plain / firmware_record.ELF) == ()
    assert "io_copy_dma" not in (plain / firmware_record.MAP).read_text()
    with pytest.raises(InputError) as caught:
        override.check_override(plain / firmware_record.ELF)
    assert str(caught.value) == (
        "`firmware.elf` copies inputs and outputs by the weak default, but an override of `dtn_io_copy` was requested"
        "\n\nhint: link the override as an object; or put its archive before the library, and before that "
        "`-Wl,-u,dtn_io_copy_start` or another hook that it defines: a linker takes from an archive only symbols "
        "that are still undefined"
    )


def test_a_program_whose_core_is_assumed_says_so(tmp_path: Path):
    """The error names a board with another core, for which the build may be right."""
    program = tmp_path / "kws.pte"
    shutil.copy(store.model("digits", target="cortex-m55") / "model.pte", program)
    with pytest.raises(OptionError) as caught:
        api.firmware(program, "an505")
    assert str(caught.value) == (
        "the program is assumed to be for `cortex-m55` and its MVE instructions, which the cortex-m33 of the board "
        "`an505` lacks\n\nhint: use a board with these instructions: `an547`; or set its target, for example "
        "`--target cortex-m33`"
    )
    assert api.missing(program)[0] == (
        "`kws.pte` does not name its target; `cortex-m55` is assumed: `--target` sets another"
    )
    assert "taken for" not in "".join(api.missing(program, target="cortex-m33"))


def test_a_board_whose_core_lacks_the_targets_instructions_is_refused():
    build = store.model("digits", target="cortex-m55")
    with pytest.raises(OptionError) as caught:
        image.build(build, boards.load("an505"), FirmwareOptions(), Toolchain.find(image.OBJECTS))
    assert str(caught.value) == (
        "the build is for `cortex-m55` and its MVE instructions, which the cortex-m33 of the board `an505` "
        "lacks\n\nhint: use a board with these instructions: `an547`; or build the model with `--target cortex-m33`"
    )


def test_a_board_without_a_dma_is_not_asked_for_one(built: Built):
    with pytest.raises(OptionError) as caught:
        image.build(
            built("two"), boards.load("an547"), FirmwareOptions(io_copy=IoCopy.DMA), Toolchain.find(image.OBJECTS)
        )
    assert str(caught.value) == (
        "the board `an547` has no DMA: only its cortex-m55 can copy inputs and outputs\n\nhint: use `--io-copy cpu`, "
        "or a board with a DMA: `an505`"
    )


@pytest.mark.parametrize("board", full.first(BOARDS, 1), ids=lambda board: board.name)
def test_the_stack_is_as_large_as_asked_for(board: Board, built: Built, make: Make):
    taken = firmware_record.read(make("two", board)).stack.bytes
    firmware, report = check(built("two"), make("two", board, FirmwareOptions(stack=taken)), board, samples=1)
    assert firmware.stack.bytes == taken
    assert taken <= firmware.stack.available == report.stack_bytes < taken + 8


def test_a_stack_that_may_overflow_is_refused(built: Built, make: Make):
    board = BOARDS[0]
    bound = firmware_record.read(make("two", board)).stack
    short = (bound.bytes - 8) // 8 * 8
    with pytest.raises(CapacityError) as caught:
        image.build(built("two"), board, FirmwareOptions(stack=short), Toolchain.find(image.OBJECTS))
    assert bound.path[0].function == "dtn_reset"
    frames = " > ".join(f"{call.function} {call.frame:,} B" for call in bound.path)
    interrupts = "".join(f"\n  interrupt {call.function}: {call.frame:,} B" for call in bound.interrupts)
    assert str(caught.value) == (
        f"the stack of `two` may take {bound.bytes:,} B, but {short:,} B are reserved for it:\n  deepest: "
        f"{frames}{interrupts}\n\nhint: reserve enough with `deuteron firmware ... --stack "
        f"{bound.bytes + -bound.bytes % 8}`"
    )


@pytest.mark.parametrize("stack_bytes", [0, -8, 1 << 32])
def test_a_stack_that_there_cannot_be(stack_bytes: int):
    with pytest.raises(OptionError) as caught:
        FirmwareOptions(stack=stack_bytes)
    assert str(caught.value) == f"`--stack` is {stack_bytes:,}, it must be above 0 and below 2^32"


def test_weights_come_at_the_rate_of_the_flash(built: Built, make: Make):
    board = BOARDS[0]
    directory = make("two_fetched", board, FirmwareOptions(flash=FlashOptions(latency_ns=1000)))
    firmware = firmware_record.read(directory)
    assert firmware.flash == Flash(1000, 400_000_000)
    sample = api.seeded_inputs(api.read_manifest(built("two_fetched")), 1)
    flashes = (firmware.flash, Flash(0, 0), Flash(1000, 20_000))
    runs = [qemu.run(directory, replace(firmware, flash=flash), board, sample).runs[0] for flash in flashes]
    as_built, at_once, slow = (run.instructions for run in runs)
    fetched = sum(len(d.partition.blocks[1].data) for d in image.bundle_of(built("two_fetched")).delegates)
    nanoseconds = fetched * 1_000_000_000 // 20_000
    assert at_once < as_built < slow
    assert nanoseconds <= slow * 64 < nanoseconds + at_once * 64
    assert [[y.tobytes() for y in run.outputs] for run in runs[1:]] == [[y.tobytes() for y in runs[0].outputs]] * 2


def test_an_override_in_an_archive_needs_to_be_asked_for(tmp_path: Path):
    board = BOARDS[0]
    toolchain = Toolchain.find(image.OBJECTS)
    bundle = Bundle("empty", (), (), (), (), (Memory(0, "an arena"), Memory(0, "working memory")), (), (), ())
    linked = link(bundle, board, FirmwareOptions(io_copy=IoCopy.DMA), (), toolchain, tmp_path)
    in_library = {source.name for source in library.core(board)}
    late = [item for item in linked.objects if item.name == "port.io_copy_dma"]
    others = [item for item in linked.objects if item.name not in {"port.io_copy_dma", *in_library}]
    toolchain.archive(late, tmp_path / "libdma.a")
    script = library.linker_script(board)

    def overridden(*inputs: str) -> tuple[str, ...]:
        toolchain.link(inputs, (*board.flags, f"-L{script.parent}"), script, tmp_path / "firmware.elf")
        return override.overridden(tmp_path / "firmware.elf")

    names = [str(item.path) for item in others]
    assert overridden(*names, ARCHIVE, "libdma.a") == ()
    assert overridden("libdma.a", *names, ARCHIVE) == ()
    with pytest.raises(InputError):
        override.check_override(tmp_path / "firmware.elf")
    assert overridden(*names, "-Wl,-u,dtn_io_copy_start", "libdma.a", ARCHIVE) == (
        "dtn_io_copy_start",
        "dtn_io_copy_wait",
    )
    assert overridden(*names, str(late[0].path), ARCHIVE) == ("dtn_io_copy_start", "dtn_io_copy_wait")
    override.check_override(tmp_path / "firmware.elf")


@pytest.mark.parametrize(
    ("hook", "other"), [("dtn_io_copy_start", "dtn_io_copy_wait"), ("dtn_io_copy_wait", "dtn_io_copy_start")]
)
def test_half_an_override_is_found_out(hook: str, other: str, tmp_path: Path):
    weak = "".join(
        f"__attribute__((weak)) int {name}(void) {{ return 0; }}\n" for name in override.HOOKS if name != hook
    )
    (tmp_path / "half.c").write_text(f"{weak}int {hook}(void) {{ return 0; }}\n")
    toolchain = Toolchain.find(tmp_path / "objects")
    (made,) = toolchain.compile([Source("half", tmp_path / "half.c")], (*BOARDS[0].flags, "-w"), library.FIRMWARE)
    with pytest.raises(InputError) as caught:
        override.check_override(made.path)
    assert str(caught.value) == (
        f"`half.o` has an override of `{hook}`, but `{other}` is the weak default\n\n"
        f"hint: define `{other}` in the file that defines `{hook}`: start and wait must come from the same file"
    )


def test_an_override_of_any_weak_function_can_be_asked_for(tmp_path: Path):
    weak, strong = "void arm_ethos_io_memcpy(void)", "void dtn_port_npu_cycles(void)"
    (tmp_path / "hooks.c").write_text(f"__attribute__((weak)) {weak} {{}}\n{strong} {{}}\n")
    toolchain = Toolchain.find(tmp_path / "objects")
    (made,) = toolchain.compile([Source("hooks", tmp_path / "hooks.c")], (*BOARDS[0].flags, "-w"), library.FIRMWARE)

    def refusal(symbol: str) -> str:
        with pytest.raises(InputError) as caught:
            override.check_symbol(made.path, symbol)
        return str(caught.value)

    override.check_symbol(made.path, "dtn_port_npu_cycles")
    assert refusal("arm_ethos_io_memcpy") == (
        "`hooks.o` has the weak default of `arm_ethos_io_memcpy`, but an override was requested\n\nhint: link the "
        "override as an object; or put its archive first, behind `-Wl,-u,arm_ethos_io_memcpy`: a linker takes from "
        "an archive only symbols that are still undefined"
    )
    assert refusal("arm_ethos_io_memcopy") == (
        "`hooks.o` has no function `arm_ethos_io_memcopy`\n\n"
        "hint: check the name; the linker also drops functions that the image never calls"
    )


def test_an_image_that_copies_nothing_has_no_override(tmp_path: Path):
    (tmp_path / "none.c").write_text(
        f"int {override.HOOKS[0]}(void);\nint x(void) {{ return {override.HOOKS[0]}(); }}\n"
    )
    toolchain = Toolchain.find(tmp_path / "objects")
    (made,) = toolchain.compile([Source("none", tmp_path / "none.c")], (*BOARDS[0].flags, "-w"), library.FIRMWARE)
    with pytest.raises(InputError) as caught:
        override.check_override(made.path)
    assert str(caught.value) == (
        "`none.o` has none of `dtn_io_copy`, `dtn_io_copy_start`, `dtn_io_copy_wait`: nothing in it copies inputs "
        "and outputs\n\nhint: give the image of an application that runs a bundle, as the linker wrote it, before "
        "`strip`"
    )


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_sizes_add_up_to_the_image(board: Board, make: Make):
    directory = make("two", board)
    firmware = firmware_record.read(directory)
    sums = dict.fromkeys(("text", "rodata", "data", "bss"), 0)
    reserved = 0
    with (directory / firmware_record.ELF).open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if not section["sh_flags"] & 2:
                continue
            if section.name in size.RESERVED:
                reserved += section["sh_size"]
            else:
                sums[size._kind(section["sh_flags"], section["sh_type"])] += section["sh_size"]
    total = firmware.sizes.total
    assert {kind: getattr(total, kind) for kind in sums} == sums
    assert sum(firmware.sizes.reserved.values()) == reserved
    loaded = total.text + total.rodata + total.data
    assert 0 <= firmware.sizes.image - loaded < 64  # what aligns a section is loaded, and in no section
    used = sum(region.used for region in firmware.regions)
    assert 0 <= used - (total.total + reserved + total.data) < 64
    modules = {row.module for row in firmware.sizes.rows}
    assert modules == {*size.MODULES} - {"application", "harness", "messages", "profile", "stand_in", size.NPU_DRIVER}


@pytest.mark.parametrize("board", full.first(BOARDS, 1), ids=lambda board: board.name)
def test_only_the_kernels_that_are_called_are_linked_unless_all_are_asked_for(board: Board, make: Make):
    selected, everything = (firmware_record.read(make("two", board, FirmwareOptions(kernels))) for kernels in Kernels)
    for firmware in (selected, everything):
        linked = {row.part for row in firmware.sizes.rows if row.module == "kernels"} & {k.name for k in KERNELS}
        assert linked == set(firmware.kernels)
    assert everything.kernels == tuple(kernel.name for kernel in KERNELS)
    assert set(selected.kernels) < set(everything.kernels)


def test_the_same_build_gives_the_same_bytes(built: Built, make: Make):
    board = BOARDS[0]
    first = {path.name: path.read_bytes() for path in make("two", board).iterdir()}
    again = image.build(built("two"), board, FirmwareOptions(), Toolchain.find(image.OBJECTS))
    assert {**again.files, firmware_record.FILE.name: firmware_record.FILE.to_json(again.record).encode()} == first


def test_the_record_survives_json_and_guards_the_files(make: Make):
    directory = make("conv", BOARDS[0])
    found = firmware_record.read(directory)
    assert firmware_record.FILE.from_json(firmware_record.FILE.to_json(found), Firmware) == found
    assert set(found.files) == {path.name for path in directory.iterdir()} - {firmware_record.FILE.name}


def test_a_damaged_image_is_not_run(make: Make, tmp_path: Path):
    directory = make("conv", BOARDS[0])
    for file in directory.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / firmware_record.ELF).write_bytes(b"")
    with pytest.raises(FormatError) as caught:
        firmware_record.read(tmp_path)
    assert str(caught.value).startswith(
        f"{tmp_path}: `firmware.elf` is not the file that `firmware.json` describes: 0 bytes with SHA-256"
    )
    assert str(caught.value).endswith("hint: build the firmware again")


def test_a_program_that_the_driver_refuses_is_refused_in_its_words(built: Built, make: Make, tmp_path: Path):
    board = BOARDS[0]
    directory = make("conv", board)
    data = bytearray((directory / firmware_record.ELF).read_bytes())
    microcode = (directory / "dtn_bundle_data.bin").read_bytes()[:256]
    data[data.index(microcode) + 200] ^= 1
    (tmp_path / firmware_record.ELF).write_bytes(data)
    sample = api.seeded_inputs(api.read_manifest(built("conv")), 1)
    with pytest.raises(FormatError) as caught:
        qemu.run(tmp_path, firmware_record.read(directory), board, sample)
    assert str(caught.value) == (
        "firmware.elf: the firmware failed: bundle version 3: the microcode is damaged: its CRC-32 does not match "
        "(reason 21, detail 0)\n\nhint: build the firmware again"
    )


def test_a_model_without_partitions_links_no_kernel(tmp_path: Path):
    bundle = Bundle("empty", (), (), (), (), (Memory(0, "an arena"), Memory(0, "working memory")), (), (), ())
    board = BOARDS[0]
    linked = link(bundle, board, FirmwareOptions(), (), Toolchain.find(image.OBJECTS), tmp_path)
    sizes = size.measure(tmp_path / firmware_record.ELF, tmp_path / firmware_record.MAP)
    assert not [row for row in sizes.rows if row.module == "kernels"]
    assert stack.bound(tmp_path / firmware_record.ELF, tmp_path / firmware_record.MAP, linked.objects).gaps == ()


def test_an_image_has_the_devices_that_it_uses(built: Built, make: Make):
    """Without copies by DMA and fetches there is no timer, no DMA and no interrupt in the image, nor in its bound."""
    board = boards.load("an505")
    plain, copying, fetching_ = (
        firmware_record.read(make(name, board, options))
        for name, options in (
            ("two", FirmwareOptions()),
            ("two", FirmwareOptions(io_copy=IoCopy.DMA)),
            ("two_fetched", FirmwareOptions()),
        )
    )
    assert [call.function for call in plain.stack.interrupts] == []
    timers_and_dma = ["dtn_on_timer1", "dtn_on_dma0", "dtn_on_dma1"]
    assert [call.function for call in copying.stack.interrupts] == timers_and_dma
    assert [call.function for call in fetching_.stack.interrupts] == ["dtn_on_timer0", *timers_and_dma]
    assert plain.sizes.module("port").total < copying.sizes.module("port").total
    assert plain.stack.bytes < copying.stack.bytes


def test_weights_in_external_memory_are_counted_apart(built: Built, make: Make):
    board = BOARDS[0]
    inside, outside = (
        firmware_record.read(make("two", board, FirmwareOptions(weights=w))).sizes
        for w in (Weights.FLASH, Weights.EXTERNAL)
    )
    held = sum(len(d.partition.blocks[1].data) for d in image.bundle_of(built("two")).delegates)
    assert inside.external == 0
    assert held <= outside.external < held + 64
    assert 0 <= inside.image - outside.image - outside.external < 64


DAMAGE = {
    "version": ("dtn_bundle", 0, 1, "the bundle is of another version than this executor (reason 66, detail 0)"),
    "count": (
        "dtn_bundle",
        52,
        4,
        "the bundle's tables are damaged: their CRC-32 does not match (reason 67, detail 0)",
    ),
    "value": ("values", 4, 16, "the bundle's tables are damaged: their CRC-32 does not match (reason 67, detail 0)"),
    "size of a block": (
        "delegates",
        4,
        16,
        "the bundle's tables are damaged: their CRC-32 does not match (reason 67, detail 0)",
    ),
    "weights": (
        "dtn_bundle_delegate0_weights",
        9,
        128,
        "the weights are damaged: their CRC-32 does not match (reason 22, detail 0)",
    ),
    "memory": (
        "dtn_bundle_memories",
        0,
        8,
        "a block or buffer does not start at a multiple of its alignment (reason 2, detail 0)",
    ),
}
"""A symbol of the image, a byte of it, bits to turn over, and what the board says."""


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_image_is_refused_on_the_board(board: Board, damage: str, built: Built, make: Make, tmp_path: Path):
    name, at, bits, sentence = DAMAGE[damage]
    directory = make("conv", board)
    data = bytearray((directory / firmware_record.ELF).read_bytes())
    with (directory / firmware_record.ELF).open("rb") as file:
        elf = ELFFile(file)
        (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name(name)
        (place,) = elf.address_offsets(symbol["st_value"])
    data[place + at] ^= bits
    (tmp_path / firmware_record.ELF).write_bytes(data)
    sample = api.seeded_inputs(api.read_manifest(built("conv")), 1)
    with pytest.raises(FormatError) as caught:
        qemu.run(tmp_path, firmware_record.read(directory), board, sample)
    assert sentence in str(caught.value)
