"""Reads TFLite bytes to an `ir.Graph`; `operators/table.py` lists the operators."""

from collections.abc import Iterable
from typing import Literal

from deuteron.errors import FormatError, UnsupportedError, VerifyError, all_refused
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Op
from deuteron.npu.neutron.ir.types import DType, Tensor, TensorType
from deuteron.npu.neutron.ir.verify import verify
from deuteron.npu.neutron.microcode.format import MAX_TENSORS
from deuteron.npu.neutron.tflite.float_edges import find_edges
from deuteron.npu.neutron.tflite.operator_view import Names, Site
from deuteron.npu.neutron.tflite.operators.table import lowering_of
from deuteron.tflite.decode import decode
from deuteron.tflite.flat_model import HINT_MALFORMED, Buffer, FlatModel, FlatTensor

_DTYPES = {"INT8": DType.INT8, "INT32": DType.INT32}
"""Element types of tensors; `Site` rejects others."""


def read(data: Buffer) -> Graph:
    """Read the graph in a TFLite flatbuffer; tensors keep their names, the origin of each op is its TFLite index.

    Raises:
        FormatError: the bytes are damaged, truncated or contradict themselves.
        UnsupportedError: the model has an unsupported operator, type or shape.
    """
    return graph_of(decode(data))


def graph_of(model: FlatModel) -> Graph:
    """`read` for a decoded flatbuffer."""
    names = Names(model)
    constants: list[Tensor] = []
    edges = find_edges(model)
    inputs = _boundary(model, names, "input", edges.inputs)
    outputs = _boundary(model, names, "output", edges.outputs)
    inside = (index for index in range(len(model.operators)) if index not in edges.operators)
    ops = _lower_all(Site(model, names, index, constants) for index in inside)
    used = {*inputs, *outputs, *(name for op in ops for name in (*op.inputs, *op.outputs))}
    tensors = tuple(_tensor(t, name) for t, name in zip(model.tensors, names.of, strict=True) if name in used)
    graph = Graph(model.name, (*tensors, *constants), inputs, outputs, ops)
    try:
        verify(graph)
    except VerifyError as error:
        raise FormatError(
            f"the model contradicts itself: {error.message}", where=error.where, hint=HINT_MALFORMED
        ) from error
    return graph


def op_names(data: Buffer) -> tuple[str, ...]:
    """Return the name of each operator of a TFLite flatbuffer, supported or not; the code of custom ones."""
    return tuple(op.title for op in decode(data, partial=True).operators)


def _tensor(tensor: FlatTensor, name: str) -> Tensor:
    """Return the IR tensor; its type and data must agree."""
    try:
        return Tensor(name, TensorType(tensor.shape, _DTYPES[tensor.dtype], tensor.quant), tensor.data)
    except VerifyError as error:
        raise FormatError(error.message, where=f"tensor `{name}`", hint=HINT_MALFORMED) from error


def _boundary(
    model: FlatModel, names: Names, which: Literal["input", "output"], indices: tuple[int, ...]
) -> tuple[str, ...]:
    """Return the names of the graph's inputs or outputs, which must be few and INT8."""
    if len(indices) > MAX_TENSORS:
        raise UnsupportedError(
            f"{len(indices)} graph {which}s; at most {MAX_TENSORS} are possible", hint="split the partition"
        )
    listed = model.inputs if which == "input" else model.outputs
    for index in indices:
        if indices.count(index) > 1:
            edge = ", counting those behind float edges" if listed.count(index) < indices.count(index) else ""
            raise UnsupportedError(
                f"tensor `{names.of[index]}` is {indices.count(index)} graph {which}s{edge}; it can be one",
                hint=f"keep one of these {which}s",
            )
        if (dtype := model.tensors[index].dtype) != "INT8":
            problem = "float left in a partition: " if dtype.startswith("FLOAT") else ""
            other = "build for `imxrt700cm`, whose CPU takes uint8; or " if dtype == "UINT8" else ""
            raise UnsupportedError(
                f"{problem}graph {which} `{names.of[index]}` is {dtype}; INT8 is allowed",
                hint=f"{other}quantize the whole model to int8, inputs and outputs too; TensorFlow's converter has "
                "`inference_input_type` and `inference_output_type` for that",
            )
    return tuple(names.of[index] for index in indices)


def _lower_all(sites: Iterable[Site]) -> tuple[Op, ...]:
    """Return the IR ops of all operators.

    Raises:
        UnsupportedError: naming every unsupported operator, not only the first.
    """
    ops: list[Op] = []
    refused: list[UnsupportedError] = []
    for site in sites:
        try:
            ops.append(_lower(site))
        except UnsupportedError as error:
            refused.append(error)
    if refused:
        raise all_refused(refused)
    return tuple(ops)


def _lower(site: Site) -> Op:
    """Return the IR op of one TFLite operator, after the general checks."""
    op = site.op
    lowering = lowering_of(op)
    if lowering is None:
        raise site.unsupported(
            "the compiler for the Neutron does not support this operator",
            hint="keep it on the CPU, or express it through the operators that `deuteron ops` lists",
        )
    site.check_form(lowering.inputs)
    if op.kind and lowering.options and op.kind != lowering.options:
        raise site.malformed(f"options {op.kind} instead of {lowering.options}")
    site.output()  # report a float or unquantized output before its consequences
    return lowering.function(site)
