"""Builds of streams: the program of a hop compared with the program of the window, in int8."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.frontend.streaming import networks

from deuteron import api
from deuteron.builds import manifest as manifests
from deuteron.builds.options import BuildOptions, CalibrationMethod, StreamOptions
from deuteron.cli.app import main
from deuteron.errors import OptionError
from deuteron.runtime.host import HostRunner
from deuteron.views.compare.stream import StreamComparison
from deuteron.views.compare.windows import OnWindows

HOP = 4


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Builds of one network: of the window, and of a hop.

    Sums of these weights and samples are exact in float32, so that both have the same scales.
    """
    folder = tmp_path_factory.mktemp("stream")
    torch.manual_seed(0)
    module = networks.Mdtc(1, 2)
    for weight in module.parameters():
        weight.data = coarse(weight.data)
    windows = [coarse(networks.rows(seed)) for seed in range(4)]
    for name, stream in (("window", None), ("hop", StreamOptions(1, HOP))):
        options = BuildOptions(calibration_method=CalibrationMethod.MINMAX, stream=stream)
        api.build(module, windows[0], target="cortex-m55", calibration=windows, options=options, output=folder / name)
    return folder / "window", folder / "hop"


def coarse(values: torch.Tensor) -> torch.Tensor:
    return (values * 4).round() / 4


def hops(windows: list[np.ndarray]) -> list[tuple[np.ndarray]]:
    return [(window[:, at : at + HOP].copy(),) for window in windows for at in range(0, networks.WINDOW, HOP)]


@pytest.mark.full
def test_a_stream_has_the_bits_of_the_window_where_scales_agree(built: tuple[Path, Path]):
    window, hop = map(api.subject, built)
    windows = [networks.rows(seed).numpy() for seed in range(10, 13)]
    wanted = np.concatenate([y for (y,) in window.run([(x,) for x in windows])], 1)
    count = networks.WINDOW // HOP
    hop.resets = (0, count, 2 * count)
    ours = np.concatenate([y for (y,) in hop.run(hops(windows))], 1)
    assert np.array_equal(ours, wanted)
    assert len(np.unique(wanted)) > 20
    hop.resets = (0,)
    later = np.concatenate([y for (y,) in hop.run(hops(windows))], 1)
    assert np.array_equal(later[:, : networks.WINDOW], wanted[:, : networks.WINDOW])
    assert not np.array_equal(later, wanted)


@pytest.mark.full
def test_a_stream_with_resets_is_compared_with_quantized_pytorch(
    built: tuple[Path, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    _, hop = built
    subject = api.subject(hop)
    subject.resets = (0, 10, 20)
    comparison = subject.compare(hops([networks.rows(seed).numpy() for seed in range(20, 26)]))
    assert isinstance(comparison, StreamComparison)
    assert comparison.passed
    with pytest.raises(SystemExit) as ended:
        main(["run", str(hop), "--stream", "--samples", "20", "--reset", "10", "--compare"])
    assert not ended.value.code
    assert "on a stream of 20 samples" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["run", str(hop), "--samples", "20", "--reset", "10"])
    assert ended.value.code
    assert "`--reset` starts a new stream" in capsys.readouterr().err


def test_the_manifest_has_the_figures(built: tuple[Path, Path]):
    stream = api.read_manifest(built[1]).stream
    assert stream is not None
    assert (stream.axis, stream.window, stream.hop, stream.runs, stream.latency) == (1, networks.WINDOW, HOP, 1, 0)
    assert stream.window_macs == stream.macs * networks.WINDOW // HOP
    assert api.read_manifest(built[0]).stream is None


def test_training_and_streams_exclude_each_other():
    options = BuildOptions(use_qat=True, stream=StreamOptions(1))
    with pytest.raises(OptionError, match="`--use-qat` and `--stream` exclude each other"):
        api.build(networks.Mdtc(), networks.rows(), target="cortex-m55", train=lambda _: iter(()), options=options)


def test_a_function_for_windows_evaluates_a_stream(built: tuple[Path, Path]):
    """Each window starts from the initial state; the frames of all hops are joined."""
    runner = HostRunner(built[1] / manifests.PROGRAM)
    stream = api.read_manifest(built[1]).stream
    assert stream is not None
    assert stream.outputs == ((1, 0),)

    def step(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.from_numpy(y.copy()) for y in runner.run([x.numpy()])]

    model = OnWindows(stream, step, runner.reset)
    windows = [networks.rows(seed) for seed in (10, 11)]
    wanted = api.subject(built[0]).run([(x.numpy(),) for x in windows])
    for x, (y,) in zip(windows, wanted, strict=True):
        assert np.array_equal(model(x)[0].numpy(), y)
    hop = model(windows[0][:, :HOP])
    assert hop[0].shape[1] == HOP
