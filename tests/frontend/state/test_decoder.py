"""The example of a decoder: its steps compute what the whole text computes, and an emulated board the host's bits."""

import pytest
import text_generation as bench
import torch
from tests import full

example = bench.decoder


def test_it_has_about_260_thousand_parameters():
    assert sum(weight.numel() for weight in example.Decoder().parameters()) == 263_872


def test_steps_equal_the_whole():
    torch.manual_seed(0)
    model, letters = example.Decoder(layers=2).eval(), example.text()[:12]
    with torch.no_grad():
        whole = model.whole(letters[None])[0]
        steps = torch.cat([model(letters[i : i + 1]) for i in range(len(letters))])
    torch.testing.assert_close(steps, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("target", full.first(bench.TARGETS, 1))
def test_a_board_generates_what_the_host_does(target: str):
    row = bench.measure(target, steps=0, layers=1, letters=4)
    assert row.is_equal
    assert len(row.text) == bench.PROMPT + 4
