"""Which lines of the model the steps of a program come from, as the manifest of its build says."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from deuteron.builds.manifest import Manifest, Source


@dataclass(frozen=True, slots=True)
class Origin:
    """What is known of a step: the node of the exported graph, and the lines, which may both be empty."""

    node: str = ""
    lines: tuple[Source, ...] = ()
    operators: int = 0

    @property
    def where(self) -> str:
        """The first line as `file:line`, empty if there is none."""
        return str(self.lines[0]) if self.lines else ""

    def __str__(self) -> str:
        """For readers of the C file: files by name only, so that the file is the same wherever it is made."""
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
        """That of a call of a CPU operator. Programs have calls that the manifest does not list."""
        return self._operators.get(instruction, Origin())

    def delegate(self, payload: bytes) -> Origin:
        """That of the partition with this payload."""
        digest = hashlib.sha256(payload).hexdigest()
        for partition in self._partitions:
            if partition.payload_sha256 == digest:
                sources = _unique(source for op in partition.ops for source in op.source)
                return Origin("", sources, len(partition.ops))
        return Origin()


def _unique(sources: Iterable[Source]) -> tuple[Source, ...]:
    return tuple(sorted(dict.fromkeys(sources), key=lambda source: (source.file, source.line)))
