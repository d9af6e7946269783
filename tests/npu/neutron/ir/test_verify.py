"""Every rule of the verifier broken once, with the exact message."""

import pytest

from deuteron.errors import VerifyError
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.ir.types import DType, Tensor, TensorType
from deuteron.npu.neutron.ir.verify import GRAPH_RULES, OP_RULES, verify
from deuteron.tflite.quantization import Quant

HINT = "\n\nhint: the step that made this graph broke the rule; report it with this text"

GOOD = """
graph g {
  input %x: i8[1,4,4,2] q(0.5:3)
  const %w: i8[3,1,1,2] q(0.25:0, 0.5:0, 1.0:0; axis 0) = [1,2,3,4,5,6]
  const %b: i32[3] q(0.125:0, 0.25:0, 0.5:0; axis 0) = [0,0,0]
  %a: i8[1,4,4,2] q(0.5:3) = max_pool2d(%x) window=(3,3) stride=(1,1) pads=(1,1,1,1) @[0]
  %c: i8[1,4,4,3] q(0.1:-5) = conv2d(%a, %w, %b) @[1]
  %p: i8[1,5,4,3] q(0.1:-5) = pad(%c) paddings=((0,0),(1,0),(0,0),(0,0)) value=-5 @[2]
  %m: i8[1,3] q(0.2:0) = mean(%p) axes=(1,2) @[3]
  %s: i8[1,3] q(0.1:0) = quantize(%m) @[4]
  %y: i8[1,3] q(0.1:0) = add(%s, %m) @[5]
  output %y
}
"""


def message(graph: Graph) -> str:
    """Return the verifier's error without the hint that all its errors share."""
    with pytest.raises(VerifyError) as error:
        verify(graph)
    text = str(error.value)
    assert text.endswith(HINT)
    return text.removesuffix(HINT)


def test_a_good_graph_passes() -> None:
    verify(parse_graph(GOOD))


def test_the_error_names_the_op_and_prints_those_around_it() -> None:
    assert message(parse_graph(GOOD.replace("value=-5", "value=128"))) == (
        "graph `g`, op 2 (`p`): the value of a padding is within -128..127; found 128\n\n"
        "  0: %a: i8[1,4,4,2] q(0.5:3) = max_pool2d(%x) window=(3,3) stride=(1,1) pads=(1,1,1,1) @[0]\n"
        "  1: %c: i8[1,4,4,3] q(0.1:-5) = conv2d(%a, %w, %b) @[1]\n"
        "> 2: %p: i8[1,5,4,3] q(0.1:-5) = pad(%c) paddings=((0,0),(1,0),(0,0),(0,0)) value=128 @[2]\n"
        "  3: %m: i8[1,3] q(0.2:0) = mean(%p) axes=(1,2) @[3]\n"
        "  4: %s: i8[1,3] q(0.1:0) = quantize(%m) @[4]"
    )


ORDER = "an operator stands after those whose results it reads"
NAMED = "every name that inputs, outputs and operators use is a tensor of the graph"
ZERO = "zero points of i8 tensors are within -128..127, of i32 tensors 0"
SHAPE = "the result has the shape that the operator gives"
TYPE = "operands and results are i8 with quantization"
PADS = "pads are at least 0 and below the extent of the window"

GRAPH_FAULTS = [
    ("mean(%p)", "mean(%q)", f"{NAMED}; found no tensor `q`"),
    ("output %y", "output %z", f"{NAMED}; found no tensor `z`"),
    ("add(%s, %m)", "add(%s)", "an operator has as many operands as its class says, and one result; "
     "op 5 (Add) has 1 operands and 1 results"),
    ("quantize(%m)", "concat() axis=0", "an operator has as many operands as its class says, and one result; "
     "op 4 (Concat) has 0 operands and 1 results"),
    ("%y: i8", "%y2: i8[1,3] q(0.1:0), %y: i8", "an operator has as many operands as its class says, and one result; "
     "op 5 (Add) has 2 operands and 2 results"),
    ("input %x", "value %v: i8[1]\n  input %x",
     "every tensor is exactly one of: a graph input, a constant, the result of one operator; `v` is defined 0 times"),
    ("quantize(%m)", "quantize(%y)", f"{ORDER}; op 4 (`s`) reads `y`, which is not computed before it"),
    ("quantize(%m)", "quantize(%s)", f"{ORDER}; op 4 (`s`) reads `s`, which is not computed before it"),
    ("output %y", "", "the graph has outputs, and no tensor is an output twice; found none"),
    ("output %y", "output %y output %s output %y",
     "the graph has outputs, and no tensor is an output twice; `y` is repeated"),
    ("q(0.2:0)", "q(0.2:128)", f"{ZERO}; `m` has zero point 128"),
    ("q(0.125:0", "q(0.125:1", f"{ZERO}; `b` has zero point 1"),
]  # fmt: skip

OP_FAULTS = [
    ("%s: i8[1,3] q(0.1:0)", "%s: i8[1,3]", 4, "s", f"{TYPE}; `s` is i8 without quantization"),
    ("%s: i8", "%s: i16", 4, "s", f"{TYPE}; `s` is i16 with quantization"),
    ("%b: i32[3] q(0.125:0, 0.25:0, 0.5:0; axis 0)", "%b: i64[3]", 1, "c", "a bias is i32; `b` is i64"),
    ("stride=(1,1)", "stride=(1,0)", 0, "a",
     "windows, strides, dilations and multipliers are at least 1; stride is (1, 0)"),
    ("window=(3,3)", "window=(0,3)", 0, "a",
     "windows, strides, dilations and multipliers are at least 1; window is (0, 3)"),
    ("%m: i8[1,3]", "%m: i8[3,1]", 3, "m", f"{SHAPE}; declared [3, 1], the operator gives [1, 3]"),
    ("axes=(1,2)", "axes=(2,1)", 3, "m", f"{SHAPE}; axes [2, 1] are not sorted, distinct axes of [1, 5, 4, 3]"),
    ("%s: i8[1,3] q(0.1:0)", "%s: i8[1,3] q(0.1:0; axis 0)", 4, "s",
     "quantization is per tensor, but for weights and their biases; `s` has 1 scales along axis 0"),
    ("q(0.25:0, 0.5:0, 1.0:0; axis 0)", "q(0.25:0, 0.5:0; axis 3)", 1, "c",
     "weights quantized per channel have one scale per output channel; `w` has its scales along axis 3 instead of 0"),
    ("0.5:0, 1.0:0", "0.5:1, 1.0:0", 1, "c", "weights have zero point 0; `w` has 1"),
    ("0.125:0, 0.25:0", "0.125:0, 0.26:0", 1, "c",
     "the scale of a bias is input scale times weight scale; `b` has 0.25999999046325684 in channel 1 instead of 0.25"),
    ("%p: i8[1,5,4,3] q(0.1:-5)", "%p: i8[1,5,4,3] q(0.1:-6)", 2, "p",
     "an operator that moves values keeps their quantization; "
     "`c` has (0.10000000149011612:-5), `p` has (0.10000000149011612:-6)"),
    ("add(%s, %m)", "add(%s, %m) clamp=(3,2)", 5, "y", "a clamp is an interval within -128..127; found 3..2"),
    ("add(%s, %m)", "add(%s, %m) clamp=(-129,2)", 5, "y", "a clamp is an interval within -128..127; found -129..2"),
    ("pads=(1,1,1,1)", "pads=(-1,3,1,1)", 0, "a",
     f"{PADS}; found rows (-1, 3) and columns (1, 1) round a window of 3x3"),
    ("conv2d(%a, %w, %b)", "conv2d(%a, %w, %b) stride=(1,2) pads=(0,0,1,3)", 1, "c",
     f"{PADS}; found rows (0, 0) and columns (1, 3) round a window of 1x1"),
    ("value=-5", "value=-129", 2, "p", "the value of a padding is within -128..127; found -129"),
    ("max_pool2d(%x) window=(3,3) stride=(1,1) pads=(1,1,1,1)", "lookup(%x) entries=(1,2)", 0, "a",
     "a table has 256 entries within -128..127; found 2 entries"),
    ("max_pool2d(%x) window=(3,3) stride=(1,1) pads=(1,1,1,1)",
     "resize_bilinear(%x) align_corners=yes half_pixel_centers=yes", 0, "a",
     "a resize has aligned corners or half-pixel centres, not both; found both"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "text"), GRAPH_FAULTS)
def test_rules_of_graphs(old: str, new: str, text: str) -> None:
    assert GOOD.count(old) == 1
    assert message(parse_graph(GOOD.replace(old, new))) == f"graph `g`: {text}"


@pytest.mark.parametrize(("old", "new", "index", "output", "text"), OP_FAULTS)
def test_rules_of_operators(old: str, new: str, index: int, output: str, text: str) -> None:
    assert GOOD.count(old) == 1
    broken = GOOD.replace(old, new)
    found = message(parse_graph(broken))
    assert found.split("\n\n")[0] == f"graph `g`, op {index} (`{output}`): {text}"
    assert f"\n> {index}: %{output}: " in found or f"\n\n> {index}: %{output}: " in found


def test_a_tensor_defined_twice() -> None:
    kind = TensorType((1,), DType.INT8, Quant((1.0,), (0,)))
    copy = ops.Reshape(inputs=("x",), outputs=("y",))
    graph = Graph("g", (Tensor("x", kind), Tensor("y", kind)), ("x",), ("y",), (copy, copy))
    assert message(graph) == (
        "graph `g`: every tensor is exactly one of: a graph input, a constant, the result of one operator; "
        "`y` is defined 2 times"
    )


def test_every_rule_is_broken_above() -> None:
    sentences = {str(rule.__doc__).rstrip(".") for rule in (*GRAPH_RULES, *(rule for _, rule in OP_RULES))}
    broken = {text.split(";")[0] for text in [f[2] for f in GRAPH_FAULTS] + [f[4] for f in OP_FAULTS]}
    assert {s[0].lower() + s[1:] for s in sentences} == broken


def test_a_bias_without_quantization_counts_accumulator_steps() -> None:
    verify(parse_graph(GOOD.replace(" q(0.125:0, 0.25:0, 0.5:0; axis 0)", "")))


def test_a_bias_scale_may_be_a_float32_rounding_off() -> None:
    verify(parse_graph(GOOD.replace("0.125:0, 0.25:0", "0.12500001:0, 0.25:0")))


def test_per_tensor_weights_with_a_bias_per_channel() -> None:
    verify(
        parse_graph("""
            graph dense {
              input %x: i8[2,3] q(0.5:3)
              const %w: i8[2,3] q(0.25:0) = [1,2,3,4,5,6]
              const %b: i32[2] q(0.125:0, 0.125:0; axis 0) = [0,0]
              %y: i8[1,2,2] q(0.1:0) = fully_connected(%x, %w, %b)
              output %y
            }
        """)
    )
