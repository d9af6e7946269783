"""Runs Vela on a TFLite file, in a separate process."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deuteron.arch.targets import EthosU
from deuteron.arch.vela import DEFAULTS, VelaOptions
from deuteron.errors import UnsupportedError
from deuteron.extras import require
from deuteron.tflite.flat_model import Buffer

_MAIN = "from ethosu.vela.vela import main; main()"
_TIME_OUT = 1800
"""Seconds until Vela counts as hung."""

_FAULT = re.compile(r"^\s*(?:Error|ERROR)\b:?\s*(?!processing line \d+ of )(.*)$", re.MULTILINE)
"""A line about something that is wrong; Vela's exit code is 0 all the same.

Python's own line about a `.pth` file that does not load is none.
"""

_LEFT = re.compile(
    r"^Warning \(supported operators\) operator: \w+, ofm: '(?P<tensor>.*)'\nReason: (?P<why>.*)$", re.MULTILINE
)
"""Vela's warning about an operator that it leaves to the CPU."""


@dataclass(frozen=True, slots=True)
class VelaResult:
    """The result of Vela for a file.

    Attributes:
        file: the TFLite file, in which partitions are custom operators.
        left: why Vela leaves an operator to the CPU, by the name of the tensor that it writes.
    """

    file: bytes
    left: Mapping[str, str]


def compile_file(source: Buffer, npu: EthosU, options: VelaOptions) -> VelaResult:
    """Return the file that Vela makes of a TFLite file.

    Raises:
        MissingToolError: Vela is not installed.
        UnsupportedError: Vela does not compile the file; in its words.
    """
    require("ethos-u", "ethosu", f"a build for `{npu.name}`")
    system, mode = DEFAULTS[npu.family]
    with tempfile.TemporaryDirectory(prefix="deuteron-vela-") as scratch:
        path, out = Path(scratch) / "model.tflite", Path(scratch) / "out"
        path.write_bytes(source)
        command = [
            sys.executable, "-c", _MAIN, str(path),
            f"--accelerator-config={npu.target}",
            f"--config={Path(options.vela_config).absolute() if options.vela_config else 'Arm/vela.ini'}",
            f"--system-config={options.vela_system_config or system}",
            f"--memory-mode={options.memory_mode or mode}",
            f"--optimise={options.optimise.value}",
            f"--output-dir={out}",
        ]  # fmt: skip
        if options.arena_cache_size is not None:
            command.append(f"--arena-cache-size={options.arena_cache_size}")
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=_TIME_OUT, check=False, cwd=scratch
            )
        except subprocess.TimeoutExpired:
            raise _refused(f"Vela did not end within {_TIME_OUT} s") from None
        said = done.stdout + done.stderr
        if fault := _FAULT.search(said):
            raise _refused(f"Vela does not compile the file, and says: {fault[1].strip()}")
        made = out / "model_vela.tflite"
        if done.returncode or not made.is_file():
            lines = [line.strip() for line in said.splitlines() if line.strip()]
            last = lines[-1] if lines else f"it ended with {done.returncode} and said nothing"
            raise _refused(f"Vela does not compile the file: {last}")
        left = {match["tensor"]: match["why"].strip() for match in _LEFT.finditer(said)}
        return VelaResult(made.read_bytes(), left)


def _refused(message: str) -> UnsupportedError:
    return UnsupportedError(message, hint="build for the CPU alone, such as `--target cortex-m55`")
