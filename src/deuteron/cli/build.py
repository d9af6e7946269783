"""`deuteron build`: compiles a PyTorch model or a TFLite file to a build directory."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from deuteron.arch import targets
from deuteron.cli.memory import memory_options
from deuteron.cli.options import PATH, choice, target_note, target_option, tflite_options
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer
from deuteron.cli.vela import vela_options
from deuteron.errors import UnsupportedError, counted

if TYPE_CHECKING:
    from deuteron.api import Build
    from deuteron.arch.memory import MemoryOptions
    from deuteron.arch.vela import VelaOptions
    from deuteron.builds.options import TfliteOptions


@new_command
@click.argument("model")
@click.option("-o", "--output", metavar="DIR", required=True, type=PATH, help="Directory to write.")
@target_option
@click.option(
    "--converter",
    default="open",
    show_default=True,
    metavar="open|vendor",
    help="Deuteron's own converter, or NXP's if installed.",
)
@click.option(
    "--partition",
    default="npu-first",
    show_default=True,
    metavar="npu-first|cost",
    help="Give the NPU all operators that it supports, or only those that the cycle model finds faster there.",
)
@click.option(
    "--activations",
    default="int8",
    show_default=True,
    metavar="int8|int16",
    help="Type of activations; int16 on CPU-only and Ethos-U targets.",
)
@click.option(
    "--weights",
    default="int8",
    show_default=True,
    metavar="int8|int4",
    help="Type of weights; int4 on Ethos-U targets.",
)
@click.option(
    "--state-dtype",
    default="int8",
    show_default=True,
    metavar="int8|int16",
    help="Type of tensors that live from run to run, and of the operators that compute and read them; int16 on targets "
    "whose CPU has both.",
)
@click.option(
    "--weights-bits",
    default="8",
    show_default=True,
    metavar="auto|8|4",
    help="Bits of the weights of layers on a Cortex-M; auto: 4 where least is lost, within `--min-sqnr`, `--max-loss` "
    "or `--flash-budget`.",
)
@click.option(
    "--max-loss",
    type=float,
    metavar="NUMBER",
    help="With `--weights-bits auto`, how much `--evaluate` may lose against the float model.",
)
@click.option(
    "--calibration-method",
    default="histogram",
    show_default=True,
    metavar="histogram|minmax|percentile|mse",
    help="How activation ranges are chosen from the calibration data.",
)
@click.option(
    "--calibration",
    metavar="FILE.npz|FILE.py:FUNCTION",
    help="Quantize a float TFLite file with these samples of its inputs.",
)
@click.option("--equalise", is_flag=True, help="Equalise channel ranges across layers before quantization.")
@click.option("--correct-biases", is_flag=True, help="Correct biases for the mean error of quantized weights.")
@click.option(
    "--min-sqnr",
    type=float,
    metavar="DB",
    help="Raise the most sensitive layers to 16 bits until each output reaches this SQNR; with `--weights-bits auto`, "
    "the SQNR that it keeps.",
)
@click.option(
    "--operators-not-to-delegate",
    multiple=True,
    metavar="OP",
    help="Keep this edge operator (`aten::convolution`) on the CPU; may be repeated.",
)
@click.option("--remove-quant-io-ops", is_flag=True, help="Let the application quantize inputs and dequantize outputs.")
@click.option("--use-qat", is_flag=True, help="Use quantization-aware training before the build.")
@click.option("--train", metavar="FILE.py:FUNCTION", help="Training function; by default `train` of the model's file.")
@click.option(
    "--evaluate",
    metavar="FILE.py:FUNCTION",
    help="Also measure the model by this function, which takes a callable model and returns a number.",
)
@click.option(
    "--stream",
    metavar="AXIS[:HOP[:LATENCY]]",
    help="Build a program that takes HOP new frames in each run, from a model of a window with time along AXIS. HOP is "
    "by default the product of the strides. LATENCY is the number of frames that layers may look ahead.",
)
@click.option("--use-profiling", is_flag=True, help="Make microcode that records when each kernel starts and stops.")
@memory_options
@vela_options
@tflite_options
@click.option("--dump-kernel-selection-code", is_flag=True, help="Also write each partition's kernel selection file.")
@click.option("--intermediates", is_flag=True, help="Also write each partition's converted TFLite file and microcode.")
@click.option("--verify-each", is_flag=True, help="Verify the graph after every pass of the compiler.")
@click.option("--force", is_flag=True, help="Replace the output directory if it exists.")
def command(
    printer: Printer,
    *,
    model: str,
    output: Path,
    target: str,
    converter: str,
    partition: str,
    activations: str,
    weights: str,
    state_dtype: str,
    weights_bits: str,
    max_loss: float | None,
    calibration_method: str,
    calibration: str | None,
    min_sqnr: float | None,
    operators_not_to_delegate: tuple[str, ...],
    train: str | None,
    evaluate: str | None,
    stream: str | None,
    memory: "MemoryOptions",
    vela: "VelaOptions",
    tflite: "TfliteOptions",
    **flags: bool,
) -> None:
    """Compile MODEL for a target and write a build directory.

    MODEL is `file.py:function`, where the function returns a module, its example inputs and, for calibration, batches
    like them; or the name of a reference model (`deuteron models` lists them); or a TFLite file.
    """
    from deuteron import api
    from deuteron.board.build_directory import is_tflite, named_default

    is_default = click.get_current_context().get_parameter_source("target") is ParameterSource.DEFAULT
    options = api.BuildOptions(
        converter=api.Converter.parse(converter),
        partition=choice(api.Partitioning, "--partition", partition),
        activations=choice(api.Activations, "--activations", activations),
        weights=choice(api.WeightValues, "--weights", weights),
        state_dtype=choice(api.Activations, "--state-dtype", state_dtype),
        weights_bits=choice(api.WeightBits, "--weights-bits", weights_bits),
        max_loss=max_loss,
        calibration_method=choice(api.CalibrationMethod, "--calibration-method", calibration_method),
        min_sqnr=min_sqnr,
        operators_not_to_delegate=tuple(op.strip() for item in operators_not_to_delegate for op in item.split(",")),
        stream=None if stream is None else api.StreamOptions.parse(stream),
        memory=memory,
        vela=vela,
        tflite=tflite,
        **flags,
    )
    named = named_default(is_default=is_default and is_tflite(Path(model)))
    with named, printer.work(f"building {model}") as progress:
        build = api.build_model(
            model,
            target=target,
            calibration=calibration,
            train=train,
            evaluate=evaluate,
            output=output,
            options=options,
            progress=progress,
        )
    for warning in build.manifest.warnings:
        printer.warn(warning)
    if printer.as_json:
        printer.json({"directory": str(output), **json.loads(build.manifest.to_json())})
    else:
        printer.note(target_note(target, is_default=is_default))
        _summary(printer, build, output)


def _summary(printer: Printer, build: "Build", output: Path) -> None:
    """Print which operators run where, the sizes, and the files written."""
    manifest = build.manifest
    if build.losses:
        printer.note(f"trained in {len(build.losses)} steps: loss {build.losses[0]:.4g} to {build.losses[-1]:.4g}")
    for metric in manifest.quality.metrics:
        printer.data(metric.text())
    is_ethosu = isinstance(targets.load(manifest.target).npu, targets.EthosU)
    for i, part in enumerate(manifest.partitions):
        if is_ethosu:
            printer.data(
                f"npu {i}: {counted(len(part.kernels), 'operation')}; commands {part.microcode_bytes:,} B, weights "
                f"{part.weights_bytes:,} B, scratch {part.scratch_bytes:,} B"
            )
            continue
        proven = " (proven optimal)" if part.scratch_proven_optimal else ""
        fetched, area = "", f", prefetch area {part.prefetch_bytes:,} B" if part.prefetch_bytes else ""
        if area or part.prefetch_bound:  # with a prefetch area, some fetches may still go to scratch
            fetched = " fetched" if area else " fetched to scratch"
        fetched += " (time proven optimal)" if part.prefetch_proven_optimal else ""
        printer.data(
            f"npu {i}: {len(part.ops)} TFLite operators in {len(part.kernels)} kernel calls; microcode "
            f"{part.microcode_bytes:,} B, weights {part.weights_bytes:,} B{fetched}{area}, scratch "
            f"{part.scratch_bytes:,} B{proven}"
        )
    on_cpu: dict[str, int] = {}
    for op in manifest.cpu_ops:
        on_cpu[op.op] = on_cpu.get(op.op, 0) + 1
    listed = ", ".join(f"{name} x{n}" if n > 1 else name for name, n in sorted(on_cpu.items()))
    printer.data(f"cpu: {listed or 'nothing'}")
    for line in manifest.stripe_lines():
        printer.data(line)
    if manifest.stream is not None:
        printer.data(manifest.stream.text)
    printer.data(_memory(output))
    has_both = manifest.options.equalise and manifest.options.corrects_biases
    if summary := manifest.quality.summary(advises=not has_both):
        printer.data(summary)
    for name, entry in manifest.files.items():
        printer.note(f"wrote `{output / name}`, {entry.bytes:,} B")
    printer.note(f"wrote `{output / 'build.json'}`")


def _memory(output: Path) -> str:
    """Return the SRAM that a build needs, or why firmware cannot run it: that lacks an operator, or other microcode."""
    from deuteron import api

    try:
        return api.plan(output).summary()
    except UnsupportedError as error:
        return f"firmware: none, {error.message.splitlines()[0].rstrip(':')}"
