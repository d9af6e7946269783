"""`deuteron convert`: compiles a TFLite file for the NPU."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deuteron.cli.memory import memory_options
from deuteron.cli.options import PATH, target_option, tflite_options
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer
from deuteron.errors import counted
from deuteron.records import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from deuteron.api import Conversion, Mixed
    from deuteron.arch.memory import MemoryOptions
    from deuteron.builds.options import TfliteOptions

OTHER_FATES = {
    "folded": "computed at compile time",
    "free": "free, because they change no byte",
    "unused": "removed, because no output depends on them",
    "edge": "float edges, left to the CPU",
}
"""Texts of the report for operators that no kernel call computes."""

FROM_NO_OPERATOR = "copy of an input or a constant that is an output"
"""Text of the report for kernel calls that come from no operator."""


@new_command
@click.argument("source", metavar="IN.tflite", type=PATH)
@click.option("-o", "--output", metavar="OUT.tflite", required=True, type=PATH, help="TFLite file to write.")
@target_option
@click.option("--use-profiling", is_flag=True, help="Make microcode that records when each kernel starts and stops.")
@memory_options
@tflite_options
@click.option("--dump-kernel-selection-code", is_flag=True, help="Also write OUT_kernel_selection.c.")
@click.option("--exclude-pass", "excluded_passes", multiple=True, metavar="NAME", help="Skip a compiler pass.")
@click.option("--verify-each", is_flag=True, help="Check the graph after every compiler pass.")
@click.option("--intermediates", is_flag=True, help="Also write OUT.microcode, OUT.weights and OUT.kernels.")
@click.option("--force", is_flag=True, help="Replace output files that exist.")
def command(
    printer: Printer,
    *,
    source: Path,
    output: Path,
    target: str,
    use_profiling: bool,
    memory: "MemoryOptions",
    tflite: "TfliteOptions",
    dump_kernel_selection_code: bool,
    excluded_passes: tuple[str, ...],
    verify_each: bool,
    intermediates: bool,
    force: bool,
) -> None:
    """Convert the TFLite model IN.tflite into OUT.tflite, whose one operator runs on the NPU.

    Operators that the NPU does not support stay TFLite operators, and OUT.tflite then has one NPU operator per
    partition. Float inputs and outputs keep their types if the model quantizes and dequantizes them itself.
    """
    from deuteron import api
    from deuteron.arch import targets

    memory.check(targets.load(target))
    options = api.ConvertOptions(
        profiling=use_profiling,
        memory=memory,
        dump_kernel_selection_code=dump_kernel_selection_code,
        verify_each=verify_each,
        excluded_passes=excluded_passes,
    )
    conversion, paths = api.convert_file(
        source, output, target=target, options=options, tflite=tflite, intermediates=intermediates, force=force
    )
    if printer.as_json:
        printer.json(_record(paths, target, conversion))
    else:
        for line in _lines(target, conversion):
            printer.data(line)
    for path in paths:
        printer.note(f"wrote `{path}`")


def _sizes(conversion: "Conversion") -> dict[str, int]:
    container = conversion.container
    blocks = {} if container is None else {
        "microcode": len(container.microcode), "weights": len(container.weights), "kernels": len(container.kernels),
    }  # fmt: skip
    area = conversion.plan.prefetch_bytes
    return blocks | ({"prefetch": area} if area else {}) | {"scratch": conversion.plan.scratch_bytes}


def _lines(target: str, conversion: "Conversion | Mixed") -> "Iterator[str]":
    """Yield the lines of each partition, and one per operator that stays on the CPU."""
    from deuteron import api

    if not isinstance(conversion, api.Mixed):
        yield from _partition(f"npu for {target}", conversion, range(len(conversion.provenance.ops)))
        return
    for number, part in enumerate(conversion.parts):
        yield from _partition(f"npu {number} for {target}", part.conversion, part.operators)
    yield f"left to TFLite: {counted(len(conversion.refused), 'operator')}"
    for left in _left(conversion):
        yield f"  {left['index']:>3}  {left['op']:<24} {left['why']}"


def _left(mixed: "Mixed") -> "list[dict[str, int | str]]":
    """List the operators that stay on the CPU, with the reasons."""
    names = [op.title for op in mixed.model.operators]
    return [{"index": i, "op": names[i], "why": error.message} for i, error in sorted(mixed.refused.items())]


def _partition(name: str, conversion: "Conversion", operators: "Sequence[int]") -> "Iterator[str]":
    """Yield one line of sizes, one per kernel call with its TFLite operators, one per group of other operators.

    `operators` are their indices in the file.
    """
    provenance = conversion.provenance
    sizes = ", ".join(f"{name} {size:,} B" for name, size in _sizes(conversion).items())
    proven = " (proven optimal)" if conversion.plan.packing.proven else ""
    yield f"{name}: {len(provenance.kernels)} kernel calls; {sizes}{proven}"
    names = {op.index: f"{operators[op.index]} {op.op}" for op in provenance.ops}
    for kernel in provenance.kernels:
        ops = ", ".join(names[index] for index in kernel.ops) or FROM_NO_OPERATOR
        yield f"  {kernel.index:>3}  {kernel.kernel:<24} {ops}"
    for fate, meaning in OTHER_FATES.items():
        by_name: dict[str, list[str]] = {}
        for op in provenance.ops:
            if op.fate.value == fate:
                by_name.setdefault(op.op, []).append(str(operators[op.index]))
        if by_name:
            yield f"{meaning}: " + "; ".join(f"{name} {', '.join(indices)}" for name, indices in by_name.items())


def _record(paths: "Sequence[Path]", target: str, conversion: "Conversion | Mixed") -> dict[str, object]:
    from deuteron import api

    head = {"schema": 1, "files": [str(path) for path in paths], "target": target}
    if not isinstance(conversion, api.Mixed):
        return head | _of_partition(conversion)
    partitions = [{"operators": list(part.operators), **_of_partition(part.conversion)} for part in conversion.parts]
    return {**head, "partitions": partitions, "left": _left(conversion)}


def _of_partition(conversion: "Conversion") -> dict[str, object]:
    return {
        "bytes": _sizes(conversion),
        "scratch_proven_optimal": conversion.plan.packing.proven,
        **plain(conversion.provenance),
    }
