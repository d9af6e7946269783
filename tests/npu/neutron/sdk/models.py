"""TFLite files for the tests of the SDK."""

from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.tflite.emit import emit

PARALLEL = """graph parallel {
  input %x: i8[1,4,4,2] q(0.5:3)
  const %k: i8[2,8] q(0.5:0) = [1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8]
  const %z: i32[2] q(0.25:0) = [0,0]
  const %zz: i32[2] q(0.25:0) = [1,1]
  %m: i8[1,2,2,2] q(0.5:3) = max_pool2d(%x) window=(2,2) stride=(2,2) @[0]
  %n: i8[1,2,2,2] q(0.5:3) = max_pool2d(%x) window=(1,1) stride=(2,2) @[1]
  %s: i8[1,2,2,2] q(1.0:0) = add(%m, %n) @[2]
  %q: i8[1,2,2,2] q(0.5:3) = quantize(%s) @[3]
  %r: i8[1,8] q(0.5:3) = reshape(%q) @[4]
  %l: i8[1,2] q(2.0:0) = fully_connected(%r, %k, %z) @[5]
  %p: i8[1,4] q(2.0:0) = pad(%l) paddings=((0,0),(1,1)) value=5 @[6]
  %o: i8[1,2] q(2.0:0) = fully_connected(%r, %k, %zz) @[7]
  output %p
  output %o
}
"""


def parallel() -> bytes:
    """A file in which operators read the same tensors, which makes a mapping by inputs alone ambiguous."""
    return emit(parse_graph(PARALLEL))
