"""The driver through its ctypes wrapper: results, profile records, and what it refuses in which words."""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.graphs import random_graph, random_inputs

from deuteron.errors import DeuteronError, FormatError, InputError, counted
from deuteron.npu.neutron.convert import ConvertOptions, convert_graph
from deuteron.npu.neutron.ir import interpret
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.format import Header
from deuteron.runtime.driver import Driver

CONVERT_AGAIN = "convert the model again; damaged or foreign microcode does not run"


def container_of(graph: Graph, profiling: bool = False) -> Container:
    names = ("OP",) * (1 + max(index for op in graph.ops for index in op.origin))
    container = convert_graph(graph, names, ConvertOptions(profiling=profiling)).container
    assert container is not None
    return container


@pytest.fixture(scope="module")
def graph() -> Graph:
    return random_graph(3, ops=6)


@pytest.fixture(scope="module")
def container(graph: Graph) -> Container:
    return container_of(graph)


def expected(graph: Graph, inputs: Sequence[np.ndarray]) -> list[bytes]:
    values = interpret.run(graph, inputs)
    return [values[name].tobytes() for name in graph.outputs]


@pytest.mark.parametrize("name", ["driver", "driver_ref"])
@pytest.mark.parametrize("seed", range(8))
def test_results_are_the_interpreters(name: str, seed: int) -> None:
    graph = random_graph(seed)
    driver = Driver("driver" if name == "driver" else "driver_ref")
    with driver.load(container_of(graph)) as model:
        for draw in range(3):
            inputs = random_inputs(graph, draw)
            assert model.run([value.tobytes() for value in inputs]) == expected(graph, inputs)


@pytest.fixture
def levels() -> Iterator[Driver]:
    """The driver, which uses its highest level again afterwards."""
    driver = Driver()
    yield driver
    driver.use_level(driver.levels()[-1])


def test_results_are_the_same_at_every_level(levels: Driver) -> None:
    assert levels.level() == levels.levels()[-1]
    for name in levels.levels():
        levels.use_level(name)
        assert levels.level() == name
        for seed in range(8):
            graph = random_graph(seed)
            inputs = random_inputs(graph, 0)
            outputs = levels.run(container_of(graph), [value.tobytes() for value in inputs])
            assert outputs == expected(graph, inputs), (name, seed)


def test_a_level_that_the_processor_does_not_have(levels: Driver) -> None:
    with pytest.raises(InputError) as caught:
        levels.use_level("AVX9")
    assert str(caught.value) == (
        f"the kernels have no level `AVX9` on this processor\n\nhint: use one of: {', '.join(levels.levels())}"
    )
    assert levels.level() == levels.levels()[-1]


def test_run_loads_and_runs(graph: Graph, container: Container) -> None:
    inputs = random_inputs(graph, 0)
    assert Driver().run(container, [value.tobytes() for value in inputs]) == expected(graph, inputs)


def test_profile_has_a_record_per_call_and_one_for_the_run(graph: Graph) -> None:
    inputs = random_inputs(graph, 0)
    with Driver().load(container_of(graph, profiling=True)) as model:
        outputs, records = model.run_profiled([value.tobytes() for value in inputs])
    assert outputs == expected(graph, inputs)
    *calls, whole = records
    assert calls
    assert {record.opcode for record in calls} == {6}
    assert (whole.opcode, whole.function) == (0, 0)
    assert sum((r.stop - r.start) % 2**32 for r in calls) <= (whole.stop - whole.start) % 2**32


def test_without_profiling_there_are_no_records(graph: Graph, container: Container) -> None:
    with Driver().load(container) as model:
        assert model.run_profiled([v.tobytes() for v in random_inputs(graph, 0)])[1] == ()


def changed(container: Container, word: int, value: int) -> Container:
    """The container with one word of its microcode changed and the checksum made good."""
    data = bytearray(container.microcode)
    struct.pack_into("<I", data, 4 * word, value)
    struct.pack_into("<I", data, 4 * Header.CRC, 0)
    struct.pack_into("<I", data, 4 * Header.CRC, zlib.crc32(data))
    return replace(container, microcode=bytes(data))


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes((data[at] ^ 0x10,)) + data[at + 1 :]


REFUSALS: list[tuple[str, Callable[[Container], Container], str]] = [
    (
        "vendor",
        lambda c: changed(c, Header.DEUTERON_MAGIC, 1),
        "the driver rejected the microcode: the microcode is another converter's: only Deuteron's runs on this driver",
    ),
    (
        "version",
        lambda c: changed(c, Header.VERSION, 2 << 16),
        "the driver rejected the microcode: the microcode's format version is not one that this driver runs",
    ),
    (
        "microcode bit",
        lambda c: replace(c, microcode=flipped(c.microcode, len(c.microcode) - 1)),
        "the driver rejected the microcode: the microcode is damaged: its CRC-32 does not match",
    ),
    (
        "weights bit",
        lambda c: replace(c, weights=flipped(c.weights, 0)),
        "the driver rejected the microcode: the weights are damaged: their CRC-32 does not match",
    ),
]


@pytest.mark.parametrize(("change", "message"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_what_the_driver_refuses(container: Container, change: Callable[[Container], Container], message: str) -> None:
    with pytest.raises(FormatError) as caught:
        Driver().load(change(container))
    assert str(caught.value) == f"{message}\n\nhint: {CONVERT_AGAIN}"


def test_a_broken_command_is_named_by_its_number(container: Container) -> None:
    first = struct.unpack_from("<I", container.microcode, 4 * Header.FIRST_COMMAND)[0] // 4
    with pytest.raises(FormatError) as caught:
        Driver().load(changed(container, first, 0x1_0063))
    assert str(caught.value) == (
        "the driver rejected the microcode: the first word of a command is not one of the format's (command "
        f"0)\n\nhint: {CONVERT_AGAIN}"
    )


def test_blocks_shorter_than_the_header_says_never_reach_the_driver(container: Container) -> None:
    needed = len(container.microcode)
    cases = [
        (replace(container, microcode=container.microcode[:40]), "microcode of 40 bytes; its header alone has 80"),
        (
            replace(container, microcode=container.microcode[:-16]),
            f"the microcode should have {needed} bytes, there are {needed - 16}",
        ),
        (
            replace(container, weights=container.weights[:-16]),
            f"the weights should have {len(container.weights)} bytes, there are {len(container.weights) - 16}",
        ),
        (replace(container, kernels=b""), "the kernel list should have 4 bytes, there are 0"),
        (replace(container, kernels=struct.pack("<2I", 9, 1)), "the kernel list should have 40 bytes, there are 8"),
    ]
    for broken, message in cases:
        with pytest.raises(FormatError) as caught:
            Driver().load(broken)
        assert str(caught.value) == f"{message}\n\nhint: convert the model again"


def error_of(action: Callable[[], object]) -> DeuteronError:
    with pytest.raises(InputError) as caught:
        action()
    return caught.value


def test_inputs_that_do_not_fit(graph: Graph, container: Container) -> None:
    inputs = [value.tobytes() for value in random_inputs(graph, 0)]
    with Driver().load(container) as model:
        count = len(inputs)
        assert str(error_of(lambda: model.run([*inputs, b""]))) == (
            f"the microcode takes {counted(count, 'input')}, found {count + 1}\n\n"
            "hint: give one buffer per input of the partition"
        )
        size = len(inputs[0])
        assert str(error_of(lambda: model.run([inputs[0] + b"x", *inputs[1:]]))) == (
            f"input 0 has {size + 1} bytes, the microcode takes {size}\n\n"
            "hint: give int8 data in the shape of the partition's input"
        )
