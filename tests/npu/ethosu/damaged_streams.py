"""Command streams with one thing wrong, as a bad compiler or a bad memory might make them."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from tests.npu.ethosu.commands import Command, Commands

from deuteron.npu.ethosu.isa import Long, Op, Short

WAITS = (Op.DMA_WAIT, Op.KERNEL_WAIT)
ADDRESSES = (
    Long.IFM_BASE0, Long.OFM_BASE0, Long.IFM2_BASE0, Long.WEIGHT_BASE, Long.SCALE_BASE, Long.DMA0_SRC, Long.DMA0_DST,
)  # fmt: skip
REGIONS = (
    Short.IFM_REGION, Short.OFM_REGION, Short.IFM2_REGION, Short.WEIGHT_REGION, Short.SCALE_REGION,
    Short.DMA0_SRC_REGION, Short.DMA0_DST_REGION,
)  # fmt: skip


def all_orders(commands: Commands) -> Iterator[tuple[str, Commands]]:
    """Each wait left out, or for one less; and after each BLOCKDEP, and before each operation, the largest."""
    for i, command in enumerate(commands):
        if command.code in WAITS:
            yield f"without wait {i}", commands[:i] + commands[i + 1 :]
            yield f"wait {i} for one less", _with(commands, i, replace(command, param=command.param + 1))
        elif command.is_operation and command.code is not Op.DMA_START:
            yield f"blocks of {i}", (*commands[:i], Command(int(Short.BLOCKDEP), 7), *commands[i:])


def any_place(commands: Commands, rng: np.random.Generator) -> tuple[str, Commands]:
    """An address shifted, two addresses or regions swapped, or another region."""
    addresses = [i for i, c in enumerate(commands) if c.code in ADDRESSES]
    regions = [i for i, c in enumerate(commands) if c.code in REGIONS]
    kind = int(rng.integers(0, 4))
    if kind == 0:
        i = int(rng.choice(addresses))
        by = 16 * int(rng.choice((-64, -8, -2, -1, 1, 2, 8, 64)))
        payload = max(0, (commands[i].payload or 0) + by)
        return f"address {i} by {by}", _with(commands, i, replace(commands[i], payload=payload))
    if kind == 1:
        i = int(rng.choice(regions))
        region = int(rng.integers(0, 3))
        return f"region {i} is {region}", _with(commands, i, replace(commands[i], param=region))
    group = addresses if kind == 2 else regions
    i, j = (int(k) for k in rng.choice(group, 2))
    changed = list(commands)
    changed[i] = replace(commands[i], param=commands[j].param, payload=commands[j].payload)
    changed[j] = replace(commands[j], param=commands[i].param, payload=commands[i].payload)
    return f"{i} and {j} swapped", tuple(changed)


def _with(commands: Commands, at: int, command: Command) -> Commands:
    return (*commands[:at], command, *commands[at + 1 :])
