"""All that a build keeps of a partition beside its program, from what Vela got and what it wrote."""

import csv
from dataclasses import dataclass

from deuteron.errors import FormatError
from deuteron.npu.dataflow import Dataflow
from deuteron.npu.ethosu import database as databases
from deuteron.npu.ethosu import origins, tosa
from deuteron.npu.ethosu.estimates import schedule_of
from deuteron.npu.ethosu.program import program_of
from deuteron.npu.ethosu.tosa import Graph
from deuteron.npu.ethosu.values import dataflow
from deuteron.npu.provenance import Provenance
from deuteron.npu.schedule import NO_SCHEDULE, Schedule


@dataclass(frozen=True, slots=True)
class Record:
    """A partition's TOSA graph, which operations compute which of its operators, its values, and Vela's schedule."""

    graph: Graph
    provenance: Provenance
    values: Dataflow
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class VelaFiles:
    """A partition in TOSA, Vela's debug database, and the CSV file of its summary."""

    tosa: bytes
    database: str
    summary: str


NO_FILES = VelaFiles(b"", "", "")
NO_RECORD = Record(Graph((), (), ()), Provenance(), Dataflow(), NO_SCHEDULE)
"""Those of a partition that is not compiled yet."""


def record_of(payload: bytes, files: VelaFiles, where: str) -> Record:
    """The record of a partition; FormatError, placed at `where`, when a file is damaged or of another one."""
    program = program_of(payload, where)
    graph = tosa.read(files.tosa, where)
    database = databases.read(files.database, where)
    scheduled = origins.schedule(program.stream, database)
    schedule = schedule_of(program.stream, scheduled, database, *_system(files.summary, where))
    values = dataflow(program.blob, program.stream, graph, scheduled, schedule.memories)
    return Record(graph, origins.provenance(program.stream, graph, scheduled), values, schedule)


def _system(summary: str, where: str) -> tuple[str, int]:
    """What Vela was told of the system, and the NPU's clock in it."""
    for row in csv.DictReader(summary.splitlines()):
        try:
            return f"{row['system_config']}, {row['memory_mode']}", round(float(row["core_clock"]))
        except (KeyError, ValueError):
            break
    raise FormatError("Vela's summary does not say for which system it is", where=where, hint="build the model again")
