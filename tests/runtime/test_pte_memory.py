"""Programs that would write where no plan lets them: refused by the reader and by the runner with the same words."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.board import programs
from tests.npu.ethosu import vela
from tests.npu.ethosu.networks import network
from tests.runtime.crafted_programs import Crafted, constant, listed, number, numbers, placed, state, truth, unplanned

from deuteron.errors import FormatError
from deuteron.flatbuffer import Buffer
from deuteron.native import LIBRARY_DIRECTORY
from deuteron.npu.ethosu import blob
from deuteron.npu.neutron import payload
from deuteron.npu.neutron.microcode.format import WORD_BYTES, Header
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.runtime import pte
from deuteron.runtime.operator_outputs import OUTPUTS, VIEW, written
from deuteron.runtime.program import TensorSpec
from deuteron.runtime.pte_writer import Call, Contents, Delegated, Ref, write

pytestmark = pytest.mark.slow

DAMAGED = "the file is damaged or truncated: build it again"
RUNNER = LIBRARY_DIRECTORY / "deuteron-runner"
ADD, CAT, SPLIT = "aten::add.out", "aten::cat.out", "aten::split_copy.Tensor_out"


def add(a: int, b: int, out: int, one: int = 0) -> tuple[object, ...]:
    """Adds two values; `one` is the factor of the second."""
    return ("call", ADD, a, b, one, out, out)


def sound() -> Crafted:
    """`y = x + c; z = y + x`, with views, moves and lists."""
    values = (
        number(1),
        placed(0),
        placed(16),
        placed(32),
        constant(),
        unplanned(),
        numbers(7),
        number(4),
        listed(1, 4),
    )
    calls = (add(1, 4, 2), ("call", VIEW, 2, 6, 5), add(5, 1, 3), ("call", CAT, 8, 9, 10, 10))
    return Crafted((*values, number(0), placed(48, 8)), calls, inputs=[1], outputs=[3, 10], arena=80)


def looped() -> Crafted:
    """A sound program with a jump, in which a value is what another instruction writes to."""
    values = (number(1), placed(0), placed(16), constant(), placed(0), truth(True))
    return Crafted(values, [("jump", 5, 2), add(1, 3, 2), add(2, 3, 4)], inputs=[1], outputs=[4])


def stateful() -> Crafted:
    """`y = x + a; a = y; b = a`: `a` and `b` last between runs."""
    values = (number(1), placed(0), state(16, "a"), placed(32), state(48, "inner.b"), truth(False))
    calls = (add(1, 2, 3), ("call", "aten::copy_", 2, 3, 5, 2), ("call", "aten::copy_", 4, 6, 5, 4))
    return Crafted((*values, state(16, "a")), calls, inputs=[1], outputs=[3])  # the last value is a view of the second


def shared(first: int, second: int, third: int) -> Crafted:
    """`y = x + a`, with x, y and the state `a` at offsets."""
    return Crafted((number(1), placed(first), state(second), placed(third)), [add(1, 2, 3)], inputs=[1], outputs=[3])


CASES: dict[str, tuple[Crafted, str]] = {
    "a state in an input": (shared(0, 8, 32), "values 1 and 2 share memory, and a state must have its own"),
    "an output in a state": (shared(0, 32, 40), "values 2 and 3 share memory, and a state must have its own"),
    "two states in one": (
        Crafted((number(1), placed(0), state(16), state(24), placed(48)), [add(1, 2, 4)], inputs=[1], outputs=[4]),
        "values 2 and 3 share memory, and a state must have its own",
    ),
    "a state behind a large tensor": (
        Crafted(
            (number(1), placed(0, 12), placed(16, 2), state(32), placed(48)),
            [add(1, 3, 4)],
            inputs=[1],
            outputs=[4],
        ),
        "values 1 and 3 share memory, and a state must have its own",
    ),
    "an operator": (
        Crafted((number(1), placed(0), constant()), [add(1, 1, 2)], inputs=[1], outputs=[1]),
        "instruction 0 (`aten::add.out`) writes value 2, which is a constant",
    ),
    "an operator that changes its argument": (
        Crafted((number(1), placed(0), constant()), [("call", "aten::copy_", 2, 1, 0, 2)], inputs=[1], outputs=[1]),
        "instruction 0 (`aten::copy_`) writes value 2, which is a constant",
    ),
    "the second of several outputs": (
        Crafted(
            (number(1), placed(0), placed(16), constant(), number(0)),
            [("call", "aten::max.dim_max", 1, 4, 4, 2, 3, 2)],
            inputs=[1],
            outputs=[2],
        ),
        "instruction 0 (`aten::max.dim_max`) writes value 3, which is a constant",
    ),
    "scratch memory": (
        Crafted(
            (number(1), placed(0), placed(16), constant()),
            [("call", "cortex_m::quantized_batch_matmul.out", 1, 0, 1, 0, 0, 0, 0, 3, 2, 2)],
            inputs=[1],
            outputs=[2],
        ),
        "instruction 0 (`cortex_m::quantized_batch_matmul.out`) writes value 3, which is a constant",
    ),
    "an output in a list": (
        Crafted(
            (number(2), placed(0), placed(16, 2), constant(), listed(2, 3), number(0)),
            [("call", SPLIT, 1, 0, 5, 4, 4)],
            inputs=[1],
            outputs=[2],
        ),
        "instruction 0 (`aten::split_copy.Tensor_out`) writes value 3, which is a constant",
    ),
    "after a move": (
        Crafted(
            (number(1), placed(0), constant(), placed(16), placed(32)),
            [add(1, 1, 4), ("move", 3, 4), ("move", 2, 3)],
            inputs=[1],
            outputs=[1],
        ),
        "instruction 0 (`aten::add.out`) writes value 2, which is a constant",
    ),
    "after a view": (
        Crafted(
            (number(1), placed(0), constant(), unplanned(), numbers(5), number(4)),
            [("call", VIEW, 2, 4, 3), add(1, 1, 3)],
            inputs=[1],
            outputs=[1],
        ),
        "instruction 1 (`aten::add.out`) writes value 2, which is a constant",
    ),
    "behind a jump": (
        Crafted(
            (number(1), placed(0), placed(16), constant()),
            [("jump", 0, 2), ("move", 3, 2), add(1, 1, 2)],
            inputs=[1],
            outputs=[1],
        ),
        "instruction 2 (`aten::add.out`) writes value 3, which is a constant",
    ),
    "an input": (
        Crafted((number(1), constant(), placed(0)), [add(1, 1, 2)], inputs=[1], outputs=[2]),
        "the caller writes value 1, which is a constant",
    ),
    "a delegate": (
        Crafted(
            (number(1), placed(0), placed(16), placed(32), constant()),
            [("delegate", 0, 1, 2, 3, 4)],
            inputs=[1],
            outputs=[1],
            delegates=[(payload.BACKEND_ID, programs.payload(programs.ADD, (0, 0)))],
        ),
        "instruction 0 (delegate `NeutronBackend`) writes value 4, which is a constant",
    ),
    "a delegate of another backend": (
        Crafted(
            (number(1), placed(0), constant()),
            [("delegate", 0, 2, 1)],
            inputs=[1],
            outputs=[1],
            delegates=[("OtherBackend", b"other")],
        ),
        "instruction 0 (delegate `OtherBackend`) writes value 2, which is a constant",
    ),
    "what is read": (
        Crafted((number(1), placed(0), placed(12)), [add(1, 1, 2)], inputs=[1], outputs=[2]),
        "instruction 0 (`aten::add.out`) writes value 2, which shares memory with value 1, which it reads",
    ),
    "what is read from a list": (
        Crafted(
            (number(0), placed(0), placed(32), listed(1, 2), placed(16, 8)),
            [("call", CAT, 3, 0, 4, 4)],
            inputs=[1, 2],
            outputs=[4],
        ),
        "instruction 0 (`aten::cat.out`) writes value 4, which shares memory with value 2, which it reads",
    ),
    "the input itself": (
        Crafted((number(1), placed(0)), [add(1, 1, 1)], inputs=[1], outputs=[1]),
        "instruction 0 (`aten::add.out`) writes value 1, which shares memory with value 1, which it reads",
    ),
    "two outputs": (
        Crafted(
            (number(1), placed(0), placed(16), placed(28), number(0)),
            [("call", "aten::max.dim_max", 1, 4, 4, 2, 3, 2)],
            inputs=[1],
            outputs=[2],
        ),
        "instruction 0 (`aten::max.dim_max`) writes values 2 and 3, which share memory",
    ),
    "what is still needed": (
        Crafted(
            (number(1), placed(0), placed(16), placed(24), placed(48)),
            [add(1, 1, 2), add(1, 1, 3), add(1, 2, 4)],
            inputs=[1],
            outputs=[4],
        ),
        "instruction 2 (`aten::add.out`) reads value 2, which instruction 1 (`aten::add.out`), writing value 3, "
        "overwrites before",
    ),
    "an output of the method": (
        Crafted(
            (number(1), placed(0), placed(16), placed(16, 3)), [add(1, 1, 2), add(1, 1, 3)], inputs=[1], outputs=[2]
        ),
        "the caller reads value 2, which instruction 1 (`aten::add.out`), writing value 3, overwrites before",
    ),
    "nothing": (
        Crafted((number(1), placed(0), unplanned(1 << 28)), [add(1, 1, 2)], inputs=[1], outputs=[1]),
        "an instruction uses value 2, which has no memory",
    ),
    "a view before it is one": (
        Crafted(
            (number(1), placed(0), unplanned(), numbers(4), number(4)),
            [add(1, 1, 2), ("call", VIEW, 1, 3, 2)],
            inputs=[1],
            outputs=[1],
        ),
        "an instruction uses value 2, which has no memory",
    ),
    "what is freed": (
        Crafted((number(1), placed(0), placed(16)), [("free", 1), add(1, 1, 2)], inputs=[1], outputs=[2]),
        "instruction 0 frees value 1, whose memory is planned",
    ),
    "an input that is freed": (
        Crafted((number(1), unplanned(), placed(16)), [("free", 1), add(1, 1, 2)], inputs=[1], outputs=[2]),
        "an instruction uses value 1, which has no memory",
    ),
    "what too many moves give": (
        Crafted(
            (number(1), *(placed(16 * i) for i in range(18))),
            [("move", i, 1) for i in range(2, 19)],
            inputs=[1],
            outputs=[1],
            arena=16 * 18,
        ),
        "moves and views give more than 16 tensors to value 1",
    ),
    "one list in all calls": (
        Crafted(
            (number(0), *(placed(16 * i) for i in range(200)), listed(*range(1, 201)), placed(3200, 800)),
            [("call", CAT, 201, 0, 202, 202)] * 200,
            inputs=[1],
            outputs=[202],
            arena=6400,
        ),
        "its instructions name values more than 64 times",
    ),
}


def run(program: Path, output: Path) -> subprocess.CompletedProcess[str]:
    """The runner on a file of the floats 0 to 3."""
    sample = output.parent / "x.bin"
    np.arange(4, dtype=np.float32).tofile(sample)
    command = (RUNNER, "--model", program, "--inputs", sample, "--output", output)
    return subprocess.run(command, capture_output=True, text=True, check=False)


def check_refused(data: bytes, message: str, tmp_path: Path) -> None:
    """Python's reader and the runner refuse a program for this reason."""
    path = tmp_path / "crafted.pte"
    path.write_bytes(data)
    with pytest.raises(FormatError) as caught:
        pte.read(data, "crafted.pte")
    assert str(caught.value) == f"crafted.pte: {message}\n\nhint: {DAMAGED}"
    done = run(path, tmp_path / "out")
    expected = f"error: cannot load program `{path}`: {message}\n\nhint: {DAMAGED}\n"
    assert (done.returncode, done.stderr) == (1, expected)


@pytest.mark.parametrize("name", CASES)
def test_what_no_plan_writes_is_refused(name: str, tmp_path: Path) -> None:
    program, message = CASES[name]
    check_refused(program.data(), message, tmp_path)


@pytest.mark.parametrize("make", [sound, looped, stateful])
def test_sound_programs_run(make: Callable[[], Crafted], tmp_path: Path) -> None:
    data = make().data()
    pte.read(data)
    path = tmp_path / "sound.pte"
    path.write_bytes(data)
    done = run(path, tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_states_with_their_initial_content() -> None:
    (method,) = pte.read(stateful().data()).methods
    floats = np.array([1, 2, 3, 4], np.float32).tobytes()
    found = [(index, value.name, value.spec, value.bytes) for index, value in method.state]
    spec = TensorSpec((4,), "float32", (0,))
    assert found == [(2, "a", spec, 16), (4, "inner.b", spec, 16)]
    assert all(value.constant is not None and value.constant.data == floats for _, value in method.state)


def test_an_initial_state_outside_its_segment_is_refused() -> None:
    data = bytearray(stateful().data())
    pte.read(bytes(data))
    offsets = Buffer(bytes(data), "test").root().tables(6)[0].scalars(1, "Q")
    at = bytes(data).index(np.array([len(offsets)], "<u4").tobytes() + np.array(offsets, "<u8").tobytes())
    data[at + 4 + 8 : at + 4 + 16] = (20).to_bytes(8, "little")
    with pytest.raises(FormatError) as caught:
        pte.read(bytes(data))
    assert caught.value.message == "a constant tensor ends at byte 36 of a segment with 32"
    views = Crafted((number(1), placed(0), state(16), state(16, buffer=2)), [add(1, 2, 1)], inputs=[1], outputs=[1])
    with pytest.raises(FormatError) as caught:
        pte.read(views.data())
    assert caught.value.message == "values 2 and 3 are one state with two initial values"
    group = Crafted((number(1), placed(0), state(16, group=1), placed(32)), [add(1, 2, 3)], inputs=[1], outputs=[3])
    with pytest.raises(FormatError) as caught:
        pte.read(group.data())
    assert caught.value.message == "mutable data: index 1 of 1"


def patched(data: bytes, segment: int, slot: int, value: int) -> bytes:
    """A program with another offset (slot 0) or size (slot 1) of a segment."""
    at = Buffer(data, "test").root().tables(4)[segment].place(slot)
    assert at is not None
    return data[:at] + value.to_bytes(8, "little") + data[at + 8 :]


def two_segments() -> bytes:
    """A program whose constants and whose payload each have a segment."""
    values = (number(1), placed(0), placed(16), constant(), placed(32), placed(48))
    part = payload.BACKEND_ID, programs.payload(programs.ADD, (0, 0))
    steps = [add(1, 3, 2), ("delegate", 0, 1, 2, 4, 5)]
    return Crafted(values, steps, inputs=[1], outputs=[4], delegates=[part]).data()


def test_segments_lie_apart_whatever_padding_there_is(tmp_path: Path) -> None:
    data = two_segments()
    spans = [(table.scalar(0, "Q"), table.scalar(1, "Q")) for table in Buffer(data, "test").root().tables(4)]
    assert len(spans) == 2
    base = int.from_bytes(data[24:32], "little")
    first, second = sorted(spans)
    pte.read(data + bytes(1 << 16))
    moved = patched(data, spans.index(second), 0, first[0] + 1) + bytes(1 << 16)
    end = base + first[0] + first[1]
    message = f"a segment starts at byte {base + first[0] + 1}, inside the segment that ends at byte {end}"
    check_refused(moved, message, tmp_path)


@pytest.mark.parametrize("base", [0, 64])
def test_segments_lie_behind_the_program(base: int, tmp_path: Path) -> None:
    data = two_segments()
    size = int.from_bytes(data[16:24], "little")
    moved = data[:24] + base.to_bytes(8, "little") + data[32:] + bytes(1 << 16)
    first = min(table.scalar(0, "Q") for table in Buffer(data, "test").root().tables(4))
    message = f"a segment starts at byte {base + first}, inside the program that ends at byte {size}"
    check_refused(moved, message, tmp_path)


UNREAD = """
import ctypes, sys
from pathlib import Path
import torch
from deuteron.npu import families
from deuteron.runtime import host

_, runtime = host._runtime()
ctypes.CDLL(str(families.ETHOSU.host()))
for path in sys.argv[2:]:
    data = Path(path).read_bytes()
    method = runtime.load_program(data).load_method("forward")
    sizes = [method.metadata.input_tensor_meta(i).sizes() for i in range(method.metadata.num_inputs())]
    inputs = [torch.arange(torch.Size(size).numel(), dtype=torch.int8).reshape(size) for size in sizes[:-1]]
    inputs.append(torch.tensor([int(byte) for byte in sys.argv[1].split(",")], dtype=torch.int8))
    print([output.tolist() for output in method.execute(inputs)], flush=True)
"""
"""Runs programs that no reader has checked; their last input are the bytes that they write to the payload."""


def unread(evil: bytes, *paths: Path) -> subprocess.CompletedProcess[str]:
    """Run programs that were not checked before ExecuTorch's runtime; each gives a line."""
    numbers = ",".join(str(byte - 256 if byte > 127 else byte) for byte in evil)
    command = (sys.executable, "-c", UNREAD, numbers, *paths)
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rewriting(
    data: bytes, backend: str, shapes: tuple[tuple[int, ...], ...], at: int, evil: bytes, folder: Path
) -> None:
    """Check that a program which writes over its payload at `at` gives what it does without that.

    Args:
        data: the payload of its only partition.
        backend: the id of its delegate.
        shapes: of inputs, then of one output for each of them.
        at: where in the payload it writes.
        evil: what.
        folder: for files.
    """
    tensors = {i: TensorSpec(shape, "int8", tuple(range(len(shape)))) for i, shape in enumerate(shapes)}
    source, target = len(shapes), len(shapes) + 1
    tensors |= {i: TensorSpec((len(evil),), "int8", (0,)) for i in (source, target)}
    inputs = [*range(len(shapes) // 2), source]
    outputs = range(len(shapes) // 2, len(shapes))
    copy = Call("aten::clone.out", (Ref(source), None, Ref(target), Ref(target)))
    whole = write(
        Contents(tensors, {target: bytes(len(evil))}, inputs, outputs, [copy, Delegated(data, (*range(source),))]),
        backend,
    )
    sound, path = folder / "sound.pte", folder / "program.pte"
    sound.write_bytes(whole)
    place = whole.index(data) + at
    size = int.from_bytes(whole[32:40], "little")
    path.write_bytes(whole[:24] + place.to_bytes(8, "little") + whole[32:])
    assert place + size <= len(whole)
    with pytest.raises(FormatError, match="a segment starts at byte"):
        pte.read(path.read_bytes())
    done = unread(evil, sound, path)
    assert done.returncode == 0, done.stderr
    expected, given = done.stdout.splitlines()
    assert given == expected


def test_checked_microcode_is_what_runs(tmp_path: Path) -> None:
    microcode = programs.ADD.microcode
    first = int.from_bytes(microcode[WORD_BYTES * Header.FIRST_COMMAND :][:WORD_BYTES], "little")
    output = first + WORD_BYTES * (3 + 2 * 3 + 1)  # of `add`: the offset of its third operand
    data, start = programs.payload(programs.ADD, (0, 0)), 16
    assert data[start : start + len(microcode)] == microcode
    shapes = ((1, 3, 5, 4),) * 4
    rewriting(data, payload.BACKEND_ID, shapes, start + output, b"\xf0\xff\xff\x7f", tmp_path)


def test_checked_maps_of_tensors_are_what_run(tmp_path: Path) -> None:
    data = programs.payload(programs.ADD, (0, 0))
    rewriting(data, payload.BACKEND_ID, ((1, 3, 5, 4),) * 4, 3 + 4, b"\xff\xff\xff\xff", tmp_path)


def test_checked_places_of_an_ethos_u_are_where_tensors_go(tmp_path: Path) -> None:
    data = vela.compiled(emit(network()), "ethos-u55-128", tmp_path)
    assert data is not None
    inputs = data.index(b"inputs".ljust(16, b"\0")) + 32
    shapes = (1, 12, 12, 8), (1, 12, 12, 16)
    assert [tensor.shape[-4:] for tensor in blob.parse(data, "test").inputs] == [shapes[0]]
    rewriting(data, blob.BACKEND_ID, shapes, inputs + 4 + 7 * 4, b"\xf0\xff\xff\x7f", tmp_path)


def test_operators_write_what_their_schemas_say() -> None:
    """The table is that of all operators of ExecuTorch's runtime, by PyTorch's schemas or ExecuTorch's file of them."""
    import re

    import executorch
    import executorch.kernels.quantized  # pyright: ignore[reportUnusedImport]
    import torch
    from executorch.runtime import Runtime

    from deuteron.frontend.cortex_m.custom_ops import library
    from deuteron.operators.custom_ops import BY_NAME

    library.load()
    found: dict[str, tuple[tuple[int, ...], int]] = {}
    for name in {*Runtime.get().operator_registry.operator_names, *BY_NAME}:
        space, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        try:
            schema = getattr(getattr(getattr(torch.ops, space), base), overload or "default")._schema
        except AttributeError:
            continue  # of numbers, or of ExecuTorch's runtime alone
        written_to = (i for i, each in enumerate(schema.arguments) if each.alias_info and each.alias_info.is_write)
        found[name] = (*written_to,), len(schema.arguments)
    text = (Path(executorch.__path__[0]) / "backends" / "cortex_m" / "ops" / "operators.yaml").read_text()
    for name, body in re.findall(r"func: (\S+?)\((.*)\) ->", text):
        arguments = [each for each in re.sub(r"\(a!\)", "!", body).split(", ") if each != "*"]
        changed = (i for i, each in enumerate(arguments) if "!" in each or each.endswith("scratch"))
        found[name] = (*changed,), len(arguments)
    assert len(found) > 230
    numbers = "executorch_prim::"  # return a number: no argument is a tensor
    wrong = {
        name: positions
        for name, (positions, count) in found.items()
        if written(name, count + 1) != positions and not name.startswith(numbers)
    }
    assert wrong == {}
    assert {name for name in OUTPUTS if name not in found} == {"executorch_prim::et_copy_index.tensor", VIEW}
