"""Memory of a program's CPU tensors, step by step of its bundle."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from deuteron.board import arena, image, packed_weights, weight_choices
from deuteron.board.arena import Arena
from deuteron.board.interleaved_weights import constant_bytes, inner_of
from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import Manifest
from deuteron.errors import counted
from deuteron.npu.provenance import Cascade
from deuteron.views.memory.drawing import MemoryDrawing, picture, svg

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class ArenaPlanning:
    """Planned memory of CPU tensors; instructions are estimated."""

    path: str
    manifest: Manifest
    arena: Arena

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return nothing: a fault of such a plan is an error."""
        return ()

    def summary(self) -> str:
        """Return the SRAM, and the number of depth-first chains, in a line."""
        chains = self.arena.chains
        cut = f"{counted(len(chains), 'chain')} depth first, {self.arena.whole_bytes:,} B without"
        compressed = "".join(f"; {line}" for line in [*weight_choices.compressed_lines(self.arena, self.manifest)][:1])
        return f"SRAM: {self._total()}; {cut if chains else 'nothing depth first'}{compressed}"

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        yield f"{self.path} on {self.manifest.target}"
        yield f"SRAM: {self._total()}, at most {self.arena.memory.bound:,} B live at once"
        state = self.arena.bundle.state
        for tensor in () if state is None else state.tensors:
            yield f"  state: {tensor.name or 'a tensor'}, {tensor.bytes:,} B"
        yield from weight_choices.lines(self.arena, self.manifest)
        yield from weight_choices.transformed_lines(self.arena, self.manifest)
        yield from weight_choices.compressed_lines(self.arena, self.manifest)
        yield from weight_choices.packed_lines(self.arena.bundle, self.manifest)
        yield from self.details()

    def _total(self) -> str:
        budget = self.manifest.options.memory.sram_budget
        state = self.arena.bundle.state_bytes
        own = f"{self.arena.memory.nbytes:,} B" + (f" + {state:,} B state" if state else "")
        return own + ("" if budget is None else f" of {budget:,} B")

    def details(self) -> Iterator[str]:
        """Yield the depth-first chains and the memory over time, as text."""
        yield from self.depth_first()
        yield ""
        drawing = self.drawing()
        yield drawing.title
        yield from picture(drawing)

    def depth_first(self) -> Iterator[str]:
        """Yield the chains of steps that run depth first, if there are any."""
        chains = self.arena.chains
        if not chains:
            return
        cut, whole = self.arena.instructions
        more = f"{cut / whole - 1:+.1%} instructions (estimated)"
        if uncounted := self.arena.uncounted:
            more = f"at most {more}: {counted(uncounted, 'operator')} without instruction counts"
        yield (
            f"  depth first: {self.arena.memory.nbytes:,} B instead of {self.arena.whole_bytes:,} B, "
            f"{sum(chain.again for chain in chains):,} MACs recomputed, {more}"
        )
        for chain in chains:
            stripes = f"{chain.stripes} stripes of up to {counted(chain.height, 'row')}"
            yield (
                f"    chain {chain.number}: {chain.calls} operators in {stripes}, halo {chain.halo}, {chain.copies} "
                f"copies of kept rows, {chain.again:,} MACs recomputed; {self._ends(chain)}"
            )

    def _ends(self, chain: Cascade) -> str:
        """Return the model's lines at the first and last step of a chain."""
        of = {at: op for op in self.manifest.cpu_ops for at in op.instructions}
        sources = [of[at].source[0] for at in chain.ops if at in of and of[at].source]
        lines = [source.short for source in (*sources[:1], *sources[-1:])]
        return " to ".join(dict.fromkeys(lines))

    def drawing(self) -> MemoryDrawing:
        """Return the memory over time, in steps."""
        steps = self.arena.bundle.steps
        values = self.arena.names
        return MemoryDrawing("memory of the program, in steps", self.arena.memory, len(steps) + 2, values)

    def svg(self) -> str:
        """Return the memory over time as a picture."""
        return svg([self.drawing()])

    def to_json(self) -> dict[str, object]:
        """Return the report as plain values."""
        cut, whole = (None, None) if self.arena.uncounted else self.arena.instructions
        return {
            "schema": SCHEMA,
            "kind": "estimated",
            "path": self.path,
            "target": self.manifest.target,
            "sram": self.manifest.options.memory.sram_budget,
            "whole_bytes": self.arena.whole_bytes,
            "state": self.arena.bundle.state_bytes,
            "instructions": cut,
            "whole_instructions": whole,
            "uncounted": self.arena.uncounted,
            "chains": [asdict(chain) for chain in self.arena.chains],
            "flash": self.manifest.options.memory.flash_budget,
            "constants": constant_bytes(self.arena.bundle, inner_of(self.manifest.target)),
            "larger_weights": [asdict(choice) for choice in self.arena.larger],
            "transformed_weights": [choice.to_json() for choice in self.arena.transformed],
            "compressed_weights": [choice.to_json() for choice in self.arena.compressed],
            "packed_weights": [asdict(layer) for layer in packed_weights.layers(self.arena.bundle)],
            "memory": asdict(self.arena.memory),
            "warnings": [],
        }


def arena_planning(directory: Path) -> ArenaPlanning | None:
    """Return the planned memory of the build in a directory; None if ExecuTorch's plan is used.

    Raises:
        DeuteronError: as `deuteron.board.image.bundle_of`.
    """
    manifest = manifests.read(directory)
    plan = arena.arena_of(image.translated(directory, manifest), manifest)
    return None if plan is None else ArenaPlanning(str(directory), manifest, plan)
