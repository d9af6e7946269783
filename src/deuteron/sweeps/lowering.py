"""Lowers the models of a sweep, once for each model, target and set of options; loads no PyTorch.

`deuteron build` lowers a model in its own process: PyTorch's memory is returned, and its side effects end with it.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import cast

import deuteron
from deuteron import errors
from deuteron.board.build_directory import build_around, build_directory, is_program, is_tflite
from deuteron.builds import manifest as manifests
from deuteron.builds import parameters
from deuteron.builds.output import write_files
from deuteron.errors import CapacityError, DeuteronError, InputError, OptionError, UnsupportedError
from deuteron.sweeps.code_size import CodeSize, code_of
from deuteron.sweeps.spec import BUILD_AXES, Point

BUILDS = "builds"
"""The folder of a sweep's builds."""

REFUSALS = (UnsupportedError, CapacityError, OptionError)
"""Errors that are results of a point and become its row; others may not recur in another run."""

PACKAGES = ("torch", "torchao", "executorch", "ethos-u-vela", "tosa-tools", "ortools", "numpy")
"""Packages that affect lowering, besides Deuteron."""


@dataclass(frozen=True, slots=True)
class BuildJob:
    """A model to lower.

    Attributes:
        key: hash of its inputs; the name of its build.
        sweep: the directory of the sweep.
        folder: base directory of the model's path.
        model: argument of `deuteron build`, a TFLite file, or a build.
        target: a name of a target.
        options: arguments of `deuteron build`.
        code_size: true if the code of its firmware is measured.
    """

    key: str
    sweep: Path
    folder: Path
    model: str
    target: str
    options: tuple[str, ...]
    code_size: bool = False


@dataclass(frozen=True, slots=True)
class SweptBuild:
    """A build of a sweep, or the reason why there is none.

    Attributes:
        directory: its directory.
        key: key of its job; it distinguishes contents of that directory at different times.
        path: path of the directory for commands in the sweep's name.
        why: reason why it cannot be built.
        failed: reason why it failed this time.
        code: code size of its firmware, if it is measured.
    """

    directory: Path
    key: str
    path: str
    why: str = ""
    failed: str = ""
    code: CodeSize = field(default_factory=CodeSize)


@cache
def fingerprint() -> str:
    """Return the identity of this Deuteron: its version, and a hash of its files and of the packages that lower."""
    digest = hashlib.sha256()
    root = Path(deuteron.__file__).parent
    for path in sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        digest.update(f"{path.relative_to(root)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    for package in PACKAGES:
        digest.update(f"{package}\0{_version(package)}\0".encode())
    return f"{deuteron.__version__}+{digest.hexdigest()[:12]}"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def job_of(point: Point, sweep: Path, folder: Path, evaluate: str | None, *, code_size: bool = False) -> BuildJob:
    """Return the job of a point; InputError if its model's path cannot be read."""
    options = [*arguments(point, BUILD_AXES), *(["--evaluate", evaluate] if evaluate else [])]
    digest = hashlib.sha256(repr((point.model, point.target, options, fingerprint())).encode())
    for text in (point.model, evaluate or ""):
        try:
            if "\0" in text:
                raise ValueError("it has a null byte")
            digest.update(_content(_source(folder, parameters.parse(text)[0].partition(":")[0])))
        except (OSError, ValueError) as e:
            why = e.strerror if isinstance(e, OSError) else str(e)
            raise InputError(f"`{text!r:.60}` cannot be read: {why}", hint="`models` and `evaluate` name files") from e
    return BuildJob(digest.hexdigest()[:24], sweep, folder, point.model, point.target, tuple(options), code_size)


def _source(folder: Path, model: str) -> Path:
    """Return the path of a model; for a program inside its build, the build."""
    path = folder / model
    return (build_around(path) if path.suffix == ".pte" else None) or path


def _content(path: Path) -> bytes:
    """Return the content of a file or a build that determines its result; nothing for other paths."""
    path = path / manifests.NAME if path.is_dir() else path
    return hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b""


def make(job: BuildJob) -> SweptBuild:
    """Return the build of a job, from the cache or made now; caches refusals and code sizes too.

    Raises:
        InputError: the build cannot be written.
    """
    made = _made(job)
    if not job.code_size or made.why or made.failed:
        return made
    return replace(made, code=code_of(made.directory, job.sweep / BUILDS / f"{job.key}.code.json"))


def _made(job: BuildJob) -> SweptBuild:
    """Return the build without its code size."""
    made = SweptBuild(job.sweep / BUILDS / job.key, job.key, f"{BUILDS}/{job.key}")
    refusal = made.directory.with_suffix(".refused")
    try:
        source = _source(job.folder, job.model)
        if (source / manifests.NAME).is_file():
            _check_build(job, source)
            return SweptBuild(source, job.key, os.path.relpath(source, job.sweep))
        if made.directory.is_dir():
            return made
        if refusal.is_file():
            return replace(made, why=refusal.read_text("utf-8"))
        if source.suffix in (".tflite", ".pte") and not source.exists():
            return replace(made, why=f"`{job.model}` does not exist")
        _lower(job, source, made.directory)
    except REFUSALS as e:
        write_files({refusal: text_without_hint(e).encode()})
        return replace(made, why=text_without_hint(e))
    except DeuteronError as e:
        return replace(made, failed=text_without_hint(e))
    except OSError as e:
        raise InputError(f"`{made.directory}` cannot be written: {e.strerror or e}") from e
    return made


def _check_build(job: BuildJob, source: Path) -> None:
    """Check that a build fits a point."""
    target = manifests.read(source).target
    if target != job.target:
        raise OptionError(f"`{job.model}` is built for `{target}`")
    if job.options:
        raise OptionError(f"`{job.model}` is built already")


def _lower(job: BuildJob, source: Path, directory: Path) -> None:
    """Write the build of a job under a temporary name first."""
    scratch = Path(tempfile.mkdtemp(prefix=".", dir=directory.parent))
    try:
        fresh = scratch / "build"
        if is_tflite(source) or is_program(source):
            _convert(source, job, fresh)
        else:
            _build(job, fresh)
        try:
            fresh.rename(directory)
        except OSError:
            if not directory.is_dir():  # another worker may have been faster
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _convert(source: Path, job: BuildJob, fresh: Path) -> None:
    """Write the build of a TFLite file or of a program."""
    if job.options:
        raise OptionError(f"`{job.options[0]}` is for PyTorch models; `{job.model}` is not one")
    directory = build_directory(source, job.target)
    _check_build(job, directory)
    shutil.copytree(directory, fresh)


def _build(job: BuildJob, fresh: Path) -> None:
    """Write the build of a PyTorch model; raises the errors of `deuteron build`."""
    report = fresh.with_name("error.json")
    command = [sys.executable, "-P", "-m", "deuteron.cli.subprocess_entry", str(report), "build", "-q"]
    command += ["--target", job.target, "-o", str(fresh), *job.options, "--", job.model]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=job.folder, env=environment)
    if done.returncode and report.is_file():
        error = cast("dict[str, str | None]", json.loads(report.read_bytes()))
        kind: type[DeuteronError] = getattr(errors, str(error["kind"]))
        raise kind(str(error["message"]).replace(str(fresh), f"{BUILDS}/{job.key}"), where=error["where"])
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise InputError(f"`deuteron build` ended with {done.returncode}{last and ': '}{last}")


def arguments(point: Point, axes: Sequence[str]) -> list[str]:
    """Return a point's values of some axes as arguments of a command."""
    chosen = [(axis, value) for axis in axes if (value := getattr(point, axis)) is not None]
    return [text for axis, value in chosen for text in (f"--{axis.replace('_', '-')}", str(value))]


def text_without_hint(error: DeuteronError) -> str:
    """Return an error's text without its hint."""
    return f"{error.where}: {error.message}" if error.where else error.message
