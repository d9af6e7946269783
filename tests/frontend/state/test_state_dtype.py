"""State of 16 bits in a program of 8 bits."""

import pytest
import torch
from tests.frontend.state.test_capture_state import made, stream
from torch import nn

from deuteron import api
from deuteron.builds.options import Activations, BuildOptions
from deuteron.errors import OptionError, UnsupportedError
from deuteron.runtime import pte

INT16 = BuildOptions(state_dtype=Activations.INT16)


def test_a_state_of_16_bits_loses_less():
    build = api.build(made("smoothed"), stream(1)[0], target="cortex-m55", calibration=stream(32), options=INT16)
    (method,) = pte.read(build.pte).methods
    assert [(tensor.name, tensor.spec.dtype) for _, tensor in method.state] == [("s", "int16")]
    assert build.manifest.quality.measured == "program"
    assert build.manifest.quality.outputs[0].sqnr > 53  # 44 with 8 bits


class Held(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("kept", torch.zeros(1, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept = torch.where(x > 0, self.layer(x), self.kept)
        return self.kept


def test_an_operator_of_a_state_that_keeps_8_bits_is_told():
    torch.manual_seed(0)
    samples = [(torch.randn(1, 8),) for _ in range(8)]
    build = api.build(Held().eval(), samples[0], target="cortex-m55", calibration=samples, options=INT16)
    (text,) = (one for one in build.manifest.warnings if one.startswith("`--state-dtype"))
    line = Held.forward.__code__.co_firstlineno + 1
    assert text == (
        f"`--state-dtype int16`: `aten::where.self`, at test_state_dtype.py:{line}: "
        "`self.kept = torch.where(x > 0, self.layer(x), self.kept)`, has activations of 8 bits, and with them the "
        "variable `kept`; write it with sums, products, layers and `torch.cat`"
    )


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (
            "imxrt700",
            {},
            "`--state-dtype int16` gives operators of the state int16 activations, but `imxrt700`",
        ),
        (
            "cortex-m55",
            {"activations": Activations.INT16},
            "`--state-dtype int16` and `--activations int16` exclude",
        ),
        ("cortex-m55", {"min_sqnr": 20.0}, "`--min-sqnr` and `--state-dtype int16` exclude each other"),
    ],
)
def test_options_that_do_not_fit(target: str, options: dict[str, object], message: str):
    given = BuildOptions(state_dtype=Activations.INT16, **options)  # pyright: ignore[reportArgumentType]
    with pytest.raises(OptionError) as caught:
        api.build(made("smoothed"), stream(1)[0], target=target, options=given)
    assert caught.value.message.startswith(message)


def test_a_model_without_state_is_refused():
    with pytest.raises(OptionError, match="`--state-dtype int16`: the model keeps nothing from run to run"):
        api.build(nn.Linear(8, 8).eval(), stream(1)[0], target="cortex-m55", options=INT16)


def test_a_state_of_integers_alone_is_refused():
    with pytest.raises(UnsupportedError, match="no operator that reads or computes a state has activations of 16 bits"):
        api.build(made("counted"), stream(1)[0], target="cortex-m55", calibration=stream(4), options=INT16)
