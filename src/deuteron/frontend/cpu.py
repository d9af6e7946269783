"""What stays on the CPU, and whether ExecuTorch's runtime on the CPU can run it."""

import re
from collections.abc import Collection, Iterable
from typing import Any

from torch import fx

from deuteron.errors import UnsupportedError
from deuteron.frontend.manifest import CpuOp
from deuteron.frontend.provenance import source_of
from deuteron.frontend.seam import operator_name

_HINT = "write the model with operators that the NPU or ExecuTorch's portable and quantized kernels have"
_MISSING_OUT = re.compile(r"[\w.]+::[\w.]+")


def cpu_ops(graph: fx.Graph) -> tuple[CpuOp, ...]:
    """The operators of a lowered edge graph that are not inside a delegate, in execution order."""
    found: list[CpuOp] = []
    for node in graph.nodes:
        name = operator_name(node.target)
        if node.op == "call_function" and "::" in name and not name.startswith("executorch_call_delegate"):
            source = source_of(node)
            found.append(CpuOp(name, node.name, (source,) if source else ()))
    return tuple(found)


def need_runnable(operators: Iterable[Any], ops: tuple[CpuOp, ...], more: Collection[str] = ()) -> None:
    """Checks that the runtime's portable and quantized kernels, and `more`, cover a program's operator table.

    Raises:
        UnsupportedError: naming the operator and the line of the model that asks for it.
    """
    from executorch.runtime import Runtime

    known = {*Runtime.get().operator_registry.operator_names, *more}
    for operator in operators:
        name = f"{operator.name}.{operator.overload}" if operator.overload else operator.name
        if name not in known:
            raise _no_kernel(operator.name, ops)


def no_out_variant(error: RuntimeError, ops: tuple[CpuOp, ...]) -> UnsupportedError | None:
    """What `to_executorch` means by its error about missing out variants, or None if it is another error."""
    text = str(error)
    names = _MISSING_OUT.findall(text.partition("out variant")[2])
    return _no_kernel(names[0], ops) if names else None


def _no_kernel(name: str, ops: tuple[CpuOp, ...]) -> UnsupportedError:
    op = next((op for op in ops if op.op.partition(".")[0] == name.partition(".")[0]), None)
    source = op.source[0] if op and op.source else None
    return UnsupportedError(
        f"nothing can run the operator `{name}`: neither the NPU nor the CPU kernels of ExecuTorch's runtime"
        f"{f', at `{source.code}`' if source else ''}",
        where=str(source) if source else None,
        hint=_HINT,
    )
