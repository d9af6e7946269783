"""`deuteron ops`: what the NPU takes."""

import difflib
import re
from collections.abc import Iterable
from dataclasses import asdict

import click

from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer
from deuteron.errors import OptionError


@new_command
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--target", default="imxrt700", show_default=True, metavar="NAME", help="`deuteron targets` lists them.")
@click.option("--markdown", is_flag=True, help="Print the table as a Markdown page.")
def command(printer: Printer, *, names: tuple[str, ...], target: str, markdown: bool) -> None:
    """List the TFLite operators that the NPU takes, or only those whose name or edge operator contains a NAME.

    For each: the edge operators of ExecuTorch that arrive as it, the conditions, and the kernels that run it.
    """
    from deuteron.arch import targets
    from deuteron.npu.neutron import support

    targets.load(target).need_npu()
    if markdown:
        printer.data(support.markdown(target).rstrip("\n"))
        return
    wanted = [name.lower() for name in names]
    found = [
        op
        for op in support.operators()
        if not wanted or any(name in text.lower() for name in wanted for text in (op.name, *op.edge))
    ]
    if not found:
        listed = " or ".join(f"`{name}`" for name in names)
        known = [name.lower() for op in support.operators() for name in (op.name, *op.edge)]
        near = [match for name in wanted for match in difflib.get_close_matches(name, _words(known), n=1)]
        closest = f"; close to that is {' or '.join(f'`{name}`' for name in near)}" if near else ""
        hint = f"`deuteron ops` lists all of them{closest}"
        raise OptionError(f"no operator that the NPU takes contains {listed}", hint=hint)
    if printer.as_json:
        table = [asdict(op) for op in found]
        printer.json({"schema": 1, "target": target, "general": list(support.general()), "operators": table})
        return
    printer.data("all operators")
    for sentence in support.general():
        printer.data(f"  {sentence}")
    for op in found:
        printer.data(f"{op.name}  from {', '.join(op.edge) or 'no edge operator'}")
        for sentence in op.conditions:
            printer.data(f"  {sentence}")
        printer.data(f"  kernels: {', '.join(op.kernels)}")


def _words(names: Iterable[str]) -> list[str]:
    """The words that the names are made of."""
    return sorted({word for name in names for word in re.findall(r"[a-z]{3,}", name)})
