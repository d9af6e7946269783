"""Complex numbers become pairs of real ones, and Fourier transforms linear layers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.frontend.float_rewrites import Call, rewritten
from torch import Tensor, fx

from deuteron import api
from deuteron.errors import UnsupportedError
from deuteron.frontend.export import check_exported
from deuteron.frontend.quantize import complex_numbers, doubles, inplace

WINDOW = torch.hann_window(8)
TURNS = torch.polar(torch.ones(4, 4), torch.arange(16.0).view(4, 4))
WEIGHTS = torch.complex(torch.ones(3, 2), torch.arange(6.0).view(3, 2))


def _masked(x: Tensor) -> Tensor:
    spectrum = torch.fft.rfft(x, norm="ortho") * 1j
    spectrum[..., 3:] = 0
    return torch.fft.irfft(spectrum, n=8)


def _mixed(x: Tensor) -> Tensor:
    spectrum, out = torch.fft.rfft(x), torch.zeros(4, 5, dtype=torch.cfloat)
    out[:, :2] = torch.einsum("bi,io->bo", spectrum[:, :3], WEIGHTS)
    return torch.fft.irfft(out, n=8)


def _enhanced(x: Tensor, n: int, hop: int, length: int | None = None, **settings: Any) -> Tensor:
    spectrum = torch.stft(x, n, hop, return_complex=True, **settings)
    return torch.istft(spectrum * spectrum.abs().sigmoid(), n, hop, length=length, **settings)


FUNCTIONS: list[Callable[[Tensor], Tensor]] = [
    _masked,
    _mixed,
    lambda x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real,
    lambda x: torch.fft.ifft2(torch.fft.fft2(x) * 0.5).abs(),
    lambda x: torch.fft.irfft2(torch.fft.rfft2(x), s=(4, 6), norm="forward"),
    lambda x: torch.fft.rfft(x, n=12).abs() + torch.fft.rfftn(x[:, :7], dim=(1, 0)).real.sum(),
    lambda x: torch.fft.irfft(torch.fft.rfft(x, n=16).abs().square())[:, :8],
    lambda x: torch.fft.irfft(x + 0),
    lambda x: torch.fft.irfft(torch.fft.rfft(x), n=9) + torch.fft.fft(x, 9).imag,
    lambda x: torch.view_as_real(torch.view_as_complex(x.view(4, 4, 2)) * TURNS).flatten(1),
    lambda x: (torch.complex(x, -x).conj() / 2).transpose(0, 1).imag - torch.exp(1j * x).real.t(),
    lambda x: torch.stft(x, 8, 2, window=WINDOW, return_complex=True).abs(),
    lambda x: torch.stft(x[0], 8, 2, 6, window=WINDOW[:6], center=False, normalized=True, return_complex=True).real,
    lambda x: _enhanced(x.flatten(), 8, 2, window=WINDOW),
    lambda x: _enhanced(x.view(2, 16), 8, 3, 17, win_length=6, window=WINDOW[:6] + 0.1, normalized=True),
    lambda x: _enhanced(x.view(2, 16), 4, 2, 13, center=False, window=torch.ones(4)),
]


def _state_space(x: Tensor) -> Tensor:
    """The kernel of a diagonal state space, as S4D computes it of its parameters."""
    poles = -torch.arange(1.0, 5.0).view(2, 2) + 1j * torch.arange(4.0).view(2, 2)
    kernel = 2 * torch.einsum("hn,hnl->hl", WEIGHTS[:2] / poles, torch.exp(poles.unsqueeze(-1) * torch.arange(4))).real
    return torch.fft.irfft(torch.fft.rfft(x.view(4, 2, 4), n=8) * torch.fft.rfft(kernel, n=8), n=8)[..., :4]


@pytest.mark.parametrize("weights", [True, False])
def test_operators_on_weights_without_a_rule_become_constants(*, weights: bool) -> None:
    def write(model: fx.GraphModule) -> None:
        doubles.narrow(model)
        assert (complex_numbers.write(model, weights=weights) is None) == weights

    rewritten(Call(_state_space), (4, 8), write, rtol=1e-5)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_complex_numbers_become_pairs(function: Callable[[Tensor], Tensor]) -> None:
    def write(model: fx.GraphModule) -> None:
        doubles.narrow(model)
        complex_numbers.write(model)
        inplace.write(model)
        values = [node.meta["val"] for node in model.graph.nodes if isinstance(node.meta.get("val"), Tensor)]
        assert not any(value.is_complex() for value in values)

    rewritten(Call(function), (4, 8), write, rtol=1e-5)


def test_models_with_other_operators_on_complex_numbers_stay() -> None:
    found = rewritten(Call(lambda x: torch.fft.rfft(x).tanh().real), (4, 8), complex_numbers.write)
    assert torch.ops.aten.fft_rfft.default in found


def test_a_refusal_names_the_operator_on_complex_numbers() -> None:
    def write(model: fx.GraphModule) -> None:
        check_exported(model, takes_complex=False, without_rule=complex_numbers.write(model))

    with pytest.raises(UnsupportedError, match=r"`aten::tanh` of complex numbers is not supported, at `.*tanh"):
        rewritten(Call(lambda x: (torch.fft.rfft(x) * 2).tanh().real), (4, 8), write, has_lines=True)


def _product_in_place(x: Tensor) -> Tensor:
    a = x * 1
    z = torch.complex(a, x + 1)
    z *= torch.complex(x + 2, x - 1)
    return torch.view_as_real(z * z).sum(-1) + a


def _view_in_place(x: Tensor) -> Tensor:
    y = x * 1
    torch.view_as_complex(y.view(4, 4, 2)).mul_(1j)
    return y


def _sum_in_place(x: Tensor) -> Tensor:
    a = x * 1
    z = torch.complex(a, x + 1)
    z.add_(torch.complex(x, x)).div_(z.real.clone())
    return z.imag + a


IN_PLACE: list[Callable[[Tensor], Tensor]] = [
    _product_in_place,
    _view_in_place,
    _sum_in_place,
    lambda x: (x.to(torch.complex64).reshape(2, 16) * torch.complex(x, x).reshape(2, 16)).imag,
    lambda x: torch.fft.rfft(x).angle().sin() + torch.fft.rfft(x).angle(),
]


@pytest.mark.parametrize("function", IN_PLACE)
def test_complex_operators_in_place(function: Callable[[Tensor], Tensor]) -> None:
    rewritten(Call(function), (4, 8), complex_numbers.write, inplace.write, rtol=1e-5)


def _written_behind_its_conjugate(x: Tensor) -> Tensor:
    z = torch.complex(x, x + 1)
    w = z.conj()
    z.mul_(2j)
    return w.imag


@pytest.mark.parametrize(
    "function",
    [_written_behind_its_conjugate, lambda x: torch.einsum("ab,bc,cd->ad", *[torch.complex(x, x)[:, :4]] * 3).real],
)
def test_complex_numbers_without_a_rule_stay(function: Callable[[Tensor], Tensor]) -> None:
    found = rewritten(Call(function), (4, 8), complex_numbers.write, rtol=1e-5)
    assert torch.ops.aten.complex.default in found


def test_a_spectrum_of_the_last_dimension_needs_no_copies() -> None:
    samples = [(x,) for x in torch.randn(4, 1, 16, generator=torch.Generator().manual_seed(0))]
    built = api.build(Call(lambda x: torch.fft.rfft(x).abs()), samples[0], target="cortex-m55", calibration=samples)
    assert not [op.op for op in built.manifest.cpu_ops if op.op.startswith("aten::")]
