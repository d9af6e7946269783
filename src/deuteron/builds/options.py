"""Options of a build: one frozen value that checks itself and is stored in the manifest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from deuteron.arch.memory import MemoryOptions
from deuteron.arch.targets import Arch, CpuOperators, sibling
from deuteron.arch.vela import VelaOptions
from deuteron.builds.quality import MOST
from deuteron.errors import OptionError

DEFAULT_TARGET = "imxrt700"
"""The target if none is named."""


class Converter(Enum):
    """Converter from a TFLite partition to microcode; the value is the name on the command line."""

    OPEN = "open"
    VENDOR = "vendor"

    @classmethod
    def parse(cls, name: str) -> Self:
        """Return the converter of that name."""
        try:
            return cls(name)
        except ValueError:
            raise OptionError(
                f"unknown converter `{name}`", hint="choose `open` (Deuteron's own) or `vendor` (NXP's eiq_neutron_sdk)"
            ) from None


class Partitioning(Enum):
    """Policy that divides operators between NPU and CPU; the value is the name on the command line.

    `NPU_FIRST`: the NPU runs all operators that it supports. `COST`: operators that cost more on the NPU, including
    copies for them, run on the CPU.
    """

    NPU_FIRST = "npu-first"
    COST = "cost"


class Activations(Enum):
    """Type of activations; the value is the name on the command line."""

    INT8 = "int8"
    INT16 = "int16"


_NEUTRON_ALONE = ("converter", "dump_kernel_selection_code", "intermediates", "verify_each")
"""Options of Deuteron's own compiler."""

_ETHOSU_ALONE = ("weights",)
"""Quantization options that only ExecuTorch's Arm backend has."""


_MEASURING = ("equalise", "correct_biases", "min_sqnr")
"""Options of post-training quantization that read the calibration data more than once."""


class WeightValues(Enum):
    """Type of weights; the value is the name on the command line."""

    INT8 = "int8"
    INT4 = "int4"


class WeightBits(Enum):
    """Bits of the weights of layers on a Cortex-M; the value is the name on the command line.

    `AUTO`: four bits for those layers that lose least by it, eight for the others.
    """

    AUTO = "auto"
    EIGHT = "8"
    FOUR = "4"


class CalibrationMethod(Enum):
    """Choice of a tensor's range from the calibration data; the value is the name on the command line.

    `HISTOGRAM`: PyTorch's search, which narrows the range of all values until the error grows. `MINMAX`: all values.
    `PERCENTILE`: all but a 20,000th at either end. `MSE`: the range with the least mean square error.
    """

    HISTOGRAM = "histogram"
    MINMAX = "minmax"
    PERCENTILE = "percentile"
    MSE = "mse"


@dataclass(frozen=True, slots=True)
class TfliteOptions:
    """Options of a TFLite file, for all commands that take one.

    Attributes:
        shapes: shapes of inputs by name, in place of those of the file; the name "" means the only input.
        signature: the signature whose subgraph is compiled; None for the first subgraph.
        keep_dead_channels: keep channels that no result depends on, and those that are constant.
    """

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    signature: str | None = None
    keep_dead_channels: bool = False

    def check_unused(self, path: object) -> None:
        """Check that no option is set for a model that is no TFLite file; OptionError otherwise."""
        given = {
            "--shape": self.shapes,
            "--signature": self.signature is not None,
            "--keep-dead-channels": self.keep_dead_channels,
        }
        if named := [f"`{name}`" for name, value in given.items() if value]:
            verb = "are" if len(named) > 1 else "is"
            raise OptionError(
                f"{' and '.join(named)} {verb} for TFLite files, and `{path}` is not one", hint="leave it out"
            )


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return shapes of inputs as users write them: `INPUT=1,96,96,3`, or without a name for the only input.

    Raises:
        OptionError: naming what is wrong.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        try:
            shape = tuple(int(size) for size in sizes.split(","))
        except ValueError:
            shape = (0,)
        if min(shape) < 1 or name in shapes:
            raise OptionError(
                f"`--shape {text}` names no shape", hint="write it as INPUT=1,96,96,3, once for each input"
            )
        shapes[name] = shape
    return shapes


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of a program that runs on a few new frames of a stream.

    Attributes:
        axis: the dimension of time of the window's inputs.
        hop: the number of new frames in each run; 0 for the least.
        latency: how many frames late outputs may be, for layers that look ahead.
    """

    axis: int
    hop: int = 0
    latency: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `AXIS[:HOP[:LATENCY]]`; OptionError for another form."""
        parts = text.split(":")
        numbers = [part.removeprefix("-") if i == 0 else part for i, part in enumerate(parts)]
        if len(parts) > 3 or not all(part.isdecimal() for part in numbers) or "0" in numbers[1:2]:
            raise OptionError(
                f"`--stream {text}` is not of the form AXIS[:HOP[:LATENCY]]",
                hint="`--stream 2:4` gives each run 4 new frames along dimension 2 of the inputs",
            )
        return cls(*map(int, parts))

    def __str__(self) -> str:
        """Return the options as a user writes them."""
        return (
            f"{self.axis}:{self.hop}:{self.latency}"
            if self.latency
            else f"{self.axis}:{self.hop}"
            if self.hop
            else f"{self.axis}"
        )


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Options of `deuteron.build`.

    Attributes:
        converter: the converter to microcode.
        partition: the policy that divides operators between NPU and CPU.
        activations: type of activations; int16 on targets without an NPU, where operators without an int16 form use
            int8, and on an Ethos-U.
        weights: type of weights; int4 for an Ethos-U only.
        weights_bits: bits of the weights of layers on a Cortex-M. `AUTO` keeps `min_sqnr`, or `max_loss`, or fits the
            weights into `memory.flash_budget`; without these it keeps 20 dB.
        max_loss: with `AUTO`, how much lower the number of the evaluation function may be than for the float model.
        calibration_method: choice of int8 activation ranges.
        equalise: equalise channel ranges across layers.
        correct_biases: correct the layers' biases for the mean error of quantized weights.
        state_dtype: type of the tensors that live from run to run, and of the operators that compute and read them.
        min_sqnr: SQNR in dB that each output must reach on the calibration data: the fewest most sensitive layers get
            int16 activations, or with `WeightBits.AUTO` weights of eight bits. None for int8 everywhere.
        operators_not_to_delegate: edge operators kept on the CPU, by the names of ExecuTorch's NXP backend
            (`aten_convolution_default`; `aten::convolution` style colons are accepted).
        remove_quant_io_ops: let the application quantize inputs and dequantize outputs; the program's inputs and
            outputs are then int8.
        use_qat: use quantization-aware training, with a training function.
        use_profiling: make microcode that records when each kernel starts and stops.
        stream: turn the model of a window into a program for each hop of new frames.
        memory: options of the target's memories.
        vela: options of Vela for an Ethos-U.
        tflite: options of a TFLite file.
        dump_kernel_selection_code: also write each partition's kernel selection file.
        intermediates: also write each partition's converted TFLite file and microcode.
        verify_each: verify the graph after every compiler pass.
        force: replace an existing build directory.
    """

    converter: Converter = Converter.OPEN
    partition: Partitioning = Partitioning.NPU_FIRST
    activations: Activations = Activations.INT8
    weights: WeightValues = WeightValues.INT8
    state_dtype: Activations = Activations.INT8
    weights_bits: WeightBits = WeightBits.EIGHT
    max_loss: float | None = None
    calibration_method: CalibrationMethod = CalibrationMethod.HISTOGRAM
    equalise: bool = False
    correct_biases: bool = False
    min_sqnr: float | None = None
    operators_not_to_delegate: tuple[str, ...] = ()
    remove_quant_io_ops: bool = False
    use_qat: bool = False
    use_profiling: bool = False
    stream: StreamOptions | None = None
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    vela: VelaOptions = field(default_factory=VelaOptions)
    tflite: TfliteOptions = field(default_factory=TfliteOptions)
    dump_kernel_selection_code: bool = False
    intermediates: bool = False
    verify_each: bool = False
    force: bool = False

    def __post_init__(self) -> None:
        for operator in self.operators_not_to_delegate:
            if not operator or "," in operator or any(c.isspace() for c in operator):
                raise OptionError(
                    f"`{operator}` is not an operator name",
                    hint="give one edge operator per item, for example `aten::convolution`",
                )

        if self.max_loss is not None and not 0 <= self.max_loss < float("inf"):
            raise OptionError(f"`--max-loss {self.max_loss:g}` is not a number of at least 0")
        if self.min_sqnr is not None and not 0 < self.min_sqnr <= MOST:
            raise OptionError(f"`--min-sqnr {self.min_sqnr:g}` is not above 0 and at most {MOST:g} dB")

    @property
    def has_mixed_activations(self) -> bool:
        """Return true if some layers may have int16 activations."""
        return self.min_sqnr is not None and self.weights_bits is not WeightBits.AUTO

    @property
    def has_packed_weights(self) -> bool:
        """Return true if layers may get weights of four bits."""
        return self.weights_bits is not WeightBits.EIGHT

    @property
    def corrects_biases(self) -> bool:
        """Return true if biases make up for the rounding of weights; training does it otherwise."""
        return self.correct_biases or (self.has_packed_weights and not self.use_qat)

    @property
    def measuring(self) -> str | None:
        """Return the name of an option that reads the calibration data more than once, if one is set."""
        return next((name for name in _MEASURING if getattr(self, name)), None)

    def check(self, arch: Arch) -> None:
        """Check that the options fit a target.

        Raises:
            OptionError: naming the option.
        """
        self.memory.check(arch)
        self.vela.check(arch)
        uses_vela = arch.npu is not None and arch.npu.uses_vela
        if self.activations is Activations.INT16 and not (arch.npu and arch.npu.has_int16):
            self._check_wide(arch)
        for option in _NEUTRON_ALONE if uses_vela else _ETHOSU_ALONE:
            if getattr(self, option) != getattr(BuildOptions(), option):
                name = f"--{option.replace('_', '-')}"
                raise OptionError(
                    f"`{name}` is for a Neutron; the NPU of `{arch.name}` is an Arm Ethos-U"
                    if uses_vela
                    else f"`{name} {getattr(self, option).value}` needs a target with an Arm Ethos-U; "
                    f"`{arch.name}` has none",
                    hint="leave it out",
                )
        if uses_vela and arch.cpu.operators is CpuOperators.CORTEX_M:
            portable = sibling(arch, CpuOperators.PORTABLE)
            for option in ("activations", "weights"):
                if (value := getattr(self, option)) != getattr(BuildOptions(), option):
                    raise OptionError(
                        f"`--{option} {value.value}` needs a target whose operators all run on an Ethos-U; the CPU of "
                        f"`{arch.name}` runs some of them in int8",
                        hint=f"build for `{portable.name}`" if portable else "leave it out",
                    )
        if self.use_qat and self.calibration_method is not CalibrationMethod.HISTOGRAM:
            raise OptionError(
                f"`--use-qat` and `--calibration-method {self.calibration_method.value}` exclude each other: training "
                "adapts the ranges",
                hint="leave out one of them",
            )
        self._check_weights_bits(arch)
        if self.has_mixed_activations:
            self._check_mixed(arch, "--min-sqnr", "gives some layers int16 activations")
        if self.state_dtype is Activations.INT16:
            self._check_mixed(arch, "--state-dtype int16", "gives operators of the state int16 activations")
            if self.min_sqnr is not None or self.use_qat:
                other = "--use-qat" if self.use_qat else "--min-sqnr"
                raise OptionError(
                    f"`{other}` and `--state-dtype int16` exclude each other", hint="leave out one of them"
                )
        if self.use_qat and self.stream is not None:
            raise OptionError(
                "`--use-qat` and `--stream` exclude each other: models with state are not trained",
                hint="leave out one of them",
            )
        if self.use_qat and (named := self.measuring):
            raise OptionError(
                f"`--use-qat` and `--{named.replace('_', '-')}` exclude each other: training corrects this error",
                hint="leave out one of them",
            )
        if (self.activations, self.weights) == (Activations.INT16, WeightValues.INT4):
            raise OptionError(
                "`--activations int16` and `--weights int4` exclude each other: ExecuTorch supports only one of them",
                hint="leave out one of them",
            )

    def _check_weights_bits(self, arch: Arch) -> None:
        """Check that a target supports weights of four bits, and that the limits on their loss fit each other."""
        if self.max_loss is not None and self.weights_bits is not WeightBits.AUTO:
            raise OptionError(
                "`--max-loss` limits the loss of `--weights-bits auto`", hint="give both, or leave it out"
            )
        if self.min_sqnr is not None and self.max_loss is not None:
            raise OptionError(
                "`--min-sqnr` and `--max-loss` exclude each other: each limits the loss of `--weights-bits auto`",
                hint="leave out one of them",
            )
        if self.min_sqnr is not None and self.weights_bits is WeightBits.FOUR:
            raise OptionError(
                "`--weights-bits 4` and `--min-sqnr` exclude each other: the former gives four bits to all layers",
                hint="use `--weights-bits auto`, which gives them to as many layers as keep the SQNR",
            )
        if self.weights_bits is WeightBits.EIGHT:
            return
        name = f"`--weights-bits {self.weights_bits.value}`"
        if arch.cpu.operators is not CpuOperators.CORTEX_M:
            uses_vela = arch.npu is not None and arch.npu.uses_vela
            raise OptionError(
                f"{name} is for layers that a Cortex-M runs, and the CPU of `{arch.name}` has no such operators",
                hint="use `--weights int4` for an Ethos-U"
                if uses_vela
                else "choose a target whose CPU has them, such as `cortex-m55` or `imxrt700cm`",
            )
        if Activations.INT16 in (self.activations, self.state_dtype):
            other = "--activations" if self.activations is Activations.INT16 else "--state-dtype"
            raise OptionError(
                f"{name} and `{other} int16` exclude each other: the operators for int16 have int8 weights",
                hint="leave out one of them",
            )

    def _check_mixed(self, arch: Arch, option: str, what: str) -> None:
        """Check that a target supports int8 and int16 activations in one program."""
        has_int16_npu = arch.npu is not None and arch.npu.has_int16
        if arch.cpu.operators is not CpuOperators.CORTEX_M or has_int16_npu:
            raise OptionError(
                f"`{option}` {what}, but `{arch.name}` has no operators for both int8 and int16",
                hint="choose a target whose CPU has them, such as `cortex-m55` or `imxrt700cm`"
                + (", or use `--activations int16`" if has_int16_npu else ""),
            )
        if self.activations is Activations.INT16:
            raise OptionError(
                f"`{option}` and `--activations int16` exclude each other: the latter applies to all layers",
                hint="leave out one of them",
            )

    def _check_wide(self, arch: Arch) -> None:
        """Check that a target supports int16 activations, and the other options too."""
        if arch.npu is not None:
            raise OptionError(
                f"`{arch.name}` does not support `--activations int16`; CPU-only and Ethos-U targets do",
                hint="choose one of those, such as `cortex-m55`, or use int8 activations",
            )
        if self.use_qat:
            raise OptionError(
                "`--use-qat` trains for int8 activations",
                hint="leave out `--use-qat` or `--activations int16`; int16 activations need no training",
            )
