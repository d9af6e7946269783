"""A profile made by hand: two kernels, a fetch, a wait, a CPU operator."""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace

from deuteron.views.events.events import Clock, Event, Measure, SpanKind, Stream, Track
from deuteron.views.events.gaps import with_gaps
from deuteron.views.events.instruction_map import Instructions, PartitionCalls
from deuteron.views.events.record import CpuOp, Kernel, Op, Profile, ProfiledPartition, Source

SHA256 = "ab" * 32
HZ = 25_000_000
CONV = Source("model.py", 7, "x = self.conv(x)", "block.conv")
POOL = Source("model.py", 8, "return self.pool(x)", "block.pool")

INSTRUCTIONS = Instructions(
    SHA256,
    {1: 0},
    {0: ("quantized_decomposed::quantize_per_tensor.out", 0)},
    (PartitionCalls(("conv2d_s8", "max_pool_s8"), (0, None, None, 1), (0, 64, 0, 0)),),
)

STRIPE = "rows 0-1 in stripe 0 of chain 0"
DEPTH_FIRST = (
    "depth first: 600 B of scratch instead of 900 B, 10 MACs recomputed",
    "  chain 0: 1 call in 1 stripe of up to 2 rows",
)


def events() -> tuple[Event, ...]:
    """One run of 1000 ticks, of which 10 are unattributed."""
    npu = {"partition": 0}
    return with_gaps(
        [
            Event(SpanKind.RUN, Track.CPU, 0, 1000, "run"),
            Event(SpanKind.OPERATOR, Track.CPU, 0, 100, "quantized_decomposed::quantize_per_tensor.out", index=0),
            Event(SpanKind.DELEGATE, Track.CPU, 100, 990, "npu 0", **npu),
            Event(SpanKind.DISPATCH, Track.CPU, 100, 110, "conv2d_s8", index=0, **npu),
            Event(SpanKind.KERNEL, Track.NPU, 110, 610, "conv2d_s8", index=0, **npu),
            Event(SpanKind.FETCH, Track.CPU, 610, 620, "weights 0", index=1, **npu),
            Event(SpanKind.TRANSFER, Track.FLASH, 620, 700, "weights 0", index=1, nbytes=64, **npu),
            Event(SpanKind.WAIT, Track.CPU, 620, 700, "channel 0", index=2, **npu),
            Event(SpanKind.DISPATCH, Track.CPU, 700, 710, "max_pool_s8", index=1, **npu),
            Event(SpanKind.KERNEL, Track.NPU, 710, 985, "max_pool_s8", index=1, **npu),
        ]
    )


def profile(stream: Stream | None = None) -> Profile:
    """The profile of these events."""
    ops = (
        Op(0, "CONV_2D", ("aten_convolution_default",), (CONV,)),
        Op(1, "MAX_POOL_2D", ("aten_max_pool2d_default",), (POOL,)),
    )
    kernels = (
        Kernel(0, "conv2d_s8", (0,), "block.conv", 4000, 900, 64, 500, "compute", ("a",)),
        Kernel(1, "max_pool_s8", (1,), "block.pool", 0, 500, 0, 250, "SRAM", ("b",)),
    )
    quantize = CpuOp(0, "quantized_decomposed::quantize_per_tensor", "quantize", (), "")
    found = stream or Stream(Clock("npu", 1_000_000, "cycle"), Measure.SIMULATED, 1, events())
    return Profile(
        "net", "imxrt700", "sim", SHA256, {"deuteron": "0"}, {"use_profiling": "True"}, {}, 16, 1_000_000, found,
        (ProfiledPartition(SHA256, ops, kernels, ()),), (quantize,), (),
    )  # fmt: skip


def with_an_empty_kernel() -> Profile:
    """The same, but its convolution took no tick of the clock."""
    stream = profile().stream
    shown = (event for event in stream.events if event.kind is not SpanKind.UNATTRIBUTED)
    events = (replace(e, stop=e.start) if (e.kind, e.index) == (SpanKind.KERNEL, 0) else e for e in shown)
    return profile(replace(stream, events=with_gaps(events)))


def one_of_three_runs_held_up() -> Profile:
    """Three runs of 1,100, 90,000 and 1,000 ticks; the first two end in unexplained time."""
    found: list[Event] = []
    for run, ticks in enumerate((1100, 90_000, 1000)):
        own = [replace(event, run=run) for event in events() if event.kind is not SpanKind.UNATTRIBUTED]
        found += with_gaps(replace(event, stop=ticks) if event.kind is SpanKind.RUN else event for event in own)
    return profile(replace(profile().stream, runs=3, events=tuple(found)))


def lost_in_one_of_two_runs() -> Profile:
    """Two runs; the record has space for only the run event of the second."""
    stream = profile().stream
    second = with_gaps([Event(SpanKind.RUN, Track.CPU, 0, 1000, "run", 1)])
    return profile(replace(stream, runs=2, events=(*stream.events, *second), lost=9))


def npu_alone() -> Profile:
    """The same as a simulation has it: without the operator on the CPU."""
    stream = profile().stream
    return profile(replace(stream, events=tuple(e for e in stream.events if e.kind is not SpanKind.OPERATOR)))


def packet(
    records: Sequence[tuple[int, int, int, int]],
    start: int,
    stop: int,
    *,
    sha256: str = SHA256,
    version: int = 1,
    hz: int = HZ,
    lost: int = 0,
    run: int = 0,
) -> bytes:
    """Return a board's bytes for a run."""
    head = struct.pack(
        "<4sI32s7I", b"DTNP", version, bytes.fromhex(sha256), hz, 0, run, start, stop, len(records), lost
    )
    body = b"".join(struct.pack("<4I", *(value % (1 << 32) for value in record)) for record in records)
    return head + struct.pack("<I", zlib.crc32(body, zlib.crc32(head))) + body


def run_records(start: int) -> list[tuple[int, int, int, int]]:
    """The events of a run that starts at this tick: an operator, then the partition's four commands."""
    times = (
        (0, 0, 5, 10),  # copy of the input
        (1, 0, 10, 110),  # the operator
        (3, 0, 130, 530),  # conv
        (3, 1, 535, 545),  # fetch
        (3, 2, 550, 600),  # wait
        (3, 3, 605, 905),  # pool
        (4, 4, 125, 910),  # the driver
        (1, 1, 110, 920),  # the partition
        (5, 1, 920, 960),  # recording
        (2, 0, 965, 990),  # copy of the output
    )
    return [(kind, index, (start + a) % (1 << 32), (start + b) % (1 << 32)) for kind, index, a, b in times]


def striped() -> Profile:
    """The profile, whose convolution runs depth first."""
    made = profile()
    (partition,) = made.partitions
    conv, *others = partition.kernels
    kernels = (replace(conv, stripe=STRIPE), *others)
    return replace(made, partitions=(replace(partition, kernels=kernels, depth_first=DEPTH_FIRST),))
