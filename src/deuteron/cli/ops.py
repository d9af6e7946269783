"""`deuteron ops`: the operators that the NPU supports."""

from dataclasses import asdict

import click

from deuteron.cli.options import command as new_command
from deuteron.cli.options import target_option
from deuteron.cli.printer import Printer


@new_command
@click.argument("names", metavar="[NAME]...", nargs=-1)
@target_option
@click.option("--markdown", is_flag=True, help="Print the table as a Markdown page.")
def command(printer: Printer, *, names: tuple[str, ...], target: str, markdown: bool) -> None:
    """List the TFLite operators that the NPU supports, or those whose name or edge operator contains a NAME.

    For each: ExecuTorch's edge operators that become it, its conditions, and the kernels that run it.
    """
    from deuteron import api
    from deuteron.npu.neutron import support
    from deuteron.tflite.cortex_m import operator_table

    listed = api.operators(names, target=target)
    if markdown:
        tables = operator_table.markdown({op.name for op in support.operators()})
        printer.data(f"{support.markdown(target)}\n{tables}".rstrip("\n"))
        return
    if printer.as_json:
        table = [asdict(op) for op in listed]
        printer.json({"schema": 1, "target": target, "general": list(support.general()), "operators": table})
        return
    printer.data("all operators")
    for sentence in support.general():
        printer.data(f"  {sentence}")
    for op in listed:
        printer.data(f"{op.name}  from {', '.join(op.edge) or 'no edge operator'}")
        for sentence in op.conditions:
            printer.data(f"  {sentence}")
        printer.data(f"  kernels: {', '.join(op.kernels)}")
