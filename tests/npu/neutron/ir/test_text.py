"""The text form: what it looks like, that it round-trips, and the parser's complaints."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.npu.neutron.ir.cases import CASES, case

from deuteron.errors import FormatError
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.ir.printer import OPS, format_graph, format_name
from deuteron.npu.neutron.ir.types import DType, Tensor, TensorType
from deuteron.tflite.quantization import Quant

TEXT = """\
graph keyword_spotting {
  input %x: i8[1,4,4,1] q(0.027946748:8)
  const %w: i8[2,3,3,1] q(0.5:0, 0.25:0; axis 0) = base64"AAECAwQFBgcICQoLDA0ODxAR"
  const %b: i32[2] q(0.013973374:0, 0.006986687:0; axis 0) = [100,-7]
  value %unused: f32[]
  %y: i8[1,2,2,2] q(0.125:-3) = conv2d(%x, %w, %b) stride=(2,2) pads=(1,0,1,0) clamp=(-3,127) @[0,1]
  %"a;b c": i8[1,2,2,2] q(0.125:-3) = unary(%y) function=relu6
  %s: i8[1,2,2,2] q(0.00390625:-128) = softmax(%"a;b c") beta=0.5 @[2]
  output %s
  output %y
}
"""


def test_text_form() -> None:
    graph = parse_graph(TEXT)
    assert format_graph(graph) == TEXT
    assert graph.inputs == ("x",)
    assert graph.outputs == ("s", "y")
    assert graph.ops[0] == ops.Conv2D(
        inputs=("x", "w", "b"),
        outputs=("y",),
        origin=(0, 1),
        stride=(2, 2),
        pads=ops.Pads(1, 0, 1, 0),
        clamp=ops.Clamp(-3, 127),
    )
    assert graph.type("w").q == Quant((0.5, 0.25), (0, 0), 0)
    assert graph.tensor("w").array().ravel().tolist() == list(range(18))


def test_comments_and_layout_mean_nothing() -> None:
    flat = " ".join(line.strip() for line in TEXT.splitlines())
    assert parse_graph(flat) == parse_graph("# first\n" + TEXT.replace("\n", "  # more %x {\n"))


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_every_operator_round_trips(kind: type[ops.Op]) -> None:
    for seed in range(12):
        graph, _ = case(kind, seed)
        assert parse_graph(format_graph(graph)) == graph


def test_spellings() -> None:
    assert sorted(OPS) == [
        "add",
        "average_pool2d",
        "batch_mat_mul",
        "concat",
        "conv2d",
        "depthwise_conv2d",
        "fully_connected",
        "leaky_relu",
        "lookup",
        "max_pool2d",
        "maximum",
        "mean",
        "minimum",
        "mirror_pad",
        "mul",
        "pad",
        "prelu",
        "quantize",
        "reduce_max",
        "reduce_min",
        "reshape",
        "resize_bilinear",
        "resize_nearest",
        "slice",
        "softmax",
        "sub",
        "sum",
        "transpose",
        "transpose_conv",
        "unary",
    ]


@given(st.text())
def test_any_name_round_trips(name: str) -> None:
    graph = Graph(name, (Tensor(name, TensorType((1,), DType.INT8)),), (name,), (name,), ())
    assert parse_graph(format_graph(graph)) == graph


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("aten_relu.default/x-1$", "%aten_relu.default/x-1$"),
        ("1.5e-7", "%1.5e-7"),
        ("12", "%12"),
        ("-1", '%"-1"'),
        ("a:b", '%"a:b"'),
        ('say "hi"\n', '%"say \\"hi\\"\\n"'),
        ("", '%""'),
    ],
)
def test_names(name: str, text: str) -> None:
    assert format_name(name) == text


@given(st.floats(width=32, min_value=0, exclude_min=True, allow_infinity=False), st.integers(-128, 127))
def test_any_scale_round_trips(scale: float, zero_point: int) -> None:
    kind = TensorType((2, 1), DType.INT8, Quant((scale,), (zero_point,)))
    graph = Graph("g", (Tensor("x", kind),), ("x",), ("x",), ())
    assert parse_graph(format_graph(graph)) == graph


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("size", [1, 16, 17])
def test_constants_round_trip(dtype: DType, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 2, size * dtype.itemsize).astype(np.uint8) * 0x41
    data = data.tobytes() if dtype is not DType.BOOL else bytes(data > 0)
    graph = Graph("g", (Tensor("c", TensorType((size,), dtype), data),), (), ("c",), ())
    assert parse_graph(format_graph(graph)) == graph


def test_float_constants_keep_every_bit() -> None:
    values = np.array([0.0, -0.0, 1e-45, 3.4e38, 0.1], "<f4")
    odd = np.array([np.nan, np.inf], "<f4")
    constants = tuple(
        Tensor(name, TensorType(array.shape, DType.FLOAT32), array.tobytes())
        for name, array in (("values", values), ("odd", odd))
    )
    graph = Graph("g", constants, (), (), ())
    assert parse_graph(format_graph(graph)) == graph


def test_the_order_of_tensors_does_not_count() -> None:
    graph = parse_graph(TEXT)
    turned = Graph(graph.name, graph.tensors[::-1], graph.inputs, graph.outputs, graph.ops)
    assert turned == graph
    assert hash(turned) == hash(graph)
    assert turned != Graph(
        graph.name, (*graph.tensors, Tensor("z", TensorType((), DType.INT8))), ("x",), ("s", "y"), ()
    )


ELEMENTS = "i8, u8, i16, i32, i64, f32, bool"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: expected `graph`, found the end of the text"),
        ("graph g {", "line 1, column 10: expected `input`, `const`, `value`, `output`, an operator or `}`, found "
         "the end of the text"),
        ("graph {", "line 1, column 7: expected the graph's name, found `{`"),
        ("graph g { } }", "line 1, column 13: expected the end of the text, found `}`"),
        ("graph g {\n  ?", "line 2, column 3: found `?`, which starts nothing"),
        ("graph g {\n  input x", "line 2, column 9: expected `%`, found `x`"),
        ("graph g { input %x i8", "line 1, column 20: expected `:`, found `i8`"),
        ("graph g { input %x: i9[1] }", f"line 1, column 21: expected an element type ({ELEMENTS}), found `i9`"),
        ("graph g { input %x: i8[1.5] }", "line 1, column 24: expected an integer, found `1.5`"),
        ("graph g { input %x: i8[a] }", "line 1, column 24: expected a number, found `a`"),
        ("graph g { input %x: i8[1 2] }", "line 1, column 26: expected `,`, found `2`"),
        ("graph g { input %x: i8[0] }", "line 1, column 21: shape [0] has a dimension below 1"),
        ("graph g { input %x: i8[1] q(-1:0) }", "line 1, column 28: scale -1.0 is not a positive finite float32 value"),
        ("graph g { input %x: i8[1] q(1e39:0) }",
         "line 1, column 28: scale inf is not a positive finite float32 value"),
        ("graph g { input %x: i8[2] q(0.5:0; axis 0) }",
         "line 1, column 21: 1 channel scales along axis 0 do not match shape [2]"),
        ("graph g { const %c: i8[2] = [1] }", "line 1, column 29: expected 2 elements, found 1"),
        ("graph g { const %c: i8[1] = [300] }",
         "line 1, column 29: Python integer 300 out of bounds for int8"),
        ('graph g { const %c: i8[1] = base64"AA" }',
         "line 1, column 35: expected base64 text in quotes, found something else in them"),
        ('graph g { const %c: i8[2] = base64"AA==" }',
         "line 1, column 29: constant `c` holds 1 bytes, its type needs 2"),
        ("graph g { %y: i8[1] = relu(%x) }",
         f"line 1, column 23: expected an operator ({', '.join(sorted(OPS))}), found `relu`"),
        ("graph g { %y: i8[1] = unary(%x) function=tan }",
         f"line 1, column 42: expected one of {', '.join(f.value for f in ops.Function)}, found `tan`"),
        ("graph g { %y: i8[1] = batch_mat_mul(%x, %z) adj_x=true }",
         "line 1, column 51: expected one of yes, no, found `true`"),
        ("graph g { %y: i8[1] = leaky_relu(%x) alpha=steep }",
         "line 1, column 44: expected a number, found `steep`"),
        ("graph g { %y: i8[1] = leaky_relu(%x) }",
         "line 1, column 23: expected attribute `alpha` of `leaky_relu`, found none"),
        ("graph g { %y: i8[1] = unary(%x) }",
         "line 1, column 23: expected attribute `function` of `unary`, found none"),
        ("graph g { %y: i8[1] = add(%x, %x) stride=(1,1) }",
         "line 1, column 35: expected one of the operator's further attributes (clamp), found `stride`"),
        ("graph g { %y: i8[1] = add(%x, %x) clamp=(1,1) clamp=(1,1) }",
         "line 1, column 47: expected one of the operator's further attributes (none), found `clamp`"),
        ("graph g { %y: i8[1] = add(%x, %x) clamp=(1) }", "line 1, column 43: expected `,`, found `)`"),
        ("graph g { input %x: i8[1] input %x: i8[1] }", "line 1, column 7: graph `g` has two tensors with one name"),
    ],
)  # fmt: skip
def test_complaints(text: str, message: str) -> None:
    with pytest.raises(FormatError) as error:
        parse_graph(text)
    assert str(error.value) == message


@given(st.integers(0, len(TEXT)), st.sampled_from(["", "%", "(", "]", "9", '"', "q", "é", "=", "\n", "-"]))
def test_damaged_text_gives_a_format_error_or_a_graph(at: int, insert: str) -> None:
    for damaged in (TEXT[:at], TEXT[:at] + insert + TEXT[at:], TEXT[:at] + insert + TEXT[at + 1 :]):
        try:
            graph = parse_graph(damaged)
        except FormatError:
            continue
        assert parse_graph(format_graph(graph)) == graph
