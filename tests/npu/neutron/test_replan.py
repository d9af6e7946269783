"""Partitions that are compiled again for other memories."""

import pytest

from deuteron.arch.memory import MemoryOptions
from deuteron.errors import UnsupportedError
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.replan import replanner
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.npu.program import ReplanRequest

CUT_OFF = """graph some {
  input %x: i8[1,4] q(0.5:0)
  %y: i8[1,4] q(0.5:0) = unary(%x) function=relu @[0]
  output %y
}
"""
NOTHING = """graph nothing {
  input %x: i8[2] q(0.5:-128)
  const %zero: i8[1] q(0.5:0) = [0]
  %a: i8[2] q(0.5:-128) = add(%zero, %x) @[0]
  %y: i8[2] q(0.5:-128) = concat(%a) axis=0 @[1]
  output %y
}
"""


def test_a_partition_of_which_nothing_is_left_is_named() -> None:
    tflites = tuple(emit(parse_graph(text)) for text in (CUT_OFF, NOTHING))
    request = ReplanRequest(tflites, "imxrt700", False, lambda _: (0,), lambda _, error: error)
    with pytest.raises(UnsupportedError) as error:
        replanner(request)(MemoryOptions())
    assert str(error.value) == (
        "partition 1 computes nothing when it is converted again: all its operators are optimised away\n\n"
        "hint: build the model again"
    )
