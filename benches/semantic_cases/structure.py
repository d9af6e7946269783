"""Forms of inputs and outputs, exported and scripted modules, weights by parametrisation, and functional code."""

import copy
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize, prune

from semantic_cases.case import IMAGE, SIGNAL, TOKENS, VECTOR, Cases, Seen, Written, conv, dense, ints

CASES = Cases("structure")
Detections = namedtuple("Detections", ["boxes", "scores"])


class Parts(NamedTuple):
    """Two results by name."""

    mean: Tensor
    spread: Tensor


@dataclass
class Result:
    """Two results as a dataclass."""

    logits: Tensor
    hidden: Tensor


class Dictionary(OrderedDict):
    """Results by key and by attribute, as model libraries return them."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)


def _nested_lists(m: Any, x: Tensor) -> Any:
    return [[m.f(x), x * 2], [m.f(x) + 1]]


CASES.vectors(
    returns_list=lambda m, x: [m.f(x), x + 1],
    returns_tuple_of_one=lambda m, x: (m.f(x),),
    returns_dict=lambda m, x: {"y": m.f(x), "z": x * 2},
    returns_dict_unsorted=lambda m, x: {"z": m.f(x), "a": x * 2.0},
    returns_ordered_dict=lambda m, x: OrderedDict([("out", m.f(x)), ("aux", x * 0.5)]),
    returns_dict_type=lambda m, x: Dictionary(logits=m.f(x)),
    returns_namedtuple=lambda m, x: Detections(m.f(x), x.sum(1)),
    returns_typed_namedtuple=lambda m, x: Parts(m.f(x).mean(1), m.f(x).amax(1)),
    returns_dataclass=lambda m, x: Result(m.f(x), x * 1.5),
    returns_torch_type=lambda m, x: torch.max(m.f(x), 1),
    returns_none_beside=lambda m, x: (m.f(x), None),
    returns_number_beside=lambda m, x: (m.f(x), 3),
    returns_string_beside=lambda m, x: {"y": m.f(x), "name": "linear"},
    returns_nested=lambda m, x: (m.f(x), [x * 2, {"z": x + 1}]),
    returns_nested_lists=_nested_lists,
    returns_same_twice=lambda m, x: (y := m.f(x), y),
    returns_input_and_list=lambda m, x: (x, [m.f(x)]),
    returns_unbind=lambda m, x: m.f(x).unbind(0),
    returns_chunks=lambda m, x: m.f(x).chunk(2, 1),
    returns_split=lambda m, x: torch.split(m.f(x), [3, 5], 1),
    returns_shape_tensor=lambda m, x: (m.f(x), torch.tensor(x.shape)),
    returns_parameter=lambda m, x: (m.f(x), m.f.weight),
    returns_scalar=lambda m, x: m.f(x).mean(),
    returns_zero_dim_list=lambda m, x: [m.f(x).mean(), m.f(x).amax()],
    returns_empty_beside=lambda m, x: (m.f(x), x[:, 8:]),
    returns_generator=lambda m, x: tuple(m.f(x) * i for i in range(3)),
    starred_results=lambda m, x: (*m.f(x).chunk(2, 1), x),
)


class Called(nn.Module):
    """Arguments that a build's example inputs leave at their defaults, or in other forms."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.f, self.how = dense(), how

    def forward(self, x: Tensor, mask: Tensor | None = None, scale: float = 0.5, *, returns_all: bool = False) -> Any:
        y = self.f(x) * scale
        if mask is not None:
            y = y * mask
        return (y, x) if returns_all else y


class Variadic(nn.Module):
    """Any number of arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.f = dense()

    def forward(self, *tensors: Tensor, **options: Any) -> Tensor:
        return self.f(sum(tensors)) * options.get("scale", 2.0)


class Wrapper(nn.Module):
    """Calls a module with keywords."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Called("inner")

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, scale=0.25, returns_all=True)[0] + self.inner(mask=x, x=x)


class Untyped(nn.Module):
    """Calls itself by another method, with properties and static methods."""

    def __init__(self) -> None:
        super().__init__()
        self.f = dense()

    @property
    def factor(self) -> float:
        """A number of the module."""
        return self.f.in_features / 4

    @staticmethod
    def squeeze(x: Tensor) -> Tensor:
        """Something without the module."""
        return torch.tanh(x)

    @classmethod
    def double(cls, x: Tensor) -> Tensor:
        """Something of the class."""
        return x * 2

    def __call__(self, *args: Any, **options: Any) -> Any:
        return super().__call__(*args, **options)

    def extra(self, x: Tensor) -> Tensor:
        """A part of forward."""
        return self.double(self.squeeze(self.f(x)))

    def forward(self, x):
        return self.extra(x) * self.factor


CASES.add("optional_left_out", lambda: Called("default"))
CASES.add("optional_given", lambda: Called("given"), VECTOR, VECTOR)
CASES.add("variadic_one", Variadic)
CASES.add("variadic_three", Variadic, VECTOR, VECTOR, VECTOR)
CASES.add("keywords_inside", Wrapper)
CASES.add("methods_and_properties", Untyped)
CASES.add("inherited", lambda: type("Inherited", (Untyped,), {})())
CASES.function("list_of_inputs_inside", lambda m, x, y: torch.cat([m.f(z) for z in (x, y)], 1), VECTOR, VECTOR, f=dense)
CASES.function("inputs_of_unlike_kinds", lambda m, x, i: m.f(x) * i, VECTOR, ints(4, 4, 1), f=dense)
CASES.function("image_and_vector", lambda m, x, v: m.c(x).mean((2, 3)) + m.f(v)[:1], IMAGE, VECTOR, c=conv, f=dense)


def plain() -> nn.Sequential:
    """A small network."""
    return nn.Sequential(dense(), nn.ReLU(), dense(8, 4))


def _example() -> tuple[Tensor, ...]:
    return (torch.randn(4, 8),)


CASES.add("scripted", lambda: torch.jit.script(plain().eval()))
CASES.add("traced", lambda: torch.jit.trace(plain().eval(), _example()))
CASES.add("symbolic_trace", lambda: fx.symbolic_trace(plain()))
CASES.add("exported_module", lambda: torch.export.export(plain().eval(), _example()).module())
CASES.add("exported_strictly", lambda: torch.export.export(plain().eval(), _example(), strict=True).module())
CASES.add("scripted_part", lambda: nn.Sequential(dense(), torch.jit.script(nn.ReLU())))
CASES.add("compiled", lambda: torch.compile(plain(), backend="eager"))
CASES.add("deep_copied", lambda: copy.deepcopy(plain()))
CASES.add("data_parallel", lambda: nn.DataParallel(plain()))
CASES.add("frozen_parameters", lambda: plain().requires_grad_(False))
CASES.add("loaded_state", lambda: _loaded(plain()))
CASES.add("half_and_back", lambda: plain().half().float())


def _loaded(module: nn.Module) -> nn.Module:
    module.load_state_dict({name: value * 0.5 for name, value in module.state_dict().items()}, assign=True)
    return module


class Shared(nn.Module):
    """One layer or one weight at several places."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.a, self.b, self.how = dense(), dense(), how
        if how == "layer":
            self.b = self.a
        elif how == "weight":
            self.b.weight = self.a.weight
        elif how == "list":
            self.layers = nn.ModuleList([self.a] * 3)
        elif how == "buffer":
            self.register_buffer("first", torch.randn(8))
            self.register_buffer("second", self.first)

    def forward(self, x: Tensor) -> Tensor:
        match self.how:
            case "transposed":
                return F.linear(torch.relu(self.a(x)), self.a.weight.t())
            case "list":
                for layer in self.layers:
                    x = torch.tanh(layer(x))
                return x
            case "buffer":
                return self.a(x) * self.first + self.second
            case "siamese":
                return (self.a(x[:2]) - self.a(x[2:])).abs()
            case _:
                return self.b(torch.relu(self.a(x)))


for how in ("layer", "weight", "transposed", "list", "buffer", "siamese"):
    CASES.add(f"shared_{how}", lambda how=how: Shared(how))


class Symmetric(nn.Module):
    """A parametrisation."""

    def forward(self, weight: Tensor) -> Tensor:
        return weight.triu() + weight.triu(1).mT


def _parametrised(layer: nn.Module, how: str) -> nn.Module:
    match how:
        case "symmetric":
            parametrize.register_parametrization(layer, "weight", Symmetric())
        case "weight_norm":
            parametrizations.weight_norm(layer)
        case "weight_norm_of_all":
            parametrizations.weight_norm(layer, dim=None)
        case "old_weight_norm":
            torch.nn.utils.weight_norm(layer)
        case "spectral_norm":
            parametrizations.spectral_norm(layer)
        case "old_spectral_norm":
            torch.nn.utils.spectral_norm(layer)
        case "orthogonal":
            parametrizations.orthogonal(layer)
        case "pruned":
            prune.l1_unstructured(layer, "weight", 0.5)
        case _:
            prune.random_structured(layer, "weight", 2, dim=0)
    return nn.Sequential(layer, nn.Tanh())


for how in ("symmetric", "weight_norm", "weight_norm_of_all", "old_weight_norm", "spectral_norm", "old_spectral_norm",
            "orthogonal", "pruned", "pruned_by_rows"):  # fmt: skip
    CASES.add(f"weights_{how}", lambda how=how: _parametrised(dense(), how))
for how in ("weight_norm", "old_weight_norm", "spectral_norm", "pruned"):
    CASES.add(f"convolution_{how}", lambda how=how: _parametrised(conv(), how), IMAGE)


class Standardised(nn.Conv2d):
    """A convolution whose weights are standardised in each run."""

    def forward(self, x: Tensor) -> Tensor:
        mean = self.weight.mean((1, 2, 3), keepdim=True)
        weight = (self.weight - mean) / (self.weight.std((1, 2, 3), keepdim=True) + 1e-5)
        return self._conv_forward(x, weight, self.bias)


class LowRank(nn.Module):
    """A layer with a parallel adapter."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.down, self.up = dense(), dense(8, 2, bias=False), dense(2, 8, bias=False)
        self.scaling = 0.5

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x)) * self.scaling


class FakeQuantized(nn.Module):
    """Rounds its weights and values as quantizers in training do."""

    def __init__(self) -> None:
        super().__init__()
        self.f = dense()

    def forward(self, x: Tensor) -> Tensor:
        weight = torch.fake_quantize_per_tensor_affine(self.f.weight, 0.02, 0, -8, 7)
        return torch.fake_quantize_per_tensor_affine(F.linear(x, weight, self.f.bias), 0.05, 0, -128, 127)


class HyperNetwork(nn.Module):
    """Makes the weights of a layer from its input."""

    def __init__(self) -> None:
        super().__init__()
        self.f = dense(8, 64)

    def forward(self, x: Tensor) -> Tensor:
        return torch.bmm(x[:, None], self.f(x).view(4, 8, 8) * 0.2)[:, 0]


CASES.add("standardised_weights", lambda: Standardised(3, 4, 3), IMAGE)
CASES.add("low_rank_adapter", LowRank)
CASES.add("fake_quantized", FakeQuantized)
CASES.add("hyper_network", HyperNetwork)


class Swish(torch.autograd.Function):
    """An activation with a custom gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return grad


class Rounded(torch.autograd.Function):
    """Rounds with the gradient of the identity."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, steps: int) -> Tensor:
        del ctx
        return torch.round(x * steps) / steps

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return grad, None


def _functional_call(m: Any, x: Tensor) -> Tensor:
    weights = {name: value * 0.5 for name, value in m.f.named_parameters()}
    return torch.func.functional_call(m.f, weights, (x,))


def _ensemble(m: Any, x: Tensor) -> Tensor:
    return torch.stack([layer(x) for layer in m.layers]).mean(0)


def _gradient(m: Any, x: Tensor) -> Tensor:
    return torch.func.grad(lambda y: m.f(y).square().sum())(x)


def _rearranged(m: Any, x: Tensor) -> Tensor:
    b, c, h, w = x.shape
    patches = x.reshape(b, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 1, 3, 5).reshape(b, -1, c * 16)
    return m.f(patches)


def _depth_to_space(m: Any, x: Tensor) -> Tensor:
    y = m.c(x).view(1, 2, 2, 2, 8, 8)
    return y.permute(0, 3, 4, 1, 5, 2).reshape(1, 2, 16, 16)


def _split_attention(m: Any, x: Tensor) -> Tensor:
    y = m.c(x).view(1, 2, 4, 8, 8)
    shares = y.sum((3, 4)).softmax(1)[..., None, None]
    return (shares * y).sum(1)


CASES.vectors(
    custom_function=lambda m, x: Swish.apply(m.f(x)),
    custom_rounding=lambda m, x: Rounded.apply(m.f(x), 4),
    functional_call=_functional_call,
    vmap=lambda m, x: torch.vmap(m.f)(x),
    vmap_of_sum=lambda m, x: torch.vmap(lambda row: (row * m.f.bias).sum())(x),
    gradient=_gradient,
    partial_function=lambda m, x: partial(torch.clamp, min=-0.5, max=0.5)(m.f(x)),
    dispatched_by_name=lambda m, x: getattr(torch, "tanh")(m.f(x)),
    method_by_name=lambda m, x: getattr(m.f(x), "relu")(),
    mapped=lambda m, x: torch.stack(list(map(torch.tanh, m.f(x).unbind(1))), 1),
    stacked_and_unbound=lambda m, x: torch.stack([m.f(x), x]).unbind()[0],
    hstack_vstack=lambda m, x: torch.vstack([torch.hstack([m.f(x), x]), torch.hstack([x, m.f(x)])]),
    other_names_of_joins=lambda m, x: torch.concat([m.f(x).swapdims(0, 1), torch.row_stack([x, x]).t()], 1),
    column_stack=lambda m, x: torch.column_stack([m.f(x), x[:, 0]]),
    atleast=lambda m, x: torch.atleast_3d(m.f(x)),
    block_diagonal=lambda m, x: torch.block_diag(m.f(x)[:2], x[:2]),
    diagonal_embedded=lambda m, x: torch.diag_embed(m.f(x)),
    triangle=lambda m, x: torch.tril(m.f(x), 1) + torch.triu(x, 2),
    swapped=lambda m, x: m.f(x).swapaxes(0, 1).unsqueeze(-1).squeeze(),
    view_by_dtype=lambda m, x: m.f(x).view(torch.int32) & 0x7FFFFFFF,
    reshape_inferred=lambda m, x: m.f(x).reshape(2, -1, 4).sum(-1),
    size_arithmetic=lambda m, x: m.f(x).view(x.size(0) // 2, x.numel() // (x.size(0) // 2)),
    ravel=lambda m, x: m.f(x).ravel(),
    complex_magnitude=lambda m, x: torch.complex(m.f(x), x).abs(),
    spectrum=lambda m, x: torch.fft.rfft(m.f(x)).abs(),
    inverse=lambda m, x: torch.linalg.inv(m.f.weight + 4 * torch.eye(8)) @ x.t(),
    einops_like_mean=lambda m, x: m.f(x).view(4, 2, 4).mean(1),
    kept_in_dataclass=lambda m, x: Seen([m.f(x), x]).values[0] * 2,
)
CASES.images(depth_to_space=_depth_to_space, split_attention=_split_attention)
CASES.function("patches", _rearranged, IMAGE, f=lambda: dense(48, 8))
CASES.function("ensemble", _ensemble, VECTOR, layers=lambda: nn.ModuleList(dense() for _ in range(3)))
CASES.function("lazy_layer", lambda m, x: m.f(x), VECTOR, f=lambda: _initialised(nn.LazyLinear(4)))
CASES.function("squeeze_excite", lambda m, x: m.c(x) * torch.sigmoid(m.f(m.c(x).mean((2, 3))))[..., None, None],
               IMAGE, c=conv, f=dense)  # fmt: skip
CASES.function("stft", lambda m, x: torch.stft(x[:, 0], 8, return_complex=True, window=torch.ones(8)).abs(), SIGNAL)
CASES.function("mixed_widths", lambda m, x: m.f(x.double().float()), TOKENS, f=dense)
CASES.function("half_inside", lambda m, x: m.f(x.half().float()), TOKENS, f=dense)
CASES.function("double_inside", lambda m, x: (m.f(x).double() * 2).float(), TOKENS, f=dense)


def _initialised(layer: nn.Module) -> nn.Module:
    layer(torch.zeros(4, 8))
    return layer


def _make_part(make: Callable[[], nn.Module]) -> nn.Module:
    return Written(lambda m, x: m.part(x) + x, {"part": make})


CASES.add("residual_of_residual", lambda: _make_part(lambda: _make_part(dense)))
CASES.add("nested_sequentials", lambda: nn.Sequential(nn.Sequential(nn.Sequential(dense()), nn.ReLU()), dense()))
CASES.add("empty_sequential", lambda: nn.Sequential(dense(), nn.Sequential(), nn.Identity()))
