"""Stand-ins for Arm's simulators that ExecuTorch's tests and scripts start (FVPs): their names and command line.

A program runs in ExecuTorch's runtime on this machine with our backends; what it computes is what the simulator would,
bit for bit, but nothing is said of time. The image that a simulator would boot is never read: the name of its folder
tells which operators ExecuTorch's build of it has on the CPU, and how much memory.
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
_HOW = "start the simulator as ExecuTorch's `backends/arm/test/runner_utils.py` does"

_ALWAYS = ("quantized_decomposed::", "cortex_m::")
"""What the names of the operators begin with that every build of ExecuTorch's runner has."""

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
"""What ExecuTorch's `backends/arm/test/setup_testing.sh` adds to the runners that it calls `portable-ops`."""

_RUNNER = re.compile(
    r"arm_semihosting_executor_runner_(?P<portable>portable-ops_)?(?P<board>corstone-(300|300-u65|320))"
)
"""What those of Ethos-U are called; the runners of other tests have other operators."""

_SCRATCH_BYTES = {"corstone-300": 2 << 20, "corstone-300-u65": 64 << 20, "corstone-320": 64 << 20}
"""What those reserve for the scratch memory of a partition, by their memory mode: `Shared_Sram` or `Dedicated_Sram`."""

_IMAGE = "Stands for ExecuTorch's runner, which Deuteron's stand-in for the simulator does not boot.\n"


@dataclass(frozen=True, slots=True)
class Fvp:
    """A simulator that has a stand-in.

    Attributes:
        name: of Arm's program.
        npu: as Vela spells it.
        macs: of its NPU unless a setting says otherwise.
        system: what its settings' names begin with.
        board: what ExecuTorch calls its builds for it.
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
"""All of them."""


def fvp(name: str) -> Fvp:
    """The simulator of that name; OptionError for another."""
    for one in FVPS:
        if one.name == name:
            return one
    known = ", ".join(f"`{one.name}`" for one in FVPS)
    raise OptionError(f"there is no stand-in for a simulator `{name}`", hint=f"there are stand-ins for {known}")


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a command line asks for.

    Attributes:
        folder: with the files that the others name.
        program: a `.pte`.
        inputs: files with the bytes of each input.
        output: what the files with the results are called, before `-<number>.bin`.
        image: what the simulator would boot.
        accelerator: the NPU's configuration, by Vela's name.
        seconds: when the simulator would give up; None for never.
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
        """What the words of a simulator's command line ask for; settings without effect on results are left out.

        Raises:
            OptionError: an argument is unknown, or one that the run needs is missing or wrong.
        """
        options, settings = _options(words)
        program, inputs, output = _runner_options(_setting(settings, f"{simulator.system}{_SEMIHOSTING}cmd_line"))
        name = f"{simulator.system}ethosu.num_macs"
        macs = settings.get(name, str(simulator.macs))
        accelerator = f"{simulator.npu}-{macs}"
        sizes = [config.name.rpartition("-")[2] for config in CONFIGS if config.name.startswith(f"{simulator.npu}-")]
        if sizes and macs not in sizes:
            raise OptionError(
                f"`{name}={macs}` is no size of an {_title(simulator.npu)}", hint=f"allowed are {', '.join(sizes)}"
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
    """How many outputs a simulation has, which are written.

    Raises:
        InputError: a file is missing, or the program fails on these inputs or does not end in time.
        UnsupportedError: the program is for another accelerator, or the image lacks operators of it.
        CapacityError: the image has less memory than it needs.
        InternalError: what runs the program crashes.
    """
    outputs = on_host(simulation, runner())
    for i, data in enumerate(outputs):
        simulation.write(i, data)
    return len(outputs)


def on_host(simulation: Simulation, runner: Path) -> list[bytes]:
    """The outputs of ExecuTorch's runtime on this machine; errors are those of `run`."""
    if not simulation.image.is_file():
        raise InputError(
            f"there is no image `{simulation.image}`", hint="`deuteron fvp install` writes what stands for it"
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
                message = f"the program that runs it ended with status {done.returncode}{why}"
                raise InternalError(message, where=simulation.program)
            raise InputError(said[0], where=simulation.program)
        return [path.read_bytes() for path in sorted(Path(scratch).glob("[0-9]*.bin"))]


def version(simulator: Fvp) -> str:
    """What a stand-in says of itself."""
    return (
        f"deuteron-fvp {deuteron.__version__}, a stand-in for Arm's {simulator.name}\n"
        "It runs .pte files in ExecuTorch's runtime on this computer: results bit for bit, no cycles, no firmware."
    )


def install(folder: Path, *, force: bool = False) -> tuple[Path, ...]:
    """Programs with the simulators' names, written into `folder` with what stands for the images that they would boot.

    `folder` is for PATH, and for the EXECUTORCH_ROOT below which ExecuTorch's tests look for images.

    Raises:
        OptionError: a program or image of that name is there, and not to be replaced.
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
    """The options with a value, and the settings that `-C` gives."""
    options: dict[str, str] = {}
    settings: dict[str, str] = {}
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name not in _VALUED:
            raise OptionError(f"unknown argument `{word}`", hint=f"the stand-in takes {', '.join(sorted(_VALUED))}")
        value = value if equals else next(left, "")
        if not value:
            raise OptionError(f"`{word}` has no value", hint=_HOW)
        if _VALUED[name] != "-C":
            options[_VALUED[name]] = value
            continue
        setting, equals, value = value.partition("=")
        if not equals:
            raise OptionError(f"`-C {setting}` sets nothing", hint=f"write `-C {setting}=VALUE`")
        settings[setting] = value
    return options, settings


def _setting(settings: dict[str, str], name: str) -> str:
    """A setting that has to be there, without the quotes that a simulator takes off."""
    if name not in settings:
        raise OptionError(
            f"the setting `{name}` is missing: the stand-in runs programs that the runner reads from this computer's "
            "files, none that is part of an image",
            hint=f"build the runner with `--pte=semihosting`, and {_HOW}",
        )
    value = settings[name]
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _runner_options(line: str) -> tuple[str, tuple[str, ...], str]:
    """The program, the inputs and the outputs' name in the command line of ExecuTorch's runner."""
    try:
        words = shlex.split(line)[1:]
    except ValueError as error:
        message = f"the runner's command line cannot be read, {error}: `{line}`"
        raise OptionError(message, hint=_HOW) from error
    pairs = list(zip(words[::2], words[1::2], strict=False))
    unknown = [name for name, _ in pairs if name not in ("-m", "-i", "-o")]
    if len(words) % 2 or unknown:
        raise OptionError(
            f"the runner's command line has an unknown option `{(unknown or words)[-1]}`: `{line}`", hint=_HOW
        )
    named = dict(pairs)
    for name, what in (("-m", "program"), ("-o", "name of the outputs")):
        if name not in named:
            raise OptionError(f"the runner's command line has no {what}, `{name}`: `{line}`", hint=_HOW)
    return named["-m"], tuple(value for name, value in pairs if name == "-i"), named["-o"]


def _seconds(limit: str | None) -> float | None:
    try:
        return None if limit is None else float(limit)
    except ValueError:
        raise OptionError(f"`--timelimit {limit}` is no number of seconds", hint=_HOW) from None


def _title(npu: str) -> str:
    return npu.replace("ethos-u", "Ethos-U")


def _build_of(image: Path) -> re.Match[str] | None:
    """Which of ExecuTorch's builds for its tests an image is, by its folder; None for others."""
    return next(filter(None, map(_RUNNER.fullmatch, image.parts)), None)


def _check_operators(simulation: Simulation, method: Method) -> None:
    """Refuse operators that ExecuTorch's build of the image lacks; images of others have all that this computer has."""
    build = _build_of(simulation.image)
    if build is None:
        return
    allowed = _PORTABLE[build["board"]] if build["portable"] else frozenset[str]()
    lacking = sorted({name for name in method.operators if name not in allowed and not name.startswith(_ALWAYS)})
    if lacking:
        raise UnsupportedError(
            f"ExecuTorch's runner for its tests, `{build[0]}`, has no {', '.join(f'`{name}`' for name in lacking)}",
            where=simulation.program,
            hint="boot an image in a folder of another name: it is taken to have every operator",
        )


def _check_partitions(simulation: Simulation, method: Method) -> None:
    """Refuse partitions for another accelerator than the simulator's, or for more memory than the image's build has."""
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
                hint="boot an image in a folder of another name: it is taken to have enough",
            )
