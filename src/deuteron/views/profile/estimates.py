"""Estimates of what a board measures: of operators on the CPU, of kernel calls, and of whole partitions."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from deuteron.arch import calibration, cores, targets
from deuteron.arch.memory import WeightsCompression
from deuteron.arch.targets import CpuOperators
from deuteron.builds.manifest import Manifest
from deuteron.views.events import record
from deuteron.views.events.events import Measure
from deuteron.views.profile.subject import Build


def with_estimates(build: Build, profile: record.Profile, core_hz: int, *, has_npu: bool) -> record.Profile:
    """Return the profile of a board with estimates, what they assume, and earlier measurements of the target.

    Args:
        build: the build that ran.
        profile: its profile.
        core_hz: rate of the core, if times were measured.
        has_npu: whether the times of its partitions are those of an NPU.
    """
    counts = profile.stream.measure is Measure.COUNTED
    hz = profile.stream.clock.hz
    on_cpu = tuple(
        record.Estimate(-1, index, cycles if counts else round(cycles * hz / core_hz))
        for index, cycles in _of_operators(build)
    )
    on_npu = tuple(_of_partitions(build, hz)) if has_npu else ()
    basis = [_assumption(build.manifest, 0 if counts else core_hz)] if on_cpu else []
    basis += [f"estimates of the NPU: {line}" for line in (build.basis[:1] if on_npu else ())]
    parts = ("cpu",) * bool(on_cpu) + ("npu",) * bool(on_npu)
    known = () if counts else dict.fromkeys(note for part in parts for note in calibration.notes(profile.target, part))
    return replace(profile, estimates=(*on_cpu, *on_npu), basis=(*profile.basis, *basis, *known))


def _assumption(manifest: Manifest, core_hz: int) -> str:
    core = targets.load(manifest.target).cpu.name
    rate = f", as cycles of {core_hz / 1e6:g} MHz" if core_hz else ""
    return f"estimates of the CPU: instructions of a {core}{rate}"


def _of_operators(build: Build) -> Iterator[tuple[int, int]]:
    """Yield the number and the estimated cycles of operators on the CPU whose work no other operator shares."""
    manifest, arena = build.manifest, build.arena.arena if build.arena else None
    cpu = targets.load(manifest.target).cpu
    if cpu.operators is not CpuOperators.CORTEX_M:
        return
    core = cores.load(cpu.name)
    nodes = {node.name: node for node in manifest.nodes}
    shared = Counter(op.computes for op in manifest.cpu_ops)
    is_compressed = manifest.options.memory.weights_compression is WeightsCompression.AUTO
    work: Mapping[int, int] = arena.work if arena else {}
    for index, op in enumerate(manifest.cpu_ops):
        node = nodes.get(op.computes)
        if node is not None and node.work.multiplies and is_compressed:
            continue  # what is measured includes the decompression of weights
        if len(op.instructions) == 1 and op.instructions[0] in work:
            cycles = core.call.value + work[op.instructions[0]]
        elif node is None:
            cycles = core.instructions(op.work, op.elements)
        elif shared[op.computes] == 1:
            cycles = core.instructions(node.work, node.elements, node.terms)
        else:
            continue  # several operators compute the node, whose estimate is for all of them
        if cycles:
            yield index, cycles


def _of_partitions(build: Build, hz: int) -> Iterator[record.Estimate]:
    """Yield the estimates of partitions and of their kernel calls, in ticks of `hz`."""
    for number, (run, _) in enumerate(build.partitions):
        timeline = run.timeline
        rate = hz / timeline.engine.clock
        yield record.Estimate(number, -1, round(timeline.cycles * rate))
        costs = [event.cost for event in timeline.events if event.cost is not None]
        yield from (
            record.Estimate(number, origin.index, round(cost.cycles * rate))
            for cost, origin in zip(costs, run.entry.kernels, strict=True)
        )
