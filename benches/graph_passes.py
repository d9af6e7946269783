"""The effect of the compiler's passes: kernel calls and bytes moved, before and after, for each reference model.

Before: constant folding is the only pass, so each operator of the TFLite file becomes separate kernel calls. After: as
in `deuteron build`. Bytes moved are those of the calls' operands, each once. The last rows are partitions shaped like
ExecuTorch's, with transposes at their borders, parallel branches and slices. Counted, not timed.

make bench-graph-passes
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import Results, main, table

from deuteron import api
from deuteron.npu.neutron.convert import Conversion, ConvertOptions, convert, convert_graph
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.passes.pipeline import passes

TARGET = "imxrt700"
ALWAYS = "fold-constants"
OFF = ConvertOptions(excluded_passes=tuple(step.name for step in passes() if step.name != ALWAYS))

BORDERS = """graph transposes_at_the_borders {
  input %x: i8[1,8,16,16] q(0.05:3)
  const %w: i8[8,1,1,8] q(0.01:0) = base64"{weights}"
  const %b: i32[8] = [1,2,3,4,5,6,7,8]
  %n: i8[1,16,16,8] q(0.05:3) = transpose(%x) perm=(0,2,3,1) @[0]
  %c: i8[1,16,16,8] q(0.05:-4) = conv2d(%n, %w, %b) @[1]
  %t: i8[1,8,16,16] q(0.05:-4) = transpose(%c) perm=(0,3,1,2) @[2]
  %r: i8[1,8,16,16] q(0.05:-4) = unary(%t) function=relu @[3]
  %m: i8[1,16,16,8] q(0.05:-4) = transpose(%r) perm=(0,2,3,1) @[4]
  %d: i8[1,16,16,8] q(0.05:5) = conv2d(%m, %w, %b) @[5]
  %y: i8[1,8,16,16] q(0.05:5) = transpose(%d) perm=(0,3,1,2) @[6]
  output %y
}"""

BRANCHES = """graph joined_branches {
  input %x: i8[4,64] q(0.05:3)
  %a: i8[4,64] q(0.05:3) = unary(%x) function=relu @[0]
  %b: i8[4,64] q(0.05:3) = unary(%x) function=tanh @[1]
  %c: i8[8,64] q(0.05:3) = concat(%a, %b) axis=0 @[2]
  %d: i8[4,64] q(0.05:3) = slice(%c) begin=(0,0) @[3]
  %e: i8[4,64] q(0.05:3) = slice(%c) begin=(4,0) @[4]
  %y: i8[4,64] q(0.1:0) = add(%d, %e) @[5]
  output %y
}"""


@dataclass(frozen=True, slots=True)
class Row:
    """One partition, or all partitions of a model."""

    name: str
    operators: int
    calls_before: int
    calls_after: int
    bytes_before: int
    bytes_after: int


def moved(conversion: Conversion) -> int:
    """Bytes that the operands of all calls cover."""
    return sum(ref.nbytes for call in conversion.program.calls for ref in call.operands)


def row(name: str, pairs: list[tuple[Conversion, Conversion]]) -> Row:
    """The sums over partitions, each given as (before, after)."""
    return Row(
        name,
        sum(len(after.provenance.ops) for _, after in pairs),
        sum(len(before.program.calls) for before, _ in pairs),
        sum(len(after.program.calls) for _, after in pairs),
        sum(moved(before) for before, _ in pairs),
        sum(moved(after) for _, after in pairs),
    )


def models() -> Iterator[Row]:
    """The reference models."""
    for example in api.REFERENCES:
        print(f"building {example.name}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "out"
            manifest = api.build_model(example.name, output=output).manifest
            files = [(output / f"npu_{i}.tflite").read_bytes() for i in range(len(manifest.partitions))]
        yield row(example.name, [(convert(data, TARGET, OFF), convert(data, TARGET)) for data in files])


def shapes() -> Iterator[Row]:
    """Partitions shaped like ExecuTorch's."""
    weights = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs8PT4/QA=="
    for text in (BORDERS.replace("{weights}", weights), BRANCHES):
        graph = parse_graph(text)
        names = tuple(type(op).__name__ for op in graph.ops)
        yield row(graph.name.replace("_", " "), [(convert_graph(graph, names, OFF), convert_graph(graph, names))])


def results(_: argparse.Namespace) -> Results:
    """The reference models and the partitions."""
    rows = [*models(), *shapes()]
    columns = {"partition": "name", "operators": "operators", "calls before": "calls_before"}
    columns |= {"calls after": "calls_after", "bytes before": "bytes_before", "bytes after": "bytes_after"}
    columns["share"] = lambda r: f"{r.bytes_after / r.bytes_before:.2f}"
    return Results("counted", rows, [table(rows, columns)])


if __name__ == "__main__":
    sys.exit(main(results))
