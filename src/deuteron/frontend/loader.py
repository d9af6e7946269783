"""Loads a model by name: `file.py:function`, a `.pt2` file of `torch.export.save`, or a reference model's name."""

import difflib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import cast

from torch import nn
from torch.export import ExportedProgram

from deuteron.builds import manifest, parameters
from deuteron.errors import DeuteronError, InputError
from deuteron.frontend import examples, saved
from deuteron.frontend.inputs import Inputs, check_example_inputs, check_module
from deuteron.frontend.quantize.training import YIELDS, Train

RETURNS = "return `module, example_inputs` or `module, example_inputs, calibration_batches`"

EVALUATES = "`--evaluate FILE.py:FUNCTION` names a function that takes a callable model and returns a number"

TRAINS = f"`--train FILE.py:FUNCTION` names a training function: {YIELDS}"


_LOADS = (
    "write a function that makes the module, loads the file with `load_state_dict` and returns `module, "
    "example_inputs`: `deuteron build FILE.py:FUNCTION`; or save the exported model as `.pt2` with `torch.export.save`"
)
_FINISHED = "build the PyTorch model that it was made from"

_OTHER_FILES: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys((".pt", ".pth", ".pkl", ".pickle", ".ckpt"), ("a pickle, which may run any code", _LOADS)),
    **dict.fromkeys((".bin", ".safetensors"), ("a file of weights without a model", _LOADS)),
    ".onnx": (
        "an ONNX file, and builds start from PyTorch models and TFLite files",
        "build the PyTorch model that it was exported from, or convert it to TFLite",
    ),
    ".pte": ("a finished ExecuTorch program", f"{_FINISHED}; `deuteron run` and `deuteron inspect` take the file"),
    ".bpte": ("a finished ExecuTorch program with test cases", _FINISHED),
    ".ptd": ("the data of a finished ExecuTorch program", _FINISHED),
}
"""Files that are no models to build: what they are, and what to do."""


@dataclass(frozen=True, slots=True)
class Model:
    """The model to build: the module, one example value per argument, and calibration batches if there are any."""

    name: str
    module: nn.Module | ExportedProgram
    example_inputs: Inputs
    calibration: Iterable[object] | None


def load(spec: str) -> Model:
    """Load the model that `spec` names.

    Raises:
        InputError: the name, file or function does not exist, the code raises an exception, or the result is not a
            module with example inputs.
    """
    example = examples.find(spec)
    if example is not None:
        return _call(example.path, example.name, {}, name=example.name)
    if spec.endswith(".pt2"):
        return _exported(Path(spec))
    if other := _OTHER_FILES.get(Path(spec).suffix.lower()):
        raise InputError(f"`{spec}` is {other[0]}", hint=other[1])
    if spec and Path(spec).is_dir():
        raise _folder(Path(spec))
    call, values = parameters.parse(spec)
    file, colon, function = call.rpartition(":")
    if not colon:
        raise _no_such_model(spec)
    path = Path(file)
    if not path.is_file():
        raise InputError(f"the model file `{file}` does not exist", hint=_near_files(path))
    return _call(path, function, values, name=f"{path.stem}.{function}")


def _exported(path: Path) -> Model:
    """Load a program and its example inputs from a file that `torch.export.save` wrote."""
    if not path.is_file():
        raise InputError(f"the model file `{path}` does not exist", hint=_near_files(path))
    program = saved.read(path)
    inputs, names = program.example_inputs or ((), {})
    if names or not inputs:
        what = "takes arguments by name" if names else "has no example inputs"
        raise InputError(
            f"the program in `{path}` {what}",
            hint="export it with its example inputs as positional arguments: `torch.export.export(model, (x,))`",
        )
    return Model(path.stem, program, check_example_inputs(inputs), None)


def load_train(model: str, train: str | None = None) -> Train:
    """Load the training function for `use_qat`: `train`, or the function `train` in the model's own file.

    Raises:
        InputError: the file or function does not exist.
    """
    example = examples.find(model)
    own = example.path if example else parameters.parse(model)[0].rpartition(":")[0]
    file, colon, function = (train or f"{own}:train").rpartition(":")
    if not colon:
        raise InputError(f"`{train}` is not of the form `file.py:function`", hint=TRAINS)
    path = Path(file)
    if not path.is_file():
        raise InputError(f"the file `{file}` does not exist", hint=_near_files(path))
    path = path.resolve()
    with _import_path(path.parent):
        trains = _function(_execute(path), function, path, TRAINS, typed=train is not None)
        _bind(trains, f"{path.name}:{function}", TRAINS, [None])
        return trains


def load_evaluate(spec: str) -> Callable[[object], object]:
    """Load the evaluation function `file.py:function`; its exceptions become errors with the user's line.

    Raises:
        InputError: the file or function does not exist.
    """
    file, colon, function = spec.rpartition(":")
    if not colon:
        raise InputError(f"`{spec}` is not of the form `file.py:function`", hint=EVALUATES)
    path = Path(file)
    if not path.is_file():
        raise InputError(f"the file `{file}` does not exist", hint=_near_files(path))
    path = path.resolve()
    with _import_path(path.parent):
        evaluate = _function(_execute(path), function, path, EVALUATES)
        _bind(evaluate, f"{path.name}:{function}", EVALUATES, [None])
    return lambda model: _run(lambda: evaluate(model), path, f"`{function}`")


def _no_such_model(spec: str) -> InputError:
    """Return the error for a name that is neither an example nor `file.py:function`."""
    if spec.endswith(".py"):
        return InputError(
            f"`{spec}` names a file but no function", hint=f"write `{spec}:FUNCTION`; the function must {RETURNS}"
        )
    names = [example.name for example in (*examples.EXAMPLES, *examples.COMBINED)]
    near = difflib.get_close_matches(spec, names, n=1)
    hint = f"did you mean `{near[0]}`?" if near else "`deuteron models` lists the examples"
    return InputError(f"`{spec}` is neither an example model nor of the form `file.py:function`", hint=hint)


def _folder(path: Path) -> InputError:
    """Return the error for a folder in place of a model."""
    if (path / manifest.NAME).is_file():
        return InputError(
            f"`{path}` is a finished build",
            hint="`run`, `explain`, `plan`, `profile` and `firmware` take it, such as "
            f"`deuteron run {path}`; for another target, build the model again",
        )
    return InputError(
        f"`{path}` is a folder, not a model", hint=f"give `file.py:function`; the function must {RETURNS}"
    )


def _near_files(path: Path) -> str | None:
    """Return a hint that names a Python file with a similar name, or the missing folder."""
    if not path.parent.is_dir():
        return f"the folder `{path.parent}` does not exist either"
    near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.py")], n=1)
    return f"did you mean `{path.parent / near[0]}`?" if near else None


def _call(path: Path, function: str, values: Mapping[str, object], *, name: str) -> Model:
    """Call a function of a file with these values and return the model."""
    path = path.resolve()
    with _import_path(path.parent):
        module = _execute(path)
        made = _function(module, function, path, f"the function must {RETURNS}")
        _check_call(made, f"{path.name}:{function}", values)
        result = _run(lambda: made(**values), path, f"`{function}()`")
    return _model(result, name, f"`{path.name}:{function}`")


@contextmanager
def _import_path(folder: Path) -> Generator[None]:
    """Add the file's folder to the import path, as `python file.py` does."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _execute(path: Path) -> ModuleType:
    """Run the file and return it as a module."""
    name = f"_deuteron_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"`{path.name}` is not a Python file", hint="the name must end in `.py`")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader = spec.loader
    _run(lambda: loader.exec_module(module), path, f"`{path.name}`")
    return module


def _function(module: ModuleType, function: str, path: Path, hint: str, *, typed: bool = True) -> Callable[..., object]:
    """Return the function of that name.

    `hint` describes the function's contract. If the user `typed` the name, the error suggests a similar one.
    """
    value: object = getattr(module, function, None)
    if callable(value):
        return value
    own = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", None) == module.__name__]
    near = difflib.get_close_matches(function, own, n=1) if typed else []
    what = "no function" if value is None else "something that is not a function"
    raise InputError(
        f"`{path.name}` has {what} named `{function}`",
        hint=f"did you mean `{path.name}:{near[0]}`?" if near else hint,
    )


def _check_call(made: Callable[..., object], name: str, values: Mapping[str, object]) -> None:
    """Check that `made` is a function that takes these values, and not a module or its class."""
    own = name.rpartition(":")[2]
    if isinstance(made, nn.Module):
        hint = f"write a function that returns it with example inputs: `def make_{own}(): return {own}, (x,)`"
        raise InputError(f"`{name}` is a module, not a function", hint=hint)
    if isinstance(cast(object, made), type) and issubclass(cast("type[object]", made), nn.Module):
        hint = (
            f"write a function that returns an instance of it with example inputs: `def make(): return {own}(), (x,)`"
        )
        raise InputError(f"`{name}` is a class, not a function", hint=hint)
    hint = f"it is called without arguments: give its parameters defaults, or values as in `{name}(NAME=VALUE)`"
    _bind(made, name, "give values for its parameters only" if values else hint, values=values)


def _bind(
    function: Callable[..., object],
    name: str,
    hint: str,
    arguments: Sequence[object] = (),
    values: Mapping[str, object] = {},
) -> None:
    """Check that a function takes these arguments."""
    try:
        inspect.signature(function).bind(*arguments, **values)
    except TypeError as e:
        raise InputError(f"`{name}` cannot be called: {e}", hint=hint) from None
    except ValueError:  # of functions in C, whose parameters are unknown
        return


def _run(code: Callable[[], object], path: Path, name: str) -> object:
    """Return the result of the user's code; convert its exceptions into errors that name the user's line."""
    try:
        return code()
    except DeuteronError:
        raise
    except (Exception, SystemExit) as e:
        line = next(
            (f.lineno for f in reversed(traceback.extract_tb(e.__traceback__)) if f.filename == str(path)), None
        )
        if line is None and isinstance(e, SyntaxError):
            line = e.lineno
        raise InputError(
            f"{name} raised {type(e).__name__}: {str(e).splitlines()[0] if str(e) else 'no message'}",
            where=f"{path}:{line}" if line else str(path),
            hint="it must run by itself; try it in `python`",
        ) from e


def _model(result: object, name: str, where: str) -> Model:
    """Check the result of the user's function and return the model."""
    if not isinstance(result, tuple):
        raise InputError(f"{where} returned a value of type `{type(result).__name__}`", hint=f"it must {RETURNS}")
    values = cast("tuple[object, ...]", result)
    if len(values) not in {2, 3}:
        count = "1 value" if len(values) == 1 else f"{len(values)} values"
        raise InputError(f"{where} returned {count}", hint=f"it must {RETURNS}")
    calibration = values[2] if len(values) == 3 else None
    if calibration is not None and not isinstance(calibration, Iterable):
        raise InputError(
            f"{where} returned calibration batches of type `{type(calibration).__name__}`",
            hint="give a list, or anything else that can be iterated, of tensors or tuples of tensors",
        )
    batches = cast("Iterable[object] | None", calibration)
    return Model(name, check_module(values[0]), check_example_inputs(values[1]), batches)
