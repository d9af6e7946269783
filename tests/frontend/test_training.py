"""Quantization-aware training: its effect on a model, and errors for functions that do not train."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron.errors import InputError
from deuteron.frontend.backends.neutron import upstream
from deuteron.frontend.quantize.calibration import calibrate
from deuteron.frontend.quantize.training import Trainer, evaluate, free_batch

YIELDS = (
    "\n\n"
    "hint: write a generator that trains the model it is given and says `yield loss.item()` after each step or epoch"
)
DIVERGES = "\n\nhint: train with a lower learning rate, or clip the gradients"


class Net(nn.Module):
    """Operators that training and evaluation compute differently, and a reshape."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.drop = nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3), nn.Dropout(0.5)
        self.up, self.other = nn.ConvTranspose2d(3, 3, 2, 2), nn.BatchNorm2d(3)
        for norm in (self.norm, self.other):
            for value in (norm.weight.data, norm.bias.data, norm.running_mean, norm.running_var):
                assert isinstance(value, Tensor)
                value.uniform_(0.5, 2)
        self.linear = nn.Linear(3 * 8 * 8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(functional.relu(self.norm(self.conv(x))))
        return self.linear(self.other(self.up(x)).view(x.shape[0], -1))


def exported(module: nn.Module, x: Tensor) -> fx.GraphModule:
    module = torch.export.export(module.train(), (x,), strict=True).module(check_guards=False)
    assert isinstance(module, fx.GraphModule)
    return module


def test_a_model_exported_for_training_computes_as_in_evaluation() -> None:
    net, x = Net(), torch.randn(1, 2, 6, 6)
    wanted = net.eval()(x)
    model = exported(net, x)
    evaluate(model)
    assert torch.allclose(model(x), wanted, atol=1e-5)
    upstream.fold_batch_norms(model)
    assert not [node for node in model.graph.nodes if "batch_norm" in str(node.target)]
    assert torch.allclose(model(x), wanted, atol=1e-5)
    assert all(value.requires_grad for _, value in model.named_parameters())


class Dropping(nn.Module):
    """Dropouts that are no operators of their own: between the layers of an LSTM, and of attention's shares."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm = nn.LSTM(4, 4, num_layers=2, dropout=0.5, batch_first=True)
        self.attention = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x, _ = self.lstm(x)
        return self.attention(x, x, x, need_weights=False)[0]


def test_layers_that_drop_values_keep_them() -> None:
    net, x = Dropping(), torch.randn(1, 5, 4)
    wanted = net.eval()(x)
    model = exported(net, x)
    evaluate(model)
    assert torch.allclose(model(x), wanted, atol=1e-5)


def test_a_model_for_training_takes_any_number_of_samples() -> None:
    net, x = Net(), torch.randn(5, 2, 6, 6)
    wanted = net.eval()(x)
    model = exported(net, x[:1])
    evaluate(model)
    free_batch(model)
    model = fx.GraphModule(model, model.graph)  # as PT2E's preparation does
    assert torch.allclose(model(x), wanted, atol=1e-5)
    assert torch.allclose(model(x[:1]), wanted[:1], atol=1e-5)


class Repeated(nn.Module):
    """Expansions along the first dimension, or along a new one, are no samples."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x[:1].expand(4, 3) + x, x.expand(2, 4, 3) * 1.0


def test_what_is_repeated_along_the_first_dimension_keeps_its_size() -> None:
    x = torch.randn(4, 3)
    model = exported(Repeated(), x)
    free_batch(model)
    (first, second), wanted = model(x), Repeated()(x)
    assert torch.equal(first, wanted[0])
    assert torch.equal(second, wanted[1])
    (row,) = (node for node in model.graph.nodes if str(node.target) == "aten.expand.default" and node.args[1][0] == 4)
    assert row.args[1] == [4, 3]


def training_with(function: Callable[[fx.GraphModule], object]) -> list[str]:
    told: list[str] = []
    Trainer(function, "net.py:train", told.append)(exported(nn.Linear(2, 1), torch.ones(1, 2)))
    return told


def test_losses_are_told() -> None:
    def train(model: fx.GraphModule) -> Iterator[object]:
        assert isinstance(model, fx.GraphModule)
        yield torch.tensor(0.5)
        yield 0.25

    assert training_with(train) == ["train", "train, step 1: loss 0.5", "train, step 2: loss 0.25"]


def refusal(function: Callable[[fx.GraphModule], object]) -> str:
    with pytest.raises(InputError) as caught:
        training_with(function)
    return str(caught.value)


def test_a_function_that_returns_nothing() -> None:
    assert refusal(lambda model: None) == "`net.py:train` returned nothing" + YIELDS


def test_a_function_that_returns_a_model() -> None:
    text = "`net.py:train` returned a value of type `Sequential`, not losses" + YIELDS
    assert refusal(lambda model: nn.Sequential(nn.ReLU())) == text


def test_a_function_that_returns_no_losses() -> None:
    assert refusal(lambda model: 0.5) == "`net.py:train` returned a value of type `float`, not losses" + YIELDS
    assert refusal(lambda model: []) == "`net.py:train` yielded no loss, so nothing was trained" + YIELDS
    assert refusal(lambda model: ["0.5"]) == (
        "`net.py:train` yielded a value of type `str` for a loss\n\nhint: yield a number, for example `loss.item()`"
    )


def test_a_loss_that_is_not_finite() -> None:
    assert refusal(lambda model: [0.5, float("nan")]) == "the loss is nan in step 2 of `net.py:train`" + DIVERGES


def spoil(model: fx.GraphModule) -> Iterator[float]:
    for value in model.parameters():
        value.data.fill_(float("inf"))
    yield 1.0


def test_weights_that_are_not_finite() -> None:
    text = "Linear: the weight `weight` holds values that are NaN or infinite after `net.py:train`" + DIVERGES
    assert refusal(spoil) == text


def test_a_weight_that_is_not_finite_has_its_name_though_a_pass_has_renamed_it() -> None:
    model = exported(Net(), torch.randn(1, 2, 6, 6))
    weight = next(node for node in model.graph.nodes if node.target == "conv.weight")
    model.register_parameter("_param_constant0", nn.Parameter(model.get_parameter("conv.weight").detach() * torch.nan))
    weight.target = "_param_constant0"
    (conv,) = weight.users
    model.add_submodule("observer", nn.Identity())
    with model.graph.inserting_before(conv):
        conv.update_arg(1, model.graph.call_module("observer", (weight,)))
    model.recompile()
    with pytest.raises(InputError) as caught:
        Trainer(lambda _: [0.5], "net.py:train", lambda _: None)(model)
    line = Net.forward.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        f"{__file__}:{line}: the weight `conv.weight` holds values that are NaN or infinite after `net.py:train`"
        + DIVERGES
    )


def fail(model: fx.GraphModule) -> Iterator[float]:
    yield 1.0
    raise KeyError("labels")


def test_a_function_that_raises_names_its_line() -> None:
    line = fail.__code__.co_firstlineno + 2
    assert refusal(fail) == (
        f"{__file__}:{line}: `net.py:train` raised KeyError: 'labels', at `raise KeyError(\"labels\")`\n\n"
        "hint: it gets the model as a graph module with the same arguments and must train it in place"
    )


class Logarithm(nn.Module):
    """Not a number for negative values."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(torch.log(x))


@pytest.mark.slow
@pytest.mark.parametrize("trains", [False, True], ids=["PTQ", "QAT"])
def test_values_that_are_not_finite_name_the_operator_and_its_line(trains: bool) -> None:
    from deuteron import api

    def train(model: fx.GraphModule) -> Iterator[float]:
        yield float(model(torch.ones(4, 3)).sum())

    batches = [torch.ones(1, 3), torch.tensor([[1.0, -1.0, 0.0]])]
    with pytest.raises(InputError) as caught:
        api.build(
            Logarithm(),
            batches[0],
            calibration=batches,
            target="cortex-m33",
            train=train if trains else None,
            options=api.BuildOptions(use_qat=trains),
        )
    line = Logarithm.forward.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        f"{__file__}:{line}: `aten::log` gives 2 of 3 values that are NaN or infinite for calibration batch 1, at "
        "`return torch.relu(torch.log(x))`\n\n"
        "hint: correct the model or the sample; ranges measured from such values would be meaningless"
    )


def test_finite_values_are_not_blamed() -> None:
    calibrate(exported(Logarithm(), torch.ones(1, 3)), [(torch.ones(1, 3),)])
