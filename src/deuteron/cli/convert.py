"""`deuteron convert`: a TFLite file for the NPU."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer

if TYPE_CHECKING:
    from deuteron.api import Conversion


@new_command
@click.argument("source", metavar="IN.tflite", type=Path)
@click.option("-o", "--output", metavar="OUT.tflite", required=True, type=Path, help="TFLite file to write.")
@click.option("--target", default="imxrt700", show_default=True, metavar="NAME", help="`deuteron targets` lists them.")
@click.option("--use-profiling", is_flag=True, help="Let the microcode record when each kernel starts and stops.")
@click.option(
    "--fetch-constants-to-sram", is_flag=True, help="Prefetch weights from external flash (not yet available)."
)
@click.option("--dump-kernel-selection-code", is_flag=True, help="Write the table of kernels used (not yet available).")
@click.option("--exclude-pass", "excluded_passes", multiple=True, metavar="NAME", help="Leave a compiler pass out.")
@click.option("--verify-each", is_flag=True, help="Check the graph after every compiler pass.")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def command(
    printer: Printer,
    *,
    source: Path,
    output: Path,
    target: str,
    use_profiling: bool,
    fetch_constants_to_sram: bool,
    dump_kernel_selection_code: bool,
    excluded_passes: tuple[str, ...],
    verify_each: bool,
    force: bool,
) -> None:
    """Convert the int8 TFLite model IN.tflite into OUT.tflite, whose one operator runs on the NPU.

    Float inputs and outputs stay as they are when the model quantises and dequantises them itself.
    """
    from deuteron import api

    options = api.ConvertOptions(
        profiling=use_profiling,
        fetch_constants_to_sram=fetch_constants_to_sram,
        dump_kernel_selection_code=dump_kernel_selection_code,
        verify_each=verify_each,
        excluded_passes=excluded_passes,
    )
    conversion = api.convert_file(source, output, target=target, options=options, force=force)
    if printer.as_json:
        printer.json(_record(output, target, conversion))
        return
    for line in _lines(output, target, conversion):
        printer.data(line)


def _sizes(conversion: "Conversion") -> dict[str, int]:
    container = conversion.container
    blocks = {} if container is None else {
        "microcode": len(container.microcode), "weights": len(container.weights), "kernels": len(container.kernels),
    }  # fmt: skip
    return blocks | {"scratch": conversion.plan.scratch_bytes}


def _lines(output: Path, target: str, conversion: "Conversion") -> list[str]:
    if conversion.container is None:
        return [f"{output}: nothing to run on the NPU; every output is an input"]
    sizes = ", ".join(f"{name} {size:,} B" for name, size in _sizes(conversion).items())
    lines = [f"{output}: for {target}, {sizes}"]
    names = {fate.index: fate.op for fate in conversion.provenance.ops}
    for kernel in conversion.provenance.kernels:
        origin = ", ".join(f"{index} {names[index]}" for index in kernel.ops)
        lines.append(f"  {kernel.index:>4}  {kernel.kernel:<24} {origin}")
    return lines


def _record(output: Path, target: str, conversion: "Conversion") -> dict[str, object]:
    return {
        "schema": 1,
        "output": str(output),
        "target": target,
        "bytes": _sizes(conversion),
        **conversion.provenance.as_json(),
    }
