"""A loop in TOSA, which Vela compiles into branches of an Ethos-U85."""

import numpy as np
import tosa_serializer as ts
from tests.npu.ethosu.tosa_graphs import TosaGraph, Value, Writer

STEP, LIMIT = 3, 300


def loop() -> TosaGraph:
    """Adds STEP to each of twelve values of int8 as long as their sum is below LIMIT."""
    w, shape = Writer(np.random.default_rng(0)), (1, 12)
    attribute = ts.TosaSerializerAttribute()
    attribute.WhileLoopAttribute("condition", "body")
    result = w.graph.addIntermediate([*shape], ts.DType.INT8)
    w.graph.addInputTensor(ts.TosaSerializerTensor("x", [*shape], ts.DType.INT8, data=None))
    w.graph.addOperator(ts.Op.WHILE_LOOP, ["x"], [result.name], attribute)
    w.give(Value(result.name, shape))

    wide = _begin(w, "condition", shape)
    total = w.op("REDUCE_SUM", (wide.name,), (1, 1), "ReduceSum", 1, dtype=ts.DType.INT32)
    inputs = w.const(ts.DType.INT32, [[LIMIT]]), total.name
    is_below = w.op("GREATER", inputs, (1, 1), "Greater", dtype=ts.DType.BOOL)
    w.give(w.op("RESHAPE", (is_below.name, w.sizes([1])), (1,), "Reshape", dtype=ts.DType.BOOL))

    wide = _begin(w, "body", shape)
    step = w.const(ts.DType.INT32, np.full(shape, STEP))
    more = w.op("ADD", (wide.name, step), shape, "Add", dtype=ts.DType.INT32)
    w.give(w.cast(more, is_wide=True))
    return TosaGraph(bytes(w.graph.serialize()), shape, ("WHILE_LOOP", *w.names))


def _begin(w: Writer, name: str, shape: tuple[int, ...]) -> Value:
    """The only input of a new region, in int32."""
    w.graph.startRegion(name)
    w.graph.currRegion.addBasicBlock(name)
    w.graph.addInputTensor(ts.TosaSerializerTensor(f"{name}_x", [*shape], ts.DType.INT8, data=None))
    return w.cast(Value(f"{name}_x", shape), is_wide=False)
