"""Record of an Ethos-U partition for a build, from the input and output files of Vela."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass

from deuteron.errors import FormatError
from deuteron.npu.dataflow import Dataflow
from deuteron.npu.ethosu import database as databases
from deuteron.npu.ethosu import origins, tosa
from deuteron.npu.ethosu.dataflow import dataflow
from deuteron.npu.ethosu.estimates import schedule_of
from deuteron.npu.ethosu.program import program_of
from deuteron.npu.ethosu.tosa import Graph
from deuteron.npu.provenance import Provenance
from deuteron.npu.schedule import NO_SCHEDULE, Schedule

_HINT = "build the model again"


@dataclass(frozen=True, slots=True)
class Record:
    """TOSA graph, provenance, dataflow and Vela's schedule of a partition."""

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
"""The files of a partition that is not compiled yet."""


def record_of(payload: bytes, files: VelaFiles, where: str) -> Record:
    """Return the record of a partition; FormatError, with `where`, if a file is damaged or of another partition."""
    program = program_of(payload, where)
    graph = tosa.read(files.tosa, where)
    database = databases.read(files.database, where)
    scheduled = origins.schedule(program.stream, database)
    schedule = schedule_of(program.stream, scheduled, database, *_system(files.summary, where))
    values = dataflow(program.blob, program.stream, graph, scheduled, schedule.memories)
    return Record(graph, origins.provenance(program.stream, graph, scheduled), values, schedule)


def cycles_of(summary: str, where: str) -> int:
    """Return Vela's estimate of the cycles of a partition; FormatError, with `where`, if its summary has none."""
    try:
        return round(float(_row(summary)["cycles_total"]))
    except (KeyError, ValueError):
        raise FormatError("Vela's summary has no cycles", where=where, hint=_HINT) from None


def _system(summary: str, where: str) -> tuple[str, int]:
    """Return the name of the system configuration, and its clock of the NPU."""
    row = _row(summary)
    try:
        return f"{row['system_config']}, {row['memory_mode']}", round(float(row["core_clock"]))
    except (KeyError, ValueError):
        message = "Vela's summary does not name its system configuration"
        raise FormatError(message, where=where, hint=_HINT) from None


def _row(summary: str) -> Mapping[str, str]:
    for row in csv.DictReader(summary.splitlines()):
        return row
    return {}
