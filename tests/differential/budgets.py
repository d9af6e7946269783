"""A graph in less memory than it takes layer by layer: the same bytes, no hazard, and no access outside of the plan."""

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from deuteron.arch import targets
from deuteron.arch.memory import DepthFirst, MemoryOptions
from deuteron.errors import CapacityError
from deuteron.npu.neutron.budget import budget
from deuteron.npu.neutron.convert import Conversion, ConvertOptions, Lowered, lower_model, planned
from deuteron.npu.neutron.machine import hazards
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.operators.regions import Region
from deuteron.planner import Budget
from deuteron.planner import depth_first as planner
from deuteron.runtime.driver import Driver, _Block
from deuteron.tflite.decode import decode as decode_tflite

planner.STRICT = True

GUARD = 256
"""Bytes on each side of a memory that must not change."""
PAINT = b"\xa5"


@dataclass(frozen=True, slots=True)
class Found:
    """How many of a graph's programs compute some rows at a time, and what is wrong with them."""

    striped: int
    problems: tuple[str, ...]


def check(tflite: bytes, target: str, inputs: Sequence[bytes], shares: Sequence[float]) -> Found:
    """Check the programs of a file in these shares of the memory that it takes layer by layer.

    If a share is too small, the size in the error must be enough, and one byte less must not.
    """
    options, arch = ConvertOptions(), targets.load(target)
    lowered = lower_model(decode_tflite(tflite), arch, options)
    whole = planned(lowered, options, None)
    if whole.container is None:
        return Found(0, ())
    expected, _ = painted(whole.container, inputs)
    striped, problems = 0, list[str]()
    needs = whole.plan.scratch_bytes + whole.plan.constant_bytes
    ends = replace(lowered, program=lowered.program.with_ends_placed)
    for share in shares:
        for depth_first in (DepthFirst.AUTO, DepthFirst.ALWAYS):
            within = budget(arch, MemoryOptions(sram_budget=max(int(needs * share), 1), depth_first=depth_first))
            own = ends if within.sram % 2 else lowered  # as good as at random
            try:
                conversion = planned(own, options, within)
            except CapacityError as error:
                within = replace(within, sram=error.needed)
                conversion = planned(own, options, within)
                if _fits(own, replace(within, sram=error.needed - 1)):
                    problems.append(f"the error asks for {error.needed} bytes, and one less does")
            problems += _wrong(conversion, within, expected, inputs)
            striped += any(call.stripe for call in conversion.program.calls)
    return Found(striped, tuple(problems))


def _fits(lowered: Lowered, within: Budget) -> bool:
    """Return whether a plan is found."""
    try:
        planned(lowered, ConvertOptions(), within)
    except CapacityError:
        return False
    return True


def _wrong(conversion: Conversion, within: Budget, expected: list[bytes], inputs: Sequence[bytes]) -> Iterator[str]:
    """Yield the faults of a program in its budget."""
    where = f"in {within.sram} bytes, depth first {within.depth_first.value}"
    container, plan = conversion.container, conversion.plan
    assert container is not None
    taken = plan.scratch_bytes + (plan.prefetch_bytes if plan.transfers else plan.constant_bytes)
    if taken > within.sram:
        yield f"{where}: {taken} bytes are taken"
    found = hazards(decode(container), conversion.dataflow)
    if found:
        yield f"{where}: command {found[0].command}: {found[0].message}"
    outputs, is_clean = painted(container, inputs)
    if outputs != expected:
        yield f"{where}: other bytes"
    if not is_clean:
        yield f"{where}: bytes beside its memories are overwritten"


def painted(container: Container, inputs: Sequence[bytes]) -> tuple[list[bytes], bool]:
    """The outputs of a run, and whether it left the paint around scratch and prefetch area as it was.

    Inputs and outputs that have places in scratch are there.
    """
    places = decode(container).places
    with Driver().load(container) as model:
        sizes = [memory.size + 2 * GUARD for memory in (model._scratch, model._prefetch)]
        blocks = [_Block(size, PAINT * size) for size in sizes]
        scratch, prefetch = (block.address + GUARD for block in blocks)
        model._data.scratch, model._data.scratchWeights = scratch, prefetch
        model._data.outputs[len(model._outputs)] = scratch
        for (region, i), at in places.items():
            pointers = model._data.inputs if region is Region.INPUT else model._data.outputs
            pointers[i] = scratch + at
            if region is Region.INPUT:
                ctypes.memmove(scratch + at, inputs[i], len(inputs[i]))
        outputs = model.run(inputs)
        for (region, i), at in places.items():
            if region is Region.OUTPUT:
                outputs[i] = ctypes.string_at(scratch + at, len(outputs[i]))
        guards = (block.read()[part] for block in blocks for part in (slice(GUARD), slice(-GUARD, None)))
        return outputs, all(guard == PAINT * GUARD for guard in guards)
