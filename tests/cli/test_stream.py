"""A network with state, window by window, compared with the float model over all windows at once."""

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from tests import store
from torch import nn

from deuteron import api
from deuteron.board import boards

from .conftest import Result

Run = Callable[..., Result]

pytestmark = pytest.mark.slow

STEPS, FEATURES, UNITS = 12, 6, 8

MODEL = f"""\
import torch
from torch import nn


class Keyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.classes = nn.GRUCell({FEATURES}, {UNITS}), nn.Linear({UNITS}, 3)

    def forward(self, x, state):
        state = self.cell(x, state)
        return self.classes(state), state


def keyword():
    torch.manual_seed(0)
    model, calibration = Keyword(), []
    with torch.no_grad():
        for _ in range(4):
            state = torch.zeros(1, {UNITS})
            for x in torch.randn({STEPS}, 1, {FEATURES}):
                calibration.append((x, state))
                _, state = model(x, state)
    return model, calibration[0], calibration
"""


@pytest.fixture(scope="session")
def build() -> Path:
    """Its build, for a CPU alone."""

    def make(output: Path) -> None:
        source = output.with_suffix(".py")
        source.write_text(MODEL)
        api.build_model(f"{source}:keyword", target="cortex-m33", output=output)

    return store.kept(MODEL, make, name="keyword")


def unrolled(windows: np.ndarray) -> np.ndarray:
    """Return the float model's output for all windows at once: its layer, with the cell's weights."""
    names: dict[str, object] = {}
    exec(MODEL, names)
    model = cast("Any", names["keyword"])()[0]
    layer = nn.GRU(FEATURES, UNITS, batch_first=True)
    layer.load_state_dict({f"{name}_l0": value for name, value in model.cell.state_dict().items()})
    with torch.no_grad():
        return model.classes(layer(torch.from_numpy(windows).reshape(1, STEPS, FEATURES))[0])[0].numpy()


def test_a_stream_gives_what_the_unrolled_float_model_gives(build: Path, tmp_path: Path, deuteron: Run) -> None:
    windows = torch.randn(STEPS, 1, FEATURES, generator=torch.Generator().manual_seed(3)).numpy()
    np.save(tmp_path / "x.npy", windows)
    scores, states = tmp_path / "scores.npy", tmp_path / "states.npy"
    written = ("--output", scores, "--output", states)
    result = deuteron("run", build, "--stream", "1=1", "--input", tmp_path / "x.npy", *written, "--compare")
    assert result.code == 0
    wanted, actual = unrolled(windows), np.load(scores)[:, 0]
    noise = ((wanted - actual) ** 2).sum()
    assert 10 * np.log10((wanted**2).sum() / noise) > 25
    from_python = list(api.stream(build, [[x] for x in windows], {1: 1}))
    np.testing.assert_array_equal(np.stack([state for _, state in from_python]), np.load(states))
    alone = list(api.run_each(build, [[x, np.zeros((1, UNITS), np.float32)] for x in windows]))
    assert np.abs(np.stack([score for score, _ in alone])[:, 0] - wanted).max() > 0.1  # the state does matter


def test_a_board_carries_states_too(build: Path, tmp_path: Path, deuteron: Run) -> None:
    windows = torch.randn(3, 1, FEATURES, generator=torch.Generator().manual_seed(4)).numpy()
    np.save(tmp_path / "x.npy", windows)
    firmware = store.firmware(build, boards.load("an505"))
    args = ("run", firmware, "--on", "an505", "--stream", "1=1", "--input", tmp_path / "x.npy")
    written = ("--output", tmp_path / "scores.npy", "--output", tmp_path / "states.npy")
    result = deuteron(*args, *written)
    assert (result.code, "samples 0 to 2: " in result.out) == (0, True)
    on_host = list(api.stream(build, [[x] for x in windows], {1: 1}))
    np.testing.assert_array_equal(np.load(tmp_path / "states.npy"), np.stack([state for _, state in on_host]))
    from_python = list(api.stream(firmware, [[x] for x in windows[:2]], {1: 1}, on="an505"))
    for outputs, wanted in zip(from_python, on_host[:2], strict=True):
        assert all(map(np.array_equal, outputs, wanted))


def test_what_has_been_is_kept_by_nobody(build: Path) -> None:
    """A stream may have no end."""
    states: list[weakref.ref[np.ndarray]] = []
    for outputs in api.stream(build, ([x] for x in torch.zeros(STEPS, 1, FEATURES).numpy()), {1: 1}):
        states.append(weakref.ref(outputs[1]))
        assert sum(state() is not None for state in states) <= 3


def test_windows_are_drawn_where_there_are_none(build: Path, deuteron: Run) -> None:
    assert deuteron("run", build, "--stream", "1=1", "--samples", "3").out.count("output 1") == 3


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (
            ["--stream=1"],
            "`--stream 1` is not a pair of numbers\n\nhint: use `--stream 2=1` for output 1 as the next input 2",
        ),
        (["--stream", "1=1", "--stream", "1=0"], "`--stream` names input 1 twice"),
        (["--stream", "2=1"], "`--stream 2=1` names input 2, but the model has 2 inputs"),
        (["--stream", "1=4"], "`--stream 1=4` names output 4, but the model has 2 outputs"),
        (
            ["--stream", "0=1"],
            "`--stream 0=1` joins float32 [1, 8] to float32 [1, 6]\n\nhint: a state needs the same shape and dtype "
            "as input and output",
        ),
        (
            ["--stream", "1=1", "--compare", "float"],
            "the build's stored samples are not a stream\n\nhint: leave out `--compare float` or `--stream`",
        ),
        (
            ["--stream", "1=1", "--input", "x.npy", "--input", "state.npy"],
            "the model has 1 input besides those that `--stream` carries, but `--input` is given 2 times\n\n"
            "hint: give a file for each input: x float32 [1, 6]",
        ),
    ],
)
def test_what_is_no_stream_is_refused(args: list[str], error: str, build: Path, deuteron: Run) -> None:
    result = deuteron("run", build, *args)
    assert (result.code, result.err) == (2, f"error: {error}\n")
