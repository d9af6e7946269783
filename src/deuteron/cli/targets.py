"""`deuteron targets`: the chips that can be compiled for."""

from deuteron.arch.targets import Arch, CpuOperators, EthosU, Figure
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer


@new_command
def command(printer: Printer) -> None:
    """List the targets, each figure with how certain it is and where it comes from."""
    from deuteron import api

    archs = api.targets()
    if printer.as_json:
        printer.json({"schema": 1, "targets": [_record(arch) for arch in archs]})
        return
    for arch in archs:
        printer.data(f"{arch.name}  {arch.title}")
        for processor in processors(arch):
            printer.data(f"  {processor}")
        for label, figure in figures(arch):
            value = f"{figure.value:,} {figure.unit}".rstrip()
            printer.data(f"  {label:<36} {value:>20}  {figure.certainty.value:<10}  {figure.source}")


def processors(arch: Arch) -> list[str]:
    """What of a model runs where, one line for each processor."""
    rest = "all of a model" if arch.npu is None else "what the NPU does not take"
    how = "int8 operators" if arch.cpu.operators is CpuOperators.CORTEX_M else "ExecuTorch's portable operators"
    npu = [f"npu {arch.npu.name}: int8 partitions of a model"] if arch.npu else []
    return [*npu, f"cpu {arch.cpu.name}: {rest}, as {how}"]


def figures(arch: Arch) -> list[tuple[str, Figure]]:
    """Every figure of a target with its label, in the order of the preset."""
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
