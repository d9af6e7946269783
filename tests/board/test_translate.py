"""Programs made into bundles: every table of small ones, and what is said of those that firmware cannot run."""

import re
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from tests.board import programs
from tests.board.programs import ADD, DEQUANTIZE, QUANTIZE, SMALL, Maker, delegate, payload

from deuteron.board import operators
from deuteron.board.bundle import MEMORY_CONSTANT, Bundle, ElementType, Memory, Step, StepKind, Value
from deuteron.board.tensor_bytes import DTYPES
from deuteron.board.translate import translate
from deuteron.errors import CapacityError, DeuteronError, FormatError, InputError, UnsupportedError
from deuteron.npu import families
from deuteron.npu.neutron.microcode.container import Container
from deuteron.runtime import program as pte
from deuteron.runtime.program import Free, JumpFalse, Move, Program

NHWC = (0, 2, 3, 1)
OPERATORS_HINT = (
    "build for a target whose CPU has int8 operators, such as `imxrt700cm` and `ethos-u55-128cm`, or run the program "
    "with ExecuTorch's runtime on the device; of portable operators firmware has "
    "`quantized_decomposed::quantize_per_tensor`, `quantized_decomposed::dequantize_per_tensor`, `aten::copy_`, "
    "`aten::view_copy`, `aten::permute_copy`, `aten::squeeze_copy`, `aten::unsqueeze_copy`, `aten::expand_copy`, "
    "`aten::slice_copy`, `aten::select_copy`, `aten::cat`, `aten::stack`, `aten::index_select`, "
    "`aten::split_with_sizes_copy`, `aten::split_copy`, `aten::upsample_nearest2d`, "
    "`aten::add`, `aten::sub`, `aten::mul`, `aten::div`, `aten::remainder`, `aten::eq`, `aten::ne`, `aten::gt`, "
    "`aten::ge`, `aten::lt`, `aten::le`, `aten::clamp`, `aten::amax`, `aten::full`, `aten::convolution`, "
    "`aten::max_pool2d_with_indices`, `dim_order_ops::_clone_dim_order`, `dim_order_ops::_to_dim_order_copy`"
)
STATIC_HINT = "export the model with fixed shapes, and with its weights in the file"
DAMAGED_HINT = "the program is damaged: build the model again"


def bits(number: float) -> int:
    return int.from_bytes(struct.pack("<f", number), "little")


def test_a_program_becomes_tables() -> None:
    plain = (0, 1, 2, 3)
    assert translate(programs.edges(), name="edges") == Bundle(
        name="edges",
        values=(
            Value(0, 0, 128, ElementType.F32, (1, 4, 4, 2), plain, "input 0"),
            Value(0, 208, 32, ElementType.F32, (1, 8), (0, 1), "output 0"),
            Value(0, 176, 32, ElementType.S8, (2, 1, 4, 4), plain, "output 1"),
            Value(0, 128, 32, ElementType.S8, (1, 4, 4, 2), plain, f"the tensor written by {QUANTIZE}"),
            Value(0, 160, 8, ElementType.S8, (1, 8), (0, 1), "output 0 of partition 0"),
        ),
        steps=(
            Step(StepKind.OPERATOR, 0, (0,), (3,), (bits(0.5), 3, 0xFFFFFF80, 127), QUANTIZE, "", 0),
            Step(StepKind.DELEGATE, 0, (3,), (4, 2), (), "partition 0: 5 kernel calls", "", 1),
            Step(StepKind.OPERATOR, 1, (4,), (1,), (bits(0.25), 0xFFFFFFFB), DEQUANTIZE, "", 2),
        ),
        inputs=(0,),
        outputs=(1, 2),
        memories=(
            Memory(240, "memory 1 of the program's plan"),
            # 128 for the context, 5 pointers in 48, then the scratch memory of the container
            Memory(128 + 48 + scratch_bytes(SMALL), "working memory of the partitions"),
        ),
        operators=("dtn_op_quantize_per_tensor", "dtn_op_dequantize_per_tensor"),
        constants=(),
        delegates=(delegate(SMALL),),
        planned_bytes=240,
    )


def scratch_bytes(container: Container) -> int:
    return struct.unpack_from("<I", container.microcode, 36)[0]


def test_channels_first_is_transposed_round_a_partition() -> None:
    bundle = translate(programs.channels_first(), name="crossed")
    note = "inputs and outputs outside the plan, and scratch of single steps"
    assert bundle.memories[:2] == (Memory(0, "memory 1 of the program's plan"), Memory(8 * 64, note))
    values = {i: (v.memory, v.offset, v.bytes, v.dim_order, v.note) for i, v in enumerate(bundle.values)}
    assert values == {
        0: (1, 0, 60, (0, 1, 2, 3), "input 0"),
        1: (1, 64, 60, (0, 1, 2, 3), "input 1"),
        2: (1, 128, 60, (0, 1, 2, 3), "output 0"),
        3: (1, 192, 60, (0, 1, 2, 3), "output 1"),
        4: (1, 256, 60, NHWC, "input 0 of partition 0 in the NPU's order"),
        5: (1, 320, 60, NHWC, "input 1 of partition 0 in the NPU's order"),
        6: (1, 384, 60, NHWC, "output 0 of partition 0 in the NPU's order"),
        7: (1, 448, 60, NHWC, "output 1 of partition 0 in the NPU's order"),
    }
    transpose = StepKind.OPERATOR, 0
    assert bundle.operators == ("dtn_op_transpose",)
    assert bundle.steps == (
        Step(*transpose, (1,), (4,), (1, 4, 15), "input 0 of partition 0: channels last", "", 0),
        Step(*transpose, (0,), (5,), (1, 4, 15), "input 1 of partition 0: channels last", "", 0),
        Step(StepKind.DELEGATE, 0, (4, 5), (6, 7), (), "partition 0: 2 kernel calls", "", 0),
        Step(*transpose, (6,), (3,), (1, 15, 4), "output 0 of partition 0: channels first", "", 0),
        Step(*transpose, (7,), (2,), (1, 15, 4), "output 1 of partition 0: channels first", "", 0),
    )


@pytest.mark.parametrize(
    ("shape", "order"),
    [((1, 4, 3, 5), NHWC), ((1, 1, 12, 5), None), ((1, 60, 1, 1), None), ((15, 4), None), ((60,), None)],
    ids=["channels last", "one channel", "one position", "matrix", "vector"],
)
def test_nothing_is_transposed_that_is_in_order(shape: tuple[int, ...], order: tuple[int, ...] | None) -> None:
    make = Maker()
    tensors = [make.tensor(shape, "int8", order) for _ in range(4)]
    make.partition(payload(ADD, (1, 1), (1, 1)), *tensors)
    bundle = translate(make.program(tuple(tensors[:2]), tuple(tensors[2:])), name="plain")
    assert [step.kind for step in bundle.steps] == [StepKind.DELEGATE]


def test_partitions_share_the_memory_of_reordered_tensors() -> None:
    make = Maker()
    tensors = [make.tensor((1, 4, 3, 5)) for _ in range(6)]
    make.partition(payload(ADD, (1, 0)), *tensors[:4])
    make.partition(payload(ADD, (1, 1), (1, 0)), *tensors[2:])
    bundle = translate(make.program(tuple(tensors[:2]), tuple(tensors[4:])), name="shared")
    own = [value.offset for value in bundle.values if value.memory == 1]
    assert own == [0, 0, 64, 128]
    assert [memory.bytes for memory in bundle.memories[:2]] == [6 * 64, 3 * 64]


def test_the_working_memory_is_that_of_the_largest_partition() -> None:
    make = Maker()
    x, y, t = make.tensor((1, 4, 4, 2)), make.tensor((1, 8)), make.tensor((2, 1, 4, 4))
    a, b, s, m = (make.tensor((1, 4, 3, 5)) for _ in range(4))
    make.partition(payload(SMALL), x, y, t)
    make.partition(payload(ADD, (0, 0)), a, b, s, m)
    bundle = translate(make.program((x, a, b), (y, t, s, m)), name="both")
    # each context; pointers to 2 inputs, 2 outputs, scratch and profile; and to one input less
    assert bundle.memories[-1].bytes == 2 * 128 + max(48 + scratch_bytes(SMALL), 48 + scratch_bytes(ADD))
    assert scratch_bytes(SMALL) > scratch_bytes(ADD)


def test_a_constant_is_stored_once() -> None:
    make = Maker()
    data = bytes(60)
    a, b = make.constant((1, 3, 5, 4), data), make.constant((60,), data)
    s, m = make.tensor((1, 3, 5, 4)), make.tensor((1, 3, 5, 4))
    make.partition(payload(ADD, (0, 0)), a, b, s, m)
    bundle = translate(make.program((), (s, m)), name="constants")
    assert bundle.constants == (data,)
    assert [v.memory for v in bundle.values if v.note.startswith("input")] == [MEMORY_CONSTANT, MEMORY_CONSTANT]


def refusal(program: Program, kind: type[DeuteronError] = UnsupportedError) -> str:
    """The text of the error for a program."""
    with pytest.raises(DeuteronError) as caught:
        translate(program, name="refused")
    assert type(caught.value) is kind
    return str(caught.value)


def unary(operator: str, *, x: str = "float32", y: str = "float32", shape: tuple[int, ...] = (2, 3)) -> Program:
    make = Maker()
    a, b = make.tensor((2, 3), x), make.tensor(shape, y)
    make.call(operator, a, b, b)
    return make.program((a,), (b,))


def test_operators_that_firmware_lacks_are_named() -> None:
    text = "instruction 0 of `forward`: the operator `aten::sigmoid.out` is not in firmware"
    assert refusal(unary("aten::sigmoid.out")) == f"{text}\n\nhint: {OPERATORS_HINT}"


def test_all_that_firmware_lacks_is_named_at_once() -> None:
    make = Maker()
    x = make.tensor((2, 3), "float32")
    y = make.tensor((2, 3), "float32")
    make.call("aten::relu.out", x, y, y)
    make.call("aten::tanh.out", y, x, x)
    assert refusal(make.program((x,), (x,))) == (
        "2 operators cannot be compiled:\n"
        "  instruction 0 of `forward`: the operator `aten::relu.out` is not in firmware\n"
        "  instruction 1 of `forward`: the operator `aten::tanh.out` is not in firmware\n\n"
        f"hint: {OPERATORS_HINT}"
    )


def quantize(**numbers: object) -> Program:
    make = Maker()
    x, y = make.tensor((2, 3), "float32"), make.tensor((2, 3))
    make.quantize(x, y, **numbers)  # pyright: ignore[reportArgumentType]
    return make.program((x,), (y,))


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (quantize(zero=128), "has the zero point 128, outside int8's -128..127"),
        (quantize(low=5, high=4), "clamps to 5..4, which is not within int8's -128..127"),
        (quantize(high=255), "clamps to -128..255, which is not within int8's -128..127"),
        (quantize(scale=0.0), "has the scale 0.0, which is not a positive float32 number"),
        (quantize(scale=1e-60), "has the scale 1e-60, which is not a positive float32 number"),
        (quantize(scale=1e60), "has the scale 1e+60, which is not a positive float32 number"),
        (quantize(scale=float("nan")), "has the scale nan, which is not a positive float32 number"),
        (quantize(scale=1), "has arguments that this version of Deuteron does not know"),
        (unary(QUANTIZE), "has arguments that this version of Deuteron does not know"),
    ],
)
def test_numbers_of_quantization_are_checked(program: Program, why: str) -> None:
    text = f"instruction 0 of `forward`: the operator `{QUANTIZE}` {why}"
    assert refusal(program) == f"{text}\n\nhint: {OPERATORS_HINT}"


def test_types_of_quantization_are_checked() -> None:
    def message(x: str, y: str, *, back: bool = False) -> str:
        make = Maker()
        a, b = make.tensor((2, 3), x), make.tensor((2, 3), y)
        (make.dequantize if back else make.quantize)(a, b)
        text = refusal(make.program((a,), (b,))).partition("\n")[0]
        return text.partition(".out` ")[2]

    assert message("int8", "int8") == "reads int8 , firmware supports float32 only"
    assert message("float32", "int32") == "writes int32 , firmware supports uint8, int8, int16 only"
    assert message("int32", "float32", back=True) == "reads int32 , firmware supports uint8, int8, int16 only"
    assert message("int8", "int32", back=True) == "writes int32 , firmware supports float32 only"


def test_layouts_of_quantization_must_be_equal() -> None:
    make = Maker()
    x, y = make.tensor((1, 4, 3, 5), "float32", NHWC), make.tensor((1, 4, 3, 5))
    make.quantize(x, y)
    assert refusal(make.program((x,), (y,))).partition("\n")[0] == (
        f"instruction 0 of `forward`: the operator `{QUANTIZE}` reads a tensor of shape (1, 4, 3, 5) in order "
        "(0, 2, 3, 1) and writes one of shape (1, 4, 3, 5) in order (0, 1, 2, 3), which must be the same"
    )


def copies(**fields: object) -> Program:
    """A program that gives its input, of which some fields are changed."""
    make = Maker()
    x = make.tensor((4, 4))
    make.change(x, **fields)
    return make.program((x,), (x,))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (copies(dynamic=True), "input 0 has a dynamic shape"),
        (copies(external=True), "the content of input 0 is in another file"),
    ],
)
def test_tensors_must_be_fixed(program: Program, message: str) -> None:
    assert refusal(program) == f"{message}\n\nhint: {STATIC_HINT}"


def test_what_lies_between_steps_must_be_planned() -> None:
    make = Maker()
    x, q, y = make.tensor((4,), "float32"), make.unplanned((4,)), make.tensor((4,), "float32")
    make.quantize(x, q)
    make.dequantize(q, y)
    first = f"the tensor written by {QUANTIZE} has no place in the program's memory plan"
    second = f"the tensor read by {DEQUANTIZE} has no place in the program's memory plan"
    text = refusal(make.program((x,), (y,)))
    assert text == (
        "2 operators cannot be compiled:\n"
        f"  instruction 0 of `forward`: {first}\n  instruction 1 of `forward`: {second}\n\nhint: {STATIC_HINT}"
    )


def test_tensors_must_be_aligned() -> None:
    message = "input 0 starts at byte 8 of its memory, which is not a multiple of 16"
    hint = "plan the program's memory with ExecuTorch's default alignment"
    assert refusal(copies(place=pte.Place(1, 8))) == f"{message}\n\nhint: {hint}"


def test_other_types_are_refused() -> None:
    make = Maker()
    x = make.tensor((4, 4), "float16")
    assert refusal(make.program((x,), (x,))) == (
        "input 0 is a float16 tensor, firmware supports uint8, int8, int16, int32, int64, float32, float64, "
        "bool, uint32, uint64\n\nhint: export the model with tensors of one of these types"
    )


@pytest.mark.parametrize("number", [3, 0.5, True])
def test_an_input_that_is_a_number_is_part_of_the_program(number: pte.Value) -> None:
    make = Maker()
    x, n = make.tensor((4,)), make.value(number)
    bundle = translate(make.program((n, x), (x,)), name="p")
    assert [bundle.values[i].note for i in bundle.inputs] == ["input 1"]


@pytest.mark.parametrize(("value", "found"), [(None, "nothing"), ((1, 2), "a list"), ("x", "a text")])
def test_inputs_must_be_tensors(value: pte.Value, found: str) -> None:
    make = Maker()
    x = make.value(value)
    assert refusal(make.program((x,), ())) == (
        f"input 0 is {found}, not a tensor\n\nhint: export the model with tensors only"
    )


def test_outputs_must_be_tensors() -> None:
    make = Maker()
    assert refusal(make.program((), (make.value(3),))) == (
        "output 0 is a number, not a tensor\n\nhint: export the model with tensors only"
    )


def test_inputs_are_no_constants() -> None:
    make = Maker()
    x = make.constant((4,), bytes(4))
    assert refusal(make.program((x,), (x,))) == "input 0 is a constant\n\nhint: export the model without it"


def test_memories_have_a_largest_size() -> None:
    program = copies()
    method = replace(program.methods[0], arenas=(0, 2**32))
    assert refusal(Program((method,)), CapacityError) == (
        "memory 1 of the program's plan has 4294967296 bytes, the maximum is 4294967280\n\nhint: make the model "
        "smaller: firmware uses 32-bit addresses"
    )


def test_the_working_memory_has_a_largest_size() -> None:
    make = Maker()
    x, y, t = make.tensor((1, 4, 4, 2)), make.tensor((1, 8)), make.tensor((2, 1, 4, 4))
    microcode = bytearray(SMALL.microcode)
    struct.pack_into("<I", microcode, 36, 0xFFFFFFF0)  # scratch bytes
    struct.pack_into("<I", microcode, 20, 0)
    struct.pack_into("<I", microcode, 20, zlib.crc32(microcode))
    make.partition(payload(Container(bytes(microcode), SMALL.weights, SMALL.kernels)), x, y, t)
    assert refusal(make.program((x,), (y, t)), CapacityError) == (
        "working memory of the partitions has 4294967456 bytes, the maximum is 4294967280\n\nhint: make the model "
        "smaller: firmware uses 32-bit addresses"
    )


@pytest.mark.parametrize("instruction", [Move(0, 0), JumpFalse(0, 0), Free(0)], ids=["Move", "JumpFalse", "Free"])
def test_programs_must_be_straight(instruction: pte.Instruction) -> None:
    program = copies()
    method = replace(program.methods[0], chains=((instruction,),))
    name = type(instruction).__name__
    assert refusal(Program((method,))) == (
        f"instruction 0 of `forward`: firmware does not support the instruction `{name}`\n\nhint: write the model "
        "without branches on values, and export it with fixed shapes"
    )


def test_programs_must_be_of_one_list() -> None:
    method = replace(copies().methods[0], chains=((), ()))
    assert refusal(Program((method,))) == (
        "`forward` has 2 lists of instructions, firmware supports one\n\n"
        "hint: export the model with the ExecuTorch that Deuteron installs"
    )


def test_methods_are_found_by_name() -> None:
    with pytest.raises(InputError) as caught:
        translate(copies(), name="x", method="backward")
    assert str(caught.value) == "the program has no method `backward`\n\nhint: its methods are `forward`"


def partition(
    data: bytes,
    shape: tuple[int, ...] = (1, 4, 3, 5),
    dtype: str = "int8",
    order: tuple[int, ...] | None = None,
    count: int = 4,
    backend: str = "NeutronBackend",
) -> Program:
    """A program of one partition with the first tensor as given."""
    make = Maker()
    tensors = [make.tensor(shape, dtype, order), *(make.tensor((1, 4, 3, 5)) for _ in range(count - 1))]
    make.partition(data, *tensors)
    make.delegates[0] = replace(make.delegates[0], id=backend)
    return make.program(tuple(tensors[:2]), tuple(tensors[2:]))


def test_partitions_of_others_are_named() -> None:
    assert refusal(partition(b"", backend="XnnpackBackend")) == (
        "partition 0 is for the backend `XnnpackBackend`, firmware supports `NeutronBackend` and `EthosUBackend` "
        "only\n\nhint: build the program with `deuteron build`"
    )


def test_partitions_for_an_npu_without_firmware_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    without = replace(families.ETHOSU, firmware=None)
    monkeypatch.setattr(families, "FAMILIES", (families.NEUTRON, without))
    assert refusal(partition(b"", backend="EthosUBackend")) == (
        "partition 0 is for the backend `EthosUBackend`, and there is no firmware for its NPU\n\n"
        "hint: run it on this computer: `deuteron run` and `profile` without a board, `sim` for estimated times"
    )


def test_damaged_payloads_are_placed() -> None:
    assert refusal(partition(b"\1\1"), FormatError).startswith("partition 0: the payload has 2 bytes")
    data = bytearray(payload(ADD, (0, 0)))
    data[100] ^= 1
    text = refusal(partition(bytes(data)), FormatError)
    assert text.startswith("partition 0, microcode: checksum is 0x")


def test_arguments_of_partitions_are_counted() -> None:
    assert refusal(partition(payload(ADD, (0, 0)), count=5), FormatError) == (
        f"instruction 0 of `forward`: partition 0 has 4 arguments, the program passes 5\n\nhint: {DAMAGED_HINT}"
    )


def test_arguments_of_partitions_must_fit() -> None:
    place, blocks = "instruction 0 of `forward`", payload(ADD, (0, 0))
    hint = "\n\nhint: build the model again"
    assert refusal(partition(blocks, (1, 4, 3, 4))) == (
        f"{place}: input 0 of partition 0 is int8 of 48 bytes, the NPU needs int8 of 60{hint}"
    )
    assert refusal(partition(blocks, (1, 4, 3, 5), "uint8")) == (
        f"{place}: input 0 of partition 0 is uint8 of 60 bytes, the NPU needs int8 of 60{hint}"
    )
    contiguous = "\n\nhint: export the model with contiguous inputs"
    assert refusal(partition(blocks, order=NHWC)) == (
        f"{place}: input 0 of partition 0 has its dimensions in the order (0, 2, 3, 1) in memory; allowed is "
        f"contiguous{contiguous}"
    )
    assert refusal(partition(payload(ADD, (1, 0)), order=(0, 3, 2, 1))) == (
        f"{place}: input 0 of partition 0 has its dimensions in the order (0, 3, 2, 1) in memory; allowed is "
        f"contiguous or channels last{contiguous}"
    )


def test_outputs_must_not_overlap() -> None:
    make = Maker()
    x, y = make.tensor((8,), "float32"), make.tensor((8,))
    make.change(y, place=pte.Place(1, 16))
    make.quantize(x, y)
    assert refusal(make.program((x,), (y,)), FormatError) == (
        f"{QUANTIZE}: the plan lets output 0 overlap input 0\n\nhint: {DAMAGED_HINT}"
    )


def test_constants_must_not_be_written() -> None:
    make = Maker()
    x, y = make.tensor((8,), "float32"), make.constant((8,), bytes(8))
    make.quantize(x, y)
    assert refusal(make.program((x,), (y,)), FormatError) == (
        f"{QUANTIZE}: output 0 is an output but a constant\n\nhint: {DAMAGED_HINT}"
    )


def test_the_page_on_bundles_names_every_operator_and_type() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "bundles.md").read_text("utf-8")
    _, _, rest = page.partition("| origin | CPU operators |\n")
    table, _, _ = rest.partition("\n\n")
    assert set(re.findall(r"`(.+?)`", table)) == set(operators.supported())
    row = next(line for line in page.splitlines() if line.startswith("| inputs and outputs |"))
    named = set(re.findall(r"\b(?:u?int|float)\d+|bool\b", row))
    assert named == {DTYPES[kind].name for kind in ElementType}
