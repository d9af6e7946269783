"""Errors for models that do not run, cannot be exported, or have unsupported shapes or dtypes."""

import inspect

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron.errors import InputError, UnsupportedError
from deuteron.frontend import upstream_caches
from deuteron.frontend.export import (
    DRAWS,
    DROPS,
    KEEPS,
    MEASURES,
    PACKED,
    check_exported,
    check_norms,
    check_repeatable,
    not_exported,
)
from deuteron.frontend.inputs import Inputs
from deuteron.frontend.source_lines import source_of

X = (torch.ones(1, 1, 4, 4),)


def export(module: nn.Module, inputs: Inputs) -> fx.GraphModule:
    """The exported model, with the checks after."""
    try:
        with upstream_caches.exporting():
            model = torch.export.export(module, inputs, strict=True).module(check_guards=False)
    except Exception as e:
        raise not_exported(e) from e
    assert isinstance(model, fx.GraphModule)
    check_exported(model, takes_complex=False)
    check_repeatable(model)
    return model


def at(module: nn.Module, code: str) -> str:
    """`file:line` of a line of the module's forward."""
    lines, first = inspect.getsourcelines(type(module).forward)
    return f"{__file__}:{first + next(i for i, line in enumerate(lines) if code in line)}"


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x + 1
        return x


class Masks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x[x > 0]
        return y * 2


class Doubles(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


def test_control_flow_on_data_names_what_torch_says_and_the_line():
    with pytest.raises(InputError) as caught:
        export(Branches(), X)
    assert str(caught.value) == (
        f"{at(Branches(), 'if x')}: PyTorch cannot export this model: "
        "Data-dependent branching, at `if x.sum() > 0:`\n\n"
        "hint: compute both branches and select with `torch.where`; give a loop a fixed number of steps"
    )


class Packs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(4, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x[0], torch.tensor([2]), batch_first=True)
        return self.layer(packed)[1]


def test_packed_sequences():
    with pytest.raises(InputError) as caught:
        export(Packs(), X)
    assert str(caught.value) == (
        f"{at(Packs(), 'packed =')}: PyTorch cannot export this model: packed sequences have sizes that depend on "
        "data, at `packed = nn.utils.rnn.pack_padded_sequence(x[0], torch.tensor([2]), batch_first=True)`\n\n"
        f"hint: {PACKED}"
    )


def test_a_scripted_module():
    with pytest.raises(InputError) as caught:
        export(nn.Sequential(torch.jit.script(nn.Linear(2, 2))), (torch.ones(1, 2),))
    assert "hint: use the module as it is before `torch.jit.script`" in str(caught.value)


def test_a_shape_that_depends_on_data():
    with pytest.raises(UnsupportedError) as caught:
        export(Masks(), X)
    assert str(caught.value) == (
        f"{at(Masks(), 'y = x[')}: the result of `index` has the dynamic shape [?], at `y = x[x > 0]`\n\n"
        "hint: every shape must be known when compiling: remove dynamic dimensions, and replace operators whose result "
        "size depends on data by ones of fixed size, such as `y[mask]` by `torch.where(mask, y, 0)`"
    )


def test_an_input_that_is_marked_dynamic():
    x = torch.ones(4, 2)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(UnsupportedError) as caught:
        export(Doubles(), (x,))
    assert str(caught.value) == (
        "input `x` has the dynamic shape [?, 2]\n\n"
        "hint: every shape must be known when compiling: remove dynamic dimensions, and replace operators whose result "
        "size depends on data by ones of fixed size, such as `y[mask]` by `torch.where(mask, y, 0)`"
    )


class Slices(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, x[:, 4:]


def test_an_output_without_elements():
    with pytest.raises(UnsupportedError) as caught:
        export(Slices(), (torch.ones(2, 4),))
    assert str(caught.value) == (
        f"{at(Slices(), 'return')}: output 1 has no elements, its shape is [2, 0], at `return x * 2, x[:, 4:]`\n\n"
        "hint: return only what has elements; a slice from a dimension's size on, as `y[:, 4:]` of 4 channels, has none"
    )


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(4, dtype=torch.float16))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor.float()


def test_a_weight_of_another_dtype():
    with pytest.raises(UnsupportedError) as caught:
        export(Halves(), X)
    assert str(caught.value) == (
        f"{at(Halves(), 'self.factor.float')}: weight or constant `factor` is float16, at "
        "`return x * self.factor.float()`\n\nhint: quantization starts from float32: compute in it alone"
    )


class Spectrum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.rfft(x).abs()


def test_complex_values_have_no_int8_kernel():
    with pytest.raises(UnsupportedError) as caught:
        export(Spectrum(), X)
    assert str(caught.value) == (
        f"{at(Spectrum(), 'rfft')}: the result of `fft_rfft` is complex64, at `return torch.fft.rfft(x).abs()`\n\n"
        "hint: compute with the real and the imaginary part as two tensors of float32"
    )


class Power(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.float_power(2)


class PowerOfNumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.float_power(-2, x)


class PowerOfTensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.float_power(x, x).float()


@pytest.mark.parametrize(
    ("module", "code", "instead"),
    [
        (Power(), "x.float_power(2)", "x ** 2"),
        (PowerOfNumber(), "torch.float_power(-2, x)", "(-2) ** x"),
        (PowerOfTensor(), "torch.float_power(x, x).float()", "x ** y"),
    ],
)
def test_a_power_that_computes_in_float64_whatever_it_is_given(module: nn.Module, code: str, instead: str):
    with pytest.raises(UnsupportedError) as caught:
        export(module, X)
    assert str(caught.value) == (
        f"{at(module, code)}: the result of `float_power` is float64, at `return {code}`\n\n"
        f"hint: `float_power` computes in float64 whatever it is given, quantization starts from float32: "
        f"write `{instead}`"
    )


class Draws(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand(1, 1, 4, 4)


class Masked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.bernoulli(torch.full_like(x, 0.5))


class Drops(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, 0.5)


class DropsImages(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout2d(x, 0.5)


@pytest.mark.parametrize(
    ("module", "operator", "code", "hint"),
    [
        (Draws(), "aten::rand", "return x + torch.rand(1, 1, 4, 4)", DRAWS),
        (Masked(), "aten::bernoulli", "return x * torch.bernoulli(torch.full_like(x, 0.5))", DRAWS),
        (Drops(), "aten::dropout", "return functional.dropout(x, 0.5)", DROPS),
        (DropsImages(), "aten::feature_dropout", "return functional.dropout2d(x, 0.5)", DROPS),
    ],
)
def test_random_numbers(module: nn.Module, operator: str, code: str, hint: str):
    with pytest.raises(UnsupportedError) as error:
        export(module.eval(), X)
    assert str(error.value) == (
        f"{at(module, code)}: `{operator}` returns other values in each run, at `{code}`\n\nhint: {hint}"
    )


class Keeps(nn.Module):
    """Has a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(1))
        self.n: Tensor


class Counts(Keeps):
    def forward(self, x: Tensor) -> Tensor:
        self.n.add_(1)
        return x * self.n


class CountsInAView(Keeps):
    def forward(self, x: Tensor) -> Tensor:
        self.n.view(1, 1).add_(1)
        return x * self.n


class Remembers(Keeps):
    def forward(self, x: Tensor) -> Tensor:
        y = x.mean((1, 2, 3)) + self.n * 0.5
        self.n.copy_(y)
        return y


@pytest.mark.parametrize(
    ("module", "operator", "code"),
    [
        (Counts(), "aten::add_.Tensor", "self.n.add_(1)"),
        (CountsInAView(), "aten::add_.Tensor", "self.n.view(1, 1).add_(1)"),
        (Remembers(), "aten::copy_", "self.n.copy_(y)"),
    ],
)
def test_buffers_that_change(module: nn.Module, operator: str, code: str):
    with pytest.raises(UnsupportedError) as error:
        export(module.eval(), X)
    assert str(error.value) == (
        f"{at(module, code)}: `{operator}` changes the buffer `n` in each run, at `{code}`\n\nhint: {KEEPS}"
    )


class ChangesNoBuffer(Keeps):
    """Changes a result that it computed from a buffer, and counts in an attribute that is never read."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("masked", torch.ones(4, dtype=torch.bool))
        self.masked: Tensor
        self.norm = nn.BatchNorm2d(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x) + self.masked.float().mul_(2) + self.n.clone().add_(1)


@pytest.mark.parametrize("training", [False, True])
def test_copies_of_buffers_may_change(training: bool):
    export(ChangesNoBuffer().train(training), X)


class DrawsNothing(nn.Module):
    """Operators that could, in training or with another probability."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.recurrent = nn.Dropout(0.5), nn.GRU(4, 4, num_layers=2, dropout=0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.rrelu(self.drop(self.recurrent(x[0])[0]))
        y = functional.dropout2d(functional.dropout(y, 0.0), 0.0)
        return functional.scaled_dot_product_attention(y, y, y)


def test_what_draws_in_training_alone_is_taken():
    export(DrawsNothing().eval(), X)


class Measures(nn.Module):
    def __init__(self, *, tracks: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(1, track_running_stats=tracks)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm.train()(x)


@pytest.mark.parametrize("tracks", [False, True])
def test_a_batch_norm_that_measures_its_batch(tracks: bool):
    module = Measures(tracks=tracks)
    with upstream_caches.exporting():
        model = torch.export.export(module, X, strict=True).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    with pytest.raises(UnsupportedError) as caught:
        check_norms(model)
    assert str(caught.value) == (
        f"{at(module, 'return')}: `aten::batch_norm` computes mean and variance of its input batch, "
        f"at `return self.norm.train()(x)`\n\nhint: {MEASURES}"
    )


def test_a_node_knows_its_line_and_its_submodule():
    module = nn.Sequential(Doubles(), Doubles())
    nodes = [n for n in export(module, X).graph.nodes if n.op == "call_function"]
    sources = [source_of(node) for node in nodes]
    assert [(str(s), s.code, s.module) for s in sources if s] == [
        (at(Doubles(), "x * 2"), "return x * 2", "0"),
        (at(Doubles(), "x * 2"), "return x * 2", "1"),
    ]
