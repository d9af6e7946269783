"""Each operation of a command stream is traced to the TOSA operators and the lines of the model that it computes."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.frontend.ethosu import networks
from tests.npu.ethosu.mixed_network import built
from tests.npu.ethosu.perturb import confirmed, confirmed_build, partitions

from deuteron.builds import manifest as manifests
from deuteron.errors import FormatError
from deuteron.npu.ethosu import database as databases
from deuteron.npu.ethosu import origins, tosa
from deuteron.npu.ethosu.estimates import schedule_of
from deuteron.npu.ethosu.isa import CONFIGS
from deuteron.npu.ethosu.partition_record import VelaFiles, record_of
from deuteron.npu.ethosu.program import EthosUProgram, program_of
from deuteron.npu.ethosu.stream import FeatureMap, Operation, Span, Stream
from deuteron.npu.schedule import NO_SCHEDULE
from deuteron.runtime import pte

SUMMARY = "system_config,memory_mode,core_clock\nMine,Sram_Only,1000000.0\n"


def entry() -> manifests.Partition:
    return manifests.read(built()).partitions[0]


def payload() -> bytes:
    return pte.read((built() / "model.pte").read_bytes()).methods[0].delegates[0].payload


def files() -> VelaFiles:
    return VelaFiles((built() / "npu_0.tosa").read_bytes(), (built() / "npu_0.xml").read_text("utf-8"), SUMMARY)


def test_each_operation_is_of_operators_and_lines() -> None:
    partition = entry()
    lines = [
        (kernel.kernel, " ".join(partition.ops[op].op for op in kernel.ops), _codes(partition, kernel.ops))
        for kernel in partition.kernels
    ]
    assert len(lines) == 38
    assert set(lines[:17]) == {("average_pool", "TRANSPOSE", ("x = self.first(x)",))}
    assert lines[17:] == [
        ("conv", "CONV2D RESCALE", ("x = self.first(x)", "x = torch.relu(x)")),
        ("depthwise", "DEPTHWISE_CONV2D RESCALE", ("y = self.second(x)",)),
        ("conv", "CONV2D RESCALE TABLE", ("y = self.third(y)", "y = torch.sigmoid(y)")),
        ("add", "RESCALE RESCALE ADD RESCALE", ("x = x + y",)),
        ("max_pool", "MAX_POOL2D", ("x = functional.max_pool2d(x, 2)",)),
        *(
            (kernel, ops, ("x = x.mean((2, 3))",))
            for kernel, ops in (
                ("average_pool", "RESCALE REDUCE_SUM"),
                ("reduce_sum", "RESCALE REDUCE_SUM"),
                ("sub", "RESCALE REDUCE_SUM"),
                ("average_pool", "REDUCE_SUM"),
                ("reduce_sum", "REDUCE_SUM RESCALE"),
                ("mul", "RESCALE MUL RESCALE"),
            )
        ),
        ("conv", "CONV2D RESCALE RESHAPE", ("x = self.last(x)",)),
        *(
            (kernel, ops, ("return torch.softmax(x, -1)",))
            for kernel, ops in (
                ("max_pool", "REDUCE_MAX"),
                ("add", "RESCALE"),
                ("mul", "RESCALE"),
                ("add", "RESCALE"),
                ("mul", "RESCALE"),
                ("sub", "SUB"),
                ("mul", "RESCALE TABLE"),
                ("conv", "RESCALE REDUCE_SUM RESCALE TABLE"),
                ("mul", "RESCALE RESCALE MUL RESCALE"),
            )
        ),
    ]
    named = {op for kernel in partition.kernels for op in kernel.ops}
    left = {op.op for op in partition.ops if op.index not in named}
    assert left == {"CONST", "CONST_SHAPE", "RESCALE"}  # the last is of the mean's divisor, which Vela computes


def _codes(partition: manifests.Partition, ops: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(source.code for op in ops for source in partition.ops[op].source))


def test_a_table_is_of_the_line_that_asks_for_it() -> None:
    tables = [op for op in entry().ops if op.op == "TABLE"]
    assert [(op.nodes, op.source[0].code) for op in tables] == [
        (("aten_sigmoid_default",), "y = torch.sigmoid(y)"),
        (("aten_exp_default",), "return torch.softmax(x, -1)"),
        (("aten_reciprocal_default",), "return torch.softmax(x, -1)"),
    ]


def test_changed_operators_confirm_the_map(tmp_path: Path) -> None:
    direct, found, operations = confirmed_build(built(), tmp_path)
    assert (direct >= 10, found) == (True, operations)


def test_a_wrong_map_is_found(tmp_path: Path) -> None:
    """The check itself: operators of the depthwise convolution and of the one before it are exchanged."""
    (partition,) = partitions(built())
    kernels = list(partition.kernels)
    kernels[17], kernels[18] = (replace(kernels[i], ops=kernels[j].ops) for i, j in ((17, 18), (18, 17)))
    with pytest.raises(AssertionError, match="operation 17 changed, the build names"):
        confirmed(replace(partition, kernels=kernels), tmp_path, every=2)


def test_a_map_that_names_too_little_is_found(tmp_path: Path) -> None:
    """The check itself: the RESCALE behind each convolution is left out."""
    (partition,) = partitions(built())
    graph = tosa.read(partition.tosa, "tosa")
    kernels = [
        replace(kernel, ops=tuple(op for op in kernel.ops if graph.operators[op].name != "RESCALE"))
        if kernel.kernel in ("conv", "depthwise")
        else kernel
        for kernel in partition.kernels
    ]
    with pytest.raises(AssertionError, match=r"operation 17 changed, the build names \[\]"):
        confirmed(replace(partition, kernels=kernels), tmp_path)


def test_each_value_is_written_before_it_is_read() -> None:
    values = entry().dataflow
    known = set(values.inputs)
    for *read, written in values.uses():
        assert {use.buffer for use in read} <= known | {"weights"}
        known.add(written.buffer)
    assert known.issuperset(values.outputs)


def test_copies_of_constants_alone_are_not_scheduled() -> None:
    """Vela lists no operation of a partition whose results are constants."""
    database = databases.Database(dict.fromkeys(("source", "perf", "group", "queue"), ()), "npu 0")
    copy = Operation(64, "copy", source=Span("weights", 0, 64), target=Span("scratch", 0, 64))
    assert origins.schedule(Stream(CONFIGS[0], 96, (copy,)), database) == ()


def test_a_copy_of_a_constant_after_the_last_call_is_not_scheduled() -> None:
    rows = {"source": ({"id": "1", "ext_key": "0"},), "group": (), "queue": ({"offset": "32", "scheduled_id": "7"},)}
    performed = {"id": "7", "source_id": "1", "name": "sum"}
    database = databases.Database({**rows, "perf": (performed,)}, "npu 0")
    copy = Operation(64, "copy", source=Span("weights", 0, 64), target=Span("scratch", 0, 64))
    (one,) = origins.schedule(Stream(CONFIGS[0], 96, (Operation(32, "add"), copy)), database)
    assert (one.ops, one.operations) == ((0,), (0,))


QUEUE = re.compile(r'(name="queue">.*?"scheduled_id"\n.*?\n).*?(\]\]>)', re.DOTALL)
"""Its first row."""
HINT = "\n\nhint: build the model again; the file is damaged, or another version of Vela wrote it"
DAMAGES: dict[str, tuple[Callable[[VelaFiles], VelaFiles], str]] = {
    "a table less": (
        lambda made: replace(made, database=made.database.replace('name="queue"', 'name="other"')),
        "npu 0: Vela's debug database has no table `queue`" + HINT,
    ),
    "no number": (
        lambda made: replace(made, database=made.database.replace('"Sram","OpLocal",0,', '"Sram","OpLocal",x,')),
        "npu 0: Vela's debug database has 'x' as `start_time`" + HINT,
    ),
    "fewer commands": (
        lambda made: replace(made, database=QUEUE.sub(r"\1\2", made.database)),
        "npu 0: Vela's debug database belongs to another command stream\n\nhint: build the model again",
    ),
    "no TOSA": (
        lambda made: replace(made, tosa=made.tosa[:100]),
        "npu 0: an offset leads to bytes",
    ),
    "no summary": (
        lambda made: replace(made, summary="experiment\ndefault\n"),
        "npu 0: Vela's summary does not name its system configuration\n\nhint: build the model again",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_is_said(name: str) -> None:
    damage, message = DAMAGES[name]
    with pytest.raises(FormatError) as raised:
        record_of(payload(), damage(files()), "npu 0")
    assert str(raised.value).startswith(message)


def test_a_schedule_is_of_its_program() -> None:
    program = program_of(payload(), "npu 0")
    schedule = entry().schedule
    with pytest.raises(FormatError) as raised:
        program.scheduled(replace(schedule, steps=schedule.steps[1:]))
    assert str(raised.value) == ("the schedule is of 43 commands, the program has 44\n\nhint: build the model again")
    assert isinstance(program.scheduled(NO_SCHEDULE), EthosUProgram)


def test_copies_belong_to_the_operation_that_they_are_issued_for() -> None:
    program = program_of(payload(), "npu 0")
    database = databases.read(files().database, "xml")
    scheduled = origins.schedule(program.stream, database)
    kinds = [[program.stream.operations[i].kind for i in one.operations] for one in scheduled]
    assert ["copy", "conv"] in kinds
    assert ["copy", "copy", "conv"] in kinds
    assert all(operations[-1] != "copy" for operations in kinds)
    assert len(tosa.read(files().tosa, "tosa").operators) > sum(len(one.ops) for one in scheduled)


def test_a_buffer_lives_from_its_copy_to_what_reads_it() -> None:
    """Vela's moments are longer: two buffers in one place share one where weights come in turns."""
    shape = FeatureMap("scratch", 0, (1, 1, 16), "int8", in_bricks=False, zero_point=0)
    fetched = Span("scratch", 64, 16)
    operations = (
        Operation(0, "conv", (shape,), shape),
        Operation(4, "copy", source=Span("weights", 0, 16), target=fetched),
        Operation(8, "conv", (shape,), shape, constants=(fetched,)),
        Operation(12, "conv", (shape,), shape),
    )
    rows = {
        "perf": [{"id": "1", "op_cycles": "4"}, {"id": "2", "op_cycles": "6"}],
        "perf_debug": [{"id": "1", "time_index": "0"}, {"id": "2", "time_index": "2"}],
        "tensors": [tensor("buffer", 1, 2, 64), tensor("result", 2, 3, 0)],
    }
    database = databases.Database({name: tuple(table) for name, table in rows.items()}, "xml")
    rows_of = [origins.Scheduled(1, "before", (), (0,)), origins.Scheduled(2, "result", (), (1, 2, 3))]
    (memory,) = schedule_of(Stream(CONFIGS[0], 16, operations), rows_of, database, "Mine", 1).memories
    assert [(b.name, b.first, b.last) for b in memory.blocks] == [("buffer", 1, 2), ("result", 1, 3)]
    assert (memory.nbytes, memory.bound) == (80, 32)


def tensor(name: str, first: int, last: int, start: int) -> databases.Row:
    times = {"start_time": str(first), "end_time": str(last)}
    return {"name": name, "memory": "Sram", "start_address": hex(start), "end_address": hex(start + 16), **times}


def test_an_operator_belongs_to_what_writes_its_result_and_to_its_readers_only_else() -> None:
    """A sum is reshaped, which changes no byte, and read; before it its operand is rescaled, which nothing writes."""
    one = FeatureMap("scratch", 0, (1, 1, 16), "int8", in_bricks=False, zero_point=0)
    stream = Stream(CONFIGS[0], 8, (Operation(0, "add", (one,), one), Operation(4, "mul", (one,), one)))
    graph = tosa.Graph(
        ("x",),
        ("z",),
        (
            tosa.Operator("RESCALE", ("x",), ("wide",)),
            tosa.Operator("ADD", ("wide",), ("sum",)),
            tosa.Operator("RESCALE", ("sum",), ("narrow",)),
            tosa.Operator("RESHAPE", ("narrow",), ("flat",)),
            tosa.Operator("MUL", ("flat",), ("z",)),
        ),
    )
    scheduled = [origins.Scheduled(1, "flat", (1,), (0,)), origins.Scheduled(2, "z", (4,), (1,))]
    provenance = origins.provenance(stream, graph, scheduled)
    assert [kernel.ops for kernel in provenance.kernels] == [(0, 1, 2, 3), (4,)]
    assert [fate.fate.value for fate in provenance.ops] == ["kernels", "kernels", "kernels", "free", "kernels"]


def test_a_result_that_is_known_before_is_of_its_node() -> None:
    (partition, _) = manifests.read(networks.built(networks.halves)).partitions
    (copied,) = (kernel for kernel in partition.kernels if kernel.kernel == "average_pool")
    assert [partition.ops[op].nodes for op in copied.ops] == [("aten_full_default",)]
    assert [kernel.ops for kernel in partition.kernels][:2] == [(10, 13, 18, 20), (25, 27, 32)]
