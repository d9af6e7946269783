"""A small program with every kind of region, its plan and its container."""

from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.operators.program import Program
from deuteron.planner import Plan, plan

TEXT = """graph small {
  input %x: i8[1,4,4,2] q(0.5:3)
  const %w: i8[2,3,3,2] q(0.25:0) = base64"AQIDBAUGBwgJCgsMDQ4PEAECAwQFBgcICQoLDA0ODxAEAwIB"
  const %b: i32[2] = [100,-7]
  %c: i8[1,4,4,2] q(1.0:-5) = conv2d(%x, %w, %b) pads=(1,1,1,1) @[0,1]
  %s: i8[1,4,4,2] q(1.0:-5) = add(%c, %c) clamp=(-5,100) @[2]
  %p: i8[1,2,2,2] q(1.0:-5) = average_pool2d(%s) window=(2,2) stride=(2,2) @[3]
  %r: i8[1,8] q(1.0:-5) = reshape(%p) @[4]
  %y: i8[1,8] q(0.00390625:-128) = softmax(%r) @[5]
  %t: i8[2,1,4,4] q(1.0:-5) = transpose(%s) perm=(3,0,1,2) @[6]
  output %y
  output %t
}
"""

PROGRAM: Program = select(parse_graph(TEXT))
PLAN: Plan = plan(PROGRAM)
CONTAINER: Container = encode(PROGRAM, PLAN)
