"""Runs Vela on a TFLite file, in a separate process, with what Vela would compile wrongly hidden from it."""

import csv
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path

from deuteron.arch.targets import Arch, EthosU
from deuteron.arch.vela import DEFAULTS, VelaOptions
from deuteron.errors import UnsupportedError
from deuteron.extras import require
from deuteron.native import cache_directory
from deuteron.npu.ethosu.vela_process import run_vela
from deuteron.runtime import tflite_ethosu, tflite_model, vela_hidden
from deuteron.tflite.decode import decode
from deuteron.tflite.flat_model import Buffer

_MOST_KEPT = 400
"""Results in the cache; older ones are removed."""

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
        summary: Vela's estimates by the names of their columns.
        given: the name of the tensor that each operator of the file writes first, as Vela got them.
        database: Vela's debug database.
    """

    file: bytes
    left: Mapping[str, str]
    summary: Mapping[str, str] = field(default_factory=dict[str, str])
    given: tuple[str, ...] = ()
    database: str = ""

    def figure(self, name: str) -> int:
        """Return an estimate as a whole number, 0 if Vela gives none."""
        try:
            return round(float(self.summary.get(name, "0") or 0))
        except ValueError:
            return 0


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
            str(path),
            f"--accelerator-config={npu.target}",
            f"--config={Path(options.vela_config).absolute() if options.vela_config else 'Arm/vela.ini'}",
            f"--system-config={options.vela_system_config or system}",
            f"--memory-mode={options.memory_mode or mode}",
            f"--optimise={options.optimise.value}",
            f"--output-dir={out}",
            "--enable-debug-db",
        ]  # fmt: skip
        if options.arena_cache_size is not None:
            command.append(f"--arena-cache-size={options.arena_cache_size}")
        done = run_vela(command, Path(scratch))
        if done.fault:
            raise _refused(f"Vela does not compile the file, and says: {done.fault}")
        if done.failure:
            raise _refused(f"{done.failure}; it does not compile the file")
        made = out / "model_vela.tflite"
        if not made.is_file():
            raise _refused("Vela does not compile the file, and does not say why")
        left = {match["tensor"]: match["why"].strip() for match in _LEFT.finditer(done.output)}
        rows = [row for path in out.glob("*_summary_*.csv") for row in csv.DictReader(path.read_text().splitlines())]
        database = "".join(path.read_text("utf-8", "replace") for path in out.glob("*_debug.xml"))
        model = decode(source, partial=True)
        given = tuple(model.tensors[op.outputs[0]].name if op.outputs else "" for op in model.operators)
        return VelaResult(made.read_bytes(), left, rows[-1] if rows else {}, given, database)


def compile_cached(source: Buffer, npu: EthosU, options: VelaOptions) -> VelaResult:
    """Return `compile_file`, from the cache of this machine if it has been done before."""
    config = Path(options.vela_config).read_bytes() if options.vela_config else b""
    seed = repr((version("ethos-u-vela"), npu.target, options)).encode()
    key = hashlib.sha256(hashlib.sha256(bytes(source)).digest() + hashlib.sha256(config).digest() + seed).hexdigest()
    folder = cache_directory() / "vela"
    kept = folder / f"{key[:32]}.json"
    try:
        entry = json.loads(kept.read_text("utf-8"))
        result = VelaResult(**{field.name: entry[field.name] for field in fields(VelaResult)})
        return replace(result, file=bytes.fromhex(entry["file"]), given=tuple(entry["given"]))
    except (OSError, ValueError, LookupError, TypeError):  # not there, or damaged
        result = compile_file(source, npu, options)
    text = json.dumps(asdict(result) | {"file": result.file.hex()})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".new-", delete=False) as fresh:
            fresh.write(text)
        Path(fresh.name).replace(kept)
        for old in sorted(folder.glob("*.json"), key=os.path.getmtime)[:-_MOST_KEPT]:
            old.unlink(missing_ok=True)
    except OSError:
        pass  # without a cache it only takes longer
    return result


def _refused(message: str) -> UnsupportedError:
    return UnsupportedError(message, hint="build for the CPU alone, such as `--target cortex-m55`")


def by_vela(
    prepared: tflite_model.Prepared,
    arch: Arch,
    options: VelaOptions,
    on_cpu: Collection[str] = (),
    *,
    is_cached: bool = False,
) -> VelaResult:
    """Compile the file with Vela; if Vela stops, the file without operators that it never takes.

    If it loses inputs or outputs, also without the operators that write and read them. Always without the operators
    that write the tensors of these names.
    """
    vela_hidden.check_names(prepared.model)
    npu, model = arch.need_ethosu(), prepared.model
    compiled = compile_cached if is_cached else compile_file
    try:
        result = compiled(tflite_ethosu.for_vela(model, prepared.file, on_cpu), npu, options)
    except UnsupportedError:
        if (file := vela_hidden.hidden(model, on_cpu=on_cpu)) is None:
            raise
        result = compiled(file, npu, options)
    lost = vela_hidden.lost(model, decode(result.file, partial=True))
    if lost and (file := vela_hidden.hidden(model, lost, on_cpu)) is not None:
        result = compiled(file, npu, options)
        lost = vela_hidden.lost(model, decode(result.file, partial=True))
    if lost:
        raise UnsupportedError(
            f"Vela loses the input or output `{model.tensors[lost[0]].name}` of the file, or moves it",
            hint="build for the CPU alone, such as `--target cortex-m55`",
        )
    return result
