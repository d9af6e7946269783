from pathlib import Path

import pytest
import torch
from tests import full

from deuteron.errors import InputError
from deuteron.frontend import loader
from deuteron.frontend.examples import COMBINED, EXAMPLES

RETURNS = "return `module, example_inputs` or `module, example_inputs, calibration_batches`"
TRAINS = (
    "`--train FILE.py:FUNCTION` names a training function: write a generator that trains the model it is given and "
    "says `yield loss.item()` after each step or epoch"
)
FILE = """
import torch
from neighbour import WIDTH
from torch import nn

def plain():
    return nn.Linear(WIDTH, 2), torch.ones(1, WIDTH)

def calibrated():
    return nn.Linear(WIDTH, 2), (torch.ones(1, WIDTH),), [torch.zeros(1, WIDTH)]

def fails():
    width = 4
    return nn.Linear(width, undefined), None

def one(): return nn.Linear(2, 2)
def alone(): return (nn.Linear(2, 2),)
def four(): return 1, 2, 3, 4
def klass(): return nn.Linear, torch.ones(1)
def number(): return 3, torch.ones(1)
def no_inputs(): return nn.Linear(2, 2), ()
def bad_input(): return nn.Linear(2, 2), [1.5]
def nan_input(): return nn.Linear(2, 2), torch.tensor([[1.0, float("nan")]])
def bad_calibration(): return nn.Linear(2, 2), torch.ones(1, 2), 5
constant = 5
instance = nn.Linear(2, 2)
class Kind(nn.Module):
    def __init__(self, width): super().__init__()
def takes(width, name): return nn.Linear(2, width), torch.ones(1, 2)
def two(model, data): yield 0.5
def wide(width=2, name="x"): return nn.Linear(2, width), torch.ones(1, 2)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "neighbour.py").write_text("WIDTH = 4\n")
    (tmp_path / "net.py").write_text(FILE)
    (tmp_path / "broken.py").write_text("x = 1\nif x\n    pass\n")
    (tmp_path / "quits.py").write_text("import sys\n\nsys.exit('enough')\n")
    return tmp_path / "net.py"


def message(spec: str) -> str:
    with pytest.raises(InputError) as caught:
        loader.load(spec)
    return str(caught.value)


def test_a_function_of_a_file_that_imports_its_neighbour(file: Path):
    model = loader.load(f"{file}:plain")
    assert model.name == "net.plain"
    assert isinstance(model.module, torch.nn.Linear)
    assert [tuple(x.shape) for x in model.example_inputs] == [(1, 4)]
    assert model.calibration is None


def test_a_program_that_pytorch_has_saved(tmp_path: Path):
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(4, 2), (torch.ones(1, 4),)), path)
    model = loader.load(str(path))
    assert model.name == "net"
    assert isinstance(model.module, torch.export.ExportedProgram)
    assert [x.tolist() for x in model.example_inputs] == [[[1.0] * 4]]
    path.write_bytes(path.read_bytes()[:300])
    assert message(str(path)).startswith(f"{path}: `net.pt2` cannot be read: ")
    assert message(str(tmp_path / "net2.pt2")).startswith(f"the model file `{tmp_path / 'net2.pt2'}` does not exist")


def test_a_function_with_parameters(file: Path):
    model = loader.load(f"{file}:wide(width=7, name='a:b')")
    assert [tuple(p.shape) for p in model.module.parameters()] == [(7, 2), (7,)]
    assert message(f"{file}:wide(wide=7)") == (
        "`net.py:wide` cannot be called: got an unexpected keyword argument 'wide'\n\n"
        "hint: give values for its parameters only"
    )


def test_a_function_that_gives_calibration_batches(file: Path):
    batches = loader.load(f"{file}:calibrated").calibration
    assert batches is not None
    assert [b.tolist() for b in batches if isinstance(b, torch.Tensor)] == [[[0.0] * 4]]


SEEDED = [e for e in (*EXAMPLES, *COMBINED) if e.weights == "seeded"]
"""Examples with random weights; the large one that is left out by default is like its smaller form."""


@pytest.mark.parametrize(
    "example", full.only(SEEDED, *(e for e in SEEDED if e.name != "mobilenet_v1")), ids=lambda e: e.name
)
def test_examples_are_what_the_table_says(example, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)  # names work from any directory
    model = loader.load(example.name)
    assert model.name == example.name
    assert tuple(model.example_inputs[0].shape) == example.input_shape
    with torch.no_grad():
        assert tuple(model.module(*model.example_inputs).shape) == example.output_shape
    assert model.calibration is not None


def test_names_close_to_an_example_are_suggested():
    assert message("resnet") == (
        "`resnet` is neither an example model nor of the form `file.py:function`\n\nhint: did you mean `resnet8`?"
    )
    assert message("zzz") == (
        "`zzz` is neither an example model nor of the form `file.py:function`\n\n"
        "hint: `deuteron models` lists the examples"
    )


@pytest.mark.parametrize(
    ("name", "what", "hint"),
    [
        ("net.onnx", "an ONNX file", "build the PyTorch model that it was exported from"),
        ("net.pth", "a pickle, which may run any code", "write a function that makes the module"),
        ("a/net.PT", "a pickle, which may run any code", "or save the exported model as `.pt2`"),
        ("net.safetensors", "a file of weights without a model", "write a function that makes the module"),
        ("net.pte", "a finished ExecuTorch program", "`deuteron run` and `deuteron inspect` take the file"),
        ("net.bpte", "a finished ExecuTorch program with test cases", "build the PyTorch model"),
        ("net.ptd", "the data of a finished ExecuTorch program", "build the PyTorch model"),
    ],
)
def test_files_that_are_no_models_to_build(name: str, what: str, hint: str):
    text = message(name)
    assert text.startswith(f"`{name}` is {what}")
    assert hint in text


def test_a_file_without_function():
    assert (
        message("net.py")
        == f"`net.py` names a file but no function\n\nhint: write `net.py:FUNCTION`; the function must {RETURNS}"
    )


def test_a_folder(tmp_path: Path):
    assert message(str(tmp_path)) == (
        f"`{tmp_path}` is a folder, not a model\n\nhint: give `file.py:function`; the function must {RETURNS}"
    )
    (tmp_path / "build.json").touch()
    assert message(str(tmp_path)) == (
        f"`{tmp_path}` is a finished build\n\nhint: `run`, `explain`, `plan`, `profile` and `firmware` take it, such "
        f"as `deuteron run {tmp_path}`; for another target, build the model again"
    )


def test_missing_files(file: Path):
    folder = file.parent
    assert message(f"{folder}/nets.py:net") == (
        f"the model file `{folder}/nets.py` does not exist\n\nhint: did you mean `{folder}/net.py`?"
    )
    assert message(f"{folder}/q/net.py:net") == (
        f"the model file `{folder}/q/net.py` does not exist\n\nhint: the folder `{folder}/q` does not exist either"
    )


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("plane", "`net.py` has no function named `plane`\n\nhint: did you mean `net.py:plain`?"),
        (
            "constant",
            f"`net.py` has something that is not a function named `constant`\n\nhint: the function must {RETURNS}",
        ),
        (
            "instance",
            "`net.py:instance` is a module, not a function\n\nhint: write a function that returns it with example "
            "inputs: `def make_instance(): return instance, (x,)`",
        ),
        (
            "Kind",
            "`net.py:Kind` is a class, not a function\n\nhint: write a function that returns an instance of it with "
            "example inputs: `def make(): return Kind(), (x,)`",
        ),
        (
            "takes",
            "`net.py:takes` cannot be called: missing a required argument: 'width'\n\nhint: it is called without "
            "arguments: give its parameters defaults, or values as in `net.py:takes(NAME=VALUE)`",
        ),
        ("one", f"`net.py:one` returned a value of type `Linear`\n\nhint: it must {RETURNS}"),
        ("alone", f"`net.py:alone` returned 1 value\n\nhint: it must {RETURNS}"),
        ("four", f"`net.py:four` returned 4 values\n\nhint: it must {RETURNS}"),
        (
            "klass",
            "the model is the class `Linear`, not a `torch.nn.Module` object\n\n"
            "hint: pass an instance, for example `MyNet()`; wrap a function in a module with a `forward` method",
        ),
        (
            "number",
            "the model is of type `int`, not a `torch.nn.Module` object\n\n"
            "hint: pass an instance, for example `MyNet()`; wrap a function in a module with a `forward` method",
        ),
        ("no_inputs", "there are no example inputs\n\nhint: give one tensor per argument of `forward`"),
        (
            "bad_input",
            "example input 0 is of type `float`, not a tensor\n\n"
            "hint: give one tensor per argument of `forward`, in a tuple",
        ),
        (
            "nan_input",
            "example input 0 holds 1 of 2 values that are NaN or infinite\n\n"
            "hint: remove or repair these samples; ranges measured from them would be meaningless",
        ),
        (
            "bad_calibration",
            "`net.py:bad_calibration` returned calibration batches of type `int`\n\n"
            "hint: give a list, or anything else that can be iterated, of tensors or tuples of tensors",
        ),
    ],
)
def test_what_a_function_may_do_wrong(file: Path, function: str, text: str):
    assert message(f"{file}:{function}") == text


def test_the_function_that_trains_is_in_the_models_file_or_named(file: Path, tmp_path: Path):
    (tmp_path / "other.py").write_text("def fit(model): yield 0.5\ndef train(model): yield 1.5\n")
    assert next(iter(loader.load_train(f"{tmp_path / 'other.py'}:net")(None))) == 1.5
    assert next(iter(loader.load_train(f"{file}:plain", f"{tmp_path / 'other.py'}:fit")(None))) == 0.5
    assert loader.load_train("digits").__name__ == "train"


@pytest.mark.parametrize(
    ("train", "text"),
    [
        (None, f"`net.py` has no function named `train`\n\nhint: {TRAINS}"),
        ("{}:plane", "`net.py` has no function named `plane`\n\nhint: did you mean `net.py:plain`?"),
        (
            "{}:two",
            f"`net.py:two` cannot be called: missing a required argument: 'data'\n\nhint: {TRAINS}",
        ),
        ("{}", f"`{{}}` is not of the form `file.py:function`\n\nhint: {TRAINS}"),
        ("{}x:f", "the file `{}x` does not exist\n\nhint: did you mean `{}`?"),
    ],
)
def test_a_function_that_cannot_train(file: Path, train: str | None, text: str):
    with pytest.raises(InputError) as caught:
        loader.load_train(f"{file}:plain", train and train.replace("{}", str(file)))
    assert str(caught.value) == text.replace("{}", str(file))


def test_code_that_raises_is_located(file: Path):
    hint = "\n\nhint: it must run by itself; try it in `python`"
    assert message(f"{file}:fails") == (f"{file}:14: `fails()` raised NameError: name 'undefined' is not defined{hint}")
    assert (
        message(f"{file.parent}/broken.py:f")
        == f"{file.parent}/broken.py:2: `broken.py` raised SyntaxError: expected ':' (broken.py, line 2){hint}"
    )
    assert (
        message(f"{file.parent}/quits.py:f") == f"{file.parent}/quits.py:3: `quits.py` raised SystemExit: enough{hint}"
    )
