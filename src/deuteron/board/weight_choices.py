"""Text on the layers of a program whose weights take more flash to be faster, or less."""

from collections.abc import Iterator

from deuteron.board import packed_weights
from deuteron.board.arena import Arena
from deuteron.board.bundle import Bundle
from deuteron.board.interleaved_weights import constant_bytes, inner_of
from deuteron.builds.manifest import CpuOp, Manifest


def lines(arena: Arena, manifest: Manifest) -> Iterator[str]:
    """Yield the flash of the constants and these layers, if the build has a flash budget."""
    budget = manifest.options.memory.flash_budget
    if budget is None:
        return
    yield f"flash: {constant_bytes(arena.bundle, inner_of(manifest.target)):,} B of constants of {budget:,} B"
    ops = _ops(manifest)
    for choice in arena.larger:
        name, source = _named(ops.get(choice.instruction), choice.instruction)
        yield (
            f"  {name}: {choice.form}, weights {choice.weights[0]:,} B -> {choice.weights[1]:,} B, "
            f"{choice.instructions[0]:,} -> {choice.instructions[1]:,} instructions (estimated){source}"
        )


def transformed_lines(arena: Arena, manifest: Manifest) -> Iterator[str]:
    """Yield the layers whose weights each run transforms, if there are any."""
    if not arena.transformed:
        return
    before, after = (sum(choice.instructions[i] for choice in arena.transformed) for i in range(2))
    yield (
        f"Winograd's algorithm, with weights transformed in free SRAM: {before:,} -> {after:,} instructions (estimated)"
    )
    ops = _ops(manifest)
    for choice in arena.transformed:
        name, source = _named(ops.get(choice.instruction), choice.instruction)
        yield (
            f"  {name}: {choice.scratch:,} B of scratch, "
            f"{choice.instructions[0]:,} -> {choice.instructions[1]:,} instructions{source}"
        )


def compressed_lines(arena: Arena, manifest: Manifest) -> Iterator[str]:
    """Yield the compressed weights, if there are any: bytes, and the work to decompress them in each run."""
    if not arena.compressed:
        return
    before, after = (sum(choice.sizes[i] for choice in arena.compressed) for i in range(2))
    work = sum(choice.instructions for choice in arena.compressed)
    yield (
        f"compressed weights: {after:,} B instead of {before:,} B; decompression takes {work:,} of "
        f"{arena.instructions[0]:,} instructions (estimated)"
    )
    ops = _ops(manifest)
    for choice in sorted(arena.compressed, key=lambda choice: choice.instruction):
        name, source = _named(ops.get(choice.instruction), choice.instruction)
        yield (
            f"  {name}: {choice.record.text}, {choice.sizes[1]:,} B instead of {choice.sizes[0]:,} B, "
            f"{choice.instructions:,} instructions{source}"
        )


def packed_lines(bundle: Bundle, manifest: Manifest) -> Iterator[str]:
    """Yield the layers with weights of four bits, if there are any: bytes, and the SQNR of the layer by itself."""
    layers = packed_weights.layers(bundle)
    if not layers:
        return
    total, whole = sum(layer.bytes for layer in layers), sum(layer.int8_bytes for layer in layers)
    yield f"weights of four bits: {total:,} B instead of {whole:,} B"
    ops = _ops(manifest)
    for layer in layers:
        op = ops.get(layer.instruction)
        name, source = _named(op, layer.instruction)
        sqnr = None if op is None else _own_sqnr(op, manifest)
        loss = "" if sqnr is None else f", {sqnr:.1f} dB by itself"
        yield f"  {name}: {layer.bytes:,} B instead of {layer.int8_bytes:,} B{loss}{source}"


def _own_sqnr(op: CpuOp, manifest: Manifest) -> float | None:
    """Return the SQNR of a layer by itself: of its result, or of that of the activation behind it."""
    own = {layer.name: layer.own for layer in manifest.quality.layers}
    at = next((at for at, node in enumerate(manifest.nodes) if node.name == op.computes), None)
    behind = () if at is None else manifest.nodes[at : at + 2]
    return next((own[node.quantised] for node in behind if node.quantised in own), None)


def _ops(manifest: Manifest) -> dict[int, CpuOp]:
    return {at: op for op in manifest.cpu_ops for at in op.instructions}


def _named(op: CpuOp | None, instruction: int) -> tuple[str, str]:
    """Return the name of a layer, and its line of the model."""
    if op is None:
        return f"instruction {instruction}", ""
    return f"{op.op} {op.node}".rstrip(), f"  {op.source[0].short}" if op.source else ""
