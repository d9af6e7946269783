"""Text on the layers of a program that take more flash to be faster."""

from collections.abc import Iterator

from deuteron.board.arena import Arena
from deuteron.builds.manifest import Manifest


def lines(arena: Arena, manifest: Manifest) -> Iterator[str]:
    """Yield the flash of the constants and these layers, if the build has a flash budget."""
    budget = manifest.options.memory.flash_budget
    if budget is None:
        return
    yield f"flash: {sum(map(len, arena.bundle.constants)):,} B of constants of {budget:,} B"
    ops = {at: op for op in manifest.cpu_ops for at in op.instructions}
    for choice in arena.larger:
        op = ops.get(choice.instruction)
        source = f"  {op.source[0].short}" if op and op.source else ""
        name = f"{op.op} {op.node}".rstrip() if op else f"instruction {choice.instruction}"
        yield (
            f"  {name}: Winograd's algorithm, weights {choice.weights[0]:,} B -> {choice.weights[1]:,} B, "
            f"{choice.instructions[0]:,} -> {choice.instructions[1]:,} instructions (estimated){source}"
        )
