"""Substitutes for Arm's simulators (FVPs) that ExecuTorch's tests and scripts start: names and command line.

A program runs in ExecuTorch's runtime on this machine with our backends. Its outputs equal the simulator's bit for
bit; no cycles are counted. The simulator's image is never read: its folder's name determines which CPU operators
ExecuTorch's build of it has, and how much memory.
"""

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import deuteron
from deuteron.builds.output import check_file, write_files
from deuteron.errors import CapacityError, InputError, InternalError, OptionError, UnsupportedError, unwritable
from deuteron.native import runner
from deuteron.npu.ethosu import blob, stream
from deuteron.npu.ethosu.isa import CONFIGS
from deuteron.runtime import pte
from deuteron.runtime.program import Method

_VALUED = {"-C": "-C", "--parameter": "-C", "-a": "-a", "--application": "-a", "--timelimit": "--timelimit"}
_SEMIHOSTING = "cpu0.semihosting-"
_START_HINT = "start the simulator as ExecuTorch's `backends/arm/test/runner_utils.py` does"

_ALWAYS = ("quantized_decomposed::", "cortex_m::")
"""Name prefixes of operators in every build of ExecuTorch's runner."""

_SHARED = frozenset(
    (
        "aten::_native_batch_norm_legit_no_training.out",
        "aten::as_strided_copy.out",
        "aten::convolution.out",
        "aten::mean.out",
        "aten::permute_copy.out",
        "aten::relu.out",
        "aten::where.self_out",
        "dim_order_ops::_to_dim_order_copy.out",
    )
)
_SMALL = _SHARED | frozenset(
    (
        "aten::add.out",
        "aten::arange.start_out",
        "aten::avg_pool2d.out",
        "aten::clamp.out",
        "aten::eq.Tensor_out",
        "aten::expand_copy.out",
        "aten::fmod.Scalar_out",
        "aten::gt.Tensor_out",
        "aten::index_select.out",
        "aten::logical_not.out",
        "aten::mul.out",
        "aten::squeeze_copy.dims",
        "dim_order_ops::_clone_dim_order.out",
    )
)
_LARGE = _SHARED | frozenset(
    (
        "aten::bmm.out",
        "aten::copy_",
        "aten::full_like.out",
        "aten::index.Tensor_out",
        "aten::scalar_tensor.out",
    )
)
_PORTABLE = {"corstone-300": _SMALL, "corstone-300-u65": _SMALL, "corstone-320": _LARGE}
"""Operators that ExecuTorch's `backends/arm/test/setup_testing.sh` adds to its `portable-ops` runners."""

_RUNNER = re.compile(
    r"arm_semihosting_executor_runner_(?P<portable>portable-ops_)?(?P<board>corstone-(300|300-u65|320))"
)
"""Names of the runners for Ethos-U; the runners of other tests have other operators."""

_SCRATCH_BYTES = {"corstone-300": 2 << 20, "corstone-300-u65": 64 << 20, "corstone-320": 64 << 20}
"""Scratch memory that those runners reserve, by their memory mode: `Shared_Sram` or `Dedicated_Sram`."""

_IMAGE = "Placeholder for ExecuTorch's runner, which Deuteron's substitute for the simulator does not boot.\n"


@dataclass(frozen=True, slots=True)
class Fvp:
    """A simulator with a substitute.

    Attributes:
        name: Arm's name of the program.
        npu: Vela's name of the NPU.
        macs: MACs of its NPU unless a setting overrides it.
        system: prefix of its settings' names.
        board: ExecuTorch's name for its builds.
    """

    name: str
    npu: str
    macs: int
    system: str
    board: str


FVPS = (
    Fvp("FVP_Corstone_SSE-300_Ethos-U55", "ethos-u55", 128, "", "corstone-300"),
    Fvp("FVP_Corstone_SSE-300_Ethos-U65", "ethos-u65", 256, "", "corstone-300-u65"),
    Fvp("FVP_Corstone_SSE-320", "ethos-u85", 256, "mps4_board.subsystem.", "corstone-320"),
)
"""All simulators with a substitute."""


def fvp(name: str) -> Fvp:
    """Return the Arm FVP of a name that Deuteron can replace; raise OptionError for another name."""
    for one in FVPS:
        if one.name == name:
            return one
    known = ", ".join(f"`{one.name}`" for one in FVPS)
    raise OptionError(f"there is no substitute for a simulator `{name}`", hint=f"there are substitutes for {known}")


@dataclass(frozen=True, slots=True)
class Simulation:
    """A parsed command line.

    Attributes:
        folder: base directory of the other paths.
        program: a `.pte`.
        inputs: files with the bytes of each input.
        output: prefix of the output files, before `-<number>.bin`.
        image: image that the simulator would boot.
        accelerator: Vela's name of the NPU's configuration.
        seconds: time limit of the simulator; None for no limit.
    """

    folder: Path
    program: str
    inputs: tuple[str, ...]
    output: str
    image: Path
    accelerator: str
    seconds: float | None

    @classmethod
    def of(cls, simulator: Fvp, words: Sequence[str]) -> "Simulation":
        """Parse a simulator's command line; settings without effect on results are ignored.

        Raises:
            OptionError: an argument is unknown, or a required one is missing or wrong.
        """
        options, settings = _options(words)
        program, inputs, output = _runner_options(_setting(settings, f"{simulator.system}{_SEMIHOSTING}cmd_line"))
        name = f"{simulator.system}ethosu.num_macs"
        macs = settings.get(name, str(simulator.macs))
        accelerator = f"{simulator.npu}-{macs}"
        sizes = [config.name.rpartition("-")[2] for config in CONFIGS if config.name.startswith(f"{simulator.npu}-")]
        if sizes and macs not in sizes:
            raise OptionError(
                f"`{name}={macs}` is not a size of an {_title(simulator.npu)}", hint=f"allowed are {', '.join(sizes)}"
            )
        if "-a" not in options:
            raise OptionError("the image that the simulator boots is missing", hint="give it with `-a`")
        return cls(
            Path(_setting(settings, f"{simulator.system}{_SEMIHOSTING}cwd")), program, inputs, output,
            Path(options["-a"]), accelerator, _seconds(options.get("--timelimit")),
        )  # fmt: skip

    def write(self, index: int, data: bytes) -> None:
        """Write the bytes of an output."""
        (self.folder / f"{self.output}-{index}.bin").write_bytes(data)


def run(simulation: Simulation) -> int:
    """Run a simulation, write its outputs, and return their number.

    Raises:
        InputError: a file is missing, or the program fails on these inputs or exceeds the time limit.
        UnsupportedError: the program is for another accelerator, or the image lacks operators.
        CapacityError: the image has too little memory.
        InternalError: the runner crashes.
    """
    outputs = on_host(simulation, runner())
    for i, data in enumerate(outputs):
        simulation.write(i, data)
    return len(outputs)


def on_host(simulation: Simulation, runner: Path) -> list[bytes]:
    """Return the outputs of ExecuTorch's runtime on this machine; raises the errors of `run`."""
    if not simulation.image.is_file():
        raise InputError(
            f"there is no image `{simulation.image}`", hint="`deuteron fvp install` writes a placeholder for it"
        )
    source = simulation.folder / simulation.program
    try:
        program = pte.read(source.read_bytes(), simulation.program)
    except OSError as error:
        raise InputError(f"cannot read the program: {error.strerror}", where=str(source)) from error
    if missing := [name for name in simulation.inputs if not (simulation.folder / name).is_file()]:
        raise InputError(f"there is no input `{missing[0]}`", where=str(simulation.folder))
    for method in program.methods:
        _check_operators(simulation, method)
        _check_partitions(simulation, method)
    with tempfile.TemporaryDirectory() as scratch:
        names = ("--model", simulation.program, "--inputs", ",".join(simulation.inputs), "--output", scratch)
        try:
            done = subprocess.run(
                (runner, *names),
                cwd=simulation.folder, capture_output=True, text=True, check=False, timeout=simulation.seconds,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            message = f"the program still ran after {simulation.seconds:g} s, the `--timelimit`"
            raise InputError(message, where=simulation.program, hint="give a longer `--timelimit`") from error
        if done.returncode:
            said = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")]
            if not said:
                why = "".join(f": {line}" for line in done.stderr.splitlines()[:1])
                message = f"the runner ended with status {done.returncode}{why}"
                raise InternalError(message, where=simulation.program)
            raise InputError(said[0], where=simulation.program)
        return [path.read_bytes() for path in sorted(Path(scratch).glob("[0-9]*.bin"))]


def version(simulator: Fvp) -> str:
    """Return the version text of a substitute."""
    return (
        f"deuteron-fvp {deuteron.__version__}, a substitute for Arm's {simulator.name}\n"
        "It runs .pte files in ExecuTorch's runtime on this computer: results bit for bit, no cycles, no firmware."
    )


def install(folder: Path, *, force: bool = False) -> tuple[Path, ...]:
    """Write programs with the simulators' names and placeholders for their images into `folder`; return their paths.

    `folder` goes on PATH, and into EXECUTORCH_ROOT, below which ExecuTorch's tests look for images.

    Raises:
        OptionError: a program or image of that name exists and must not be replaced.
        InputError: the folder cannot be written.
    """
    programs = {
        folder
        / one.name: f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m deuteron.cli.fvp_program {one.name} "$@"\n'
        for one in FVPS
    }
    images = {
        folder / "arm_test" / f"arm_semihosting_executor_runner_{kind}{one.board}" / "arm_executor_runner": _IMAGE
        for one in FVPS
        for kind in ("", "portable-ops_")
    }
    for path in (*programs, *images):
        if path.parent.is_dir():
            check_file(path, force=force)
    try:
        for path in images:
            path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    write_files({path: text.encode() for path, text in (images | programs).items()})
    for path in programs:
        path.chmod(0o755)
    return tuple(programs)


def _options(words: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options with values, and the settings of `-C`."""
    options: dict[str, str] = {}
    settings: dict[str, str] = {}
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name not in _VALUED:
            raise OptionError(f"unknown argument `{word}`", hint=f"the substitute takes {', '.join(sorted(_VALUED))}")
        value = value if equals else next(left, "")
        if not value:
            raise OptionError(f"`{word}` has no value", hint=_START_HINT)
        if _VALUED[name] != "-C":
            options[_VALUED[name]] = value
            continue
        setting, equals, value = value.partition("=")
        if not equals:
            raise OptionError(f"`-C {setting}` sets nothing", hint=f"write `-C {setting}=VALUE`")
        settings[setting] = value
    return options, settings


def _setting(settings: dict[str, str], name: str) -> str:
    """Return a required setting, without quotes, as a simulator reads it."""
    if name not in settings:
        raise OptionError(
            f"the setting `{name}` is missing: the substitute runs programs from this computer's "
            "files, not programs inside an image",
            hint=f"build the runner with `--pte=semihosting`, and {_START_HINT}",
        )
    value = settings[name]
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _runner_options(line: str) -> tuple[str, tuple[str, ...], str]:
    """Parse the program, the inputs and the outputs' name from the command line of ExecuTorch's runner."""
    try:
        words = shlex.split(line)[1:]
    except ValueError as error:
        message = f"the runner's command line cannot be read, {error}: `{line}`"
        raise OptionError(message, hint=_START_HINT) from error
    pairs = list(zip(words[::2], words[1::2], strict=False))
    unknown = [name for name, _ in pairs if name not in ("-m", "-i", "-o")]
    if len(words) % 2 or unknown:
        raise OptionError(
            f"the runner's command line has an unknown option `{(unknown or words)[-1]}`: `{line}`", hint=_START_HINT
        )
    named = dict(pairs)
    for name, what in (("-m", "program"), ("-o", "name of the outputs")):
        if name not in named:
            raise OptionError(f"the runner's command line has no {what}, `{name}`: `{line}`", hint=_START_HINT)
    return named["-m"], tuple(value for name, value in pairs if name == "-i"), named["-o"]


def _seconds(limit: str | None) -> float | None:
    try:
        return None if limit is None else float(limit)
    except ValueError:
        raise OptionError(f"`--timelimit {limit}` is no number of seconds", hint=_START_HINT) from None


def _title(npu: str) -> str:
    return npu.replace("ethos-u", "Ethos-U")


def _build_of(image: Path) -> re.Match[str] | None:
    """Match an image's folder with the names of ExecuTorch's test builds; None for others."""
    return next(filter(None, map(_RUNNER.fullmatch, image.parts)), None)


def _check_operators(simulation: Simulation, method: Method) -> None:
    """Reject operators that ExecuTorch's build of the image lacks; other images have all operators of this computer."""
    build = _build_of(simulation.image)
    if build is None:
        return
    allowed = _PORTABLE[build["board"]] if build["portable"] else frozenset[str]()
    lacking = sorted({name for name in method.operators if name not in allowed and not name.startswith(_ALWAYS)})
    if lacking:
        raise UnsupportedError(
            f"ExecuTorch's runner for its tests, `{build[0]}`, has no {', '.join(f'`{name}`' for name in lacking)}",
            where=simulation.program,
            hint="use an image in a folder of another name: it is assumed to have all operators",
        )


def _check_partitions(simulation: Simulation, method: Method) -> None:
    """Reject partitions for another accelerator than the simulator's, or for more memory than the image's build has."""
    build = _build_of(simulation.image)
    for i, delegate in enumerate(method.delegates):
        if not blob.is_ours(delegate.id):
            continue
        where = f"{simulation.program}, delegate {i}"
        partition = blob.parse(delegate.payload, where)
        name = stream.config_of(partition.command_data, where).name
        if name != simulation.accelerator:
            raise UnsupportedError(
                f"the commands are for {name}, the simulator's NPU is {simulation.accelerator}", where=where,
                hint="lower the model for the simulator's NPU, or start the simulator of the model's NPU with its "
                "`num_macs`",
            )  # fmt: skip
        if build is not None and partition.scratch_bytes > _SCRATCH_BYTES[build["board"]]:
            raise CapacityError(
                f"the partition needs {partition.scratch_bytes:,} B of scratch memory, ExecuTorch's runner for its "
                f"tests, `{build[0]}`, has {_SCRATCH_BYTES[build['board']]:,} B",
                where=where,
                hint="use an image in a folder of another name: it is assumed to have enough",
            )
