"""The files of a bundle: the same bytes each time, valid C for any names, and data in its sections."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.board import programs
from tests.board.host import FIRMWARE, WARNINGS, command

from deuteron.board.bundle import Bundle, Memory
from deuteron.board.emit import Data, EmitOptions, Placement, comment, emit, string
from deuteron.board.translate import translate
from deuteron.errors import OptionError
from deuteron.runtime.program import Method, Program


def edges() -> Bundle:
    return translate(programs.edges(), name="edges")


def test_files_are_the_same_each_time() -> None:
    files = emit(edges())
    assert [*files] == ["dtn_bundle.c", "dtn_bundle.h", "dtn_bundle_data.S", "dtn_bundle_data.bin"]
    assert files == emit(edges())


def test_the_data_file_holds_the_blocks() -> None:
    blocks = programs.SMALL
    data = emit(edges())["dtn_bundle_data.bin"]
    assert data == b"".join((blocks.microcode, blocks.weights, blocks.kernels)) + bytes(-len(blocks.kernels) % 16)


def test_equal_blocks_are_stored_once() -> None:
    """Vela gives each partition of a TFLite file the constants of all."""
    bundle = edges()
    twice = replace(bundle, delegates=bundle.delegates * 2)
    assert emit(twice)["dtn_bundle_data.bin"] == emit(bundle)["dtn_bundle_data.bin"]
    text = emit(twice)["dtn_bundle.c"].decode()
    assert text.count("extern const uint8_t dtn_bundle_delegate") == 3
    assert text.count("    {dtn_bundle_delegate0_weights, ") == 2


def test_steps_are_readable() -> None:
    text = emit(edges())["dtn_bundle.c"].decode()
    assert (
        "static const dtn_step_t steps[] = {\n"
        "    /* 0: quantized_decomposed::quantize_per_tensor.out */\n"
        "    {DTN_STEP_OPERATOR, 0, 0, 1, 1, 4},\n"
        "    /* 1: partition 0: 5 kernel calls */\n"
        "    {DTN_STEP_DELEGATE, 0, 6, 1, 2, 0},\n"
        "    /* 2: quantized_decomposed::dequantize_per_tensor.out */\n"
        "    {DTN_STEP_OPERATOR, 1, 9, 1, 1, 2},\n"
        "};\n"
    ) in text
    assert "    {0, 176, 32, DTN_TYPE_S8}, /* 2: S8 2x1x4x4: output 1 */\n" in text
    assert "/* input 0: F32 1x4x4x2, 128 bytes */\n" in emit(edges())["dtn_bundle.h"].decode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x = a */ b", "x = a * / b"),
        ("x = '/*'", "x = '/ *'"),
        ("/*/", "/ * /"),
        ("one\ntwo\tthree", "one two three"),
        ("größe", "größe"),
    ],
)
def test_comments_stay_comments(text: str, shown: str) -> None:
    assert comment(text) == shown


def test_strings_stay_strings() -> None:
    assert string('a"b\\c\nd??/é') == r'"a\042b\134c\012d\077\077/\303\251"'


def data_source(options: EmitOptions) -> str:
    """The file with the large bytes."""
    return f"{options.symbol}_data.{'c' if options.data is Data.ARRAYS else 'S'}"


def compile_to_objects(bundle: Bundle, folder: Path, options: EmitOptions) -> Path:
    """The folder of the objects of both sources."""
    for name, data in emit(bundle, options).items():
        (folder / name).write_bytes(data)
    for source in (f"{options.symbol}.c", data_source(options)):
        words = ("-c", "-I", folder, "-I", FIRMWARE / "include", folder / source, "-o", folder / f"{source}.o")
        command("cc", *WARNINGS, *words)
    return folder


@pytest.mark.parametrize(
    ("weights", "arenas", "sections"),
    [
        (Placement.FLASH, Placement.SRAM, {"microcode": "flash", "weights": "flash", "kernels": "flash", "": "arena"}),
        (Placement.SRAM, Placement.SRAM, {"microcode": "flash", "weights": "sram", "kernels": "flash", "": "arena"}),
        (
            Placement.EXTERNAL,
            Placement.EXTERNAL,
            {"microcode": "flash", "weights": "ext", "kernels": "flash", "": "ext_arena"},
        ),
    ],
    ids=["flash", "sram", "external"],
)
@pytest.mark.parametrize("data", Data)
def test_bytes_lie_where_they_were_asked_for(
    data: Data, weights: Placement, arenas: Placement, sections: dict[str, str], tmp_path: Path
) -> None:
    options = EmitOptions("net_b", weights, arenas, data)
    folder = compile_to_objects(edges(), tmp_path, options)
    listed = command("readelf", "-WS", folder / f"{data_source(options)}.o")
    found = dict(re.findall(r"\] \.(dtn_\S+)\s+(?:PROGBITS|NOBITS)\s+\S+ \S+ (\S+)", listed))
    sizes = {name: int(size, 16) for name, size in found.items()}
    blocks = programs.SMALL
    assert sizes == {
        f"dtn_{sections['microcode']}.net_b_delegate0_microcode": len(blocks.microcode),
        f"dtn_{sections['weights']}.net_b_delegate0_weights": len(blocks.weights),
        f"dtn_{sections['kernels']}.net_b_delegate0_kernels": len(blocks.kernels),
        f"dtn_{sections['']}.net_b_memory0": edges().memories[0].bytes,
        f"dtn_{sections['']}.net_b_memory1": edges().memories[1].bytes,
    }


def test_arrays_are_plain_c99(tmp_path: Path) -> None:
    options = EmitOptions(data=Data.ARRAYS)
    memories = (Memory(0, "an arena"), Memory(64, "working memory"))
    files = emit(Bundle("plain", (), (), (), (), memories, (), (b"", b"abc"), ()), options)
    assert [*files] == ["dtn_bundle.c", "dtn_bundle.h", "dtn_bundle_data.c"]
    (tmp_path / "data.c").write_bytes(files["dtn_bundle_data.c"])
    compiled = tmp_path / "data.o"
    command("cc", *WARNINGS, "-U__GNUC__", "-c", tmp_path / "data.c", "-o", compiled)
    assert ".dtn_" not in command("readelf", "-WS", compiled)
    names = set(command("nm", "--format=just-symbols", compiled).split())
    assert {"dtn_bundle_constant1", "dtn_bundle_memory1"} <= names


def test_an_empty_constant_has_no_bytes_and_no_warning(tmp_path: Path) -> None:
    memories = (Memory(0, "an arena"), Memory(0, "working memory"))
    bundle = Bundle("empty", (), (), (), (), memories, (), (b"", b"abc"), ())
    for name, data in emit(bundle).items():
        (tmp_path / name).write_bytes(data)
    assembled = tmp_path / "data.o"
    command("cc", "-Wa,--fatal-warnings", "-c", "-I", tmp_path, tmp_path / "dtn_bundle_data.S", "-o", assembled)
    sizes = re.findall(r"\.dtn_flash\S+\s+PROGBITS\s+\S+ \S+ (\S+)", command("readelf", "-WS", assembled))
    assert [int(size, 16) for size in sizes] == [0, 3]


def test_bundles_of_two_programs_are_linked_together(tmp_path: Path) -> None:
    other = translate(programs.two_partitions(), name="two")
    for bundle, symbol in ((edges(), "first"), (other, "second")):
        compile_to_objects(bundle, tmp_path, EmitOptions(symbol))
    command("cc", "-r", "-nostdlib", *tmp_path.glob("*.o"), "-o", tmp_path / "both.o")
    symbols = set(command("nm", "-g", "--format=just-symbols", tmp_path / "both.o").split())
    assert {"first", "first_memories", "second", "second_memories"} <= symbols


@pytest.mark.parametrize("symbol", ["", "1st", "a-b", "größe", "a b", "x;", "int", "while", "class", "main"])
def test_names_that_are_none_in_c_are_refused(symbol: str) -> None:
    with pytest.raises(OptionError) as caught:
        EmitOptions(symbol)
    assert str(caught.value) == (
        f"`{symbol}` cannot be the C name of a bundle\n\nhint: use letters, digits and underscores, no leading digit, "
        "and no keyword of C or C++"
    )


@pytest.mark.parametrize(
    ("symbol", "owner"),
    [
        ("neutronKernels", "firmware"),
        ("NeutronError", "firmware"),
        ("dtn_executor_init", "firmware"),
        ("dtn_bundle_t", "firmware"),
        ("DTN_MEMORY_CONSTANT", "firmware"),
        ("memcpy", "C"),
    ],
)
def test_names_of_the_library_are_refused(symbol: str, owner: str) -> None:
    with pytest.raises(OptionError) as caught:
        EmitOptions(symbol)
    assert str(caught.value) == (
        f"`{symbol}` cannot be the C name of a bundle: the {owner} library may define it\n\n"
        "hint: choose a name that does not start with `dtn_` or `neutron`; `dtn_bundle` is the default"
    )


def test_memories_in_flash_are_refused() -> None:
    with pytest.raises(OptionError) as caught:
        EmitOptions(arenas=Placement.FLASH)
    assert str(caught.value) == (
        "arenas cannot be in flash: programs write to them\n\nhint: choose `sram`, `external` or `tcm`"
    )


def test_weights_in_tightly_coupled_memory_are_refused() -> None:
    with pytest.raises(OptionError) as caught:
        EmitOptions(weights=Placement.TCM)
    assert str(caught.value) == (
        "weights cannot be in tightly coupled memory: nothing copies them there\n\n"
        "hint: choose `flash`, `sram` or `external`"
    )


def test_memories_that_an_npu_does_not_reach_are_refused() -> None:
    options = EmitOptions(arenas=Placement.TCM)
    with pytest.raises(OptionError) as caught:
        emit(edges(), options)
    assert str(caught.value) == (
        "`edges` has partitions for an NPU, which cannot access the core's tightly coupled memory\n\n"
        "hint: leave out `--arenas tcm`, or build the model for the CPU alone"
    )
    on_cpu = Bundle("plain", (), (), (), (), (Memory(64, "an arena"),), (), (), ())
    assert ".dtn_tcm_arena.dtn_bundle_memory0" in emit(on_cpu, options)["dtn_bundle_data.S"].decode()


def test_the_header_says_how_large_memories_of_ones_own_are() -> None:
    bundle = edges()
    text = emit(bundle, EmitOptions(symbol="words"))["words.h"].decode()
    sizes = [f"#define WORDS_MEMORY{i}_BYTES {memory.bytes}\n" for i, memory in enumerate(bundle.memories)]
    contexts = f"#define WORDS_CONTEXTS_BYTES ({len(bundle.delegates)} * DTN_CONTEXT_BYTES)\n"
    assert "".join((*sizes, contexts)) in text


def test_the_header_says_what_integers_stand_for() -> None:
    make = programs.Maker()
    x = make.tensor((1, 4, 3, 5), "int8", (0, 2, 3, 1))
    y = make.tensor((4, 15), "int8", (1, 0))
    program = make.program((x,), (y,))
    numbers = {"input0_scale": 0.02528556808829, "input0_zp": -35, "output0_scale": 1.0}
    methods = [
        Method(name, (number,), (), (0,), operators=(), delegates=(), chains=((),), arenas=(0,))
        for name, number in numbers.items()
    ]
    bundle = translate(Program((*program.methods, *methods)), name="int8")
    assert (
        "/* input 0: S8 1x4x3x5, channels last, 60 bytes */\n"
        "#define DTN_BUNDLE_INPUT0_SCALE 2.528556809e-02F\n"
        "#define DTN_BUNDLE_INPUT0_ZERO_POINT (-35)\n"
        "/* output 0: S8 4x15, dimensions in order (1, 0), 60 bytes */\n"
        "\n"
        "extern const dtn_bundle_t dtn_bundle;\n"
    ) in emit(bundle)["dtn_bundle.h"].decode()
