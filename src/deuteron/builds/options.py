"""What a build can be told, as one frozen value that checks itself and is stored in the manifest."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Self, cast

from deuteron.arch.memory import MemoryOptions
from deuteron.arch.targets import Arch, CpuOperators, sibling
from deuteron.arch.vela import VelaOptions
from deuteron.builds.quality import MOST
from deuteron.errors import FormatError, OptionError

DEFAULT_TARGET = "imxrt700"
"""What is compiled for unless a target is named."""


class Converter(Enum):
    """Who turns a TFLite partition into microcode; the value is its spelling on the command line."""

    OPEN = "open"
    VENDOR = "vendor"

    @classmethod
    def parse(cls, name: str) -> Self:
        """The converter of that name."""
        try:
            return cls(name)
        except ValueError:
            raise OptionError(
                f"unknown converter `{name}`", hint="choose `open` (Deuteron's own) or `vendor` (NXP's eiq_neutron_sdk)"
            ) from None


class Partitioning(Enum):
    """What decides between NPU and CPU; the value is its spelling on the command line.

    `NPU_FIRST`: the NPU has all that it takes. `COST`: operators that cost more there than on the CPU, with what is
    copied for them, stay on the CPU.
    """

    NPU_FIRST = "npu-first"
    COST = "cost"


class Activations(Enum):
    """Of what dtype the values between operators are; the value is its spelling on the command line."""

    INT8 = "int8"
    INT16 = "int16"


_NEUTRON_ALONE = ("converter", "dump_kernel_selection_code", "intermediates", "verify_each")
"""Options about Deuteron's own compiler."""

_ETHOSU_ALONE = ("weights",)
"""Quantisations that ExecuTorch's Arm backend alone has."""


_MEASURING = ("equalise", "correct_biases", "min_sqnr")
"""Options for models that are quantised as they are, for which the calibration is read more than once."""


class WeightValues(Enum):
    """What values weights have; the value is its spelling on the command line."""

    INT8 = "int8"
    INT4 = "int4"


class CalibrationMethod(Enum):
    """How the range of a tensor is chosen from the values of the calibration; the value is its spelling.

    `HISTOGRAM`: PyTorch's search, which narrows the range of all values until the error grows. `MINMAX`: all values.
    `PERCENTILE`: all but a 20,000th at either end. `MSE`: of all ranges the one with the least mean square of errors.
    """

    HISTOGRAM = "histogram"
    MINMAX = "minmax"
    PERCENTILE = "percentile"
    MSE = "mse"


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Options of `deuteron.build`.

    Attributes:
        converter: whose converter makes the microcode.
        partition: what decides between NPU and CPU.
        activations: of how many bits activations are, on targets without an NPU, where what 16 bits lack has 8, and on
            an Ethos-U.
        weights: what values they have; those of 4 bits for an Ethos-U alone.
        calibration_method: how ranges of activations of int8 are chosen.
        equalise: bring channels between layers to like ranges.
        correct_biases: take off the layers' biases by how much rounding moves the means of their results.
        min_sqnr: signal to quantisation noise, in dB, that each output has at least on the calibration: the layers at
            which int8 loses most get activations of 16 bits, as few as that takes. None for all in int8.
        operators_not_to_delegate: edge operators kept on the CPU, named as ExecuTorch's NXP backend names them
            (`aten_convolution_default`; `aten::convolution` style colons are accepted).
        remove_quant_io_ops: leave quantising inputs and dequantising outputs to the application; the program's inputs
            and outputs are then int8.
        use_qat: train the model with quantisation in it, by a function that the build is given.
        use_profiling: make microcode that records when each kernel starts and stops.
        memory: how the program may use the memories of the target.
        vela: what Vela is told where the NPU is an Ethos-U.
        dump_kernel_selection_code: also write each partition's kernel selection file.
        intermediates: also write each partition's converted TFLite file and microcode.
        verify_each: verify the graph after every compiler pass.
        force: replace an existing build directory.
    """

    converter: Converter = Converter.OPEN
    partition: Partitioning = Partitioning.NPU_FIRST
    activations: Activations = Activations.INT8
    weights: WeightValues = WeightValues.INT8
    calibration_method: CalibrationMethod = CalibrationMethod.HISTOGRAM
    equalise: bool = False
    correct_biases: bool = False
    min_sqnr: float | None = None
    operators_not_to_delegate: tuple[str, ...] = ()
    remove_quant_io_ops: bool = False
    use_qat: bool = False
    use_profiling: bool = False
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    vela: VelaOptions = field(default_factory=VelaOptions)
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

        if self.min_sqnr is not None and not 0 < self.min_sqnr <= MOST:
            raise OptionError(f"`--min-sqnr {self.min_sqnr:g}` is not above 0 and at most {MOST:g} dB")

    @property
    def measuring(self) -> str | None:
        """The name of an option that measures on the calibration, and so reads it again, if there is one."""
        return next((name for name in _MEASURING if getattr(self, name)), None)

    def check(self, arch: Arch) -> None:
        """Check that the options mean something for a target, and ask for no more than it has.

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
                    f"`{name}` is for programs of a Neutron, the NPU of `{arch.name}` is an Arm Ethos-U"
                    if uses_vela
                    else f"`{name} {getattr(self, option).value}` is for targets with an Arm Ethos-U alone, "
                    f"`{arch.name}` has none",
                    hint="leave it out",
                )
        if uses_vela and arch.cpu.operators is CpuOperators.CORTEX_M:
            portable = sibling(arch, CpuOperators.PORTABLE)
            for option in ("activations", "weights"):
                if (value := getattr(self, option)) != getattr(BuildOptions(), option):
                    raise OptionError(
                        f"`--{option} {value.value}` is for an Ethos-U alone, and the CPU of `{arch.name}` takes parts "
                        "of a model in int8",
                        hint=f"build for `{portable.name}`" if portable else "leave it out",
                    )
        if self.use_qat and self.calibration_method is not CalibrationMethod.HISTOGRAM:
            raise OptionError(
                f"`--use-qat` and `--calibration-method {self.calibration_method.value}` do not go together: ranges "
                "move with those of the training",
                hint="leave out one of the two",
            )
        if self.min_sqnr is not None:
            self._check_mixed(arch)
        if self.use_qat and (named := self.measuring):
            raise OptionError(
                f"`--use-qat` and `--{named.replace('_', '-')}` do not go together: training learns what that mends",
                hint="leave out one of the two",
            )
        if (self.activations, self.weights) == (Activations.INT16, WeightValues.INT4):
            raise OptionError(
                "`--activations int16` and `--weights int4` do not go together: ExecuTorch quantises to either",
                hint="leave out one of the two",
            )

    def _check_mixed(self, arch: Arch) -> None:
        """Check that a target has activations of 8 and of 16 bits in one program."""
        has_int16_npu = arch.npu is not None and arch.npu.has_int16
        if arch.cpu.operators is not CpuOperators.CORTEX_M or has_int16_npu:
            raise OptionError(
                f"`--min-sqnr` gives some layers activations of 16 bits, for which `{arch.name}` has no operators "
                "beside those of 8",
                hint="build for a target whose CPU has them, such as `cortex-m55` or `imxrt700cm`"
                + (", or all with `--activations int16`" if has_int16_npu else ""),
            )
        if self.activations is Activations.INT16:
            raise OptionError(
                "`--min-sqnr` and `--activations int16` do not go together: all that can have 16 bits has them",
                hint="leave out one of the two",
            )

    def _check_wide(self, arch: Arch) -> None:
        """Check that a target has activations of 16 bits, and nothing else is asked for that has not."""
        if arch.npu is not None:
            raise OptionError(
                f"`--activations int16` is for a CPU alone or an Arm Ethos-U, and `{arch.name}` has a Neutron",
                hint="build for one of them, such as `cortex-m55`, or with activations of int8",
            )
        if self.use_qat:
            raise OptionError(
                "`--use-qat` trains for activations of int8",
                hint="leave out one of `--use-qat` and `--activations int16`, which rounds activations 256 times finer",
            )

    def to_json(self) -> dict[str, object]:
        """The options as JSON values."""
        options: dict[str, object] = asdict(self)
        options["converter"] = self.converter.value
        options |= {name: getattr(self, name).value for name in _CHOICES}
        options["operators_not_to_delegate"] = list(self.operators_not_to_delegate)
        options["memory"] = self.memory.to_json()
        options["vela"] = self.vela.to_json()
        return options

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Self:
        """The options that `to_json` wrote.

        Raises:
            FormatError: on an unknown name or a value of the wrong type.
        """
        options: dict[str, object] = {}
        known = {field.name for field in fields(cls)}
        for name, value in data.items():
            if name not in known:
                raise FormatError(
                    f"unknown build option `{name}`", hint="it was written by another version of Deuteron"
                )
            options[name] = _value(name, value)
        return cls(**options)  # pyright: ignore[reportArgumentType]  # each value has been checked by _value


_CHOICES: Mapping[str, type[Enum]] = {
    "partition": Partitioning,
    "activations": Activations,
    "weights": WeightValues,
    "calibration_method": CalibrationMethod,
}


def _value(name: str, value: object) -> object:
    """The checked value of one option."""
    if name == "converter" and isinstance(value, str):
        return Converter.parse(value)
    if name in _CHOICES:
        with suppress(ValueError):
            return _CHOICES[name](value)
    if name == "operators_not_to_delegate" and isinstance(value, list | tuple):
        items = tuple(cast("Sequence[object]", value))
        if all(isinstance(item, str) for item in items):
            return items
    if name == "memory" and isinstance(value, Mapping):
        with suppress(ValueError):
            return MemoryOptions.from_json(cast("Mapping[str, object]", value))
    if name == "vela" and isinstance(value, Mapping):
        with suppress(ValueError):
            return VelaOptions.from_json(cast("Mapping[str, object]", value))
    if name == "min_sqnr" and (value is None or isinstance(value, int | float)) and not isinstance(value, bool):
        return value
    if isinstance(value, bool) and isinstance(getattr(BuildOptions(), name), bool):
        return value
    raise FormatError(f"build option `{name}` cannot be {value!r}")
