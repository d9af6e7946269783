"""`deuteron targets`: lists the targets, or shows the figures of one."""

import click

from deuteron.arch import targets
from deuteron.arch.targets import Arch, CpuOperators, EthosU, Figure
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer


@new_command
@click.argument("name", metavar="[NAME]", required=False)
def command(printer: Printer, *, name: str | None) -> None:
    """List the targets; with a NAME, show that target's figures, how certain each is, and its source."""
    from deuteron import api

    if name is not None:
        arch = targets.load(name)
        if printer.as_json:
            printer.json({"schema": 1, "targets": [_record(arch)]})
        else:
            _show_figures(printer, arch)
        return
    archs = api.targets()
    if printer.as_json:
        printer.json({"schema": 1, "targets": [_record(arch) for arch in archs]})
        return
    rows = [("target", "NPU", "CPU", "CPU operators")]
    rows += [(a.name, a.npu.name if a.npu else "none", a.cpu.name, a.cpu.operators.value) for a in archs]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        printer.data("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    printer.note("`deuteron targets NAME` shows the figures of a target and their sources")


def _show_figures(printer: Printer, arch: Arch) -> None:
    """Print what each processor of a target runs, then one line per figure."""
    printer.data(f"{arch.name}  {arch.title}")
    if arch.npu is not None:
        printer.data(f"  npu {arch.npu.name}: int8 partitions of a model")
    operators = "all operators" if arch.npu is None else "operators that the NPU does not support"
    library = "int8 operators" if arch.cpu.operators is CpuOperators.CORTEX_M else "ExecuTorch's portable operators"
    printer.data(f"  cpu {arch.cpu.name}: {operators}, as {library}")
    for label, figure in figures(arch):
        value = f"{figure.value:,} {figure.unit}".rstrip()
        printer.data(f"  {label:<36} {value:>20}  {figure.certainty.value:<10}  {figure.source}")


def figures(arch: Arch) -> list[tuple[str, Figure]]:
    """Return the figures of a target with their labels, in the order of the preset."""
    npu, cpu = arch.npu, arch.cpu
    if npu is None:
        return []
    if isinstance(npu, EthosU):
        return [(f"{npu.name} MACs", npu.macs), (f"{npu.name} clock", npu.clock)]
    rows = [
        (f"{npu.name} hardware version", npu.hw_version),
        (f"{npu.name} units", npu.units),
        (f"{npu.name} pipelines", npu.pipelines),
        (f"{npu.name} per pipeline", npu.macs_per_pipeline),
        (f"{npu.name} clock", npu.clock),
        (f"{npu.name} elementwise", npu.elementwise),
        (f"{npu.name} SRAM port", npu.sram_port),
        (f"{cpu.name} clock", npu.driver.clock),
        (f"{cpu.name} per kernel call", npu.driver.call_dispatch),
        (f"{cpu.name} per fetch", npu.driver.fetch_setup),
    ]
    for memory in arch.memories:
        rows.append((f"{memory.name} size", memory.size))
        if memory.bandwidth is not None:
            rows.append((f"{memory.name} bandwidth", memory.bandwidth))
        if memory.latency is not None:
            rows.append((f"{memory.name} latency", memory.latency))
    return [*rows, ("prefetch area", npu.prefetch_area)]


def _record(arch: Arch) -> dict[str, object]:
    return {
        "name": arch.name,
        "title": arch.title,
        "npu": arch.npu.name if arch.npu else None,
        "cpu": arch.cpu.name,
        "cpu_operators": arch.cpu.operators.value,
        "memories": [{"name": m.name, "kind": m.kind.value, "npu_access": m.npu_access} for m in arch.memories],
        "figures": [
            {
                "name": label,
                "value": figure.value,
                "unit": figure.unit,
                "certainty": figure.certainty.value,
                "source": figure.source,
            }
            for label, figure in figures(arch)
        ],
    }
