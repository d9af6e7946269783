"""Lists the operators that run on the CPU and checks that ExecuTorch's runtime has kernels for them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx

from deuteron.arch import targets
from deuteron.arch.cores import Work
from deuteron.arch.targets import Arch, CpuOperators
from deuteron.builds.manifest import CpuOp, Node
from deuteron.errors import InternalError, UnsupportedError, all_refused, counted
from deuteron.frontend.nodes import name_of
from deuteron.frontend.operators import base_name, is_delegate, is_qdq, operator_name
from deuteron.frontend.source_lines import source_of
from deuteron.frontend.unsupported_hints import REWRITES
from deuteron.native import CORTEX_M, load_cortex_m, stale
from deuteron.npu.neutron.kernels import event_names

_HINT = "write the model with operators that the NPU or ExecuTorch's portable and quantized kernels have"
_QUANTIZES = Work.QUANTIZE, "quantizes what integer operators read"
_DEQUANTIZES = Work.DEQUANTIZE, "turns integers into float for those who read them so"
_COPIES = Work.TRANSPOSE, "copies an image into the order of memory that its reader takes"
_SCALES = "brings values to the scale that their reader has"
_ADDED = {
    "quantize_per_tensor": _QUANTIZES,
    "quantize_per_channel": _QUANTIZES,
    "dequantize_per_tensor": _DEQUANTIZES,
    "dequantize_per_channel": _DEQUANTIZES,
    "_clone_dim_order": _COPIES,
    "_to_dim_order_copy": _COPIES,
    "transpose": _COPIES,
    "quantized_activation": (Work.TABLE, _SCALES),
    "interpolate_s16": (Work.INT16_TABLE, _SCALES),
    **dict.fromkeys(
        ("requantize_s16", "requantize_s8"), (Work.REQUANTIZE, "brings values to the dtype that their reader takes")
    ),
    "pad": (Work.MOVE, "pads an image for the operator that reads it"),
}
"""Operators that lowering adds: kind of work and reason."""

_OTHER = Work.UNKNOWN, "was added when the model was lowered for the CPU"
_MISSING_OUT = re.compile(r"[\w.]+::[\w.]+")

_MUCH = 0.1
"""The share of the multiply-accumulates on the CPU that causes a warning."""

_LISTED = 4
"""The number of operators that a warning names."""

_KEY = "deuteron_cpu_op"
"""Key of a node's metadata: its index among the CPU operators. Emitted nodes keep it."""

_MOST_DIMENSIONS = 4
"""Most dimensions of the input of a convolution that ExecuTorch's kernels compute."""

_VIEW = "executorch_prim::et_view"
"""Operator of views without planned memory, which the graph does not contain."""


def cpu_ops(graph: fx.Graph, nodes: Iterable[Node] = ()) -> tuple[CpuOp, ...]:
    """List the operators of a lowered edge graph outside of delegates, and mark each for `with_instructions`.

    `nodes` are the model's nodes before lowering.
    """
    reasons = {node.name: node.why for node in nodes}
    listed: list[CpuOp] = []
    for node in _called(graph):
        node.meta[_KEY] = len(listed)
        name, source, computes = operator_name(node.target), source_of(node), name_of(node)
        if base_name(node.target) == "convolution" and node.all_input_nodes[0].meta["val"].dim() > _MOST_DIMENSIONS:
            raise UnsupportedError(
                f"no kernel computes a `{name}` over three dimensions{f', at `{source.code}`' if source else ''}",
                where=str(source) if source else None,
                hint="write it as layers over two dimensions of each slice, and sums of these",
            )
        added = is_qdq(node) or computes not in reasons
        work, why = _ADDED.get(base_name(node.target), _OTHER) if added else (Work.NOTHING, reasons[computes])
        sources = (source,) if source else ()
        listed.append(CpuOp(name, node.name, sources, "" if added else computes, why, work, _results(node)))
    return tuple(listed)


def with_instructions(ops: Sequence[CpuOp], graph: fx.Graph, plan: Any) -> tuple[CpuOp, ...]:
    """Add to each operator the numbers of the instructions that call it.

    Args:
        ops: the result of `cpu_ops`.
        graph: the graph that the plan was emitted from.
        plan: ExecuTorch's execution plan.

    Raises:
        InternalError: the calls of the plan differ from those of the graph.
    """
    calls = [(number, name) for number, name in _calls(plan) if name != _VIEW]
    nodes = [*_called(graph)]
    if [name for _, name in calls] != [operator_name(node.target).partition(".")[0] for node in nodes]:
        raise InternalError("the program does not call the operators of its graph one after the other")
    numbers: dict[int, list[int]] = {}
    for (number, _), node in zip(calls, nodes, strict=True):
        if _KEY in node.meta:
            numbers.setdefault(node.meta[_KEY], []).append(number)
    return tuple(replace(op, instructions=tuple(numbers.get(i, ()))) for i, op in enumerate(ops))


def _called(graph: fx.Graph) -> Iterator[fx.Node]:
    """Yield the calls of registered operators: no Python functions, no delegates."""
    for node in graph.nodes:
        name = operator_name(node.target)
        if node.op == "call_function" and "::" in name and not is_delegate(node):
            yield node


def _calls(plan: Any) -> Iterator[tuple[int, str]]:
    """The number of each instruction that calls an operator, and the operator's name without overload."""
    for number, instruction in enumerate(plan.chains[0].instructions):
        if hasattr(instruction.instr_args, "op_index"):
            yield number, plan.operators[instruction.instr_args.op_index].name


def _results(node: fx.Node) -> int:
    value: object = node.meta["val"]
    return value.numel() if isinstance(value, Tensor) else 0


def much_in_float(arch: Arch, nodes: Sequence[Node]) -> Iterator[str]:
    """Warn if a large share of an NPU model runs in float on the CPU although the user did not ask for it."""
    total = sum(node.macs for node in nodes)
    left = [node for node in nodes if node.macs and node.partition is None and not node.is_kept]
    share = sum(node.macs for node in left) / max(total, 1)
    if arch.npu is None or arch.cpu.operators is CpuOperators.CORTEX_M or share < _MUCH:
        return
    left.sort(key=lambda node: node.macs, reverse=True)
    places = Counter(f"`{node.op}`{f' at {node.source[0].short}' if node.source else ''}" for node in left)
    listed = [f"{place} x{count}" if count > 1 else place for place, count in places.items()]
    others = f" and {counted(len(listed) - _LISTED, 'other')}" if len(listed) > _LISTED else ""
    sibling = targets.sibling(arch, CpuOperators.CORTEX_M)
    hint = f"; the CPU of `{sibling.name}` computes in int8 what the NPU leaves" if sibling else ""
    yield (
        f"{share:.0%} of the multiply-accumulates stay on the CPU in float: {', '.join(listed[:_LISTED])}{others}; "
        f"`deuteron explain` says why the NPU leaves each{hint}"
    )


def need_runnable(plan: Any, ops: Sequence[CpuOp]) -> None:
    """Check that ExecuTorch's runtime has every operator of a program; our library provides the Cortex-M operators.

    Args:
        plan: ExecuTorch's execution plan.
        ops: the result of `with_instructions`.

    Raises:
        UnsupportedError: naming each missing operator and the lines of the model that use it.
        MissingToolError: our library lacks a Cortex-M operator.
    """
    from executorch.runtime import Runtime

    runtime = Runtime.get()
    names_of = [f"{one.name}.{one.overload}" if one.overload else one.name for one in plan.operators]
    if any(name.startswith(CORTEX_M) for name in names_of):
        load_cortex_m()
    known = runtime.operator_registry.operator_names
    missing = {index: name for index, name in enumerate(names_of) if name not in known}
    ours = [name for name in missing.values() if name.startswith(CORTEX_M)]
    if ours:
        raise stale(ours)
    if missing:
        called = {number: plan.chains[0].instructions[number].instr_args.op_index for number, _ in _calls(plan)}
        asking = [(op, {called[number] for number in op.instructions}) for op in ops]
        calls = {index: [op for op, indices in asking if index in indices] for index in missing}
        raise all_refused([_no_kernel(missing[index], op) for index in missing for op in calls[index] or [None]])


def no_out_variant(error: RuntimeError, ops: Iterable[CpuOp]) -> UnsupportedError | None:
    """Convert the error of `to_executorch` about missing out variants; None for another error."""
    text = str(error)
    missing = _MISSING_OUT.findall(text.partition("out variant")[2])  # without overloads
    calls = {name: [op for op in ops if op.op.partition(".")[0] == name and _lacks_out(op.op)] for name in missing}
    return all_refused([_no_kernel(name, op) for name in missing for op in calls[name] or [None]]) if missing else None


def _lacks_out(name: str) -> bool:
    """Return True if an overload of an operator has no out variant."""
    from executorch.exir.operator.convert import to_out_variant

    namespace, _, operator = name.partition("::")
    operator, _, overload = operator.partition(".")
    try:
        to_out_variant(getattr(getattr(getattr(torch.ops, namespace), operator), overload or "default"))
    except RuntimeError:
        return True
    return False


def _no_kernel(name: str, op: CpuOp | None) -> UnsupportedError:
    source = op.source[0] if op and op.source else None
    rewrite = REWRITES.get(event_names.base_name(name))
    return UnsupportedError(
        f"nothing can run the operator `{op.op if op else name}`: "
        "neither the NPU nor the CPU kernels of ExecuTorch's runtime"
        f"{f', at `{source.code}`' if source else ''}",
        where=str(source) if source else None,
        hint=rewrite.advice if rewrite else _HINT,
    )
