"""Integers in a model for an Ethos-U are computed exactly, in the dtype of the module."""

import linecache
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.errors import UnsupportedError
from deuteron.frontend.backends.ethosu import integers

INDEX = torch.tensor([[0, 3], [1, 2]])


class Integers(nn.Module):
    """Divides integers, chooses by constant indices, and makes codes of indices."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)
        self.register_buffer("index", INDEX)
        self.index: Tensor

    def forward(self, x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        y = self.layer(x)
        best = y.argmax(1)
        whole = torch.div((y * 16).int(), 3, rounding_mode="trunc")
        chosen = y.gather(1, self.index)
        spread = torch.zeros(2, 8).scatter(1, self.index, chosen.relu())
        filled = y.index_fill(1, self.index[0], 1.5)
        codes = functional.one_hot(best, 8).float() * y
        most = torch.where(best > 3, best, -1)
        sums = (y * 0.5).scatter_add(1, torch.zeros(2, 1, dtype=torch.long), y[:, :1])
        divided = best // 4, best % 4, i // 3, i * 2 + 1, (i - 5) % 3, (i - 5) % -3, whole
        return *divided, most, sums, chosen, spread, filled, codes


def test_programs_give_the_integers_of_the_module(tmp_path: Path) -> None:
    module = Integers().eval()
    samples = [(torch.randn(2, 8), torch.randint(0, 9, (2, 3))) for _ in range(8)]
    api.build(module, samples[0], target="ethos-u55-128", calibration=samples, output=tmp_path / "build")
    equal, close = list[float](), list[float]()
    for x, i in samples:
        outputs = api.run(tmp_path / "build", [x.numpy(), i.numpy()])
        for ours, theirs in zip(outputs, module(x, i), strict=True):
            wanted = theirs.detach().numpy()
            assert (ours.dtype, ours.shape) == (wanted.dtype, wanted.shape)
            if wanted.dtype.kind == "i":
                equal.append(float((ours == wanted).mean()))
            else:
                close.append(float(abs(ours - wanted).max()))
        assert (outputs[2] == (i // 3).numpy()).all()
        assert (outputs[3] == (i * 2 + 1).numpy()).all()
        assert (outputs[4] == ((i - 5) % 3).numpy()).all()
        assert (outputs[5] == ((i - 5) % -3).numpy()).all()
    assert sum(equal) / len(equal) > 0.9  # what is rounded in int8 may be another near a bound
    assert sorted(close)[len(close) * 9 // 10] < 0.1


class Wide(nn.Module):
    """Integers that do not fit into 32 bits, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(x), i * 100_000 * 100_000


def test_integers_that_the_npu_cannot_hold_are_an_error(tmp_path: Path) -> None:
    samples = [(torch.randn(2, 8), torch.full((2, 3), 9)) for _ in range(4)]
    with pytest.raises(UnsupportedError) as caught:
        api.build(Wide(), samples[0], target="ethos-u55-128", calibration=samples, output=tmp_path / "build")
    line = Wide.forward.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        f"{__file__}:{line}: output 1 of the program differs from the model's in 24 of 24 integers, though nothing "
        "rounds them, at `return self.layer(x), i * 100_000 * 100_000`\n\n"
        "hint: keep integers within 32 bits, in which an Ethos-U computes, and floats of integers within 24, or "
        "compute them outside of the model"
    )
    assert not (tmp_path / "build").exists()


class Constant(nn.Module):
    """A layer, and a function of its result that has an integer of more than 32 bits."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(8, 8), function

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.layer(x)
        return y, self.function(y)


SUM = Constant(lambda y: (y > 0).long() + 3_000_000_000)
BOUND = Constant(lambda y: y.argmax(1).clamp(min=-5_000_000_000))
LISTED = Constant(lambda y: y.argmax(1) + torch.tensor([1, 3_000_000_000]))
WHOLE = Constant(lambda y: torch.full((3,), 3_000_000_000))


@pytest.mark.parametrize(
    ("module", "what", "number"),
    [
        (SUM, "aten::add.Tensor", 3_000_000_000),
        (BOUND, "aten::clamp", -5_000_000_000),
        (LISTED, "aten::add.Tensor", 3_000_000_000),
        (WHOLE, "", 3_000_000_000),
    ],
)
def test_constants_that_the_npu_cannot_hold_are_named(module: Constant, what: str, number: int) -> None:
    samples = [(torch.randn(2, 8),) for _ in range(4)]
    with pytest.raises(UnsupportedError) as caught:
        api.build(module, samples[0], target="ethos-u55-128", calibration=samples)
    line = module.function.__code__.co_firstlineno
    text = linecache.getline(__file__, line).strip()
    assert caught.value.where == f"{__file__}:{line}"
    assert f"{what}` has the integer {number}, of more than 32 bits, at `{text}`" in str(caught.value)
    assert caught.value.hint == integers.NARROW


@pytest.mark.parametrize("function", [lambda y: y[:, 1:].argmax(1) + 7, lambda y: (y > 3_000_000_000).long()])
def test_sizes_and_floats_may_be_large(function: Callable[[Tensor], Tensor]) -> None:
    samples = [(torch.randn(2, 8),) for _ in range(4)]
    api.build(Constant(function), samples[0], target="ethos-u55-128", calibration=samples)


class Table(nn.Module):
    """Looks up integers, which the backend casts to 32 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(8, 4)

    def forward(self, at: Tensor) -> Tensor:
        return self.rows(at + 1).relu()


@pytest.mark.full
def test_another_process_reads_the_saved_program(tmp_path: Path) -> None:
    """Only ExecuTorch's passes define some of its operators."""
    batches = [(torch.randint(0, 7, (1, 6)),) for _ in range(4)]
    api.build(Table(), batches[0], target="ethos-u85-256", calibration=batches, output=tmp_path / "build")
    code = "import sys, pathlib; from deuteron.frontend import saved; saved.load(pathlib.Path(sys.argv[1]))"
    done = subprocess.run((sys.executable, "-c", code, tmp_path / "build" / "reference.pt2"), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
