"""The compiler end to end: TFLite or IR in, the driver's results out, equal to the interpreter bit for bit."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version

import numpy as np
import numpy.typing as npt
import pytest
from tests import full
from tests.graphs import random_graph, random_inputs
from tests.npu.neutron.microcode.damaged_containers import randomly_damaged, words_of

from deuteron.errors import DeuteronError, FormatError, InternalError, OptionError, UnsupportedError
from deuteron.npu.neutron.convert import (
    VERSION_KEY,
    Conversion,
    ConvertOptions,
    Metadata,
    convert,
    convert_graph,
    metadata_of,
    source_ops,
    to_tflite,
)
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.interpret import run
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.kernels.catalogue import KERNELS
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.microcode.format import Header
from deuteron.npu.neutron.tflite import neutron_graph
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.npu.provenance import Fate
from deuteron.runtime.driver import Driver

Array = npt.NDArray[np.generic]

SMALL = """graph small {
  input %x: i8[1,1,4,4] q(0.5:3)
  const %w: i8[2,3,3,1] q(0.25:0) = base64"AQIDBAUGBwgJCgsMDQ4PEAEC"
  const %b: i32[2] q(0.125:0) = [100,-7]
  const %k: i8[8,2] q(0.5:0) = [1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8]
  const %z: i32[2] q(0.5:0) = [0,0]
  %t: i8[1,4,4,1] q(0.5:3) = transpose(%x) perm=(0,2,3,1) @[0]
  %p: i8[1,6,6,1] q(0.5:3) = pad(%t) paddings=((0,0),(1,1),(1,1),(0,0)) value=3 @[1]
  %c: i8[1,4,4,2] q(1.0:-5) = conv2d(%p, %w, %b) @[2]
  %r: i8[1,4,4,2] q(1.0:-5) = unary(%c) function=relu @[3]
  %m: i8[1,2,2,2] q(1.0:-5) = max_pool2d(%r) window=(2,2) stride=(2,2) @[4]
  %f: i8[1,8] q(1.0:-5) = reshape(%m) @[5]
  %kt: i8[2,8] q(0.5:0) = transpose(%k) perm=(1,0) @[6]
  %l: i8[1,2] q(2.0:0) = fully_connected(%f, %kt, %z) @[7]
  %pp: i8[1,4] q(2.0:0) = pad(%l) paddings=((0,0),(1,1)) value=-128 @[8]
  %y: i8[1,4] q(0.00390625:-128) = softmax(%pp) @[9]
  output %y
}
"""
NAMES = (
    "TRANSPOSE",
    "PADV2",
    "CONV_2D",
    "RELU",
    "MAX_POOL_2D",
    "RESHAPE",
    "TRANSPOSE",
    "FULLY_CONNECTED",
    "PADV2",
    "SOFTMAX",
)


def _convert(graph: Graph, options: ConvertOptions = ConvertOptions()) -> Conversion:
    count = 1 + max((index for op in graph.ops for index in op.origin), default=-1)
    return convert_graph(graph, tuple(f"OP{index}" for index in range(count)), options)


# The driver and the interpreter agree.

GRAPHS, CHUNK = 400, 100
MOST_MEMORY = 1 << 20


@pytest.mark.parametrize("driver", ["driver", "driver_ref"])
@pytest.mark.parametrize("first", full.first(range(0, GRAPHS, CHUNK), 1))
def test_the_driver_computes_what_the_interpreter_does(driver: str, first: int) -> None:
    library = Driver(driver)  # type: ignore[arg-type]
    for seed in range(first, first + CHUNK):
        graph = random_graph(seed)
        inputs = random_inputs(graph, seed)
        expected = run(graph, inputs)
        conversion = _convert(graph, ConvertOptions(verify_each=seed % 10 == 0, profiling=seed % 7 == 0))
        if conversion.container is None:
            continue
        decode(conversion.container)
        with library.load(conversion.container) as model:
            found = model.run([value.tobytes() for value in inputs])
        for name, data in zip(graph.outputs, found, strict=True):
            values = np.frombuffer(data, np.int8).reshape(graph.type(name).shape)
            np.testing.assert_array_equal(values, expected[name], f"seed {seed}, output `{name}`")


@pytest.mark.parametrize("first", full.first(range(0, GRAPHS, CHUNK), 1))
def test_compiler_and_interpreter_refuse_the_same_scales(first: int) -> None:
    library, refused = Driver("driver"), 0
    for seed in range(first, first + CHUNK):
        graph = random_graph(seed, wide=True)
        inputs = random_inputs(graph, seed)
        results: list[list[bytes] | None] = []
        for compute in (_interpreted, partial(_driven, library)):
            try:
                results.append(compute(graph, inputs))
            except UnsupportedError:
                results.append(None)
        assert results[0] == results[1], f"seed {seed}"
        refused += results[0] is None
    assert CHUNK / 10 < refused < 9 * CHUNK / 10


def _interpreted(graph: Graph, inputs: Sequence[Array]) -> list[bytes]:
    values = run(graph, inputs)
    return [values[name].tobytes() for name in graph.outputs]


def _driven(library: Driver, graph: Graph, inputs: Sequence[Array]) -> list[bytes]:
    conversion = _convert(graph)
    if conversion.container is None:
        return _interpreted(conversion.graph, inputs)
    return library.run(conversion.container, [value.tobytes() for value in inputs])


def test_random_graphs_reach_every_kernel() -> None:
    programs = [_convert(random_graph(seed)).program for seed in range(40)]
    assert {call.kernel for program in programs for call in program.calls} == set(KERNELS)


def test_decoder_and_driver_refuse_the_same_microcode() -> None:
    driver = Driver("driver_ref")
    rng = np.random.default_rng(11)
    accepted = 0
    for seed in range(8):
        container = _convert(random_graph(seed, 4)).container
        if container is None:
            continue
        for _ in range(15):
            damaged = randomly_damaged(container, rng)
            if words_of(damaged.microcode)[Header.SCRATCH_BYTES : Header.FIRST_COMMAND].max() > MOST_MEMORY:
                continue  # valid for all we know, but the driver would get that much memory
            verdicts: list[str | None] = []
            for check in (decode, lambda c: driver.load(c).close()):
                try:
                    check(damaged)
                    verdicts.append(None)
                except DeuteronError as error:
                    verdicts.append(error.message)
            assert (verdicts[0] is None) == (verdicts[1] is None), verdicts
            accepted += verdicts[0] is None
    assert accepted > 5


# A TFLite file through all of it.


def _small() -> bytes:
    return emit(parse_graph(SMALL))


def test_provenance_tells_what_became_of_each_operator() -> None:
    provenance = convert(_small(), "imxrt700").provenance
    assert [(k.kernel, k.ops) for k in provenance.kernels] == [
        ("conv2d_s8", (0, 1, 2, 3)),
        ("max_pool_s8", (4, 5)),
        ("fully_connected_s8", (7,)),
        ("fill_s8", (8,)),
        ("copy_s8", (8,)),
        ("softmax_s8", (9,)),
    ]
    assert [(op.op, op.fate, op.kernels) for op in provenance.ops] == [
        ("TRANSPOSE", Fate.FREE, (0,)),
        ("PADV2", Fate.KERNELS, (0,)),
        ("CONV_2D", Fate.KERNELS, (0,)),
        ("RELU", Fate.KERNELS, (0,)),
        ("MAX_POOL_2D", Fate.KERNELS, (1,)),
        ("RESHAPE", Fate.FREE, (1,)),
        ("TRANSPOSE", Fate.FOLDED, ()),
        ("FULLY_CONNECTED", Fate.KERNELS, (2,)),
        ("PADV2", Fate.KERNELS, (3, 4)),
        ("SOFTMAX", Fate.KERNELS, (5,)),
    ]


def test_the_converted_file_carries_container_and_metadata() -> None:
    source = _small()
    conversion = convert(source, "imxrt700")
    converted = to_tflite(source, conversion)
    container, buffers = neutron_graph.unwrap(converted)
    assert container == conversion.container
    assert buffers["deuteron.provenance"].startswith(
        b'{"kernels":[{"index":0,"kernel":"conv2d_s8","ops":[0,1,2,3],"stripe":null},{'
    )
    assert buffers["deuteron.provenance"].endswith(b',{"index":9,"op":"SOFTMAX","fate":"kernels","kernels":[5]}]}')
    assert buffers[VERSION_KEY] == version("deuteron").encode()
    known = Metadata(conversion.provenance, conversion.dataflow, conversion.plan.known)
    assert metadata_of(converted) == known


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "`deuteron.provenance` is not JSON: Expecting property name enclosed in double quotes"),
        (b'{"kernels": []}', "`deuteron.provenance` lacks the entry `ops`"),
        (
            b'{"kernels": [{"index": "0", "kernel": "copy_s8", "ops": [], "stripe": null}], "ops": []}',
            "`deuteron.provenance` cannot have '0' at `kernels[0].index`",
        ),
        (
            b'{"kernels": [], "ops": [{"index": 0, "op": "ADD", "fate": "lost", "kernels": []}]}',
            "`deuteron.provenance` cannot have 'lost' at `ops[0].fate`",
        ),
    ],
)
def test_damaged_metadata_is_named(text: bytes, message: str) -> None:
    source = _small()
    container, buffers = neutron_graph.unwrap(to_tflite(source, convert(source, "imxrt700")))
    with pytest.raises(FormatError) as error:
        metadata_of(neutron_graph.wrap(source, container, buffers | {"deuteron.provenance": text}))
    assert error.value.message.startswith(message)
    assert error.value.hint == (None if text == b"{" else "convert the model again")


def test_a_vendors_converter_says_nothing_of_the_program() -> None:
    source = _small()
    container, _ = neutron_graph.unwrap(to_tflite(source, convert(source, "imxrt700")))
    assert metadata_of(neutron_graph.wrap(source, container, {})) == Metadata()


def test_source_ops_name_their_tensors() -> None:
    ops = source_ops(_small())
    assert tuple(op.name for op in ops) == NAMES
    assert (ops[2].inputs, ops[2].outputs) == (("p", "w", "b"), ("c",))


def test_profiling_makes_room_for_records() -> None:
    conversion = convert(_small(), "imxrt700", ConvertOptions(profiling=True))
    assert conversion.container is not None
    assert decode(conversion.container).header.profile_bytes == 16 * 7


def test_a_model_that_computes_nothing_has_no_container() -> None:
    graph = parse_graph(
        """graph nothing {
          input %x: i8[2] q(0.5:-128)
          const %zero: i8[1] q(0.5:0) = [0]
          %a: i8[2] q(0.5:-128) = add(%zero, %x) @[0]
          %y: i8[2] q(0.5:-128) = concat(%a) axis=0 @[1]
          output %y
        }"""
    )
    source = emit(graph)
    conversion = convert(source, "imxrt700")
    assert conversion.container is None
    assert [op.fate for op in conversion.provenance.ops] == [Fate.FREE, Fate.FREE]
    assert source_ops(to_tflite(source, conversion)) == ()


def test_a_constant_output_is_computed_though_no_operator_is_there() -> None:
    graph = parse_graph(
        """graph constant {
          input %x: i8[3] q(0.5:0)
          const %c: i8[3] q(0.5:0) = [1,-2,3]
          output %c
        }"""
    )
    container = _convert(graph).container
    assert container is not None
    assert Driver().run(container, [bytes(3)]) == [bytes([1, 254, 3])]


@pytest.mark.parametrize(
    "body",
    [
        "%a: i8[3,2] q(0.5:0) = transpose(%x) perm=(1,0) @[0]\n%y: i8[2,3] q(0.5:0) = transpose(%a) perm=(1,0) @[1]",
        "%y: i8[2,3] q(0.5:0) = unary(%x) function=relu_n1_to_1 @[0]",
    ],
    ids=["transposes that cancel", "an activation that the quantization implies"],
)
def test_operators_that_undo_each_other_leave_a_copy(body: str) -> None:
    text = f"graph idle {{ input %x: i8[2,3] q(0.5:0)\n{body}\noutput %y }}".replace("q(0.5:0)", "q(0.0078125:0)")
    conversion = convert_graph(parse_graph(text), ("OP", "OP")[: body.count("@[")])
    assert [(k.kernel, k.ops) for k in conversion.provenance.kernels] == [("copy_s8", tuple(range(body.count("@["))))]
    assert conversion.container is not None
    (found,) = Driver().run(conversion.container, [bytes(range(6))])
    assert found == bytes(range(6))


def test_the_copy_of_an_input_has_a_name_of_its_own() -> None:
    graph = parse_graph(
        """graph names {
          input %x: i8[4] q(0.5:0)
          %x/output: i8[4] q(0.5:0) = unary(%x) function=abs @[0]
          %y: i8[4] q(0.5:0) = unary(%x/output) function=exp @[1]
          output %x
          output %x/output
          output %y
        }"""
    )
    inputs = [np.array([-3, -1, 0, 5], np.int8)]
    conversion = _convert(graph)
    assert conversion.container is not None
    found = Driver().run(conversion.container, [value.tobytes() for value in inputs])
    expected = run(graph, inputs)
    assert [np.frombuffer(data, np.int8).tolist() for data in found] == [expected[n].tolist() for n in graph.outputs]
    assert [k.ops for k in conversion.provenance.kernels] == [(0,), (1,), ()]


def test_equal_files_convert_to_equal_bytes() -> None:
    assert convert(_small(), "imxrt700").container == convert(_small(), "imxrt700").container


# Refusals.


def test_an_unknown_target() -> None:
    with pytest.raises(OptionError, match="unknown target `imxrt7000`"):
        convert(_small(), "imxrt7000")


def test_bytes_that_are_no_model() -> None:
    with pytest.raises(FormatError):
        convert(_small()[:100], "imxrt700")


def test_an_operator_on_constants_that_is_refused_is_named() -> None:
    graph = parse_graph(
        """graph degenerate {
          input %x: i8[1] q(0.5:0)
          const %c: i8[1] q(0.5:0) = [1]
          %k: i8[1] q(2.220446049250313e-16:0) = add(%c, %c) @[0]
          %n: i8[1] q(0.5:0) = quantize(%k) @[1]
          %y: i8[1] q(0.5:0) = add(%x, %n) @[2]
          output %y
        }"""
    )
    with pytest.raises(UnsupportedError) as caught:
        _convert(graph)
    assert (caught.value.where, caught.value.message) == (
        "op 0 Add, output `k`", "the factors from input to output steps are below 2^30; found 2.2518e+15",
    )  # fmt: skip


def test_a_graph_whose_ops_came_from_nowhere() -> None:
    graph = parse_graph(SMALL)
    orphans = replace(graph, ops=tuple(replace(op, origin=()) for op in graph.ops))
    with pytest.raises(InternalError, match="the passes lost the origin of the op that writes `t`"):
        convert_graph(orphans, NAMES)
