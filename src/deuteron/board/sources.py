"""Source lines of the model for the steps of a program, from its build's manifest."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from deuteron.builds.manifest import Manifest, Source


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a step: the node of the exported graph, and the lines; both may be empty."""

    node: str = ""
    lines: tuple[Source, ...] = ()
    operators: int = 0

    @property
    def where(self) -> str:
        """Return the first line as `file:line`, empty if there is none."""
        return str(self.lines[0]) if self.lines else ""

    def __str__(self) -> str:
        """Format for the C file: files by name only, so that the text does not depend on their directories."""
        if not self.lines:
            return ""
        first, last = self.lines[0], self.lines[-1]
        text = first.short_with_code
        return text if first == last else f"{text} to {last.short_with_code}"


class Origins:
    """The origins of steps."""

    def __init__(self, manifest: Manifest | None) -> None:
        ops = manifest.cpu_ops if manifest else ()
        self._operators = {number: Origin(op.node, op.source) for op in ops for number in op.instructions}
        self._partitions = manifest.partitions if manifest else ()

    def operator(self, instruction: int) -> Origin:
        """Return the origin of a CPU operator's call; the manifest may not list the call."""
        return self._operators.get(instruction, Origin())

    def delegate(self, payload: bytes) -> Origin:
        """Return the origin of the partition with this payload."""
        digest = hashlib.sha256(payload).hexdigest()
        for partition in self._partitions:
            if partition.payload_sha256 == digest:
                sources = _unique(source for op in partition.ops for source in op.source)
                return Origin("", sources, len(partition.ops))
        return Origin()


def _unique(sources: Iterable[Source]) -> tuple[Source, ...]:
    return tuple(sorted(dict.fromkeys(sources), key=lambda source: (source.file, source.line)))
