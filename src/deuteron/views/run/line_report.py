"""Reports on runs of a board at the end of a line: times of steps, the stack, and what the line lost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deuteron.board import qemu
from deuteron.board.harness.program import BoardRun, Expected
from deuteron.board.harness.protocol import Identity
from deuteron.errors import counted
from deuteron.runtime.inputs import Sample

NPU_EMULATED = "counts of NPU steps are those of the core, which emulates the NPU; they are not NPU times"


@dataclass(frozen=True, slots=True)
class Ran:
    """The last runs: samples, the board, and what it did."""

    samples: Sequence[Sample]
    identity: Identity
    runs: Sequence[BoardRun]
    sent_again: int
    restarts: int

    @property
    def outputs(self) -> list[Sample]:
        """Return the outputs of each run."""
        return [run.outputs for run in self.runs]


def _scaled(identity: Identity, ticks: int) -> int:
    """Return instructions of an emulated core, cycles where ticks are the core's, or ticks."""
    return qemu.instructions(ticks, identity.ticks_hz) if identity.counts_instructions else ticks


def _unit(identity: Identity) -> str:
    if identity.counts_instructions:
        return "instructions"
    return "cycles" if identity.ticks_hz == identity.core_hz else "ticks"


def _kind(identity: Identity) -> str:
    return "counted" if identity.counts_instructions else "measured"


def lines(ran: Ran, expected: Expected) -> Iterator[str]:
    """Yield the times of the first run by step, of preparation and of all runs, the stack and the line."""
    identity, run = ran.identity, ran.runs[0]
    rows = [(_scaled(identity, ticks), f"step {i}: {expected.steps[i]}") for i, ticks in run.steps]
    total = _scaled(identity, run.ticks)
    lost = run.result.lost
    others = f"executor, and {counted(lost, 'step')} without an event" if lost else "executor"
    rows += [(total - sum(count for count, _ in rows), others), (total, "run")]
    width = max(len(f"{count:,}") for count, _ in rows)
    yield f"\n{_unit(identity)} of sample 0 on {identity.board} ({_kind(identity)})"
    if identity.is_npu_emulated:
        yield NPU_EMULATED
    yield from (f"  {count:>{width},}  {title}" for count, title in rows)
    if not identity.counts_instructions:
        yield f"run: {1e3 * run.ticks / identity.ticks_hz:,.3f} ms (measured)"
    if reason := next((reason for each in ran.runs if (reason := each.untimed(identity))), None):
        yield f"warning: times are not known: {reason}"
    init = _scaled(identity, identity.init_ticks)
    yield f"once before the first run: {init:,} to check and prepare the program"
    totals = [_scaled(identity, each.ticks) for each in ran.runs]
    if len(totals) > 1:
        yield f"samples 0 to {len(totals) - 1}: {min(totals):,} to {max(totals):,} a run"
    if run.result.stack_used:
        yield f"stack: {run.result.stack_used:,} B used of {identity.stack_bytes:,} B"
    yield from lost_lines(ran.sent_again, ran.restarts)


def lost_lines(sent_again: int, restarts: int) -> Iterator[str]:
    """Yield the requests that were sent again and the board's restarts, if there were any."""
    if sent_again or restarts:
        were = "was" if sent_again == 1 else "were"
        yield (
            f"line: {counted(sent_again, 'request')} {were} sent again; the board restarted {counted(restarts, 'time')}"
        )


def to_json(ran: Ran, expected: Expected) -> Mapping[str, object]:
    """Return the times of every run by step, and the stack, as plain values."""
    identity = ran.identity
    runs = [
        {
            _unit(identity): _scaled(identity, run.ticks),
            "stack_bytes": run.result.stack_used,
            "lost_events": run.result.lost,
            "untimed": run.untimed(identity),
            "steps": [
                {"index": i, "title": expected.steps[i], _unit(identity): _scaled(identity, ticks)}
                for i, ticks in run.steps
            ],
        }
        for run in ran.runs
    ]
    counts = {
        "kind": _kind(identity),
        "npu_emulated": identity.is_npu_emulated,
        "unit": _unit(identity),
        "hz": qemu.INSTRUCTIONS_PER_SECOND if identity.counts_instructions else identity.ticks_hz,
        "init": _scaled(identity, identity.init_ticks),
        "stack_bytes_available": identity.stack_bytes,
        "runs": runs,
        "sent_again": ran.sent_again,
        "restarts": ran.restarts,
    }
    return {"board": identity.board, "core": f"0x{identity.core:08X}", "counts": counts}
