"""Interface of a plan for the encoder, which does not import the planner."""

from collections.abc import Mapping
from typing import Protocol

from deuteron.operators.regions import Place
from deuteron.operators.transfers import Transfer


class Planned(Protocol):
    """Addresses of a program's buffers."""

    @property
    def placements(self) -> Mapping[str, Place]:
        """Place of each buffer."""
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
        """Bytes at the start of the prefetch region that keep their content from run to run."""
        ...

    @property
    def ends(self) -> Mapping[str, int]:
        """Offsets in scratch of inputs and outputs that are placed there."""
        ...

    @property
    def transfers(self) -> Mapping[int, tuple[Transfer, ...]]:
        """Fetches and waits by the call that they precede."""
        ...
