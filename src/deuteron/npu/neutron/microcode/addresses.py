"""What the encoder needs of a plan, so that this room does not import the planner's."""

from collections.abc import Mapping
from typing import Protocol

from deuteron.operators.regions import Place
from deuteron.operators.transfers import Transfer


class Planned(Protocol):
    """Addresses of a program's buffers."""

    @property
    def placements(self) -> Mapping[str, Place]:
        """Where each buffer lies."""
        ...

    @property
    def weights(self) -> bytes:
        """The weights image."""
        ...

    @property
    def scratch_bytes(self) -> int:
        """Size of the scratch region."""
        ...

    @property
    def prefetch_bytes(self) -> int:
        """Size of the prefetch region."""
        ...

    @property
    def resident_bytes(self) -> int:
        """Size of the part of the prefetch region that keeps its content."""
        ...

    @property
    def ends(self) -> Mapping[str, int]:
        """Where in scratch each input or output lies that lies there."""
        ...

    @property
    def transfers(self) -> Mapping[int, tuple[Transfer, ...]]:
        """Fetches and waits by the call that they come before."""
        ...
