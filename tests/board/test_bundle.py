"""Emitted bundles, compiled for this machine and run by the firmware, compared with ExecuTorch's runtime."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests import full, store
from tests.board import programs
from tests.board.conftest import Built
from tests.board.host import HostBundle, HostFirmware
from tests.board.models import MODELS

from deuteron import api
from deuteron.board import image, operators
from deuteron.board.bundle import Bundle
from deuteron.board.emit import Data, EmitOptions
from deuteron.board.tensor_bytes import from_bytes, to_bytes
from deuteron.board.translate import translate
from deuteron.builds import manifest
from deuteron.errors import UnsupportedError
from deuteron.runtime import pte
from deuteron.runtime.driver import Driver
from deuteron.runtime.host import HostRunner

pytestmark = pytest.mark.slow

Array = npt.NDArray[np.generic]
SMALL = (
    "conv",
    "conv_channels_last",
    "conv_channels_last_int8",
    "two",
    "two_int8",
    "two_profiled",
    "two_fetched",
    "view",
    "view_fetched",
)


def bundle_of(directory: Path) -> Bundle:
    """The bundle of a build."""
    program = pte.read((directory / manifest.PROGRAM).read_bytes())
    return translate(program, manifest.read(directory), name=directory.name)


def run(bundle: Bundle, host: HostBundle, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of the firmware."""
    data = [to_bytes(bundle.values[index], array) for index, array in zip(bundle.inputs, inputs, strict=True)]
    results = host.run(data)
    return [from_bytes(bundle.values[index], result) for index, result in zip(bundle.outputs, results, strict=True)]


def need_equal(bundle: Bundle, host: HostBundle, runner: HostRunner, inputs: Sequence[Array]) -> None:
    """Checks that firmware and runtime give the same bytes."""
    ours, theirs = run(bundle, host, inputs), runner.run(inputs)
    assert [(a.shape, a.dtype) for a in ours] == [(a.shape, a.dtype) for a in theirs]
    assert [a.tobytes() for a in ours] == [a.tobytes() for a in theirs]


REFERENCES = [example.name for example in api.REFERENCES if example.name != "mobilenet_v2"]
"""`make bench-boards` has all: this one takes as long as the others together, and has no kernel that they lack."""


@pytest.mark.parametrize("name", [*full.only(SMALL, *SMALL[::6]), *full.only(REFERENCES, "digits")])
def test_the_firmware_computes_what_executorch_does(
    name: str, built: Built, firmware: HostFirmware, tmp_path: Path
) -> None:
    directory = built(name)
    bundle = bundle_of(directory)
    host = firmware.load(bundle, tmp_path / name)
    runner = HostRunner(directory / manifest.PROGRAM)
    for inputs in api.seeded_inputs(runner, 3):
        need_equal(bundle, host, runner, inputs)


@pytest.mark.parametrize(
    ("name", "target", "is_bound"),
    full.first(
        [
            ("view", "cortex-m55", (True, True)),
            ("two_fetched", "imxrt700", (True, True, True, True)),
            ("ends_in_scratch", "imxrt700", (False, False)),
            ("view", "imxrt700", (True, True)),
            ("stripes_on_cpu", "cortex-m33", (True, True)),
        ],
        3,
    ),
)
def test_inputs_and_outputs_lie_in_the_callers_buffers(
    name: str, target: str, is_bound: tuple[bool, ...], firmware: HostFirmware, tmp_path: Path
) -> None:
    """Two of the last one's lie in its partition's scratch, which microcode addresses."""
    directory = store.network(MODELS[name], name, target=target)
    bundle = image.bundle_of(directory)
    host = firmware.load(bundle, tmp_path / name)
    inputs = api.seeded_inputs(api.read_manifest(directory), 1)[0]
    data = [to_bytes(bundle.values[index], array) for index, array in zip(bundle.inputs, inputs, strict=True)]
    assert host.run_bound(data) == (host.run(data), list(is_bound))


def test_bytes_in_arrays_are_the_same(built: Built, firmware: HostFirmware, tmp_path: Path) -> None:
    """The executor compares their CRCs."""
    bundle = bundle_of(built("two"))
    host = firmware.load(bundle, tmp_path / "arrays", EmitOptions(data=Data.ARRAYS))
    runner = HostRunner(built("two") / manifest.PROGRAM)
    need_equal(bundle, host, runner, api.seeded_inputs(runner, 1)[0])


@pytest.mark.parametrize(("name", "partitions"), [("two_fetched", 1), ("view_fetched", 2)])
def test_builds_that_fetch_weights_have_an_area_for_them(name: str, partitions: int, built: Built) -> None:
    delegates = bundle_of(built(name)).delegates
    assert [delegate.partition.fetches_weights for delegate in delegates] == [True] * partitions


def test_odd_numbers_are_quantized_alike(built: Built, firmware: HostFirmware, tmp_path: Path) -> None:
    directory = built("two")
    bundle = bundle_of(directory)
    host = firmware.load(bundle, tmp_path / "two")
    runner = HostRunner(directory / manifest.PROGRAM)
    (x, y) = api.seeded_inputs(runner, 1)[0]
    odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3.4e38, -3.4e38, 1e9, -1e9]
    ties = (np.arange(-20, 20) + 0.5) * np.float32(0.017647624015808105)
    x.reshape(-1)[: len(odd)] = odd
    x.reshape(-1)[len(odd) : len(odd) + len(ties)] = ties
    need_equal(bundle, host, runner, (x, y))


def int8_inputs(bundle: Bundle) -> list[Array]:
    """Seeded inputs for a program with int8 inputs."""
    generator = np.random.default_rng(3)
    shapes = (bundle.values[index].shape for index in bundle.inputs)
    return [generator.integers(-128, 128, shape, np.int8) for shape in shapes]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1)])
def test_partitions_get_channels_last(order: tuple[int, ...], firmware: HostFirmware, tmp_path: Path) -> None:
    bundle = translate(programs.channels_first(order), name="crossed")
    a, b = int8_inputs(bundle)
    s, m = run(bundle, firmware.load(bundle, tmp_path / "crossed"), (a, b))
    npu = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)).tobytes() for x in (b, a)]
    wanted = [np.frombuffer(data, np.int8).reshape(1, 3, 5, 4) for data in Driver().run(programs.ADD, npu)]
    assert np.array_equal(m, wanted[0].transpose(0, 3, 1, 2))
    assert np.array_equal(s, wanted[1].transpose(0, 3, 1, 2))


def test_partitions_follow_each_other(firmware: HostFirmware, tmp_path: Path) -> None:
    bundle = translate(programs.two_partitions(), name="two")
    host = firmware.load(bundle, tmp_path / "two")
    for _ in range(2):  # nothing is left over from the first run
        a, b = int8_inputs(bundle)
        m, s2, m2 = run(bundle, host, (a, b))
        first = [np.frombuffer(data, np.int8) for data in Driver().run(programs.ADD, [a.tobytes(), b.tobytes()])]
        middle = np.rint(first[1].astype(np.float32) * np.float32(0.5) * (np.float32(1) / np.float32(0.75))) + 11
        again = np.clip(middle, -100, 100).astype(np.int8)
        second = Driver().run(programs.ADD, [first[0].tobytes(), again.tobytes()])
        assert [m.tobytes(), s2.tobytes(), m2.tobytes()] == [first[1].tobytes(), *second]


def test_constants_are_inputs_of_partitions(firmware: HostFirmware, tmp_path: Path) -> None:
    make = programs.Maker()
    content = bytes(range(100, 160))
    a, c = make.tensor((1, 3, 5, 4)), make.constant((1, 3, 5, 4), content)
    s, m = make.tensor((1, 3, 5, 4)), make.tensor((1, 3, 5, 4))
    make.partition(programs.payload(programs.ADD, (0, 0)), a, c, s, m)
    bundle = translate(make.program((a,), (s, m, c)), name="constant")
    (x,) = int8_inputs(bundle)
    options = EmitOptions("other")
    results = run(bundle, firmware.load(bundle, tmp_path / "constant", options), (x,))
    assert [a.tobytes() for a in results] == [*Driver().run(programs.ADD, [x.tobytes(), content]), content]


def test_a_program_may_do_nothing(firmware: HostFirmware, tmp_path: Path) -> None:
    make = programs.Maker()
    a, b = make.unplanned((3, 5)), make.tensor((7,), "int16")
    bundle = translate(make.program((a, b), (b, a)), name='nothing \\ " */ ??/')
    x, y = np.arange(15, dtype=np.int8).reshape(3, 5), np.arange(7, dtype=np.int16)
    results = run(bundle, firmware.load(bundle, tmp_path / "nothing"), (x, y))
    assert [a.tobytes() for a in results] == [y.tobytes(), x.tobytes()]


def place_of(code: str) -> str:
    """`file:line` of a line of `models.py`."""
    path = Path(__file__).with_name("models.py")
    lines = path.read_text("utf-8").splitlines()
    return f"{path}:{1 + [line.strip() for line in lines].index(code)}"


def test_operators_that_firmware_lacks_are_named_with_their_line(built: Built) -> None:
    code = "y = torch.sigmoid(self.first(x))"
    with pytest.raises(UnsupportedError) as caught:
        bundle_of(built("sigmoid"))
    known = ", ".join(
        f"`{name}`" for name in operators.supported() if not name.startswith(("cortex_m::", "deuteron::"))
    )
    assert str(caught.value) == (
        f"{place_of(code)}: the operator `aten::sigmoid.out` is not in firmware, at `{code}`\n\nhint: build for "
        "a target whose CPU has int8 operators, such as `imxrt700cm` and `ethos-u55-128cm`, or run the program with "
        f"ExecuTorch's runtime on the device; of portable operators firmware has {known}"
    )


def test_steps_name_their_lines(built: Built) -> None:
    code = "return self.linear(self.conv(x).flatten(1))"
    line = f"models.py:{place_of(code).rpartition(':')[2]}: {code}"
    steps = bundle_of(built("view")).steps
    assert [step.source for step in steps] == ["", line, line, line, line, ""]
    assert [step.title.partition(",")[0] for step in steps] == [
        "quantized_decomposed::quantize_per_tensor.out",
        "partition 0: 3 kernel calls for 4 operators",
        "quantized_decomposed::dequantize_per_tensor.out",
        "quantized_decomposed::quantize_per_tensor.out",
        "partition 1: 1 kernel call for 1 operator",
        "quantized_decomposed::dequantize_per_tensor.out",
    ]
