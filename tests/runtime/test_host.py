"""The delegate in ExecuTorch's own runtime: values, dim orders, events, and every way to fail."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.runtime.conftest import Build

from deuteron import api
from deuteron.errors import FormatError, InputError, InternalError, UnsupportedError
from deuteron.npu.neutron.ir import interpret
from deuteron.npu.neutron.kernels.catalogue import CONV2D, FULLY_CONNECTED, KERNELS, SOFTMAX
from deuteron.npu.neutron.tflite import reader
from deuteron.runtime.host import HostRunner

pytestmark = pytest.mark.slow

Array = npt.NDArray[np.generic]
NCHW = b"\x04\0\0\0\x00\x01\x02\x03"
NHWC = b"\x04\0\0\0\x00\x02\x03\x01"
NWHC = b"\x04\0\0\0\x00\x03\x02\x01"


def inputs_of(runner: HostRunner, seed: int) -> list[Array]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(spec.shape).astype(np.float32) for spec in runner.inputs]


def patched(build: Build, name: str, tmp_path: Path, find: bytes, replace: bytes) -> Path:
    """A copy of a build's program with every occurrence of some bytes replaced."""
    data = (build(name) / "model.pte").read_bytes()
    assert find in data
    path = tmp_path / "model.pte"
    path.write_bytes(data.replace(find, replace))
    return path


@pytest.mark.parametrize("name", ["two", "conv", "conv_channels_last", "two_profiled"])
def test_the_npu_computes_what_the_interpreter_defines(build: Build, name: str) -> None:
    graph = reader.read((build(name) / "npu_0.tflite").read_bytes())
    runner = HostRunner(build(name) / "model.pte")
    with runner.observe() as calls:
        for seed in range(32):
            runner.run(inputs_of(runner, seed))
    assert len(calls) == 32
    for call in calls:
        fed = [value.reshape(graph.type(i).shape) for i, value in zip(graph.inputs, call.inputs, strict=True)]
        values = interpret.run(graph, fed)
        for output, found in zip(graph.outputs, call.outputs, strict=True):
            np.testing.assert_array_equal(found, values[output].reshape(-1))


def test_observing_ends_with_its_context(build: Build) -> None:
    runner = HostRunner(build("conv") / "model.pte")
    with runner.observe() as calls:
        runner.run(inputs_of(runner, 0))
    runner.run(inputs_of(runner, 1))
    assert len(calls) == 1
    assert calls[0].inputs[0].size == 192


def test_channels_last_programs_take_and_give_logical_shapes(build: Build, tmp_path: Path) -> None:
    contiguous = HostRunner(build("conv") / "model.pte")
    last = HostRunner(build("conv_channels_last") / "model.pte")
    assert last.inputs[0].channels_last
    x = inputs_of(last, 0)
    with last.observe() as seen_last:
        got = last.run(x)[0]
    with contiguous.observe() as seen_first:
        wanted = contiguous.run(x)[0]
    assert got.shape == wanted.shape == (1, 8, 8, 8)
    np.testing.assert_allclose(got, wanted, atol=1e-6)
    first = seen_first[0].inputs[0].reshape(1, 3, 8, 8)
    np.testing.assert_array_equal(seen_last[0].inputs[0], first.transpose(0, 2, 3, 1).reshape(-1))


def test_contiguous_tensors_are_reordered_where_the_payload_wants_channels_last(build: Build, tmp_path: Path) -> None:
    last = HostRunner(build("conv_channels_last") / "model.pte")
    first = HostRunner(patched(build, "conv_channels_last", tmp_path, NHWC, NCHW))
    assert not first.inputs[0].channels_last
    x = inputs_of(last, 0)
    with last.observe() as seen_last:
        wanted = last.run(x)[0]
    with first.observe() as seen_first:
        got = first.run(x)[0]
    np.testing.assert_array_equal(seen_first[0].inputs[0], seen_last[0].inputs[0])
    np.testing.assert_array_equal(seen_first[0].outputs[0], seen_last[0].outputs[0])
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("name", "find", "replace", "reason"),
    [
        (
            "conv_channels_last",
            NHWC,
            NWHC,
            "Input 0 has an unsupported dim order; allowed: contiguous, channels last",
        ),
        ("conv", NCHW, NHWC, "Input 0 has an unsupported dim order; allowed: contiguous"),
        (
            "conv",
            b"\x01\0\0\0\x03\0\0\0\x08\0\0\0\x08\0\0\0",
            b"\x01\0\0\0\x03\0\0\0\x08\0\0\0\x04\0\0\0",
            "Input 0 has 96 bytes, the microcode 192",
        ),
    ],
)
def test_tensors_that_do_not_fit_the_microcode(
    build: Build, tmp_path: Path, name: str, find: bytes, replace: bytes, reason: str
) -> None:
    path = patched(build, name, tmp_path, find, replace)
    runner = HostRunner(path)
    with pytest.raises(InternalError) as caught:
        runner.run(inputs_of(runner, 0))
    assert str(caught.value) == f"{path}: ExecuTorch's runtime failed to run the program: {reason}"


def test_inputs_that_do_not_fit_the_program(build: Build) -> None:
    runner = HostRunner(build("two") / "model.pte")
    x, y = inputs_of(runner, 0)
    hint = "hint: give arrays of these dtypes and shapes: float32 (1, 2, 6, 5), float32 (1, 6)"
    for inputs, message in (
        ([x], "the program takes 2 inputs, found 1"),
        ([y, x], "input 0 has the shape (1, 6), the program takes (1, 2, 6, 5)"),
        ([x, y.astype(np.float64)], "input 1 has the dtype float64, the program takes float32"),
    ):
        with pytest.raises(InputError) as caught:
            runner.run(inputs)
        assert str(caught.value) == f"{runner.path}: {message}\n\n{hint}"


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        HostRunner(tmp_path / "model.pte")
    assert str(caught.value) == (
        f"{tmp_path / 'model.pte'}: cannot read the program: No such file or directory\n\n"
        "hint: give the `.pte` file that `deuteron build` wrote"
    )


def test_a_missing_method(build: Build) -> None:
    path = build("conv") / "model.pte"
    with pytest.raises(InputError) as caught:
        HostRunner(path, method="backward")
    assert str(caught.value) == f"{path}: the program has no method `backward`\n\nhint: its methods are `forward`"


def test_missing_operators_are_named(build: Build, tmp_path: Path) -> None:
    path = patched(build, "conv", tmp_path, b"quantize_per_tensor", b"quantile_per_tensor")
    with pytest.raises(UnsupportedError) as caught:
        HostRunner(path)
    assert str(caught.value) == (
        f"{path}: ExecuTorch's runtime has no operators "
        "`quantized_decomposed::dequantile_per_tensor.out`, `quantized_decomposed::quantile_per_tensor.out`\n\n"
        "hint: build the model for an NPU that supports these operators, or use other operators"
    )


def test_a_missing_backend_is_named(build: Build, tmp_path: Path) -> None:
    path = patched(build, "conv", tmp_path, b"NeutronBackend", b"ElectronBackend"[:14])
    with pytest.raises(UnsupportedError) as caught:
        HostRunner(path)
    assert caught.value.message == "the program needs backends that are not installed: `ElectronBacken`"
    assert caught.value.hint is not None
    assert "NeutronBackend" in caught.value.hint


def test_damaged_weights_are_refused_in_the_drivers_words(build: Build, tmp_path: Path) -> None:
    weights = (build("conv") / "npu_0.weights").read_bytes()
    path = patched(build, "conv", tmp_path, weights, bytes((weights[0] ^ 1,)) + weights[1:])
    with pytest.raises(FormatError) as caught:
        HostRunner(path)
    assert str(caught.value) == (
        f"{path}: ExecuTorch's runtime rejects the program: The NPU driver rejected the model: "
        "the weights are damaged: their CRC-32 does not match (error 0x00001613, detail 0)\n\n"
        "hint: the file is damaged, or another version of Deuteron or ExecuTorch wrote it: build it again"
    )


FLIPS = """
import json, random, sys
from pathlib import Path
from deuteron.errors import FormatError, InternalError
from deuteron.runtime import pte
from deuteron.runtime.host import HostRunner
import numpy as np

data, path, header_bytes = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]), int(sys.argv[3])
payload = pte.delegates(data)[0].payload
start = data.index(payload)
sound = HostRunner(sys.argv[1])
generator = np.random.default_rng(0)
inputs = [generator.standard_normal(spec.shape).astype(np.float32) for spec in sound.inputs]
expected = sound.run(inputs)
header = [(at, bit) for at in range(header_bytes) for bit in range(8)]
choose = random.Random(0)
others = [(choose.randrange(header_bytes, len(payload)), choose.randrange(8)) for _ in range(300)]
outcomes = {"refused": [], "equal": [], "differs": []}
for at, bit in header + others:
    broken = bytearray(data)
    broken[start + at] ^= 1 << bit
    path.write_bytes(broken)
    try:
        found = HostRunner(path).run(inputs)
        equal = all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
        outcomes["equal" if equal else "differs"].append((at, bit))
    except (FormatError, InternalError):
        outcomes["refused"].append((at, bit))
print(json.dumps(outcomes))
"""

HEADER_BYTES = 16
"""Header of the payload of `two`: 12 bytes for two inputs and two outputs, padded."""

UNNOTICED = {
    (3, 0): "the format of input 0: both formats are valid for a map of two channels, and nothing else tells them apart"
}
"""Bits, by byte of the payload and number, that change the outputs: why no check can find them."""


def test_flipped_bits_of_the_payload_are_refused_or_change_nothing(build: Build, tmp_path: Path) -> None:
    program, broken = build("two") / "model.pte", tmp_path / "broken.pte"
    command = (sys.executable, "-c", FLIPS, str(program), str(broken), str(HEADER_BYTES))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes: dict[str, list[tuple[int, int]]] = json.loads(done.stdout)
    assert {(at, bit) for at, bit in outcomes["differs"]} == set(UNNOTICED)
    assert len(outcomes["refused"]) > 300
    assert len(outcomes["equal"]) < 100  # padding, and formats of tensors that have no channels


SECOND_COPY = """
import ctypes, shutil, sys
from pathlib import Path
import numpy as np
from deuteron.runtime.host import HostRunner
from deuteron.native import LIBRARY_DIRECTORY

runner = HostRunner(sys.argv[1])
inputs = [np.ones(spec.shape, np.float32) for spec in runner.inputs]
first = runner.run(inputs)
for name in ("libdeuteron_driver.so", "libdeuteron_delegate.so"):
    shutil.copy(LIBRARY_DIRECTORY / name, sys.argv[2])
ctypes.CDLL(str(Path(sys.argv[2]) / "libdeuteron_delegate.so"))
again = HostRunner(sys.argv[1]).run(inputs)
assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
"""


def test_a_second_copy_of_the_delegate_changes_nothing(build: Build, tmp_path: Path) -> None:
    command = (sys.executable, "-c", SECOND_COPY, str(build("conv") / "model.pte"), str(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def events_of(runner: HostRunner, tmp_path: Path) -> list[tuple[str, list[float], list[bytes]]]:
    """Name, times in ms and metadata of the delegate's events, as ExecuTorch's Inspector reads them."""
    from executorch.devtools import Inspector

    runner.write_etdump(tmp_path / "events.etdp", tmp_path / "debug.bin")
    inspector = Inspector(etdump_path=str(tmp_path / "events.etdp"))
    return [
        (event.name, event.perf_data.raw, event.raw_delegate_debug_metadatas)
        for block in inspector.event_blocks
        for event in block.events
        if event.is_delegated_op
    ]


def test_events_of_a_profiled_run(build: Build, tmp_path: Path) -> None:
    runner = HostRunner(build("two_profiled") / "model.pte", etdump=True)
    runner.run(inputs_of(runner, 0))
    found = events_of(runner, tmp_path)
    calls = [event for event in found if event[0].isdecimal()]
    kernels = [metadata for _, _, metadata in calls]
    assert [name for name, _, _ in calls] == [str(i) for i in range(len(calls))]
    assert all(len(metadata) == 1 for metadata in kernels)
    assert {"conv2d_s8", "fully_connected_s8", "softmax_s8"} <= {*api.kernel_names([data for (data,) in kernels])}
    assert all(len(times) == 1 and 0 < times[0] < 1000 for _, times, _ in calls)
    others = {name: times for name, times, _ in found if not name.isdecimal()}
    assert set(others) == {"arguments", "run", "log"}
    assert sum(times[0] for _, times, _ in calls) <= others["run"][0]


def test_executorchs_own_script_prints_the_numbers_of_kernels(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from executorch.devtools import Inspector

    runner = HostRunner(build("two_profiled") / "model.pte", etdump=True)
    runner.run(inputs_of(runner, 0))
    for name in ("etrecord", "etdump"):
        (tmp_path / name).mkdir()
    shutil.copy(build("two_profiled") / "etrecord.bin", tmp_path / "etrecord")
    runner.write_etdump(tmp_path / "etdump" / "trace.etdump", tmp_path / "debug.bin")
    monkeypatch.chdir(tmp_path)
    # Its default is what was the output when it was imported.
    monkeypatch.setattr(Inspector.print_data_tabular, "__defaults__", (sys.stdout, True, False))
    runpy.run_module("executorch.examples.nxp.analyzing_with_inspector", run_name="__main__")
    output = capsys.readouterr().out
    numbers = [int(number) for number in re.findall(r"Neutron kernel (\d+)", output)]
    assert {CONV2D.kind, FULLY_CONNECTED.kind, SOFTMAX.kind} <= {*numbers} <= {kernel.kind for kernel in KERNELS}
    assert "Invalid metadata size" not in output
    assert "Error during inspection" not in output


def test_events_of_an_unprofiled_run(build: Build, tmp_path: Path) -> None:
    runner = HostRunner(build("two") / "model.pte", etdump=True)
    runner.run(inputs_of(runner, 0))
    assert [name for name, _, _ in events_of(runner, tmp_path)] == ["run"]


def test_events_must_be_asked_for(build: Build, tmp_path: Path) -> None:
    runner = HostRunner(build("conv") / "model.pte")
    with pytest.raises(InternalError) as caught:
        runner.write_etdump(tmp_path / "events.etdp", tmp_path / "debug.bin")
    assert str(caught.value) == "a runner without `etdump` has no events to write"


def test_executorchs_compiler_is_not_loaded_to_run(build: Build) -> None:
    script = (
        "import sys\n"
        "from deuteron.runtime.host import HostRunner\n"
        "HostRunner(sys.argv[1])\n"
        "assert 'torch._dynamo' not in sys.modules\n"
        "import executorch.exir._warnings\n"
        "assert executorch.exir.__file__, 'it is whole for those who import it'\n"
    )
    subprocess.run((sys.executable, "-c", script, build("conv") / "model.pte"), check=True)
