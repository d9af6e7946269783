"""Table of supported operators, derived from the code that reads, checks and lowers them."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deuteron.errors import OptionError
from deuteron.npu.neutron.edge_operators import EDGE_OPERATORS
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.verify import OP_RULES
from deuteron.npu.neutron.passes.constraints import CONSTRAINTS
from deuteron.npu.neutron.passes.kernel_selection import LOWERINGS as KERNELS
from deuteron.npu.neutron.tflite.attributes import ACTIVATIONS
from deuteron.npu.neutron.tflite.operators.table import LOWERINGS as READERS


@dataclass(frozen=True, slots=True)
class Operator:
    """One TFLite operator.

    Attributes:
        name: its name in the TFLite schema.
        edge: the edge operators of ExecuTorch that become this operator.
        conditions: the conditions of its support, each a sentence.
        kernels: the kernels that may run it; it may also be fused into others, folded or free.
    """

    name: str
    edge: tuple[str, ...]
    conditions: tuple[str, ...]
    kernels: tuple[str, ...]


def operators() -> tuple[Operator, ...]:
    """Return every operator, by name."""
    return tuple(
        Operator(
            name,
            tuple(edge for edge, emitted in EDGE_OPERATORS.items() if name in emitted),
            (reader.accepts, *_rules_of(reader.makes)),
            tuple(kernel.name for kernel in KERNELS[reader.makes].kernels),
        )
        for name, reader in READERS.items()
    )


def operators_named(names: Sequence[str]) -> tuple[Operator, ...]:
    """Return the operators whose name, or edge operator, contains one of `names`; all if there are no names.

    Raises:
        OptionError: there is no such operator; it names similar ones.
    """
    wanted = [name.lower() for name in names]
    everything = operators()
    matching = tuple(
        op
        for op in everything
        if not wanted or any(name in text.lower() for name in wanted for text in (op.name, *op.edge))
    )
    if not matching:
        listed = " or ".join(f"`{name}`" for name in names)
        known = [name.lower() for op in everything for name in (op.name, *op.edge)]
        words = sorted({word for name in known for word in re.findall(r"[a-z]{3,}", name)})
        near = [match for name in wanted for match in difflib.get_close_matches(name, words, n=1)]
        closest = f"; close to that is {' or '.join(f'`{name}`' for name in near)}" if near else ""
        raise OptionError(
            f"no operator that the NPU takes contains {listed}", hint=f"`deuteron ops` lists all of them{closest}"
        )
    return matching


def general() -> tuple[str, ...]:
    """Return the conditions of all operators, each a sentence."""
    rules = (_sentence(rule) for kinds, rule in (*OP_RULES, *CONSTRAINTS) if kinds is ops.Op)
    return (*rules, f"Fused activations are {', '.join(ACTIVATIONS)}.")


def markdown(target: str) -> str:
    """Return the table as a page."""
    lines = [
        "# Operators",
        "",
        f"The operators that the NPU of `{target}` runs. `deuteron ops --markdown` writes this page from the code.",
        "",
        "For all operators:",
        "",
        *(f"- {sentence}" for sentence in general()),
        "",
        "Kernels are those that may run the operator; the compiler also fuses operators, computes them when it can,",
        "and leaves them out where they change no byte. An operator that breaks a condition is an error that names it.",
        "",
        "| TFLite operator | from the edge operators | conditions | kernels |",
        "|---|---|---|---|",
    ]
    for op in operators():
        edge = ", ".join(f"`{name}`" for name in op.edge) or "-"
        lines.append(f"| {op.name} | {edge} | {' '.join(op.conditions)} | {', '.join(op.kernels)} |")
    return "\n".join(lines) + "\n"


def _rules_of(kind: type[ops.Op]) -> Iterable[str]:
    """Return the sentences of the rules for this kind of operator, without those of all operators."""
    for kinds, rule in (*OP_RULES, *CONSTRAINTS):
        if kinds is not ops.Op and issubclass(kind, kinds):
            yield _sentence(rule)


def _sentence(rule: object) -> str:
    return " ".join(str(rule.__doc__).split())
