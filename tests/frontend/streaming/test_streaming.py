"""Streams of models of windows: equal outputs, the state and work of a run, and what is refused."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import full
from tests.frontend.streaming import networks
from torch import Tensor, nn
from torch.nn import functional

from deuteron.builds.manifest import StreamInfo
from deuteron.builds.options import StreamOptions
from deuteron.errors import DeuteronError, InputError, InternalError, OptionError, UnsupportedError
from deuteron.frontend.eager import capture
from deuteron.frontend.streaming import check, model
from deuteron.frontend.streaming.model import Model
from deuteron.views.compare.windows import OnWindows

GRU = partial(networks.Recurrent, nn.GRU)
LSTM = partial(networks.Recurrent, nn.LSTM)

STREAMED: dict[str, tuple[Callable[[], nn.Module], str, int, int]] = {
    "tcn": (networks.Tcn, "2:2", 12, 8 * (2 + 4 + 22)),
    "tcn, one frame": (networks.Tcn, "-1", 24, 8 * (2 + 4 + 23)),
    "ds-cnn": (networks.DsCnn, "1:4", 6, 6 * 2 + 8 * 3 * 2 + 8 * 10),
    "ds-cnn, least hop": (networks.DsCnn, "1", 12, 6 * 2 + 8 * 3 * 2 + 8 * 11),
    "fsmn": (networks.Fsmn, "1:2", 1, 2 * 8 * 3),
    "fsmn that looks ahead": (partial(networks.Fsmn, 2), "1:2:4", 1, 2 * 8 * (3 + 2 + 1)),
    "mdtc": (networks.Mdtc, "1:3", 1, 8 * (2 + 4 + 2 + 4)),
    "gru, last frame": (partial(GRU, "last"), "1:2", 12, 2 * 8),
    "gru, state": (partial(GRU, "state"), "1:2", 12, 2 * 8),
    "gru, all frames": (partial(GRU, "all"), "1:2", 1, 2 * 8),
    "lstm, state": (partial(LSTM, "state"), "1:4", 6, 4 * 8),
    "valid": (networks.Valid, "2:6", 4, 0),
    "joined": (networks.Joined, "2:2", 1, 0),
    "transposed": (networks.Transposed, "2:1", 1, 0),
    "excited": (networks.Excited, "2:2", 12, 6 * 2 + 8 * 22),
    "numbered": (networks.Numbered, "2:2", 12, 0),
    "same": (partial(networks.Same, pools=False), "2:2:1", 1, 0),
}
"""For each network its options, the runs for a window, and the elements of its state, if they are counted."""

REPEATED = {"tcn, one frame", "ds-cnn, least hop", "gru, last frame", "gru, state"}
"""Other networks show what these show."""


def streamed(module: nn.Module, options: str, *more: Tensor) -> Model:
    torch.manual_seed(1)
    by_rows = options.startswith("1") and not isinstance(module, networks.Valid)
    samples = [(networks.rows(seed) if by_rows else networks.channels(seed),) for seed in range(2)]
    observed, graph = capture.captured(module.eval(), samples)
    return model.streamed(observed, graph, observed.samples, StreamOptions.parse(options))


@pytest.mark.parametrize("name", full.only(sorted(STREAMED), *(STREAMED.keys() - REPEATED)))
def test_a_stream_equals_its_windows(name: str):
    make, options, runs, state = STREAMED[name]
    torch.manual_seed(0)
    found = streamed(make(), options)
    assert found.info.runs == runs
    assert found.info.state_bytes == state or not state
    assert found.info.macs * runs <= found.info.window_macs * 1.5 or name in ("excited", "valid")


def test_a_stream_goes_on_from_run_to_run():
    torch.manual_seed(0)
    module = networks.Tcn().eval()
    found = streamed(module, "2:2")
    x = networks.channels(5)
    hops = list(found.hops([(x,)]))
    outputs = found.observed.run(hops)
    assert len(hops) == len(outputs) == networks.WINDOW // 2
    torch.testing.assert_close(outputs[-1][0], module(x), rtol=0, atol=1e-5)
    assert "times fewer" in found.info.text
    assert found.info.hop_bytes > found.info.state_bytes
    assert "pool or narrow it first" in found.info.warnings[0]  # the mean reads all 24 frames, in each run
    assert "2 new frames in each run" in found.info.text


class _Applied(nn.Module):
    """A causal convolution inside a function of this module and the inputs."""

    def __init__(self, apply: Callable[..., Tensor]) -> None:
        super().__init__()
        self.conv, self.slopes, self.apply_to = nn.Conv1d(4, 4, 3), nn.PReLU(24), apply

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.apply_to(self, *inputs)


def _causal(m: Any, x: Tensor) -> Tensor:
    return m.conv(functional.pad(x, (2, 0)))


def _applied(apply: Callable[..., Tensor], options: str, *inputs: Tensor) -> Model:
    torch.manual_seed(0)
    observed, graph = capture.captured(_Applied(apply).eval(), [inputs])
    return model.streamed(observed, graph, observed.samples, StreamOptions.parse(options))


@pytest.mark.parametrize(
    ("apply", "options"),
    [
        (lambda m, x: torch.relu(_causal(m, x)[:, :, -1:].expand(-1, -1, 24)), "2:4"),
        (lambda m, x: functional.avg_pool1d(_causal(m, x), 3, 2, ceil_mode=True), "2:4:4"),
        (lambda m, x: m.slopes(_causal(m, x).transpose(1, 2)).mean(1), "2:4"),
        (lambda m, x, y: _causal(m, x) + y[:, :, None], "2:4"),
    ],
)
def test_streams_of_example_zeros_equal_their_windows(apply: Callable[..., Tensor], options: str):
    """The check changes the samples, and so it finds what zeros hide."""
    inputs = (torch.zeros(1, 4, 24), torch.zeros(1, 4))
    assert _applied(apply, options, *inputs[: apply.__code__.co_argcount - 1]).info.hop == 4


def test_reductions_over_time_and_features_keep_the_features_sum():
    """Only what the next frames need is state: a number per channel and frame, not the features too."""
    reductions: dict[str, Callable[[Tensor], Tensor]] = {
        "mean": lambda y: y.mean((1, 2)),
        "kept": lambda y: y.mean((1, 2), keepdim=True),
        "amax": lambda y: y.amax((1, 2)),
        "sum": lambda y: y.sum((2, 1)),
        "pool": lambda y: functional.adaptive_avg_pool2d(y[None], 1),
    }
    for name, reduce in reductions.items():
        info = _applied(lambda m, x, reduce=reduce: reduce(_causal(m, x)), "2:4", torch.randn(1, 4, 24)).info
        assert info.state_bytes == 4 * 2 + 20, name


def test_figures_that_a_stream_does_not_lower():
    info = StreamInfo(1, 10, 1, 1, 0, window_macs=100, macs=100, window_bytes=50, state_bytes=40, hop_bytes=60)
    assert [one.split(";")[0] for one in info.warnings] == [
        "`--stream`: a run needs all multiply-accumulates of the window",
        "`--stream`: a run needs 60 B of SRAM or more, and the whole window 50 B: an operator reads the last frames of "
        "a large tensor",
    ]
    assert "a run needs 101 multiply-accumulates" in replace(info, macs=101).warnings[0]
    assert "no multiply-accumulates, as for the window" in replace(info, macs=0, window_macs=0).text
    assert "(100.0 times fewer)" in replace(info, macs=1).text


def test_first_frames_that_depend_on_an_input_without_frames_are_refused():
    with pytest.raises(UnsupportedError, match="first frames of `pad` depend on an input without frames"):
        _applied(lambda m, x, y: _causal(m, x + y[:, :, None]), "2:4", torch.randn(1, 4, 24), torch.randn(1, 4))


def test_inputs_with_different_numbers_of_frames_are_refused():
    with pytest.raises(OptionError, match="different sizes along dimension 2"):
        _applied(
            lambda m, x, y: _causal(m, x) + y.mean(2, keepdim=True), "2:4", torch.randn(1, 4, 24), torch.randn(1, 4, 12)
        )


def test_the_check_finds_a_stream_that_differs(monkeypatch: pytest.MonkeyPatch):
    write = model.write

    def wrong(*args: Any) -> object:
        made = write(*args)
        made.variables[0].initial.add_(1)
        return made

    monkeypatch.setattr(model, "write", wrong)
    with pytest.raises(InternalError, match="output 0 of the stream differs by"):
        streamed(networks.Tcn(), "2:2")
    assert check.TOLERANCE < 1e-6


@pytest.mark.parametrize(
    ("make", "options", "error", "text", "hint"),
    [
        (
            partial(networks.Same, pools=False),
            "2:2",
            UnsupportedError,
            "`conv1d` is not causal: output 0 reads 1 frame of the input after its own, at `x = functional.relu("
            "self.first(x))`",
            "pad before the first frame alone, or allow this latency: `--stream 2:HOP:1`",
        ),
        (
            partial(networks.Same, pools=True),
            "2:2:9",
            UnsupportedError,
            "`conv1d` reads zeros in place of 1 frame after the window, and `mean` reads all frames of its result, at "
            "`x = functional.relu(self.first(x))`",
            "pad before the first frame alone, as causal layers do: `functional.pad(x, (2, 0))` before the layer, and "
            "`padding=0` in it; then train it so",
        ),
        (
            partial(networks.Fsmn, 2),
            "1",
            UnsupportedError,
            "`pad` is not causal: output 0 reads 4 frames of the input after its own, at `y = y + right(functional.pad("
            "x, [0, 0, 0, self.after])[:, :, 1:, :])`",
            "pad before the first frame alone, or allow this latency: `--stream 1:HOP:4`",
        ),
        (
            networks.DsCnn,
            "1:3",
            OptionError,
            "`--stream 1:3`: a hop of 3 frames does not fit the strides of the model, whose product is 2, at "
            "`x = functional.relu(self.first(functional.pad(x.unsqueeze(1), (0, 0, 2, 0))))`",
            "use a multiple of 2, such as `--stream 1:4`",
        ),
        (
            networks.DsCnn,
            "1:26",
            OptionError,
            "`--stream 1:26`: a hop of 26 frames is longer than the window of 24",
            "use a shorter hop",
        ),
        (
            networks.Tcn,
            "3",
            OptionError,
            "`--stream 3`: no input has frames along dimension 3: `x` [1, 6, 24]",
            "give the dimension of time of the window, counted from 0",
        ),
        (
            partial(GRU, "state"),
            "1:5",
            UnsupportedError,
            "`getitem` reads the state after the last frame of a window, which is within a hop, at `y, state = "
            "self.layer(x)`",
            "use a window of a multiple of 5 frames, or the last frame of the layer's output",
        ),
    ],
)
def test_what_no_stream_computes_is_refused_with_its_line(
    make: Callable[[], nn.Module], options: str, error: type[DeuteronError], text: str, hint: str
):
    with pytest.raises(error) as caught:
        streamed(make(), options)
    assert (caught.value.message, caught.value.hint) == (text, hint)


@pytest.mark.parametrize("text", ["", "x", "2:", "2:0", "2:1:1:1", "2:-1"])
def test_other_forms_of_the_option_are_refused(text: str):
    with pytest.raises(OptionError, match="is not of the form AXIS"):
        StreamOptions.parse(text)


@pytest.mark.parametrize("text", ["2", "-1", "2:4", "2:4:1"])
def test_the_option_as_text(text: str):
    assert str(StreamOptions.parse(text)) == text


def test_the_example_of_the_guide():
    page = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "streams.md").read_text("utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(code, names)
    module, x, recordings = names["net"]()
    observed, graph = capture.captured(module.eval(), [(x,)])
    found = model.streamed(observed, graph, observed.samples, StreamOptions(2, 1))
    assert len(list(found.hops([(one,) for one in recordings]))) == 4 * 150
    (printed,) = re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert " ".join(printed.split()) == found.info.text


def on_windows(window: int, inputs: tuple[int, ...] = (0, 1)) -> tuple[OnWindows, list[str]]:
    """A stream of two inputs with hops of 2 frames, and the calls that it gets."""
    calls: list[str] = []

    def step(x: Tensor, _: Tensor) -> list[Tensor]:
        calls.append(f"step {int(x[0, 0])}")
        return [x]

    info = StreamInfo(1, window, 2, 1, 0, window_macs=0, macs=0, window_bytes=0, state_bytes=0, outputs=((1, 0),))
    return OnWindows(replace(info, inputs=inputs), step, lambda: calls.append("reset")), calls


def test_each_window_starts_from_the_initial_state_also_of_one_hop():
    x = torch.arange(4.0)[None]
    for window, frames, wanted in (
        (4, 4, ["reset", "step 0", "step 2"]),
        (4, 2, ["step 0"]),
        (2, 2, ["reset", "step 0"]),
        (2, 4, ["reset", "step 0", "step 2"]),
    ):
        stream, calls = on_windows(window)
        assert torch.equal(stream(x[:, :frames], x[:, :frames])[0], x[:, :frames])
        assert calls == wanted


def test_windows_and_sequences_of_unlike_lengths_are_refused():
    stream, _ = on_windows(4)
    with pytest.raises(InputError) as caught:
        stream(torch.zeros(1, 4), torch.zeros(1, 6))
    assert str(caught.value) == (
        "windows have 4 and 6 frames along dimension 1, and all inputs of a run need as many\n\n"
        "hint: cut them to the same frames"
    )

    with pytest.raises(InputError, match="windows have 8 and 2 frames"):
        stream(torch.zeros(1, 8), torch.zeros(1, 2))
    with_constant, calls = on_windows(2, (0,))
    assert with_constant(torch.arange(4.0)[None], torch.zeros(1, 2))[0].shape == (1, 4)
    assert calls == ["reset", "step 0", "step 2"]

    class Two(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return (x + y).cumsum(1)

    x = torch.randn(1, 4)
    observed, graph = capture.captured(Two(), [(x, x)])
    streamed = model.streamed(observed, graph, observed.samples, StreamOptions(1, 2))
    assert len(list(streamed.hops([(torch.zeros(1, 6), torch.zeros(1, 6))]))) == 3
    with pytest.raises(InputError) as caught:
        list(streamed.hops([(torch.zeros(1, 4), torch.zeros(1, 6))]))
    assert str(caught.value) == (
        "the inputs of a calibration batch have 4 and 6 frames, and the stream takes as many of each in every run"
        "\n\nhint: cut them to the same frames"
    )
