"""The public names: each is there, typed, documented, loads no more than it needs; the command line adds nothing."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import deuteron
from deuteron import api
from deuteron.builds.manifest import ModelInfo, entry_of
from deuteron.cli.app import COMMANDS
from deuteron.errors import InputError, OptionError
from deuteron.views.run.samples import repeated

FUNCTIONS = [name for name in sorted(api._HOMES) if inspect.isfunction(getattr(api, name))]

FUNCTION_OF = {
    "build": "build_model",
    "convert": "convert_file",
    "doctor": "check_installation",
    "exec": "execute",
    "models": "EXAMPLES",
    "fvp": "install_fvps",
    "ops": "operators",
    "sim": "simulate",
}
"""Commands whose function has another name."""


def test_the_names_for_type_checkers_are_those_that_are_loaded():
    tree = ast.parse(Path(str(api.__file__)).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        (str(item.module).removeprefix("deuteron."), alias.asname)
        for item in block.body
        if isinstance(item, ast.ImportFrom)
        for alias in item.names
    }
    assert typed == {(module, name) for module, names in api._NAMES.items() for name in names}


@pytest.mark.parametrize("name", sorted(api._HOMES))
def test_a_public_name_is_there(name: str):
    assert getattr(api, name) is not None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_is_typed_and_documented(name: str):
    function = getattr(api, name)
    assert function.__doc__
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values())


@pytest.mark.parametrize("command", [entry.name for entry in COMMANDS])
def test_a_command_has_its_function(command: str):
    assert hasattr(api, FUNCTION_OF.get(command, command))


def test_the_package_offers_functions_of_the_api():
    for name in set(deuteron.__all__) - {"DeuteronError", "__version__"}:
        assert getattr(deuteron, name) is getattr(api, name)
    with pytest.raises(AttributeError, match="module `deuteron` has no attribute `nothing`"):
        _ = deuteron.nothing


@pytest.mark.parametrize("name", ["targets", "check_installation"])
def test_what_needs_no_numpy_loads_none(name: str):
    code = f"import sys\nfrom deuteron import api\napi.{name}()\nprint('numpy' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


SCRIPT = """
import deuteron
import torch

x = torch.ones(1, 8)
print(len(deuteron.build(torch.nn.Linear(8, 8), x, calibration=[x]).manifest.partitions))
"""


def test_a_script_builds_and_nothing_else_is_said():
    """In a process where nothing has been loaded before, which PyTorch's packages notice aloud."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_sizes_are_numbers():
    with pytest.raises(OptionError) as caught:
        api.simulate("build", sram_budget="16Ki")
    assert str(caught.value) == ("`sram_budget` is '16Ki', integers are allowed\n\nhint: `512Ki` is `512 << 10` here")


def test_no_samples_are_refused():
    with pytest.raises(InputError, match="there are no samples to run"):
        repeated([], 2)


def test_what_is_no_list_of_arrays_is_refused():
    model = api.Manifest  # stands for any: its inputs are not looked at
    with pytest.raises(InputError) as caught:
        api.check_inputs(model, np.zeros((1, 3), np.float32))
    assert str(caught.value) == "the inputs are one array\n\nhint: give a list with one array per input"
    with pytest.raises(InputError) as caught:
        api.check_inputs(model, [[1.0]])
    assert str(caught.value) == "input 0 is a list\n\nhint: give a NumPy array; of a tensor that is `x.numpy()`"


def test_a_quantized_build_takes_no_nan():
    inputs, files = (api.TensorInfo((2,), "float32"),), {"reference.pt2": entry_of(b"")}
    manifest = api.Manifest("", "", "", "", "", api.BuildOptions(), ModelInfo("net"), files, inputs, (), (), (), ())
    values = np.array([1, np.nan], np.float32)
    api.check_inputs(SimpleNamespace(inputs=inputs), [values])  # such as a float TFLite file
    with pytest.raises(InputError) as caught:
        api.check_inputs(manifest, [values])
    assert str(caught.value) == (
        "input 0 has 1 value that is NaN: integers have no NaN, and each processor makes another number of it\n\n"
        "hint: replace it before a run: `numpy.nan_to_num(x)`"
    )


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        ([-128, 127], "give `x.astype(numpy.int8)`"),
        ([0, 300], "its values are from 0 to 300: int8 cannot represent all of them"),
    ],
)
def test_a_cast_is_named_where_it_loses_nothing(values: list[int], hint: str):
    model = SimpleNamespace(inputs=[api.TensorInfo((2,), "int8")])
    with pytest.raises(InputError) as caught:
        api.check_inputs(model, [np.array(values)])
    assert str(caught.value) == f"input 0 is int64 [2], the model takes int8 [2]\n\nhint: {hint}"


def test_calibration_that_does_not_fit_is_told_before_any_work():
    import torch

    begun: list[str] = []
    with pytest.raises(InputError) as caught:
        api.build(
            torch.nn.ReLU(),
            torch.zeros(1, 2),
            calibration=[(torch.zeros(1, 2), torch.zeros(1))],
            progress=lambda step, index, count: begun.append(step),
        )
    assert begun == []
    assert str(caught.value) == (
        "calibration batch 0 has 2 inputs, the model takes 1\n\n"
        "hint: leave out the labels of a data set: `[x for x, y in loader]`"
    )
